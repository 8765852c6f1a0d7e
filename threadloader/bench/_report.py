"""What was measured: `Run`, one process; `Row`, all runs of a setting; `Report`, the whole."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..stats import band
from ._choice import Choice
from ._plan import Plan

__all__ = ["FORMAT", "Report", "Row", "row_of", "system"]

FORMAT = 1
"""Version of the JSON; it changes when a name goes or changes its meaning, not when one comes."""

Run = dict[str, Any]
"""The numbers of one process, as `_child` prints them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one setting of one loader gave: medians of its runs where nothing else is said.

    All values except `first_batch_seconds` are measured after the first batch, but `peak_bytes`
    and `storage_bytes` from before the source is opened. None: the system does not tell it, or it
    has no meaning for this setting.

    Attributes:
        loader: "threadloader" or "torch".
        num_workers: threads, or processes for torch.
        samples_per_second: samples for each second of wall time, steps included.
        samples_per_second_runs: the same for each run, in the order in which they were made.
        batch_seconds: wall time for each batch, its step included.
        first_batch_seconds: from the beginning of the first epoch to its first batch, the
            source being open.
        epoch_gap_seconds: from asking past the end of an epoch to the first batch of the next;
            None if no run got there.
        data_wait_fraction: part of the time that the loop waited, 0 to 1; None without a step.
        batches_ready: mean number of batches ready when the loop came for one; None for torch
            and without workers.
        step_seconds: how long a step took; None without one.
        cpu_cores: processor time of the process for each second of wall time: how many cores
            it kept busy, steps included; None for torch with workers.
        peak_bytes: resident memory above the start, the highest of all runs; for torch with
            the memory that its processes have to themselves.
        storage_bytes: bytes that came from storage and not from the system's cache, the most
            of all runs.
        cached_fraction: part of the samples that came from the config's cache, 0 to 1, of all runs
            together; None without one, and for torch, which is given none.
        batches: batches measured, of all runs together.
    """

    loader: str
    num_workers: int
    samples_per_second: float
    samples_per_second_runs: tuple[float, ...] = ()
    batch_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    epoch_gap_seconds: float | None = None
    data_wait_fraction: float | None = None
    batches_ready: float | None = None
    step_seconds: float | None = None
    cpu_cores: float | None = None
    peak_bytes: int | None = None
    storage_bytes: int | None = None
    cached_fraction: float | None = None
    batches: int = 0

    @property
    def spread(self) -> float:
        """Half of the distance between the best and the worst run, as a part of the median."""
        runs = self.samples_per_second_runs or (0.0,)
        middle = self.samples_per_second
        return (max(runs) - min(runs)) / 2 / middle if middle else 0.0

    @property
    def data_wait_band(self) -> str | None:
        """The data wait in a word, as `stats()` has it; None without a step."""
        return None if self.data_wait_fraction is None else band(self.data_wait_fraction)

    def as_dict(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        return asdict(self) | {
            "samples_per_second_runs": list(self.samples_per_second_runs),
            "spread": self.spread,
            "data_wait_band": self.data_wait_band,
        }


def row_of(loader: str, workers: int, runs: Sequence[Run], *, has_step: bool) -> Row:
    """Sum up the runs of one setting, at least one, in a row."""
    rates = [run["samples"] / run["seconds"] for run in runs]
    gaps = [gap for run in runs for gap in run["epoch_gap_seconds"]]
    hits, misses = (sum(run[name] for run in runs) for name in ("cache_hits", "cache_misses"))

    def middle(name: str, under: str | None = None) -> float | None:
        values = [run[name] / (run[under] if under else 1) for run in runs if run[name] is not None]
        return statistics.median(values) if values else None

    def most(name: str) -> int | None:
        return max((run[name] for run in runs if run[name] is not None), default=None)

    return Row(
        loader=loader,
        num_workers=workers,
        samples_per_second=statistics.median(rates),
        samples_per_second_runs=tuple(rates),
        batch_seconds=middle("seconds", "batches") or 0.0,
        first_batch_seconds=middle("first_batch_seconds") or 0.0,
        epoch_gap_seconds=statistics.median(gaps) if gaps else None,
        data_wait_fraction=middle("wait_seconds", "seconds") if has_step else None,
        batches_ready=middle("batches_ready"),
        step_seconds=middle("step_seconds", "batches") if has_step else None,
        cpu_cores=middle("cpu_seconds", "seconds"),
        peak_bytes=most("peak_bytes"),
        storage_bytes=most("storage_bytes"),
        cached_fraction=hits / (hits + misses) if hits + misses else None,
        batches=sum(run["batches"] for run in runs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `run` found. `str` of it is the table, with the choice and its reasons.

    Attributes:
        config: the config as it was named; "" if it is not a file.
        plan: what was measured.
        system: what it was measured on, as `system` gives it.
        data: ``batch_size``, ``prefetch_batches``, ``max_bytes`` (None: no bound) and ``steps``,
            batches of an epoch.
        rows: a row for each setting; ours in the order of workers, then torch's.
        choice: the setting that we would choose.
        findings: sentences on what the numbers say.
    """

    config: str
    plan: Plan
    system: dict[str, Any]
    data: dict[str, Any]
    rows: tuple[Row, ...]
    choice: Choice
    findings: tuple[str, ...]

    def of(self, loader: str) -> tuple[Row, ...]:
        """The rows of one loader."""
        return tuple(row for row in self.rows if row.loader == loader)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain JSON values; docs/bench.md explains them."""
        return {
            "format": FORMAT,
            "config": self.config,
            "plan": self.plan.as_dict(),
            "system": self.system,
            "data": self.data,
            "results": [row.as_dict() for row in self.rows],
            "choice": asdict(self.choice),
            "findings": list(self.findings),
        }

    def __str__(self) -> str:
        from ._table import table

        return table(self)


def system(torch: str | None) -> dict[str, Any]:
    """Say what is measured on; `torch` is its version, if it takes part."""
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:  # pragma: no cover - Windows and macOS do not say it
        cores = os.cpu_count() or 1
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": bool(gil),
        "numpy": np.__version__,
        "torch": torch,
        "cores": cores,
        "platform": f"{platform.system()} {platform.machine()}",
    }
