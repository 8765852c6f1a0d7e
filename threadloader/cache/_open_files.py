"""How many files a folder keeps open, and errors of the process that opens them."""

from __future__ import annotations

import errno

from threadloader.errors import by_handler

__all__ = ["kept_open", "of_process", "too_many"]

_MOST = 64
"""Segments whose files are held open at most. Chosen: a quarter of the 256 that macOS allows."""

_PART = 8
"""The part of a process's limit that one folder takes. Chosen: several loaders at once have
room, each with a source, a cache and threads."""

_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})


def kept_open() -> int:
    """Give how many segments a folder that is opened now keeps open; others for each read.

    It is 64, or less where the process may have few: where only 256, 32.
    """
    try:
        import resource  # of Unix alone
    except (ImportError, OSError) as error:  # OSError: no file can be opened any more
        if by_handler(error):
            raise
        return _MOST
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if limit == resource.RLIM_INFINITY else max(1, min(_MOST, limit // _PART))


def of_process(error: BaseException) -> bool:
    """Tell whether an error says nothing about a file: too many are open, or memory is short."""
    return getattr(error, "errno", None) in _TOO_MANY | {errno.ENOMEM}


def too_many(error: BaseException) -> str:
    """Give what to do about an error, if too many files are open."""
    if getattr(error, "errno", None) not in _TOO_MANY:
        return ""
    return "raise the limit of open files (ulimit -n), or open fewer files or loaders at once"
