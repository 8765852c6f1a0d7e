"""A worker: takes slots, does parts of their jobs; fills, or hands over, those it leaves last."""

from __future__ import annotations

from collections.abc import Generator

from .. import _runtime
from ._finishing import finish, hand_over
from ._outcome import Outcome, caught, outside
from ._ownership import end_if_forked, forked, here
from ._shared import LOOK, STOP, Shared
from ._slots import Worker

__all__ = ["work"]

PROBE_SECONDS, SOON_SECONDS, MOST_SOON = 0.25, 0.03, 16
"""Seconds between two measurements of the GIL's delay, each of which costs one worker that delay.
The first 16 come sooner, since a single one may find the loop not holding the GIL."""


def work(shared: Shared, worker: Worker, first: bool) -> None:
    """A worker: serve. If that fails a slot may be lost, and so the feeder is told to end.

    It is told in any case, even without memory to say what failed: a consumer may be waiting.
    """
    outcome: Outcome | None = shared.broken  # where no memory is left for another one
    try:
        here.shared = shared
        _, error = caught(_serve, shared, worker, first)
        end_if_forked(shared, error)
        outcome = None if error is None else outside(error)
    finally:
        if outcome is not None and not forked(shared):
            shared.failed = outcome
            shared.inbox.put(STOP)


def _serve(shared: Shared, worker: Worker, first: bool) -> None:
    """Take slots and work at them until the sentinel comes.

    This frame stays alive as long as any traceback of user code that leads to it. So each
    round ends by letting go of all that belongs to its slot, which would make a cycle (G10).
    """
    take, monotonic = shared.tickets.take, shared.runtime.monotonic
    processor_time = shared.runtime.processor_time
    probed, ran, probes, pause = monotonic(), processor_time(), 0, SOON_SECONDS
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
                worker.part = error = None  # now: after `leave` another may fill the slot
                if slot.leave(worker, monotonic() - began):
                    by_feeder = slot.by_feeder and slot.complete(worker)
                    if not (by_feeder and hand_over(shared, slot)):
                        finish(shared, worker, slot, job)
        except BaseException as broken:  # noqa: BLE001 (a thread that dies lets others wait)
            end_if_forked(shared, broken)
            # Raised by the lines above, and not by the user's: out of memory, say.
            slot.fill(Outcome(worker.job, error=broken))
            shared.inbox.put(LOOK)
        worker.job = worker.part = None
        slot = job = claims = error = None
        if first and (now := monotonic()) - probed > pause:
            shared.running = (processor_time() - ran) / max(now - probed, 1e-9)
            delay = shared.runtime.gil_delay()
            # Not while the consumer waited: then another worker held the GIL, in Python code. (The
            # consumer writes `awaited`, then `wait_began`: between the two that lies in the past,
            # and nothing counts. Nor does it after a cancel: `wait_ended` is infinite.)
            until = now + delay if shared.awaited is None else shared.wait_began
            own = max(0.0, min(delay, until - max(now, shared.wait_ended)))
            shared.gil_delay = (shared.gil_delay + own) / 2  # no single measurement decides
            probed, ran, probes = now, processor_time(), probes + 1
            pause = SOON_SECONDS if probes < MOST_SOON else PROBE_SECONDS
