"""Random numbers for a position: a pure function of key, position and number of the draw.

Integer arithmetic alone, and float operations that IEEE 754 rounds correctly, so that they
are the same on every platform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["bits", "minus_log", "uniform"]

Bits = NDArray[np.uint64]

_WORD = 2**64 - 1
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_GOLDEN = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio, made odd: it keeps the keys of two draws far apart."""


def bits(key: int, positions: NDArray[np.int64], number: int) -> Bits:
    """Give 64 random bits for each position, int64 of any shape, by a key of 128 bits.

    The finalizer of SplitMix64, twice, each time under a half of the key: G. Steele,
    D. Lea and C. Flood, "Fast splittable pseudorandom number generators" (2014). ``number``
    says which of a position's draws it is, from 0.
    """
    x = positions.astype(np.uint64)
    x += np.uint64(key & _WORD)
    _mix(x)
    x ^= np.uint64(((key >> 64) + number * _GOLDEN) & _WORD)
    _mix(x)
    return x


def _mix(x: Bits) -> None:
    """Spread every bit over all, in place; unsigned arrays wrap around, as meant."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)


def uniform(
    key: int, positions: NDArray[np.int64], count: int | NDArray[np.int64], number: int
) -> NDArray[np.int64]:
    """Give an integer in [0, count) for each position, each exactly equally likely.

    D. Lemire, "Fast random integer generation in an interval" (2019): the high word of a
    product, drawn again in the rare case that its low word shows a value too often.

    Positions are int64, shape (m,). The count, from 1 to 2**63 - 1, is one for all, or one for
    each. ``number`` is which of a position's draws; what is drawn again has number + 64, + 128, ...
    """
    counts = np.broadcast_to(np.asarray(count, np.uint64), positions.shape)
    chosen = np.empty(positions.shape, np.int64)
    left = np.arange(len(positions))
    while left.size:
        wanted = counts[left]
        draws = bits(key, positions[left], number)
        high = _high_word(draws, wanted)
        # 2**64 mod count values of the low word would be one too many.
        fair = draws * wanted >= (np.uint64(0) - wanted) % wanted
        chosen[left[fair]] = high[fair].view(np.int64)
        left = left[~fair]
        number += 64
    return chosen


def _high_word(a: Bits, b: Bits) -> Bits:
    """The high 64 bits of a * b, by halves."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    one, other = a_high * b_low, a_low * b_high
    middle = (a_low * b_low >> _HALF) + (one & _LOW) + (other & _LOW)
    high: Bits = a_high * b_high + (one >> _HALF) + (other >> _HALF) + (middle >> _HALF)
    return high


_LN_2 = 0.6931471805599453


def minus_log(draws: Bits) -> NDArray[np.float64]:
    """Give -ln(u) for a u made of the highest 52 bits of each draw, so that 0 < u < 1.

    Of +, -, * and / alone, each correctly rounded everywhere, where the logarithm of the C
    library may differ in the last bit from platform to platform: ln m = 2 artanh(s) with
    s = (m - 1) / (m + 1), a series in s**2 <= 0.03.
    """
    # 52 bits, since to add the half takes one more: with 53 the sum would be rounded, up to 1.
    u = ((draws >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    m, exponent = np.frexp(u)
    small = m < 0.7071067811865476
    m[small] *= 2.0
    powers = exponent - small
    s: Any = (m - 1.0) / (m + 1.0)
    z = s * s
    series = np.full_like(z, 1.0 / 25)
    for odd in range(23, 0, -2):
        series *= z
        series += 1.0 / odd
    result: NDArray[np.float64] = -(2.0 * s * series + powers * _LN_2)
    return result
