"""What is done about a sample that fails: it is tried again, and then left out, or raised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..errors import TOO_MANY, BusyError, ClosedError

__all__ = ["Pause", "Policy"]

_ERRNO: Callable[[Any], Any] = vars(OSError)["errno"].__get__
_CAUSE: Callable[[Any], Any] = vars(BaseException)["__cause__"].__get__
_CAUSES = 100
"""Causes of an error that are looked at. Chosen: none has as many, and they may go in a circle."""

LONGEST_PAUSE = 60.0
"""Seconds up to which the pause is doubled."""


class Pause:
    """Waits before another try, but not any more once the loader is closed.

    Args:
        lock: a new lock.
        wait: (held lock, seconds) -> whether it came free in time, and was left free.
    """

    def __init__(self, lock: Any, wait: Callable[[Any, float], bool]) -> None:
        self._lock = lock
        self._wait = wait
        lock.acquire()
        # Taken out by whoever ends the pauses, once: the lock is to be released once.
        self._held = {"lock": lock}

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds; say whether the end came first."""
        return self._wait(self._lock, seconds)

    def end(self) -> None:
        """End all pauses, those to come as well; harmless a second time, in any thread."""
        # Taken out by C code alone: a signal between that and the release would leave the lock
        # held for ever, and none is looked for there.
        for lock in iter(partial(self._held.pop, "lock", None), None):
            lock.release()


class Policy(NamedTuple):
    """The option `on_error`, as those who read samples need it.

    Attributes:
        retry: how often a sample that failed is tried again.
        backoff: seconds before the first time; twice as long before each further one.
        skip: whether a sample that fails to the end is left out of its batch.
        pause: waits before another try.
        strict: whether it is raised all the same, but for a row of padding: the budget is spent.
    """

    retry: int
    backoff: float
    skip: bool
    pause: Pause
    strict: bool = False

    def leaves_out(self, error: BaseException, *, padding: bool) -> bool:
        """Tell whether a sample, or a row of padding, that failed so to the end is left out.

        Not where the source is closed, the loader is busy, or the process has too many files
        open: that says nothing of the sample.
        """
        if issubclass(type(error), (BusyError, ClosedError)):
            return False
        cause: BaseException | None = error
        try:
            for _ in range(_CAUSES):
                # Not `cause.errno`: attributes of a user's class may give or raise anything.
                if issubclass(type(cause), OSError) and _ERRNO(cause) in TOO_MANY:
                    return False
                if (cause := _CAUSE(cause)) is None:
                    break
            return self.skip and (padding or not self.strict)
        finally:
            del cause, error  # whose traceback leads to this frame

    def again(self, tries: int) -> bool:
        """Pause before another try; say whether there is one.

        Args:
            tries: how often the sample was tried again already.

        Raises:
            ClosedError: the end came first. A sample that was not tried to the end has not failed.
        """
        if tries >= self.retry:
            return False
        # 2.0**1024 is too large for a float, and the pause has reached its bound long before.
        if self.pause.wait(min(self.backoff * 2.0 ** min(tries, 64), LONGEST_PAUSE)):
            raise ClosedError("the loader was closed before a sample was tried again")
        return True
