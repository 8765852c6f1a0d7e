"""How many files a folder keeps open, and errors of the process that opens them."""

from __future__ import annotations

import errno

from ..errors import TOO_MANY, most_open, too_many

__all__ = ["kept_open", "of_process", "too_many"]

_MOST = 64
"""Segments whose files are held open at most. Chosen: a quarter of the 256 that macOS allows."""


def kept_open() -> int:
    """Give how many segments a folder that is opened now keeps open; others for each read.

    It is 64, or less where the process may have few: where only 256, 32.
    """
    return most_open(_MOST)


def of_process(error: BaseException) -> bool:
    """Tell whether an error says nothing about a file: too many are open, or memory is short."""
    return getattr(error, "errno", None) in TOO_MANY | {errno.ENOMEM}
