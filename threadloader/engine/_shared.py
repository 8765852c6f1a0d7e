"""What the threads of an engine share, and the words that their queues carry besides slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from .. import _runtime
from .._runtime import Runtime, Thread
from ._outcome import Job, Outcome
from ._slots import Slot, Worker

__all__ = ["HELD_SECONDS", "LOOK", "STOP", "Shared"]

HELD_SECONDS = 1e-3
"""Above this delay of the GIL the loop must be holding it: a loop in pure Python makes it a switch
interval, 5 ms by default, and one that releases the GIL some microseconds."""

LOOK: Any = object()
"""Put on the inbox to have the feeder look again: where the bytes of results are bounded, when one
was made or taken; anywhere when a slot was handed to it, a stream was cancelled, or a worker's own
lines have failed."""

STOP: Any = object()
"""Put on the inbox to end the feeder, and on the queue, once for each, to end the workers."""


class Shared:
    """What the threads share, and who writes it.

    They hold this and never the `Engine`: so an engine that is dropped can be collected, and its
    finalizer ends them.

    Attributes:
        max_bytes: bound of the results that wait; None for none.
        peak_bytes: the most bytes of them at once; the feeder's.
        stopping: True once; by whoever stops, the feeder as it ends, and the watch that misses a
            thread.
        abandoned: True once, by the finalizer.
        saying: True once the feeder waits for nothing but the log; the feeder's.
        failed: what a thread has raised outside of a job; by that thread, or by the watch for one
            that died. Of several the last counts.
        broken: made beforehand, for a thread that has no memory left to make another.
        gil_delay: seconds for which the loop keeps the GIL from a worker; the first worker's.
        running: part of its time for which a processor runs that worker; the first worker's.
        crew: the workers' facts and threads; the feeder's. It is replaced whole, and empty in the
            end, for which a stop sees as well: a worker's facts lead back here.
        forks: what `_runtime.forks` was when this was made.
        inbox: takes the consumer's slots, and words, to the feeder.
        tickets: takes slots to the workers: one stands there once for each worker that may help
            with its job.
        started: a slot without a job, which the feeder fills when the workers are there.
        end: likewise, when they are gone, or left behind. Where the feeder cannot start,
            `start_feeder` fills both, and where it hangs, the stop fills this.
        awaited: the slot that the consumer waits for, or waited for when it was interrupted or told
            of a stall; else None. By the consumer, and by whoever cancels its stream to close.
        wait_began, wait_ended: the times of its last wait; likewise. The second is infinite once
            its stream was cancelled.
        handed: takes slots whose parts are done from the workers to the feeder, which is to fill
            them.
        asking: True while it will not: it asks for a job, or has come to its end; the feeder's.
        finishing: the job whose result the feeder makes, None while it makes none; the feeder's.
        behind: as of `Engine.end_with`; written by one of these threads, taken by the feeder, and
            set back to None by whoever else stops.
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
        self.broken = Outcome(error=MemoryError("too little was left to tell what failed"))
        self.gil_delay = 0.0
        self.running = 1.0
        self.crew: tuple[tuple[Worker, Thread], ...] = ()
        self.handed: deque[Slot] = deque()
        self.asking = False
        self.finishing: Job | None = None
        self.behind: Callable[[], object] | None = None
        self.started = Slot(runtime)
        self.end = Slot(runtime)
        self.awaited: Slot | None = None
        self.wait_began = self.wait_ended = float("-inf")

    def finished_by_feeder(self) -> str:
        """Say what the job is whose result the feeder makes; "" where it makes none."""
        job = self.finishing
        return "" if job is None else job.describe(None)
