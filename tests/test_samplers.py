"""Each kind of sampler gives what it says: exact chances, no index that is not there, for ever."""

import functools
import itertools
import json
import math
import random
import struct
import sys
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ids import shown
from scores import counted, of_counts
from strategies import epochs, seeds

from threadloader import ConfigError, Loader
from threadloader import samplers as room
from threadloader.samplers import Kept, checked
from threadloader.samplers._classes import classes
from threadloader.samplers._draws import bits, minus_log, uniform
from threadloader.samplers._weighted import Alias, in_weighted_order

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "samplers.json").read_text("utf-8"))

# A standard normal score lies outside of this once in 300,000 times. The seeds are fixed, so
# a test that passes goes on passing; what it must see is far outside.
LIMIT = 4.5

# More than a float64 holds, where the system has a wider float; else infinite as it stands.
WIDE = np.nextafter(np.longdouble(math.inf), np.longdouble(0))
WIDE = WIDE if np.isinf(np.float64(str(WIDE))) else np.longdouble(math.inf)

keys = st.integers(0, 2**128 - 1)
places = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20)


def kept_of(n, excluded=()):
    return Kept(n, np.array(sorted(set(excluded)), np.int64))


def told(error):
    (problem,) = error.value.problems
    return problem.pointer, problem.expected, problem.got


def made(spec, n, seed=0, excluded=()):
    """The sampler of a config, with the defaults that the schema would fill in."""
    return room.configured(spec, n, seed, kept_of(n, excluded))


def whole(sampler, epoch=0):
    order = sampler.order(epoch)
    return order.at(np.arange(order.n))


def fits(counts, chances):
    """Whether counts look like draws of these chances, neither too far off nor too near."""
    counts, chances = np.asarray(counts), np.asarray(chances, float)
    expected = counts.sum() * chances / chances.sum()
    assert (expected > 8).all()
    return abs(of_counts(counts, expected, len(counts) - 1)) < LIMIT


def mixed(x):
    """The finalizer of SplitMix64, as its paper has it."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def expected_bits(key, position, number):
    """The random bits of a position, in Python's integers."""
    low, high = key % 2**64, key >> 64
    return mixed(mixed((position + low) % 2**64) ^ (high + number * 0x9E3779B97F4A7C15) % 2**64)


def expected_uniform(key, position, count, number):
    """The first draw whose 128-bit product with the count is not among those too many."""
    while True:
        high, low = divmod(expected_bits(key, position, number) * count, 2**64)
        if low >= 2**64 % count:
            return high
        number += 64


