"""dataloader-rs: a core in Rust with Python threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._protocol import Job, Served, stacked
from .._whole import WholeBatches

TITLE = "dataloader-rs"
PACKAGE = "dataloader-rs"
MODULE = "dataloader_rs"


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    from dataloader_rs import PyDataloader, PyDataset

    how = [f"{job.workers} threads" if job.workers else "no worker"]
    options: dict[str, Any]
    if job.arrays is not None:
        batches = WholeBatches(job)

        class Batches(PyDataset):
            def __len__(self) -> int:
                return len(batches)

            def __getitem__(self, number: int) -> Any:
                return batches[number]

        options = {"dataset": Batches(), "batch_size": 1, "collate_fn": _only}
        options |= {"num_workers": job.workers}
        begin = batches.order.shuffle
        how.append("whole batches as items")
    else:

        class Samples(PyDataset):
            def __len__(self) -> int:
                return len(job.source)

            def __getitem__(self, index: int) -> Any:
                return job.sample(index)

            def __getitems__(self, indices: list[int]) -> list[Any]:
                return job.samples(indices)

        batches_at_once = _batches_at_once(job)
        options = {
            "dataset": Samples(),
            "batch_size": job.batch_size,
            "shuffle": True,
            "collate_fn": job.collate or stacked,
            "num_workers": batches_at_once,
        }
        if job.workers:
            options["items_in_parallel"] = job.workers // batches_at_once
            how.append(f"{batches_at_once} batches at once")
        begin = None
    loader = PyDataloader(**options)

    def epoch() -> Iterator[Any]:
        if begin is not None:
            begin()
        return iter(loader)

    yield Served(epoch, ", ".join(how))


def _batches_at_once(job: Job) -> int:
    """Divide the threads among batches.

    One batch whose samples come side by side is fastest while it has work for all threads;
    beyond that, and where samples cost little, a batch a thread.
    """
    return 1 if job.cost == "waits" and job.workers <= job.batch_size else job.workers


def _only(items: list[Any]) -> Any:
    return items[0]
