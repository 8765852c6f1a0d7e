"""Samples come as often as their weights say, exactly; weights that say nothing are refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from draws import expected_bits, fits
from hypothesis import example, given
from hypothesis import strategies as st
from made_samplers import made, told, whole
from scores import counted
from splitmix import mix
from strategies import epochs, seeds

from threadloader import ConfigError
from threadloader.samplers._weighted import Alias, in_weighted_order

# More than a float64 holds, where the system has a wider float; else infinite as it stands.
WIDE = np.nextafter(np.longdouble(math.inf), np.longdouble(0))
WIDE = WIDE if np.isinf(np.float64(str(WIDE))) else np.longdouble(math.inf)

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
            tuple(in_weighted_order(table, len(chosen), mix(seed)).tolist()) for seed in range(4000)
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
