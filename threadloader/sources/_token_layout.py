"""How tokens lie in a file: a raw one, or a shard with a header.

A raw file is nothing but tokens: little-endian unsigned integers of one width. A shard
begins with 256 little-endian int32, which are 20240520, the version 1, the number of tokens,
and more that is not read; the tokens follow, 16 bits each. Shards of other kinds, as those of
20240801 with tokens of 32 bits, begin alike and are not read.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError
from ._files import FileReader

__all__ = ["layout", "stored_dtype"]

_MAGIC = 20240520
_VERSION = 1
_SHARDS = (_MAGIC, 20240801)
"""What shards of any kind begin with; their versions are small numbers."""
_HEADER = 256 * 4

_NUMPY = {
    "a .npy": re.compile(b"\x93NUMPY[\1-\3]\0"),
    "an .npz": re.compile(b"PK\3\4[\x0a\x14\x2d]\0..[\0\x08]\0", re.DOTALL),
}
"""How files of numpy begin: with a format of 1.0 to 3.0; as an archive of zip (APPNOTE 4.3.7) whose
first member needs version 1.0, 2.0 or 4.5, and is stored or deflated."""


def stored_dtype(format: str, dtype: str | None) -> np.dtype[Any]:  # noqa: A002 (the option's name)
    """Give the dtype of the tokens in a file; a ConfigError if the options do not agree."""
    if format == "shard":
        if dtype not in (None, "uint16"):
            expected = 'null or "uint16" for "format": "shard"'
            hint = "leave it out, or set the format to raw"
            raise ConfigError(Problem("/source/dtype", expected, repr(dtype), hint))
        dtype = "uint16"
    if dtype is None:
        expected = '"uint8", "uint16" or "uint32" for "format": "raw"'
        hint = (
            "a raw file does not say how its tokens are stored; "
            'for files with a header of 256 int32 set "format" to "shard"'
        )
        raise ConfigError(Problem("/source/dtype", expected, "null", hint))
    return np.dtype(dtype).newbyteorder("<")


def layout(reader: FileReader, format: str, stored: np.dtype[Any]) -> tuple[int, int]:  # noqa: A002
    """Give the byte of the first token in a file, and how many there are.

    A file that is not of this format, or not of the size it should have, is a SourceError.
    """
    start = reader.read(0, min(12, reader.size))
    header = np.frombuffer(start, "<i4") if len(start) == 12 else None
    if format == "raw":
        _check_raw(reader, start, header, stored)
        return 0, reader.size // stored.itemsize
    if header is None or reader.size < _HEADER:
        raise SourceError(
            f"expected a header of {_HEADER} bytes, got a file of {reader.size}; "
            'copy it again, or set "format" to "raw"',
            reader.path,
        )
    _check_shard(reader, header)
    return _HEADER, int(header[2])


def _check_raw(
    reader: FileReader, start: bytes, header: npt.NDArray[np.int32] | None, stored: np.dtype[Any]
) -> None:
    for name, begins in _NUMPY.items():
        if begins.match(start):
            text = f"expected nothing but tokens, got the header of {name} file"
            raise SourceError(f"{text}; write the array with tofile", reader.path, "byte 0")
    if reader.size % stored.itemsize:
        raise SourceError(
            f"expected a multiple of {stored.itemsize} bytes, as {stored.name} has, "
            f'got {reader.size}; check "dtype", or copy the file again',
            reader.path,
        )
    # Nothing else than a shard looks like this, cut or whole: its header would be taken for tokens.
    if header is not None and header[0] in _SHARDS and 0 < header[1] < 100:
        ours = (header[0], header[1]) == (_MAGIC, _VERSION)
        hint = 'set "format" to "shard"' if ours else _other_kind(header)
        text = "expected nothing but tokens, got the header of a shard"
        raise SourceError(f"{text}; {hint}", reader.path, "byte 0")


def _check_shard(reader: FileReader, header: npt.NDArray[np.int32]) -> None:
    for place, (what, expected) in enumerate((("magic", _MAGIC), ("version", _VERSION))):
        if header[place] != expected:
            hint = 'name a shard of this kind, or set "format" to "raw"'
            if header[0] in _SHARDS:
                hint = _other_kind(header)
            raise SourceError(
                f"expected the {what} {expected}, got {header[place]}; {hint}",
                reader.path,
                f"byte {4 * place}",
            )
    count = int(header[2])
    if count < 0:
        message = f"expected a number of tokens >= 0, got {count}; copy the file again"
        raise SourceError(message, reader.path, "byte 8")
    size = reader.size - _HEADER
    if size != 2 * count:
        raise SourceError(
            f"expected {2 * count} bytes after the header, for the {count} tokens "
            f"that it announces, got {size}; copy the file again",
            reader.path,
            "byte 8",
        )


def _other_kind(header: npt.NDArray[np.int32]) -> str:
    return (
        f"shards of this kind ({header[0]}, version {header[1]}) are not read: write what follows "
        f"the {_HEADER} bytes of the header to a raw file"
    )
