"""What is said of bytes of a file that are no UTF-8, and of a file that is compressed."""

from __future__ import annotations

from pathlib import Path

from ..errors import SourceError, by_handler
from ._regular import open_regular

__all__ = ["not_utf8"]

_GZIP = b"\x1f\x8b"
"""How each file of gzip begins (RFC 1952, 2.3.1). The second byte is none of UTF-8 there."""


def not_utf8(path: Path, error: UnicodeDecodeError) -> str:
    """Give what was expected, what came, and what to do, of an error in a piece of this file."""
    if _begins(path) == _GZIP:
        return "expected text in UTF-8, got a file compressed by gzip; unpack it first"
    got = f"the byte 0x{error.object[error.start]:02x} ({error.reason})"
    return f"expected UTF-8, got {got}; convert the file to UTF-8"


def _begins(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(len(_GZIP))
    except (OSError, SourceError) as error:  # gone by now, say: it is told without
        if by_handler(error):
            raise
        return b""
