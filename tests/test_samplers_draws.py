"""Each draw has its exact chance, whatever the position, and the same bits on every platform."""

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from draws import expected_bits, fits
from hypothesis import example, given
from hypothesis import strategies as st
from made_samplers import GOLDENS
from scores import counted

from threadloader.samplers._draws import bits, minus_log, uniform

keys = st.integers(0, 2**128 - 1)
places = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20)


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
