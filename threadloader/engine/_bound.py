"""The bound of what waits for the consumer, in bytes: which slot may get its job yet."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from ._slots import Slot

__all__ = ["Bound"]


class Bound:
    """Holds slots back while what is ready, and what is in work, fills the bound. The feeder's.

    A slot is admitted when the results that are ready, and those in work by a running
    estimate of their size, leave room for one more of that size. No more slots are in work
    than there are workers: so what is ready never exceeds the bound by more than one result
    a worker, however wrong the estimate was. The slot that the consumer waits for is always
    admitted.

    Args:
        most: bytes; None for no bound.
        num_workers: how many workers there are.

    Attributes:
        waiting: slots that were sent and not admitted yet, in order.
        peak: the most bytes that were ready at once.
    """

    def __init__(self, most: int | None, num_workers: int) -> None:
        self._most = most
        self._num_workers = num_workers
        self.waiting: deque[Slot] = deque()
        self.peak = 0
        self._estimate: float | None = None
        self._origin: weakref.ref[Any] | None = None
        self._begin()

    def _begin(self) -> None:
        # Only slots in work are held: a filled one leads to its outcome, and an error in that
        # to the feeder's frames and back here (G10).
        self._in_work: list[Slot] = []
        self._open: deque[int] = deque()  # numbers that were admitted and not taken, in order
        self._sizes: dict[int, int] = {}  # bytes by number, of those that are ready
        self._ready = 0  # their sum

    def admitted(self) -> Slot | None:
        """Take out the slot that may have its job now; None when there is none."""
        if not self.waiting or not self._fits():
            return None
        return self.waiting.popleft()

    def begun(self, slot: Slot) -> None:
        """Note that a slot that was admitted has its job."""
        if self._most is not None:
            self._open.append(slot.number)
            self._in_work.append(slot)

    def given_up(self) -> deque[Slot]:
        """Give the slots that wait, and hold none any more."""
        waiting, self.waiting, self._in_work = self.waiting, deque(), []
        return waiting

    def look(self) -> None:
        """Count what was filled and what was taken since the last time."""
        origin = None if self._origin is None else self._origin()
        # Read first: what is taken by now is filled by now, and counted below.
        taken = 0 if origin is None else origin.taken
        in_work = []
        for slot in self._in_work:
            outcome = slot.outcome
            if outcome is None:
                in_work.append(slot)
                continue
            self._sizes[slot.number] = outcome.size
            self._ready += outcome.size
            if outcome.cost is not None:  # there was a job, and it went well
                before = outcome.size if self._estimate is None else self._estimate
                self._estimate = before + (outcome.size - before) / 4
        self._in_work = in_work
        # What was taken meanwhile still counts in the peak: rather too much than too little.
        self.peak = max(self.peak, self._ready)
        while self._open and self._open[0] < taken:
            self._ready -= self._sizes.pop(self._open.popleft(), 0)

    def _fits(self) -> bool:
        if self._most is None:
            return True
        origin = self.waiting[0].origin
        if self._origin is None or origin is not self._origin():
            # Another stream. What was ready in the one before has been thrown away.
            self._origin = weakref.ref(origin)
            self._begin()
        if origin.cancelled or not self._open:
            return True
        if len(self._in_work) >= self._num_workers or self._estimate is None:
            return False
        return self._ready + self._estimate * (len(self._in_work) + 1) <= self._most
