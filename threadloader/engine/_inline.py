"""The engine without threads: each job is run in the calling thread, when it is asked for."""

from __future__ import annotations

import contextvars
import operator
from _thread import get_ident
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .. import _runtime
from .._runtime import Lock, Runtime
from ..errors import from_signal, raised_first
from ._log_thread import say
from ._outcome import ENDED, Job, Outcome, attempt

__all__ = ["Inline", "InlineStream"]

_T = TypeVar("_T")


class Inline:
    """The face of `Engine` for ``num_workers: 0``.

    Args:
        runtime: where locks come from.
        apart: run jobs in an empty context, as threads do, where neither `contextvars` nor
            what is made of them (`numpy.errstate`) of the caller hold.

    Attributes:
        usable: False once stopped.
        failed: None: it has no thread that could fail.
        peak_bytes: 0: nothing is ready before it is asked for.
        gil_delay: 0: no thread of ours waits for the GIL.
        gil_held: False, likewise.
        mark: as of `Engine`; here no thread has it in `here.shared`.
        context: the context in which jobs are run; None: that of the caller.
        running: the number of the thread that runs something; 0: none does. Written by the
            consumer, and in a forked child.
        behind: called when what is being run ends after a stop, with the exception that it ended
            with, or None. Written before the stop, so that either the stop finds nothing running,
            or the running thread finds `behind`; a stop that finds nothing sets it back to None.
        left: a lock, held until what was running at a stop has ended, and `behind` after it; then
            None. Written by the thread that was running.
    """

    def __init__(self, runtime: Runtime = _runtime.RUNTIME, *, apart: bool = False) -> None:
        self.usable = True
        self.failed: Outcome | None = None
        self.context = contextvars.Context() if apart else None
        self.peak_bytes = 0
        self.gil_delay = 0.0
        self.gil_held = False
        self.mark = object()
        self.running = 0
        self._runtime = runtime
        self.behind: Callable[[BaseException | None], object] | None = None
        left = runtime.lock()
        left.acquire()
        self.left: Lock | None = left
        # When the bound of waiting began, and whether it was logged that it is over. Written by
        # those who close: of two at once each may log it.
        self._told: float | None = None
        self._said = False

    def start(self) -> None:
        """Start nothing."""

    def tell(self) -> None:
        """Run no more jobs; wait for nothing now, and later up to a bound from now on."""
        self.usable = False
        if self._told is None:
            self._told = self._runtime.monotonic()

    def stop(self) -> bool:
        """Run no more jobs; say whether none is running."""
        self.usable = False
        return not self.running

    def go_behind(self, error: BaseException | None) -> None:
        """Call `behind` after something was run, if a stop came meanwhile, and wake who waits."""
        behind = self.behind  # read once: a thread that stops now sets it back to None
        if self.usable:
            return
        try:
            if behind is not None:
                behind(error)
        finally:
            # Released only once: from then on a waiting thread may hold the lock for a moment.
            left, self.left = self.left, None
            if left is not None:
                left.release()

    def wait(self, bound: float) -> None:
        """Wait until what was running at a stop has ended; log it, once, if that takes too long.

        Args:
            bound: how long, in seconds, from the first wait on, or from `tell`.
        """
        left, now = self.left, self._runtime.monotonic()
        if self._told is None:
            self._told = now
        if left is None or self._runtime.wait(left, max(0.0, self._told + bound - now)):
            return
        if self._said:
            return
        self._said = True
        if thread := self.running:  # else it has just ended
            text = f"a batch that is made without workers is not done within {bound:g} s and is "
            text += "left behind; what is open is closed behind it; who makes it is at\n"
            say(None, "error", [text + self._runtime.stack(thread)])

    def stream(self, jobs: Iterator[Job], depth: int) -> InlineStream:
        """Give the results of some jobs. Nothing is worked ahead, whatever the depth."""
        return InlineStream(self, jobs)


