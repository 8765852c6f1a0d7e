"""How many batches a group may have by the time they take, and how many groups are made ahead."""

from __future__ import annotations

__all__ = ["GROUPS_AHEAD", "Pace"]

GROUPS_AHEAD = 3
"""Groups of small batches that are prepared ahead. With two, a worker stands still from the end of
its group until consumer, feeder and it were woken in turn. Measured: docs/measurements.md."""

GROUP_SECONDS = 0.05
"""Seconds of work in a group, at most, judged by the last jobs: the loop waits for all of it, and
so does closing. Storage may be slow, and so may a `take` of the user's. Where the call itself takes
most of them, as a query to a server does, a group may take twice as long as that."""

SLOW_SECONDS, SLOW_JOBS = 0.01, 8
"""When each batch more takes more seconds of work than this, and more than half as many as the call
itself, for so many jobs in a row, they are taken one by one: handing one over costs nothing beside
that, and a group would gain little."""

FIRST_MOST = 8
"""Batches of a job at most, before it is known what any takes. Chosen: with three ahead, the first
four have 1, 2, 4 and 8."""

MOST_CALL = 0.75
"""Part of a job that counts as the call at most. What two jobs tell may be wrong, as where one was
late for another reason: a group then takes four times `GROUP_SECONDS`. Where it is right, a group
still has three times the batches of one that is known."""

UNLIKE = 1.5
"""Jobs of which one has so many times the batches of the other tell what a call costs, and what
each batch does. Those of nearly one size would tell more of the moment."""

QUICK_SECONDS, QUICK_JOBS, QUICK_MOST = SLOW_SECONDS / 4, 64, 1024
"""When they take less than this again, or half as many as the call, for so many batches in a row,
they come in groups again, as where files that had to come from a disk are in memory by now. Each
time after twice as many, up to the last number: to change costs what is in work."""


class Pace:
    """Bounds groups by time; their bytes bound them in any case.

    Attributes:
        singly: whether batches are to be taken one by one; the consumer's.
    """

    def __init__(self) -> None:
        self.singly = False
        # Seconds of a call, whatever it takes, and of each batch in it; and batches of a group at
        # least: two, until jobs of unlike size have told of the call. Written by the consumer, read
        # by the feeder: one store.
        self._costs = 0.0, GROUP_SECONDS / (FIRST_MOST + 0.5), 2
        self._call = 0.0  # what two jobs have told of it; the consumer's, as what follows
        self._former = 0, 0.0  # batches and seconds of the job before
        self._jobs = 0  # in a row that speak for a change
        self._quick_jobs = QUICK_JOBS

    def most(self) -> int:
        """Give how many batches the next group may have, at least 1."""
        call, each, least = self._costs
        return max(least, int(max(GROUP_SECONDS - call, call) / max(each, 1e-9)))

    def note(self, seconds: float, batches: int) -> None:
        """Note the work in some batches, of a job."""
        batches = max(batches, 1)
        (_, _, least), (former, took), call = self._costs, self._former, self._call
        if former and max(former, batches) >= UNLIKE * min(former, batches):
            each = (seconds - took) / (batches - former)
            call, least = seconds - batches * min(max(each, 0.0), seconds / batches), 1
        told = min(call, MOST_CALL * seconds)
        each = (seconds - told) / batches
        self._costs, self._former, self._call = (told, each, least), (batches, seconds), call
        slow = each > max(QUICK_SECONDS if self.singly else SLOW_SECONDS, call / 2)
        self._jobs = self._jobs + 1 if slow != self.singly else 0
        if self._jobs < (self._quick_jobs if self.singly else SLOW_JOBS):
            return
        if self.singly:
            self._quick_jobs = min(2 * self._quick_jobs, QUICK_MOST)
        self.singly, self._jobs = not self.singly, 0
