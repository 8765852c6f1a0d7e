"""How the global order is dealt: to the shards, and in steps."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ._shuffle import Indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BLOCK", "Deal", "EpochOrder", "Row", "Share"]

BLOCK = 32768
"""Positions computed together: enough to spread numpy's cost of a call (docs/design.md)."""

FIRST = 2048
"""Positions computed first where a batch waits for them: 0.2 ms, and `BLOCK` takes 0.7 or more."""


class EpochOrder(Protocol):
    """The global order of one epoch, of n positions."""

    n: int

    def at(self, positions: Indices, /) -> Indices:
        """Give the dataset indices at some positions in [0, n), any shape; a new array."""
        ...

    def find(self, index: int, /) -> Indices:
        """Give the positions at which a sample comes, ascending, shape (times,)."""
        ...


class Share(NamedTuple):
    """What one shard gets in one step, each of shape (rows,).

    Attributes:
        indices: int64, the dataset index of each row.
        positions: int64, the position of each row in the global order.
        valid: bool, False where the row is padding.
    """

    indices: Indices
    positions: Indices
    valid: "NDArray[np.bool_]"


class Row(NamedTuple):
    """Where a position of the global order comes out.

    Attributes:
        step: the step of the epoch.
        shard: index of the shard.
        row: row of its batch.
        valid: False where it comes as padding.
    """

    step: int
    shard: int
    row: int
    valid: bool


class Deal(NamedTuple):
    """How the global order is dealt to the shards.

    Step t of the world takes batch_size * shard_count positions, a slice for each
    shard in turn. The tail that is too short for that is left out (`drop_last`), or
    dealt by `remainder`: "pad" cuts it into equal parts, the missing positions taken
    from the start of the order; "drop" cuts it into equal parts and leaves out what is
    over; "keep" gives earlier shards one more and adds and loses nothing.

    What a run asks for takes `start`, the position where dealing begins: 0, or where a run
    was cut. What remains from there on is dealt as if it were the whole, but padding still
    comes from the start of the epoch's order.

    Attributes:
        batch_size: rows of a batch, on each shard; at least 1.
        shard_index: which shard this is, from 0.
        shard_count: how many there are.
        remainder: "pad", "drop" or "keep".
        drop_last: whether the tail is left out.
    """

    batch_size: int = 32
    shard_index: int = 0
    shard_count: int = 1
    remainder: str = "pad"
    drop_last: bool = False

    @property
    def global_batch(self) -> int:
        """Positions that the world takes in a step."""
        return self.batch_size * self.shard_count

    def _tail(self, n: int, start: int) -> tuple[int, int, int, int]:
        """Give this shard's part of the tail.

        Returns:
            First and last position (exclusive) of the part, of which those from n on are
            padding; the size of the largest part of any shard; the tail's own start.
        """
        remaining = n - start
        begin = start + remaining - remaining % self.global_batch
        tail = n - begin
        if self.drop_last:
            tail = 0
        r, count = self.shard_index, self.shard_count
        if self.remainder == "keep":
            size, extra = divmod(tail, count)
            first = begin + r * size + min(r, extra)
            return first, first + size + (r < extra), size + (extra > 0), begin
        size = -(-tail // count) if self.remainder == "pad" else tail // count
        return begin + r * size, begin + (r + 1) * size, size, begin

    def steps(self, n: int, start: int = 0) -> int:
        """Count the steps of this shard from `start` to the end of an epoch of n."""
        first, last, _, begin = self._tail(n, start)
        return (begin - start) // self.global_batch + (last > first)

    def world_steps(self, n: int, start: int = 0) -> int:
        """Count the steps of the shard that has most: after them the epoch is over for all."""
        _, _, largest, begin = self._tail(n, start)
        return (begin - start) // self.global_batch + (largest > 0)

    def dealt(self, n: int) -> int:
        """Count the positions of an epoch of n that the shards are given; padding does not count.

        >>> Deal(batch_size=2, shard_count=2, remainder="drop").dealt(7)
        6
        """
        _, end, _, _ = self._replace(shard_index=self.shard_count - 1)._tail(n, 0)
        return min(end, n)

    def blocks(
        self, order: EpochOrder, start: int = 0, *, soon: bool = False
    ) -> Iterator[tuple[Indices, Indices]]:
        """Give this shard's part of the full steps, from `start` on, many steps together.

        Args:
            order: the epoch's global order.
            start: where dealing began.
            soon: whether somebody waits for the first of them.

        Returns:
            Dataset indices and positions, each int64 of shape (steps, batch_size), read-only.
        """
        size, step = self.batch_size, self.global_batch
        _, _, _, begin = self._tail(order.n, start)
        mine = start + self.shard_index * size
        row: Indices | None = None
        at, together = 0, max(1, (FIRST if soon else BLOCK) // size)
        while at < begin - start:
            if row is None:  # not before: a batch may be far larger than the epoch
                row = np.arange(size, dtype=np.int64)
            end = min(at + together * step, begin - start)
            positions = np.arange(at + mine, end + mine, step)[:, np.newaxis] + row
            yield _frozen(order.at(positions)), _frozen(positions)
            at, together = end, max(1, BLOCK // size)

    def tail(self, order: EpochOrder, start: int = 0) -> Share | None:
        """Give this shard's part of the tail; None when it has none."""
        first, last, _, _ = self._tail(order.n, start)
        return _share(order, first, last) if last > first else None

    def share(self, order: EpochOrder, step: int) -> Share | None:
        """Give this shard's part of one step of an epoch alone; None when it has no such step."""
        first, last, _, begin = self._tail(order.n, 0)
        full = begin // self.global_batch
        if 0 <= step < full:
            first = step * self.global_batch + self.shard_index * self.batch_size
            return _share(order, first, first + self.batch_size)
        return _share(order, first, last) if step == full and last > first else None

    def rows(self, n: int, position: int) -> Iterator[Row]:
        """Give every row in which a position comes out, on any shard, the real one first.

        A position that is left out has no row.

        >>> list(Deal(batch_size=2, shard_count=2).rows(5, 0))
        [Row(step=0, shard=0, row=0, valid=True), Row(step=1, shard=1, row=0, valid=False)]
        """
        _, end, _, begin = self._replace(shard_index=self.shard_count - 1)._tail(n, 0)
        if position < begin:
            step, row = divmod(position, self.global_batch)
            yield Row(step, *divmod(row, self.batch_size), True)
        step = begin // self.global_batch
        # The parts of the tail are as equal as they can be, larger ones first.
        size, larger = divmod(end - begin, self.shard_count)
        edge = larger * (size + 1)
        here = [position] if begin <= position < end else []
        padding = range(n + position, end, n) if end > n else ()
        for place in itertools.chain(here, padding):
            row = place - begin
            if row < edge:
                yield Row(step, *divmod(row, size + 1), place < n)
            else:
                shard, row = divmod(row - edge, size)
                yield Row(step, larger + shard, row, place < n)


def _share(order: EpochOrder, first: int, last: int) -> Share:
    """Give the rows of some positions, of which those from n on are padding."""
    positions = np.arange(first, last, dtype=np.int64)
    valid = _frozen(positions < order.n)
    if last > order.n:
        positions = np.where(valid, positions, (positions - order.n) % order.n)
    positions = _frozen(positions)
    return Share(_frozen(order.at(positions)), positions, valid)


def _frozen(array: "NDArray[Any]") -> Any:
    """Make an array read-only: it is shared by batches and handed to users."""
    array.flags.writeable = False
    return array
