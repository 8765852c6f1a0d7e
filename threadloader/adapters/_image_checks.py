"""Which images Pillow would give other values of than their file has, told before they are loaded.

An image here is one that Pillow has opened: it knows the head of the file, and has noted how it is
going to unpack the rest.
"""

from __future__ import annotations

import sys
from typing import Any

from ..errors import SourceError

__all__ = ["DAMAGED", "is_unsigned", "refuse_what_would_change", "unpacked"]

DAMAGED = "copy the file again, convert it, or exclude the sample"

_WIDE = ("I", "F")
"""The modes that hold more than 8 bits a value begin with one of these; all have one channel."""

# The tags of a TIFF, all of TIFF 6.0.
_BITS_PER_SAMPLE = 258  # the bits of a value, for each channel
_COLOURS = 262  # what the values stand for, as `_YCBCR`
_CHANNELS = 277  # the number of channels
_PLANES = 284  # whether each channel lies for itself: `_APART`, or not
_EXTRA = 338  # what channels beside the colours are
_SAMPLE_FORMAT = 339  # whether values have a sign: `_SIGNED` for each channel, or not

# Values that they may have.
_APART = 2
_SIGNED = 2
_YCBCR = 6

_SWAPPED = {
    "little": ("I;16BS", "I;32BS", "F;32BF"),
    "big": ("I;16S", "I;32S", "F;32F"),
}
"""By a machine's byte order, Pillow's notes of how to unpack values of the other one."""


def refuse_what_would_change(image: Any, data: bytes, mode: str) -> None:
    """Raise a SourceError if Pillow would give an image other values than its file has.

    Args:
        image: the image, opened and not yet loaded.
        data: the bytes of its file.
        mode: what it is to be converted to, as of `image_decoder`.
    """
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
    # "MPO": a JPEG with more pictures behind the first.
    if image.format in ("JPEG", "MPO") and image.mode == "CMYK" and "adobe" not in image.info:
        raise SourceError(
            "expected Adobe's mark in a JPEG of four colours, without which they are stored as they"
            " are, got none; Pillow inverts them all the same; convert it to RGB"
        )
    few = image.format == "PNG" and unpacked(image) in ("1", "L;2", "L;4")
    if mode == "RGBA" and few and image.info.get("transparency"):  # black is 0 in any number
        raise SourceError(
            "expected a grey of 8 bits where one is transparent, got one of fewer, in which "
            "some Pillows find another grey; convert it to 8 bits a value"
        )
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
        raise SourceError(f"expected a whole image, got {lacks}; {DAMAGED}")
    # libtiff gives values in the machine's byte order, which Pillow then takes for the file's.
    compressed = bool(image.tile) and image.tile[0][0] == "libtiff"
    if compressed and unpacked(image) in _SWAPPED[sys.byteorder]:
        raise SourceError(
            "expected compressed values in this machine's byte order, got the other, in which "
            "Pillow swaps them once too often; save it without compression"
        )
    if _has_misread_planes(image, compressed=compressed):
        raise SourceError(
            "expected a TIFF in which the channels of a pixel lie together, got each channel for "
            "itself, where Pillow gives one of such a kind other values; save it as planar "
            "configuration 1"
        )
    if image.tag_v2.get(_COLOURS) == _YCBCR and not compressed:
        raise SourceError(
            "expected red, green and blue, or a compressed image, got YCbCr without compression, "
            "which some Pillows misread; convert it to RGB"
        )
    if not image.mode.startswith(_WIDE) and _SIGNED in _formats(image):
        raise SourceError(
            "expected values without a sign, or of more than 8 bits, got signed ones of 8, which "
            "Pillow takes for others; convert it to npy, or to 16 bits a value"
        )
    if mode == "keep" and unpacked(image).startswith("RGBa"):
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


def _has_misread_planes(image: Any, *, compressed: bool) -> bool:
    """Tell whether channels that lie each for itself get other values than if they lay together.

    Compressed: the alpha of a grey becomes 0, and a fourth channel of which the file does not say
    what it is is taken for an alpha by which colours are multiplied. The two colours of CIELab
    lose their sign, compressed or not.
    """
    if image.tag_v2.get(_PLANES) != _APART:
        return False
    told = image.tag_v2.get(_CHANNELS, 1) < 4 or _EXTRA in image.tag_v2
    misread = len(image.getbands()) == 2 or (image.mode.startswith("RGB") and not told)
    return image.mode == "LAB" or (compressed and misread)


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
    if unpacked(image).startswith(("L;2", "L;4", "1;I", "L;I", "BGR;1")):
        return True
    if image.format != "PPM" or image.mode == "F" or not image.tile:
        return False
    how = image.tile[0][3]  # a mode alone, or with the largest value
    return isinstance(how, tuple) and how[-1] not in (255, 65535)


def unpacked(image: Any) -> str:
    """Give Pillow's note of how the file is unpacked. Some formats have more beside it."""
    how = image.tile[0][3] if image.tile else None
    return str(how[0] if isinstance(how, tuple) and how else how)


def is_unsigned(image: Any) -> bool:
    """Tell whether a TIFF has values of 32 bits without a sign; Pillow takes them for signed."""
    return image.tag_v2.get(_BITS_PER_SAMPLE) == (32,) and _SIGNED not in _formats(image)


def _formats(image: Any) -> tuple[int, ...]:
    formats: tuple[int, ...] = image.tag_v2.get(_SAMPLE_FORMAT, ())
    return formats
