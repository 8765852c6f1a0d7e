"""Who prepares the batches: the threads, or the thread that asks for them.

(Longer than other files: each rule needs what the others have measured.)
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Choice"]

CHEAP_SECONDS = 10e-3
"""Work in a batch above which the hand-off no longer counts; a trial that fails would be felt."""

ALONE, DEAREST_SECONDS, DEAR_PAUSE = 0.7, 0.5, 4
"""Above that, threads are doubted only if the work, by the quickest parts of each job, and the
loop's own are less than the first part of what a batch takes: they hold each other up where samples
are read in short calls that release the GIL. (By its quickest parts, such work looks 1.1 to 1.5
times too small, and far more where samples are of unlike cost: so above the seconds they are never
doubted, a trial ends with its first hopeless job, and the pause grows by the third.)"""

WAITING = 0.05
"""Whether threads help is asked only if more than this part of the time is spent waiting. Below,
the work is hidden behind the training step, which it would not be without threads."""

BETTER = 0.95
"""A trial wins when a batch takes less than this part of the time that it took before."""

WINDOW_PIECES, WINDOW_SECONDS = 8, 0.02
"""What is measured before anything is decided: so many pieces (batches that are made at once) at
least, and for so long at least."""

UNEVEN, UNEVEN_SECONDS = 0.25, 1.0
"""As long as one job has more than the first part of a window beyond its share, more is measured,
up to the seconds; and a trial for as many batches. A loop may write a log every 15th step, say, and
how many of those a window has would decide. Where they are so rare that the trial has none, as of a
checkpoint, what it is compared with is taken without the longest, too."""

HOPELESS, HOPELESS_SECONDS, HOPELESS_JOBS = 5, 1e-3, 2
"""A trial is ended at once when `HOPELESS_JOBS` jobs in a row come `HOPELESS` times as late as
before, and later than `HOPELESS_SECONDS`. A single one may be late because of the system, or of a
block of the order; below those seconds, late ones can be afforded."""

DEAR_SECONDS = 0.1
"""And when its jobs, all but the most overdue one, were waited for by so many seconds more than
what they took before: a trial that wins has less by then."""

WARMING_JOBS, WARMING_MOST, WARMING_SECONDS = 8, 16, 0.1
"""The first jobs after a change are not measured: groups begin small, threads with nothing ready,
and memory is new. `WARMING_JOBS` of them at least; up to `WARMING_MOST` as long as they take less
than `WARMING_SECONDS` all together. Measured: docs/measurements.md."""

SERIES_SECONDS = 10e-3
"""How long the consumer prepares batches between two looks at what they cost. A look costs as much
as several small batches, but a change must be seen soon."""

LATE_SECONDS = 0.1
"""A series for whose later batches the loop has waited so long ends before its time: they have
become dear, since it was as long as `SERIES_SECONDS` permit, and a group as `_pace` does."""

PAUSE_SECONDS, LONGEST_PAUSE = 0.5, 30.0
"""How long a decision stands: the first, and twice as long each time it is confirmed. The first is
short, since it is made while memory is new and code is run for the first time."""

CHANGED, CHANGED_PAUSE = 0.25, 1 / 16
"""If the loop's own work differs from what it was before the trial by more than the first part of a
batch's time, the decision stands for only the second part of its pause. How much threads can hide
depends on that work: a loop that compiles in its first steps, say, tells little of what follows."""

DEARER, DEARER_SECONDS = 4, 0.5
"""And likewise if batches that the consumer prepares take so many times what one took at most when
a trial has chosen that, for so long. Before, no trial begins: batches like those of before would be
what it is compared with, or what it comes to; some in a row may be dear by themselves."""


class _Window(NamedTuple):
    """What was measured.

    Attributes:
        uneven: how many batches, if they were uneven; or else 0.
        per_batch: seconds from one to the next.
        usual: the same, if uneven without what the longest job has beyond its share.
    """

    uneven: int
    per_batch: float
    usual: float


class Choice:
    """Tries both ways and keeps the faster one, by the clock of the training loop.

    Where a batch costs less than handing it from thread to thread, or where samples are
    made under the GIL while the loop waits for it, threads only lose. What counts is the
    time from one batch to the next, training included. The batches are the same in any case.
    Belongs to the consumer.

    Args:
        gather: how many batches a worker makes by one call, at most.
        unlocked: whether workers make them without the GIL. Then the time that they report has no
            waiting for it, and the thread that asks could hardly do the same work in less.

    Attributes:
        here: whether the thread that asks prepares the batches itself.
    """

    def __init__(self, gather: int = 1, *, unlocked: bool = False) -> None:
        self.here = False
        self._gather = gather
        self._unlocked = unlocked
        self._trial = False
        self._compared = 0  # batches of an uneven window that it is compared with
        # Seconds a batch took the other way, and in the loop's own work.
        self._before = self._before_usual = self._loop_before = 0.0
        self._pause = PAUSE_SECONDS
        self._decided = float("-inf")
        self._loop_work = 0.0  # what the loop's own work took before the trial that decided
        self._dearest = 0.0  # seconds the consumer's batch took, at most, when trials chose it
        self._batch_before = 0.0  # seconds a batch was waited for before the trial
        self._dear = False  # whether it is one of dear batches, by the consumer
        self._slow = 0  # jobs in a row of which the trial is hopeless
        # Seconds that its jobs were waited for, less what they took before; the most of one.
        self._excess = self._most_overdue = 0.0
        self._dear_since: float | None = None  # when the consumer's batches became dear
        self._per_batch = 0.0  # seconds, when it was measured last
        self._previous: _Window | None = None  # what was measured then, unless `here` has changed
        # Since the last change: the first jobs that were noted, and when the first of them was.
        self._jobs = 0
        self._since = 0.0
        # When the last job was noted (None if something other than batches came since), and its
        # batches, pieces and rows, which the loop is at since then.
        self._noted: float | None = None
        self._taken = 0, 0, 0
        self._empty_window()

    def _empty_window(self) -> None:
        self._seconds = 0.0
        self._waited = 0.0  # of them
        self._batches = 0  # that came in them
        # Seconds of the job that took most of them; its batches; the wait for these.
        self._longest = 0.0, 0, 0.0
        self._uneven = False  # whether that made the window longer
        self._pieces = 0
        self._rows = 0  # of them; the last batch of an epoch may have few
        self._least = self._least_row = float("inf")  # work in a batch and in a row, in seconds
        self._alone = 0.0, 0  # in some jobs, by their quickest parts; and the batches of these

    def forget(self) -> None:
        """Leave out what has passed since the last note, and the batches that came in it."""
        self._noted, self._taken = None, (0, 0, 0)

    def rest(self, now: float, before: float) -> None:
        """Note that all batches of an epoch were taken, so that epochs of a few jobs count, too.

        Args:
            now: when the next one was asked for; what follows is not counted.
            before: as of `note`.
        """
        self._count(now, before)
        self.forget()

    def _count(self, now: float, waited: float) -> None:
        if self._noted is not None:
            self._longest = max(self._longest, (now - self._noted, self._taken[0], waited))
            self._seconds += now - self._noted
            self._waited += waited
            self._batches += self._taken[0]
            self._pieces += self._taken[1]
            self._rows += self._taken[2]

    def series(self) -> int:
        """Give how many batches may be prepared here before the next `note`; in a trial one."""
        if self._trial or not self._per_batch:
            return 1
        return max(1, int(SERIES_SECONDS / self._per_batch))

    def late(self, waited: float, made: int) -> None:
        """Note that a series ends before its time.

        Args:
            waited: seconds waited for its later batches.
            made: how many of its batches there are.
        """
        self._per_batch = waited / made
        self.forget()

    def note(
        self,
        now: float,
        waited: float,
        batches: int,
        rows: int,
        busy: float,
        made: int,
        before: float,
        alone: float = float("inf"),
    ) -> bool:
        """Note that a job's batches were taken.

        Args:
            now: the time, in seconds.
            waited: seconds waited for the batches that came with the job.
            batches: how many batches the job has.
            rows: of all of them, without padding.
            busy: seconds of work in them, collate and all.
            made: how many of them came with the job; the others are made when they are asked for.
            before: seconds waited for such others of the job before this one.
            alone: as `busy`, by the quickest parts, if workers use a processor; else infinite.

        Returns:
            Whether `here` has changed.
        """
        hopeless = self._trial and self._is_hopeless(waited, self._before * made)
        if self._noted is None:  # else the wait is in the time since then
            self._seconds += waited
            self._waited += waited
        self._count(now, waited + before)
        self._noted = now
        self._taken = batches, -(-batches // max(min(made, self._gather), 1)), rows
        # The least of all, since what threads measure includes their waiting for the GIL.
        self._least = min(self._least, busy / max(batches, 1))
        self._least_row = min(self._least_row, busy / max(rows, 1))
        self._alone = self._alone[0] + alone, self._alone[1] + batches
        if self._jobs < WARMING_MOST and self._is_warming(now) and not hopeless:
            self._empty_window()
            return False
        elapsed = self._seconds
        if not hopeless and (
            elapsed < WINDOW_SECONDS or self._pieces < WINDOW_PIECES or self._is_unlike(elapsed)
        ):
            return False
        self._per_batch = per_batch = elapsed / max(self._batches, 1)
        excess = self._uneven * self._excess_of_longest(elapsed)
        own = elapsed - self._waited
        loop_work = (own - self._uneven * self._excess_in_loop(own)) / max(self._batches, 1)
        usual = (elapsed - excess) / max(self._batches, 1)
        alone = self._alone[0] / max(self._alone[1], 1)
        doubted = self.here or (
            WAITING * elapsed < self._waited
            and (
                self._least < CHEAP_SECONDS
                or (self._least < DEAREST_SECONDS and alone + loop_work < ALONE * usual)
            )
            # Else that work alone takes so long that the consumer could not win the trial.
            and (not self._unlocked or self._least_row * self._rows < BETTER * elapsed)
        )
        measured = _Window(self._batches if self._uneven else 0, per_batch, usual)
        changed = self._decide(now, measured, loop_work, doubted=doubted)
        self._empty_window()
        if changed:
            self.forget()
            self._jobs, self._previous = 0, None
        return changed

    def _is_hopeless(self, waited: float, expected: float) -> bool:
        """Count one of a trial's jobs; tell whether the trial is to end."""
        slow = waited > max(HOPELESS * expected, HOPELESS_SECONDS)
        self._slow = self._slow + 1 if slow else 0
        self._excess += waited - expected
        self._most_overdue = max(self._most_overdue, waited - expected)
        enough = 1 if self._dear else HOPELESS_JOBS
        return self._slow >= enough or self._excess - self._most_overdue > DEAR_SECONDS

    def _is_unlike(self, elapsed: float) -> bool:
        """Tell whether the window may have more or fewer long steps than is usual."""
        if elapsed >= UNEVEN_SECONDS:
            return False
        uneven = self._excess_of_longest(elapsed) > UNEVEN * elapsed
        self._uneven |= uneven
        return uneven or self._batches < self._compared

    def _excess_of_longest(self, elapsed: float) -> float:
        """Give the seconds that the window's longest job has beyond its share."""
        seconds, batches, _ = self._longest
        return max(0.0, seconds - elapsed * batches / max(self._batches, 1))

    def _excess_in_loop(self, own: float) -> float:
        """Give the same of the loop's own work, of which the window has so many seconds."""
        seconds, batches, waited = self._longest
        return max(0.0, seconds - waited - own * batches / max(self._batches, 1))

    def _is_warming(self, now: float) -> bool:
        """Count one of the first jobs behind a change; tell whether it is not measured."""
        self._since = self._since if self._jobs else now
        self._jobs += 1
        return self._jobs <= WARMING_JOBS or now - self._since < WARMING_SECONDS

    def _decide(self, now: float, measured: _Window, loop_work: float, *, doubted: bool) -> bool:
        previous, self._previous = self._previous, measured
        per_batch = measured.per_batch
        if self._trial:
            self._trial, self._compared = False, 0
            before = self._before if measured.uneven else self._before_usual
            kept = per_batch < BETTER * before
            longer = (DEAR_PAUSE if self._dear else 2) * self._pause
            self._pause = PAUSE_SECONDS if kept else min(longer, LONGEST_PAUSE)
            self._decided = now
            self._loop_work = self._loop_before
            if kept:
                self._dearest = per_batch - loop_work
                return False
            self.here = not self.here
            self._dearest = max(self._dearest, self._batch_before)
            return True
        stale = abs(loop_work - self._loop_work) > CHANGED * per_batch
        if not self.here or per_batch - loop_work <= DEARER * self._dearest:
            self._dear_since = None
        elif self._dear_since is None:
            self._dear_since = now
        stale |= self._dear_since is not None
        pause = self._pause * CHANGED_PAUSE if stale else self._pause
        # Not by one window alone, in which something else may have run on the machine.
        if previous is None or not doubted or now < self._decided + pause:
            return False
        if self._dear_since is not None and now < self._dear_since + DEARER_SECONDS:
            return False
        # The faster one, but if any is uneven that one, and of two the longer.
        self._compared, self._before, _ = max(
            previous, measured, key=lambda it: (it.uneven, -it.per_batch)
        )
        self._before_usual = min(previous.usual, measured.usual)
        self._trial, self._loop_before = True, loop_work
        self._dear = not self.here and self._least >= CHEAP_SECONDS
        self._slow, self._excess, self._most_overdue = 0, 0.0, 0.0
        self._batch_before = per_batch - loop_work
        self.here = not self.here
        return True
