"""How many files may be kept open, and what to do where the system opens no more."""

import errno
import os

from ._handlers import by_handler

__all__ = ["TOO_MANY", "most_open", "too_many"]

TOO_MANY: frozenset[int] = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of a process, or a system, that has as many files open as it may."""

_PART = 8
"""The part of a process's limit that one source, or one folder of a cache, takes. Chosen: several
loaders at once have room, each with both, and threads."""


def most_open(most: int) -> int:
    """Give how many files one that opens them now may keep open: so many, or a part of the limit.

    Where no limit can be asked for, so many.
    """
    try:
        import resource  # of Unix alone
    except (ImportError, OSError) as error:  # OSError: no file can be opened any more
        if by_handler(error):
            raise
        return most
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else max(1, min(most, limit // _PART))


def too_many(error: BaseException) -> str:
    """Give what to do about an error, if too many files are open; else ""."""
    if getattr(error, "errno", None) not in TOO_MANY:
        return ""
    limit = "" if os.name == "nt" else "raise the limit of open files (ulimit -n), or "
    return f"{limit}open fewer files or loaders at once"
