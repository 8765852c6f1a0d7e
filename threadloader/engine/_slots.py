"""A job's place in the line, and how workers share the job."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

from .._runtime import Runtime
from ..errors import from_signal, raised_first

__all__ = ["ENDED", "Job", "Outcome", "Slot", "Worker", "attempt", "caught", "outside"]


class Job(Protocol):
    """A piece of work cut into parts, and what becomes of them.

    Attributes:
        parts: how many parts there are, at least 1.
        size: bytes of the result, once it is made; read where they are bounded.

    A job may have `at`, too: where it has got to inside of a part, and None where there is
    nothing to tell. Other threads read it; whenever it changes, something has moved (G11).
    """

    parts: int
    size: int

    def run(self, parts: Iterator[int]) -> None:
        """Do the parts that `parts` gives, one after the other; several workers at once."""

    def finish(self) -> Any:
        """Make the result when all parts are done; called once, by one worker."""

    def failed(self, part: int | None) -> None:
        """Note what else to say of a part that raised; called in its thread, right after it."""

    def describe(self, part: int | None) -> str:
        """Say what a part is; None: the finish. Asked in any thread, so it must not wait."""


class Outcome:
    """What fills a slot.

    The consumer may set `job`, `value` and `error` to None when it has taken them; the rest
    stays as it is, and other threads may read it.

    Attributes:
        job: the job; None for an outcome without one.
        value: the job's result.
        error: what was raised instead, or None.
        part: the part that raised; None: the finish, or the iterator of jobs.
        seconds: time that workers spent on the job's parts, all together.
        size: bytes of the value, where they are bounded.
        cost: seconds a part; None where there is no job, or it failed.
    """

    __slots__ = ("cost", "error", "job", "part", "seconds", "size", "value")

    def __init__(
        self,
        job: Any = None,
        value: Any = None,
        error: BaseException | None = None,
        part: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.job = job
        self.value = value
        self.error = error
        self.part = part
        self.seconds = seconds
        self.size = 0
        self.cost = None if job is None or error is not None else seconds / job.parts


ENDED = Outcome()
"""Fills a slot for which there is no job: the jobs are used up, or nobody wants it any more."""


def caught(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """Call a function; give its result, or whatever it raised.

    The one place where a thread catches what a job's code raises. A frame of its own, so
    that the exception's traceback does not lead to a local that holds the exception.
    """
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is the outcome)
        return None, error


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """Call a function; give its result, or what it raised, but raise what a signal handler did."""
    result, error = caught(function, *args)
    try:
        if error is not None and from_signal(error):
            raise raised_first(error)
        return result, error
    finally:
        del error  # its traceback leads to this frame


def outside(error: BaseException) -> Outcome:
    """Give the outcome of what a thread of ours has raised outside of a job: out of memory, say.

    The error loses its traceback, which leads to frames that have the outcome (G10).
    """
    return Outcome(error=BaseException.with_traceback(error, None))


class Worker:
    """One worker's facts: written by its own thread, read by whoever reports on it.

    Attributes:
        job: the job it is at, or None.
        part: the part it is at; None before the first and in the finish.
        claims: how often it has claimed parts, or found none left.
        stopped: tells whether the engine is told to stop.
    """

    __slots__ = ("claims", "job", "part", "stopped")

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self.stopped = stopped
        self.job: Any = None
        self.part: int | None = None
        self.claims = 0

    def __str__(self) -> str:
        while True:
            job, part = self.job, self.part
            if self.job is job:  # else it went on between the two, and the part is another job's
                return "nothing" if job is None else str(job.describe(part))


class Slot:
    """One job's place in the line.

    `origin` and `number` are the consumer's, fixed when it is made. `job`, `claim` (parts that a
    worker takes at a time), `hands` (workers that have not left it) and `singly` (whether each of
    them has one part to do) are the feeder's until it puts the slot on the queue. After that the
    workers share the slot under its guard, until one of them fills it, or at a stop the feeder or
    who ends in its place; then it is the consumer's.
    """

    __slots__ = (
        "_claimed",
        "_failed",
        "_filled",
        "_guard",
        "_runtime",
        "_seconds",
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
        self.origin = origin
        self.number = number
        self.job: Any = None
        self.claim = 1
        self.hands = 1
        self.singly = False
        self.outcome: Outcome | None = None
        # Guards _claimed, _seconds, hands, _failed and the one store of `outcome`. Held for a
        # few bytecodes at a time; no code of a job runs under it. So no object is freed there: an
        # error takes the frames of its traceback with it, and they a job's objects.
        self._guard = runtime.lock()
        self._claimed = 0
        self._seconds = 0.0
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
        """Wait for the outcome; None when the time is over first.

        The lock is only asked for while there is no outcome, and the outcome is stored
        before the lock is released: so a wait that an interrupt cut short, even with the
        lock in hand, can be repeated.
        """
        if self.outcome is None:
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
        while True:
            worker.claims += 1
            with self._guard:
                first = self._claimed
                # No call, as of `min`: it may collect garbage, and run finalizers under the guard.
                last = parts if parts - first < self.claim else first + self.claim
                if first == last or self._failed is not None:
                    return
                self._claimed = last
            for part in range(first, last):
                if self.unwanted(worker):
                    return
                worker.part = part
                yield part

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

    def leave(self, seconds: float) -> bool:
        """Count out a worker that has no more parts to do.

        Args:
            seconds: time it spent.

        Returns:
            Whether it was the last one: then it is to `conclude`.
        """
        with self._guard:
            self._seconds += seconds
            self.hands -= 1
            return self.hands == 0

    def complete(self, worker: Worker) -> bool:
        """Whether all parts are done and somebody wants the result; asked by the last worker."""
        return self._failed is None and not self.unwanted(worker)

    def conclude(
        self, worker: Worker, job: Job, complete: bool, value: Any, error: BaseException | None
    ) -> Outcome:
        """Give the outcome to fill the slot with; called by the last worker.

        Args:
            worker: that one.
            job: the job.
            complete: whether it was finished.
            value: what its finish gave.
            error: what its finish raised.
        """
        if complete:
            return Outcome(job, value, error, None, self._seconds)
        with self._guard:  # taken out, so that `fill` frees no failure
            failed, self._failed = self._failed, None
        # At an end, a lower part that would fail may have been claimed and never begun (G7).
        if failed is None or worker.stopped() or self.origin.cancelled:
            return ENDED
        part, failure = failed
        return Outcome(job, None, failure, part if part >= 0 else None, self._seconds)
