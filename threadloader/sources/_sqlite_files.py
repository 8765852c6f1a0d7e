"""What lies beside a database: the files that SQLite opens by itself, under its name."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import SourceError, by_handler

__all__ = ["beside", "check_beside"]


def beside(database: Path, ending: str) -> Path:
    """Give the file that SQLite opens beside a database: the journal, the log, or its index."""
    # SQLite names them after the file that a link leads to; on Windows after the link.
    name = database if os.name == "nt" else os.path.realpath(database)
    return Path(f"{name}{ending}")


def check_beside(database: Path) -> None:
    """Refuse files that SQLite must not open as a database's journals; it refuses links itself.

    A pipe would be waited for, and SQLite writes into the index of a write-ahead log, which may be
    another name of a file that is somebody else's.

    Raises:
        SourceError: one is no regular file, or the index has several names.
    """
    for ending in ("-journal", "-wal", "-shm"):
        path = beside(database, ending)
        try:
            status = path.lstat()
        except (OSError, ValueError) as error:  # there is none, or SQLite says what is wrong
            if by_handler(error):
                raise
            continue
        kind = stat.S_IFMT(status.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFLNK):
            message = f"expected nothing but SQLite's own files beside it, got {path.name}"
            raise SourceError(f"{message}, which is no regular file; remove it", database)
        if ending == "-shm" and status.st_nlink > 1:
            message = f"expected {path.name} to be SQLite's alone, got a file with further names"
            raise SourceError(f"{message}, into which it would write; remove it", database)
