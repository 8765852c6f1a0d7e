"""Several things closed, each even when closing another raises; and what is closed, told.

What each thread has of its own outlives the thread where a source is read by one run after the
other, each with new workers. So whoever makes one more looks for those that are left over.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from threadloader.errors import ClosedError

__all__ = ["Maker", "close_all", "closed_error", "left_over", "maker"]

Maker = tuple[int, int]
"""A process and a thread of it."""

_Thing = TypeVar("_Thing")


def maker() -> Maker:
    """Give the calling thread."""
    return os.getpid(), threading.get_ident()


def left_over(things: Sequence[tuple[_Thing, Maker]]) -> list[_Thing]:
    """Give what threads of this process made that have ended; a fork leaves its parent's alone.

    Args:
        things: each with who made it; the calling thread has none yet. So what bears its number
            is of one that has ended.
    """
    mine, running = maker(), set(sys._current_frames())
    return [
        thing
        for thing, (process, thread) in things
        if process == mine[0] and (thread == mine[1] or thread not in running)
    ]


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
