"""The feeder: starts the workers, gives slots their jobs, and ends all."""

from __future__ import annotations

import queue
from collections import deque

from .._runtime import Thread
from ._bound import Bound
from ._joining import join
from ._log_thread import say, warn_of_dropped
from ._ownership import end_if_forked, here
from ._shared import HELD_SECONDS, LOOK, STOP, Shared
from ._slots import ENDED, Outcome, Slot, Worker, caught, outside
from ._worker import work

__all__ = ["end_without_feeder", "feed", "start_feeder"]

CLAIM_SECONDS = 150e-6
"""Work that one claim should hold. A claim takes 1 us alone and 4 to 5 where threads fight
for the GIL; larger claims leave workers idle at the end of a batch."""


def start_feeder(feeder: Thread, shared: Shared) -> None:
    """Start the feeder; runs in a bare thread, where no signal lands."""
    _, error = caught(feeder.start)
    if error is not None:
        shared.end.fill(ENDED)
        outcome = Outcome(error=error)
        del error  # its traceback leads to this frame (G10)
        shared.started.fill(outcome)


def feed(shared: Shared) -> None:
    """The feeder: start the workers, deal jobs until told to stop, end the workers."""
    here.shared = shared
    crew: list[tuple[Worker, Thread]] = []
    dealt: deque[Slot] = deque()
    bound = Bound(shared.max_bytes, shared.num_workers)
    _, error = caught(_start_workers, shared, crew)
    shared.crew = tuple(crew)  # all workers, or those before one that could not be started
    shared.started.fill(Outcome(error=error))
    if error is None:
        _, error = caught(_deal, shared, dealt, bound)
        end_if_forked(shared, error)
        if error is not None:
            shared.failed = outside(error)
    del error
    dealt += bound.waiting
    _end(shared, dealt, shared.failed or ENDED)


def _start_workers(shared: Shared, crew: list[tuple[Worker, Thread]]) -> None:
    for number in range(shared.num_workers):
        worker = Worker(lambda: shared.stopping)
        name = f"threadloader-worker-{number}"
        thread = shared.runtime.thread(work, (shared, worker, number == 0), name)
        thread.start()
        crew.append((worker, thread))


def _deal(shared: Shared, dealt: deque[Slot], bound: Bound) -> None:
    """Give each slot that the consumer sends its job, and hand it to the workers.

    Args:
        shared: what the threads share.
        dealt: filled with the slots that are in the workers' hands, oldest first.
        bound: holds slots back where the bytes of results are bounded.
    """
    cost = float("inf")  # seconds a part; unknown as yet, and one part is never too large
    while (slot := shared.inbox.get()) is not STOP:
        # Slots of a cancelled stream go, too: nobody waits for them, and their reads may hang.
        while dealt and (dealt[0].outcome is not None or dealt[0].origin.cancelled):
            done = dealt.popleft().outcome
            if done is not None and done.cost is not None:
                cost = done.cost
            del done
        if slot is not LOOK:
            bound.waiting.append(slot)
        bound.look()
        while (slot := bound.admitted()) is not None:
            if _deal_one(shared, slot, dealt, cost):
                bound.begun(slot)
        shared.peak_bytes = bound.peak
        del slot  # None by now, as `done` is gone: nothing is kept while the feeder waits (G10)


def _deal_one(shared: Shared, slot: Slot, dealt: deque[Slot], cost: float) -> bool:
    """Give a slot its job; say whether there was one."""
    origin = slot.origin
    if shared.stopping:  # the word to end lies behind all slots that were sent before it (G5)
        slot.fill(ENDED)
        return False
    if origin.cancelled or slot.number != origin.dealt:  # unwanted; or sent twice (G8)
        return False
    origin.dealt += 1
    job, error = caught(next, origin.jobs, None)
    end_if_forked(shared, error)
    if job is None:
        outcome = ENDED if error is None else Outcome(error=error)
        del error  # its traceback leads to this frame
        slot.fill(outcome)
        del slot, outcome  # the error's traceback leads to this frame (G10)
        return False
    dealt.append(slot)
    slot.job = job
    slot.claim = max(1, min(job.parts, int(CLAIM_SECONDS / max(cost, 1e-9))))
    if shared.gil_delay > HELD_SECONDS:
        # For each claim a worker waits for the GIL: so let it take its whole share of the job,
        # by how many jobs are in work. Not more: no worker is to have nothing.
        share = -(-shared.num_workers // len(dealt))
        slot.claim = max(slot.claim, -(-job.parts // share))
    hands = min(shared.num_workers, -(-job.parts // slot.claim))
    slot.hands = hands
    slot.singly = hands == job.parts
    shared.tickets.put_all([slot] * hands)
    return True


def _end(shared: Shared, dealt: deque[Slot], word: Outcome) -> None:
    """Fill all slots with `word`, so that whoever waits wakes; end and join the workers, report."""
    shared.stopping = True
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


def release(shared: Shared) -> None:
    """Send each worker the word to end, behind what it still has to look at."""
    shared.tickets.put_all([STOP] * shared.num_workers)


def end_without_feeder(shared: Shared) -> None:
    """End the workers and wake the consumer, when the feeder is in the user's sampler for good."""
    slot = shared.awaited
    if slot is not None:
        slot.fill(ENDED)
    release(shared)
