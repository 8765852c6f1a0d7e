"""Several batches as one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np

from ._batch import BatchJob, collated
from ._cut import cut
from ._recipe import Recipe, Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._failure import Failure
    from ._info import BatchInfo

__all__ = ["GroupJob", "SeriesJob"]


class _Several:
    """What jobs of several batches have in common.

    Args:
        recipe: how they are made.
        span: where they lie.
        indices: int64, shape (batches, rows).
        valid: bool, shape (rows,), all True: padding is in a tail, which is a `BatchJob`.

    Attributes:
        span: where they lie.
        digests: the fingerprints of the batches' content, once they are made, if that is wanted.
        size: bytes of the batches that were made first, once they are made, if they count; of a
            series 0.
    """

    light = False
    failures: tuple[Failure, ...] = ()
    retried = 0

    __slots__ = ("_indices", "_recipe", "_valid", "digests", "size", "span")

    def __init__(
        self, recipe: Recipe, span: Span, indices: NDArray[np.int64], valid: NDArray[np.bool_]
    ) -> None:
        self.span = span
        self.digests: list[bytes] = []
        self.size = 0
        self._recipe = recipe
        self._indices = indices
        self._valid = valid

    def info(self, number: int) -> BatchInfo:
        """Say what one of the batches is."""
        from ._info import BatchInfo

        span = self.span
        return BatchInfo(span.epoch, span.step + number, self._indices[number], self._valid)

    def samples(self, count: int) -> int:
        """Count the rows of the first `count` batches."""
        return count * len(self._valid)


class GroupJob(_Several):
    """Several small batches of a source that builds whole ones: gathered together, then cut.

    Handing a small batch from thread to thread costs more than gathering it. Batches gathered by
    one call are views of one memory, each of its own rows. In a worker each call is a part. Where
    nothing is handed on, only the first batches are made as the job's result, and the others by
    `more`, when they are asked for. A group that fails is made anew, batch by batch.

    Args:
        recipe, span, indices, valid: as of `_Several`.
        piece: how many batches the consumer has gathered by one call; 0: a worker makes them all.

    Attributes:
        parts: how many calls make the job's result.
        piece: how many batches the result has.
        plain: True: `more` does all that is done to a batch; in a `SeriesJob` that may differ.
    """

    plain = True

    __slots__ = ("_at_once", "_made", "_make_batches", "_per_call", "parts", "piece")

    def __init__(
        self,
        recipe: Recipe,
        span: Span,
        indices: NDArray[np.int64],
        valid: NDArray[np.bool_],
        piece: int = 0,
    ) -> None:
        super().__init__(recipe, span, indices, valid)
        self._at_once = piece == 0
        self._per_call = piece or recipe.gather
        self.piece = min(piece or span.size, span.size)
        self.parts = -(-self.piece // self._per_call)
        self._make_batches: Callable[[int, int], list[Any]] | None = None
        # The batches of each part; written by the worker that has claimed the part.
        self._made: list[list[Any]] = [[]] * self.parts

    def run(self, parts: Iterator[int]) -> None:
        """Gather the rows of the batches that are the job's result."""
        for part in parts:
            if self._at_once:
                rows = self._indices[self._rows(part)]
                self._made[part] = self._gathering(rows, self._recipe.empty)(0, len(rows))
            else:  # in the consumer's thread, which comes back for the others
                self._make_batches = self._gathering(self._indices, self._recipe.piece_empty)
                self._made[part] = self._make_batches(0, self.piece)

    def _rows(self, part: int) -> slice:
        """Say which batches a part has."""
        first = part * self._per_call
        return slice(first, min(first + self._per_call, self.span.size))

    def _gathering(
        self, indices: NDArray[np.int64], empty: Callable[..., Any]
    ) -> Callable[[int, int], list[Any]]:
        """Give a function that makes batches of these rows, from one number to before another."""
        recipe = self._recipe
        if recipe.take_batches is None:
            return partial(_taken, recipe.take, indices)
        return recipe.take_batches(indices, empty)

    def more(self, first: int) -> list[Any]:
        """Give the next batches that are made together, from number `first` on."""
        last = min(first + self.piece, self.span.size)
        return self._make_batches(first, last)  # type: ignore[misc]  # `run` came before

    def finish(self) -> list[Any]:
        """Give the batches that were made first as they are delivered."""
        batches = [batch for made in self._made for batch in made]
        # Empty again: after a Ctrl-C behind these lines the consumer has the job run anew.
        self._made = [[]] * self.parts
        if self._recipe.measure is not None:
            self.size = self._recipe.measure(batches)
        if self._recipe.digest is None and self._recipe.pin is None:
            return batches
        finished = [self._recipe.finished(batch) for batch in batches]
        self.digests = [digest for _, digest in finished if digest is not None]
        return [batch for batch, _ in finished]

    def failed(self, part: int | None) -> None:
        """Do nothing: what fails is made anew, batch by batch."""

    def describe(self, part: int | None) -> str:
        """Say which batches a part has; None: the job."""
        first = self.span.step
        steps = range(first, first + self.span.size)
        if part is not None:
            steps = steps[self._rows(part)]
        return f"the batches of steps {steps[0]} to {steps[-1]}, epoch {self.span.epoch}"


