"""How many batches a group may have by the time they take, and how many groups are made ahead."""

from __future__ import annotations

__all__ = ["GROUPS_AHEAD", "Pace"]

GROUPS_AHEAD = 3
"""Groups of small batches that are prepared ahead. With two, a worker stands still from the end of
its group until consumer, feeder and it were woken in turn. Measured: docs/measurements.md."""

GROUP_SECONDS = 0.05
"""Seconds of work in a group, at most, judged by the last job: the loop waits for all of it, and so
does closing. Storage may be slow, and so may a `take` of the user's."""

SLOW_SECONDS, SLOW_JOBS = 0.01, 8
"""When batches take more seconds of work than this, for so many jobs in a row, they are taken one
by one from then on: handing one over costs nothing beside that, and more workers can be at them."""


class Pace:
    """Bounds groups by time; their bytes bound them in any case."""

    def __init__(self) -> None:
        self._seconds = 0.0  # of work in a batch; written by the consumer, read by the feeder
        self._slow = 0  # jobs in a row above `SLOW_SECONDS`; the consumer's

    def most(self) -> int:
        """Give how many batches the next group may have, at least 1."""
        return max(1, int(GROUP_SECONDS / max(self._seconds, 1e-9)))

    def note(self, seconds: float, batches: int) -> bool:
        """Note the work in some batches; tell whether to take them one by one from now on."""
        self._seconds = seconds / max(batches, 1)
        self._slow = self._slow + 1 if self._seconds > SLOW_SECONDS else 0
        return self._slow >= SLOW_JOBS