class TestDraws:
    @given(key=keys, positions=places, number=st.integers(0, 200))
    def test_bits_are_those_of_exact_arithmetic(self, key, positions, number):
        expected = [expected_bits(key, position, number) for position in positions]
        assert expected == bits(key, np.array(positions), number).tolist()

    @given(
        key=keys,
        positions=places,
        count=st.one_of(
            st.integers(1, 100),
            st.integers(1, 2**63 - 1),
            st.integers(0, 200).map(lambda less: 2**63 - 1 - less),
            st.integers(-200, 200).map(lambda more: 3 * 2**61 + more),
        ),
    )
    @example(key=1, positions=list(range(20)), count=2**63 - 1)
    @example(key=2, positions=list(range(20)), count=2**62 + 1)
    @example(key=3, positions=list(range(20)), count=2**62)
    def test_uniform_is_exact(self, key, positions, count):
        """Also near 2**63, and where every fourth draw is drawn again."""
        expected = [expected_uniform(key, position, count, 0) for position in positions]
        assert expected == uniform(key, np.array(positions), count, 0).tolist()

    @given(
        key=keys, drawn=st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1)))
    )
    def test_each_position_may_have_a_count_of_its_own(self, key, drawn):
        expected = [expected_uniform(key, position, count, 3) for position, count in drawn]
        positions, counts = np.array(drawn, np.int64).reshape(-1, 2).T
        assert expected == uniform(key, positions, counts, 3).tolist()

    @pytest.mark.parametrize("count", [2, 3, 7, 1000, 3 * 2**61, 2**62 + 1, 2**63 - 1])
    def test_uniform_is_fair(self, count):
        """Each part of the range comes as often as its size says."""
        cells = min(count, 64)
        chosen = uniform(99, np.arange(100_000), count, 0)
        assert (chosen >= 0).all()
        assert (chosen < count).all()
        counts = np.bincount([int(it) * cells // count for it in chosen.tolist()], minlength=cells)
        sizes = np.diff([-(-count * cell // cells) for cell in range(cells + 1)])
        assert fits(counts, [Fraction(int(size), count) for size in sizes])

    def test_draws_of_one_position_and_of_neighbours_have_nothing_in_common(self):
        """Pairs of them fill a square evenly."""
        high = [bits(7, np.arange(200_000), number) >> np.uint64(59) for number in range(3)]
        pairs = [*itertools.combinations(high, 2), (high[0][1:], high[0][:-1])]
        for one, other in pairs:
            square = counted(one * np.uint64(32) + other, 1024)
            assert fits(square, np.ones(1024))

    @given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
    @example([0, 2**64 - 1, 2**63 - 1, 2**63, 2**12 - 1, 2**12])
    def test_the_logarithm_is_right_to_the_last_digits(self, draws):
        """And finite and above 0, since what it is taken of is neither 0 nor 1."""
        exact = [Fraction(2 * (draw >> 12) + 1, 2**53) for draw in draws]
        assert all(0 < float(u) < 1 and Fraction(float(u)) == u for u in exact)
        got = minus_log(np.array(draws, np.uint64)).tolist()
        for u, value in zip(exact, got, strict=True):
            assert value > 0
            assert abs(value + math.log(u)) <= 1e-15 * value

    def test_the_logarithm_has_the_same_bits_on_every_platform(self):
        draws = np.array([int(draw, 16) for draw in GOLDENS["logarithms"]], np.uint64)
        got = [struct.pack(">d", it).hex() for it in minus_log(draws)]
        assert list(GOLDENS["logarithms"].values()) == got


weights_of_any_size = st.one_of(
    st.floats(0, 1.7e308, allow_nan=False),
    st.floats(-300, 300).map(lambda power: 10.0**power),
    st.floats(0, 2.2e-308, allow_subnormal=True),
    st.integers(2**53, 2**63).map(float),
    st.just(0.0),
    st.just(1.0),
)
tables = st.lists(weights_of_any_size, min_size=1, max_size=40).filter(any)


def chances(table, count):
    """The exact chance of each of some weights in a table."""
    columns = len(table.limit)
    found = [Fraction(0)] * count
    for column in range(columns):
        stay = (int(table.limit[column]) + Fraction(float(table.rest[column]))) / 2**64
        found[table._numbers[column]] += stay / columns
        found[table._numbers[table.other[column]]] += (1 - stay) / columns
    return found


class TestWeighted:
    @given(tables)
    @example([1.0])
    @example([5e-324])
    @example([1.7e308] * 3)
    @example([1e300, 1e-300])
    @example([3.0] * 7)
    @example([0.0, 2.0**53 + 2, 0.0, 1.0])
    def test_chances_are_exact(self, weights):
        """To the last digit of a float64; a weight of 0 has none."""
        total = sum(map(Fraction, weights))
        for weight, got in zip(
            weights, chances(Alias(np.array(weights)), len(weights)), strict=True
        ):
            expected = Fraction(weight) / total
            assert abs(got - expected) <= math.ulp(float(expected)) * bool(weight)

    def test_the_errors_of_many_columns_do_not_add_up(self):
        """Thousands of weights just below the mean, which all lead to a single one."""
        rng = np.random.default_rng(0)
        weights = np.r_[1.001, 1 - 1e-6 * rng.random(3000)]
        total = sum(map(Fraction, weights.tolist()))
        got = chances(Alias(weights), len(weights))
        for weight, chance in zip(weights.tolist(), got, strict=True):
            expected = Fraction(weight) / total
            assert abs(chance - expected) <= math.ulp(float(expected))

    @pytest.mark.parametrize(
        "weights",
        [
            [1, 1],
            [1, 2, 3, 4],
            [0, 5, 0, 1, 0],
            [0.1] * 10,
            [1e-300, 2e-300, 3e-300],
            [1e308, 1e308, 1.7e308],
            [5e-324, 1e-323, 1.5e-323],
            [2**62, 2**63, 2**53 + 1],
            [100, *[1] * 50],
            range(1, 101),
        ],
        ids=str,
    )
    def test_draws_come_as_often_as_their_weights_say(self, weights):
        weights = list(weights)
        spec = {"type": "weighted", "weights": weights, "num_samples": 50_000}
        counts = counted(whole(made(spec, len(weights), seed=3)), len(weights))
        chosen = np.flatnonzero(weights)
        assert counts.sum() == counts[chosen].sum()
        assert fits(counts[chosen], np.array(weights, float)[chosen] / max(weights))

    def test_where_64_bits_cannot_tell_more_are_drawn(self):
        """A draw that equals the limit stays with the chance of the rest."""
        table = Alias(np.array([1.0]))
        table._numbers, table.other = np.array([10, 20]), np.array([1])
        for key in range(20):
            more = (expected_bits(key, 5, 2) >> 11) * 2.0**-53
            table.limit = np.array([expected_bits(key, 5, 1)], np.uint64)
            got = []
            for rest in (0.0, more, math.nextafter(more, 1), 1.0):
                table.rest = np.array([rest])
                got += table.choose(key, np.array([5])).tolist()
            assert [20, 20, 10, 10] == got

    def test_there_may_be_more_categories_than_a_float32_can_count(self):
        """Odd numbers above 2**24 come like others.

        The table is not built, which would take 2**25 weights half a minute: it is one of
        equal weights, as it would be.
        """

        class Same:
            def __getitem__(self, numbers):
                return numbers

        count = 2**25 - 1
        table = Alias(np.array([1.0]))
        table._numbers = table.other = Same()
        table.limit = np.broadcast_to(np.uint64(2**64 - 1), count)
        table.rest = np.broadcast_to(0.0, count)
        drawn = table.choose(4, np.arange(100_000))
        above = drawn[drawn > 2**24]
        assert fits(counted(above % 64, 64), np.ones(64))
        assert fits([len(above), len(drawn) - len(above)], [1, 1])

    @given(
        seed=seeds,
        epoch=epochs,
        positions=st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=20),
    )
    def test_any_position_can_be_had_alone(self, seed, epoch, positions):
        """Of an epoch of 2**62 draws, at once, and in any shape."""
        for spec in (
            {"type": "weighted", "weights": [3, 0, 1, 5], "num_samples": 2**62},
            {"type": "balanced", "labels": [0, 1, 1, 1], "num_samples": 2**62},
        ):
            order = made(spec, 4, seed).order(epoch)
            alone = [int(order.at(np.array([position]))[0]) for position in positions]
            assert alone == order.at(np.array(positions)).tolist()
            assert [alone] == order.at(np.array([positions])).tolist()

    @given(weights=tables, seed=seeds, epoch=epochs, excluded=st.sets(st.integers(0, 39)))
    def test_a_weight_of_zero_and_what_is_excluded_never_come(self, weights, seed, epoch, excluded):
        excluded = {index for index in excluded if index < len(weights)}
        chosen = {i for i, weight in enumerate(weights) if weight and i not in excluded}
        for kind in ("weighted", "weighted_without_replacement"):
            spec = {"type": kind, "weights": weights}
            if not chosen:
                with pytest.raises(ConfigError, match="a weight above 0 of a sample that is kept"):
                    made(spec, len(weights), seed, excluded)
                continue
            sampler = made(spec, len(weights), seed, excluded)
            drawn = whole(sampler, epoch).tolist()
            assert chosen >= set(drawn)
            kept = len(weights) - len(excluded)
            assert len(drawn) == (kept if kind == "weighted" else len(chosen))

    def test_epochs_seeds_and_lengths_have_nothing_in_common(self):
        """Pairs of draws at the same positions fill a square evenly."""
        spec = {"type": "weighted", "weights": [1] * 16, "num_samples": 20_000}
        longer = {**spec, "num_samples": 20_001}
        first = whole(made(spec, 16, 7), 0)
        others = [
            whole(made(spec, 16, 7), 1),
            whole(made(spec, 16, 8), 0),
            whole(made(longer, 16, 7), 0)[:-1],
        ]
        for other in [*others, np.roll(first, 1)]:
            assert fits(counted(first * 16 + other, 256), np.ones(256))


def naming(name):
    """A callable with a name attribute, if it is given one."""

    def sampler(epoch, n):
        return range(n)

    if name is not None:
        sampler.name = name
    return sampler


class Sampler:
    """Its name is that of its class."""

    def __call__(self, epoch, n):
        return range(n)


class TestIndices:
    """What counts as indices, whoever gives them."""

    @pytest.mark.parametrize(
        "indices",
        [
            [2, 0, 2],
            (2, 0, 2),
            np.array([2, 0, 2]),
            np.array([9, 2, 0, 2])[1:],
            np.array([2, 0, 2])[::-1],
            [np.int8(2), np.uint64(0), 2],
            (index for index in (2, 0, 2)),
            iter([2, 0, 2]),
            map(int, "202"),
            memoryview(np.array([2, 0, 2])),
        ],
        ids=lambda indices: type(indices).__name__,
    )
    def test_integers_in_one_row_are_taken(self, indices):
        """As an int64 array of its own, which nothing changes afterwards."""
        array = checked(indices, 3, "")
        assert ([2, 0, 2], np.int64) == (array.tolist(), array.dtype)

    @pytest.mark.parametrize("dtype", [f"{order}{kind}" for kind in ("i1", "u1") for order in "<>"])
    def test_integers_of_every_width_are_taken(self, dtype):
        for size in "1248":
            array = checked(np.array([2, 0, 1], dtype[:-1] + size), 300, "")
            assert ([2, 0, 1], np.int64) == (array.tolist(), array.dtype)

    def test_a_range_and_nothing_are_taken(self):
        assert [0, 2, 4] == checked(range(0, 5, 2), 5, "").tolist()
        for nothing in ([], (), np.array([]), iter(()), range(0)):
            assert (0, np.int64) == (len(checked(nothing, 0, "")), checked(nothing, 0, "").dtype)

    @pytest.mark.parametrize("dtype", ["?", "f4", "c8", "S1", "U1", "O", "V2", "M8[s]", "m8[s]"])
    def test_an_array_of_nothing_has_no_index_whatever_its_dtype(self, dtype):
        indices = checked(np.array([], dtype), 5, "")
        assert (0, np.int64) == (len(indices), indices.dtype)

    def test_an_array_that_is_given_is_copied(self):
        given = np.array([0, 1, 2])
        array = checked(given, 3, "")
        given[:] = 0
        assert [0, 1, 2] == array.tolist()

    @pytest.mark.parametrize(
        ("indices", "got"),
        [
            ([0, 1, -1], "-1 at position 2"),
            ([0, 5, 1, 6, -9], "5 at position 1 and 2 more"),
            (np.array([7], np.uint8), "7 at position 0"),
            (np.array([0, 2**64 - 1], np.uint64), "18446744073709551615 at position 1"),
            (np.array([-(2**63)]), "-9223372036854775808 at position 0"),
            ([0, 2**70], "1180591620717411303424 at position 1"),
            ([0, np.int8(-1), np.uint64(2)], "-1 at position 1"),
            ([0, int(1e300)], "an integer of 997 bits at position 1"),
            ([int(-1e300), 0], "a negative integer of 997 bits at position 0"),
        ],
        ids=str,
    )
    def test_an_index_that_is_not_there_is_an_error(self, indices, got):
        """Negative ones too: none is ever counted from the end, or wrapped."""
        with pytest.raises(ConfigError) as caught:
            checked(indices, 5, "sampler")
        assert ("sampler", "indices from 0 to 4", got) == told(caught)

    def test_an_empty_source_has_no_index(self):
        with pytest.raises(ConfigError, match="expected no index: the source is empty, got 0 at"):
            checked([0], 0, "sampler")

    @pytest.mark.parametrize(
        ("indices", "got"),
        [
            ([True, False], "bool at position 0"),
            ([2, True], "bool at position 1"),
            ([2, np.False_], f"{np.bool_.__name__} at position 1"),
            (np.array([True]), "bool of shape (1,)"),
            ([0, 1.0], "float at position 1"),
            (np.array([0.0]), "float64 of shape (1,)"),
            (np.array([[0, 1]], np.int64), "int64 of shape (1, 2)"),
            (np.empty((0, 3), np.int64), "int64 of shape (0, 3)"),
            (np.array(1, np.int64), "int64 of shape ()"),
            (np.array([0, 1], object), "object of shape (2,)"),
            ([[0, 1]], "list at position 0"),
            ([[0], [1, 2]], "list at position 0"),
            ([0, np.array([1, 2])], "ndarray at position 1"),
            ([None], "NoneType at position 0"),
            (["1"], "str at position 0"),
            ("01", "str"),
            (b"\0\1", "bytes"),
            (3, "int"),
            (None, "NoneType"),
            (object(), "object"),
        ],
        ids=shown,
    )
    def test_what_is_no_row_of_integers_is_refused(self, indices, got):
        with pytest.raises(ConfigError) as caught:
            checked(indices, 5, "sampler")
        assert ("sampler", "dataset indices: integers in one row", got) == told(caught)

    @pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError])
    def test_what_a_generator_raises_is_its_own(self, kind):
        def broken():
            yield 0
            raise kind("mine")

        with pytest.raises(kind, match=r"^mine$"):
            checked(broken(), 5, "sampler")


class TestGiven:
    """Samplers that are given in code."""

    def test_who_gives_an_iterator_is_told_to_make_one_list_of_it(self):
        """Drawn from anew in each epoch, it would be empty from the second one on."""
        with pytest.raises(ConfigError, match=r"for an iterator: list\(it\), the same in every"):
            room.given((index for index in range(3)), 5, kept_of(5))

    def test_who_gives_what_draws_anew_each_time_is_told_of_what_does_not(self):
        """As a sampler of torch: a list of it would be another one after a resume."""

        class Drawing:
            def __iter__(self):
                return iter(random.sample(range(5), 5))

        hint = "or give a callable that gives the same whenever it is asked"
        with pytest.raises(ConfigError, match=hint):
            room.given(Drawing(), 5, kept_of(5))

    @pytest.mark.parametrize("sampler", [5, "012", b"012", {0: 1}, {0}, iter([0])], ids=shown)
    def test_neither_a_callable_nor_a_sequence_is_refused(self, sampler):
        with pytest.raises(ConfigError, match=r"a callable of \(epoch, n\), or a sequence"):
            room.given(sampler, 5, kept_of(5))

    @pytest.mark.parametrize(
        ("sampler", "name"),
        [
            (naming("mine"), "mine"),
            (naming(None), "naming.<locals>.sampler"),
            (functools.partial(functools.partial(naming("mine"), 1), 2), "mine"),
            (Sampler(), "Sampler"),
            (Sampler().__call__, "Sampler.__call__"),
            (max, "max"),
        ],
    )
    def test_a_callables_name_is_its_own(self, sampler, name):
        """Its attribute, or that of its function or class; without module and address."""
        assert name == room.given(sampler, 5, kept_of(5)).name

    def test_an_object_that_has_any_attribute_has_a_name(self):
        """Such as a mock: nothing is followed for ever."""

        class Any:
            def __getattr__(self, name):
                return self

            def __call__(self, epoch, n):
                return []

        expected = f"{type(self).__name__}.test_an_object_that_has_any_attribute_has_a_name"
        assert f"{expected}.<locals>.Any" == room.given(Any(), 5, kept_of(5)).name


class TestWithoutReplacement:
    @given(weights=tables, seed=seeds, epoch=epochs, data=st.data())
    def test_each_comes_once_at_most(self, weights, seed, epoch, data):
        """As many as were asked for; a shorter epoch is not the beginning of a longer one."""
        most = sum(weight > 0 for weight in weights)
        length = data.draw(st.integers(1, most))
        spec = {"type": "weighted_without_replacement", "weights": weights, "num_samples": length}
        drawn = whole(made(spec, len(weights), seed), epoch).tolist()
        assert length == len(drawn) == len(set(drawn))
        assert all(weights[index] for index in drawn)

    @pytest.mark.parametrize(
        "weights",
        [
            [1.0, 2.0, 3.0],
            [5.0, 1.0, 1.0, 2.0],
            [1.0, 0.0, 1.0, 1.0],
            [3e-310, 1e-310, 2e-310],
            [1e300, 1e-300, 2e-300],
            [5e-324, 1.5e308, 1e-323, 1e308],
        ],
        ids=str,
    )
    def test_every_order_comes_as_often_as_drawing_one_by_one_gives_it(self, weights):
        """Exactly enumerated, also where weights lie farther apart than any float reaches."""
        chosen = [index for index, weight in enumerate(weights) if weight]
        chance = {}
        for order in itertools.permutations(chosen):
            left, product = sum(Fraction(weights[index]) for index in order), Fraction(1)
            for index in order:
                product *= Fraction(weights[index]) / left
                left -= Fraction(weights[index])
            chance[order] = float(product)
        table = np.array(weights)
        drawn = [
            tuple(in_weighted_order(table, len(chosen), mixed(seed)).tolist())
            for seed in range(4000)
        ]
        likely = [order for order in chance if chance[order] > 1e-12]
        assert set(likely) >= set(drawn)
        assert fits([drawn.count(order) for order in likely], [chance[it] for it in likely])

    def test_samples_are_in_a_shorter_epoch_as_often_as_drawing_one_by_one_has_them(self):
        """Two of four, by the chances of all pairs."""
        weights = [1, 2, 3, 4]
        chance = {}
        for one, other in itertools.permutations(range(4), 2):
            pair = frozenset((one, other))
            here = Fraction(weights[one], 10) * Fraction(weights[other], 10 - weights[one])
            chance[pair] = chance.get(pair, 0) + here
        spec = {"type": "weighted_without_replacement", "weights": weights, "num_samples": 2}
        drawn = [frozenset(whole(made(spec, 4, seed)).tolist()) for seed in range(4000)]
        assert fits([drawn.count(pair) for pair in chance], [float(it) for it in chance.values()])

    def test_more_than_there_are_is_an_error(self):
        """Those with weight 0 and those that are excluded do not count."""
        spec = {"type": "weighted_without_replacement", "weights": [1, 0, 2, 3], "num_samples": 3}
        assert 3 == made(spec, 4).length
        with pytest.raises(ConfigError) as caught:
            made(spec, 4, excluded=[3])
        expected = "at most 2, the number of weights above 0 of samples that are kept"
        assert ("/sampler/num_samples", expected, "3") == told(caught)


class TestBalanced:
    @pytest.mark.parametrize(
        "labels",
        [
            [0, 1, 1, 2, 2, 2, 2],
            ["b", "a", "b", "b", "c", "b", "b"],
            [True, False, True, True, True, True, True],
            np.array([-(2**63), 5, 5, 2**63 - 1, 5, 5, 5]),
            np.array(["x", "y", "y", "x", "y", "zz", "y"]),
            np.array([7, 7, 7, 7, 7, 7, 7], np.uint64),
            [np.int8(1), 0, np.uint64(1), np.array(0), 2, 2, 2],
        ],
        ids=str,
    )
    def test_classes_come_equally_often_and_their_samples_likewise(self, labels):
        spec = {"type": "balanced", "labels": labels, "num_samples": 60_000}
        counts = counted(whole(made(spec, 7, seed=5)), 7)
        plain = [str(label) for label in labels]
        expected = [1 / plain.count(label) for label in plain]
        assert fits(counts, expected)

    def test_a_class_that_is_left_with_nothing_is_none(self):
        spec = {"type": "balanced", "labels": [0, 1, 1, 2, 2], "num_samples": 30_000}
        counts = counted(whole(made(spec, 5, excluded=[0, 4])), 5)
        assert [0, 0] == counts[[0, 4]].tolist()
        assert fits(counts[1:4], [1, 1, 2])

    @pytest.mark.parametrize(
        ("labels", "expected", "got"),
        [
            ([1, "1", 1], "integers alone, as the first label is", "'1' of sample 1"),
            ([1, 2, True], "integers alone, as the first label is", "True of sample 2"),
            ([False, 0, 1], "bools alone, as the first label is", "0 of sample 1"),
            ([0.0, 1.0, 2.0], "integers, texts or bools", "0.0 of sample 0"),
            (["a", None, "b"], "texts alone, as the first label is", "None of sample 1"),
            ([[1], [2], [3]], "integers, texts or bools", "[1] of sample 0"),
            (3, "an array or a list of labels", "3"),
            ([1, 2], "a label for each of the 3 samples", "2 of them"),
            (
                np.array([0.5, 1.0, 2.0]),
                "an integer, text or bool for each of the 3 samples",
                "float64 of shape (3,)",
            ),
            (
                np.array([[0], [1], [2]], np.int64),
                "an integer, text or bool for each of the 3 samples",
                "int64 of shape (3, 1)",
            ),
        ],
        ids=str,
    )
    def test_labels_of_two_kinds_or_of_none_are_refused(self, labels, expected, got):
        """numpy would make one kind of them."""
        with pytest.raises(ConfigError) as caught:
            made({"type": "balanced", "labels": labels}, 3)
        assert ("/sampler/labels", expected, got) == told(caught)
        with pytest.raises(ConfigError) as caught:
            made({"type": "balanced", "labels": labels, "field": "y"}, 3)
        assert "/sampler/field" == told(caught)[0]

    def test_a_label_that_cannot_be_written_is_refused_as_any_other(self):
        spec = {"type": "balanced", "labels": ["a", 10**5000, "b"]}
        with pytest.raises(ConfigError, match="got a value of type int of sample 1"):
            made(spec, 3)

    def test_labels_that_numpy_takes_for_equal_are_two_classes(self):
        """Texts that differ in a zero character at the end; a long one costs its length once."""
        spec = {"type": "balanced", "labels": ["a", "a\0", "b" * 10**7]}
        assert made(spec, 3).name.startswith("balanced, 3 classes, ")

    @pytest.mark.parametrize("n", [0, 3])
    def test_no_sample_at_all_is_an_error(self, n):
        with pytest.raises(ConfigError, match="/sampler/labels: expected a sample that is kept"):
            made({"type": "balanced", "labels": list(range(n))}, n, excluded=range(n))


class TestWeights:
    """Weights that are wrong are errors of the config, wherever they come from."""

    @pytest.mark.parametrize("kind", ["weighted", "weighted_without_replacement"])
    @pytest.mark.parametrize(
        ("weights", "expected", "got"),
        [
            ([1, -1, 1], "finite numbers >= 0", "-1.0 for sample 1"),
            ([1, 1, math.nan], "finite numbers >= 0", "nan for sample 2"),
            ([math.inf, 1, 1], "finite numbers >= 0", "inf for sample 0"),
            ([0, 0, 0], "a weight above 0 of a sample that is kept", "none"),
            ([1, 1], "a number for each of the 3 samples", "float64 of shape (2,)"),
            ([1, 1, 1, 1], "a number for each of the 3 samples", "float64 of shape (4,)"),
            (np.ones((3, 1)), "a number for each of the 3 samples", "float64 of shape (3, 1)"),
            (np.ones(3, bool), "a number for each of the 3 samples", "bool of shape (3,)"),
            (np.ones(3, complex), "a number for each of the 3 samples", "complex128 of shape (3,)"),
            (np.array([b"1"] * 3), "a number for each of the 3 samples", "|S1 of shape (3,)"),
            (np.array([1, -1, 1]), "finite numbers >= 0", "-1.0 for sample 1"),
            (np.array([1, 1, WIDE]), "finite numbers >= 0", "inf for sample 2"),
            ([1, 2**2000, 1], "numbers that a float64 can hold", "a larger one"),
        ],
        ids=str,
    )
    def test_wrong_weights_are_refused(self, kind, weights, expected, got):
        with pytest.raises(ConfigError) as caught:
            made({"type": kind, "weights": weights}, 3)
        assert ("/sampler/weights", expected, got) == told(caught)

    @pytest.mark.parametrize(
        "weights",
        [
            [1, 2**70],
            [1, 2**63],
            np.array([1, 2**63], np.uint64),
            np.array([1, 2], np.int8),
            np.array([1, 2], np.float16),
            np.array([1, 2], ">f4"),
            np.array([1, 2], np.longdouble),
            [-0.0, 1],
        ],
        ids=str,
    )
    def test_numbers_of_every_kind_are_weights(self, weights):
        """Each as the nearest float64."""
        plain = {"type": "weighted", "weights": [float(weight) for weight in weights]}
        sampler, expected = made({"type": "weighted", "weights": weights}, 2), made(plain, 2)
        assert (expected.name, whole(expected).tolist()) == (sampler.name, whole(sampler).tolist())

    def test_one_that_float64_has_no_digits_for_is_no_fault_whatever_numpy_raises(self):
        weights = np.array([1, 2, np.finfo(np.longdouble).tiny])
        with np.errstate(all="raise"):
            sampler = made({"type": "weighted", "weights": weights}, 3)
        assert 2 not in whole(sampler)


class TestName:
    """What goes into the state tells one sampler from another, and nothing else."""

    def test_samplers_that_differ_have_different_names(self):
        specs = [
            {"type": kind, option: values, **more}
            for kind, option in (
                ("weighted", "weights"),
                ("weighted_without_replacement", "weights"),
                ("balanced", "labels"),
                ("subset", "indices"),
            )
            for values in ([0, 1, 2, 1], [0, 1, 2, 2], [0, 2, 1, 1])
            for more in ({}, {"num_samples": 2}, {"num_samples": 3}, {"shuffle": True})
            if (kind == "subset") == ("shuffle" in more) or not more
        ]
        # Three lists with two or three variants of each of four kinds.
        names = {made(spec, 4).name for spec in specs}
        assert 3 * (3 + 3 + 3 + 2) == len(specs) == len(names)

    @pytest.mark.parametrize("kind", ["weighted", "weighted_without_replacement", "balanced"])
    def test_it_does_not_depend_on_what_is_excluded(self, kind):
        """Which may change while a run goes on."""
        values = [1, 2, 0, 3, 3]
        spec = {"type": kind, "weights": values, "labels": values}
        names = {made(spec, 5, excluded=gone).name for gone in ([], [0], [3, 4], [1, 2])}
        assert 1 == len(names)


class TestKept:
    @given(n=st.integers(0, 60), data=st.data())
    def test_ranks_count_what_is_left(self, n, data):
        gone = data.draw(st.sets(st.integers(0, max(n - 1, 0)), max_size=n)) if n else set()
        left = [index for index in range(n) if index not in gone]
        kept = kept_of(n, gone)
        assert (len(left), not gone) == (kept.count, kept.all)
        assert left == kept.indices(np.arange(len(left))).tolist()
        ranks = [left.index(index) if index in left else None for index in range(n)]
        assert ranks == [kept.rank(index) for index in range(n)]
        assert left == kept.among(np.arange(n)).tolist()

    def test_a_list_of_which_nothing_is_excluded_is_not_copied(self):
        indices, kept = np.arange(9), kept_of(9, [])
        assert kept.among(indices) is indices is kept.of(indices)

    @given(gone=st.sets(st.integers(0, 10**12 - 1)), rank=st.integers(0, 10**11))
    def test_a_list_of_few_is_as_good_for_a_huge_source(self, gone, rank):
        kept = kept_of(10**12, gone)
        index = int(kept.indices(np.array([rank], np.int64))[0])
        assert (rank, [index]) == (kept.rank(index), kept.among(np.array([index])).tolist())
        assert rank == index - sum(other < index for other in gone)

    @given(st.sets(st.integers(0, 300)))
    def test_a_list_is_the_same_as_text(self, indices):
        array = np.array(sorted(indices), np.int64)
        assert array.tolist() == room.from_text(room.to_text(array), 301).tolist()

    @pytest.mark.parametrize(
        "text",
        ["5", "3-1", "1 1", "2 0-1", "1-2 2-3", "-1", "1-", "x", "1,2", "0-5", "1.0"],
    )
    def test_text_that_is_none_of_ours_is_refused(self, text):
        with pytest.raises(ValueError, match=r"expected ascending|invalid literal"):
            room.from_text(text, 5)

    @pytest.mark.parametrize(
        "text",
        ["+3", "0_1 3", "03", "\u0663", "3-3", "1 2", "0-1 2", "1\n3", "1  3", " 3", "3 ", " "],
    )
    def test_text_of_another_form_than_ours_is_refused(self, text):
        with pytest.raises(ValueError, match=r"expected ascending|expected numbers and ranges"):
            room.from_text(text, 5)


SPECS = [
    {"type": "weighted", "weights": [1, 0, 2, 3, 0.5, 4], "num_samples": 40},
    {"type": "weighted_without_replacement", "weights": [1, 0, 2, 3, 0.5, 4]},
    {"type": "balanced", "labels": [0, 1, 1, 2, 1, 1], "num_samples": 40},
    {"type": "subset", "indices": [5, 3, 3, 0, 3]},
    {"type": "subset", "indices": [5, 3, 3, 0, 3], "shuffle": True},
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("excluded", [[], [3], [0, 5]], ids=str)
def test_find_gives_the_places_at_which_a_sample_comes(spec, excluded):
    """For every sample, the excluded ones too, ascending."""
    sampler = made(spec, 6, 11, excluded)
    for epoch in range(5):
        indices = whole(sampler, epoch)
        for index in range(6):
            expected = np.flatnonzero(indices == index)
            assert expected.tolist() == sampler.order(epoch).find(index).tolist()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("excluded", [[], [0], [2, 3, 9], range(10)], ids=str)
def test_a_plain_order_leaves_out_what_is_excluded(shuffle, excluded):
    """Each other sample comes once; without shuffle in the order of the source."""
    sampler = room.Plain(3, shuffle, kept_of(10, excluded))
    left = [index for index in range(10) if index not in excluded]
    assert sampler.length == len(left)
    indices = whole(sampler, 1).tolist()
    assert left == (sorted(indices) if shuffle else indices)
    assert [[indices.index(it)] if it in left else [] for it in range(10)] == [
        sampler.order(1).find(it).tolist() for it in range(10)
    ]


@pytest.mark.parametrize("golden", GOLDENS["orders"], ids=lambda g: g["name"][:40])
def test_an_order_is_the_one_it_was_when_it_was_written_down(golden):
    """For ever, on every platform, Python and numpy version; and so is its name in a state."""
    sampler = made(golden["sampler"], golden["n"], golden["seed"], golden["exclude"])
    order = sampler.order(golden["epoch"])
    assert (golden["name"], golden["length"]) == (sampler.name, order.n)
    assert golden["indices"] == order.at(np.array(golden["positions"])).tolist()


@given(
    indices=st.builds(
        range, st.integers(0, 9), st.integers(-1, 10), st.sampled_from([1, 2, 7, -1, -3])
    ),
    excluded=st.sets(st.integers(0, 9)),
    asked=st.booleans(),
)
def test_a_range_is_the_order_that_its_list_is(indices, excluded, asked):
    kept = kept_of(10, excluded)
    orders = [
        room.given((lambda epoch, n, it=it: it) if asked else it, 10, kept).order(3)
        for it in (indices, list(indices))
    ]
    first, expected = ([order.n, *map(order.at, np.arange(order.n))] for order in orders)
    assert expected == first
    found, expected = ([order.find(it).tolist() for it in range(10)] for order in orders)
    assert expected == found


def test_a_range_takes_no_memory_however_long_it_is():
    n = min(10**15, sys.maxsize)
    tracemalloc.start()
    try:
        sampler = room.given(range(n - 1, -1, -1), n, kept_of(n, {n - 2}))
        last = sampler.order(0).at(np.array([0, 1, n - 2])).tolist()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ([n - 1, n - 3, 0], n - 1) == (last, sampler.length)
    assert peak < 100_000


@pytest.mark.parametrize(
    ("indices", "got"),
    [
        (range(-1, 3), r"-1 in range\(-1, 3\)"),
        (range(3, -2, -1), r"-1 in range\(3, -2, -1\)"),
        (range(11), r"10 in range\(0, 11\)"),
        (range(2**70, 2**70 + 1), str(2**70)),
    ],
    ids=str,
)
def test_a_range_that_leaves_the_source_is_refused(indices, got):
    for sampler in (indices, lambda epoch, n: indices):
        with pytest.raises(ConfigError, match=rf"sampler: expected indices from 0 to 9, got {got}"):
            room.given(sampler, 10, kept_of(10, ())).order(0)


@pytest.mark.parametrize(
    ("indices", "got"),
    [
        ([2**20_000], "an integer of 20001 bits at position 0"),
        (range(2**20_000, 2**20_000 + 1), "an integer of 20001 bits in a value of type range"),
    ],
    ids=["a list", "a range"],
)
def test_an_index_of_more_digits_than_python_writes_is_told_by_its_bits(indices, got):
    with pytest.raises(ConfigError, match=f"sampler: expected indices from 0 to 9, got {got}"):
        room.given(indices, 10, kept_of(10, ()))


def test_ranges_that_are_equal_have_one_name_and_others_have_another():
    """A state is refused where the name differs. A list of the same indices is another sampler."""
    kept, names = kept_of(5, {2}), {}
    for start, stop, step in itertools.product(range(5), range(-1, 6), (-3, -2, -1, 1, 2, 3)):
        indices = range(start, stop, step)
        name = room.given(indices, 5, kept).name
        assert name == names.setdefault(indices, name)
        assert name != room.given(list(indices), 5, kept).name
    assert len(names) == len(set(names.values()))
    assert "sequence, range(0, 6, 3)" == names[range(0, 4, 3)]


def test_one_index_may_stand_in_a_range_of_any_step():
    assert [4] == whole(room.given(range(4, 2**80, 2**80), 10, kept_of(10, {5}))).tolist()


def test_a_mask_is_never_lost_without_a_word():
    """What somebody has masked out is not to be loaded, and no class of its own."""
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    with pytest.raises(ConfigError, match="a masked array, whose mask would be lost"):
        checked(masked, 10, "/sampler")
    with pytest.raises(ConfigError, match="expected labels without a mask"):
        classes(masked, 3, "/sampler/field", kept_of(3))


@pytest.mark.parametrize("kind", ["weighted", "weighted_without_replacement", "balanced"])
def test_too_few_labels_or_weights_are_an_error_however_many_samples_there_are(kind):
    """Nothing takes memory for each sample before they are counted."""
    spec = {"type": kind, "labels": [0, 1], "weights": [0, 1]}
    with pytest.raises(ConfigError, match=f"for each of the {10**13} samples"):
        room.configured(spec, 10**13, 0, kept_of(10**13))


@pytest.mark.parametrize("kind", ["weighted", "weighted_without_replacement", "balanced", "subset"])
def test_indices_are_int64_where_places_in_an_array_are_not(monkeypatch, kind):
    """As on a system of 32 bits; what is drawn is the same there."""
    spec = {"type": kind, "labels": [0, 1, 0, 1], "weights": [1, 2, 3, 4], "indices": [3, 1, 0]}

    def orders():
        sampler = room.configured(spec, 4, 0, kept_of(4))
        found = [sampler.order(0).find(index) for index in range(4)]
        return whole(sampler), np.concatenate(found)

    wide = orders()
    for name in ("flatnonzero", "argsort", "lexsort"):
        monkeypatch.setattr(np, name, narrowed(getattr(np, name)))
    narrow = orders()
    assert [it.tolist() for it in wide] == [it.tolist() for it in narrow]
    assert {np.dtype(np.int64)} == {it.dtype for it in (*wide, *narrow)}


def narrowed(function):
    return lambda *args, **options: function(*args, **options).astype(np.int32)


def test_options_of_a_sampler_given_in_code_are_told_where_they_stand():
    with pytest.raises(ConfigError, match="its options stand in the config, as in"):
        Loader({}, range(4), sampler={"type": "subset", "indices": [1]}).__enter__()
