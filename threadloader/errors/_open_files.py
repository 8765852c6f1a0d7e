"""Files that the system does not open, or replace, for another reason than that there is none."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ._handlers import by_handler

__all__ = ["TOO_MANY", "most_open", "once_free", "too_many", "unencoded"]

TOO_MANY: frozenset[int] = frozenset({errno.EMFILE, errno.ENFILE})
"""The `errno` where a process, or the system, has as many files open as it may."""

_PART = 8
"""The part of a process's limit that one source, or one folder of a cache, takes. Chosen: several
loaders at once have room, each with both, and threads."""

_WINDOWS = os.name == "nt"

_SECONDS, _PAUSE_SECONDS = 1.0, 0.01
"""How long a call is tried again, and the pause between two tries. Chosen: a program that reads a
small file, or looks through new ones, has it open for a moment."""

_T = TypeVar("_T")


def most_open(most: int) -> int:
    """Give how many files a source, or a cache, may keep open: `most`, or a part of the limit.

    Where the limit cannot be asked for, `most`.
    """
    try:
        import resource  # of Unix alone

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # OSError: no file can be opened any more, or a sandbox does not let it be asked.
    except (ImportError, OSError) as error:
        if by_handler(error):
            raise
        return most
    return most if limit == resource.RLIM_INFINITY else max(1, min(most, limit // _PART))


def too_many(error: BaseException) -> str:
    """Give what to do about an error, if too many files are open; else ""."""
    if getattr(error, "errno", None) not in TOO_MANY:
        return ""
    limit = "" if _WINDOWS else "raise the limit of open files (ulimit -n), or "
    return f"{limit}open fewer files or loaders at once"


def unencoded(error: UnicodeEncodeError) -> tuple[str, str, str]:
    """Say of a name that the system's encoding lacks what is expected, what came, what to do."""
    got = f"{error.object[error.start : error.end]!a}"
    expected = f"a name in the encoding of the system, {error.encoding}"
    return expected, got, "set PYTHONUTF8=1, or a UTF-8 locale"


def once_free(call: Callable[..., _T], *paths: Any) -> _T:
    """Make a call that is refused while somebody else has the file open, or replaces it.

    Windows refuses it, and file systems by FUSE say for a moment that there is no such file.

    Raises:
        PermissionError: on Windows it is refused for more than a second; elsewhere at once.
        FileNotFoundError: likewise; at once, if nothing is there, or there is more than one path.
        Exception: what else the call raises.
    """
    until = time.monotonic() + _SECONDS
    while True:
        try:
            return call(*paths)
        except (PermissionError, FileNotFoundError) as error:
            if by_handler(error) or time.monotonic() >= until:
                raise
            denied = isinstance(error, PermissionError)
            # FUSE says so when a file is opened that is just being replaced. A call that replaces
            # one has two paths; its caller tries again.
            if not (_WINDOWS if denied else len(paths) == 1 and _is_there(paths[0])):
                raise
        time.sleep(_PAUSE_SECONDS)


def _is_there(path: Any) -> bool:
    try:
        os.stat(path)  # noqa: PTH116 - a run without files imports no pathlib
    except (OSError, ValueError) as error:
        if by_handler(error):
            raise
        return False
    return True
