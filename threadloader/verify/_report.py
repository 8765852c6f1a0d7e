"""What was found: `Report`, its first `Difference`, and each `Cause`; as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from .._messages import counted, line
from ._plan import Run

__all__ = ["FORMAT", "Cause", "Difference", "Failure", "Report"]

FORMAT = 1
"""Version of the JSON; it changes when a name goes or changes its meaning, not when one comes."""

WIDTH = 100
SHOWN = 5
"""How many rows, indices, fields and failures are named; then how many more there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first batch of a run that is not that of the run without workers.

    Attributes:
        run: the run.
        kind: "content"; "order" (other dataset indices or padding); "error" (raised in one of
            the two, or in another way); "steps" (one has more batches); "run" (it could not be
            made).
        epoch: of the batch; None where `kind` is "run".
        step: its number in the epoch; None likewise.
        rows: its rows that differ, if that is known.
        indices: their dataset indices.
        fields: the fields that differ, if that is known.
        what: what was expected and what came.
    """

    run: str
    kind: str
    what: str
    epoch: int | None = None
    step: int | None = None
    rows: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The place in words."""
        if self.epoch is None:
            return "the whole run"
        parts = [f"epoch {self.epoch}, step {self.step}"]
        if self.rows:
            indices = _listed("dataset index", "dataset indices", self.indices)
            parts.append(f"{_listed('row', 'rows', self.rows)} ({indices})")
        named = [name for name in self.fields if name != "batch"]  # that is all of it
        return ", ".join([*parts, *_some(named)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What makes batches differ, or could.

    Attributes:
        part: "source", "transform", "collate", "sampler"; "" where it takes several of them, or
            where it is not known.
        kind: "global-random", "own-state", "clock", "not-repeatable", "reused-buffer",
            "in-place", "files-changed", "reopened", "other-thread", "not-thread-safe",
            "other-process" or "unknown".
        says: what it is, in a sentence.
        evidence: what was tried, and what came of it.
        advice: what to do.
    """

    part: str
    kind: str
    says: str
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A batch that cannot be made, in every run alike: its place and what was raised."""

    epoch: int
    step: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `run` found. `str` of it is for people.

    Attributes:
        config: the config as it was named; "" if it is not a file.
        epochs: epochs of each run.
        steps: batches of an epoch that were compared.
        of_epoch: batches that an epoch has.
        batches: batches of the first run.
        samples: samples in them.
        seconds: how long it all took.
        fingerprint: the running fingerprint of the first run.
        runs: every run that was compared, and whether it was the same.
        not_compared: what was left out, in words.
        difference: the first one, if there is any.
        causes: of the difference; without one, faults that experiments have shown and that no
            run could, since every run has them.
        dangers: what made no difference here and may make one.
        failures: batches that cannot be made.
    """

    config: str
    epochs: int
    steps: int
    of_epoch: int
    batches: int
    samples: int
    seconds: float
    fingerprint: str
    runs: tuple[tuple[Run, bool], ...]
    not_compared: tuple[str, ...] = ()
    difference: Difference | None = None
    causes: tuple[Cause, ...] = ()
    dangers: tuple[Cause, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def result(self) -> str:
        """In a word: "same", "differs", "errors" or "unsafe"."""
        if self.difference is not None:
            return "differs"
        if self.failures:
            return "errors"
        return "unsafe" if self.causes else "same"

    def as_dict(self) -> dict[str, Any]:
        """The report as plain JSON values; docs/verify.md explains them."""
        plain = {it.name: getattr(self, it.name) for it in fields(self)}
        plain["difference"] = None if self.difference is None else asdict(self.difference)
        for name in ("causes", "dangers", "failures"):
            plain[name] = [asdict(it) for it in plain[name]]
        plain["not_compared"] = list(self.not_compared)
        plain["runs"] = [
            {
                "run": str(run),
                "num_workers": [leg.workers for leg in run.legs],
                "prefetch_batches": [leg.depth for leg in run.legs],
                "same": same,
            }
            for run, same in self.runs
        ]
        return {"format": FORMAT, "result": self.result, **plain}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        config = line(self.config) or "the config"
        batches = counted(self.batches, "batch", "batches")
        samples = counted(self.samples, "sample")
        amount = f"{batches} of {counted(self.epochs, 'epoch')}, {samples}"
        amount += f", in {len(self.runs) + 1} runs, {self.seconds:.1f} s"
        failed = counted(len(self.failures), "batch", "batches")
        summary = {
            "same": f"OK: the same {amount}; fingerprint {self.fingerprint}",
            "unsafe": f"UNSAFE: the same {amount}, and yet there is a fault",
            "errors": f"ERRORS: {amount}: {failed} cannot be made, in every run alike",
            "differs": f"DIFFERS from num_workers 0: {self.difference and self.difference.run}",
        }
        yield f"{config}: {summary[self.result]}"
        if self.difference is not None:
            yield from _paragraph("first difference", self.difference.where)
            yield from _paragraph("what differs", self.difference.what)
            yield from _paragraph("compared", amount)
            for run, same in self.runs:
                yield from _paragraph("same" if same else "differs", str(run))
        for failure in self.failures[:SHOWN]:
            yield from _paragraph(f"epoch {failure.epoch}, step {failure.step}", failure.error)
        if len(self.failures) > SHOWN:
            yield f"  ... and {len(self.failures) - SHOWN:,} more"
        for cause in self.causes:
            yield from _explained("fault" if self.difference is None else "cause", cause)
        for cause in self.dangers:
            yield from _explained("a danger", cause)
        for left in self.not_compared:
            yield from _paragraph("not compared", left)


def _explained(name: str, cause: Cause) -> Iterator[str]:
    yield from _paragraph(name, cause.says)
    for evidence in cause.evidence:
        yield from _paragraph("shown by", evidence)
    yield from _paragraph("what to do", cause.advice)


def _paragraph(name: str, text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        f"{name}: {text}",
        WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _listed(one: str, many: str, numbers: tuple[int, ...]) -> str:
    return f"{one if len(numbers) == 1 else many} {', '.join(_some(numbers))}"


def _some(things: Any) -> list[str]:
    """Give the first ones, and how many more there are."""
    shown = [str(it) for it in things[:SHOWN]]
    return [*shown, f"and {len(things) - SHOWN:,} more"] if len(things) > SHOWN else shown
