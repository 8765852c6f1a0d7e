"""What all caches have in common: looking, keeping, counting."""

from __future__ import annotations

import _thread
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import by_handler, log
from ._count import Count, Counted
from ._samples import ForeignError, freeze

__all__ = ["MISSING", "Cache", "follow"]


MISSING: Any = object()
"""What `Cache.find` gives where there is no sample; None may be a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """A snapshot of a cache's numbers since it was opened.

    Attributes:
        hits: samples that came from the cache.
        misses: samples that had to be prepared.
        samples: samples that it holds; once it is closed, that it held.
        bytes: what it takes. In memory: the arrays exactly, the rest estimated. In a
            folder: the sizes of all its files for this source and transform.
        uncacheable: how often a sample could not be kept, because of its type. Not 0: the log
            named the first type; return arrays, numbers and texts from source or transform.
        damaged: samples of a folder that were found damaged, and prepared anew. Not 0:
            the machine lost power while it wrote, or its storage is failing.
    """

    hits: int
    misses: int
    samples: int
    bytes: int
    uncacheable: int
    damaged: int


class Cache:
    """Prepared samples, kept by index. Used by several threads at once.

    No lock is held while a sample is prepared: threads that miss the same sample at the same
    time each prepare it, one of the results is kept, and all are right.

    Attributes:
        unfit: arrays that it cannot keep, in words.
    """

    unfit = "of objects"

    def __init__(self) -> None:
        self._counted = Counted()
        self._count = Count(self._counted)
        # Taken by the thread that logs the first foreign sample, and never released.
        self._said_foreign = _thread.allocate_lock()

    def get(self, index: int, make: Callable[[int], Any]) -> Any:
        """Give the sample of an index; ``make(index)`` prepares it if it is not kept.

        Hit or miss, its arrays are read-only and its containers are the receiver's own; a sample
        that cannot be kept (its type is not known) comes as ``make`` gave it.
        """
        sample = self.find(index)
        return self.keep(index, make(index)) if sample is MISSING else sample

    def find(self, index: int) -> Any:
        """Give the kept sample of an index, or `MISSING`; counts a hit or a miss."""
        raise NotImplementedError  # pragma: no cover - each cache has its own

    def keep(self, index: int, sample: Any) -> Any:
        """Keep a sample if it can be kept and there is room; give the one that `get` hands out."""
        try:
            frozen = freeze(sample)
            try:
                self._keep(index, frozen)
            except MemoryError as error:  # the sample is there: it is only not kept this time
                if by_handler(error):
                    raise
        except ForeignError as error:
            self._foreign(error)
            return sample
        return frozen

    def _keep(self, index: int, frozen: Any) -> None:
        raise NotImplementedError  # pragma: no cover - each cache has its own

    def _foreign(self, error: ForeignError) -> None:
        self._count.mine[Count.UNCACHEABLE] += 1
        if self._said_foreign.acquire(blocking=False):
            text = "cache: a sample has %s, which cannot be kept, so it is prepared each time; "
            hint = f"return numpy arrays (not {self.unfit}), numbers and texts, in dicts, lists or "
            log("warning", f"{text}{hint}tuples", error, aside=True)

    def stats(self) -> CacheStats:
        """Give the numbers of this moment."""
        samples, size = self._held()
        counted = self._counted.total()
        return CacheStats(
            hits=counted[Count.HITS],
            misses=counted[Count.MISSES],
            uncacheable=counted[Count.UNCACHEABLE],
            damaged=counted[Count.DAMAGED],
            samples=samples,
            bytes=size,
        )

    def _forked(self) -> None:
        """In a forked child: replace the locks, which threads of the parent may have held."""
        raise NotImplementedError  # pragma: no cover - each cache has its own

    def _held(self) -> tuple[int, int]:
        """Give how many samples are held, and their bytes."""
        raise NotImplementedError  # pragma: no cover - each cache has its own

    def close(self) -> None:
        """Give back memory and files; a second time does nothing. From now on all are misses."""
        raise NotImplementedError  # pragma: no cover - each cache has its own


_caches: dict[weakref.ref[Cache], None] = {}
"""All caches that live. It needs no lock: each use is one operation of a dict. It is no WeakSet:
the callbacks of those are Python code and would swallow a Ctrl-C that lands in them."""


def follow(cache: Cache) -> None:
    """Have a cache's `_forked` called in each forked child; the cache has all its locks by now."""
    _caches[weakref.ref(cache, _caches.pop)] = None


def _forked() -> None:
    for there in _caches.copy():
        if (cache := there()) is not None:
            cache._counted.forked()
            cache._forked()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_forked)
