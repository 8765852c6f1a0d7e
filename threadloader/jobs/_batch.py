"""One batch as a job: its samples are read, transformed, collated."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import from_signal, name_of
from ._recipe import Recipe, Span, samples_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._failure import Failure
    from ._info import BatchInfo

__all__ = ["BatchJob"]

_RANGE_ITERATOR = type(iter(range(0)))
"""Type of the parts that `BatchJob.run` is given without workers: all rows, one after the other."""


class BatchJob:
    """One batch as a job of the engine. A part is a row, or all of them at once.

    Args:
        recipe: how it is made.
        span: where it lies.
        indices: int64, shape (rows,), the rows' dataset indices.
        positions: int64, shape (rows,), the rows' positions in the global order.
        valid: bool, shape (rows,), False where a row is padding.
        real: how many rows are not padding.
        key: the epoch's key for transforms.

    Attributes:
        span: where it lies.
        at: the row that a worker is at, where one worker does all rows one by one; else None.
        parts: how many there are: a row each, or one for all.
        digests: the fingerprint of the batch's content, once it is made, if that is wanted.
        size: bytes of the batch, once it is made, if they count.
    """

    failures: tuple[Failure, ...] = ()
    strict = True  # whether a sample that fails is raised in any case

    __slots__ = (
        "_each",
        "_index_of",
        "_indices",
        "_into",
        "_key",
        "_place_of",
        "_position_of",
        "_positions",
        "_real",
        "_recipe",
        "_samples",
        "_valid",
        "at",
        "digests",
        "parts",
        "size",
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
        # Written by the worker that finishes, before the fill.
        self.digests: list[bytes] = []
        self.size = 0
        self._recipe = recipe
        self._indices = indices
        self._valid = valid
        self._real = real
        self._positions = positions
        each = self._each = recipe.each
        # By row, as Python integers: a source need not know numpy's. Made here, in the feeder.
        self._index_of: list[int] = [] if recipe.whole == "take" else indices.tolist()
        self._position_of: list[int] = [] if each is None else positions.tolist()
        self._key = key
        self.parts = 1 if recipe.whole else len(indices)
        self.at: int | None = None
        # Each row is written by the one worker that claimed it and read after all are done.
        self._samples: Any = [None] * len(indices)
        # Where rows that failed stand, as the source says.
        self._place_of: dict[int, str | None] = {}
        # The batch memory that large arrays are written to; shared as the samples are.
        self._into: Any = None if recipe.rows is None else recipe.rows(len(indices))

    def info(self, number: int = 0) -> BatchInfo:
        """Say what the batch is."""
        from ._info import BatchInfo

        return BatchInfo(self.span.epoch, self.span.step, self._indices, self._valid)

    def samples(self, count: int) -> int:
        """Count the rows that are not padding; `count` is 1, as there is one batch."""
        return self._real

    @property
    def light(self) -> bool:
        """Whether another thread than a worker may finish it."""
        return self._recipe.light

    @property
    def retried(self) -> int:
        """How often a sample was tried again: never."""
        return 0

    def run(self, parts: Iterator[int]) -> None:
        """Read the samples of some rows, and transform them unless that is done together."""
        source, transform = self._recipe.source, self._each
        if self._samples is None:  # without workers, a Ctrl-C after the finish runs it again
            self._samples = [None] * len(self._indices)
        if self._recipe.whole:
            for _ in parts:
                self._samples = self._read_whole()
            return
        samples, index_of, into = self._samples, self._index_of, self._into
        if into is not None:
            for row in parts:
                sample = source[index_of[row]]
                if transform is not None:
                    sample = transform(sample, self._key, self._position_of[row])
                samples[row] = into.put(row, sample)
        elif transform is None and type(parts) is _RANGE_ITERATOR:
            remaining = iter(index_of)
            try:
                self._samples = [source[index] for index in remaining]
            except BaseException:
                # Draw the parts up to the failed one, so that the caller sees which it was.
                for _ in range(len(index_of) - length_hint(remaining)):
                    next(parts)
                raise
        elif transform is None:
            for row in parts:
                samples[row] = source[index_of[row]]
        else:
            position_of, key = self._position_of, self._key
            for row in parts:
                samples[row] = transform(source[index_of[row]], key, position_of[row])

    def _read_whole(self) -> Any:
        transform = self._each
        self.at = None  # a run that a Ctrl-C cut short may have left a row here
        if self._recipe.whole == "take":
            return self._recipe.take(self._indices)  # type: ignore[misc]  # there with "take"
        # A copy, which the source may sort or use up.
        samples = samples_of(self._recipe.source, self._index_of.copy())
        if transform is None:
            return samples
        return one_by_one(self._recipe, samples, self._key, self._positions, self)

    def finish(self) -> list[Any]:
        """Collate the samples into the batch, and pin it where that is asked for.

        Returns:
            The batch, alone.
        """
        samples, self._samples = self._samples, None
        return [self._made_of(samples)]

    def _made_of(self, batch: Any) -> Any:
        """Give the batch of the samples that were read, or of what `take` gave."""
        if self._into is not None:
            # It has the batch's memory, and is used once: if the job is run again, without it.
            into, self._into = self._into, None
            batch = into.stack(batch)
        elif self._recipe.whole != "take":
            batch = collated(self._recipe, batch, self._key, self._positions, self)
        batch, digest = self._recipe.finished(batch)
        self.digests = [] if digest is None else [digest]
        if self._recipe.measure is not None:
            self.size = self._recipe.measure(batch)
        return batch

    def failed(self, part: int | None) -> None:
        """Have the source say where the row stands that has just failed, in the same thread.

        A source may wait for a lock meanwhile, or do anything else that its reads do: so neither
        the consumer nor a thread that reports on a hanging read may ask it.
        """
        row = self.row_of(part)
        if row is not None:
            self._place_of[row] = self._locate(int(self._indices[row]))

    def describe(self, part: int | None) -> str:
        """Say which sample a part is; None: the whole batch, or the row that it is at."""
        where = f"step {self.span.step}, epoch {self.span.epoch}"
        row = self.row_of(part)
        if row is None:
            named = ", ".join(map(str, self._indices[:8]))
            more = ", ..." if len(self._indices) > 8 else ""
            return f"the batch of {where} (samples {named}{more})"
        index = int(self._indices[row])
        text = f"sample {index} (row {row} of {where})"
        place = self._place_of.get(row)
        if place is None and self._recipe.locate is not None:
            place = self._recipe.locate(index)
        return text if place is None else f"{text}, {place}"

    def row_of(self, part: int | None) -> int | None:
        """Give the row that a part is, or that a part of the whole batch has got to.

        None where the rows are done, or all read at once: what fails there is the batch's.
        """
        return self.at if self._recipe.whole or part is None else part

    def _locate(self, index: int) -> str | None:
        """Say where a sample stands, if its source can."""
        try:
            locate = getattr(self._recipe.source, "locate", None)
            return None if locate is None or (place := locate(index)) is None else str(place)
        except BaseException as error:  # it must not hide what it describes
            if from_signal(error):
                raise
            return f"(its place could not be told: {name_of(type(error))})"


def collated(
    recipe: Recipe, samples: list[Any], key: int, positions: NDArray[np.int64], job: Any
) -> Any:
    """Give the batch of samples that were read, and transformed unless that is done together.

    `recipe`, `key` and `positions` are as of a `BatchJob`; `job` says by `at` which row it is at.
    """
    job.at = None  # the rows are done: what fails now is the whole batch's
    if recipe.together is None:
        return recipe.collate(samples)
    failure = None
    try:
        try:
            return recipe.together(samples, key, positions)
        except BaseException as error:  # noqa: BLE001 (raised below)
            failure = error
        if not from_signal(failure):  # else no row is to blame
            one_by_one(recipe, samples, key, positions, job)  # raises what the lowest row does
        raise failure
    finally:
        del failure  # its traceback leads to this frame


def one_by_one(
    recipe: Recipe, samples: list[Any], key: int, positions: NDArray[np.int64], job: Any
) -> list[Any]:
    """Give the transformed samples of all rows; as `collated`."""
    made: list[Any] = []
    for row, position in enumerate(positions.tolist()):
        job.at = row
        made.append(recipe.transform(samples[row], key, position))  # type: ignore[misc]  # not None
    job.at = None
    return made
