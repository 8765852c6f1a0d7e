"""Which tokens are hidden, and by what: integer arithmetic on many sequences at once.

Each token has a number below 2**63. It is *chosen* if that is below ``probability * 2**63``.
The lowest tenth of the numbers of chosen tokens means a random token, the next tenth that
the token stays, and all others the mask token.

In the loader a number depends on the seed of its sequence and on its place there, and on
nothing else. It is made by SplitMix64: G. Steele, D. Lea and C. Flood, "Fast splittable
pseudorandom number generators" (2014). A word of the sequence's stream serves 8 tokens, with
a byte for each: the 8 highest bits of its number. These say of most tokens what becomes of
them; for the others the word, in which the token's place among the 8 has been marked, is
mixed once more and gives the other 55 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError

__all__ = ["Bits", "Hiding", "Integers", "Places", "seeds_of", "words_of"]

Bits = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]
"""Where something is in an array, or how much of it: `numpy.take` and `repeat` refuse int64 on a
32-bit system."""

_WORD = 2**64 - 1
_LITTLE = np.dtype("<u8")


def _number(value: int) -> Bits:
    """Give 64 bits as an array of shape ().

    Of a scalar each operation would make one anew, a quarter of its time where arrays are small.
    """
    return np.array(value, np.uint64)


_GOLDEN = _number(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio, made odd: from one word of a stream to the next."""

_BITS = 63
"""Bits of a number: one less than of a word, so that the end of all numbers fits into one."""
_OWN = _BITS - 8
"""Those of them that do not come from the word that a token shares with seven others."""


def seeds_of(key: int, positions: Integers) -> Bits:
    """Give the seed of the sequence at each position, int64 (rows,), by a key of 128 bits."""
    seeds = positions.astype(np.uint64)
    seeds += np.uint64(key & _WORD)
    _mix(seeds)
    seeds ^= np.uint64(key >> 64)
    return seeds


def words_of(rng: Any, count: int) -> Bits:
    """Give words of a generator's raw stream.

    A ConfigError: it is none of numpy's, or its words have 32 bits: half of each would be 0.
    """
    bits: Any = getattr(rng, "bit_generator", None)
    short = type(bits).__name__ == "MT19937"
    if short or not hasattr(bits, "random_raw"):
        got = "one over MT19937" if short else type(rng).__name__
        expected = "a numpy.random.Generator whose words have 64 bits"
        raise ConfigError(Problem("rng", expected, got, "numpy.random.default_rng(seed) is one"))
    words: Bits = bits.random_raw(count)
    return words


def _mix(x: Bits) -> None:
    """Spread every bit over all, in place; unsigned arrays wrap around, as meant."""
    x ^= x >> _30
    x *= _FIRST
    x ^= x >> _27
    x *= _SECOND
    x ^= x >> _31


_1, _9, _27, _30, _31, _55, _61 = map(_number, (1, 9, 27, 30, 31, 55, 61))  # numbers of bits
_FIRST, _SECOND = _number(0xBF58476D1CE4E5B9), _number(0x94D049BB133111EB)


