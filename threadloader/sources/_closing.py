"""Several things closed, each even when closing another raises; and what is closed, told.

What each thread has of its own outlives the thread where a source is read by one run after the
other, each with new workers. So whoever makes one more closes those that are left over.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from threadloader.errors import ClosedError, by_handler

__all__ = ["Held", "Token", "close_all", "close_left_over", "closed_error"]

_Thing = TypeVar("_Thing")


class Token:
    """Ends with the thread that keeps it in a `threading.local`: so others see that it has ended.

    By a thread's number they would not, since numbers are used again. And to ask which threads
    run (`sys._current_frames`) may wait for ever on CPython 3.11, if garbage is collected then.
    """

    __slots__ = ("__weakref__",)


class Held(Generic[_Thing]):
    """What a thread has made for itself.

    Args:
        thing: it.
        token: of the thread.
    """

    __slots__ = ("_process", "_token", "thing")

    def __init__(self, thing: _Thing, token: Token) -> None:
        self.thing = thing
        self._process = os.getpid()
        self._token = weakref.ref(token)

    def is_left_over(self) -> bool:
        """Tell whether its thread has ended; a fork leaves what its parent made alone."""
        return self._token() is None and self._process == os.getpid()


def close_left_over(
    held: list[Held[_Thing]], lock: threading.Lock, close: Callable[[_Thing], object]
) -> None:
    """Close what is left over.

    Args:
        held: what threads have made; what is closed is taken out.
        lock: guards that. Of several threads that find the same one closes it.
        close: closes one. An error of that is nobody's result, and passed over.
    """
    for each in held[:]:
        if not each.is_left_over():
            continue
        with lock:
            mine = each in held
            if mine:
                held.remove(each)
        try:
            if mine:
                close(each.thing)
        except Exception as error:
            if by_handler(error):
                raise


def close_all(closes: Sequence[Callable[[], object]]) -> None:
    """Call each of these, one after the other.

    Args:
        closes: what closes the things.

    Raises:
        BaseException: the last that they raise, with the others as its context.
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


def closed_error(path: object) -> ClosedError:
    """Give what is raised where a source that has been closed is read."""
    return ClosedError(f"{path}: expected an open source, got one that has been closed")
