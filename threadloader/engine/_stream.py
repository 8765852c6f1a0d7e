"""The consumer's end: its line of slots, and where they get their jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ._outcome import ENDED, Job, Outcome
from ._shared import LOOK, Shared
from ._slots import Slot
from ._watch import Watch

__all__ = ["Stream"]


class _Origin:
    """Where the slots of one stream get their jobs.

    `jobs` and `dealt` (how often a job was asked for) are the feeder's. `cancelled` (set to True,
    once) and `taken` (how many results were taken; 0 where their bytes are not bounded) are the
    consumer's; the threads read them.
    """

    def __init__(self, jobs: Iterator[Job]) -> None:
        self.jobs = jobs
        self.dealt = 0
        self.taken = 0
        self.cancelled = False


class Stream:
    """The results of one iterator of jobs, in order, for one consumer.

    Args:
        shared: the engine's.
        jobs: iterator of jobs; the feeder alone draws from it.
        depth: how many jobs to work ahead of the consumer, at least 1.
        watch: waits in the consumer's place, and tells of a stall; None for nobody.
    """

    def __init__(
        self, shared: Shared, jobs: Iterator[Job], depth: int, watch: Watch | None = None
    ) -> None:
        self._shared = shared
        self._watch = watch
        self._depth = depth
        self._origin = _Origin(jobs)
        # The consumer's alone: its line of slots, how many of them it has sent, whether it sends
        # no more, and up to which number they are known to be filled.
        self._line: deque[Slot] = deque()
        self._sent = 0
        self._winding_down = False
        self._filled_to = 0

    @property
    def cancelled(self) -> bool:
        """Whether it was ended."""
        return self._origin.cancelled

    def prefetch(self, number: int = 0) -> None:
        """Let the threads work `depth` jobs ahead, from job `number` on.

        A slot joins the line before it is sent, and counts as sent afterwards. So after an
        interrupt a slot that was not sent yet is sent, and the feeder knows one that is sent a
        second time by its number (G8).
        """
        line = self._line
        if self._winding_down:
            return
        while self._sent < number + self._depth:
            if not line or line[-1].number < self._sent:
                line.append(Slot(self._shared.runtime, self._origin, self._sent))
            self._shared.inbox.put(line[-1])
            self._sent += 1

    def result(self, number: int) -> Outcome:
        """Wait for the outcome of a job; asked again, give the same.

        Args:
            number: the job's place in the iterator, from 0; not lower than the last time.

        Returns:
            Its outcome; `ENDED` when there is no such job, or the stream or the engine has
            been ended.

        Raises:
            StalledError: nothing moves, and the watch is to raise that; ask again.
        """
        if self._origin.cancelled:
            return ENDED
        line = self._line
        while line and line[0].number < number:
            line.popleft()
        self.prefetch(number)
        if number >= self._sent:  # it winds down, and all that was asked for has been taken
            return ENDED
        # Sent, and written to `awaited`, before `stopping` is read: a later stop finds the slot.
        slot = self._shared.awaited = line[0]
        if self._shared.stopping:
            self._shared.awaited = None  # else it would keep a filled slot, and its job
            return ENDED
        outcome = slot.outcome or self._wait(slot)
        self._shared.awaited = None
        if self._shared.max_bytes is not None:
            self._origin.taken = number + 1
            self._shared.inbox.put(LOOK)
        self.prefetch(number + 1)
        return outcome or ENDED

    def _wait(self, slot: Slot) -> Outcome | None:
        """Wait for a slot that is not filled yet, and write down from when to when."""
        shared = self._shared
        shared.wait_began = shared.runtime.monotonic()
        outcome = slot.wait() if self._watch is None else self._watch.wait(slot)
        shared.wait_ended = shared.runtime.monotonic()
        return outcome

    def ready(self, number: int) -> int:
        """Count the results from `number` on that can be had without waiting."""
        line = self._line
        first = line[0].number if line else number
        filled_to = max(self._filled_to, number)
        while filled_to - first < len(line):
            if line[filled_to - first].outcome in (None, ENDED):
                break
            filled_to += 1
        self._filled_to = filled_to
        return filled_to - number

    def wind_down(self) -> None:
        """Ask for no further job: what comes after those that were asked for is `ENDED`."""
        self._winding_down = True

    def cancel(self) -> None:
        """End the stream: what is in work is left unfinished, what is ready is thrown away."""
        self._origin.cancelled = True
        self._line.clear()
        self._shared.awaited = None
        self._shared.wait_ended = float("inf")  # the consumer may make the next batches itself
        self._shared.inbox.put(LOOK)  # the feeder, too, lets go of what is ready (G10)
