"""What is done about a sample that fails: it is tried again, and then left out, or raised."""

from __future__ import annotations

import queue
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Failure", "Pause", "Policy", "failure_of"]

LONGEST_PAUSE = 60.0
"""Seconds: how far the doubling of the pause goes."""

LONGEST_TEXT = 20_000
"""Characters of a traceback that are kept: its last ones, which say most."""


class Pause:
    """Waits before another try, and for nothing any more once the loader is closed.

    Args:
        lock: a new lock.
        wait: (held lock, seconds) -> whether it came free in time, and was left free.
    """

    def __init__(self, lock: Any, wait: Callable[[Any, float], bool]) -> None:
        self._lock = lock
        self._wait = wait
        lock.acquire()
        # Taken out by whoever ends the pauses, once: the lock is to be released once.
        self._held: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._held.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds; say whether the end came first."""
        return self._wait(self._lock, seconds)

    def end(self) -> None:
        """End all pauses, those to come as well; harmless a second time, in any thread."""
        try:
            self._held.get_nowait()
        except queue.Empty:
            return
        self._lock.release()


class Policy(NamedTuple):
    """The option `on_error`, as those who read samples need it.

    Attributes:
        retry: how often a sample that failed is tried again.
        backoff: seconds before the first time; twice as long before each further one.
        skip: whether a sample that fails to the end is left out of its batch.
        pause: waits before another try.
    """

    retry: int
    backoff: float
    skip: bool
    pause: Pause

    def again(self, tries: int) -> bool:
        """Pause before another try; False when there is none, or nobody waits for it.

        Args:
            tries: how often the sample was tried again already.
        """
        if tries >= self.retry:
            return False
        # 2.0**1024 is too large for a float, and the pause has reached its bound long before.
        return not self.pause.wait(min(self.backoff * 2.0 ** min(tries, 64), LONGEST_PAUSE))


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample that was left out, in words: its exception would lead back to the batch.

    Attributes:
        index: its dataset index.
        path: where it stands, as its source says; None where that says nothing.
        error: the exception's type and message.
        traceback: how it came about, as Python prints it.
    """

    index: int
    path: str | None
    error: str
    traceback: str


def failure_of(
    index: int,
    path: str | None,
    error: BaseException,
    from_signal: Callable[[BaseException], bool],
) -> Failure:
    """Tell a sample's failure in words, whatever its exception does when it is printed.

    What a signal handler raises meanwhile passes: `from_signal` tells it.
    """
    try:
        said = "".join(traceback.format_exception_only(error)).strip()
        told = "".join(traceback.format_exception(error))[-LONGEST_TEXT:]
    except Exception as problem:  # an exception may be made of anything
        if from_signal(problem):
            raise
        said = told = f"{type(error).__name__} (not printable: {type(problem).__name__})"
    return Failure(index, path, said, told)
