"""Which samples are left when some are excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..order import EpochOrder, Indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Kept", "Listed", "Ranged", "Through", "from_text", "to_text"]


class Kept:
    """The samples that are not excluded; their *ranks* count them in the order of the source.

    Args:
        n: samples of the source.
        excluded: int64, ascending, without repetition, each in [0, n).

    Attributes:
        count: how many are left.
        all: whether that is every one.

    >>> Kept(5, np.array([1, 2])).indices(np.arange(3))
    array([0, 3, 4])
    """

    def __init__(self, n: int, excluded: Indices) -> None:
        self.count = n - len(excluded)
        self.all = len(excluded) == 0
        self._n = n
        self._excluded = excluded
        # How many are kept before each excluded one.
        self._before = excluded - np.arange(len(excluded))

    def indices(self, ranks: Indices) -> Indices:
        """Give the dataset indices of some ranks in [0, count)."""
        if self.all:
            return ranks
        return ranks + np.searchsorted(self._before, ranks, side="right")

    def rank(self, index: int) -> int | None:
        """Give the rank of a sample; None when it is excluded."""
        before = int(np.searchsorted(self._excluded, index))
        gone = before < len(self._excluded) and int(self._excluded[before]) == index
        return None if gone else index - before

    def among(self, indices: Indices) -> Indices:
        """Give those of some dataset indices, shape (m,), that are kept; if all are, the same.

        >>> Kept(4, np.array([2])).among(np.array([3, 2, 0]))
        array([3, 0])
        """
        if self.all:  # as mostly: a list for each epoch may be as long as the source
            return indices
        places = np.minimum(np.searchsorted(self._excluded, indices), len(self._excluded) - 1)
        left: Indices = indices[self._excluded[places] != indices]
        return left

    def everything(self) -> NDArray[np.bool_]:
        """Say of each sample of the source, shape (n,), whether it is kept.

        >>> Kept(3, np.array([1])).everything()
        array([ True, False,  True])
        """
        kept = np.ones(self._n, np.bool_)
        kept[self._excluded] = False
        return kept

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give the kept samples' values, from an array of all samples'; if all are kept, that."""
        return values if self.all else values[self.everything()]

    def gone_from(self, indices: range) -> Indices:
        """Give the places in a range of dataset indices whose index is excluded, ascending.

        >>> Kept(9, np.array([2, 3, 8])).gone_from(range(8, 0, -2))
        array([0, 3])
        """
        places, rests = np.divmod(self._excluded - indices.start, indices.step)
        return np.sort(places[(rests == 0) & (places >= 0) & (places < len(indices))])


class Through:
    """An order of ranks, as an order of dataset indices."""

    def __init__(self, order: EpochOrder, kept: Kept) -> None:
        self.n = order.n
        self._order = order
        self._kept = kept

    def at(self, positions: Indices) -> Indices:
        """Give the dataset indices at some positions."""
        return self._kept.indices(self._order.at(positions))

    def find(self, index: int) -> Indices:
        """Give the positions at which a sample comes."""
        rank = self._kept.rank(index)
        return np.empty(0, np.int64) if rank is None else self._order.find(rank)


class Listed:
    """A list of dataset indices as an order, perhaps permuted by another one."""

    def __init__(self, indices: Indices, order: EpochOrder | None = None) -> None:
        self.n = len(indices)
        self._indices = indices
        self._order = order

    def at(self, positions: Indices) -> Indices:
        """Give the dataset indices at some positions."""
        return self._indices[positions if self._order is None else self._order.at(positions)]

    def find(self, index: int) -> Indices:
        """Give the positions at which a sample comes."""
        return np.flatnonzero(self.at(np.arange(self.n)) == index).astype(np.int64, copy=False)


class Ranged:
    """A range of dataset indices, without those that are excluded, as an order that lists none."""

    def __init__(self, indices: range, kept: Kept) -> None:
        # A `Kept` of places in the range, where others are of samples of the source.
        self._left = Kept(len(indices), kept.gone_from(indices))
        self.n = self._left.count
        self._indices = indices

    def at(self, positions: Indices) -> Indices:
        """Give the dataset indices at some positions."""
        return self._indices.start + self._indices.step * self._left.indices(positions)

    def find(self, index: int) -> Indices:
        """Give the positions at which a sample comes: one, or none."""
        there = index in self._indices
        rank = self._left.rank(self._indices.index(index)) if there else None
        return np.array([] if rank is None else [rank], np.int64)


def to_text(indices: Indices) -> str:
    """Write ascending indices as numbers and ranges.

    >>> to_text(np.array([3, 7, 8, 9]))
    '3 7-9'
    """
    cuts = np.flatnonzero(np.diff(indices) != 1)
    firsts = indices[np.append(0, cuts + 1)[: len(indices)]]
    return _joined(firsts, indices[np.append(cuts, -1)[: len(indices)]])


def _joined(firsts: Indices, lasts: Indices) -> str:
    ranges = zip(firsts.tolist(), lasts.tolist(), strict=True)
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


def from_text(text: str, n: int) -> Indices:
    """Read what `to_text` wrote, of a source of n samples.

    Raises:
        ValueError: it is something else, names a sample that is not there, or more than an array
            can have.
        OverflowError: it has a number that no sample can have.
        MemoryError: it names more samples than there is memory for.
    """
    words = [word.partition("-") for word in text.split()]
    firsts = np.array([int(first) for first, _, _ in words], np.int64)
    lasts = np.array([int(last if dash else first) for first, dash, last in words], np.int64)
    wrong = (firsts > lasts) | (lasts >= n)
    wrong[1:] |= firsts[1:] - 1 <= lasts[:-1]  # what is side by side is one range
    if wrong.any():
        got = "".join(words[int(np.flatnonzero(wrong)[0])])
        raise ValueError(f"expected ascending numbers below {n}, got {got:.40}")
    if _joined(firsts, lasts) != text:  # int() takes "+3", "1_0" and other digits than ours, too
        raise ValueError(f"expected numbers and ranges as in '3 7-9', got {text!r:.40}")
    sizes = lasts - firsts + 1
    before = np.cumsum(sizes) - sizes
    found: Indices = np.repeat(firsts - before, sizes.astype(np.intp, copy=False))
    found += np.arange(len(found))
    return found
