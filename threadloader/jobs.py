"""What is done for a batch, or for several small ones: samples are read, transformed, collated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import length_hint
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import CollateError

__all__ = ["BatchInfo", "BatchJob", "GroupJob", "NoBatch", "Recipe", "Span"]


_ALL = type(iter(range(0)))
"""What `BatchJob.run` is given where there are no workers: all rows, one after the other."""


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays do not compare to one bool
class BatchInfo:
    """What one batch is.

    Attributes:
        epoch: number of its epoch, from 0.
        step: its number in the epoch, from 0.
        indices: int64, shape (rows,), read-only: the dataset index of each row.
        valid: bool, shape (rows,), read-only: False where a row is padding, which repeats
            a sample so that every shard makes the same number of steps.
        skipped: dataset indices left out because they failed.
        fingerprint: that of the content of all batches that this shard was given, up to
            this one; "" unless the config asks for it.
    """

    epoch: int
    step: int
    indices: NDArray[np.int64]
    valid: NDArray[np.bool_]
    skipped: tuple[int, ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a batch is made, the same for every batch of a run.

    Attributes:
        source: where samples come from.
        transform: (sample, key of the epoch, position) -> sample, or None.
        collate: samples -> batch.
        pin: batch -> batch in page-locked memory, or None.
        take: indices -> batch, where the source builds whole batches.
        whole: "take" when it does, "getitems" when it reads all of a
            batch's samples at once, "" when it is read sample by sample.
        digest: batch -> fingerprint of its content, or None.
        group: how many batches a job makes at most; more than 1 only with "take".
        rows: count of rows -> what samples are written into as they come, or None; as
            `collate.RowsMaker.rows`. Only where collate stacks.
        free: lets go of memory that waits to be used again.
        threads_only: whether the consumer's thread must not prepare batches where there are
            workers.
    """

    source: Any
    transform: Callable[[Any, int, int], Any] | None
    collate: Callable[[list[Any]], Any]
    pin: Callable[[Any], Any] | None = None
    take: Callable[[NDArray[np.int64]], Any] | None = None
    whole: str = ""
    digest: Callable[[Any], bytes] | None = None
    group: int = 1
    rows: Callable[[int], Any] | None = None
    threads_only: bool = False
    free: Callable[[], None] = lambda: None

    def finished(self, batch: Any) -> tuple[Any, bytes]:
        """Give a collated batch as it is delivered, and the fingerprint of its content."""
        digest = b"" if self.digest is None else self.digest(batch)
        return (batch if self.pin is None else self.pin(batch)), digest


class Span(NamedTuple):
    """Where a job's batches lie in their epoch.

    Attributes:
        epoch: number of the epoch.
        step: number of the first batch.
        size: how many batches there are.
        position: where the world stands before the first.
        stride: positions that the world takes in a step.
        length: positions of the epoch's global order.
        last: whether this shard has no further step in the epoch.
        over: whether no shard has one.
    """

    epoch: int
    step: int
    size: int
    position: int
    stride: int
    length: int
    last: bool
    over: bool

    def after(self, count: int) -> tuple[int, int, int]:
        """Give epoch, position and step at which the run stands behind some of the batches."""
        if self.over and count == self.size:
            return self.epoch + 1, 0, 0
        return self.epoch, self.position + count * self.stride, self.step + count


class NoBatch:
    """Takes the place of the batches of an epoch in which this shard has no step."""

    parts = 1

    def __init__(self, span: Span) -> None:
        self.span = span
        self.digests: list[bytes] = []

    def info(self, number: int) -> BatchInfo:
        """Say what a batch is; there is none.

        Raises:
            IndexError: always.
        """
        raise IndexError(f"expected no question for a batch of {self.describe(None)}, got {number}")

    def samples(self, count: int) -> int:
        """Count the rows: none."""
        return 0

    def run(self, parts: Iterator[int]) -> None:
        """Do nothing."""
        for _ in parts:
            pass

    def finish(self) -> list[Any]:
        """Give no batch."""
        return []

    def describe(self, part: int | None) -> str:
        """Say what it is."""
        return f"epoch {self.span.epoch}, which has no step"


