r"""The header of an array in numpy's format, read with mistrust.

An array begins with ``\x93NUMPY``, two bytes of version, the length of the header, and the
header: a Python literal with dtype, order and shape. It is parsed as a literal, never run,
and the caller trusts nothing that it says before comparing it with the bytes that there are.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, by_handler

__all__ = ["LONGEST", "Header", "check_alike", "read_header"]

_LONGEST_HEADER = 10_000
"""Characters of a header that are parsed at most: numpy's own bound for untrusted files."""

LONGEST = 12 + _LONGEST_HEADER
"""Bytes from the beginning of an array that are sure to hold its whole header."""


_WIDTH = re.compile(r"[<>=|]?([A-Za-z])([0-9]+)")
"""A dtype as numpy writes it: its kind, and bytes or, of text, characters of 4 bytes."""

_SHAPE = re.compile(r"'shape': \([0-9L, ]*\)")
"""A shape as Python 2 may have written it: ``(3L, 2L)``."""
_LONG = re.compile("(?<=[0-9])L")

_NO_ESCAPE = re.compile(r"""\\[^\\'"abfnrtvxuUN0-7]""")
"""A backslash that begins no escape of Python's."""


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of an array says."""

    dtype: np.dtype[Any]  # of the values; one that holds no Python objects
    shape: tuple[int, ...]  # at least one number; the first counts the rows
    columns_first: bool  # whether the values lie in Fortran order
    length: int  # bytes of the header; the values follow them
    size: int  # bytes of the values

    def array(self, values: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Give the array of these bytes of values, in the same memory if its rows lie in order."""
        if not self.size:  # a view cannot change to or from a dtype without bytes
            return np.empty(self.shape, self.dtype)
        array = values.view(self.dtype)
        if self.columns_first:  # copied once, so that each read finds a row in one piece
            return np.ascontiguousarray(array.reshape(self.shape[::-1]).T)
        return array.reshape(self.shape)


def check_alike(
    first: Path,
    like: Header | npt.NDArray[Any],
    file: Path,
    there: Header | npt.NDArray[Any],
    place: str = "",
) -> None:
    """Refuse rows that cannot follow those of a first file, since their dtype or shape differs.

    ``place`` is where in the file they are, for the message of the SourceError.
    """
    expected, got = like.dtype, there.dtype
    if (got, there.shape[1:]) == (expected, like.shape[1:]):
        return
    hint = "name files that belong together"
    # numpy gives an array of texts the width of the longest.
    texts = expected.kind == got.kind and got.kind in "SU" and got.itemsize != expected.itemsize
    if texts and there.shape[1:] == like.shape[1:]:
        wider = max(expected, got, key=lambda dtype: dtype.itemsize)
        hint = f"save texts in one width, as by names.astype({wider.str!r})"
    raise SourceError(
        f"expected rows of {expected} {like.shape[1:]}, as {first} has, "
        f"got {got} {there.shape[1:]}; {hint}",
        file,
        place,
    )


