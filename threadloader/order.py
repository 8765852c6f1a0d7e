"""Which samples come, in what order, and which shard gets them.

Everything here is integer arithmetic on (seed, epoch, n) and a position: no
state, no thread, no clock. An epoch's *global order* is one sequence of dataset
indices for the whole world; a *position* counts along it from 0; `Deal` cuts
it into the batches of one shard.

The shuffle. Up to `SMALL` samples the order is a sort of raw Philox draws, which
is a uniform permutation but for ties of 64-bit draws. Above, it is a keyed
bijection, so that it needs no memory and any position can be had at once: an
alternating Feistel network of `ROUNDS` rounds on the smallest 2**k >= n, walked
along its cycle until it falls below n. M. Luby and C. Rackoff, "How to construct
pseudorandom permutations from pseudorandom functions" (1988), for the network;
J. Black and P. Rogaway, "Ciphers with arbitrary finite domains" (2002), for the
walk and its analysis. The round function is two odd multiplications and a
shift-xor in 64 bits, keyed by raw draws of Philox: J. Salmon, M. Moraes, R. Dror
and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). numpy
guarantees that raw stream between its versions, and `Generator.permutation` not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["VERSION", "Deal", "Order", "Share", "key"]

VERSION = 1
"""Version of the arithmetic below; a state of another one is refused."""

SMALL = 8192
"""Up to here an order is sorted (0.4 ms), above it is computed where it is needed."""

ROUNDS = 8
"""Four make a pseudorandom permutation of ideal rounds; ours are not ideal and a half has
as little as seven bits, so twice that."""

MIX = np.uint64(0xD6E8FEB86659FD93)
"""Odd multiplier that spreads the low bits of a half over the high ones; any odd number
without a pattern serves."""

BLOCK = 16384
"""Positions computed together: enough to spread numpy's cost of a call, and arrays of
128 KiB, above which malloc gives each a fresh mapping and the time doubles."""

Indices = NDArray[np.int64]


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
    digest = hashlib.blake2b(words, digest_size=16, person=purpose.encode()).digest()
    return int.from_bytes(digest, "little")


class Order:
    """The global order of one epoch: a dataset index for each position.

    Args:
        n: number of samples, 0 to 2**62.
        seed: seed of the run.
        epoch: number of the epoch, from 0.
        shuffle: whether to permute; otherwise position i holds sample i.

    >>> Order(5, seed=0, epoch=0, shuffle=False).at(np.arange(5))
    array([0, 1, 2, 3, 4])
    """

    __slots__ = ("_bits", "_keys", "_table", "n")

    def __init__(self, n: int, *, seed: int, epoch: int, shuffle: bool) -> None:
        self.n = n
        self._table: Indices | None = None
        self._keys: list[tuple[Any, Any]] = []
        self._bits = max(n - 1, 1).bit_length()
        if not shuffle:
            return
        stream = np.random.Philox(key=key("order", seed, epoch, n))
        if n <= SMALL:
            # Stable: ties, if they ever come, fall alike on every platform.
            self._table = np.argsort(stream.random_raw(n), kind="stable").astype(np.int64)
        else:
            draws = stream.random_raw(2 * ROUNDS)
            # An odd multiplier loses no bit of what it multiplies.
            self._keys = [(draws[i] | np.uint64(1), draws[i + 1]) for i in range(0, 2 * ROUNDS, 2)]

    def at(self, positions: Indices) -> Indices:
        """Give the dataset indices at some positions.

        Args:
            positions: int64 array of positions in [0, n), any shape.

        Returns:
            int64 array of the same shape, a new one.
        """
        if self._table is not None:
            return self._table[positions]
        if not self._keys:
            return positions.copy()
        values = self._permute(positions.ravel().astype(np.uint64))
        n = np.uint64(self.n)
        # A value outside goes on along its cycle, which leads back inside; 2**k < 2n, so
        # about half of those outside, at worst, stay there in each round.
        while (outside := np.flatnonzero(values >= n)).size:
            values[outside] = self._permute(values[outside])
        return values.astype(np.int64).reshape(positions.shape)

    def _permute(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Permute 0 .. 2**k - 1: one half is changed by a function of the other, in turn."""
        low_bits = np.uint64((self._bits + 1) // 2)
        high_bits = np.uint64(self._bits) - low_bits
        low = values & ((np.uint64(1) << low_bits) - np.uint64(1))
        high = values >> low_bits
        for number, (factor, offset) in enumerate(self._keys):
            if number % 2:
                _round(high, low, factor, offset, np.uint64(64) - low_bits)
            else:
                _round(low, high, factor, offset, np.uint64(64) - high_bits)
        high <<= low_bits
        high |= low
        return high


def _round(
    read: NDArray[np.uint64], changed: NDArray[np.uint64], factor: Any, offset: Any, shift: Any
) -> None:
    """Change one half by a keyed function of the other; unsigned arrays wrap, as meant."""
    x = read * factor
    x += offset
    x ^= x >> np.uint64(32)
    x *= MIX
    x >>= shift
    changed ^= x


class Share(NamedTuple):
    """What one shard gets in one step, each of shape (rows,).

    Attributes:
        indices: int64, the dataset index of each row.
        positions: int64, the position of each row in the global order.
        valid: bool, False where the row is padding.
    """

    indices: Indices
    positions: Indices
    valid: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Deal:
    """How the global order is dealt to the shards.

    Step t of the world takes batch_size * shard_count positions, a slice for each
    shard in turn. The tail that is too short for that is left out (`drop_last`), or
    dealt by `remainder`: "pad" cuts it into equal parts, the missing positions taken
    from the start of the order; "drop" cuts it into equal parts and leaves out what is
    over; "keep" gives earlier shards one more and adds and loses nothing.

    Every method takes `start`, the position where dealing begins: 0, or where a run was
    cut. What remains from there on is dealt as if it were the whole, but padding still
    comes from the start of the epoch's order.
    """

    batch_size: int = 32
    shard_index: int = 0
    shard_count: int = 1
    remainder: str = "pad"
    drop_last: bool = False

    @property
    def global_batch(self) -> int:
        """Positions that the world takes in a step."""
        return self.batch_size * self.shard_count

    def _tail(self, n: int, start: int) -> tuple[int, int, int, int]:
        """Give this shard's part of the tail.

        Returns:
            First and last position (exclusive) of the part, of which those from n on are
            padding; the size of the largest part of any shard; the tail's own start.
        """
        remaining = n - start
        begin = start + remaining - remaining % self.global_batch
        tail = n - begin
        if self.drop_last:
            tail = 0
        r, count = self.shard_index, self.shard_count
        if self.remainder == "keep":
            size, extra = divmod(tail, count)
            first = begin + r * size + min(r, extra)
            return first, first + size + (r < extra), size + (extra > 0), begin
        size = -(-tail // count) if self.remainder == "pad" else tail // count
        return begin + r * size, begin + (r + 1) * size, size, begin

    def steps(self, n: int, start: int = 0) -> int:
        """Count the steps of this shard from `start` to the end of an epoch of n."""
        first, last, _, begin = self._tail(n, start)
        return (begin - start) // self.global_batch + (last > first)

    def after(self, n: int, start: int, steps: int) -> int | None:
        """Give the world's position after some steps; None when the epoch is over.

        The same on every shard. It is over after the last step that any shard makes.
        """
        _, _, largest, begin = self._tail(n, start)
        full = (begin - start) // self.global_batch
        if steps >= full + (largest > 0):
            return None
        return start + steps * self.global_batch

    def shares(self, order: Order, start: int = 0) -> Iterator[Share]:
        """Give this shard's part of each step, from `start` to the end of the epoch.

        The arrays are read-only views of larger ones.
        """
        size, step = self.batch_size, self.global_batch
        first, last, _, begin = self._tail(order.n, start)
        together = max(1, BLOCK // size)
        mine = self.shard_index * size
        for block in range(start, begin, together * step):
            if block == start:  # not before: a batch may be far larger than the epoch
                row = np.arange(size, dtype=np.int64)
                valid = _frozen(np.ones(size, np.bool_))
            starts = np.arange(block, min(block + together * step, begin), step, dtype=np.int64)
            positions = _frozen((starts + mine)[:, np.newaxis] + row)
            indices = _frozen(order.at(positions))
            for here, there in zip(indices, positions, strict=True):
                yield Share(here, there, valid)
        if last > first:
            positions = np.arange(first, last, dtype=np.int64)
            valid = _frozen(positions < order.n)
            positions = _frozen(np.where(valid, positions, (positions - order.n) % order.n))
            yield Share(_frozen(order.at(positions)), positions, valid)


def _frozen(array: NDArray[Any]) -> Any:
    """Make an array read-only: it is shared by batches and handed to users."""
    array.flags.writeable = False
    return array
