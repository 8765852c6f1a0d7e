"""How many files a source keeps open, and what to do where the system opens no more."""

from __future__ import annotations

import os

from .. import errors

__all__ = ["kept_open", "too_many"]

_MOST = 128
"""Files that one source keeps open at most. Chosen: an eighth of the 1,024 that Linux allows."""

_MOST_EACH = 4
"""The same where each thread opens each of them for itself, as on Windows, whose C library has
8,192 files at most. Chosen: so a thousand threads have room."""


def kept_open() -> int:
    """Give how many files a source that is opened now keeps open; it opens others for each read.

    It is 128, or less where the process may have few: where only 256, 32. Where no file can be
    read by several threads at once, it is 4.
    """
    return errors.most_open(_MOST if hasattr(os, "pread") else _MOST_EACH)


def too_many(error: BaseException) -> str:
    """Give what to do about an error of opening, behind a semicolon, if too many are open."""
    hint = errors.too_many(error)
    return f"; {hint}" if hint else ""
