"""Several small batches as one job; and a job in the place of none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._facts import Recipe, Span

if TYPE_CHECKING:
    from ._failure import Failure
    from ._info import BatchInfo

__all__ = ["GroupJob", "NoBatch"]


class NoBatch:
    """Takes the place of the batches of an epoch in which this shard has no step."""

    parts = 1
    size = 0
    failures: tuple[Failure, ...] = ()
    retried = 0

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
        size: bytes of all of them, likewise.
    """

    parts = 1
    # One that fails is made anew, batch by batch: a `BatchJob` can leave samples out.
    failures: tuple[Failure, ...] = ()
    retried = 0

    __slots__ = ("_indices", "_made", "_recipe", "_valid", "digests", "size", "span")

    def __init__(
        self, recipe: Recipe, span: Span, indices: NDArray[np.int64], valid: NDArray[np.bool_]
    ) -> None:
        self.span = span
        self.digests: list[bytes] = []
        self._recipe = recipe
        self._indices = indices
        self._valid = valid
        self._made: Any = None
        self.size = 0

    def info(self, number: int) -> BatchInfo:
        """Say what one of the batches is."""
        from ._info import BatchInfo

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
        if self._recipe.measure is not None:
            self.size = self._recipe.measure(made)
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
