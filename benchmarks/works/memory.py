"""Memory that an epoch adds to a data set of a million Python dicts, with eight workers."""

from __future__ import annotations

from typing import Any

from .._check import Watched
from .._machine import Memory
from .._measure import clock
from .._protocol import Case, Job, Metric, Numbers, Serve, stacked

SHORT = "Memory"
TITLE = "A million Python dicts in memory, 8 workers, one epoch, batches of 256"
LIMIT = "0: nothing added to what the dicts take"
METRICS = (
    Metric("added_bytes", "added", "B", None),
    Metric("epoch_seconds", "epoch", "s", None, drawn=False),
)


def cases(quick: bool) -> list[Case]:
    """Give eight workers."""
    return [Case("8 workers", {"samples": 2000 if quick else 1_000_000, "workers": 8})]


def job(options: dict[str, Any]) -> Job:
    """Give the dicts."""
    return Job(
        source=[
            {"a": index * 0.5, "b": index + 0.25, "index": index + 0}
            for index in range(options["samples"])
        ],
        batch_size=256,
        workers=options["workers"],
        cost="cheap",
        collate=stacked,
    )


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Give the memory of this process at its peak, and of its children, above the start."""
    watched, rows, late = Watched(job), 0, 0.9 * len(job.source)
    memory = Memory()
    children, looking = 0, 0.0
    began = clock()
    with serve(job) as served:
        for batch in served.epoch():
            watched.take(batch)
            rows += len(batch["index"])
            if rows >= late:  # by now they have touched most of what they will
                late, looked = float("inf"), clock()
                children = memory.of_children()
                looking = clock() - looked
        elapsed = clock() - began - looking
        # Those that outlive the epoch have touched all of it.
        children = max(children, memory.of_children())
        added = memory.above_start() + children
    watched.judge()
    told = {"added_bytes": added, "children_bytes": children} if memory.told else {}
    return {**told, "epoch_seconds": elapsed}


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Give nothing, and how long the plain loop takes."""
    began = clock()
    for at in range(0, len(job.source), job.batch_size):
        job.batch(range(at, min(at + job.batch_size, len(job.source))))
    return {"added_bytes": 0, "epoch_seconds": clock() - began}
