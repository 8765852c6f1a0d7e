"""What SQLite raises, in words, with what to do about it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack

from ..errors import by_handler
from ._open_file import too_many_hint

__all__ = ["in_words"]

_HINTS = {
    sqlite3.SQLITE_ERROR: "change the query, if it asks for that",
    sqlite3.SQLITE_BUSY: "end what writes to it, or give a copy",
    sqlite3.SQLITE_CANTOPEN: "look at the permissions of the file and of its folder",
    sqlite3.SQLITE_CORRUPT: "copy the database again",
    sqlite3.SQLITE_NOTADB: "copy the database again",
    sqlite3.SQLITE_READONLY: "its writer was stopped: open it once with a program that may write",
}
"""What to do about errors of SQLite, by their code."""

_READONLY_DIRECTORY = sqlite3.SQLITE_READONLY | 6 << 8  # Python knows it from SQLite 3.25 on

_WANTED = 3
"""Files that SQLite may want at once to open a database: it, its log, and the log's index."""


def in_words(error: BaseException) -> tuple[str, BaseException]:
    """Give the message of a SourceError for an error of SQLite, and the cause to raise that from.

    The cause is the error itself. But if that says only that a file could not be opened, and the
    reason is that the process has too many open, it is the system's error.
    """
    got = error if str(error) else "a value larger than the memory"
    message = f"expected a database that can be read, got: {got}"
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 255
    if code == sqlite3.SQLITE_CANTOPEN:
        reason = _not_opened()
        if hint := reason and too_many_hint(reason):
            return message + hint, reason
    if extended == _READONLY_DIRECTORY:
        message += "; it is in WAL mode: make its folder writable, or end that mode there"
    elif code == sqlite3.SQLITE_TOOBIG:
        message = (
            "expected values of at most 64 MiB and four times the size of the database, "
            f"got a larger one ({error}); have the query give smaller ones, as by substr()"
        )
    elif str(error).startswith("Could not decode to UTF-8"):  # only its text tells
        message += "; have the query give bytes, as by CAST(... AS BLOB)"
    elif code in _HINTS:
        message += f"; {_HINTS[code]}"
    return message, error


def _not_opened() -> OSError | None:
    """Give the system's error if `_WANTED` files cannot be opened; SQLite does not pass it on.

    It opens no file of the database: to close that would end the locks that this process has on it.
    """
    with ExitStack() as files:
        try:
            for _ in range(_WANTED):
                files.enter_context(open(os.devnull, "rb"))  # noqa: PTH123 - it is no path
        except OSError as error:
            if by_handler(error):
                raise
            return error
    return None
