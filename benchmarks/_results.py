"""What was measured: a `Row`, all runs of one loader at one case; `Results`, the whole."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ._protocol import Metric, Numbers

__all__ = ["FORMAT", "CaseResult", "Results", "Row", "WorkResult", "row_of"]

FORMAT = 1
"""Version of the JSON; it changes when a name goes or changes its meaning, not when one comes."""


@dataclass(frozen=True)
class Shown:
    """One number of a row, as the table shows it.

    Attributes:
        value: the median of the runs.
        against: the median of the runs, each against the limit of its own turn, as
            `Metric.against` says; None where the metric has no such thing.
        spread: half of the distance between the best and the worst run, as a part of the
            median: of ``against`` where that is a share of the limit, else of ``value``, as for
            the limit itself.
    """

    value: float
    against: float | None
    spread: float


@dataclass(frozen=True)
class Row:
    """One loader at one case.

    Attributes:
        loader: its name.
        python: the interpreter's version.
        how: in which way the package was used, in its file's words.
        status: "ok"; "cannot": the package has no way to do it; "failed"; "timeout".
        why: a sentence, where it is not ok.
        runs: the numbers of each run, in the order in which they were made.
        shown: by the name of the metric, without those that a run did not give; empty where it
            is not ok.
    """

    loader: str
    python: str
    how: str = ""
    status: str = "ok"
    why: str = ""
    runs: list[Numbers] = field(default_factory=list)
    shown: dict[str, Shown] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseResult:
    """One case: the limit's rows first, one for each interpreter, then the loaders'."""

    name: str
    options: dict[str, Any]
    rows: list[Row]


@dataclass(frozen=True)
class WorkResult:
    """One kind of work."""

    name: str
    short: str
    title: str
    limit: str
    metrics: list[Metric]
    cases: list[CaseResult]


@dataclass(frozen=True)
class Results:
    """Everything.

    Attributes:
        commit: of the repository; "+" behind it where files differ from it.
        plan: what was asked for.
        machines: what each interpreter says of itself, the first one first.
        titles: of the loaders, by name.
        versions: of the loaders' packages, by name.
        works: in the order in which they were measured.
    """

    commit: str
    plan: dict[str, Any]
    machines: list[dict[str, Any]]
    titles: dict[str, str]
    versions: dict[str, str]
    works: list[WorkResult] = field(default_factory=list)

    @property
    def busy(self) -> float:
        """How much others did when it began, where that is enough to be told; else 0."""
        load = self.machines[0]["load"] or 0.0
        return load if load > 0.3 * self.machines[0]["cores"] else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON values; docs/benchmarks.md explains them."""
        return {"format": FORMAT, **asdict(self)}


def row_of(
    loader: str,
    python: str,
    answers: Sequence[dict[str, Any]],
    limits: Sequence[dict[str, Any]],
    metrics: Sequence[Metric],
) -> Row:
    """Give what the runs of a loader at a case come to.

    Args:
        loader: its name.
        python: the interpreter's version.
        answers: of its runs, at least one; the last one may be a failure, which ended them.
        limits: the answers of the limit's runs in the same turns.
        metrics: of the work.
    """
    for status in ("cannot", "timeout", "error"):
        if status in answers[-1]:
            kind = "failed" if status == "error" else status
            return Row(loader, python, status=kind, why=answers[-1][status])
    runs = [answer["numbers"] for answer in answers]
    shown = {}
    for metric in metrics:
        if any(metric.name not in run for run in runs):
            continue
        values = [run[metric.name] for run in runs]
        against = None
        beside = limits[: len(runs)]
        # Where a run of the limit failed, what is left would be the ratio of other runs.
        if metric.against is not None and all("numbers" in limit for limit in beside):
            against = [
                metric.compared(value, limit["numbers"][metric.name])
                for value, limit in zip(values, beside, strict=True)
            ]
        middle = statistics.median(against) if against else None
        # A growth has its spread around the whole step, not around what it grows by; the limit,
        # each of whose ratios is 1, around its numbers.
        by_limit = metric.against == "share" and loader != "limit"
        of = against if against and by_limit else values
        shown[metric.name] = Shown(statistics.median(values), middle, _spread(of))
    return Row(loader, python, answers[-1]["how"], runs=runs, shown=shown)


def _spread(values: Sequence[float]) -> float:
    middle = statistics.median(values)
    return (max(values) - min(values)) / 2 / middle if middle else 0.0
