"""Arrays in memory: 60,000 rows of 784 float32 and a label each, shuffled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._measure import loop, throughput
from .._protocol import Batch, Case, Job, Metric, Numbers, Served, named

SHORT = "Arrays"
TITLE = "Arrays in memory, float32 60,000 x 784 and labels, shuffled"
LIMIT = "one thread: x.take(indices, 0, out, 'clip') over an order made beforehand"
METRICS = (Metric("samples_per_second", "samples/s", "/s"),)

TOGETHER = 2 << 20
"""Bytes that a bare thread gathers by one call, or a batch: less, and they wait for the GIL."""


def cases(quick: bool) -> list[Case]:
    """Give three sizes of batches, each without a worker and with two."""
    rows, width = (600, 16) if quick else (60_000, 784)
    return [
        Case(
            f"batch {size}, {named(workers)}",
            {"rows": rows, "width": width, "batch_size": size, "workers": workers},
        )
        for size in ((32,) if quick else (32, 256, 4096))
        for workers in (0, 2)
    ]


class Rows:
    """The arrays, a row at a time."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays["index"])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: array[index] for name, array in self.arrays.items()}


def job(options: dict[str, Any]) -> Job:
    """Give the arrays; the label of a row is its index."""
    rows, width = options["rows"], options["width"]
    x = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    arrays = {"x": x, "index": np.arange(rows, dtype=np.int64)}
    return Job(
        source=Rows(arrays),
        batch_size=options["batch_size"],
        workers=options["workers"],
        cost="cheap",
        arrays=arrays,
    )


measure = loop


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the plain gather; with workers, as many bare threads as well."""
    numbers = throughput(job, _gather, seconds)
    if job.workers:
        numbers["threads_per_second"] = _bare_threads(job, seconds)
    return numbers


def _bare_threads(job: Job, seconds: float) -> float:
    """Give the samples per second of threads that hand nothing on: what the machine gives.

    Each gathers its own share of an order into its own memory, again and again.
    """
    assert job.arrays is not None
    arrays = list(job.arrays.values())
    order = np.random.default_rng(0).permutation(len(job.source))
    size = max(job.batch_size, TOGETHER // sum(array[:1].nbytes for array in arrays))
    parts = [order[at : at + size] for at in range(0, len(order), size)]
    ready = threading.Barrier(job.workers)
    rates: list[float] = []

    def gather(mine: list[Any], memory: list[np.ndarray]) -> None:
        rows = 0
        ready.wait()
        began = time.perf_counter()
        while True:
            for part in mine:
                for array, out in zip(arrays, memory, strict=True):
                    array.take(part, 0, out[: len(part)], "clip")
                rows += len(part)
            elapsed = time.perf_counter() - began
            if elapsed >= seconds:
                break
        rates.append(rows / elapsed)

    threads = []
    for number in range(job.workers):
        # Not empty: new pages are the system's work.
        memory = [np.ones((size, *array.shape[1:]), array.dtype) for array in arrays]
        own = parts[number :: job.workers], memory
        threads.append(threading.Thread(target=gather, args=own, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


@contextmanager
def _gather(job: Job) -> Iterator[Served]:
    assert job.arrays is not None
    order = np.random.default_rng(0).permutation(len(job.source))
    size = job.batch_size
    parts = [order[at : at + size] for at in range(0, len(order), size)]
    x, index = job.arrays["x"], job.arrays["index"]
    out = np.empty((size, *x.shape[1:]), x.dtype), np.empty(size, index.dtype)

    def epoch() -> Iterator[Batch]:
        for part in parts:
            rows, labels = out[0][: len(part)], out[1][: len(part)]
            x.take(part, 0, rows, "clip")
            index.take(part, 0, labels, "clip")
            yield {"x": rows, "index": labels}

    yield Served(epoch, "a plain gather in one thread, into the same memory again and again")