def read_header(
    stream: IO[bytes], fault: Callable[[str], SourceError], damaged: str, alone: str = ""
) -> Header:
    """Read the header of an array from a stream that begins with it, up to the values.

    What is no header, or one of Python objects or of a single value, raises the error that
    ``fault`` makes of a message. ``damaged`` is the hint for a damaged file, ``alone`` for a
    single value.
    """
    magic = stream.read(8)
    if magic[:4] == b"PK\x03\x04":
        raise fault(
            "expected an array as numpy.save writes it, got a zip archive, as numpy.savez does; "
            'it is of "type": "npz"'
        )
    # Two bytes of version; from 2.0 on the length of the header has four bytes.
    width = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}.get(magic[6:])
    if magic[:6] != b"\x93NUMPY" or width is None:
        raise fault(
            f"expected an array in numpy's format 1.0 to 3.0, got the bytes {magic!r}; {damaged}"
        )
    length = int.from_bytes(stream.read(width), "little")
    if length > _LONGEST_HEADER:
        raise fault(
            f"expected a header of at most {_LONGEST_HEADER} bytes, got one of {length}; save an "
            "array of fewer fields, or several; or else the file is damaged"
        )
    raw = stream.read(length)
    if len(raw) < length:
        raise fault(f"expected a header of {length} bytes, got {len(raw)}; {damaged}")
    try:
        text = raw.decode("utf-8" if magic[6] == 3 else "latin-1")
    except UnicodeDecodeError as error:
        if by_handler(error):
            raise
        raise fault(f"expected a readable array, got: {error}; {damaged}") from error
    # The text itself, not its value: a number may have more digits than Python prints.
    shown = ascii(text.strip()[:200])[1:-1]
    unlike = f"expected a dtype and a shape, got {shown}; {damaged}"
    if _NO_ESCAPE.search(text):  # Python would warn of it; numpy writes none
        raise fault(unlike)
    try:
        header, dtype = _parse(text)
    except Exception as error:
        if by_handler(error):
            raise
        raise fault(unlike) from error
    if dtype is not None and dtype.hasobject:
        raise fault(
            "expected numbers, or strings of a fixed width, got Python objects, which are "
            "never unpickled; convert it with astype and save it again"
        )
    if dtype is None or not _fits(dtype, shape := header["shape"]):
        if dtype is not None and not dtype.itemsize and dtype.kind in "SU":
            hint = f"convert it with astype('{dtype.kind}1') and save it again"
            raise fault(f"expected texts of some width, got {dtype.str}; {hint}")
        raise fault(unlike)
    if not shape:
        raise fault(f"expected one sample a row, got a single value of shape (){alone}")
    size = math.prod(shape) * dtype.itemsize
    return Header(dtype, shape, header["fortran_order"], 8 + width + length, size)


# Each leaves some objects that only the collector frees, and the files of a folder have mostly one
# header. (A dtype is made for each: whoever gets an array of it may rename its fields.)
@lru_cache(64)
def _value(text: str) -> Any:
    """Give the value of a header, which is not to be changed."""
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        return ast.literal_eval(_SHAPE.sub(lambda shape: _LONG.sub("", shape[0]), text))


def _parse(text: str) -> tuple[Any, np.dtype[Any] | None]:
    """Give the value of a header, and its dtype; None if it has none that numpy holds."""
    match header := _value(text):
        case {"descr": descr, "fortran_order": bool(), "shape": tuple()}:
            dtype = np.lib.format.descr_to_dtype(descr)
            return header, dtype if _is_held(descr) else None
    return header, None


def _is_held(descr: Any) -> bool:
    """Tell whether numpy's dtypes are as wide as their description says.

    Before 2.0, numpy keeps a width in 32 bits, and cuts a larger one.
    """
    if isinstance(descr, tuple):  # with a shape
        return _is_held(descr[0])
    if not isinstance(descr, str):  # fields: name, description, perhaps a shape
        return all(_is_held(field[1]) for field in descr)
    said = _WIDTH.fullmatch(descr)
    width = 0 if said is None else int(said[2]) * (4 if said[1] == "U" else 1)
    return said is None or np.dtype(descr).itemsize == width


def _fits(dtype: np.dtype[Any], shape: tuple[Any, ...]) -> bool:
    """Tell whether numpy can have an array like this, if there is memory for its values."""
    if dtype.subdtype is not None or dtype.itemsize < 0:
        return False
    if not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        return False
    if not dtype.itemsize and dtype.kind in "SU":  # numpy makes it as wide as one character
        return False
    size = math.prod(shape) * dtype.itemsize
    if size >= 2**63:
        return False
    has_values = size > 0  # then the caller compares sizes
    try:
        np.empty((0,) * len(shape) if has_values else shape, dtype)
    # The shape has too many numbers, or one that is too large beside a 0; old numpy may
    # raise MemoryError for the latter, though there are no values.
    except (ValueError, MemoryError) as error:
        if by_handler(error):
            raise
        return False
    return True
