"""SPDL: a pipeline whose stages run in threads, or in processes for Python code.

It is built once, with a source that goes on from epoch to epoch (``continuous``).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from .._protocol import Cannot, Job, Served, stacked
from .._whole import Order, WholeBatches

TITLE = "SPDL"
PACKAGE = "spdl"
MODULE = "spdl.pipeline"


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    from spdl.pipeline import PipelineBuilder

    if not job.workers:
        raise Cannot("a pipeline always has threads")
    with ExitStack() as stack:
        executor: Executor | None = None
        threads = job.workers
        builder = PipelineBuilder()
        if job.cost == "cheap":
            batches = WholeBatches(job)
            builder.add_source(_Epochs(batches.order, whole=True), continuous=True)
            builder.pipe(batches.of, concurrency=job.workers)
            builder.add_sink(4)
            how = "whole batches"
        else:
            load: Any = job.sample
            if job.cost == "python":
                fork = multiprocessing.get_context("fork")
                pool = ProcessPoolExecutor(job.workers, fork, _hold, (job,))
                executor, load = stack.enter_context(pool), _load
            builder.add_source(_Epochs(Order(job), whole=False), continuous=True)
            builder.pipe(load, concurrency=job.workers, executor=executor)
            builder.aggregate(job.batch_size)
            builder.pipe(job.collate or stacked)
            builder.add_sink(2)
            threads += 2  # for making batches of the samples
            how = "samples, aggregate"
        pipeline = builder.build(num_threads=threads, use_thread_output_queue=True)
        stack.enter_context(pipeline.auto_stop())
        kind = "processes" if executor else "threads"
        yield Served(pipeline.get_iterator, f"{job.workers} {kind}, {how}, a continuous source")


class _Epochs:
    """Indices of samples, or of whole batches, in a new order each time."""

    def __init__(self, order: Order, *, whole: bool) -> None:
        self._order = order
        self._whole = whole

    def __iter__(self) -> Iterator[Any]:
        self._order.shuffle()
        # What is on its way belongs to the order before; it has been copied.
        return iter(list(self._order) if self._whole else self._order.samples.tolist())


_held: Any = None


def _hold(job: Job) -> None:
    global _held  # noqa: PLW0603 - of a process of its own
    _held = job


def _load(index: int) -> Any:
    return _held.sample(index)
