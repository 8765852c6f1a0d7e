"""A shuffled order looks like one drawn from all permutations, alone and beside others.

What is counted becomes *scores* (scores.py says how), each of which is standard normal for true
shuffles. None may be beyond `LIMIT`, 4.5, which one passes by chance once in 147,000, both sides
taken together. There are some 1,200 of them here, so that another arithmetic of orders, as good
as chance, would fail by chance once in 120. The seeds are fixed: nothing flickers.

Nothing here knows how an order is made. What is known to be wrong is planted, and must be seen.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import numpy as np
import pytest
from scores import Scores, counted, neighbours, of_count, of_counts, places

from threadloader.order import Order

LIMIT = 4.5
SEEDS = 16
MOMENTS = 2000

Moment = tuple[int, int]  # (seed, epoch)


class Positions(Protocol):
    """An order: the library's, or a fake of it."""

    def at(self, positions: np.ndarray) -> np.ndarray: ...


Maker = Callable[[int, int, int], Positions]  # of n, seed and epoch


def library(n: int, seed: int, epoch: int) -> Order:
    return Order(n, seed=seed, epoch=epoch, shuffle=True)


def whole(make: Maker, n: int, moment: Moment) -> np.ndarray:
    return make(n, *moment).at(np.arange(n))


def too_far(scores: Scores) -> Scores:
    return {name: round(score, 1) for name, score in scores.items() if abs(score) >= LIMIT}


# Few samples: all permutations are counted.


def moments(kind: str, count: int) -> Iterable[Moment]:
    """A run of seeds, of epochs, or of both at once."""
    return {
        "seeds": ((seed, 0) for seed in range(count)),
        "epochs": ((7, epoch) for epoch in range(count)),
        "both": ((2**63 + seed, seed) for seed in range(count)),
    }[kind]


def numbered(orders: np.ndarray) -> np.ndarray:
    """The number of each permutation, from 0 to n! - 1; `orders` is (runs, n)."""
    n = orders.shape[1]
    number = np.zeros(len(orders), np.int64)
    for i in range(n):  # how many smaller ones come later: the digits of the number
        number = number * (n - i) + (orders[:, i + 1 :] < orders[:, i : i + 1]).sum(axis=1)
    return number


def few(make: Maker, n: int, kind: str) -> Scores:
    """The score of how often each of the n! permutations comes, over 10,080 orders or more."""
    kinds = math.factorial(n)
    runs = max(10_080, 40 * kinds)  # a multiple of n!
    orders = np.array([whole(make, n, moment) for moment in moments(kind, runs)])
    counts = counted(numbered(orders), kinds)
    return {"permutations": of_counts(counts, runs / kinds, kinds - 1)}


@pytest.mark.parametrize("kind", ["seeds", "epochs", "both"])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_every_permutation_of_few_samples_comes_equally_often(n: int, kind: str) -> None:
    """All n! of them, over seeds, over epochs, and over both."""
    assert {} == too_far(few(library, n, kind))


@pytest.mark.parametrize("n", [3, 4])
def test_the_next_seed_says_nothing_about_the_next_epoch(n: int) -> None:
    """Orders of (seed, 1) and (seed + 1, 0): all pairs of permutations, equally often."""
    kinds = math.factorial(n)
    runs = 50 * kinds**2
    one = numbered(np.array([whole(library, n, (seed, 1)) for seed in range(runs)]))
    other = numbered(np.array([whole(library, n, (seed + 1, 0)) for seed in range(runs)]))
    counts = counted(one * kinds + other, kinds**2)
    assert abs(of_counts(counts, 50, kinds**2 - 1)) < LIMIT


# Many samples: orders whole, each alone and beside another.


