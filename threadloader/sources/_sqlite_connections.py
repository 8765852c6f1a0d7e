"""Connections to an SQLite database that can only read, one for each thread."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from ..errors import ConfigError, Problem, SourceError
from . import _per_thread  # which counts forks
from ._closing import Held, Token, close_each, close_left_over, closed_error
from ._open_file import regular_status
from ._sqlite_errors import in_words
from ._sqlite_files import check_beside
from ._sqlite_reading import Reading
from ._stamp import log_status

__all__ = ["Connections"]

_LONGEST = 64 << 20
"""Bytes that a value may have on top of four times the database's: a query may make larger ones
than are stored, as hex() does, but not fill the memory, as zeroblob() could. Chosen."""

_PATIENCE_SECONDS = 0.5
"""How long closing waits, in all, for the threads that were told to end their statements.
Chosen: SQLite ends one in some milliseconds; a thread that is stuck in the system does not end its
own at all, and the loader has waited its `close_timeout` before."""

_ASKED_EACH = 1_000_000
"""Instructions of SQLite between two looks for signals. Chosen: they take it 10 to 40 ms, and a
worker may have to wait for the GIL each time."""

_Status = tuple[int, ...]


class Connections:
    """A connection for each thread that asks for one, to a database that stays as it is.

    A forked child makes connections of its own, and leaves those of its parent alone. The path is
    absolute; a file that is missing, not a regular one, or empty is a SourceError.

    Attributes:
        size: of the database in bytes, with what is still in its write-ahead log; 0 before
            the first connection.
        reading: what refuses the connections' statements that do more than read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = 0
        self.reading = Reading()
        # The file's status before the first connection; each new connection compares it.
        self._status = self._look()
        self._bytes = self._status[2]
        self._local = threading.local()
        # Neither has a lock: `_closing` says why.
        self._made: dict[Held[_Connection], None] = {}
        self._closed = False  # set by close
        # For an object that is dropped without a close. sqlite3's connections refer to themselves,
        # by the statements that they keep: each would stay open until garbage is collected.
        self._finalizer = weakref.finalize(self, _close_dropped, self._made)
        self._finalizer.atexit = False
        _all[weakref.ref(self, _all.pop)] = None

    @contextmanager
    def mine(self, place: str = "") -> Iterator[sqlite3.Connection]:
        """Give the calling thread's connection, for one or several statements.

        What SQLite raises inside comes out as a SourceError, of ``place``, if the database is
        damaged, cannot be read or was written to; a ConfigError, if the query wants what is not
        reading, which SQLite had not noticed before; or a ClosedError.
        """
        connection = self._connection(place)
        with connection.lock:
            if self._closed:
                raise closed_error(self._path)
            with self._mistrust(place):
                if connection.going_on.gi_frame is None:  # it has ended: see `Reading.go_on`
                    connection.ask(self.reading)
                yield connection.sql
                # After the statements, so that they have read an unchanged database.
                if connection.version != connection.data_version():
                    raise self._changed()

    @contextmanager
    def _mistrust(self, place: str) -> Iterator[None]:
        try:
            yield
        # UnicodeDecodeError: sqlite3 decodes what SQLite says, which may quote damaged bytes.
        # MemoryError: damaged bytes may announce a value larger than any memory.
        except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError, MemoryError) as error:
            self.reading.raise_kept(error, closed=self._closed)
            if self._closed:  # `close` interrupts statements of other threads
                raise closed_error(self._path) from error
            # SQLite 3.53 compiles the pragma behind a table like pragma_table_info only when its
            # rows are asked for, so that it was not refused at opening.
            denied = self.reading.denied
            if denied and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_AUTH:
                problem = Problem("/source/query", "one that only reads", denied[-1])
                raise ConfigError(problem) from error
            message, cause = in_words(error)
            raise SourceError(message, self._path, place) from cause

    def _connection(self, place: str) -> _Connection:
        connection: _Connection | None = getattr(self._local, "connection", None)
        if connection is not None and connection.forks == _per_thread._forks:
            return connection
        if self._closed:
            raise closed_error(self._path)
        close_left_over(self._made, lambda old: old.close(self._path, 0.0, []))
        self._compare()  # before it is opened: opening a pipe waits for its other end
        check_beside(self._path)
        token = self._local.token = Token()
        with ExitStack() as undo:
            with self._mistrust(place):
                longest = _LONGEST + 4 * self._bytes
                connection = _Connection(self._path, self.reading, longest)
            undo.callback(connection.sql.close)
            self._compare()
            if rest := self._bytes % connection.page_size:
                # SQLite takes zeros for what is missing of a page.
                raise SourceError(
                    f"expected whole pages of {connection.page_size} bytes, got {self._bytes} "
                    f"bytes, {rest} too many: it has been cut; copy the database again",
                    self._path,
                )
            self.size = self.size or connection.pages * connection.page_size  # the same in each
            held = Held(connection, token)
            self._made[held] = None
            undo.pop_all()  # from now on it is closed by way of `_made`
        if self._closed:
            close_each(partial(self._end, 0.0), [held])
            raise closed_error(self._path)
        self._local.connection = connection
        return connection

    def _look(self) -> _Status:
        """Give what changes when the database is written to.

        The file is not opened: closing it again would let go of the locks that SQLite holds on it
        in this process.
        """
        status = regular_status(self._path)
        if not status.st_size:  # SQLite takes an empty file for a database without tables
            message = "expected a database, got an empty file; make it again"
            raise SourceError(message, self._path)
        written = log_status(self._path)
        log = () if written is None else (written.st_size, written.st_mtime_ns)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, *log

    def _compare(self) -> None:
        if self._look() != self._status:
            raise self._changed()

    def _changed(self) -> SourceError:
        return SourceError(
            "expected the database as it was when it was opened, got one that was written to; "
            "open the source again when nothing writes to it, or give it a copy",
            self._path,
        )

    def close(self) -> None:
        """Close every connection; a second time does nothing.

        Threads that still read are told to end their statements and get `ClosedError`; a connection
        that one of them does not let go of soon stays open.
        """
        self._closed = True
        self._finalizer.detach()  # its callback is Python code, which would swallow a Ctrl-C
        made = self._made.copy()
        until = time.monotonic() + _PATIENCE_SECONDS
        try:
            # All are interrupted before one is waited for: so they end at the same time.
            for each in made:
                # A connection is closed already if an interrupt came at the end of its making.
                with suppress(sqlite3.ProgrammingError):
                    each.thing.sql.interrupt()
        finally:
            close_each(partial(self._end, until), list(made))

    def _end(self, until: float, each: Held[_Connection], warnings: list[str]) -> None:
        if each.close(lambda made: made.close(self._path, until, warnings)):
            self._made.pop(each, None)  # not before: an interrupt may leave it open


