"""The feeder: starts the workers, gives slots their jobs, fills those handed to it, ends all."""

from __future__ import annotations

import queue
from collections import deque
from typing import NamedTuple

from .._runtime import Thread
from ._bound import Bound
from ._finishing import finish_handed, forget_handed
from ._joining import join
from ._log_thread import say, warn_of_dropped
from ._outcome import ENDED, Outcome, caught, outside
from ._ownership import end_if_forked, forked, here
from ._shared import HELD_SECONDS, LOOK, STOP, Shared
from ._slots import Slot, Worker
from ._worker import work

__all__ = ["end_without_feeder", "feed", "start_feeder"]

READ_SECONDS = 0.5e-3
"""Where workers wait and a part takes longer than this, it is the part that waits."""

LOOP_SECONDS = 0.1e-3
"""Above this delay of the GIL the loop has work of its own, and the feeder keeps out of its way.
Measured: 0 to 0.08 ms where it has none, 0.12 with matrix products, 0.3 and more with Python."""

MOST_FINISHING = 0.2
"""A finish may take this part of what its job's parts take all workers, at most: the feeder makes
one result after the other, and deals jobs besides. Chosen."""

CLAIM_SECONDS = 150e-6
"""Work that one claim should hold. A claim takes 1 us alone and 4 to 5 where threads fight
for the GIL; larger claims leave workers idle at the end of a batch."""

MOST_RUNNING = 0.1
"""A worker that a processor runs for this part of its time at most waits: for storage, say.
Measured with reads of 5 ms: 0.004 to 0.02."""

FADING = 0.5
"""What a part has taken counts for so much of it after the next job, if those took less. Jobs may
differ: with claims as the cheap ones permit, one worker would do all of a dear one. Where a job
was late for another reason, the small claims that follow take a fraction of what it lost."""


def start_feeder(feeder: Thread, shared: Shared) -> None:
    """Start the feeder; runs in a bare thread, where no signal lands."""
    outcome: Outcome | None = shared.broken  # where no memory is left for another one
    try:
        _, error = caught(feeder.start)
        outcome = None if error is None else Outcome(error=error)
        del error  # its traceback leads to this frame (G10)
    finally:
        if outcome is not None:
            shared.end.fill(ENDED)
            shared.started.fill(outcome)


def feed(shared: Shared) -> None:
    """The feeder: start the workers, deal jobs until told to stop, end the workers.

    It ends them in any case, also where its own lines fail for want of memory: somebody waits.
    """
    dealt: deque[Slot] = deque()
    fed = False
    try:
        here.shared = shared
        _feed(shared, dealt)
        fed = True
    finally:
        if not forked(shared):
            if not fed:
                shared.failed = shared.failed or shared.broken
                shared.started.fill(shared.broken)  # where nothing has
            try:
                _end(shared, dealt, shared.failed or ENDED)
            except BaseException:
                end_without_feeder(shared)
                shared.end.fill(ENDED)  # who stops joins the workers then
                raise
            _go_behind(shared)


def _feed(shared: Shared, dealt: deque[Slot]) -> None:
    bound = Bound(shared.max_bytes, shared.num_workers)
    _, error = caught(_start_workers, shared)
    shared.started.fill(Outcome(error=error))
    if error is None:
        _, error = caught(_deal, shared, dealt, bound)
        end_if_forked(shared, error)
        if error is not None:
            shared.failed = outside(error)
    del error
    dealt += bound.given_up()


def _start_workers(shared: Shared) -> None:
    for number in range(shared.num_workers):
        worker = Worker(lambda: shared.stopping)
        name = f"threadloader-worker-{number}"
        thread = shared.runtime.thread(work, (shared, worker, number == 0), name)
        thread.start()
        shared.crew += ((worker, thread),)  # at once: a stop finds it, even if the next one hangs


class _Costs(NamedTuple):
    """What jobs cost, in seconds; at first it is not known.

    Attributes:
        most: what a part may take, by the last jobs.
        part: what each took in the last one.
        finish: what its finish took.
    """

    most: float = float("inf")  # until it is known, a claim is one part
    part: float = float("inf")
    finish: float = 0.0

    def after(self, part: float, finish: float) -> _Costs:
        """Give what is known once a job took so many seconds a part, and for its finish."""
        faded = 0.0 if self.most == float("inf") else FADING * self.most
        return _Costs(max(part, faded), part, finish)


