"""Closes what several threads have opened, without waiting for a lock.

What each thread has of its own outlives the thread where a source is read by one run after the
other, each with new workers. So whoever makes one more closes those that are left over.

Nobody waits for a lock here, nor in the ``close`` of what uses this: a signal's handler, or a
finalizer, may close in the middle of any of it in the same thread, and in a forked child
whoever held the lock is not there. So a flag says that all is closed, and is set before a dict
of what is open is looked at. Whoever opens something puts it there before looking at the flag:
so one of the two sees the other. Each use of the dict is one operation, which the language
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
    """Lives as long as the thread that keeps it in a `threading.local`: so others see its end.

    A thread's number does not show it, since numbers are used again. And asking which threads run
    (`sys._current_frames`) may wait for ever on CPython 3.11, if garbage is collected then.
    """

    __slots__ = ("__weakref__",)


class Held(Generic[_Thing]):
    """What a thread, which has this token, has made for itself, and others may close.

    The thing may be closed twice, and inside of its own closing by the same thread.
    """

    __slots__ = ("_closing", "_process", "_token", "thing")

    def __init__(self, thing: _Thing, token: Token) -> None:
        self.thing = thing
        self._process = os.getpid()
        self._token = weakref.ref(token)
        # Whoever closes the thing holds it; nobody waits for it. Reentrant: where an interrupt
        # leaves it held, that thread can close the thing the second time.
        self._closing = threading.RLock()

    def close(self, close: Callable[[_Thing], object]) -> bool:
        """Close the thing by calling this with it, and say so; not if another thread does."""
        if not self._closing.acquire(blocking=False):
            return False
        try:
            close(self.thing)
        finally:
            self._closing.release()
        return True

    def is_left_over(self) -> bool:
        """Tell whether its thread has ended; a fork leaves what its parent made alone."""
        return self._token() is None and self._process == os.getpid()


def close_left_over(held: dict[Held[_Thing], None], close: Callable[[_Thing], object]) -> None:
    """Close what is left over of what threads have made, and take it out.

    An error of that is passed over: whoever is here has not caused it.
    """
    for each in held.copy():
        if not each.is_left_over():
            continue
        try:
            if not each.close(close):
                continue  # several threads may find it, and one closes it
        except Exception as error:
            if by_handler(error):
                raise  # it stays there: nothing may have been closed yet
        held.pop(each, None)


def close_all(closes: Sequence[Callable[[], object]]) -> None:
    """Call each of these, one after the other.

    The last exception that they raise is raised, with the others as its context.
    """
    # By halves: so the interpreter itself chains what they raise, in a few frames that hold
    # none of it. An ExitStack keeps the exception in its own frame, and all of this in a cycle.
    if len(closes) > 1:
        middle = len(closes) // 2
        try:
            close_all(closes[:middle])
        finally:
            close_all(closes[middle:])
    elif closes:
        closes[0]()


def _each(texts: Sequence[str]) -> None:
    for text in texts:
        log("warning", "%s", text)


_log: Callable[[Sequence[str]], object] = _each  # replaced once: see `warn_by`


def close_each(close: Callable[[_Thing, list[str]], object], things: Sequence[_Thing]) -> None:
    """Close things, as `close_all` does, and warn of what that leaves open.

    ``close`` closes a thing, and adds to a list what there is to say of one that stays open.
    """
    told: list[str] = []
    try:
        close_all([partial(close, thing, told) for thing in things])
    finally:
        if told:  # of all at once: a log that is stuck is waited for
            _log(told)


def warn_by(write: Callable[[Sequence[str]], object]) -> None:
    """Have such warnings written by another thread, as `loader` does when it is imported.

    The thread that something is left to may be stuck in the log, and hold the lock of a handler.
    """
    global _log  # noqa: PLW0603
    _log = write


def closed_error(path: object) -> ClosedError:
    """Give what is raised where a source that has been closed is read."""
    return ClosedError(f"{path}: expected an open source, got one that has been closed")