class Hiding:
    """What may be hidden, how often, and what takes its place. Only read once it is made.

    Special tokens are never chosen and never drawn; nor is the mask token, which takes the place
    of most tokens that are chosen.

    Attributes:
        ordinary: int32, the tokens that are neither special nor the mask token.
    """

    def __init__(
        self, vocabulary: int, mask_token: int, special: Sequence[int], probability: float
    ) -> None:
        self._vocabulary = vocabulary
        self._mask_token = mask_token
        self._may_hide = np.ones(vocabulary, np.bool_)
        self._may_hide[[mask_token, *special]] = False
        self.ordinary = np.flatnonzero(self._may_hide).astype(np.int32)
        self._count = _number(len(self.ordinary))
        # A token whose number is below these becomes a random one, is kept, is chosen at all.
        chosen = round(probability * 2**_BITS)
        tenth = (chosen + 5) // 10
        self._random, self._kept, self._chosen = map(_number, (tenth, 2 * tenth, chosen))
        # The top byte of the largest number that is chosen, and of one that is random or kept.
        self._highest, self._bound = (
            np.array(max(end - 1, 0) >> _OWN, np.uint8) for end in (chosen, 2 * tenth)
        )

    def outside(self, tokens: Integers) -> bool:
        """Tell whether one of these, int64, C-contiguous, is no token of the vocabulary."""
        # Seen as unsigned, a negative number is a very large one: one pass finds both.
        return tokens.size > 0 and int(tokens.view(np.uint64).max()) >= self._vocabulary

    def refusal(self, rows: Sequence[npt.NDArray[Any]]) -> SourceError:
        """Give the error for the first in these rows that is no token of the vocabulary."""
        wrong = (
            (place, token)
            for row in rows
            for place, token in enumerate(row.reshape(-1).tolist())
            if not 0 <= token < self._vocabulary
        )
        place, token = next(wrong)
        return SourceError(
            f"mlm: expected a token, 0 to {self._vocabulary - 1}, got {token}; "
            'give the "vocabulary" that the tokens were made with',
            place=f"position {place}",
        )

    def hide(
        self, tokens: Integers, starts: Places, sizes: Places, seeds: Bits
    ) -> tuple[Places, Integers]:
        """Hide tokens of sequences in place, by numbers that their seeds give.

        Args:
            tokens: int64, shape (length,), which holds the sequences. What else it holds is
                not changed, and need not be tokens.
            starts: intp, shape (rows,), where each sequence begins.
            sizes: intp, shape (rows,), tokens of each.
            seeds: uint64, shape (rows,).

        Returns:
            The places in `tokens` of the chosen ones, intp, and what they were, int64: (chosen,).
        """
        counts = (sizes + 7) >> 3
        ends = counts.cumsum()
        firsts = ends - counts
        # The words of all sequences, one after the other; each stream begins at its seed.
        words = np.arange(ends[-1], dtype=np.uint64)
        words *= _GOLDEN
        words += (seeds - firsts.astype(np.uint64) * _GOLDEN).repeat(counts)
        _mix(words)
        shared = words.astype(_LITTLE, copy=False).view(np.uint8)

        lanes = (shared <= self._highest).nonzero()[0]
        at = lanes >> 3
        places = lanes + (starts - 8 * firsts).repeat(counts)[at]
        # The last word of a sequence may have bytes for more tokens than there are. What
        # stands in those places is looked at, whatever it is, and then passed over.
        there = tokens.take(places, mode="clip").astype(np.intp, copy=False)
        chosen = self._may_hide.take(there, mode="clip")
        chosen &= places < (starts + sizes).repeat(counts)[at]

        # For most of these the byte says all: they become the mask token. Others need their number.
        high = shared[lanes]
        unsure = ((high <= self._bound) | (high == self._highest)).nonzero()[0]
        lanes = lanes[unsure]
        numbers = words[lanes >> 3]
        numbers ^= lanes.astype(np.uint64) << _61  # its lowest 3 bits: which of the 8
        _mix(numbers)
        numbers >>= _9
        numbers |= high[unsure].astype(np.uint64) << _55

        chosen[unsure] &= numbers < self._chosen
        shown = chosen[unsure] & (numbers < self._kept)
        return self._replace(tokens, places[chosen], places[unsure[shown]], numbers[shown])

    def hide_by(self, tokens: Integers, words: Bits) -> tuple[Places, Integers]:
        """Hide tokens of one sequence, int64 (size,), in place, by random words, uint64 (size,).

        The highest 63 bits of each word are a number. It gives what `hide` gives.
        """
        numbers = words >> _1
        places = ((numbers < self._chosen) & self._may_hide[tokens]).nonzero()[0]
        shown = places[numbers[places] < self._kept]
        return self._replace(tokens, places, shown, numbers[shown])

    def _replace(
        self, tokens: Integers, places: Places, shown: Places, numbers: Bits
    ) -> tuple[Places, Integers]:
        """Put the mask token in the place of each chosen token, or what it is to have instead.

        At ``shown``, some of ``places``, that is a random token or the original, by ``numbers``.
        """
        originals, new = tokens[places], tokens[shown]
        tokens[places] = self._mask_token
        random = (numbers < self._random).nonzero()[0]
        # Among so many numbers each remainder is as likely as any, but for 2**-63.
        new[random] = self.ordinary[numbers[random] % self._count]
        tokens[shown] = new
        return places, originals
