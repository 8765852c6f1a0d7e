"""Samples drawn at random: by weights, with and without replacement, and class by class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..order import BLOCK, EpochOrder, Indices, key
from ._draws import bits, minus_log, uniform
from ._excluding import Kept

__all__ = ["Alias", "Balanced", "Drawing", "Drawn", "in_weighted_order"]

Floats = NDArray[np.float64]


def _whole(numbers: NDArray[np.intp]) -> Indices:
    """Give places in an array as int64, like dataset indices: 32-bit systems have narrower ones."""
    return numbers.astype(np.int64, copy=False)


class Alias:
    """A table that turns two draws into an integer with given probabilities.

    A. Walker, "An efficient method for generating discrete random variables with general
    distributions" (1977), built in the way of M. Vose, "A linear algorithm for generating
    random numbers with a given distribution" (1991): about a second for a million weights,
    32 bytes for each that is not zero.

    Args:
        weights: float64, finite, >= 0, at least one above 0.

    Attributes:
        limit: uint64, shape (columns,): the chance to stay in a column, in units of 2**-64.
        rest: float64, shape (columns,): what the limit is short of it, in the same unit.
        other: int64, shape (columns,): the column to go to otherwise.
    """

    def __init__(self, weights: Floats) -> None:
        self._numbers = _whole(np.flatnonzero(weights))
        self.limit, self.rest, self.other = _columns(weights[self._numbers])

    def choose(self, stream: int, positions: Indices) -> Indices:
        """Give the number of the weight that each position draws.

        The column is exactly uniform. Within it, 64 bits are compared with the limit, and
        where they are equal another 53 with the rest, so a chance far below 2**-64 counts.
        """
        column = uniform(stream, positions, len(self.limit), 0)
        draw, limit = bits(stream, positions, 1), self.limit[column]
        stay = draw < limit
        if (equal := np.flatnonzero(draw == limit)).size:
            more = (bits(stream, positions[equal], 2) >> np.uint64(11)) * 2.0**-53
            stay[equal] = more < self.rest[column[equal]]
        return self._numbers[np.where(stay, column, self.other[column])]


def _columns(weights: Floats) -> tuple[NDArray[np.uint64], Floats, Indices]:
    """Give, for each column, the chance to stay in it, in two parts, and where to go otherwise.

    A float is an integer times a power of two, so all is done in integers, exactly; only
    the rest is rounded. A chance as one float would not do: where thousands of columns lead
    to one weight, the errors of their last bits add up.
    """
    digits, exponents = np.frexp(weights)
    shifts = (exponents - exponents.min()).tolist()
    whole = np.ldexp(digits, 53).astype(np.int64).tolist()
    exact = [number << shift for number, shift in zip(whole, shifts, strict=True)]
    # A column holds `full`, and the weights, each times the number of columns, fill them all.
    full, count = sum(exact), len(exact)
    left = [number * count for number in exact]
    del whole, exact  # big integers, as many as weights
    other = list(range(count))
    small = [column for column in other if left[column] < full]
    large = [column for column in other if left[column] >= full]
    while small:
        low, high = small.pop(), large[-1]
        other[low] = high
        left[high] -= full - left[low]
        if left[high] < full:
            small.append(large.pop())
    # A full column leads to itself, whatever is drawn.
    limit = [min((number << 64) // full, 2**64 - 1) for number in left]
    rest = [(number << 64) % full / full for number in left]
    return np.array(limit, np.uint64), np.array(rest), np.array(other, np.int64)


class Balanced:
    """A table that turns two draws into a class, each equally likely, and one of its members.

    ``classes`` is int64, 0 .. k - 1, the class of each member; each class has one or more.
    """

    def __init__(self, classes: Indices) -> None:
        self._members = _whole(np.argsort(classes, kind="stable"))  # class by class
        self._sizes = np.bincount(classes.astype(np.intp, copy=False))
        self._starts = np.cumsum(self._sizes) - self._sizes

    def choose(self, stream: int, positions: Indices) -> Indices:
        """Give the number of the member that each position draws."""
        chosen = uniform(stream, positions, len(self._sizes), 0)
        member = uniform(stream, positions, self._sizes[chosen], 1)
        drawn: Indices = self._members[self._starts[chosen] + member]
        return drawn


class Drawn:
    """An order in which any position is drawn by itself, in constant time."""

    def __init__(self, table: Alias | Balanced, n: int, stream: int, kept: Kept) -> None:
        self.n = n
        self._table = table
        self._stream = stream
        self._kept = kept

    def at(self, positions: Indices) -> Indices:
        """Give the dataset indices at some positions."""
        ranks = self._table.choose(self._stream, positions.ravel())
        return self._kept.indices(ranks).reshape(positions.shape)

    def find(self, index: int) -> Indices:
        """Give the positions at which a sample comes: every position is looked at."""
        found = [np.empty(0, np.int64)]
        for first in range(0, self.n, BLOCK):
            positions = np.arange(first, min(first + BLOCK, self.n), dtype=np.int64)
            found.append(positions[self.at(positions) == index])
        return np.concatenate(found)


def in_weighted_order(weights: Floats, length: int, stream: int) -> Indices:
    """Draw without replacement, each by its weight among those that are left.

    P. Efraimidis and P. Spirakis, "Weighted random sampling with a reservoir" (2006): the
    smallest of exponential times whose rates are the weights, float64, finite, >= 0.

    At most as many are drawn as have a weight above 0; ``stream`` is a key of 128 bits. What is
    given is int64, (length,): numbers of weights, in the order in which they are drawn.
    """
    numbers = _whole(np.flatnonzero(weights))
    digits, exponents = np.frexp(weights[numbers])
    # Times as digits and powers of two, since weights may lie farther apart than floats reach.
    times, powers = np.frexp(minus_log(bits(stream, numbers, 0)) / digits)
    return numbers[np.lexsort((times, powers - exponents))[:length]]


class Drawing:
    """A sampler that draws each epoch of so many positions anew.

    ``draw`` gives the order for the 128-bit key of an epoch; the name goes into the state.
    """

    def __init__(
        self, name: str, length: int, seed: int, draw: Callable[[int], EpochOrder]
    ) -> None:
        self.name = name
        self.length = length
        self._seed = seed
        self._draw = draw

    def order(self, epoch: int) -> EpochOrder:
        """Give the order of an epoch."""
        return self._draw(key("sampler", self._seed, epoch, self.length))
