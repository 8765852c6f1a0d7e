"""Raw draws of Philox 4x64 with ten rounds, as `numpy.random.Philox` gives them.

J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(2011), whose constants these are. Written out here since numpy imports its module of random
numbers when it is first asked for: 11 ms, and 6 MiB with the OpenSSL that comes along, in front
of the first batch of a loader that needs a few draws an epoch. Where something else has imported
it, its own are taken, in a tenth of the time (but for the fewest draws).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draws", "own_draws"]

FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
"""What is added to the two words of the key after each round."""

ROUNDS = 10

WORD = (1 << 64) - 1

FEWEST, FEW = 3, 32
"""Blocks of four draws up to which Python's integers, 4 us a block, are as fast as numpy's own
stream; and those up to which they are faster than arrays."""


def draws(key: int, count: int) -> NDArray[np.uint64]:
    """Give the first draws of a stream.

    Args:
        key: 0 to 2**128 - 1.
        count: how many, from 0.

    Returns:
        uint64 array of shape (count,), a new one.

    >>> draws(6, 4) == np.random.Philox(key=6).random_raw(4)
    array([ True,  True,  True,  True])
    """
    # None where it is not imported, or still being imported by another thread.
    numpys: Any = getattr(sys.modules.get("numpy.random._philox"), "Philox", None)
    if count <= 4 * FEWEST or numpys is None:
        return own_draws(key, count)
    raw: NDArray[np.uint64] = numpys(key=key).random_raw(count)
    return raw


def own_draws(key: int, count: int) -> NDArray[np.uint64]:
    """Give what `draws` does, by the arithmetic that stands here."""
    keys = [
        ((key + number * STEPS[0]) & WORD, ((key >> 64) + number * STEPS[1]) & WORD)
        for number in range(ROUNDS)
    ]
    blocks = -(-count // 4)
    if blocks <= FEW:
        words = [word for number in range(blocks) for word in _block(keys, number + 1)]
        return np.array(words[:count], np.uint64)
    return _blocks(keys, blocks).T.ravel()[:count]


def _block(keys: list[tuple[int, int]], counter: int) -> tuple[int, int, int, int]:
    """Give the four draws at a count, which begins at 1."""
    a, b, c, d = counter, 0, 0, 0
    for first, second in keys:
        p, q = FACTORS[0] * a, FACTORS[1] * c
        a, b, c, d = q >> 64 ^ b ^ first, q & WORD, p >> 64 ^ d ^ second, p & WORD
    return a, b, c, d


def _blocks(keys: list[tuple[int, int]], count: int) -> NDArray[np.uint64]:
    """Give the draws at the counts 1 to count, of shape (4, count).

    Both products of a round are made at once; `even` holds words 0 and 2, `odd` 1 and 3.
    """
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    factors = np.array(FACTORS, np.uint64)[:, None]
    factors_low, factors_high = factors & low, factors >> half
    even, odd = np.zeros((2, count), np.uint64), np.zeros((2, count), np.uint64)
    even[0] = np.arange(1, count + 1, dtype=np.uint64)
    for words in keys:
        # The upper word of a product of two words, from four products of their halves; none
        # of the sums can overflow.
        below, above = even & low, even >> half
        carried = (below * factors_low) >> half
        carried += above * factors_low
        middle = below * factors_high
        middle += carried & low
        upper = above * factors_high
        upper += carried >> half
        upper += middle >> half
        lower = even * factors  # wraps around, as meant
        even = upper[::-1] ^ odd
        even ^= np.array(words, np.uint64)[:, None]
        odd = lower[::-1]
    return np.stack((even[0], odd[0], even[1], odd[1]))
