"""A training loop whose step is Python code: it holds the GIL that the workers need."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

from .._measure import training
from .._protocol import Case, Job, Metric, Numbers, Serve
from .._synthetic import Rows, burn, rounds_of
from .train import no_loading

SHORT = "Loop, Python step"
STEP_MS = 8
SWITCH_SECONDS = 0.0005
"""As threadloader's "auto" has it at most."""
TITLE = (
    f"A training loop: a step of {STEP_MS} ms of pure Python, 16 samples of 1 ms a batch;"
    " 4 workers, of a loader that is told of the step, or by default"
)
LIMIT = (
    "steps per second with no loading, less the time that the samples themselves need the GIL,"
    " measured serially; wait: 0"
)
METRICS = (
    Metric("steps_per_second", "steps/s", "/s"),
    Metric("wait_fraction", "wait", "part", None),
    Metric("step_seconds", "step slower by", "s", "over", drawn=False),
)


def cases(quick: bool) -> list[Case]:
    """Give four workers, told of the step and by default: alike for who cannot be told."""
    size = {"steps": 4, "rounds": 1000}
    if not quick:
        size = {"steps": 100, "rounds": rounds_of(burn, STEP_MS), "step_ms": STEP_MS}
    return [
        Case(name, {**size, "workers": 4, "told": told})
        for name, told in (("told of it", True), ("by default", False))
    ]


def job(options: dict[str, Any]) -> Job:
    """Give small rows that wait."""
    return Job(
        source=Rows(16 * options["steps"], milliseconds=1.0),
        batch_size=16,
        workers=options["workers"],
        cost="waits",
        step_holds_gil=options["told"],
    )


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the loop.

    Beside a step that they are told of, other loaders have Python switch threads as soon as
    threadloader does: a line that anybody can write.
    """
    if options["told"] and options["package"] not in ("", "threadloader"):
        sys.setswitchinterval(SWITCH_SECONDS)
    return training(job, serve, partial(burn, options["rounds"]), seconds)


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Time the loop over batches that are there, and add what a batch takes of the processor.

    One thread makes the samples of a batch; that it waits for storage is no time of the
    processor. So much of the GIL no loader with threads can save.
    """
    numbers = measure(job, no_loading, options, seconds)
    batches = min(20, options["steps"])
    began = time.thread_time()
    for number in range(batches):
        job.batch(range(number * job.batch_size, (number + 1) * job.batch_size))
    own = (time.thread_time() - began) / batches
    numbers["samples_seconds"] = own
    numbers["step_seconds"] += own
    numbers["steps_per_second"] = 1 / (1 / numbers["steps_per_second"] + own)
    return numbers
