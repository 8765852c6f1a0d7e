"""Images by Pillow: the only file that imports PIL, when an image decoder is made.

What Pillow could do, and is kept from doing: run another program (Ghostscript, for EPS), read
formats that nobody trains on, fill a damaged image with grey or black, cut colours of 16 bits to
8, take signed values for unsigned ones or the other way round, swap the bytes of some values,
scale or invert what is to be kept, invert four colours of a JPEG, turn a TIFF, mistake which grey
is transparent, or unpack a small file into more memory than the limit.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError
from ._image_checks import DAMAGED, is_unsigned, refuse_what_would_change, unpacked

__all__ = ["image_decoder"]

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The formats that are read; the others of Pillow's are refused."""

_PLUGINS = ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP")

OLDEST = (11, 2)
"""The oldest Pillow that gives the pixels of the newest, where these are not refused. Before it,
some TIFFs with an orientation came turned another way; before 10.4, channels of no meaning in a
TIFF came as alpha."""

MAX_PIXELS = 89_478_485
"""Pillow's own bound, ``PIL.Image.MAX_IMAGE_PIXELS``: 256 MiB of RGB."""

_ORIENTATION = 274
"""The tag of a TIFF that says how a picture is to be turned or mirrored, as of TIFF 6.0."""

_BACK = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_90",
    7: "TRANSVERSE",
    8: "ROTATE_270",
}
"""What undoes an orientation, by the names of Pillow."""

_OBJECT = re.compile(" ?<[^<>]* at 0x[0-9A-Fa-f]+>")
"""How Pillow tells what it reads from: by an address, which is another one in each run."""


def image_decoder(
    mode: str = "RGB", max_pixels: int = MAX_PIXELS
) -> Callable[[bytes], npt.NDArray[Any]]:
    """Make a function from the bytes of an image file to its pixels.

    Pillow and its readers of `FORMATS` are imported here, in the thread that opens the
    source, and not by a worker's first read.

    Args:
        mode: ``"RGB"``, ``"RGBA"`` or ``"L"`` (grey), to which every image is converted,
            or ``"keep"``.
        max_pixels: images with more pixels are refused before they are unpacked.

    Returns:
        A function, safe in several threads. It gives a new array ``(height, width, 3)``
        of uint8; with 4 channels for RGBA, ``(height, width)`` for L. ``"keep"`` gives
        what the file has: bool or more bits of grey too, and indices of a palette as
        indices. Of an animation it is the first picture. Exif is not applied: a photograph
        that is to be turned stays as it lies. It raises SourceError for what is no whole
        image, and for one whose values would become others: cut to 8 bits, with or without a
        sign, or under ``"keep"`` scaled, inverted, or divided by their alpha; and for one that
        Pillow misreads, as docs/sources/files.md lists them.

    Raises:
        SourceError: Pillow is not installed, or older than `OLDEST`.
    """
    try:
        import PIL
        from PIL import Image
    except ImportError as error:
        raise SourceError(
            f'expected Pillow, which "decode": "image" needs, got: {error}; '
            "install it with: python3 -m pip install pillow",
            option="/decode",
        ) from error
    if tuple(map(int, PIL.__version__.split(".")[:2])) < OLDEST:
        raise SourceError(
            f"expected Pillow {OLDEST[0]}.{OLDEST[1]} or newer, since an older one gives other "
            f"pixels, got {PIL.__version__}; install it with: python3 -m pip install -U pillow",
            option="/decode",
        )
    for plugin in _PLUGINS:
        importlib.import_module(f"PIL.{plugin}ImagePlugin")
    # A Pillow built without WebP lacks that; to ask Pillow would load all its readers.
    formats = [name for name in FORMATS if name in Image.OPEN]

    def decode(data: bytes) -> npt.NDArray[Any]:
        try:
            with Image.open(BytesIO(data), formats=formats) as image:
                return _pixels(Image, image, data, mode, max_pixels)
        except (MemoryError, SourceError):
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise SourceError(
                f"expected an image within Pillow's own limit, got: {error}; if it is intended, "
                'raise "max_pixels", and PIL.Image.MAX_IMAGE_PIXELS in your program'
            ) from error
        except Exception as error:  # Pillow raises many kinds over damaged bytes
            reason = _OBJECT.sub("", str(error)) or type(error).__name__
            expected = f"expected a whole image ({', '.join(formats)})"
            raise SourceError(f"{expected}, got: {reason}; {DAMAGED}") from error

    return decode


def _pixels(module: Any, image: Any, data: bytes, mode: str, max_pixels: int) -> npt.NDArray[Any]:
    width, height = image.size
    if width * height > max_pixels:
        raise SourceError(
            f"expected at most {max_pixels} pixels, got {width} x {height}; "
            'raise "max_pixels" if it is intended'
        )
    refuse_what_would_change(image, data, mode)
    unsigned = image.format == "TIFF" and is_unsigned(image)
    # Unless a library unpacks them, Pillow leaves such values as they lie in the file.
    stored = "<u4" if unpacked(image) == "I;32N" and image.tile[0][0] == "raw" else "=u4"
    if image.format == "PNG":
        # Its checksums, which reading the pixels passes over.
        with module.open(BytesIO(data), formats=["PNG"]) as again:
            again.verify()
    image = _as_it_lies(module, image)
    if mode not in ("keep", image.mode):
        if mode != "RGBA":
            # Dropped with the fourth channel; Pillow would drop it too, and warn.
            image.info.pop("transparency", None)
        image = image.convert(mode)
    # A copy: what is seen through Pillow's memory cannot be written to.
    array = np.array(image)
    if array.dtype == np.int32 and unsigned:
        array = array.view(stored)
    # A TIFF may have the other byte order, and beside a PNG they would not stack.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _as_it_lies(module: Any, image: Any) -> Any:
    """Load the pixels, and turn back those of a TIFF, which Pillow turns as its tag says.

    If the tag were removed instead, Pillow would mistake width for height.
    """
    turned = image.getexif().get(_ORIENTATION) if image.format == "TIFF" else None
    image.load()
    # Pillow takes away the orientation that it has obeyed.
    if turned in _BACK and _ORIENTATION not in image.getexif():
        return image.transpose(module.Transpose[_BACK[turned]])
    return image
