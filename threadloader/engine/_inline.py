"""The engine without threads: each job is run in the calling thread, when it is asked for."""

from __future__ import annotations

import contextvars
import functools
import opcode
import operator
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from ..errors import LoaderError
from ._slots import ENDED, Job, Outcome, caught

__all__ = ["Inline", "InlineStream", "attempt", "from_signal"]

_T = TypeVar("_T")


class Inline:
    """The face of `Engine` for ``num_workers: 0``.

    Args:
        apart: run jobs in an empty context, as threads do, where neither `contextvars` nor
            what is made of them (`numpy.errstate`) of the caller hold.

    Attributes:
        usable: False once stopped.
        peak_bytes: 0: nothing is ready before it is asked for.
        gil_delay: 0: no thread of ours waits for the GIL.
        gil_held: False, likewise.
        context: the context in which jobs are run; None: that of the caller.
        running: whether something is being run; written by the consumer alone.
    """

    def __init__(self, *, apart: bool = False) -> None:
        self.usable = True
        self.context = contextvars.Context() if apart else None
        self.peak_bytes = 0
        self.gil_delay = 0.0
        self.gil_held = False
        self.running = False

    def start(self) -> None:
        """Start nothing."""

    def stop(self) -> bool:
        """Run no more jobs; say whether none is running."""
        self.usable = False
        return not self.running

    def inside(self) -> bool:
        """Tell whether the calling thread is one of its own: it has none."""
        return False

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
            Its outcome; `ENDED` when there is no such job, or when an interrupt came while
            the iterator of jobs was at work: what it gave then is lost, and a new stream
            must begin where the consumer stands.

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
            # Straight to where the consumer clears it: frames of its error's traceback lead here.
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
        """Give a stream of an outcome, of a job if there is one, and of what is left of this one.

        Once one of the two streams was asked, the other must not be.
        """
        stream = InlineStream(self._engine, self._jobs)
        stream._ahead, stream._drawn, stream._outcome = job, 1, outcome
        return stream

    def run(self, work: Callable[..., _T], *args: Any) -> _T | None:
        """Run something as jobs are run; give what it gives, and None once stopped."""
        engine = self._engine
        try:
            # First said, then asked: a stop in another thread sees the one, or is seen.
            engine.running = True
            if not engine.usable:
                return None
            return work(*args) if engine.context is None else engine.context.run(work, *args)
        finally:
            engine.running = False


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """Call a function; give its result, or what it raised, but raise what a signal handler did."""
    result, error = caught(function, *args)
    try:
        if error is not None and from_signal(error):
            raise _raised(error)
        return result, error
    finally:
        del error  # its traceback leads to this frame


def _run(job: Job) -> Outcome:
    parts = iter(range(job.parts))
    part: int | None = None
    # The traceback of an error leads back to this frame, so it may not keep the error.
    value = error = None
    try:
        _, error = attempt(job.run, parts)
        if error is None:
            value, error = attempt(job.finish)
        else:  # at the part that was given last; before the first, at none
            part = job.parts - operator.length_hint(parts) - 1
        part = part if part != -1 else None
        if error is not None:
            job.failed(part)
        return Outcome(job, value, error, part)
    finally:
        del error


_RAISING = {opcode.opmap[name] for name in ("RAISE_VARARGS", "YIELD_VALUE", "RETURN_GENERATOR")}
"""Where Python code raises what ``raise`` or ``throw`` says; no signal is looked for there."""

_MAKING = opcode.opmap["RETURN_GENERATOR"]


def from_signal(error: BaseException) -> bool:
    """Tell whether a signal handler raised this, and not the code that it interrupted.

    A handler runs in the main thread between two bytecodes of whatever runs there, so a
    Ctrl-C during a read looks like an exception of the source. It is told apart by its
    traceback: a handler written in Python stands in it; Python's own handler, written in C,
    leaves no frame, and its KeyboardInterrupt ends where no ``raise`` stands, and nothing that
    only ``throw`` of a generator makes raise. What this cannot see: a handler written in C by
    somebody else; and, from CPython 3.13 on, a KeyboardInterrupt that user code throws into a
    generator that has begun, which passes for a real one.

    An error of ours that was made of such an exception counts as one, since a file of ours took
    it for the system's.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    import signal  # where something was raised, and not with the package

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {code for handler in handlers if (code := _code(handler)) is not None}
    error = _raised(error)
    # Past a class that answers for its attributes itself, and may raise; isinstance asks it too.
    step: TracebackType | None = object.__getattribute__(error, "__traceback__")
    last = step
    while step is not None:
        if step.tb_frame.f_code in codes:
            return True
        last, step = step, step.tb_next
    if last is None or not issubclass(type(error), KeyboardInterrupt):
        return False
    if signal.default_int_handler not in handlers:
        return False
    code, at = last.tb_frame.f_code.co_code, last.tb_lasti
    # A generator that has not begun stands at its making, from 3.13 on behind that.
    return code[at] not in _RAISING and code[max(at - 2, 0)] != _MAKING


def _raised(error: BaseException) -> BaseException:
    """Give what was raised first: the cause of an error of ours, and else the error itself."""
    seen: set[int] = set()  # a cause may lead back to its error
    while issubclass(type(error), LoaderError) and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__ or error
    return error


def _code(handler: Any) -> Any:
    """Give the code of a handler in Python: a function, a method, a partial, or an object."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    call = getattr(type(handler), "__call__", None)  # noqa: B004 (its code is what is wanted)
    return getattr(handler, "__code__", None) or getattr(call, "__code__", None)
