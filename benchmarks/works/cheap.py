"""Cheap samples in Python: a list of dicts, each with an array of two numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._measure import loop, plain_loop
from .._protocol import Case, Job, Metric, named, stacked

SHORT = "Cheap samples"
TITLE = "Cheap samples in Python: a list of dicts with a two-number array each, batches of 256"
LIMIT = "one thread: collate([source[i] for i in indices])"
METRICS = (Metric("samples_per_second", "samples/s", "/s"),)


def cases(quick: bool) -> list[Case]:
    """Give four numbers of workers."""
    return [
        Case(named(workers), {"samples": 1024 if quick else 51_200, "workers": workers})
        for workers in ((0,) if quick else (0, 1, 2, 8))
    ]


def job(options: dict[str, Any]) -> Job:
    """Give the list; the collate is the user's own, the same for every loader."""
    return Job(
        source=[
            {"x": np.array([index, index + 0.5]), "index": index}
            for index in range(options["samples"])
        ],
        batch_size=256,
        workers=options["workers"],
        cost="cheap",
        collate=stacked,
    )


measure, limit = loop, plain_loop
