"""Closes what several threads have opened, without waiting for a lock.

Where one run after another reads a source, each with new workers, what a worker has opened for
itself outlives it. So a thread that opens something closes what ended threads have left over.

Nothing waits for a lock here, nor in the ``close`` of a class that uses this: a signal handler
or a finalizer may close in the middle of it in the same thread, and in a forked child the
thread that held the lock does not exist. Instead, closing sets a flag, and then looks through
a dict of what is open; opening puts the new thing into the dict, and then looks at the flag: so
one of the two sees the other. Each use of the dict is one operation, which the language
promises to be atomic ("Thread safety for dict objects", Python's documentation).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from ..errors import ClosedError, by_handler, log

__all__ = ["Held", "Token", "close_all", "close_each", "close_left_over", "closed_error", "warn_by"]

_Thing = TypeVar("_Thing")


class Token:
    """Lives as long as the thread that keeps it in a `threading.local`, whose end it shows.

    A thread's number does not show that, since numbers are used again. And asking which threads run
    (`sys._current_frames`) may wait for ever on CPython 3.11, if garbage is collected then.
    """

    __slots__ = ("__weakref__",)


class Held(Generic[_Thing]):
    """A thing that the thread with this token has made for itself, and that others may close.

    It may be closed twice, and by the same thread in the middle of its closing.
    """

    __slots__ = ("_closing", "_process", "_token", "thing")

    def __init__(self, thing: _Thing, token: Token) -> None:
        self.thing = thing
        self._process = os.getpid()
        self._token = weakref.ref(token)
        # Held by the thread that closes the thing; no other waits for it. Reentrant: where an
        # interrupt leaves it held, that thread can close the thing a second time.
        self._closing = threading.RLock()

    def close(self, close: Callable[[_Thing], object]) -> bool:
        """Call ``close`` with the thing and give True; False if another thread is closing it."""
        if not self._closing.acquire(blocking=False):
            return False
        try:
            close(self.thing)
        finally:
            self._closing.release()
        return True

    def is_left_over(self) -> bool:
        """Tell whether its thread has ended; in a fork, never of what the parent made."""
        return self._token() is None and self._process == os.getpid()


def close_left_over(held: dict[Held[_Thing], None], close: Callable[[_Thing], object]) -> None:
    """Close the things whose threads have ended, and take them out of ``held``.

    An error of closing them is passed over: the calling thread has not caused it.
    """
    for each in held.copy():
        if not each.is_left_over():
            continue
        try:
            if not each.close(close):
                continue  # several threads may find it, and one closes it
        except Exception as error:
            if by_handler(error):
                raise  # it stays in `held`: perhaps nothing has been closed yet
        held.pop(each, None)


def close_all(closes: Sequence[Callable[[], object]]) -> None:
    """Call each of these, one after the other.

    The last exception that they raise is raised, with the others as its context.
    """
    # By halves: so the interpreter itself chains what they raise, in a few frames that refer to
    # none of it. An ExitStack's frame refers to the exception, which makes a cycle of them all.
    if len(closes) > 1:
        middle = len(closes) // 2
        try:
            close_all(closes[:middle])
        finally:
            close_all(closes[middle:])
    elif closes:
        closes[0]()


def _log_each(texts: Sequence[str]) -> None:
    for text in texts:
        log("warning", "%s", text)


_log: Callable[[Sequence[str]], object] = _log_each  # replaced once: see `warn_by`


def close_each(close: Callable[[_Thing, list[str]], object], things: Sequence[_Thing]) -> None:
    """Close things, as `close_all` does, and warn of those that stay open.

    ``close`` closes a thing, and adds a warning to the list that it is given if it stays open.
    """
    warnings: list[str] = []
    try:
        close_all([partial(close, thing, warnings) for thing in things])
    finally:
        if warnings:  # all in one call, since each may have to wait for a log that is stuck
            _log(warnings)


def warn_by(write: Callable[[Sequence[str]], object]) -> None:
    """Set what writes these warnings: `loader` has another thread do it once it is imported.

    The thread that an object is left to may be stuck in the log, and hold a handler's lock.
    """
    global _log  # noqa: PLW0603
    _log = write


def closed_error(path: object) -> ClosedError:
    """Give the error of reading a source that has been closed."""
    return ClosedError(f"{path}: expected an open source, got one that has been closed")
