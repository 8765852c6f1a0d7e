"""torchdata.nodes: a graph of nodes, its mappers in threads, or in processes for Python code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._protocol import Job, Served, stacked
from .._whole import Order, WholeBatches

TITLE = "torchdata.nodes"
PACKAGE = "torchdata"
MODULE = "torchdata.nodes"

SNAPSHOTS = 1 << 30
"""A state is noted once in so many items: never, as with the others."""


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    from torchdata import nodes

    method = "process" if job.cost == "python" and job.workers else "thread"
    options = {"num_workers": job.workers, "in_order": True, "snapshot_frequency": SNAPSHOTS}
    kind = "processes" if method == "process" else "threads"
    how = [f"{job.workers} {kind}" if job.workers else "no worker"]
    if job.cost == "cheap":
        batches = WholeBatches(job)
        index = nodes.IterableWrapper(_Shuffled(batches.order))
        node: Any = nodes.ParallelMapper(index, batches.of, method=method, **options)
        how.append("whole batches in a ParallelMapper")
    else:
        index = nodes.IterableWrapper(_Samples(Order(job)))
        sample = nodes.ParallelMapper(index, job.sample, method=method, **options)
        many = nodes.Batcher(sample, job.batch_size, drop_last=False)
        node = nodes.Mapper(many, job.collate or stacked)
        # One more thread makes batches of the samples ahead of the loop.
        node = nodes.Prefetcher(node, prefetch_factor=2, snapshot_frequency=SNAPSHOTS)
        how.append("samples in a ParallelMapper, Batcher, Prefetcher")
    loader = nodes.Loader(node)
    yield Served(lambda: iter(loader), ", ".join(how))


class _Shuffled:
    """Index arrays of batches, in a new order each time."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def __iter__(self) -> Iterator[Any]:
        self._order.shuffle()
        return iter(self._order)


class _Samples:
    """Indices of samples, in a new order each time."""

    def __init__(self, order: Order) -> None:
        self._order = order

    def __iter__(self) -> Iterator[int]:
        self._order.shuffle()
        return iter(self._order.samples.tolist())
