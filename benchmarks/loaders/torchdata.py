"""torchdata.nodes: a graph of nodes; mappers in threads, or processes where code holds the GIL.

The indices go on from epoch to epoch where no batch reaches over the end of one, and keep their
order; where an epoch ends is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._protocol import Job, Served, stacked
from .._whole import Endless, Order, Shuffled, WholeBatches

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
    samples, size = len(job.source), job.batch_size
    whole = job.cost == "cheap" or job.in_processes
    early = whole or samples % size == 0
    if whole:
        batches = WholeBatches(job)
        indices = nodes.IterableWrapper(Endless(Shuffled(batches.order, whole=True)))
        if job.in_processes:
            node = nodes.ParallelMapper(
                indices,
                batches.of,
                num_workers=job.workers,
                method="process",
                snapshot_frequency=SNAPSHOTS,
            )
            how = f"{job.workers} processes, whole batches in a ParallelMapper"
        elif job.workers:
            # What a ParallelMapper takes for an item is more than its threads save.
            node = nodes.Mapper(indices, batches.of)
            node = nodes.Prefetcher(node, prefetch_factor=8, snapshot_frequency=SNAPSHOTS)
            how = "1 thread, whole batches in a Mapper and a Prefetcher"
        else:
            node = nodes.Mapper(indices, batches.of)
            how = "no worker, whole batches in a Mapper"
    else:
        order: Any = Shuffled(Order(job), whole=False)
        node = nodes.ParallelMapper(
            nodes.IterableWrapper(Endless(order) if early else order),
            job.sample,
            num_workers=job.workers,
            in_order=early,
            snapshot_frequency=SNAPSHOTS,
        )
        node = nodes.Batcher(node, job.batch_size, drop_last=False)
        node = nodes.Mapper(node, job.collate or stacked)
        # One more thread makes batches of the samples ahead of the loop.
        node = nodes.Prefetcher(node, prefetch_factor=2, snapshot_frequency=SNAPSHOTS)
        how = f"{job.workers} threads, samples in a ParallelMapper, Batcher, Prefetcher"
    loader = nodes.Loader(node)
    if early:
        endless = iter(loader)
        yield Served(lambda: itertools.islice(endless, -(-samples // size)), how)
    else:
        yield Served(lambda: iter(loader), how)