class BatchJob:
    """One batch as a job of the engine. A part is a row, or all of them at once.

    Args:
        recipe: how it is made.
        span: where it lies.
        indices: int64, shape (rows,), the rows' dataset indices.
        positions: int64, shape (rows,), the rows' places in the global order.
        valid: bool, shape (rows,), False where a row is padding.
        real: how many rows are not padding.
        key: the epoch's key for transforms.

    Attributes:
        span: where it lies.
        digests: the fingerprint of the batch's content, once it is made, if that is wanted.
    """

    __slots__ = (
        "_indices",
        "_into",
        "_key",
        "_positions",
        "_real",
        "_recipe",
        "_row",
        "_rows",
        "_samples",
        "_valid",
        "digests",
        "parts",
        "span",
    )

    def __init__(
        self,
        recipe: Recipe,
        span: Span,
        indices: NDArray[np.int64],
        positions: NDArray[np.int64],
        valid: NDArray[np.bool_],
        real: int,
        key: int,
    ) -> None:
        self.span = span
        self.digests: list[bytes] = []  # written by the worker that finishes, before the fill
        self._recipe = recipe
        self._indices = indices
        self._valid = valid
        self._real = real
        # Python integers: a source need not know numpy's. Made here, in the feeder.
        self._rows: list[int] = [] if recipe.whole == "take" else indices.tolist()
        self._positions: list[int] = [] if recipe.transform is None else positions.tolist()
        self._key = key
        self.parts = 1 if recipe.whole else len(indices)
        # Where a batch that is read as a whole has got to with its transforms.
        self._row: int | None = None
        # Each row is written by the one worker that claimed it and read after all are done.
        self._samples: Any = [None] * len(indices)
        # Where large arrays are written to; shared as the samples are.
        self._into: Any = None if recipe.rows is None else recipe.rows(len(indices))

    def info(self, number: int = 0) -> BatchInfo:
        """Say what the batch is."""
        return BatchInfo(self.span.epoch, self.span.step, self._indices, self._valid)

    def samples(self, count: int) -> int:
        """Count the rows of the first `count` batches that are not padding."""
        return self._real if count else 0

    def run(self, parts: Iterator[int]) -> None:
        """Read and transform the samples of some rows."""
        source, transform = self._recipe.source, self._recipe.transform
        if self._samples is None:  # without workers, a Ctrl-C behind the finish runs it again
            self._samples = [None] * len(self._indices)
        if self._recipe.whole:
            for _ in parts:
                self._samples = self._read_whole()
            return
        samples, rows, into = self._samples, self._rows, self._into
        if into is not None:
            for row in parts:
                sample = source[rows[row]]
                if transform is not None:
                    sample = transform(sample, self._key, self._positions[row])
                samples[row] = into.put(row, sample)
        elif transform is None and type(parts) is _ALL:
            here = iter(rows)
            try:
                self._samples = [source[row] for row in here]
            except BaseException:
                # So that whoever gave the parts sees at which of them it was.
                for _ in range(len(rows) - length_hint(here)):
                    next(parts)
                raise
        elif transform is None:
            for row in parts:
                samples[row] = source[rows[row]]
        else:
            positions, key = self._positions, self._key
            for row in parts:
                samples[row] = transform(source[rows[row]], key, positions[row])

    def _read_whole(self) -> Any:
        source, transform = self._recipe.source, self._recipe.transform
        if self._recipe.whole == "take":
            return self._recipe.take(self._indices)  # type: ignore[misc]  # there with "take"
        samples = list(source.__getitems__(self._rows))
        if len(samples) != len(self._rows):
            raise CollateError(
                f"the source's __getitems__: expected {len(self._rows)} samples, got {len(samples)}"
            )
        if transform is None:
            return samples
        for row, position in enumerate(self._positions):
            self._row = row
            samples[row] = transform(samples[row], self._key, position)
        return samples

    def finish(self) -> list[Any]:
        """Collate the samples into the batch, and pin it where that is asked for."""
        batch, self._samples = self._samples, None
        if self._into is not None:
            batch = self._into.stack(batch)
        elif self._recipe.whole != "take":
            batch = self._recipe.collate(batch)
        batch, digest = self._recipe.finished(batch)
        self.digests = [digest]
        return [batch]

    def describe(self, part: int | None) -> str:
        """Say which sample a part is; None: the whole batch."""
        where = f"step {self.span.step}, epoch {self.span.epoch}"
        if self._recipe.whole and part is not None:
            part = self._row
        if part is None:
            named = ", ".join(map(str, self._indices[:8]))
            more = ", ..." if len(self._indices) > 8 else ""
            return f"the batch of {where} (samples {named}{more})"
        index = int(self._indices[part])
        text = f"sample {index} (row {part} of {where})"
        try:
            locate = getattr(self._recipe.source, "locate", None)
            return text if locate is None else f"{text}, {locate(index)}"
        except Exception as error:  # noqa: BLE001 (it must not hide what it describes)
            return f"{text} (its place could not be told: {type(error).__name__})"


