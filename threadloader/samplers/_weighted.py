"""Samples drawn at random: by weights, with and without replacement, and class by class."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..order import BLOCK, Indices, key
from ._draws import bits, minus_log, uniform
from ._kept import Kept, Listed

__all__ = ["Alias", "Balanced", "Weighted", "WithoutReplacement"]

Floats = NDArray[np.float64]


class Alias:
    """A table that turns two draws into an integer with given probabilities.

    A. Walker, "An efficient method for generating discrete random variables with general
    distributions" (1977), built in the way of M. Vose, "A linear algorithm for generating
    random numbers with a given distribution" (1991): about a second for a million weights,
    24 bytes for each that is not zero.

    Args:
        weights: float64, finite, >= 0, at least one above 0.

    Attributes:
        chance: float64, shape (columns,): the chance to stay in a column.
        other: int64, shape (columns,): the column to go to otherwise.
    """

    def __init__(self, weights: Floats) -> None:
        self._numbers = np.flatnonzero(weights)
        self.chance, self.other = _columns(weights[self._numbers])

    def choose(self, stream: int, positions: Indices) -> Indices:
        """Give the number of the weight that each position draws.

        The column is exactly uniform. Within it, 64 bits are compared with the chance, and
        where they are equal another 53 with what is left of it, so a chance far below 2**-64
        counts too.
        """
        column = uniform(stream, positions, len(self.chance), 0)
        scaled = np.ldexp(self.chance[column], 64)
        limit = np.minimum(scaled, 2.0**64 - 2048).astype(np.uint64)
        draw = bits(stream, positions, 1)
        stay = draw < limit
        if (equal := np.flatnonzero(draw == limit)).size:
            rest = (bits(stream, positions[equal], 2) >> np.uint64(11)) * 2.0**-53
            stay[equal] = rest < scaled[equal] - limit[equal]
        return self._numbers[np.where(stay, column, self.other[column])]


def _columns(weights: Floats) -> tuple[Floats, Indices]:
    """Give, for each column, the chance to stay in it and the column to go to otherwise.

    A float is an integer times a power of two, so all is done in integers, exactly; only
    the chance that comes out is rounded, once.
    """
    digits, exponents = np.frexp(weights)
    shifts = (exponents - exponents.min()).tolist()
    whole = np.ldexp(digits, 53).astype(np.int64).tolist()
    exact = [number << shift for number, shift in zip(whole, shifts, strict=True)]
    # A column holds `full`, and the weights, each times the number of columns, fill them all.
    full, count = sum(exact), len(exact)
    left = [number * count for number in exact]
    other = list(range(count))
    small = [column for column in other if left[column] < full]
    large = [column for column in other if left[column] >= full]
    while small:
        low, high = small.pop(), large[-1]
        other[low] = high
        left[high] -= full - left[low]
        if left[high] < full:
            small.append(large.pop())
    return np.array([number / full for number in left]), np.array(other, np.int64)


class Drawn:
    """An order in which any position is drawn by itself, in constant time."""

    def __init__(self, sampler: Weighted | Balanced, epoch: int) -> None:
        self.n = sampler.length
        self._sampler = sampler
        self._stream = key("sampler", sampler.seed, epoch, sampler.length)

    def at(self, positions: Indices) -> Indices:
        """Give the dataset indices at some positions."""
        flat = self._sampler.choose(self._stream, positions.ravel())
        return flat.reshape(positions.shape)

    def find(self, index: int) -> Indices:
        """Give the positions at which a sample comes: every position is looked at."""
        found = [np.empty(0, np.int64)]
        for first in range(0, self.n, BLOCK):
            positions = np.arange(first, min(first + BLOCK, self.n), dtype=np.int64)
            found.append(positions[self.at(positions) == index])
        return np.concatenate(found)


class Weighted:
    """Draws with replacement, each sample by its weight.

    Args:
        weights: float64, one for each sample that is kept.
        length: how many draws make an epoch.
        seed: seed of the run.
        kept: the samples that are not excluded.
        name: what goes into the state.
    """

    def __init__(self, weights: Floats, length: int, seed: int, kept: Kept, name: str) -> None:
        self.name = name
        self.length = length
        self.seed = seed
        self._kept = kept
        self._alias = Alias(weights)

    def order(self, epoch: int) -> Drawn:
        """Give the order of an epoch."""
        return Drawn(self, epoch)

    def choose(self, stream: int, positions: Indices) -> Indices:
        """Give the dataset index that each position draws."""
        return self._kept.indices(self._alias.choose(stream, positions))


class Balanced:
    """Draws with replacement: a class, each equally likely, then one of its samples, likewise.

    Args:
        classes: int64, 0 .. k - 1, the class of each sample that is kept; each has a sample.
        length: how many draws make an epoch.
        seed: seed of the run.
        kept: the samples that are not excluded.
        name: what goes into the state.
    """

    def __init__(self, classes: Indices, length: int, seed: int, kept: Kept, name: str) -> None:
        self.name = name
        self.length = length
        self.seed = seed
        self._kept = kept
        self._members = np.argsort(classes, kind="stable")  # ranks, class by class
        self._sizes = np.bincount(classes)
        self._starts = np.cumsum(self._sizes) - self._sizes

    def order(self, epoch: int) -> Drawn:
        """Give the order of an epoch."""
        return Drawn(self, epoch)

    def choose(self, stream: int, positions: Indices) -> Indices:
        """Give the dataset index that each position draws."""
        chosen = uniform(stream, positions, len(self._sizes), 0)
        member = uniform(stream, positions, self._sizes[chosen], 1)
        return self._kept.indices(self._members[self._starts[chosen] + member])


def in_weighted_order(weights: Floats, length: int, stream: int) -> Indices:
    """Draw without replacement, each by its weight among those that are left.

    P. Efraimidis and P. Spirakis, "Weighted random sampling with a reservoir" (2006): the
    smallest of exponential times whose rates are the weights.

    Args:
        weights: float64, finite, >= 0.
        length: how many are drawn: at most as many as have a weight above 0.
        stream: 128-bit key.

    Returns:
        int64, shape (length,): numbers of weights, in the order in which they are drawn.
    """
    numbers = np.flatnonzero(weights)
    used = weights[numbers]
    used = np.ldexp(used, -math.frexp(float(used.max()))[1])
    with np.errstate(over="ignore", divide="ignore"):  # so light that it comes last
        times = minus_log(bits(stream, numbers, 0)) / used
    return numbers[np.argsort(times, kind="stable")[:length]]


class WithoutReplacement:
    """Draws without replacement: one pass over all weights, and a sort, each epoch.

    Args:
        weights: float64, one for each sample that is kept.
        length: how many draws make an epoch.
        seed: seed of the run.
        kept: the samples that are not excluded.
        name: what goes into the state.
    """

    def __init__(self, weights: Floats, length: int, seed: int, kept: Kept, name: str) -> None:
        self.name = name
        self.length = length
        self._weights = weights
        self._seed = seed
        self._kept = kept

    def order(self, epoch: int) -> Listed:
        """Give the order of an epoch."""
        stream = key("sampler", self._seed, epoch, self.length)
        ranks = in_weighted_order(self._weights, self.length, stream)
        return Listed(self._kept.indices(ranks))
