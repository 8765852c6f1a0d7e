"""Grain: a MapDataset, its samples read by threads, or processes where Python code holds the GIL.

`repeat` lets it prepare the next epoch while this one ends, where no batch reaches over its
end; where an epoch ends is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._protocol import Job, Served, stacked
from .._whole import WholeBatches

TITLE = "Grain"
PACKAGE = "grain"
MODULE = "grain"


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    import grain

    live: list[Any] = []
    kind = "processes" if job.in_processes else "threads"
    how = f"{job.workers} {kind}" if job.workers else "no worker"
    if job.cost == "cheap":
        batches = WholeBatches(job)
        read = grain.ReadOptions(num_threads=job.workers, prefetch_buffer_size=4 * job.workers)

        def epoch() -> Iterator[Any]:
            batches.order.shuffle()
            return _kept(live, iter(grain.MapDataset.source(batches).to_iter_dataset(read)))

        how += ", a source of whole batches"
    else:
        samples, size = len(job.source), job.batch_size
        found = grain.MapDataset.source(_Samples(job)).shuffle(0)
        if samples % size == 0:
            found = found.repeat()
        if job.in_processes:
            read = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
            many = grain.MultiprocessingOptions(job.workers, per_worker_buffer_size=2)
            # Each process makes whole batches of its part.
            found = found.batch(size, batch_fn=job.collate or stacked)
            found = found.to_iter_dataset(read).mp_prefetch(many)
            how += ", batch, mp_prefetch"
        else:
            ahead = max(2 * size, 2 * job.workers)
            read = grain.ReadOptions(num_threads=job.workers, prefetch_buffer_size=ahead)
            found = found.to_iter_dataset(read).batch(size, batch_fn=job.collate or stacked)
            how += f", prefetch_buffer_size {ahead}, batch"

        def epoch() -> Iterator[Any]:
            if samples % size:
                return _kept(live, iter(found))
            if not live:
                live.append(iter(found))
            return itertools.islice(live[0], samples // size)

    try:
        yield Served(epoch, how)
    finally:
        for one in live:
            one.close()


def _kept(live: list[Any], epoch: Any) -> Any:
    """End the epoch before, whose threads or processes would live on."""
    while live:
        live.pop().close()
    live.append(epoch)
    return epoch


class _Samples:
    """A source of samples."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __len__(self) -> int:
        return len(self._job.source)

    def __getitem__(self, index: int) -> Any:
        return self._job.sample(index)
