"""A job's place in the line, and how workers share the job."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from .. import _runtime
from .._runtime import Runtime
from ._outcome import ENDED, Job, Outcome

__all__ = ["Slot", "Worker"]


class Worker:
    """One worker's facts: written by its own thread, read by whoever reports on it.

    The feeder has such facts, too, for what it does in a worker's place.

    Attributes:
        job: the job it is at, or None.
        part: the part it is at; None before the first and in the finish.
        claims: how often it has claimed parts, or found none left.
        quickest: seconds a part in its quickest claim of several, for the job it is at.
        stopped: tells whether the engine is told to stop.
    """

    __slots__ = ("claims", "job", "part", "quickest", "stopped")

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self.stopped = stopped
        self.job: Any = None
        self.part: int | None = None
        self.claims = 0
        self.quickest = float("inf")

    def __str__(self) -> str:
        while True:
            job, part = self.job, self.part
            if self.job is job:  # else it went on between the two, and the part is another job's
                return "nothing" if job is None else str(job.describe(part))


class Slot:
    """One job's place in the line.

    Its attributes are the feeder's until it puts the slot on the queue. After that the workers
    share it under its guard, until the last of them fills it, or hands it to the feeder for that;
    or at a stop the feeder, or who ends in its place. Then it is the consumer's.

    Attributes:
        origin, number: its stream, and its place there; the consumer's, fixed when it is made.
        job: what is to be done.
        claim: parts of it that a worker takes at a time.
        hands: workers that have not left it.
        singly: whether each of them has one part to do.
        by_feeder: whether the feeder may make the result.
        outcome: what came of it; None until it is filled.
    """

    __slots__ = (
        "_claimed",
        "_failed",
        "_filled",
        "_forks",
        "_guard",
        "_quickest",
        "_runtime",
        "_seconds",
        "by_feeder",
        "claim",
        "hands",
        "job",
        "number",
        "origin",
        "outcome",
        "singly",
    )

    def __init__(self, runtime: Runtime, origin: Any = None, number: int = 0) -> None:
        self._runtime = runtime
        self._forks = _runtime.forks
        self.origin = origin
        self.number = number
        self.job: Any = None
        self.claim = 1
        self.hands = 1
        self.singly = self.by_feeder = False
        self.outcome: Outcome | None = None
        # Guards _claimed, _seconds, _quickest, hands, _failed and the one store of `outcome`. Held
        # for a few bytecodes at a time; no code of a job runs under it. So no object is freed
        # there: an error takes the frames of its traceback with it, and they a job's objects.
        self._guard = runtime.lock()
        self._claimed = 0
        self._seconds, self._quickest = 0.0, float("inf")
        self._failed: tuple[int, BaseException] | None = None
        # Held until the slot is filled.
        self._filled = runtime.lock()
        self._filled.acquire()

    def fill(self, outcome: Outcome) -> None:
        """Store the outcome and wake the consumer; only the first call does anything."""
        with self._guard:
            if self.outcome is not None:
                return
            # A job that is part of the outcome is the consumer's alone: not held here (G10).
            job, failed = None if outcome.job is self.job else self.job, self._failed
            self.job = self._failed = None
            self.outcome = outcome  # last: the consumer looks for it without the guard
        self._filled.release()
        del job, failed  # not under the guard: to free what belongs to them may take time

    def wait(self, timeout: float | None = None) -> Outcome | None:
        """Wait for the outcome; None when the time is over first, and in a fork made since.

        The lock is only asked for while there is no outcome, and the outcome is stored
        before the lock is released: so a wait that an interrupt cut short, even with the
        lock in hand, can be repeated.
        """
        if self.outcome is None and self._forks == _runtime.forks:
            self._runtime.wait(self._filled, timeout)
        return self.outcome

    def unwanted(self, worker: Worker) -> bool:
        """Whether nobody will ask for the outcome any more."""
        return worker.stopped() or self.origin.cancelled

    def claims(self, worker: Worker, parts: int) -> Iterator[int]:
        """Give this worker the parts it is to do.

        Claims go upwards, and none is made after a failure: every part below a failing one
        is in somebody's hands by then, so the lowest failing part is always found (G7).
        """
        if not self.singly:
            return self._several(worker, parts)
        # The short way, for reads that wait: no generator, no second claim that finds nothing.
        worker.claims += 1
        with self._guard:
            part, failed = self._claimed, self._failed
            if failed is None:
                self._claimed = part + 1
        if failed is not None or self.unwanted(worker):
            return iter(())
        worker.part = part
        return iter((part,))

    def _several(self, worker: Worker, parts: int) -> Generator[int, None, None]:
        lap, worker.quickest = self._runtime.lap, float("inf")
        while True:
            worker.claims += 1
            with self._guard:
                first = self._claimed
                # No call, as of `min`: it may collect garbage, and run finalizers under the guard.
                last = parts if parts - first < self.claim else first + self.claim
                if first == last or self._failed is not None:
                    return
                self._claimed = last
            began = lap()
            for part in range(first, last):
                if self.unwanted(worker):
                    return
                worker.part = part
                yield part
            worker.quickest = min(worker.quickest, (lap() - began) / (last - first))

    def fail(self, worker: Worker, error: BaseException) -> None:
        """Write down what a part raised, unless a lower one has failed.

        Args:
            worker: the one that did it, still at the part.
            error: what the part raised.
        """
        part = -1 if worker.part is None else worker.part
        failed: tuple[int, BaseException] | None = (part, error)
        with self._guard:
            if self._failed is None or part < self._failed[0]:
                failed, self._failed = self._failed, failed
        del failed  # the failure that does not count is freed here, where no lock is held

    def leave(self, worker: Worker, seconds: float) -> bool:
        """Count out a worker that has no more parts to do.

        Args:
            worker: the one.
            seconds: time it spent.

        Returns:
            Whether it was the last one: then it sees to it that the slot is filled.
        """
        quickest = seconds if self.singly else worker.quickest
        with self._guard:
            self._seconds += seconds
            if quickest < self._quickest:
                self._quickest = quickest
            self.hands -= 1
            return self.hands == 0

    def complete(self, worker: Worker) -> bool:
        """Whether all parts are done and somebody wants it; asked when no worker is at it."""
        return self._failed is None and not self.unwanted(worker)

    def conclude(
        self, worker: Worker, job: Job, complete: bool, value: Any, error: BaseException | None
    ) -> Outcome:
        """Give the outcome to fill the slot with.

        Args:
            worker: the facts of the thread that fills.
            job: the job.
            complete: whether it was finished.
            value: what its finish gave.
            error: what its finish raised.
        """
        if complete:
            outcome = Outcome(job, value, error, None, self._seconds)
            outcome.quickest = self._quickest
            return outcome
        with self._guard:  # taken out, so that `fill` frees no failure
            failed, self._failed = self._failed, None
        # At an end, a lower part that would fail may have been claimed and never begun (G7).
        if failed is None or worker.stopped() or self.origin.cancelled:
            return ENDED
        part, failure = failed
        return Outcome(job, None, failure, part if part >= 0 else None, self._seconds)
