"""SPDL: a pipeline whose stages run in threads, or in processes where Python code holds the GIL.

It is built once, with a source that goes on from epoch to epoch (``continuous``).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from .._protocol import Cannot, Job, Served, stacked
from .._whole import Order, Shuffled, WholeBatches

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
        threads = job.workers
        builder = PipelineBuilder()
        if job.cost == "cheap" or job.in_processes:
            batches = WholeBatches(job)
            load: Any = batches.of
            executor: Executor | None = None
            if job.in_processes:
                fork = multiprocessing.get_context("fork")
                pool = ProcessPoolExecutor(job.workers, fork, _hold, (batches,))
                executor, load = stack.enter_context(pool), _load
            builder.add_source(Shuffled(batches.order, whole=True), continuous=True)
            builder.pipe(load, concurrency=job.workers, executor=executor)
            builder.add_sink(4)
            how = f"{job.workers} {'processes' if executor else 'threads'}, whole batches"
        else:
            builder.add_source(Shuffled(Order(job), whole=False), continuous=True)
            builder.pipe(job.sample, concurrency=job.workers)
            builder.aggregate(job.batch_size)
            builder.pipe(job.collate or stacked)
            builder.add_sink(2)
            threads += 2  # for making batches of the samples
            how = f"{job.workers} threads, samples, aggregate"
        pipeline = builder.build(num_threads=threads, use_thread_output_queue=True)
        stack.enter_context(pipeline.auto_stop())
        yield Served(pipeline.get_iterator, f"{how}, a continuous source")


_held: Any = None


def _hold(batches: WholeBatches) -> None:
    global _held  # noqa: PLW0603 - of a process of its own
    _held = batches


def _load(indices: Any) -> Any:
    return _held.of(indices)
