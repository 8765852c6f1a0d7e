"""The global order of an epoch: a keyed permutation.

Up to `SMALL` samples it is a sort of raw Philox draws, which is a uniform permutation but for ties
of 64-bit draws. Above, it is a keyed bijection, so that it needs no memory (but two bytes a sample
up to 65,536 samples, for speed) and any position can be had at once: an alternating Feistel network
of `ROUNDS` rounds on the smallest 2**k >= n, walked along its cycle until it falls below n. M. Luby
and C. Rackoff, "How to construct pseudorandom permutations from pseudorandom functions" (1988), for
the network and its analysis; J. Black and P. Rogaway, "Ciphers with arbitrary finite domains"
(2002), for the walk and its analysis. The round function is two odd multiplications and a shift-xor
in 32 bits, keyed by raw draws of Philox: J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel
random numbers: as easy as 1, 2, 3" (2011). numpy guarantees that raw stream between its versions,
and `Generator.permutation` not; `_philox` makes it here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._philox import draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:  # the function that `hashlib` gives, without OpenSSL, which is 3.5 MiB
    from _blake2 import blake2b
except ImportError:  # pragma: no cover - a Python whose `hashlib` has it from elsewhere
    from hashlib import blake2b

__all__ = ["LONGEST", "SMALL", "VERSION", "Indices", "Order", "key"]

VERSION = 1
"""Version of the arithmetic below; a state of another one is refused."""

LONGEST = min(1 << 62, sys.maxsize)
"""Samples of a source, at most: with what is added to deal them to shards, int64 holds every
position (the schema bounds `num_samples` alike); and `len` can tell them, on a 32-bit system."""

SMALL = 8192
"""Up to here an order is sorted (0.4 ms), above it is computed where it is needed."""

ROUNDS = 8
"""Four make a pseudorandom permutation of ideal rounds; ours are not ideal and a half has
as little as seven bits, so twice that."""


def _word(value: int) -> Any:
    """Give 32 bits as an array of shape ().

    Each operation makes such an array of a scalar anew, which was a tenth of an order's time.
    """
    return np.array(value, np.uint32)


MIX = _word(0x85EBCA6B)
"""Odd multiplier that spreads the low bits of a half over the high ones; any odd number
without a pattern serves."""

FOLD = _word(15)
"""By how much the high bits are folded onto the low ones: about half the word, so that every
bit of a half reaches the bits that are kept."""

CHUNK = 16384
"""Values permuted together: they and the results between, 384 KiB, stay in a core's own cache."""

BYTE_BITS = 16
"""Up to so many bits of a position a half is a byte at most. What a round makes of a half is then
looked up in a table of 256, for the whole order at once, in two thirds of the time
(docs/design.md)."""

MANY = 4096
"""Positions that have to be asked for together before the whole order is worked out."""

Indices: TypeAlias = "NDArray[np.int64]"


def key(purpose: str, seed: int, epoch: int, n: int = 0) -> int:
    """Give the 128-bit key of a random stream.

    Hashing, and not adding, keeps seed s in epoch 1 apart from seed s + 1 in epoch 0.

    Args:
        purpose: what the stream is for; streams of two purposes are unrelated.
        seed: 0 to 2**64 - 1.
        epoch: 0 to 2**64 - 1.
        n: number of samples, 0 to 2**64 - 1.

    >>> key("order", 0, 1) == key("order", 1, 0)
    False
    """
    words = b"".join(word.to_bytes(8, "little") for word in (seed, epoch, n))
    digest = blake2b(words, digest_size=16, person=purpose.encode()).digest()
    return int.from_bytes(digest, "little")