class SeriesJob(_Several):
    """Batches that are made one by one, each when it is asked for: without workers.

    What the run writes down after a job costs more than making a small batch, so it is done once
    for all of these. What the engine runs is the first batch. The consumer makes the others beside
    it, by `more` or as jobs; one that fails has its own error, as if there were no series.

    Args:
        recipe: how they are made; nothing is left out of a batch, and none has a fingerprint.
        span, indices, valid: as of `_Several`.
        positions: int64, of the shape of the indices, in the global order.
        key: the epoch's key for transforms.

    Attributes:
        first: the job of the first one.
        parts: how many parts that has.
        part: the row that could not be read, or transformed as it was read, in `more`; or None.
        at: the row whose transform failed, after all were read, or None.
    """

    __slots__ = ("_bare", "_key", "_positions", "at", "first", "part", "parts")

    def __init__(
        self,
        recipe: Recipe,
        span: Span,
        indices: NDArray[np.int64],
        positions: NDArray[np.int64],
        valid: NDArray[np.bool_],
        key: int,
    ) -> None:
        super().__init__(recipe, span, indices, valid)
        self._positions = positions
        self._key = key
        self.first = self.single(0)
        self.parts = self.first.parts
        self.part: int | None = None
        self.at: int | None = None
        self._bare = recipe.whole != "getitems" and recipe.pin is None

    @property
    def plain(self) -> bool:
        """Whether `more` does all that is done to a batch."""
        rows = self._recipe.rows
        # `rows` gives None once samples have turned out to be small, which the first batch shows.
        return self._bare and (rows is None or rows(0) is None)

    def single(self, number: int) -> BatchJob:
        """Give the job of one of the batches, with the span of all of them.

        A span of its own would cost half as much as all else in the job, and only errors need one.
        """
        rows, valid = (self._indices[number], self._positions[number]), self._valid
        return BatchJob(self._recipe, self.span, *rows, valid, len(valid), self._key)

    def more(self, number: int) -> list[Any]:
        """Give one of the batches, as a job of its own would: only an error needs such a job."""
        recipe, indices = self._recipe, self._indices[number]
        if recipe.whole:
            return [recipe.take(indices)]  # type: ignore[misc]  # it is there
        # `part` is None again: a signal handler may have raised at a row, in a call before this.
        source, each, self.part = recipe.source, recipe.each, None
        remaining, positions = iter(indices.tolist()), self._positions[number]
        try:
            if each is None:
                samples = [source[index] for index in remaining]
            else:
                # The index is drawn before the position: what remains tells where it was.
                key, placed = self._key, zip(remaining, positions.tolist(), strict=True)
                samples = [each(source[index], key, position) for index, position in placed]
        except BaseException:
            drawn = len(indices) - length_hint(remaining)
            self.part = drawn - 1 if drawn else None
            raise
        return [collated(recipe, samples, self._key, positions, self)]

    def rest(self, first: int) -> SeriesJob | None:
        """Give the batches from number `first` on as a job; None where there are none."""
        if first == self.span.size:
            return None
        rows = self._indices[first:], self._positions[first:]
        return SeriesJob(self._recipe, self.span.rest(first), *rows, self._valid, self._key)

    def run(self, parts: Iterator[int]) -> None:
        """Read the samples of the first batch."""
        self.first.run(parts)

    def finish(self) -> list[Any]:
        """Give the first batch."""
        return self.first.finish()

    def failed(self, part: int | None) -> None:
        """Have the source say where a row of the first batch stands."""
        self.first.failed(part)

    def describe(self, part: int | None) -> str:
        """Say which sample of the first batch a part is."""
        return self.first.describe(part)


def _taken(take: Any, indices: NDArray[np.int64], first: int, last: int) -> list[Any]:
    """Take the batches from number `first` to before `last` by one call, and cut them apart."""
    rows = indices[first:last]
    return cut(take(rows.reshape(-1)), *rows.shape)
