"""Cost of a batch and memory from a thousand samples to a billion, from no worker to 128."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._check import WrongBatches
from .._machine import Memory
from .._measure import clock
from .._protocol import Batch, Case, Job, Metric, Numbers, Serve, Served, named

SHORT = "Scale"
TITLE = "Scale: a source that costs nothing, shuffled, batches of 32"
LIMIT = "one thread: the batches of ready indices"
METRICS = (
    Metric("batch_seconds", "a batch", "s", None, drawn=False),
    Metric("first_batch_seconds", "first batch", "s", None, drawn=False),
    Metric("resident_bytes", "memory", "B", None, drawn=False),
)
LOADERS = ("threadloader",)
WARM = 256
"""Batches before the clock starts."""


def cases(quick: bool) -> list[Case]:
    """Give every size with 0, 1, 8 and 128 workers."""
    return [
        Case(f"10^{power} samples, {named(workers)}", {"samples": 10**power, "workers": workers})
        for power in ((3, 9) if quick else range(3, 10))
        for workers in ((0, 1) if quick else (0, 1, 8, 128))
    ]


class Numbers64:
    """Sample i is i; a whole batch is what it was asked for."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"index": index}

    def take(self, indices: np.ndarray) -> Batch:
        """Give a batch."""
        return {"index": np.array(indices)}


def job(options: dict[str, Any]) -> Job:
    """Give the numbers."""
    np.random.default_rng()  # what numpy loads for that does not grow, and would hide what does
    return Job(Numbers64(options["samples"]), 32, options["workers"], "cheap")


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Time batches, through as many epochs as it takes; memory is that of the peak."""
    memory = Memory()
    called = clock()
    with serve(job) as served:
        batches = itertools.chain.from_iterable(served.epoch() for _ in itertools.count())
        first = next(batches)
        first_seconds = clock() - called
        early = [np.array(first["index"])]
        early += [np.array(batch["index"]) for batch in itertools.islice(batches, WARM)]
        count, began = 0, clock()
        while True:
            for _ in itertools.islice(batches, 64):
                pass
            count += 64
            elapsed = clock() - began
            if elapsed >= seconds:
                break
        resident = memory.above_start() + memory.of_children()
    within = np.concatenate(early)[: len(job.source)]
    if len(np.unique(within)) != len(within):
        raise WrongBatches(f"the first {len(within)} samples: expected different ones")
    told = {"resident_bytes": resident} if memory.told else {}
    return {"batch_seconds": elapsed / count, "first_batch_seconds": first_seconds, **told}


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the plain loop."""
    return measure(job, _ready, options, seconds)


@contextmanager
def _ready(job: Job) -> Iterator[Served]:
    order = np.random.default_rng(0).permutation(min(len(job.source), 1 << 16))
    size = job.batch_size
    parts = [order[at : at + size] for at in range(0, len(order), size)]

    def epoch() -> Iterator[Batch]:
        return (job.source.take(part) for part in parts)

    yield Served(epoch, "the batches of ready indices, in one thread")
