"""The numbers: data wait, and where the time went."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

__all__ = ["BANDS", "Stats", "band", "percent"]

BANDS = ((0.01, "excellent"), (0.05, "good"), (0.20, "fair"))
"""Upper bounds of the data-wait fraction. Chosen."""

_OF_NOW = (
    "prefetch_batches",
    "peak_bytes",
    "gil_delay_seconds",
    "switch_interval_shortened",
    "not_pinned",
    "fingerprint",
    "cache_samples",
    "cache_bytes",
)
"""Numbers of a moment, of which `since` takes no difference."""

HELD_SECONDS = 1e-3
"""Delay of the GIL from which it is worth mentioning."""


def band(fraction: float) -> str:
    """Name a data-wait fraction.

    >>> band(0.009), band(0.01), band(0.05), band(0.2)
    ('excellent', 'good', 'fair', 'poor')
    """
    return next((name for bound, name in BANDS if fraction < bound), "poor")


def percent(fraction: float) -> str:
    """Write a data-wait fraction, rounded down as the bands are: one below a bound reads below it.

    >>> percent(0.00999), percent(0.01), percent(0.0499)
    ('0.9%', '1.0%', '4.9%')
    """
    return f"{math.floor(fraction * 1000) / 10:.1f}%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A snapshot of a run's numbers since its first `next`; all times in seconds.

    The first batch is reported separately: no loader can have it ready, and its wait says
    nothing about the batches that follow. So `data_wait_fraction` leaves it out of both
    the waiting and the time.

    Attributes:
        batches: batches delivered by this run; not those of a run that it goes on with.
        samples: samples delivered, likewise, padding not counted.
        skipped: samples left out because they failed.
        retried: reads that were tried again. Several small batches that failed when they were read
            together, and were read one by one then, count once.
        failed: batches in whose place an exception was raised.
        prepared_here: batches that the loop's own thread prepared, although there are workers,
            because that measured faster.
        elapsed_seconds: wall time since the first `next` was called. It ends with the `with`.
        first_batch_seconds: from the first `next` until there was a batch: starting, reading,
            collating, and the loop's own time behind a `next` that raised before there was one.
            High: the first batch's work is spread over too few workers.
        data_wait_seconds: time blocked inside `next` after the first batch, including a wait
            still going on. High: loading is the bottleneck; low: training is.
        ready_sum: batches that were ready, added up over all calls of `next` that gave a batch.
        prefetch_batches: the most batches prepared ahead.
        peak_bytes: the most bytes of batches that were ready at once, with `max_bytes` and
            workers; else 0.
        gil_delay_seconds: how long a worker waits for the GIL while the loop does not wait for a
            batch, as measured now and then. Above a millisecond the training loop holds it, or
            works beside samples made in Python, so reading waits for one of these.
        switch_interval_shortened: whether the loader has shortened the switch interval.
        not_pinned: what was missing for ``pin_memory: "auto"``, so that batches are numpy
            arrays; "" when they are pinned, or nobody asked for it.
        fingerprint: running fingerprint of all batches this shard has delivered, resumes
            included; "" unless the config asks for one.
        cache_hits: samples that came from the cache, prepared ahead included.
        cache_misses: samples that had to be prepared for it. High after the first epoch: the
            bound is too low for the data.
        cache_samples: samples that it holds.
        cache_bytes: the bytes they take.
        cache_uncacheable: how often a sample could not be kept, because of its type (see the log).
        cache_damaged: kept samples that were found damaged, and prepared anew.
    """

    batches: int = 0
    samples: int = 0
    skipped: int = 0
    retried: int = 0
    failed: int = 0
    prepared_here: int = 0
    elapsed_seconds: float = 0.0
    first_batch_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    ready_sum: int = 0
    prefetch_batches: int = 0
    peak_bytes: int = 0
    gil_delay_seconds: float = 0.0
    switch_interval_shortened: bool = False
    not_pinned: str = ""
    fingerprint: str = ""
    cache_hits: int = 0
    cache_misses: int = 0
    cache_samples: int = 0
    cache_bytes: int = 0
    cache_uncacheable: int = 0
    cache_damaged: int = 0

    @property
    def data_wait_fraction(self) -> float:
        """Part of the time since the first batch that was spent blocked in `next`, 0 to 1.

        Below 0.01 faster loading gains nothing; above 0.2 the training step waits for data:
        try more workers, more prefetch, cheaper preparation, faster storage.
        """
        time = self.elapsed_seconds - self.first_batch_seconds
        return min(1.0, self.data_wait_seconds / time) if time > 0 else 0.0

    @property
    def data_wait_band(self) -> str:
        """The fraction in a word: excellent (< 1%), good (< 5%), fair (< 20%) or poor."""
        return band(self.data_wait_fraction)

    @property
    def samples_per_second(self) -> float:
        """Samples delivered for each second of wall time, training included."""
        return self.samples / self.elapsed_seconds if self.elapsed_seconds > 0 else 0.0

    @property
    def batches_per_second(self) -> float:
        """Batches delivered for each second of wall time, training included."""
        return self.batches / self.elapsed_seconds if self.elapsed_seconds > 0 else 0.0

    @property
    def batches_ready(self) -> float:
        """Mean number of batches that were ready when `next` was called.

        Near `prefetch_batches`: the buffer is full and loading keeps up. Near 0: it is
        empty; more prefetch will not help, more workers or cheaper preparation may.
        Without workers it is what was left of batches that were gathered together, and
        says nothing about loading.
        """
        return self.ready_sum / self.batches if self.batches else 0.0

    def since(self, earlier: Stats) -> Stats:
        """Give the numbers of the time between an earlier snapshot and this one.

        Args:
            earlier: a snapshot of the same run.

        Raises:
            TypeError: it is no snapshot.
            ValueError: it is a later one.

        >>> run = Stats(batches=30, elapsed_seconds=4.0, first_batch_seconds=1.0)
        >>> run.since(Stats(batches=10, elapsed_seconds=2.0, first_batch_seconds=1.0)).batches
        20
        """
        if not isinstance(earlier, Stats):
            raise TypeError(
                f"since: expected an earlier snapshot of the run, as stats() gave it, "
                f"got {type(earlier).__name__}"
            )
        if earlier.elapsed_seconds > self.elapsed_seconds or earlier.batches > self.batches:
            raise ValueError(
                "since: expected an earlier snapshot of the run, got a later one; "
                "write later.since(earlier)"
            )
        changed: dict[str, Any] = {
            field.name: getattr(self, field.name) - getattr(earlier, field.name)
            for field in fields(self)
            if field.name not in _OF_NOW
        }
        if not earlier.batches:  # only this part of the time to the first batch lies in between
            waited = self.first_batch_seconds - earlier.elapsed_seconds
            changed["first_batch_seconds"] = max(0.0, waited)
        return replace(self, **changed)

    def as_dict(self) -> dict[str, int | float | str | bool]:
        """Give every number, the derived ones too, as plain JSON values.

        >>> Stats(batches=2, elapsed_seconds=4.0).as_dict()["batches_per_second"]
        0.5
        """
        derived = (
            "data_wait_fraction",
            "data_wait_band",
            "samples_per_second",
            "batches_per_second",
            "batches_ready",
        )
        names = (*(field.name for field in fields(self)), *derived)
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        counts = [("skipped", self.skipped), ("retried", self.retried), ("failed", self.failed)]
        lost = [f"{count:,} {name}" for name, count in counts if count]
        if not self.batches:
            return " | ".join(["Data wait: no batch yet", *lost])
        parts = [
            f"Data wait: {percent(self.data_wait_fraction)} ({self.data_wait_band})",
            f"{self.samples_per_second:,.0f} samples/s",
            f"{self.samples:,} samples in {_duration(self.elapsed_seconds)}",
        ]
        if self.prefetch_batches:
            ready = f"{self.batches_ready:.1f} of {self.prefetch_batches} batches ready"
            parts.insert(2, ready)
        if self.first_batch_seconds:  # not in an interval that began later
            parts.insert(1, f"first batch {_duration(self.first_batch_seconds)}")
        parts += lost
        starved = self.data_wait_fraction >= BANDS[0][0] and not self.switch_interval_shortened
        # Where the loop prepares the batches, the workers have measured nothing of late.
        by_workers = self.prepared_here * 2 < self.batches
        if starved and by_workers and self.gil_delay_seconds > HELD_SECONDS:
            parts.append(
                "the training loop, or what makes samples beside it, holds the GIL, for which "
                f'workers wait {_duration(self.gil_delay_seconds)}: try "switch_interval": "auto", '
                "or samples that cost less Python"
            )
        if self.prepared_here:
            parts.append(f"{self.prepared_here:,} batches prepared without the workers: faster")
        asked = self.cache_hits + self.cache_misses
        if asked:
            parts.append(f"{self.cache_hits / asked:.1%} from the cache")
        if self.not_pinned:
            parts.append(f"not pinned: {self.not_pinned}")
        if self.fingerprint:
            parts.append(f"fingerprint {self.fingerprint}")
        return " | ".join(parts)


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
