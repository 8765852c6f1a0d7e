"""Which number of workers to take, and what the numbers say: functions of numbers alone.

Nothing is said here that was not measured. Where several causes would give the same numbers, all
of them are named: that few cores are busy may also be because other programs took the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..stats import BANDS, percent

if TYPE_CHECKING:
    from ._report import Row

__all__ = ["Choice", "cached", "choose", "compared", "findings"]

NEAR = 0.95
"""A rate within 5% of the best is as good as the best: runs differ by as much."""

ENOUGH = BANDS[0][0]
"""A data wait below 1% leaves nothing to gain."""

GAIN = 1.10
"""From here on a rate counts as higher: more than runs differ by."""

READY = 0.5
"""If so many batches were ready on average, the loop did not only wait for batches to be made.
Below 1, since with `prefetch_batches` 1 there are no more than that."""

BUSY = 0.85
"""A core that computes for this part of the time is busy; the system has its share, too."""

KEPT = 0.01
"""If this part of the samples came from the config's cache, rates are those of cached samples:
without the cache they may be hundreds of times lower."""

CHEAP_SECONDS = 200e-6
"""A batch that is made faster than this has little work in it to be shared: to hand it from
thread to thread takes 10 to 50 microseconds, where both sides ask for the GIL."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The setting to take.

    Attributes:
        num_workers: how many workers; None where the numbers do not say it.
        why: the reason, in a sentence or two.

    >>> print(Choice(None, "Nothing was measured."))
    none. Nothing was measured.
    """

    num_workers: int | None
    why: str

    def __str__(self) -> str:
        number = self.num_workers
        return f"{'none' if number is None else f'num_workers {number}'}. {self.why}"


def cached(rows: Sequence[Row]) -> Row | None:
    """Give the row of which most samples came from the config's cache; None if hardly any did."""
    most = max(rows, key=lambda row: row.cached_fraction or 0.0)
    return most if (most.cached_fraction or 0.0) >= KEPT else None


def choose(rows: Sequence[Row]) -> Choice:
    """Choose a number of workers, of at least one row.

    Of all settings that come within 5% of the best samples per second, the one with the
    fewest workers; with a training step, the fewest among those of them whose data wait is
    below 1%, if there are any. None where samples came from a cache.
    """
    if cached(rows):
        return Choice(None, "Samples came from the config's cache.")
    best = max(rows, key=lambda row: (row.samples_per_second, -row.num_workers))
    near = [row for row in rows if row.samples_per_second >= NEAR * best.samples_per_second]
    fed = [row for row in near if _wait(row) < ENOUGH]
    with_step = best.data_wait_fraction is not None
    chosen = min(fed if with_step and fed else near, key=lambda row: row.num_workers)
    number, rate = chosen.num_workers, f"{chosen.samples_per_second:,.0f} samples/s"
    if len(rows) == 1:
        return Choice(number, "Nothing else was measured.")
    if with_step and fed:
        why = f"The fewest with a data wait below 1%: {percent(_wait(chosen))}, and {rate}"
    elif with_step:
        why = (
            f"No setting within 5% of the best rate has a data wait below 1%. This is the fewest"
            f" workers among them: {percent(_wait(chosen))}, and {rate}"
        )
    else:
        why = f"The fewest within 5% of the best rate: {rate}"
    if chosen is best:
        return Choice(number, f"{why}, the best rate of all.")
    return Choice(
        number, f"{why}; the best, {best.samples_per_second:,.0f}, took {_workers(best)}."
    )


