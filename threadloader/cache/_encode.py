"""Samples as bytes, and back, without pickle.

A value is one byte that says what it is, and its contents; counts and lengths are
little-endian 64-bit integers:

====  =====================================================================================
N T F  None, True, False
i      int: length, bytes of the two's complement
d c    float, complex: one or two little-endian doubles
s b    str (UTF-8, lone surrogates let through), bytes: length, contents
t y    the same as numpy's scalars
A R    array, of the machine's byte order or the reverse one: dtype, shape, zeros up to a
       multiple of 16, contents in C order
a      numpy scalar: dtype, contents
D L U  dict, list, tuple: count, contents (of a dict: key, value, key, value)
====  =====================================================================================

Whatever the machine, numbers are little-endian here; `decode` gives back the byte order that
the dtype had. A dtype is one byte of length and numpy's name for it (``<f4``), a shape one
byte of dimensions and their sizes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import by_handler
from ._samples import CONSTANTS, DEEPEST, ForeignError

__all__ = ["DamagedError", "Part", "decode", "encode"]

Part = bytes | memoryview

_LENGTH = struct.Struct("<Q")
_DOUBLE = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")
_ALIGNMENT = 16  # of what memory allocators give, and so of bytes that a file was read into
_DTYPE = re.compile(r"[<|][biufcSUVmM]\d{1,9}(\[[0-9A-Za-z]+\])?")


class DamagedError(Exception):
    """Bytes that are not an encoded sample."""


def encode(frozen: Any) -> list[Part]:
    """Give the bytes of a sample that `freeze` gave, in parts to be joined.

    Contents of arrays are views, not copied, where they are C-contiguous and little-endian.

    Raises:
        ForeignError: it has a named tuple, or an array of a dtype that a name does not
            describe (structured, long double, of another package, with metadata).
    """
    parts: list[Part] = []
    _encode(frozen, parts, 0)
    return parts


def decode(data: bytes, begin: int = 0) -> Any:
    """Give the sample that the bytes from ``begin`` to their end hold.

    They may be damaged in any way; no more memory is taken than their length justifies. Arrays are
    read-only views of the bytes, or of a copy in another byte order. No sample: a DamagedError.

    >>> decode(b"".join(encode({"x": [1, None, "a"]})))
    {'x': [1, None, 'a']}
    """
    try:
        value, at = _decode(data, begin, begin, DEEPEST)
    # SystemError: from numpy, of a code point above Unicode's last.
    except (struct.error, LookupError, ValueError, TypeError, OverflowError, SystemError) as error:
        if by_handler(error):
            raise
        raise DamagedError(f"{type(error).__name__}: {error}") from error
    if at != len(data):  # a length that lies leads past the end
        raise DamagedError(f"the sample ends at byte {at} of {len(data)}")
    return value


def _encode(value: Any, parts: list[Part], at: int) -> int:
    """Add a value's parts; give where the next one begins."""
    kind = type(value)
    if kind is np.ndarray:
        return _encode_array(value, parts, at)
    if kind is dict:
        at = _put(parts, at, b"D" + _LENGTH.pack(len(value)))
        for key, each in value.items():
            at = _encode(each, parts, _encode(key, parts, at))
        return at
    if kind is list or kind is tuple:
        at = _put(parts, at, (b"L" if kind is list else b"U") + _LENGTH.pack(len(value)))
        for each in value:
            at = _encode(each, parts, at)
        return at
    if kind in CONSTANTS:
        return _put(parts, at, _constant(value))
    if isinstance(value, np.str_):
        return _put(parts, at, _text(b"t", value.encode("utf-8", "surrogatepass")))
    if isinstance(value, np.bytes_):
        return _put(parts, at, _text(b"y", bytes(value)))
    if isinstance(value, np.generic):
        name, little = _named_as(value.dtype)
        return _put(parts, at, b"a" + name + np.asarray(value).astype(little).tobytes())
    raise ForeignError(f"a named tuple ({kind.__qualname__}), whose class a file cannot name")


def _put(parts: list[Part], at: int, part: bytes) -> int:
    parts.append(part)
    return at + len(part)


def _encode_array(array: npt.NDArray[Any], parts: list[Part], at: int) -> int:
    name, little = _named_as(array.dtype)
    shape = struct.pack(f"<B{array.ndim}Q", array.ndim, *array.shape)
    head = (b"A" if array.dtype.isnative else b"R") + name + shape
    at = _put(parts, at, head + bytes(-(at + len(head)) % _ALIGNMENT))
    contents = array.astype(little, copy=False).ravel()
    parts.append(contents.view(np.uint8).data)
    return at + contents.nbytes


