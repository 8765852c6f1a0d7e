"""The feeder and the workers: what runs in the engine's threads."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Generator
from typing import Any

from .. import _runtime
from .._runtime import Runtime, Thread
from ._bound import Bound
from ._joining import join
from ._log_thread import say, warn_of_dropped
from ._ownership import end_if_forked, here
from ._slots import ENDED, Outcome, Slot, Worker, caught, outside

__all__ = [
    "HELD_SECONDS",
    "LOOK",
    "STOP",
    "Shared",
    "end_without_feeder",
    "feed",
    "start_feeder",
]

CLAIM_SECONDS = 150e-6
"""Work that one claim should hold. A claim takes 1 us alone and 4 to 5 where threads fight
for the GIL; larger claims leave workers idle at the end of a batch."""

PROBE_SECONDS, SOON_SECONDS, MOST_SOON = 0.25, 0.03, 16
"""Seconds between two measurements of the GIL's delay, each of which costs one worker that delay.
The first 16 come sooner, since a single one may find the loop not holding the GIL."""

HELD_SECONDS = 1e-3
"""Above this delay of the GIL the loop must be holding it: a loop in pure Python makes it a switch
interval, 5 ms by default, and one that releases the GIL some microseconds."""

LOOK: Any = object()
"""Put on the inbox to have the feeder look again: where the bytes of results are bounded, when one
was made or taken; anywhere when a stream was cancelled or a worker's own lines have failed."""

STOP: Any = object()
"""Put on the inbox to end the feeder, and on the queue, once for each, to end the workers."""


class Shared:
    """What the threads share.

    They hold this and never the `Engine`: so an engine that is dropped can be collected, and its
    finalizer ends them. `max_bytes` bounds the results that wait, None does not. `peak_bytes`, the
    most of them at once, is the feeder's.

    `stopping` is set to True by whoever stops, and by the feeder as it ends; `abandoned` by the
    finalizer; `saying` by the feeder, when it waits for nothing but the log. `failed`, what a
    thread has raised outside of a job, is that thread's: of several, the last counts. `gil_delay`,
    seconds for which the loop keeps the GIL from a worker, is the first worker's. `crew`, the
    workers' facts and threads, is the feeder's; replaced whole, and empty in the end: a worker's
    facts lead back here.

    `forks` is what `_runtime.forks` was when it was made. `inbox` takes the consumer's slots, and
    words, to the feeder. `tickets` takes slots to the workers: one stands there once for each
    worker that may help with its job. The feeder fills `started` when the workers are there, and
    `end` when they are gone, or left behind; where it cannot start, `start_feeder` fills both, and
    where it hangs, the stop fills `end`. `awaited` is the slot that the consumer waits for, or
    waited for when it was interrupted or told of a stall; else None. It is written by the consumer,
    and by whoever cancels its stream in its place, to close; so are `wait_began` and `wait_ended`,
    the times of its last wait. `wait_ended` is infinite once its stream was cancelled.
    """

    def __init__(
        self,
        runtime: Runtime,
        num_workers: int,
        close_timeout: float,
        max_bytes: int | None = None,
    ) -> None:
        self.runtime = runtime
        self.num_workers = num_workers
        self.max_bytes = max_bytes
        self.peak_bytes = 0
        self.close_timeout = close_timeout
        self.inbox = runtime.simple_queue()
        self.tickets = runtime.queue()
        self.stopping = False
        self.abandoned = self.saying = False
        self.forks = _runtime.forks
        self.failed: Outcome | None = None
        self.gil_delay = 0.0
        self.crew: tuple[tuple[Worker, Thread], ...] = ()
        self.started = Slot(runtime)
        self.end = Slot(runtime)
        self.awaited: Slot | None = None
        self.wait_began = self.wait_ended = float("-inf")


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
        thread = shared.runtime.thread(_work, (shared, worker, number == 0), name)
        thread.start()
        crew.append((worker, thread))


def _work(shared: Shared, worker: Worker, first: bool) -> None:
    """A worker: serve. If that fails a slot may be lost, and so the feeder is told to end."""
    here.shared = shared
    _, error = caught(_serve, shared, worker, first)
    end_if_forked(shared, error)
    if error is not None:
        shared.failed = outside(error)
        shared.inbox.put(STOP)


def _serve(shared: Shared, worker: Worker, first: bool) -> None:
    """Take slots and work at them until the sentinel comes.

    This frame stays alive as long as any traceback of user code that leads to it. So each
    round ends by letting go of all that belongs to its slot, which would make a cycle (G10).
    """
    take, monotonic = shared.tickets.take, shared.runtime.monotonic
    probed, probes, pause = monotonic(), 0, SOON_SECONDS
    while (slot := take()) is not STOP:
        try:
            job = worker.job = slot.job
            if job is not None:  # else the slot was filled before this worker came
                began = monotonic()  # before: a claim of one part has looked at the stop (G5)
                claims = slot.claims(worker, job.parts)
                _, error = caught(job.run, claims)
                if shared.forks != _runtime.forks:  # compared here: calls for each part would count
                    end_if_forked(shared, error)
                if error is not None:
                    if isinstance(claims, Generator):
                        # Suspended, it leads from traceback to slot; on 3.12.3 even when closed.
                        caught(claims.throw, GeneratorExit)
                    caught(job.failed, worker.part)
                    slot.fail(worker, error)
                worker.part = value = error = None  # now: after `leave` another may fill the slot
                if slot.leave(monotonic() - began):
                    complete = slot.complete(worker)
                    if complete:
                        value, error = caught(job.finish)
                        end_if_forked(shared, error)
                        if error is not None:
                            caught(job.failed, None)
                    outcome = slot.conclude(worker, job, complete, value, error)
                    if shared.max_bytes is not None and outcome.value is not None:
                        outcome.size = job.size
                    # What is filled in is the consumer's alone: an error that is held here as
                    # well keeps the consumer's frames alive, and the iterator in them.
                    value = error = None
                    slot.fill(outcome)
                    if shared.max_bytes is not None:
                        shared.inbox.put(LOOK)
        except BaseException as broken:  # noqa: BLE001 (a thread that dies lets others wait)
            end_if_forked(shared, broken)
            # Raised by the lines above, and not by the user's: out of memory, say.
            slot.fill(Outcome(worker.job, error=broken))
            shared.inbox.put(LOOK)
        worker.job = worker.part = None
        slot = job = claims = outcome = error = value = None
        if first and (now := monotonic()) - probed > pause:
            delay = shared.runtime.gil_delay()
            # Not while the consumer waited: then another worker held the GIL, in Python code. (The
            # consumer writes `awaited`, then `wait_began`: between the two that lies in the past,
            # and nothing counts. Nor does it after a cancel: `wait_ended` is infinite.)
            until = now + delay if shared.awaited is None else shared.wait_began
            own = max(0.0, min(delay, until - max(now, shared.wait_ended)))
            shared.gil_delay = (shared.gil_delay + own) / 2  # no single measurement decides
            probed, probes = now, probes + 1
            pause = SOON_SECONDS if probes < MOST_SOON else PROBE_SECONDS


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