def _deal(shared: Shared, dealt: deque[Slot], bound: Bound) -> None:
    """Give each slot that the consumer sends its job, and hand it to the workers.

    Args:
        shared: what the threads share.
        dealt: filled with the slots that are in the workers' hands, oldest first.
        bound: holds slots back where the bytes of results are bounded.
    """
    me, costs = Worker(lambda: shared.stopping), _Costs()
    while (slot := shared.inbox.get()) is not STOP:
        # Slots of a cancelled stream go, too: nobody waits for them, and their reads may hang.
        while dealt and (dealt[0].outcome is not None or dealt[0].origin.cancelled):
            done = dealt.popleft().outcome
            if done is not None and done.cost is not None:
                costs = costs.after(done.cost, done.finish)
            del done
        if slot is LOOK:
            finish_handed(shared, me)
        else:
            bound.waiting.append(slot)
        bound.look()
        while (slot := bound.admitted()) is not None:
            if _deal_one(shared, slot, dealt, costs, me):
                bound.begun(slot)
        shared.peak_bytes = bound.peak
        del slot  # None by now, as `done` is gone: nothing is kept while the feeder waits (G10)


def _deal_one(shared: Shared, slot: Slot, dealt: deque[Slot], costs: _Costs, me: Worker) -> bool:
    """Give a slot its job; say whether there was one."""
    origin = slot.origin
    if shared.stopping:  # the word to end lies behind all slots that were sent before it (G5)
        slot.fill(ENDED)
        return False
    if origin.cancelled or slot.number != origin.dealt:  # unwanted; or sent twice (G8)
        return False
    origin.dealt += 1
    shared.asking = True
    finish_handed(shared, me)  # what was handed over is not to wait for the user's sampler
    job, error = caught(next, origin.jobs, None)
    shared.asking = False
    end_if_forked(shared, error)
    if job is None:
        outcome = ENDED if error is None else Outcome(error=error)
        del error  # its traceback leads to this frame
        slot.fill(outcome)
        del slot, outcome  # the error's traceback leads to this frame (G10)
        return False
    dealt.append(slot)
    slot.job = job
    slot.claim = max(1, min(job.parts, int(CLAIM_SECONDS / max(costs.most, 1e-9))))
    if shared.gil_delay > HELD_SECONDS:
        # For each claim a worker waits for the GIL: so let it take its whole share of the job,
        # by how many jobs are in work. Not more: no worker is to have nothing.
        share = -(-shared.num_workers // len(dealt))
        slot.claim = max(slot.claim, -(-job.parts // share))
    hands = min(shared.num_workers, -(-job.parts // slot.claim))
    slot.hands = hands
    slot.singly = hands == job.parts
    slot.by_feeder = job.light and _has_time(shared, costs, job.parts)
    shared.tickets.put_all([slot] * hands)
    return True


def _has_time(shared: Shared, costs: _Costs, parts: int) -> bool:
    """Tell whether parts wait, as far as is known, and the feeder has time to make results."""
    if not READ_SECONDS < costs.part < float("inf"):
        return False
    if shared.running > MOST_RUNNING or shared.gil_delay > LOOP_SECONDS:
        return False
    return costs.finish <= MOST_FINISHING * costs.part * parts / shared.num_workers


def _end(shared: Shared, dealt: deque[Slot], word: Outcome) -> None:
    """Fill all slots with `word`, so that whoever waits wakes; end and join the workers, report."""
    shared.stopping = shared.asking = True
    forget_handed(shared)  # they were dealt
    while True:
        try:
            slot = shared.inbox.get_nowait()
        except queue.Empty:
            break
        if slot is not STOP and slot is not LOOK:
            dealt.append(slot)
    # Mostly it is among those; where a thread has failed it may have been lost.
    if (awaited := shared.awaited) is not None:
        dealt.append(awaited)
    for slot in dealt:
        slot.fill(word)
    # What a finish has raised in this thread leads to the frames of `_deal`, and so to this (G10).
    dealt.clear()
    release(shared)
    try:
        if stuck := join(shared.crew, shared.close_timeout, shared.close_timeout, shared.runtime):
            shared.saying = True
            say(shared, "error", stuck)
    finally:
        shared.crew = ()
        shared.end.fill(ENDED)
    if shared.abandoned:
        warn_of_dropped()


def _go_behind(shared: Shared) -> None:
    """Do what one of the threads could not do while they were at work, if there is anything."""
    behind, shared.behind = shared.behind, None
    if behind is not None:
        here.shared, here.ended = None, shared  # like other threads it may stop the engine now
        behind()


def release(shared: Shared) -> None:
    """Send each worker the word to end, behind what it still has to look at."""
    shared.tickets.put_all([STOP] * shared.num_workers)


def end_without_feeder(shared: Shared) -> None:
    """End the workers and wake the consumer in the feeder's place, which hangs, or has failed."""
    shared.stopping = True
    slot = shared.awaited
    if slot is not None:
        slot.fill(shared.failed or ENDED)
    release(shared)