def findings(
    rows: Sequence[Row], *, step_seconds: float, cores: int, gil: bool, bounded: bool = False
) -> list[str]:
    """Say what the numbers tell about the bottleneck, as far as they can.

    Args:
        rows: at least one, in the order of workers.
        step_seconds: how long the training step takes where nothing else runs; 0: there is none.
        cores: how many cores of the machine this process may use.
        gil: whether this Python has the GIL.
        bounded: whether the config has a `max_bytes`.
    """
    told = []
    kept = cached(rows)
    if kept:
        told.append(
            f"With {_workers(kept)} {kept.cached_fraction:.0%} of the samples came from the"
            " config's cache: these are rates of kept samples, and say nothing about preparing"
            " them. Measure a copy of the config without cache; one in a folder is filled by these"
            " runs, as by any other."
        )
    elif step_seconds:
        told += _with_step(rows, step_seconds, bounded)
    elif len(rows) > 1:  # not with a step: its own computing would be taken for loading
        told.append(_without_step(rows, cores, gil))
    if not kept and not step_seconds and choose(rows).num_workers == 0 and len(rows) > 1:
        told.append(
            "This holds for loading alone. Beside a training step, even one worker loads while"
            " the step runs: state with --step-ms how long yours takes."
        )
    stored = max(row.storage_bytes or 0 for row in rows)
    if stored >= 1 << 20:
        told.append(
            f"Up to {stored / (1 << 20):,.0f} MiB of a run came from storage, the rest from the"
            " system's cache; a run that finds more in the cache is faster for that alone."
        )
    noisy = max(rows, key=lambda row: row.spread)
    if not kept and noisy.spread > 1 - NEAR:  # the first run fills the cache, others find it full
        told.append(
            f"With {_workers(noisy)} the runs differ by ±{noisy.spread:.0%}, more than the 5% that"
            " the choice goes by: measure longer (--seconds, --repeat) on a machine that is idle."
        )
    return told


def compared(ours: Sequence[Row], theirs: Sequence[Row]) -> str:
    """Say how the best settings of threadloader and of PyTorch's DataLoader compare."""
    here, there = (max(rows, key=lambda row: row.samples_per_second) for rows in (ours, theirs))
    ratio = here.samples_per_second / there.samples_per_second
    processes = _workers(there, "process", "processes")
    alike = abs(ratio - 1) < max(1 - NEAR, here.spread + there.spread)
    told = "no difference that these runs would show" if alike else f"{ratio:.2f} times as many"
    return (
        f"At their best, threadloader with {_workers(here)} loads"
        f" {here.samples_per_second:,.0f} samples/s and PyTorch's DataLoader with {processes}"
        f" {there.samples_per_second:,.0f}: {told}."
    )


def _with_step(rows: Sequence[Row], step_seconds: float, bounded: bool) -> list[str]:
    told = []
    waits = [_wait(row) for row in rows]
    if max(waits) < ENOUGH:
        told.append(
            "No setting waited 1% of the time: loading is not the bottleneck, whatever"
            " the number of workers."
        )
    elif min(waits) >= ENOUGH and len(rows) > 1:
        least = min(rows, key=_wait)
        lowest = f"The wait is lowest with {_workers(least)}, {percent(_wait(least))}"
        if (least.batches_ready or 0.0) >= READY:
            more = "a larger max_bytes, or " * bounded + "more of prefetch_batches"
            told.append(
                f"{lowest}, although {least.batches_ready:.1f} batches were ready on average:"
                f" either some batches take much longer than others, which {more}"
                " evens out, or the loop does not get its turn at once, as threads take the cores,"
                " or the GIL, from it, or other programs take the cores."
            )
        elif not least.num_workers:
            told.append(
                f"{lowest}, and more of them do not lower it: to hand a batch over takes as long"
                " as to make it, or threads take the cores, or the GIL, from the loop, or other"
                " programs take the cores."
            )
        elif least is rows[-1]:
            told.append(
                f"{lowest}, and still above 1%: try more of them (--workers), or make samples"
                " cheaper."
            )
        else:
            told.append(
                f"{lowest}, and more of them do not lower it: at each number tried, batches come"
                " more slowly than steps take them."
            )
    # Without workers nothing runs beside the step; with them it may be longer, but not shorter.
    least = min(rows, key=lambda row: (row.num_workers > 0, row.step_seconds or step_seconds))
    took = least.step_seconds or step_seconds
    if took * GAIN < step_seconds or (took > GAIN * step_seconds and not least.num_workers):
        told.append(
            f"With {_workers(least)} a step took {_time(took)}, and not {_time(step_seconds)}"
            " (--step-ms): the numbers are those of such a step. Either other programs were"
            " running, or the system cannot keep such a time."
        )
    alone, so = (step_seconds, "asked for") if least.num_workers else (took, "alone")
    worst = max(rows, key=lambda row: row.step_seconds or 0.0)
    if (worst.step_seconds or 0.0) > GAIN * alone:
        told.append(
            f"The step itself gets slower beside the workers: {_time(alone)} {so},"
            f" {_time(worst.step_seconds or 0.0)} with {_workers(worst)}. They take the cores, or"
            " the GIL, from it, or other programs take the cores."
        )
    return told


