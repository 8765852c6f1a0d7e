"""torchdata.nodes: a graph of nodes; mappers in threads, or processes where code holds the GIL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._protocol import Job, Served, stacked
from .._whole import Order, Shuffled, WholeBatches

TITLE = "torchdata.nodes"
PACKAGE = "torchdata"
MODULE = "torchdata.nodes"

SNAPSHOTS = 1 << 30
"""A state is noted once in so many items: never, as with the others."""


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    from torchdata import nodes

    node: Any
    if job.cost == "cheap" or job.in_processes:
        batches = WholeBatches(job)
        indices = nodes.IterableWrapper(Shuffled(batches.order, whole=True))
        if job.in_processes:
            node = nodes.ParallelMapper(
                indices,
                batches.of,
                num_workers=job.workers,
                method="process",
                in_order=False,
                snapshot_frequency=SNAPSHOTS,
            )
            how = f"{job.workers} processes, whole batches in a ParallelMapper"
        elif job.workers:
            # What a ParallelMapper takes to begin an epoch is more than its threads save.
            node = nodes.Mapper(indices, batches.of)
            node = nodes.Prefetcher(node, prefetch_factor=8, snapshot_frequency=SNAPSHOTS)
            how = "1 thread, whole batches in a Mapper and a Prefetcher"
        else:
            node = nodes.Mapper(indices, batches.of)
            how = "no worker, whole batches in a Mapper"
    else:
        node = nodes.ParallelMapper(
            nodes.IterableWrapper(Shuffled(Order(job), whole=False)),
            job.sample,
            num_workers=job.workers,
            in_order=False,
            snapshot_frequency=SNAPSHOTS,
        )
        node = nodes.Batcher(node, job.batch_size, drop_last=False)
        node = nodes.Mapper(node, job.collate or stacked)
        # One more thread makes batches of the samples ahead of the loop.
        node = nodes.Prefetcher(node, prefetch_factor=2, snapshot_frequency=SNAPSHOTS)
        how = f"{job.workers} threads, samples in a ParallelMapper, Batcher, Prefetcher"
    loader = nodes.Loader(node)
    yield Served(lambda: iter(loader), how)
