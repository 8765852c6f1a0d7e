"""What a statement may do to an SQLite database: read."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator

from ..errors import by_handler, lost_interrupt

__all__ = ["Reading"]

_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_READ_PRAGMAS = frozenset({"data_version", "page_size"})  # for full-text tables, too
# fts3_tokenizer takes a number for the address of code, which it calls.
_REFUSED_FUNCTIONS = frozenset({"fts3_tokenizer", "load_extension", "random", "randomblob"})


class Reading:
    """Lets statements read, and nothing else.

    Each connection refers to it, and it refers to none: else they would be in a cycle with their
    owner, and stay open until garbage is collected.

    Attributes:
        denied: what a statement wanted that is not reading, in words.
    """

    def __init__(self) -> None:
        self.denied: list[str] = []
        self._local = threading.local()

    def authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Say whether a statement may do something; SQLite asks when it compiles it."""
        try:
            denied = _denied(action, first, second)
            if denied is None:
                return sqlite3.SQLITE_OK
            self.denied.append(denied)
        except BaseException as error:  # noqa: BLE001 - it is raised by `raise_kept`
            # A Ctrl-C, say. sqlite3 would take it for a mere refusal, and forget it.
            self._local.kept = error
        return sqlite3.SQLITE_DENY

    def go_on(self) -> Generator[int, None, None]:
        """Give 0 each time: a statement may go on. SQLite asks for it while it works at one.

        So signals are looked at though no row comes: where a generator is resumed, and within its
        ``try``, which a function has not yet begun by then. What a handler raises ends the
        statement, and is raised by `raise_kept`. (A second signal at the same moment may end the
        generator as well: then what its handler raises is lost, and another one is made.)
        """
        answer = 0
        while True:
            try:
                while True:  # within the `try`: each round looks for signals
                    yield answer
                    answer = 0
            except GeneratorExit as error:
                # Where it is closed: a handler's own would have a frame behind this one. There is
                # no call here, at which a Ctrl-C could land, and be lost; nor a variable of the
                # traceback, which leads to this frame.
                if error.__traceback__ is None or error.__traceback__.tb_next is None:
                    raise
                self._local.kept, answer = error, 1
            except BaseException as error:  # noqa: BLE001 - as above
                self._local.kept, answer = error, 1

    def raise_kept(self, error: Exception, *, closed: bool = False) -> None:
        """Raise what a signal handler raised: what was kept of it, or this error.

        An exception that came before the first line of `authorize` is lost: SQLite says that a
        statement was refused, but `authorize` refused none. So is one that ended `go_on`: SQLite
        says that it was interrupted, which else closing does, and a handler that reads by the same
        source in the middle of `go_on`. Then a KeyboardInterrupt is raised.
        """
        kept = self._local.__dict__.pop("kept", error if by_handler(error) else None)
        code = getattr(error, "sqlite_errorcode", 0)
        refused = code == sqlite3.SQLITE_AUTH or str(error).startswith("not authorized")
        stopped = code == sqlite3.SQLITE_INTERRUPT and not closed
        if kept is None and (stopped or (refused and not self.denied)):
            lost_interrupt()
        if kept is not None:
            try:
                raise kept
            finally:
                del kept, error  # they would be in a cycle with this frame


def _denied(action: int, first: str | None, second: str | None) -> str | None:
    """Give in words what a statement may not do; None where it may."""
    if action in _READING:
        return None
    if action == sqlite3.SQLITE_FUNCTION:
        return f"the function {second}()" if second in _REFUSED_FUNCTIONS else None
    if action == sqlite3.SQLITE_PRAGMA and first in _READ_PRAGMAS and second is None:
        return None
    # SQLite asks for this when it declares the columns of a virtual table, as one of FTS5. A
    # statement of the user's gets nowhere with it: SQLite lets nobody change this table.
    if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
        return None
    return f"what is not reading ({first or second}, SQLite's code {action})"
