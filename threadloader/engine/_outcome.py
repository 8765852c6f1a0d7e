"""What a job is, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ..errors import from_signal, raised_first

__all__ = ["ENDED", "Job", "Outcome", "attempt", "caught", "outside"]


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

    @property
    def light(self) -> bool:
        """Whether the feeder may call `finish`.

        It is short then, and of the user's code it calls nothing but what samples of a class of
        their own do when they are stacked.
        """

    def run(self, parts: Iterator[int]) -> None:
        """Do the parts that `parts` gives, one after the other; several workers at once."""

    def finish(self) -> Any:
        """Make the result when all parts are done; called once, by one thread."""

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
        seconds: time that workers spent on the job's parts, all together, without the finish.
        size: bytes of the value, where they are bounded.
        cost: seconds a part; None where there is no job, or it failed.
        finish: seconds that its finish took.
        quickest: seconds a part in the claim that took the least; infinite if nobody has measured.
    """

    __slots__ = ("cost", "error", "finish", "job", "part", "quickest", "seconds", "size", "value")

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
        self.finish = 0.0
        self.quickest = float("inf")
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

    The error loses its traceback, which leads to frames that have the outcome (G10), and the error
    in whose handling it was raised: that one's does, too.
    """
    BaseException.__setattr__(error, "__context__", None)
    return Outcome(error=BaseException.with_traceback(error, None))
