"""Images by Pillow: the only file that imports PIL, when an image decoder is made.

What Pillow could do, and is kept from doing: run another program (Ghostscript, for EPS), read
formats that nobody trains on, fill a damaged image with grey or black, cut colours of 16 bits to
8, take signed values for unsigned ones or the other way round, scale or invert what is to be kept,
turn a TIFF, or unpack a small file into more memory than the limit.
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

__all__ = ["image_decoder"]

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The formats that are read; the others of Pillow's are refused."""

_PLUGINS = ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP")

OLDEST = (10, 4)
"""The oldest Pillow that gives the pixels of the newest. Before it, channels of no meaning in a
TIFF came as alpha; before 10.1 a TIFF with an orientation came turned another way."""

MAX_PIXELS = 89_478_485
"""Pillow's own bound, ``PIL.Image.MAX_IMAGE_PIXELS``: 256 MiB of RGB."""

_DAMAGED = "copy the file again, convert it, or exclude the sample"

_WIDE = ("I", "F")
"""The modes that hold more than 8 bits a value begin with one of these; all have one channel."""

# The tags of a TIFF, all of TIFF 6.0.
_BITS_PER_SAMPLE = 258  # the bits of a value, for each channel
_ORIENTATION = 274  # how a picture is to be turned or mirrored
_CHANNELS = 277  # the number of channels
_PLANES = 284  # whether each channel lies for itself: `_APART`, or not
_SAMPLE_FORMAT = 339  # whether values have a sign: `_SIGNED` for each channel, or not

# Values that two of them may have.
_APART = 2
_SIGNED = 2

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
        sign, or under ``"keep"`` scaled, inverted, or divided by their alpha.

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
            raise SourceError(f"{expected}, got: {reason}; {_DAMAGED}") from error

    return decode


def _pixels(module: Any, image: Any, data: bytes, mode: str, max_pixels: int) -> npt.NDArray[Any]:
    width, height = image.size
    if width * height > max_pixels:
        raise SourceError(
            f"expected at most {max_pixels} pixels, got {width} x {height}; "
            'raise "max_pixels" if it is intended'
        )
    _refuse_what_would_change(image, data, mode)
    unsigned = image.format == "TIFF" and _is_unsigned(image)
    # Unless a library unpacks them, Pillow leaves such values as they lie in the file.
    stored = "<u4" if _unpacked(image) == "I;32N" and image.tile[0][0] == "raw" else "=u4"
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


def _refuse_what_would_change(image: Any, data: bytes, mode: str) -> None:
    wide = image.mode.startswith(_WIDE)
    if mode not in ("keep", image.mode) and wide:
        hint = 'read it with "image_mode": "keep"'
        if _is_scaled(image):  # which "keep" refuses
            hint = "convert it to npy, or to 8 or 16 bits a value"
        raise SourceError(
            f"expected an image of 8 bits a value, got mode {image.mode}, which would be cut; "
            f"{hint}"
        )
    if _is_cut(image):
        raise SourceError(
            "expected an image of 8 bits a value, or one of grey alone, got several channels of "
            "more bits, which Pillow cannot hold; convert it to npy, or to 8 bits a value"
        )
    if image.format == "TIFF":
        _refuse_tiff(image, mode)
    if image.format == "BMP" and image.mode in ("1", "L") and image.tile[0][0] == "raw":
        # Pillow chooses how to unpack the file by the greys of its palette, not by its bit depth.
        taken = 1 if image.mode == "1" else 8
        bits = _bits_of_bmp(data)
        if bits != taken:
            raise SourceError(
                f"expected a bit depth of {taken} in a BMP with this palette of greys, got {bits}, "
                f"which Pillow takes for {taken}; convert it to PNG"
            )
    if mode == "keep" and _is_scaled(image):
        other = "" if wide else ', or choose another "image_mode"'
        raise SourceError(
            "expected values of 8 or 16 bits, got a file of fewer levels or with white as 0, which "
            f"Pillow changes; convert it to npy, or to 8 or 16 bits a value{other}"
        )


