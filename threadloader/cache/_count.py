"""Counts of a cache, by the thread that counts."""

from __future__ import annotations

import _thread
import threading
import weakref

__all__ = ["Count", "Counted"]

_ZEROS = (0, 0, 0, 0)


class Count(threading.local):
    """What one thread has counted: a list, which `counted` adds to those of the others.

    Each thread counts in a list of its own: to count takes no lock, no increment is lost, and
    threads that run at once do not write to the same memory.
    """

    HITS, MISSES, UNCACHEABLE, DAMAGED = range(4)

    def __init__(self, counted: Counted) -> None:
        # threading.local runs this once in each thread that uses the object, and lets go of what it
        # holds when the thread has ended: that of the token is how others learn of it. The list
        # comes first: a signal's handler may count in the middle of this.
        self.mine = [*_ZEROS]
        self.token = _Token()
        counted.add(self.token, self.mine)


class Counted:
    """What all threads have counted, those as well that have ended."""

    def __init__(self) -> None:
        # Sums of threads that have ended; the lists of the others. Replaced whole, under the lock:
        # whoever reads it finds each count once.
        self._state: tuple[tuple[int, ...], tuple[tuple[weakref.ref[_Token], list[int]], ...]]
        self._state = _ZEROS, ()
        self.forked()

    def forked(self) -> None:
        """In a forked child: replace the lock, which a thread of the parent may have held."""
        self._lock = _thread.allocate_lock()  # taken once by each thread

    def add(self, token: _Token, mine: list[int]) -> None:
        """Add a list, which counts for as long as there is the token; add up those that ended."""
        with self._lock:
            ended, lists = self._state
            live = []
            for there, counts in lists:
                if there() is None:
                    ended = _added(ended, counts)
                else:
                    live.append((there, counts))
            self._state = ended, (*live, (weakref.ref(token), mine))

    def total(self) -> tuple[int, ...]:
        """Give the sums over all threads."""
        total, lists = self._state
        for _, counts in lists:
            total = _added(total, counts)
        return total


class _Token:
    """Is there for as long as a thread is."""

    __slots__ = ("__weakref__",)


def _added(one: tuple[int, ...], other: list[int]) -> tuple[int, ...]:
    return tuple([x + y for x, y in zip(one, other, strict=True)])
