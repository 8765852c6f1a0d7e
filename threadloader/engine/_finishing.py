"""Fills a slot whose parts are done: the worker that left it last does so, or the feeder for it.

Where reads wait, a worker that makes the result of a job comes late to its next read; and as the
others share the job that follows, all of them then wait for that one. The feeder has time.
Measured: docs/measurements.md.
"""

from __future__ import annotations

from ._outcome import Job, caught
from ._ownership import end_if_forked
from ._shared import LOOK, Shared
from ._slots import Slot, Worker

__all__ = ["finish", "finish_handed", "forget_handed", "hand_over"]


def finish(shared: Shared, worker: Worker, slot: Slot, job: Job) -> None:
    """Make the result of a job whose parts are done, if somebody wants it, and fill its slot.

    Args:
        shared: what the threads share.
        worker: the facts of the thread that calls.
        slot: the job's slot, which no worker is at any more.
        job: the job.
    """
    value, error, seconds = None, None, 0.0
    complete = slot.complete(worker)
    if complete:
        began = shared.runtime.monotonic()
        value, error = caught(job.finish)
        seconds = shared.runtime.monotonic() - began
        end_if_forked(shared, error)
        if error is not None:
            caught(job.failed, None)
    outcome = slot.conclude(worker, job, complete, value, error)
    if complete:  # else it may be `ENDED`, which is everybody's
        outcome.finish = seconds
    if shared.max_bytes is not None and outcome.value is not None:
        outcome.size = job.size
    # What is filled in is the consumer's alone: an error that is held here as well keeps the
    # consumer's frames alive, and the iterator in them. And its traceback leads to this frame.
    del value, error, job
    slot.fill(outcome)
    del slot, outcome
    if shared.max_bytes is not None:
        shared.inbox.put(LOOK)


def hand_over(shared: Shared, slot: Slot) -> bool:
    """Leave it to the feeder to fill a slot; say whether the feeder will.

    It will not while it asks for a job, which is the user's sampler and may take long. `asking` is
    read behind the append, and written before the feeder looks: so one of the two sees the other.
    """
    shared.handed.append(slot)
    if not shared.asking:
        shared.inbox.put(LOOK)
        return True
    try:
        shared.handed.remove(slot)
    except ValueError:  # the feeder was just about to ask, and has taken it
        return True
    return False


def finish_handed(shared: Shared, worker: Worker) -> None:
    """Fill the slots that were handed over; runs in the feeder, whose facts `worker` is."""
    while (slot := _handed(shared)) is not None:
        if (job := slot.job) is not None:  # else a worker's own lines have failed behind it
            shared.finishing = job
            try:
                finish(shared, worker, slot, job)
            finally:
                shared.finishing = None  # before the feeder waits again (G10)
        del slot, job


def forget_handed(shared: Shared) -> None:
    """Take out what was handed over, and leave it to be filled by whoever ends the engine."""
    while _handed(shared) is not None:
        pass


def _handed(shared: Shared) -> Slot | None:
    try:
        # Not `while shared.handed`: without the GIL its length is read under no lock, and an append
        # may be missed.
        return shared.handed.popleft()
    except IndexError:
        return None
