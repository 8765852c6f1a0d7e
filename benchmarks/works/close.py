"""How long it takes to close a loader whose workers have batches in hand."""

from __future__ import annotations

from statistics import median
from typing import Any

from .._check import same_batch
from .._measure import clock
from .._protocol import Cannot, Case, Job, Metric, Numbers, Serve, named
from .._synthetic import Rows

SHORT = "Close"
TITLE = "Close: small rows, batches of 32, one batch taken; 2,000 loaders opened and closed"
LIMIT = "0"
METRICS = (
    Metric("p999_seconds", "p99.9", "s", None, drawn=False),
    Metric("median_seconds", "median", "s", None, drawn=False),
    Metric("most_seconds", "longest", "s", None, drawn=False),
)
LOADERS = ("threadloader",)


def cases(quick: bool) -> list[Case]:
    """Give 1, 4 and 16 workers."""
    closes = 5 if quick else 2000
    return [
        Case(named(workers), {"closes": closes, "workers": workers})
        for workers in ((1,) if quick else (1, 4, 16))
    ]


def job(options: dict[str, Any]) -> Job:
    """Give small rows that cost nothing, so that no worker is in the user's code for long."""
    return Job(Rows(4096), 32, options["workers"], "cheap")


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Time from the end of the ``with`` body to behind it, again and again.

    Raises:
        Cannot: it is another loader, which has nothing to close, and ends when it is dropped.
    """
    if options["package"] not in ("", "threadloader"):
        raise Cannot("nothing of it is closed here: it ends when nothing refers to it")
    took = []
    for number in range(options["closes"]):
        with serve(job) as served:
            batch = next(served.epoch())
            if not number:
                same_batch(job, batch)
            called = clock()
        took.append(clock() - called)
    took.sort()
    return {
        "p999_seconds": took[int(0.999 * (len(took) - 1))],
        "median_seconds": median(took),
        "most_seconds": took[-1],
    }


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Give nothing: a loop without a loader has nothing to close."""
    return {"p999_seconds": 0.0, "median_seconds": 0.0, "most_seconds": 0.0}
