"""How soon the first batch comes, and how long the loop waits between two epochs."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from .._measure import start_and_gap
from .._protocol import Case, Job, Metric, Numbers, Serve
from .._synthetic import Rows

SHORT = "Start"
TITLE = "Start and the gap between epochs: 16 samples of 2 ms a batch, the loop takes 12 ms"
LIMIT = "first batch: 16 x 2 ms / 4 workers; gap: 0"
METRICS = (
    Metric("first_batch_seconds", "first batch", "s"),
    Metric("gap_seconds", "gap", "s", None),
)


def cases(quick: bool) -> list[Case]:
    """Give four workers."""
    epochs = {"steps": 2, "epochs": 2} if quick else {"steps": 10, "epochs": 11}
    return [Case("4 workers", {**epochs, "workers": 4})]


def job(options: dict[str, Any]) -> Job:
    """Give small rows that wait."""
    return Job(
        source=Rows(16 * options["steps"], milliseconds=2.0),
        batch_size=16,
        workers=options["workers"],
        cost="waits",
    )


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the first batch of each epoch."""
    return start_and_gap(job, serve, partial(time.sleep, 0.012), options["epochs"])


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Give what four waits at once come to."""
    return {"first_batch_seconds": 0.032 / options["workers"], "gap_seconds": 0.0}
