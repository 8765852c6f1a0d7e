"""Who prepares the batches: the threads, or the thread that asks for them."""

from __future__ import annotations

__all__ = ["Choice"]

CHEAP_SECONDS = 10e-3
"""Work in a batch above which threads are never doubted: then it is no longer the hand-off that
counts, and a trial that fails would be felt."""

WAITING = 0.05
"""Part of the time spent waiting from which it is asked whether threads help. Below, the
waiting is hidden behind the training step, which it would not be without threads."""

BETTER = 0.95
"""A trial wins when a batch takes less than this part of the time that it took before."""

WINDOW_JOBS, WINDOW_SECONDS = 8, 0.02
"""What is measured before anything is decided: at least so many jobs, and so long."""

HOPELESS = 5
"""How many times as slow a trial may be before it is ended at once."""

WARMING_JOBS = 8
"""Jobs that are not measured after a change: groups begin small, and threads with nothing ready."""

PAUSE_SECONDS, LONGEST_PAUSE = 2.0, 30.0
"""How long a decision stands: the first, and twice as long each time it is confirmed."""


class Choice:
    """Tries both ways and keeps the faster one, by the clock of the training loop.

    Where a batch costs less than handing it from thread to thread, or where samples are
    made under the GIL while the loop waits for it, threads only lose. What counts is the
    time from one batch to the next, training included. The batches are the same in any case.
    Belongs to the consumer.

    Attributes:
        here: whether the thread that asks prepares the batches itself.
    """

    def __init__(self) -> None:
        self.here = False
        self._trial = False
        self._before = 0.0  # seconds a batch took the other way
        self._pause = PAUSE_SECONDS
        self._until = 0.0  # when the next trial may begin
        self._warming = WARMING_JOBS
        self._begin(None)

    def _begin(self, now: float | None) -> None:
        self._began = now
        self._jobs = 0
        self._batches = 0
        self._waited = 0.0
        self._least = float("inf")

    def forget(self) -> None:
        """Begin to measure anew: something else than batches came between."""
        self._begin(None)

    def note(self, now: float, waited: float, batches: int, busy: float) -> bool:
        """Note that a job's batches were taken.

        Args:
            now: the time, in seconds.
            waited: seconds that it took to have them.
            batches: how many they are.
            busy: seconds of work in them.

        Returns:
            Whether `here` has changed.
        """
        if self._began is None or (self._warming > 0 and not self._hopeless(waited, batches)):
            # What came before the first job is unknown.
            self._warming -= 1
            self._begin(now)
            return False
        self._jobs += 1
        self._batches += batches
        self._waited += waited
        # The least, since what threads measure has their waiting for the GIL in it.
        self._least = min(self._least, busy / max(batches, 1))
        elapsed = now - self._began
        per_batch = elapsed / max(self._batches, 1)
        hopeless = self._hopeless(self._waited, self._batches)
        if not hopeless and (elapsed < WINDOW_SECONDS or self._jobs < WINDOW_JOBS):
            return False
        cheap = self._least < CHEAP_SECONDS
        doubted = self.here or (cheap and self._waited > WAITING * elapsed)
        changed = self._decide(now, per_batch, doubted=doubted)
        self._begin(None if changed else now)
        self._warming = WARMING_JOBS if changed else 0
        return changed

    def _hopeless(self, waited: float, batches: int) -> bool:
        """Tell whether a trial is so much slower that it need not go on."""
        return self._trial and waited > HOPELESS * self._before * batches

    def _decide(self, now: float, per_batch: float, *, doubted: bool) -> bool:
        if self._trial:
            self._trial = False
            kept = per_batch < BETTER * self._before
            self._pause = PAUSE_SECONDS if kept else min(2 * self._pause, LONGEST_PAUSE)
            self._until = now + self._pause
            if kept:
                return False
            self.here = not self.here
            return True
        if not doubted or now < self._until:
            return False
        self._trial, self._before = True, per_batch
        self.here = not self.here
        return True
