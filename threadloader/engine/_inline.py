"""The engine without threads: each job is run in the calling thread, when it is asked for."""

from __future__ import annotations

import opcode
import signal
import threading
from collections.abc import Iterator

from ..errors import BusyError
from ._slots import ENDED, Job, Outcome, caught

__all__ = ["Inline"]


class Inline:
    """The faces of `Engine` and of its `Stream` in one, for ``num_workers: 0``.

    Same order, same errors, same outcomes; nothing is worked ahead.
    """

    def __init__(self) -> None:
        self.usable = True
        self._jobs: Iterator[Job] = iter(())
        self._drawn = 0
        self._outcome: Outcome | None = None
        self._job: Job | None = None
        self._running = False

    def start(self) -> None:
        """Start nothing."""

    def stop(self) -> None:
        """Run no more jobs."""
        self.usable = False

    def stream(self, jobs: Iterator[Job], depth: int) -> Inline:
        """Begin with other jobs. Nothing is worked ahead, whatever the depth."""
        self._jobs, self._drawn, self._job, self._outcome = jobs, 0, None, None
        return self

    def prefetch(self, number: int = 0) -> None:
        """Work nothing ahead."""

    def ready(self, number: int) -> int:
        """Count the results that can be had without waiting: none."""
        return 0

    def cancel(self) -> None:
        """Forget the jobs."""
        self.stream(iter(()), 0)

    def result(self, number: int) -> Outcome:
        """Run the job of this number; asked again, give the same outcome.

        Raises:
            KeyboardInterrupt: when Ctrl-C comes while the job runs, as it is, and whatever
                else a signal handler raises then. The job is run anew when it is asked for
                again.
            BusyError: the job itself asks for a result.
        """
        if self._running:
            raise BusyError("a source, transform or collate asks its own loader for a batch")
        try:
            self._running = True
            return self._result(number)
        finally:
            self._running = False

    def _result(self, number: int) -> Outcome:
        while self._drawn <= number:
            job, error = caught(next, self._jobs, None)
            try:
                if error is not None and _from_signal(error):
                    raise error
                outcome = None if error is None else Outcome(error=error)
            finally:
                del error  # as in _run
            # Stored together: no interrupt comes between and draws a job twice.
            self._job, self._outcome, self._drawn = job, outcome, self._drawn + 1
        if self._outcome is None:
            self._outcome = _run(self._job) if self._job is not None and self.usable else ENDED
        return self._outcome


def _run(job: Job) -> Outcome:
    part: int | None = None

    def parts() -> Iterator[int]:
        nonlocal part
        for part in range(job.parts):  # noqa: UP028 (`part` is read outside, when one raises)
            yield part

    # The traceback of an error leads back to this frame, so it may not keep the error.
    value = error = None
    try:
        _, error = caught(job.run, parts())
        if error is None:
            part = None
            value, error = caught(job.finish)
        if error is not None and _from_signal(error):
            raise error
        return Outcome(job, value, error, part)
    finally:
        del error


def _from_signal(error: BaseException) -> bool:
    """Whether a signal handler raised this, and not the code it interrupted.

    A handler runs in the main thread between two bytecodes of whatever runs there, so a
    Ctrl-C during a read looks like an exception of the source. It is told apart by its
    traceback: a handler written in Python stands in it; Python's own handler, written in C,
    leaves no frame, and its KeyboardInterrupt ends where no ``raise`` stands.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [code for handler in handlers if (code := getattr(handler, "__code__", None))]
    last = step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in codes:
            return True
        last, step = step, step.tb_next
    if last is None or not isinstance(error, KeyboardInterrupt):
        return False
    if signal.default_int_handler not in handlers:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] != opcode.opmap["RAISE_VARARGS"]
