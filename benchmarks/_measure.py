"""Takes times: any loader at any job, in the calling thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._check import Watched, all_rows, same_batch
from ._protocol import Batch, Job, Numbers, Serve, Served
from ._synthetic import cores

__all__ = [
    "loop",
    "one_thread",
    "plain_loop",
    "plain_loops",
    "start_and_gap",
    "throughput",
    "training",
]

clock = time.perf_counter


def throughput(job: Job, serve: Serve, seconds: float) -> Numbers:
    """Time whole epochs of a loop that does nothing with its batches.

    The first epoch warms up and is checked sample by sample. The clock starts when its last
    batch has been taken and stops when the last batch of the last timed epoch has, with no
    pause between: what a loader had prepared ahead when the clock started it has prepared
    ahead again when it stops. Beginning and ending an epoch counts.

    Args:
        job: what is loaded.
        serve: the loader.
        seconds: epochs begin until so much time has passed; one in any case.

    Returns:
        ``samples_per_second``; ``batch_seconds``, the mean of a batch; and
        ``first_batch_seconds``: from making the loader (its package being imported) to its
        first batch.

    Raises:
        WrongBatches: not each sample came once in the first epoch, the timed ones had more or
            fewer rows, or the first or last batch of that one was not what it should be.
    """
    watched = Watched(job)
    called = clock()
    with serve(job) as served:
        epoch = served.epoch()
        batch = next(epoch)
        first = clock() - called
        same_batch(job, batch)
        watched.take(batch)
        for batch in epoch:
            watched.take(batch)
        last, rows, epochs = batch, 0, 0
        began = clock()
        while True:
            for batch in served.epoch():
                rows += len(batch["index"])
            epochs += 1
            elapsed = clock() - began
            if elapsed >= seconds:
                break
    # Only now: what is looked at before the clock starts is a pause, in which loaders work ahead.
    watched.judge()
    same_batch(job, last)
    all_rows(rows, epochs, job)
    return {
        "samples_per_second": rows / elapsed,
        "batch_seconds": elapsed / epochs / -(-len(job.source) // job.batch_size),
        "first_batch_seconds": first,
    }


def loop(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Time a loop that does nothing: `measure` of a kind of work."""
    return throughput(job, serve, seconds)


def plain_loop(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the plain loop: `limit` of a kind of work."""
    return throughput(job, one_thread, seconds)


def plain_loops(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the plain loop, and take it as often as workers can run: `limit`, too."""
    numbers = throughput(job, one_thread, seconds)
    numbers["samples_per_second"] *= min(options["workers"], cores())
    return numbers


def training(job: Job, serve: Serve, step: Callable[[], object], seconds: float) -> Numbers:
    """Time a loop that does a step with each batch; every epoch is checked.

    The first epoch is not timed, as in `throughput`.

    Args:
        job: what is loaded.
        serve: the loader.
        step: done with each batch.
        seconds: epochs begin until so much time has passed; one in any case.

    Returns:
        ``steps_per_second``; ``wait_fraction``, the part of the time inside ``next``, with
        beginning and ending epochs; ``step_seconds``, the mean of a step.

    Raises:
        WrongBatches: not each sample came once per epoch, or the first batch was not what it
            should be.
    """
    steps, stepped, looking = 0, 0.0, 0.0
    epochs: list[Watched] = []
    with serve(job) as served:
        while True:
            epochs.append(Watched(job))
            for batch in served.epoch():
                came = clock()
                if not epochs[1:] and not steps:
                    same_batch(job, batch)
                epochs[-1].take(batch)
                ready = clock()
                step()
                looking += ready - came
                stepped += clock() - ready
                steps += 1
            if len(epochs) == 1:
                steps, stepped, looking, began = 0, 0.0, 0.0, clock()
            elif (elapsed := clock() - began) >= seconds:
                break
    for watched in epochs:
        watched.judge()
    return {
        "steps_per_second": steps / elapsed,
        "wait_fraction": (elapsed - stepped - looking) / elapsed,
        "step_seconds": stepped / steps,
    }


def start_and_gap(job: Job, serve: Serve, step: Callable[[], object], epochs: int) -> Numbers:
    """Time the first batch of a run, and the first one of each later epoch.

    Args:
        job: what is loaded.
        serve: the loader.
        step: done with each batch.
        epochs: how many, 2 or more.

    Returns:
        ``first_batch_seconds``: from making the loader (its package being imported) to its
        first batch. ``gap_seconds``: from asking past the last batch of an epoch to the first
        one of the next, the median of all.

    Raises:
        WrongBatches: not each sample came once per epoch, or the first batch was not what it
            should be.
    """
    gaps: list[float] = []
    noted = [Watched(job) for _ in range(epochs)]  # before the clock runs
    called = clock()
    with serve(job) as served:
        for watched in noted:
            epoch = served.epoch()
            batch = next(epoch, None)
            gaps.append(clock() - called)
            if len(gaps) == 1:
                same_batch(job, batch or {})
            while batch is not None:
                watched.take(batch)
                step()
                called = clock()
                batch = next(epoch, None)
    for watched in noted:
        watched.judge()
    return {"first_batch_seconds": gaps[0], "gap_seconds": statistics.median(gaps[1:])}


@contextmanager
def one_thread(job: Job) -> Iterator[Served]:
    """Serve a job as a plain loop in the calling thread does: the measure of other loaders.

    The order is made beforehand and is the same in every epoch: it costs nothing.
    """
    order = np.random.default_rng(0).permutation(len(job.source)).tolist()
    parts = [order[at : at + job.batch_size] for at in range(0, len(order), job.batch_size)]

    def epoch() -> Iterator[Batch]:
        return (job.batch(part) for part in parts)

    yield Served(epoch, "a plain loop in one thread")