class Order:
    """The global order of one epoch: a dataset index for each position.

    Args:
        n: number of samples, 0 to `LONGEST`.
        seed: seed of the run.
        epoch: number of the epoch, from 0.
        shuffle: whether to permute; otherwise position i holds sample i.

    >>> Order(5, seed=0, epoch=0, shuffle=False).at(np.arange(5))
    array([0, 1, 2, 3, 4])
    """

    __slots__ = ("_bits", "_keys", "_scratch", "_table", "n")

    def __init__(self, n: int, *, seed: int, epoch: int, shuffle: bool) -> None:
        self.n = n
        self._table: NDArray[Any] | None = None
        self._keys: list[tuple[Any, Any]] = []
        # Memory for the results between, used again: the C library gives arrays of this size back
        # to the system each time, and new pages take a fifth of the time. A thread takes it out of
        # the list while it uses it, since several may ask.
        self._scratch: list[NDArray[np.uint32]] = []
        self._bits = max(n - 1, 1).bit_length()
        if not shuffle:
            return
        stream = key("order", seed, epoch, n)
        if n <= SMALL:
            # Stable: ties, if they ever come, fall alike on every platform.
            self._table = np.argsort(draws(stream, n), kind="stable").astype(np.int64)
        else:
            # An odd multiplier loses no bit of what it multiplies.
            self._keys = [
                (_word(draw & 0xFFFFFFFF | 1), _word(draw >> 32))
                for draw in draws(stream, ROUNDS).tolist()
            ]

    def at(self, positions: Indices) -> Indices:
        """Give the dataset indices at some positions.

        Args:
            positions: int64 array of positions in [0, n), any shape.

        Returns:
            int64 array of the same shape, a new one.
        """
        if self._table is None and self._bits <= BYTE_BITS and positions.size > MANY and self._keys:
            self._table = self._listed()  # two threads that come here at once make the same
        if self._table is not None:
            return self._table[positions].astype(np.int64, copy=False)
        return self._walk(positions) if self._keys else positions.copy()

    def find(self, index: int) -> Indices:
        """Give the positions at which a sample comes: one, as int64 array of shape (1,).

        Args:
            index: a dataset index in [0, n).
        """
        if self._table is not None:
            return np.flatnonzero(self._table == index).astype(np.int64, copy=False)
        here = np.array([index], np.int64)
        return self._walk(here, backwards=True) if self._keys else here

    def _listed(self) -> NDArray[np.uint16]:
        """Give the whole order, as `_walk` would, where each half is a byte at most."""
        low_bits = (self._bits + 1) // 2
        high_bits = self._bits - low_bits
        lows, highs = np.arange(1 << low_bits, dtype=np.uint32), np.arange(1 << high_bits)
        low = np.tile(lows.astype(np.uint8), 1 << high_bits)
        high = highs.astype(np.uint8).repeat(1 << low_bits)
        for number, (factor, offset) in enumerate(self._keys):
            read, changed, keep = (high, low, low_bits) if number % 2 else (low, high, high_bits)
            x = lows * factor
            x += offset
            x ^= x >> FOLD
            x *= MIX
            x >>= _word(32 - keep)
            table = x.astype(np.uint8).tobytes().ljust(256)
            # A bytearray's translate takes half as long as that of bytes, which also looks out for
            # bytes that stay as they are.
            changed ^= np.frombuffer(bytearray(read).translate(table), np.uint8)
        permuted = high.astype(np.uint16)
        permuted <<= low_bits
        permuted |= low
        walked = permuted[: self.n]  # in place: the walk asks only for what lies after these
        outside = np.flatnonzero(walked >= self.n)
        while outside.size:
            again = permuted[walked[outside]]
            walked[outside] = again
            outside = outside[again >= self.n]
        return walked

    def _walk(self, values: Indices, *, backwards: bool = False) -> Indices:
        """Permute 0 .. n - 1 by a permutation of 0 .. 2**k - 1.

        A value that falls outside goes on along its cycle, which leads back inside; since
        2**k < 2n, about half of those outside, at worst, stay there in each round.
        """
        walked = values.ravel().astype(np.uint64)
        try:
            scratch = self._scratch.pop()
        except IndexError:  # the first time, or another thread has it
            scratch = np.empty((4, CHUNK), np.uint32)
        self._permute(walked, scratch, backwards=backwards)
        n = np.uint64(self.n)
        outside = np.flatnonzero(walked >= n)
        while outside.size:
            again = walked[outside]
            self._permute(again, scratch, backwards=backwards)
            walked[outside] = again
            outside = outside[again >= n]
        self._scratch.append(scratch)
        return walked.view(np.int64).reshape(values.shape)

    def _permute(
        self, values: NDArray[np.uint64], scratch: NDArray[np.uint32], *, backwards: bool
    ) -> None:
        """Permute 0 .. 2**k - 1 in place: one half is changed by a function of the other, in turn.

        A half has at most 31 bits; 32-bit words are twice as fast as 64-bit ones. Unsigned
        arrays wrap around, as meant. Going backwards undoes the rounds, last one first.
        """
        rounds = list(enumerate(self._keys))
        if backwards:
            rounds.reverse()
        for begin in range(0, len(values), CHUNK):
            chunk = values[begin : begin + CHUNK]
            self._permute_chunk(chunk, scratch[:, : len(chunk)], rounds)

    def _permute_chunk(
        self,
        values: NDArray[np.uint64],
        scratch: NDArray[np.uint32],
        rounds: list[tuple[int, tuple[Any, Any]]],
    ) -> None:
        """Permute at most `CHUNK` values, by numbered rounds in the order of their use."""
        low_bits = (self._bits + 1) // 2
        high_bits = self._bits - low_bits
        low, high, x, folded = scratch
        np.bitwise_and(values, np.uint64((1 << low_bits) - 1), out=low, casting="unsafe")
        np.right_shift(values, np.uint64(low_bits), out=high, casting="unsafe")
        keep_low, keep_high = _word(32 - low_bits), _word(32 - high_bits)
        for number, (factor, offset) in rounds:
            read, changed, keep = (high, low, keep_low) if number % 2 else (low, high, keep_high)
            np.multiply(read, factor, x)
            np.add(x, offset, x)
            np.right_shift(x, FOLD, folded)
            np.bitwise_xor(x, folded, x)
            np.multiply(x, MIX, x)
            np.right_shift(x, keep, x)
            np.bitwise_xor(changed, x, changed)
        values[:] = high
        values <<= np.uint64(low_bits)
        values |= low