def relations(orders: dict[Moment, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """What leads from one order to another, which for true shuffles is a true shuffle again.

    By sample: from the one at a position of the first to that of the second. So its fixed points
    are the positions where both agree, and its correlation is that of the two. By position: from
    where a sample stands in the first to where it stands in the second.
    """
    pairs = {
        "next epoch": [((seed, 0), (seed, 1)) for seed in range(SEEDS)],
        "next seed": [((seed, 0), (seed + 1, 0)) for seed in range(SEEDS)],
        "next seed, epoch before": [((seed, 1), (seed + 1, 0)) for seed in range(SEEDS)],
    }
    standing = {moment: np.argsort(order) for moment, order in orders.items()}
    found = {}
    for name, both in pairs.items():
        found[f"{name}, by sample"] = [orders[two][standing[one]] for one, two in both]
        found[f"{name}, by position"] = [standing[two][orders[one]] for one, two in both]
    return found


def many(make: Maker, n: int) -> Scores:
    """The scores of orders by themselves and of what leads from one to another."""
    every = list(itertools.product(range(SEEDS + 1), (0, 1)))
    orders = {moment: whole(make, n, moment) for moment in every}
    alone = list(orders.values())
    # Powers of two, where arithmetic on bits shows. Below n / 2: at it each difference would
    # come twice, and beyond it a lag is a shorter one backwards.
    lags = [1 << k for k in range(((n - 1) // 2).bit_length())]
    scores = {f"alone: {k}": v for k, v in (places(alone) | neighbours(alone, lags)).items()}
    for name, leading in relations(orders).items():
        found = places(leading) | neighbours(leading, [1])
        scores |= {f"{name}: {k}": v for k, v in found.items()}
    return scores


@pytest.mark.parametrize("n", [1000, 8193, 10_007, 2**14, 2**16 + 1, 70_001])
def test_orders_are_like_true_shuffles(n: int) -> None:
    """Alone, and each beside that of the next epoch, of the next seed, and of both exchanged."""
    assert {} == too_far(many(library, n))


# Any number of samples: some positions, over many orders.


def some(make: Maker, n: int, kind: str) -> Scores:
    """The scores of what stands at some positions, in 64 bins, and at two of them, in 12 x 12.

    From n = 8,192 on the bins are equally large to within 1%, which moves no score by 0.01.
    """
    powers = {1 << k for k in range(0, (n - 1).bit_length() - 1, 6)}
    positions = np.array(sorted({0, n // 2, n - 1} | powers), np.int64)
    drawn = [make(n, *moment).at(positions) for moment in moments(kind, MOMENTS)]
    values = np.array(drawn, np.int64)
    scores: Scores = {}
    for position, column in zip(positions.tolist(), values.T, strict=True):
        for name, digit, count in (("high", column * 64 // n, 64), ("low", column % 64, 64)):
            counts = counted(digit, count)
            scores[f"{position}: {name}"] = of_counts(counts, MOMENTS / count, count - 1)
        if position:
            counts = counted(values[:, 0] * 12 // n * 12 + column * 12 // n, 144)
            scores[f"0 and {position}"] = of_counts(counts, MOMENTS / 144, 143)
    return scores


@pytest.mark.parametrize("kind", ["seeds", "epochs", "both"])
@pytest.mark.parametrize("n", [8193, 70_001, 2**31 + 11, 10**12])
def test_a_position_holds_any_sample_equally_often(n: int, kind: str) -> None:
    """The first, the middle, the last, some between, and the first beside each other one."""
    assert {} == too_far(some(library, n, kind))


def apart(make: Maker, n: int) -> Scores:
    """The scores of all pairs of 64 orders: how many positions agree, the largest correlation.

    The largest of 2,016 is beyond 6 by chance once in 250,000; of that it is told how far.
    """
    seeds = [0, 1, 2, 3, 1000, 2**32, 2**63, 2**64 - 1]
    epochs = [0, 1, 2, 3, 4, 5, 1000, 2**32]
    orders = np.array([whole(make, n, moment) for moment in itertools.product(seeds, epochs)])
    one, other = np.triu_indices(len(orders), 1)
    agreeing = int((orders[one] == orders[other]).sum())
    largest = float(np.abs(np.corrcoef(orders)[one, other]).max()) * math.sqrt(n - 1)
    return {"agreeing": of_count(agreeing, len(one)), "correlation": largest * LIMIT / 6}


@pytest.mark.parametrize("n", [1000, 10_007])
def test_no_seed_and_epoch_repeat_the_order_of_others(n: int) -> None:
    """Of small and large seeds and epochs no two orders are correlated, or agree too often."""
    assert {} == too_far(apart(library, n))


# What must be seen: fakes, which take their chance from a stream of their own.

Whole = Callable[[int, int, int], np.ndarray]  # of n, seed and epoch, too


class Held:
    """An order that was made whole."""

    def __init__(self, order: np.ndarray) -> None:
        self.order = order

    def at(self, positions: np.ndarray) -> np.ndarray:
        return self.order[positions]


def fake(make: Whole) -> Maker:
    return lambda n, seed, epoch: Held(make(n, seed, epoch))


def raw(n: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.Philox(key=np.array([seed, epoch], np.uint64)).random_raw(n)


def true_shuffle(n: int, seed: int, epoch: int) -> np.ndarray:
    return np.argsort(raw(n, seed, epoch))


def feistel(rounds: int, n: int, seed: int, epoch: int) -> np.ndarray:
    """A Feistel network of ideal rounds, walked along its cycles."""
    half = ((n - 1).bit_length() + 1) // 2
    tables = (raw(rounds << half, seed, epoch) >> np.uint64(64 - half)).astype(np.int64)

    def permute(values: np.ndarray) -> np.ndarray:
        left, right = values >> half, values & ((1 << half) - 1)
        for table in tables.reshape(rounds, -1):
            left, right = right, left ^ table[right]
        return left << half | right

    values = permute(np.arange(n))
    while (outside := np.flatnonzero(values >= n)).size:
        values[outside] = permute(values[outside])
    return values


def affine(n: int, seed: int, epoch: int) -> np.ndarray:
    factor, shift = (int(draw) % n for draw in raw(2, seed, epoch))
    while math.gcd(factor, n) > 1:
        factor += 1
    return (factor * np.arange(n) + shift) % n


def swapped_with_any(n: int, seed: int, epoch: int) -> np.ndarray:
    """The shuffle that swaps each place with any place, not only with one that is to come."""
    order = np.arange(n)
    for i, j in enumerate((raw(n, seed, epoch) % np.uint64(n)).tolist()):
        order[[i, j]] = order[[j, i]]
    return order


def small_draws(n: int, seed: int, epoch: int) -> np.ndarray:
    """A sort of draws of 5 bits, of which some are equal."""
    return np.argsort(raw(n, seed, epoch) >> np.uint64(59), kind="stable")


def buffered(n: int, seed: int, epoch: int) -> np.ndarray:
    """A buffer of 1,000 samples at a time, shuffled and given out."""
    return np.lexsort((raw(n, seed, epoch), np.arange(n) // 1000))


FAKES: dict[str, tuple[Whole, str, str]] = {
    "swapped with any": (swapped_with_any, "few", "permutations"),
    "small draws": (small_draws, "few", "permutations"),
    "two rounds": (partial(feistel, 2), "many", "alone: lag 128 spread"),
    "three rounds": (partial(feistel, 3), "many", "alone: lag 128 spread"),
    "affine": (affine, "many", "alone: lag 1 spread"),
    "affine, too even": (affine, "many", "alone: high to high spread"),
    "buffered": (buffered, "many", "alone: high to high bias"),
    "rotated": (lambda n, s, e: np.roll(np.arange(n), -s), "many", "alone: successors"),
    "seed + epoch": (
        lambda n, s, e: true_shuffle(n, s + e, 0),
        "many",
        "next seed, epoch before, by sample: fixed points",
    ),
    "no epoch": (
        lambda n, s, e: true_shuffle(n, s, 0),
        "many",
        "next epoch, by sample: correlation bias",
    ),
    "samples counted on": (
        lambda n, s, e: (true_shuffle(n, 0, e) + s) % n,
        "many",
        "next seed, by sample: successors",
    ),
    "backwards in turn": (
        lambda n, s, e: true_shuffle(n, s, 0)[:: 1 - 2 * e],
        "many",
        "next epoch, by position: predecessors",
    ),
    "seeds of 8 bits": (lambda n, s, e: true_shuffle(n, s % 256, e), "some", "0: high"),
    "seed ^ epoch": (lambda n, s, e: true_shuffle(n, s ^ e, 0), "apart", "correlation"),
    "1000 * seed + epoch": (
        lambda n, s, e: true_shuffle(n, (1000 * s + e) % 2**64, 0),
        "apart",
        "agreeing",
    ),
}
SEEN_BY = {
    "few": lambda make: few(make, 5, "seeds"),
    "many": lambda make: many(make, 10_007),
    "some": lambda make: some(make, 8193, "seeds"),
    "apart": lambda make: apart(make, 1000),
}


@pytest.mark.parametrize("name", FAKES)
def test_what_is_planted_is_seen(name: str) -> None:
    """Each way to be no shuffle has a score that it takes beyond the limit."""
    make, by, score = FAKES[name]
    assert score in too_far(SEEN_BY[by](fake(make)))


@pytest.mark.parametrize("by", SEEN_BY)
def test_a_true_shuffle_passes(by: str) -> None:
    """The limit is not too narrow: a sort of independent draws stays within it."""
    assert {} == too_far(SEEN_BY[by](fake(true_shuffle)))
