"""The watch over a consumer that waits: says when nothing moves, ends where a thread has died."""

from __future__ import annotations

from typing import Any

from .._runtime import Thread
from ..errors import StalledError
from ._log_thread import say
from ._outcome import ENDED, Outcome
from ._ownership import forked
from ._shared import STOP, Shared
from ._slots import Slot

__all__ = ["Watch"]

TICKS = 10
"""How many looks there are in the limit, at least: so a stall is told at most a tenth of the limit
late; where `LONGEST_TICK` is shorter than that, at most two looks late."""

LONGEST_TICK = 5.0
"""Seconds from one look to the next, at most."""


class Watch:
    """Waits for slots, and tells what everybody is at when nothing moves meanwhile.

    It ends the engine where one of its threads has died.

    A look counts as much time as was waited for, and not what a clock says: a process that
    was stopped and goes on, or a machine that slept, has lost a look and no more. While a worker
    or the feeder is in a debugger no stall is told. A worker moves when it claims parts, goes on to
    its next part, or gets on inside of one (if its job has `at`); the feeder when it is handed a
    slot to fill, and goes on to the next one. Belongs to the consumer.

    Args:
        shared: what the threads share.
        feeder: the feeder.
        seconds: how long nothing may move; infinite: for ever, and no stall is told.
        raises: whether a stall is raised; otherwise it is logged, at the limit and then
            each time that it has lasted twice as long.
    """

    def __init__(self, shared: Shared, feeder: Thread, seconds: float, *, raises: bool) -> None:
        self._shared = shared
        self._feeder = feeder
        self._seconds = seconds
        self._raises = raises
        self._tick = min(seconds / TICKS, LONGEST_TICK)

    def wait(self, slot: Slot) -> Outcome | None:
        """Wait for a slot's outcome.

        Raises:
            StalledError: nothing moves; the next call waits anew.
        """
        # Nothing is looked at before a tick has passed: most waits end within it.
        outcome, seen, ticks, told_at = slot.wait(self._tick), None, 0, self._seconds
        while outcome is None:
            if forked(self._shared):  # by a signal's handler: the child has none of the threads
                return ENDED
            if self._lost():
                return self._give_up(slot)
            moves, ticks = self._moves(), ticks + 1
            # A tenth, ten times, need not be the whole to the last bit.
            late = round(ticks * self._tick, 9) >= round(told_at, 9)
            if moves != seen or (late and self._in_debugger()):
                seen, ticks, told_at = moves, 0, self._seconds
            elif late and not self._shared.stopping:  # else what is stuck is told by the stop
                self._tell(ticks * self._tick)
                told_at *= 2
            outcome = slot.wait(self._tick)
        return outcome

    def _lost(self) -> bool:
        """Tell whether a thread has ended that was not told to: without memory it dies silently."""
        lives = self._shared.runtime.lives
        # In this order: whoever tells them to end has set `stopping` before they do.
        return not (all(map(lives, self._threads())) or self._shared.stopping)

    def _give_up(self, slot: Slot) -> Outcome | None:
        """Do what a thread does that fails, in the place of one that could not."""
        shared = self._shared
        shared.failed = shared.failed or shared.broken
        shared.stopping = True
        shared.inbox.put(STOP)
        slot.fill(shared.failed)
        return slot.outcome

    def _moves(self) -> tuple[list[tuple[int, int | None, Any]], int]:
        """Give where each worker is, and how many slots the feeder has to fill."""
        shared = self._shared
        at = [(it.claims, it.part, getattr(it.job, "at", None)) for it, _ in shared.crew]
        return at, len(shared.handed)

    def _in_debugger(self) -> bool:
        return any(map(self._shared.runtime.in_debugger, self._threads()))

    def _threads(self) -> list[Thread]:
        return [self._feeder, *(thread for _, thread in self._shared.crew)]

    def _tell(self, seconds: float) -> None:
        stack = self._shared.runtime.stack
        at_work = [(thread, str(it)) for it, thread in self._shared.crew if it.job is not None]
        if finished := self._shared.finished_by_feeder():
            at_work.append((self._feeder, finished))
        who = "".join(f"{it.name} is at {what}\n{stack(it.ident)}" for it, what in at_work)
        if not at_work:
            who = "no worker has anything to do; who asks for the order of the samples, "
            who += f"{self._feeder.name}, is at\n{stack(self._feeder.ident)}"
        advice = 'see below what waits; if that may take so long, raise "stall_seconds"'
        text = f"nothing has moved for {seconds:g} s while a batch is waited for; {advice}; {who}"
        text = text.rstrip()
        if self._raises:
            raise StalledError(text, seconds)
        # None: only the consumer waits for this log, no thread of ours; a handler may close.
        say(None, "warning", [text])