class GroupJob:
    """Several small batches of a source that builds whole ones: gathered together, then cut.

    Handing a small batch from thread to thread costs more than gathering it. The batches
    are views of one memory, each of rows of its own.

    Args:
        recipe: how they are made.
        span: where they lie.
        indices: int64, shape (batches, rows).
        valid: bool, shape (rows,), all True: padding is in a tail, which is a `BatchJob`.

    Attributes:
        span: where they lie.
        digests: the fingerprints of the batches' content, once they are made, if wanted.
    """

    parts = 1

    __slots__ = ("_indices", "_made", "_recipe", "_valid", "digests", "span")

    def __init__(
        self, recipe: Recipe, span: Span, indices: NDArray[np.int64], valid: NDArray[np.bool_]
    ) -> None:
        self.span = span
        self.digests: list[bytes] = []
        self._recipe = recipe
        self._indices = indices
        self._valid = valid
        self._made: Any = None

    def info(self, number: int) -> BatchInfo:
        """Say what one of the batches is."""
        span = self.span
        return BatchInfo(span.epoch, span.step + number, self._indices[number], self._valid)

    def samples(self, count: int) -> int:
        """Count the rows of the first `count` batches."""
        return count * len(self._valid)

    def run(self, parts: Iterator[int]) -> None:
        """Gather all rows."""
        for _ in parts:
            take = self._recipe.take
            self._made = take(self._indices.reshape(-1))  # type: ignore[misc]  # as in BatchJob

    def finish(self) -> list[Any]:
        """Cut what was gathered into batches."""
        made, self._made = self._made, None
        batches = _cut(made, *self._indices.shape)
        if self._recipe.digest is None and self._recipe.pin is None:
            return batches
        finished = [self._recipe.finished(batch) for batch in batches]
        self.digests = [digest for _, digest in finished]
        return [batch for batch, _ in finished]

    def describe(self, part: int | None) -> str:
        """Say which batches these are."""
        span = self.span
        return (
            f"the batches of steps {span.step} to {span.step + span.size - 1}, epoch {span.epoch}"
        )


def _cut(made: Any, count: int, rows: int) -> list[Any]:
    """Cut arrays of count * rows rows into count batches, in dicts and tuples field by field."""
    if isinstance(made, dict):
        fields = [_cut(field, count, rows) for field in made.values()]
        return [dict(zip(made, batch, strict=True)) for batch in zip(*fields, strict=True)]
    if isinstance(made, tuple):
        fields = [_cut(field, count, rows) for field in made]
        build = getattr(made, "_make", tuple)
        return [build(batch) for batch in zip(*fields, strict=True)]
    if isinstance(made, np.ndarray):
        return list(made.reshape(count, rows, *made.shape[1:]))
    return [made[first : first + rows] for first in range(0, count * rows, rows)]
