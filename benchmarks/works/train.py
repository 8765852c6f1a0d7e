"""A training loop whose step is a product of matrices: numpy lets the GIL go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .._measure import training
from .._protocol import Batch, Case, Job, Metric, Numbers, Serve, Served
from .._synthetic import Rows, products, rounds_of

SHORT = "Loop, numpy step"
STEP_MS = 19
TITLE = f"A training loop: a step of {STEP_MS} ms of matrix products, 16 samples of 1 ms a batch"
LIMIT = "steps per second with no loading; wait: 0"
METRICS = (
    Metric("steps_per_second", "steps/s", "/s"),
    Metric("wait_fraction", "wait", "part", None),
    Metric("step_seconds", "step slower by", "s", "over", drawn=False),
)


def cases(quick: bool) -> list[Case]:
    """Give two workers."""
    size = {"steps": 4, "rounds": 1}
    if not quick:
        size = {"steps": 50, "rounds": rounds_of(products, STEP_MS), "step_ms": STEP_MS}
    return [Case("2 workers", {**size, "workers": 2})]


def job(options: dict[str, Any]) -> Job:
    """Give small rows that wait."""
    return Job(
        source=Rows(16 * options["steps"], milliseconds=1.0),
        batch_size=16,
        workers=options["workers"],
        cost="waits",
    )


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the loop."""
    return training(job, serve, partial(products, options["rounds"]), seconds)


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the loop over batches that are there."""
    return measure(job, no_loading, options, seconds)


@contextmanager
def no_loading(job: Job) -> Iterator[Served]:
    """Serve batches that have all been made beforehand, on a source that costs nothing."""
    source = Rows(len(job.source))
    batches = [
        Job(source, job.batch_size, 0, "cheap").batch(range(at, at + job.batch_size))
        for at in range(0, len(source), job.batch_size)
    ]

    def epoch() -> Iterator[Batch]:
        return iter(batches)

    yield Served(epoch, "batches that have been made beforehand")
