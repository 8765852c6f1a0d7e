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
by one: handing one over costs nothing beside that, and more workers can be at them."""

QUICK_SECONDS, QUICK_JOBS = SLOW_SECONDS / 4, 64
"""When they take less than this again, for so many batches in a row, they come in groups again, as
where files that had to come from a disk are in memory by now. Each time after twice as many: to
change costs what is in work."""


class Pace:
    """Bounds groups by time; their bytes bound them in any case.

    Attributes:
        singly: whether batches are to be taken one by one; the consumer's.
    """

    def __init__(self) -> None:
        self.singly = False
        self._seconds = 0.0  # of work in a batch; written by the consumer, read by the feeder
        self._jobs = 0  # in a row that speak for a change; the consumer's, as what follows
        self._quick_jobs = QUICK_JOBS

    def most(self) -> int:
        """Give how many batches the next group may have, at least 1."""
        return max(1, int(GROUP_SECONDS / max(self._seconds, 1e-9)))

    def note(self, seconds: float, batches: int) -> None:
        """Note the work in some batches, of a job."""
        self._seconds = seconds / max(batches, 1)
        if self.singly:
            speaks, enough = self._seconds < QUICK_SECONDS, self._quick_jobs
        else:
            speaks, enough = self._seconds > SLOW_SECONDS, SLOW_JOBS
        self._jobs = self._jobs + 1 if speaks else 0
        if self._jobs < enough:
            return
        if self.singly:
            self._quick_jobs *= 2
        self.singly, self._jobs = not self.singly, 0
