"""What a package weighs: import, memory with a small loader open, disk; over numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._machine import Memory, installed_bytes
from .._protocol import Case, Job, Metric, Numbers, Serve
from .arrays import Rows

SHORT = "Footprint"
TITLE = "Footprint over numpy's: import, memory with a small loader open, files on disk"
LIMIT = "0: nothing over numpy's own (told in its line)"
METRICS = (
    Metric("import_seconds", "import", "s", None),
    Metric("resident_bytes", "memory", "B", None),
    Metric("installed_bytes", "installed", "B", None),
)


def cases(quick: bool) -> list[Case]:
    """Give a loader with two workers."""
    return [Case("2 workers", {"workers": 2})]


def job(options: dict[str, Any]) -> Job:
    """Give 256 small rows."""
    arrays: dict[str, np.ndarray] = {"x": np.zeros((256, 4)), "index": np.arange(256)}
    return Job(Rows(arrays), 32, options["workers"], "cheap", arrays=arrays)


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Add what a loader takes in an epoch, at its peak, to what its import took.

    The import is timed by `_child`, right after numpy's, before all else.
    """
    memory = Memory()
    with serve(job) as served:
        for _ in served.epoch():
            pass
        resident = memory.above_start() + memory.of_children()
    imported = options["imported"]
    return {
        "import_seconds": imported["seconds"],
        **({"resident_bytes": imported["bytes"] + resident} if memory.told else {}),
        "installed_bytes": installed_bytes(options["package"], options["module"]),
    }


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Give numpy's own."""
    numpy = options["numpy"]
    return {
        "import_seconds": numpy["seconds"],
        **({"resident_bytes": numpy["bytes"]} if Memory().told else {}),
        "installed_bytes": installed_bytes("numpy", "numpy", over=()),
    }
