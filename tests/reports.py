"""Rows and reports of bench at rates that nobody has measured."""

from dataclasses import replace

from hypothesis import strategies as st

from threadloader.bench import Plan, Report, Row
from threadloader.bench._choice import choose
from threadloader.bench._report import system

rates = st.dictionaries(
    st.integers(0, 64), st.floats(0.001, 1e9, allow_nan=False), min_size=1, max_size=8
)

SVG = "{http://www.w3.org/2000/svg}"
"""How the tags of a picture begin."""


def rows(rates, waits=None, **others):
    """Rows of these rates, by number of workers."""
    return [
        Row(
            loader="threadloader",
            num_workers=workers,
            samples_per_second=rate,
            samples_per_second_runs=(rate,),
            data_wait_fraction=None if waits is None else waits[workers],
            **{name: values[workers] for name, values in others.items()},
        )
        for workers, rate in sorted(rates.items())
    ]


def report(rates, waits=None, compare="", config="c.json", **plan):
    """A report of these rates."""
    ours = rows(rates, waits)
    theirs = [replace(row, loader="torch") for row in ours if compare]
    return Report(
        config=config,
        plan=Plan(workers=tuple(rates), step_ms=0 if waits is None else 8, compare=compare, **plan),
        system=system("2.0" if compare else None),
        data={"batch_size": 5, "prefetch_batches": 3, "max_bytes": None, "steps": 3},
        rows=(*ours, *theirs),
        choice=choose(ours),
        findings=("One thing.", "Another thing, " + "at some length " * 20),
    )
