"""How many files a source keeps open, and what to do where the system opens no more."""

from __future__ import annotations

import errno

from threadloader.errors import by_handler

__all__ = ["kept_open", "too_many"]

_MOST = 128
"""Files that one source keeps open at most. Chosen: an eighth of the 1,024 that Linux allows."""

_PART = 8
"""The part of a process's limit that one source takes. Chosen: several loaders at once have
room, each with a source, a cache and threads."""


def kept_open() -> int:
    """Give how many files a source that is opened now keeps open; it opens others for each read.

    It is 128, or less where the process may have few: where only 256, 32.
    """
    try:
        import resource  # of Unix alone
    except (ImportError, OSError) as error:  # OSError: no file can be opened any more
        if by_handler(error):
            raise
        return _MOST
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if limit == resource.RLIM_INFINITY else max(1, min(_MOST, limit // _PART))


def too_many(error: BaseException) -> str:
    """Give what to do about an error of opening, behind a semicolon, if too many are open."""
    if getattr(error, "errno", None) not in (errno.EMFILE, errno.ENFILE):
        return ""
    return "; raise the limit of open files (ulimit -n), or open fewer files or loaders at once"