def _named_as(dtype: np.dtype[Any]) -> tuple[bytes, np.dtype[Any]]:
    """Give a dtype's name with its length before it, and the little-endian form of it."""
    # `_stored` would see none of this: its cache compares dtypes by what they store.
    if dtype.metadata:
        raise ForeignError(f"an array or scalar of dtype {dtype} with metadata")
    if dtype.names is not None or (dtype.char == "V" and dtype.type is not np.void):
        raise ForeignError(f"an array or scalar of dtype {dtype}")
    return _stored(dtype)


@lru_cache(256)
def _stored(dtype: np.dtype[Any]) -> tuple[bytes, np.dtype[Any]]:
    little = dtype.newbyteorder("<")
    name = little.str
    # A dtype of another package may have a name that numpy does not know, as "<f1".
    foreign = dtype.isbuiltin == 2 or not _DTYPE.fullmatch(name)
    if foreign or dtype.itemsize == 0 or dtype.char in "gG":
        raise ForeignError(f"an array or scalar of dtype {dtype}")
    return bytes([len(name)]) + name.encode("ascii"), little


def _constant(value: Any) -> bytes:
    if value is None:
        return b"N"
    if value is True or value is False:
        return b"T" if value else b"F"
    if isinstance(value, int):
        return _text(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if isinstance(value, float):
        return b"d" + _DOUBLE.pack(value)
    if isinstance(value, complex):
        return b"c" + _COMPLEX.pack(value.real, value.imag)
    if isinstance(value, str):
        return _text(b"s", value.encode("utf-8", "surrogatepass"))
    return _text(b"b", value)


def _text(tag: bytes, contents: bytes) -> bytes:
    return tag + _LENGTH.pack(len(contents)) + contents


def _decode(data: bytes, at: int, begin: int, deepest: int) -> tuple[Any, int]:
    """Give the value at a place, and where the next one begins."""
    tag = data[at : at + 1]
    at += 1
    if tag == b"A" or tag == b"R":
        return _decode_array(data, at, begin, tag)
    if tag == b"a":
        little, native, at = _named(data, at, b"A")
        scalar = np.ndarray((), little, data, at).astype(native)[()]
        return scalar, at + little.itemsize
    if tag in _WORDS:
        return _WORDS[tag], at
    if tag == b"d":
        return _DOUBLE.unpack_from(data, at)[0], at + 8
    if tag == b"c":
        return complex(*_COMPLEX.unpack_from(data, at)), at + 16
    (count,) = _LENGTH.unpack_from(data, at)
    at += 8
    if tag in _CONTENTS:
        return _CONTENTS[tag](data[at : at + count]), at + count
    if tag not in (b"D", b"L", b"U"):
        raise DamagedError(f"no value begins with {tag!r}")
    if deepest == 0:
        raise DamagedError(f"more than {DEEPEST} containers inside each other")
    # It ends, whatever `count` says: an item takes at least a byte, and one past the end raises.
    items = []
    for _ in range(2 * count if tag == b"D" else count):
        item, at = _decode(data, at, begin, deepest - 1)
        items.append(item)
    if tag == b"D":
        return dict(zip(items[::2], items[1::2], strict=True)), at
    return items if tag == b"L" else tuple(items), at


_WORDS = {b"N": None, b"T": True, b"F": False}
_CONTENTS: dict[bytes, Callable[[bytes], Any]] = {
    b"i": lambda contents: int.from_bytes(contents, "little", signed=True),
    b"s": lambda contents: contents.decode("utf-8", "surrogatepass"),
    b"b": lambda contents: contents,
    b"t": lambda contents: np.str_(contents.decode("utf-8", "surrogatepass")),
    b"y": np.bytes_,
}


def _decode_array(data: bytes, at: int, begin: int, tag: bytes) -> tuple[Any, int]:
    little, wanted, at = _named(data, at, tag)
    dimensions = data[at]
    shape = struct.unpack_from(f"<{dimensions}Q", data, at + 1)
    at += 1 + 8 * dimensions
    at += -(at - begin) % _ALIGNMENT
    array: npt.NDArray[Any] = np.ndarray(shape, little, data, at)  # raises if the data end before
    if little != wanted:
        # Over a bytes object: an array with memory of its own could be made writable again.
        array = np.ndarray(shape, wanted, array.astype(wanted).tobytes())
    return array, at + array.nbytes


def _named(data: bytes, at: int, tag: bytes) -> tuple[np.dtype[Any], np.dtype[Any], int]:
    """Give the dtype of the contents, the dtype of the value, and where the name ends."""
    end = at + 1 + data[at]
    return *_dtypes(data[at + 1 : end], tag), end


@lru_cache(256)
def _dtypes(name: bytes, tag: bytes) -> tuple[np.dtype[Any], np.dtype[Any]]:
    text = name.decode("ascii")
    if not _DTYPE.fullmatch(text):
        raise DamagedError(f"no dtype that we write is called {text!r}")
    little = np.dtype(text)
    native = little.newbyteorder("=")
    return little, native if tag == b"A" else native.newbyteorder("S")