def _without_step(rows: Sequence[Row], cores: int, gil: bool) -> str:
    base, rest = rows[0], rows[1:]
    best = max(rest, key=lambda row: row.samples_per_second)
    gain = best.samples_per_second / base.samples_per_second
    if gain < GAIN:
        return _no_gain(base, rest, gain, cores, gil)
    told = f"{gain:.1f} times as much is loaded with {_workers(best)} as with {_workers(base)}."
    busy, could = best.cpu_cores, min(best.num_workers, cores)
    if _mostly_waits(base):
        told += (
            f" With {_workers(base)} the processor was busy {base.cpu_cores:.0%} of the time:"
            " the rest was waiting, which threads share, or other programs took the processor."
        )
    elif busy is not None and busy > BUSY * could:
        told += f" {_cores(busy, cores)} busy then"
        return told + (
            ": that is the limit of this machine."
            if could == cores
            else ", one for each worker: more of them may help, up to the number of cores."
        )
    elif busy is not None:
        told += (
            f" {_cores(busy, cores)} busy then: the rest of the time threads wait for storage, for"
            f" memory{', for the GIL' if gil else ''}, or other programs took the processor."
        )
    before = max(row.samples_per_second for row in rows if row is not best)
    if best is rows[-1] and best.samples_per_second > GAIN * before:
        told += f" The rate is still rising at {best.num_workers}: try more with --workers."
    return told


def _no_gain(base: Row, rest: Sequence[Row], gain: float, cores: int, gil: bool) -> str:
    # From 1 / NEAR on more workers are chosen: they must not be said not to help.
    help_ = "help little" if gain * NEAR > 1 else "do not help"
    told = f"More workers than {base.num_workers} {help_} ({gain:.2f} times at best)."
    most = max(row.cpu_cores or 0.0 for row in rest)
    if rest[-1].num_workers == 1:
        return f"{told} One worker does what the loop itself would do: try more with --workers."
    if base.batch_seconds < CHEAP_SECONDS:
        return (
            f"{told} A batch takes {_time(base.batch_seconds)} with {_workers(base)}: so little"
            " that handing it from thread to thread costs as much."
        )
    if _mostly_waits(base):
        return (
            f"{told} With {_workers(base)} the processor was busy {base.cpu_cores:.0%} of the"
            " time: either the source lets one thread in at a time, or the storage gives no more,"
            " or other programs took the processor."
        )
    if (base.cpu_cores or 0.0) > BUSY * cores:
        return f"{told} {_cores(base.cpu_cores or 0.0, cores)} busy with {_workers(base)} already."
    if most < 1.25:
        return f"{told} All threads together kept {most:.1f} cores busy: " + (
            "the samples are made by code that holds the GIL (Python, or many small numpy calls),"
            " one thread does all the work, or other programs took the processor."
            if gil
            else "one thread does all the work, or other programs took the processor."
        )
    return (
        f"{told} {_cores(most, cores)} busy and no more came of it: the threads contend for"
        " memory" + (" or for the GIL." if gil else ".")
    )


def _mostly_waits(row: Row) -> bool:
    return row.cpu_cores is not None and row.cpu_cores < 0.5


def _cores(busy: float, cores: int) -> str:
    return f"{busy:.1f} of 1 core is" if cores == 1 else f"{busy:.1f} of {cores} cores are"


def _wait(row: Row) -> float:
    return row.data_wait_fraction or 0.0


def _workers(row: Row, one: str = "worker", many: str = "workers") -> str:
    return f"1 {one}" if row.num_workers == 1 else f"{row.num_workers or 'no'} {many}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2g} ms" if seconds < 0.01 else f"{seconds * 1e3:,.0f} ms"
