"""A report as text: a table that a person can read, the choice, and what the numbers say."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from .._messages import counted, line
from ..stats import percent

if TYPE_CHECKING:
    from ._report import Report, Row

__all__ = ["table"]

WIDTH = 100
"""Columns of the sentences; the table itself is narrower."""


def table(report: Report) -> str:
    """Give the whole report as lines of text."""
    lines = [*_heading(report), ""]
    for loader in report.plan.loaders:
        rows = report.of(loader)
        unit = "num_workers" if loader == "threadloader" else "processes"
        if report.plan.compare:
            torch = f"PyTorch {report.system['torch']}, torch.utils.data.DataLoader:"
            lines.append(torch if loader == "torch" else "threadloader:")
        lines += [*_aligned([_titles(report, unit), *(_cells(report, row) for row in rows)]), ""]
    lines += _wrapped(f"Choice: {report.choice}")
    for told in report.findings:
        lines += _wrapped(f"- {told}", "  ")
    return "\n".join(lines)


def _heading(report: Report) -> list[str]:
    system, data, plan = report.system, report.data, report.plan
    gil = "with the GIL" if system["gil"] else "without the GIL"
    if plan.step_ms:
        kind = {
            "sleep": "a sleep",
            "gil": "Python code, which holds the GIL",
            "numpy": "products of matrices",
        }[plan.step]
        step = f"A training step of {plan.step_ms:g} ms stands in for yours: {kind} (--step)."
    else:
        step = (
            "No training step: samples/s is what loading alone gives, and a data wait would mean"
            " nothing. State how long your step takes with --step-ms."
        )
    bounds = [f"{plan.seconds:g} s"] if plan.seconds is not None else []
    # `batches` counts the first one, too.
    bounds += [counted(plan.batches - 1, "batch", "batches")] if plan.batches is not None else []
    runs = "1 run" if plan.repeat == 1 else f"{plan.repeat} runs, taken in turns,"
    cores, steps = counted(system["cores"], "core"), counted(data["steps"], "batch", "batches")
    bound = f"max_bytes {data['max_bytes']:,}, " if data["max_bytes"] is not None else ""
    what = (
        f"{line(report.config) or 'The config'}: batch_size {data['batch_size']}, prefetch_batches"
        f" {data['prefetch_batches']}, {bound}{steps} an epoch. {system['python']}"
        f" {gil}, numpy {system['numpy']}, {cores}, {system['platform']}."
    )
    how = (
        f"Each setting: {runs} of {' or '.join(bounds)} after the first batch, each in a process"
        " of its own." + (" Medians; ± is half the range of the runs." if plan.repeat > 1 else "")
    )
    return [*_wrapped(what), *_wrapped(how), *_wrapped(step)]


def _titles(report: Report, unit: str) -> list[str]:
    titles = [unit, "first batch", "samples/s"]
    titles += ["±"] if report.plan.repeat > 1 else []
    titles += ["data wait", "", "ready"] if report.plan.step_ms else ["ready"]
    return [*titles, "next epoch", "cores", "peak memory"]


def _cells(report: Report, row: Row) -> list[str]:
    cells = [
        str(row.num_workers),
        seconds(row.first_batch_seconds),
        f"{row.samples_per_second:,.0f}",
    ]
    cells += [f"{row.spread:.0%}"] if report.plan.repeat > 1 else []
    if row.data_wait_fraction is not None:
        cells += [percent(row.data_wait_fraction), str(row.data_wait_band)]
    return [
        *cells,
        _number(row.batches_ready),
        "-" if row.epoch_gap_seconds is None else seconds(row.epoch_gap_seconds),
        _number(row.cpu_cores),
        "-" if row.peak_bytes is None else f"{row.peak_bytes / (1 << 20):,.1f} MiB",
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        # The band stands left-aligned after the wait that it names.
        "  ".join(
            cell.ljust(width) if rows[0][place] == "" else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _wrapped(text: str, indent: str = "") -> list[str]:
    # Nothing is broken within itself, so that the path of a config can be copied.
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def seconds(value: float) -> str:
    """Give a time in words, with as many digits as a reader wants.

    >>> seconds(0.0001234), seconds(0.01234), seconds(1.234)
    ('0.12 ms', '12.3 ms', '1.23 s')
    """
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.2f} ms" if value < 0.001 else f"{value * 1e3:.1f} ms"
