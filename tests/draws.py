"""What samplers draw, worked out in Python's integers, and whether counts look like chances."""

import numpy as np
from scores import of_counts
from splitmix import GOLDEN, mix

# A standard normal score lies outside of this once in 300,000 times. The seeds are fixed, so
# a test that passes goes on passing; what it must see is far outside.
LIMIT = 4.5


def fits(counts, chances):
    """Whether counts look like draws of these chances, neither too far off nor too near."""
    counts, chances = np.asarray(counts), np.asarray(chances, float)
    expected = counts.sum() * chances / chances.sum()
    assert (expected > 8).all()
    return abs(of_counts(counts, expected, len(counts) - 1)) < LIMIT


def expected_bits(key, position, number):
    """The random bits of a position, in Python's integers."""
    low, high = key % 2**64, key >> 64
    return mix(mix((position + low) % 2**64) ^ (high + number * GOLDEN) % 2**64)
