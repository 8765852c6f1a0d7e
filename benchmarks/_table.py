"""Results as text: a table for each kind of work, loaders below each other, ratios to the limit."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterator, Sequence

from ._protocol import Metric
from ._results import CaseResult, Results, Row, WorkResult

__all__ = ["in_unit", "table"]

WIDTH = 100
"""Of sentences; and of a table, in whose place a longer one is written row by row."""
FAR = 1.25
"""A step that is longer or shorter than stated by this factor is told."""


def table(results: Results) -> str:
    """Give everything as lines of text."""
    return "\n".join(
        [*_heading(results), *(line for work in results.works for line in _of(results, work))]
    )


def _heading(results: Results) -> Iterator[str]:
    first = results.machines[0]
    plan = results.plan
    yield from _wrapped(
        f"{first['processor']}, {first['cores']} cores, {first['platform']}."
        f" threadloader {results.versions.get('threadloader') or 'of the checkout'}"
        + (f", commit {results.commit}." if results.commit else ".")
    )
    for machine in results.machines:
        gil = "" if machine["gil"] else " without the GIL"
        yield from _wrapped(f"{machine['python']}{gil}, numpy {machine['numpy']}.")
    others = [
        f"{results.titles[name]} {version}"
        for name, version in results.versions.items()
        if name != "threadloader"
    ]
    yield from _wrapped(f"Beside: {', '.join(others) or 'none'}.")
    runs = "1 run" if plan["repeats"] == 1 else f"{plan['repeats']} runs, taken in turns,"
    told = (
        f"Each loader at each case: {runs} in a process of its own, timed for {plan['seconds']:g} s"
        " or an epoch, where the work has no length of its own. A ratio is to the limit of the same"
        " turn: 1 at the limit, more is better."
    )
    if plan["repeats"] > 1:
        told += " Medians; ± is half the range of the runs."
    yield from _wrapped(told)
    if results.busy:
        yield from _wrapped(
            f"Other programs were at work when it began (load {results.busy:.1f}): a ratio may be"
            " off by more than its ±."
        )
    if plan["quick"]:
        yield from _wrapped("Quick: sizes are tiny, and the numbers mean nothing.")


def _of(results: Results, work: WorkResult) -> Iterator[str]:
    yield ""
    yield from _wrapped(f"{work.name}: {work.title}")
    yield from _wrapped(f"Limit: {work.limit}.")
    columns = [(case, metric) for case in work.cases for metric in work.metrics]
    names = list(
        dict.fromkeys((row.loader, row.python) for case in work.cases for row in case.rows)
    )
    rows = [["", *(case.name.partition(", ")[0] for case, _ in columns)]]
    if any(", " in case.name for case in work.cases):
        rows.append(["", *(case.name.partition(", ")[2] for case, _ in columns)])
    if len(work.metrics) > 1:
        rows.append(["", *(metric.title for _, metric in columns)])
    rows += [
        [_named(results, *name), *(_cell(results, *one, *name) for one in columns)]
        for name in names
    ]
    lines = list(_aligned(rows))
    if max(map(len, lines)) > WIDTH:
        rows = [["", "", *(metric.title for metric in work.metrics)]]
        for case in work.cases:
            for name in names:
                cells = [_cell(results, case, metric, *name) for metric in work.metrics]
                rows.append([case.name, _named(results, *name), *cells])
        lines = list(_aligned(rows, left=2))
    yield from lines
    yield from _notes(results, work)
    yield from _other_steps(results, work)
    yield from _bare_threads(results, work)


def _named(results: Results, loader: str, python: str) -> str:
    title = results.titles.get(loader, loader)
    here = python == results.machines[0]["python"]
    return title if here else f"{title} ({python.partition(' ')[2]})"


def _cell(results: Results, case: CaseResult, metric: Metric, loader: str, python: str) -> str:
    row = next(row for row in case.rows if (row.loader, row.python) == (loader, python))
    if row.status != "ok":
        return {"cannot": "-", "failed": "failed", "timeout": "hangs"}[row.status]
    shown = row.shown.get(metric.name)
    if shown is None:
        return "-"
    if loader == "limit" or metric.against is None or shown.against is None:
        text = in_unit(metric, shown.value)
    else:
        text = f"{shown.against:+.1%}" if metric.against == "over" else f"{shown.against:.2f}"
    told = results.plan["repeats"] > 1 and (loader != "limit" or shown.spread > 0)
    return f"{text} ±{shown.spread:.0%}" if told else text


def in_unit(metric: Metric, value: float) -> str:
    """Give a number in the unit that a reader wants.

    >>> in_unit(Metric("gap", "gap", "s"), 0.00004), in_unit(Metric("gap", "gap", "s"), 2.5)
    ('40.0 µs', '2.50 s')
    >>> in_unit(Metric("added", "added", "B"), 3 << 20), in_unit(Metric("w", "w", "part"), 0.285)
    ('3.0 MiB', '28.5%')
    >>> in_unit(Metric("rate", "rate", "/s"), 25600.4), in_unit(Metric("rate", "rate", "/s"), 51.25)
    ('25,600/s', '51.2/s')
    """
    if metric.unit == "/s":
        return f"{value:,.0f}/s" if value >= 1000 else f"{value:.1f}/s"
    if metric.unit == "part":
        return f"{value:.2%}" if value < 0.01 else f"{value:.1%}"
    if metric.unit == "B":
        return f"{value / (1 << 20):,.1f} MiB"
    if value >= 1:
        return f"{value:.2f} s"
    if 0 < value < 0.001:
        return f"{value * 1e6:.1f} µs"
    return f"{value * 1e3:.2f} ms" if value < 0.01 else f"{value * 1e3:.1f} ms"


def _notes(results: Results, work: WorkResult) -> Iterator[str]:
    """Say once for each loader why it has no number."""
    told: dict[str, list[str]] = {}
    for case in work.cases:
        for row in case.rows:
            if row.status != "ok":
                told.setdefault(_why(results, row), []).append(case.name)
    for why, cases in told.items():
        named = "" if len(cases) == len(work.cases) else f" ({'; '.join(cases)})"
        yield from _wrapped(f"- {why}{named}")


def _other_steps(results: Results, work: WorkResult) -> Iterator[str]:
    """Tell a step that is not as long, with no loading beside it, as the work states."""
    metric = Metric("step_seconds", "step", "s")
    for case in work.cases:
        for row in case.rows:
            if row.loader != "limit" or "step_ms" not in case.options or not row.runs:
                continue
            # The limit may add to its step what the samples take of the GIL.
            took = statistics.median(
                run["step_seconds"] - run.get("samples_seconds", 0.0) for run in row.runs
            )
            asked = case.options["step_ms"] / 1000
            if not asked / FAR <= took <= asked * FAR:
                yield from _wrapped(
                    f"- {_named(results, row.loader, row.python)}: a step took"
                    f" {in_unit(metric, took)}, and not {in_unit(metric, asked)}; other programs"
                    " were at work then, or when its size was found"
                )


def _bare_threads(results: Results, work: WorkResult) -> Iterator[str]:
    """Tell what threads alone reach, where the limit is that of one and has measured it."""
    told = []
    for case in work.cases:
        for row in case.rows:
            pairs = [
                run["threads_per_second"] / run["samples_per_second"]
                for run in row.runs
                if "threads_per_second" in run
            ]
            if row.loader == "limit" and pairs:
                where = "" if row.python == results.machines[0]["python"] else f", {row.python}"
                told.append(f"{statistics.median(pairs):.2f} ({case.name}{where})")
    if told:
        yield from _wrapped(
            "- limit: as many threads as there are workers, which hand nothing on, reach"
            f" {', '.join(told)} of it"
        )


def _why(results: Results, row: Row) -> str:
    verb = {"cannot": "cannot", "failed": "failed", "timeout": "hangs"}[row.status]
    return f"{_named(results, row.loader, row.python)} {verb}: {row.why}"


def _aligned(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
