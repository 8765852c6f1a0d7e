"""What samplers draw, worked out in Python's integers, and whether counts look like chances."""

import numpy as np
from scores import of_counts

# A standard normal score lies outside of this once in 300,000 times. The seeds are fixed, so
# a test that passes goes on passing; what it must see is far outside.
LIMIT = 4.5


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
