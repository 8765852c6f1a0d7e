"""Slow storage: each sample takes 5 ms to come, and many may be on their way at once."""

from __future__ import annotations

from typing import Any

from .._measure import loop
from .._protocol import Case, Job, Metric, Numbers, named
from .._synthetic import Rows

SHORT = "Slow storage"
TITLE = "Slow storage, 5 ms a sample, batches of 32"
LIMIT = "arithmetic: workers / 5 ms; the first batch: ceil(32 / workers) x 5 ms"
METRICS = (
    Metric("samples_per_second", "samples/s", "/s"),
    Metric("first_batch_seconds", "first batch", "s", drawn=False),
)
BATCH = 32


def cases(quick: bool) -> list[Case]:
    """Give three numbers of workers; an epoch takes 1.6 s at the limit of each.

    It is a whole number of batches for each worker: processes that make whole batches each give as
    many at once as they are, and a part of such a burst would make them faster or slower than the
    arithmetic.
    """
    wait = 1.0 if quick else 5.0
    each = (1 if quick else 10) * BATCH  # samples
    return [
        Case(named(workers), {"samples": workers * each, "milliseconds": wait, "workers": workers})
        for workers in ((8,) if quick else (8, 32, 128))
    ]


def job(options: dict[str, Any]) -> Job:
    """Give small rows that wait."""
    return Job(
        source=Rows(options["samples"], milliseconds=options["milliseconds"]),
        batch_size=BATCH,
        workers=options["workers"],
        cost="waits",
    )


measure = loop


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Give what so many waits at once come to, if nothing else took time."""
    wait, workers = options["milliseconds"] / 1000, options["workers"]
    return {
        "samples_per_second": workers / wait,
        "first_batch_seconds": -(-BATCH // workers) * wait,
    }