def _refuse_tiff(image: Any, mode: str) -> None:
    if _lacks_tiles(image):
        lacks = "a TIFF that lacks some strips or tiles"
        raise SourceError(f"expected a whole image, got {lacks}; {_DAMAGED}")
    if not image.mode.startswith(_WIDE) and _SIGNED in _formats(image):
        raise SourceError(
            "expected values without a sign, or of more than 8 bits, got signed ones of 8, which "
            "Pillow takes for others; convert it to npy, or to 16 bits a value"
        )
    if mode == "keep" and _unpacked(image).startswith("RGBa"):
        raise SourceError(
            "expected colours beside their alpha, got colours multiplied by it, which Pillow "
            'divides again; save it with unassociated alpha, or choose another "image_mode"'
        )
    channels, kept = image.tag_v2.get(_CHANNELS, 1), len(image.getbands())
    if mode == "keep" and channels != kept:
        raise SourceError(
            f"expected channels of which the file says what they are, got {channels}, of which "
            f"Pillow keeps {kept}; convert it to npy, or leave out the others by another "
            '"image_mode"'
        )
    if mode != "keep" and image.mode == "La":
        raise SourceError(
            "expected grey beside its alpha, got grey multiplied by it, which Pillow does not "
            'convert; save it with unassociated alpha, or read it with "image_mode": "keep"'
        )


def _lacks_tiles(image: Any) -> bool:
    """Tell whether a TIFF has no place for some of its pixels, which Pillow leaves black.

    libtiff, which unpacks the compressed ones, notices.
    """
    tiles = image.tile
    if tiles and tiles[0][0] == "libtiff":
        return False
    # At offset 0 is the file's own head: with a 0 some writers mark what they have left out.
    boxes = [box for _, box, offset, _ in tiles if offset]
    there = sum((right - left) * (lower - upper) for left, upper, right, lower in boxes)
    planes = len(image.getbands()) if image.tag_v2.get(_PLANES) == _APART else 1
    return bool(there < image.width * image.height * planes)


def _bits_of_bmp(data: bytes) -> int:
    """Give the bits of a pixel; the oldest kind of head, of 12 bytes, has them further ahead."""
    at = 24 if int.from_bytes(data[14:18], "little") == 12 else 28
    return int.from_bytes(data[at : at + 2], "little")


def _is_cut(image: Any) -> bool:
    """Tell whether Pillow is going to cut values to 8 bits, which it does without a word.

    The mode does not show that; Pillow's notes of how to unpack the file (`tile`) do.
    """
    if image.mode.startswith(_WIDE) or not image.tile:
        return False
    how = image.tile[0][3]
    cut: bool = False
    if image.format == "PNG":  # "RGB;16B"
        cut = ";16" in how
    elif image.format == "PPM":  # a mode alone, or with the largest value
        cut = isinstance(how, tuple) and how[-1] > 255
    elif image.format == "TIFF":  # in which a channel that lies for itself is unpacked as "R"
        cut = any(bits > 8 for bits in image.tag_v2.get(_BITS_PER_SAMPLE, ()))
    return cut


def _is_scaled(image: Any) -> bool:
    """Tell whether Pillow is going to scale values to 8 or 16 bits, or to put black for white."""
    # "L;2" and "L;4": grey of so many bits; "1;I" and "L;I": inverted; "BGR;15" and "BGR;16": 5 or
    # 6 bits a colour, in a BMP.
    if _unpacked(image).startswith(("L;2", "L;4", "1;I", "L;I", "BGR;1")):
        return True
    if image.format != "PPM" or image.mode == "F" or not image.tile:
        return False
    how = image.tile[0][3]  # a mode alone, or with the largest value
    return isinstance(how, tuple) and how[-1] not in (255, 65535)


def _unpacked(image: Any) -> str:
    """Give Pillow's note of how the file is unpacked. Some formats have more beside it."""
    how = image.tile[0][3] if image.tile else None
    return str(how[0] if isinstance(how, tuple) and how else how)


def _is_unsigned(image: Any) -> bool:
    return image.tag_v2.get(_BITS_PER_SAMPLE) == (32,) and _SIGNED not in _formats(image)


def _formats(image: Any) -> tuple[int, ...]:
    formats: tuple[int, ...] = image.tag_v2.get(_SAMPLE_FORMAT, ())
    return formats