class InlineStream:
    """The face of `Stream`: same order, same errors, same outcomes; nothing is worked ahead.

    Attributes:
        cancelled: whether its jobs were forgotten.
    """

    def __init__(self, engine: Inline, jobs: Iterator[Job]) -> None:
        self.cancelled = False
        self._engine = engine
        self._jobs = jobs
        self._drawn = 0
        self._drawing = False
        self._ahead: Job | None = None  # comes before what the iterator gives
        self._job: Job | None = None
        self._outcome: Outcome | None = None

    def prefetch(self, number: int = 0) -> None:
        """Work nothing ahead."""

    def ready(self, number: int) -> int:
        """Count the results that can be had without waiting: none."""
        return 0

    def wind_down(self) -> None:
        """Begin no further job: what comes after the last result is `ENDED`."""
        self._jobs, self._ahead = iter(()), None

    def cancel(self) -> None:
        """Forget the jobs."""
        self.cancelled = True
        self._jobs, self._ahead, self._job, self._outcome = iter(()), None, None, None

    def result(self, number: int) -> Outcome:
        """Run the job of this number; asked again, give the same outcome.

        Returns:
            Its outcome; `ENDED` when there is no such job, the stream or the engine has been
            ended, or an interrupt came while the iterator of jobs was at work: what it gave
            then is lost, and a new stream must begin where the consumer stands.

        Raises:
            KeyboardInterrupt: when Ctrl-C comes while the job runs, as it is, and whatever
                else a signal handler raises then. The job is run anew when it is asked for
                again.
        """
        if self._drawing:
            self.cancel()
            return ENDED
        while self._drawn <= number:
            self._draw()
        if self._outcome is None:
            if self._job is None:
                return ENDED
            # Not in a variable, but where the consumer clears it: its error's traceback leads here.
            self._outcome = self.run(_run, self._job)
        return self._outcome or ENDED

    def _draw(self) -> None:
        """Draw the next job."""
        self._drawing = True
        error: BaseException | None = None
        if (job := self._ahead) is None:
            job, error = attempt(next, self._jobs, None)
        try:
            outcome = None if error is None else Outcome(error=error)
        finally:
            del error  # as in _run
        # Stores only: an interrupt finds the draw unfinished, or all of it done.
        self._job, self._outcome, self._drawn, self._drawing, self._ahead = (
            job,
            outcome,
            self._drawn + 1,
            False,
            None,
        )

    def beside(self, job: Job) -> Outcome | None:
        """Run a job that is none of the iterator's; give its outcome, and None once stopped.

        Raises:
            KeyboardInterrupt: as of `result`.
        """
        return self.run(_run, job)

    def going_on(self, outcome: Outcome, job: Job | None) -> InlineStream:
        """Give a stream of an outcome, then of a job if there is one, then of this stream's rest.

        Once one of the two streams was asked, the other must not be.
        """
        stream = InlineStream(self._engine, self._jobs)
        stream._ahead, stream._drawn, stream._outcome = job, 1, outcome
        return stream

    def run_caught(
        self, work: Callable[[int], list[Any]], number: int
    ) -> tuple[list[Any] | None, BaseException | None]:
        """Run something as jobs are run: what ``run(attempt, work, number)`` does, in one call.

        Small batches are made this way one by one: there the time of nested calls would count.

        Args:
            work: makes batches.
            number: what it is called with.

        Returns:
            What it gives, or an empty list and what it raised; twice None once stopped.

        Raises:
            KeyboardInterrupt: as of `result`.
        """
        engine = self._engine
        raised: BaseException | None = None
        error: BaseException | None = None
        try:
            engine.running = get_ident()  # as in `run`
            if not engine.usable:
                return None, None
            try:
                context = engine.context
                return (work(number) if context is None else context.run(work, number)), None
            except BaseException as problem:  # noqa: BLE001 (it is the outcome, or raised below)
                error = problem
            if from_signal(error):  # as in `attempt`
                raise raised_first(error)  # noqa: TRY301 (a handler's own passes)
            return [], error
        except BaseException as problem:
            raised = problem
            raise
        finally:
            engine.running = 0  # by a store: no interrupt comes before it
            try:
                if not engine.usable:
                    engine.go_behind(raised)
            finally:
                del raised, error  # their tracebacks lead to this frame

    def run(self, work: Callable[..., _T], *args: Any) -> _T | None:
        """Run something as jobs are run; give what it gives, and None once stopped."""
        engine = self._engine
        raised: BaseException | None = None
        try:
            # Written before `usable` is read: a stop in another thread sees this, or is seen here.
            engine.running = get_ident()
            if not engine.usable:
                return None
            return work(*args) if engine.context is None else engine.context.run(work, *args)
        except BaseException as error:
            raised = error
            raise
        finally:
            engine.running = 0  # by a store: no interrupt comes before it
            try:
                engine.go_behind(raised)
            finally:
                del raised  # its traceback leads to this frame


def _run(job: Job) -> Outcome:
    parts = iter(range(job.parts))
    part: int | None = None
    # The traceback of an error leads back to this frame, so it may not keep the error.
    value = error = None
    try:
        _, error = attempt(job.run, parts)
        if error is None:
            value, error = attempt(job.finish)
        elif given := job.parts - operator.length_hint(parts):  # else it failed before the first
            part = given - 1
        if error is not None:
            job.failed(part)
        return Outcome(job, value, error, part)
    finally:
        del error
