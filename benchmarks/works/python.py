"""A transform in pure Python, 1 ms a sample: the GIL lets one thread at a time run it."""

from __future__ import annotations

from functools import partial
from typing import Any

from .._measure import loop, plain_loops
from .._protocol import Case, Job, Metric, Sample
from .._synthetic import Rows, burn, rounds_of

SHORT = "Pure Python"
TITLE = "A transform in pure Python, 1 ms a sample, batches of 32"
LIMIT = "workers (at most cores) x the rate of a plain loop in one thread"
METRICS = (Metric("samples_per_second", "samples/s", "/s"),)


def cases(quick: bool) -> list[Case]:
    """Give two workers."""
    samples, rounds = (64, 1000) if quick else (1024, rounds_of(burn, 1.0))
    return [Case("2 workers", {"samples": samples, "rounds": rounds, "workers": 2})]


def transform(sample: Sample, rounds: int) -> Sample:
    """Burn Python code."""
    burn(rounds)
    return sample


def job(options: dict[str, Any]) -> Job:
    """Give small rows."""
    return Job(
        source=Rows(options["samples"]),
        batch_size=32,
        workers=options["workers"],
        cost="python",
        transform=partial(transform, rounds=options["rounds"]),
    )


measure, limit = loop, plain_loops
