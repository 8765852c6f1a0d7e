"""Prepared samples in memory."""

from __future__ import annotations

import _thread
import sys
from typing import Any

from ._base import MISSING, Cache, follow
from ._count import Count
from ._samples import give, own, size_of

__all__ = ["Memory"]


class Memory(Cache):
    """Keeps the first samples that fit, and never lets one go for another.

    ``max_bytes`` bounds the bytes that they take, the contents of arrays exactly, the rest
    estimated, and ``max_samples`` how many there are; both are at least 0. A sample that is too
    large is left out; smaller ones that come later may still fit.

    >>> import numpy as np
    >>> cache = Memory(max_samples=1)
    >>> for epoch in range(3):
    ...     samples = [cache.get(index, lambda index: np.arange(index)) for index in (3, 2)]
    >>> samples
    [array([0, 1, 2]), array([0, 1])]
    >>> cache.stats().hits, cache.stats().misses
    (2, 4)
    """

    def __init__(self, max_bytes: int = sys.maxsize, max_samples: int = sys.maxsize) -> None:
        super().__init__()
        # Held while a sample is counted and put in its place; a forked child makes another. `find`,
        # `stats` and `close` do not take it: a signal handler may call them in the thread that
        # holds it. They read the dict by key, which the language promises to be atomic ("Thread
        # safety for dict objects", Python's documentation), and each other attribute once.
        self._lock = _thread.allocate_lock()
        self._entries: dict[int, Any] = {}  # written to under the lock, replaced by close
        self._samples = 0  # written under the lock
        self._bytes = 0  # written under the lock
        self._bounds = (max_bytes, max_samples)  # replaced by close
        follow(self)

    def find(self, index: int) -> Any:
        """Give the kept sample of an index, or `MISSING`; counts a hit or a miss."""
        owned = self._entries.get(index, MISSING)
        if owned is MISSING:
            self._count.mine[Count.MISSES] += 1
            return MISSING
        self._count.mine[Count.HITS] += 1
        return give(owned)

    def _keep(self, index: int, frozen: Any) -> None:
        size = size_of(frozen)
        if not self._fits(size):  # spares a copy that would be thrown away
            return
        owned = own(frozen)
        with self._lock:
            entries = self._entries  # read before the bounds are: see close
            # Somebody else may have kept it, or taken the room, in the meantime.
            if index not in entries and self._fits(size):
                self._samples += 1
                self._bytes += size
                entries[index] = owned

    def _fits(self, size: int) -> bool:
        max_bytes, max_samples = self._bounds
        return self._bytes + size <= max_bytes and self._samples < max_samples

    def _forked(self) -> None:
        self._lock = _thread.allocate_lock()

    def _held(self) -> tuple[int, int]:
        return self._samples, self._bytes

    def close(self) -> None:
        """Give back the memory; a second time does nothing. From now on all are misses."""
        # The bounds first: a thread that sees the new dict finds no room. What a thread still puts
        # into the old dict goes with that.
        self._bounds = (0, 0)
        self._entries = {}