def _close_dropped(made: dict[Held[_Connection], None]) -> None:
    """Close connections that nobody reads by: a thread that does holds their `Connections`."""
    for each in made:
        with suppress(sqlite3.Error):
            each.thing.sql.close()


def _uri(path: PurePath) -> str:
    """Give the URI by which SQLite opens a file, named from its root, for reading alone."""
    uri = path.as_uri()
    if not uri.startswith("file:///"):
        # The server of a Windows share: SQLite takes it only as a part of the path.
        uri = f"file:////{uri.removeprefix('file://')}"
    return f"{uri}?mode=ro"


class _Connection:
    """One connection: read-only, with nothing allowed but reading."""

    def __init__(self, path: Path, reading: Reading, longest: int) -> None:
        self.forks = _per_thread._forks  # of the process that has opened it
        # Held by the thread that reads, and by the one that closes. Reentrant: an interrupt in
        # contextlib leaves it held, and its thread must not wait for itself.
        self.lock = threading.RLock()
        self.sql = sqlite3.connect(
            _uri(path),
            uri=True,
            isolation_level=None,
            check_same_thread=False,  # it is closed by another thread
        )
        try:
            for setting in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON"):
                self.sql.execute(f"PRAGMA {setting}").close()
            self.sql.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            self.sql.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(longest, 2**31 - 1))
            self.pages, self.page_size = self._number("page_count"), self._number("page_size")
            self.version = self.data_version()
            self.sql.set_authorizer(reading.authorize)
            self.ask(reading)
        except BaseException:
            self.sql.close()
            raise

    def ask(self, reading: Reading) -> None:
        """Have SQLite ask now and then whether it is to go on."""
        going_on = reading.go_on()
        next(going_on)  # up to where it is resumed
        self.sql.set_progress_handler(going_on.__next__, _ASKED_EACH)
        # Held here, too: a handler of a signal runs within it, and may close this connection. Last:
        # an interrupt before leaves the ended one here, by which `mine` knows to ask again.
        self.going_on: Any = going_on

    def data_version(self) -> int:
        """Give a number that changes when another connection has written."""
        return self._number("data_version")

    def _number(self, pragma: str) -> int:
        with closing(self.sql.execute(f"PRAGMA {pragma}")) as cursor:
            return int(cursor.fetchone()[0])

    def close(self, path: Path, until: float, warnings: list[str]) -> None:
        """Close it; if a thread still reads by it at ``until``, in monotonic time, say so instead.

        ``warnings`` is given that text.
        """
        if not self.lock.acquire(timeout=max(0.0, until - time.monotonic())):
            warnings.append(f"{path}: a connection stays open, since a thread still reads by it")
            return
        try:
            self.sql.close()
        finally:
            self.lock.release()


# What a forked child does with its parent's connections: nothing. SQLite forbids to use them
# there, and even to close them; and what is freed is closed, so `_of_parents` holds them. Neither
# dict has a lock: each use is one operation of it. And `_all`, of all `Connections` that live, is
# no WeakSet, whose callbacks are Python code and would swallow a Ctrl-C that lands in them.
_all: dict[weakref.ref[Connections], None] = {}
_of_parents: dict[Held[_Connection], None] = {}


def _forked() -> None:
    for there in _all.copy():
        if (connections := there()) is not None:
            _of_parents.update(connections._made)
            connections._made.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_forked)
