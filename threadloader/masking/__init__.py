"""Tokens hidden for masked-language modelling, with labels to be predicted.

The recipe of J. Devlin, M.-W. Chang, K. Lee, K. Toutanova, *BERT: Pre-training of Deep
Bidirectional Transformers*, 2018: each token is chosen with probability 0.15; of the
chosen, 80% become the mask token, 10% a random token, and 10% stay as they are.

Every choice is integer arithmetic of our own, or in a call on raw bits, which numpy keeps the
same from one version to the next (unlike its distributions): so the same seed hides the same
tokens for ever. `_hiding` has the arithmetic, `_columns` does it where the samples are padded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError, shown
from ._columns import IGNORED, Columns
from ._hiding import Bits, Hiding, seeds_of, words_of

__all__ = ["IGNORED", "MaskTokens", "mlm"]

_LARGEST = 1 << 24
"""Tokens in a vocabulary, at most. Chosen: far above any in use, and its tables take 80 MiB."""

_MOST_WRONG = 100
"""So many wrong tokens of a list are told, and that there are more: as by the schema."""


@dataclasses.dataclass(frozen=True)
class MaskTokens:
    """A transform that hides tokens and says by labels what they were.

    A sample is an array of integers, or a dict with such a field. An array becomes a dict of
    ``tokens`` and ``labels``; a dict keeps its other fields, its tokens are replaced, and the
    labels come last. Both arrays are new, int64, of the shape of the tokens; labels hold the
    original token where it was chosen and -100 elsewhere.

    Args:
        vocabulary: how many tokens there are, 2 to 2**24; tokens are 0 to vocabulary - 1.
        mask_token: what replaces hidden tokens; itself never chosen or drawn.
        probability: the probability that a token is chosen, 0 to 1. 0.15 is BERT's.
        special: further tokens that are never chosen and never drawn: padding, beginning, end; a
            list, tuple or array of them.
        field: the field of the sample that holds the tokens; None where it is the array.
        tokens: the name of the masked tokens; None for that of ``field``, or ``"tokens"``.
        labels: the name of the labels.

    Raises:
        ConfigError: an option is out of bounds; it holds every problem.

    >>> bits = np.random.Generator(np.random.Philox(key=6))
    >>> sample = MaskTokens(vocabulary=100, mask_token=99)(np.arange(10, 20), rng=bits)
    >>> sample["tokens"]
    array([10, 11, 12, 13, 99,  6, 16, 99, 18, 19])
    >>> sample["labels"]
    array([-100, -100,   12, -100,   14,   15, -100,   17, -100, -100])
    """

    vocabulary: int
    mask_token: int
    probability: float = 0.15
    special: Sequence[int] = ()
    field: str | None = None
    tokens: str | None = None
    labels: str = "labels"
    # Made of the options above, and only read afterwards: threads share them.
    _name: str = dataclasses.field(init=False, repr=False, compare=False)
    _added: tuple[str, ...] = dataclasses.field(init=False, repr=False, compare=False)
    _hiding: Hiding = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option in ("vocabulary", "mask_token", "probability", "special"):
            object.__setattr__(self, option, _plain(getattr(self, option)))
        if problems := list(self._problems()):
            raise ConfigError(problems)
        hiding = Hiding(self.vocabulary, self.mask_token, self.special, self.probability)
        if not len(hiding.ordinary):
            expected = "a token of the vocabulary left to hide"
            raise ConfigError(Problem("/transform/special", expected, "none"))
        name = self.tokens or self.field or "tokens"
        made = {
            "special": tuple(self.special),
            "_name": name,
            "_added": tuple(n for n in (name, self.labels) if n != self.field),
            "_hiding": hiding,
        }
        for option, value in made.items():
            object.__setattr__(self, option, value)

    def _problems(self) -> Iterator[Problem]:
        at, size = "/transform", self.vocabulary
        if type(size) is not int or not 2 <= size <= _LARGEST:
            yield Problem(f"{at}/vocabulary", f"an integer from 2 to {_LARGEST}", shown(size))
            size = _LARGEST  # what the others can still be checked against
        token = f"a token, 0 to {size - 1}"
        if not _is_token(self.mask_token, size):
            yield Problem(f"{at}/mask_token", token, shown(self.mask_token))
        chance = self.probability
        if isinstance(chance, bool) or not isinstance(chance, (int, float)) or not 0 <= chance <= 1:
            yield Problem(f"{at}/probability", "a number from 0 to 1", shown(chance))
        if not isinstance(self.special, (list, tuple)):
            yield Problem(f"{at}/special", "a list of tokens", shown(self.special))
        else:
            wrong = ((it, one) for it, one in enumerate(self.special) if not _is_token(one, size))
            for place, one in islice(wrong, _MOST_WRONG):
                yield Problem(f"{at}/special/{place}", token, shown(one))
            for place, _ in wrong:
                yield Problem(f"{at}/special/{place}", f"at most {_MOST_WRONG} wrong items", "more")
                break
        names = {"field": self.field, "tokens": self.tokens, "labels": self.labels}
        for name, value in names.items():
            if not (isinstance(value, str) and value) and (value is not None or name == "labels"):
                yield Problem(f"{at}/{name}", "a name", shown(value))
        if self.labels == (self.tokens or self.field or "tokens"):
            yield Problem(f"{at}/labels", "a name other than the tokens'", shown(self.labels))

    @property
    def names(self) -> tuple[str, str]:
        """The names of the masked tokens and of the labels."""
        return self._name, self.labels

    def __call__(self, sample: Any, *, rng: np.random.Generator) -> dict[Any, Any]:
        """Hide tokens of one sample, which stays as it is, by a generator of any kind.

        For the same seed these are not the tokens that a config hides, but the probabilities
        are equal. The highest 63 bits of one raw word decide about one token.

        Args:
            sample: an array of integers of any shape, or a dict that has one in ``field``.
            rng: the sample's generator. The raw bits of its bit generator are used, which
                has to give 64 at once, as the loader's does (of numpy's all but MT19937).

        Returns:
            A new dict: the fields of the sample, masked tokens and labels.

        Raises:
            SourceError: there is no array of integers, a token is none of the vocabulary,
                or a name is taken.
            ConfigError: the generator does not give such bits.
        """
        (original,) = self._rows([sample])
        masked = np.array(original, np.int64, order="C")
        tokens = masked.reshape(-1)
        if self._hiding.outside(tokens):
            raise self._hiding.refusal([original])
        places, originals = self._hiding.hide_by(tokens, words_of(rng, tokens.size))
        labels = np.full(tokens.size, IGNORED, np.int64)
        labels[places] = originals
        return {**self._rest(sample), self._name: masked, self.labels: labels.reshape(masked.shape)}

    def many(
        self, samples: Sequence[Any], key: int, positions: npt.NDArray[np.int64]
    ) -> list[dict[Any, Any]]:
        """Hide tokens of several samples, as the loader does, each as if it were alone.

        For each it gives a dict as a call does, but with views of one array of all tokens and one
        of all labels. The key is the epoch's, of 128 bits; positions, int64 (samples,), are those
        in the global order.
        """
        return self._many(samples, self._rows(samples), seeds_of(key, positions))

    def columns(
        self, samples: Sequence[Any], key: int, positions: npt.NDArray[np.int64]
    ) -> Columns | list[dict[Any, Any]]:
        """Give what `many` gives; for rows of one dimension `Columns`, which are padded faster."""
        rows, seeds = self._rows(samples), seeds_of(key, positions)
        if set(map(attrgetter("ndim"), rows)) != {1}:
            return self._many(samples, rows, seeds)
        plain: Sequence[Mapping[Any, Any]] = ()
        if self.field is not None:
            as_they_are = self._name == self.field and set(map(type, samples)) == {dict}
            plain = samples if as_they_are else [dict(self._rest(sample)) for sample in samples]
        return Columns(self._hiding, rows, seeds, plain, *self.names)

    def _many(
        self, samples: Sequence[Any], rows: Sequence[npt.NDArray[Any]], seeds: Bits
    ) -> list[dict[Any, Any]]:
        sizes = np.array([row.size for row in rows], np.intp)
        ends = sizes.cumsum()
        flat = [row.reshape(-1) for row in rows]
        tokens = np.concatenate(flat, dtype=np.int64, casting="same_kind")
        if self._hiding.outside(tokens):
            raise self._hiding.refusal(flat)
        places, originals = self._hiding.hide(tokens, ends - sizes, sizes, seeds)
        labels = np.full(len(tokens), IGNORED, np.int64)
        labels[places] = originals
        made, start = [], 0
        for sample, row, end in zip(samples, rows, ends.tolist(), strict=True):
            one = dict(self._rest(sample))
            one[self._name] = tokens[start:end].reshape(row.shape)
            one[self.labels] = labels[start:end].reshape(row.shape)
            made.append(one)
            start = end
        return made

    def _rest(self, sample: Any) -> Mapping[Any, Any]:
        """Give the sample's fields, to which masked tokens and labels are added."""
        if self.field is None:
            return {}
        if self._name == self.field:
            return cast("Mapping[Any, Any]", sample)
        return {name: value for name, value in sample.items() if name != self.field}

    def _rows(self, samples: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """Give the tokens of each sample."""
        # Loops in C see whether all samples are usual ones; otherwise each is looked at in turn.
        rows, usual = list(samples), True
        if self.field is not None and (usual := set(map(type, rows)) == {dict}):
            usual = not any(True in [name in sample for sample in rows] for name in self._added)
            rows = [sample.get(self.field) for sample in rows]
        if usual and set(map(type, rows)) == {np.ndarray}:
            dtype = rows[0].dtype
            alike = list(map(attrgetter("dtype"), rows)).count(dtype) == len(rows)
            if dtype.kind in "iu" and alike:
                return rows
        return list(map(self._tokens, samples))

    def _tokens(self, sample: Any) -> npt.NDArray[Any]:
        """Give the tokens of a sample, of whatever kind it is."""
        if self.field is None:
            hint = "make it one before, of a dtype of integers"
            if isinstance(sample, Mapping):
                hint = 'name the "field" of it'
            return self._integers(sample, "the sample", hint)
        if not isinstance(sample, Mapping) or self.field not in sample:
            got = _say(sample)
            text = f"expected a dict with {self.field!r}, got {got}; name its field of tokens"
            raise SourceError(f"mlm: the sample: {text}")
        hint = 'name its dtype in the source ("dtypes"), or encode text before'
        tokens = self._integers(sample[self.field], f"field {self.field!r}", hint)
        for name in self._added:
            if name in sample:
                raise SourceError(
                    f"mlm: the sample: expected no field {name!r} of its own, "
                    f"got {_say(sample)}; give another name"
                )
        return tokens

    def _integers(self, tokens: Any, where: str, hint: str) -> npt.NDArray[Any]:
        if isinstance(tokens, np.ndarray) and tokens.dtype.kind in "iu":
            if type(tokens) in (np.ndarray, np.memmap):
                return tokens
            # What another class adds would be lost, as the mask of a masked array.
            hint = "give a plain array, as by array.filled(value) of a masked one"
        raise SourceError(
            f"mlm: {where}: expected an array of integers, got {_say(tokens)}; {hint}"
        )


def mlm(vocabulary: int, mask_token: int, **options: Any) -> MaskTokens:
    """Make the transform that a config describes, with the options of `MaskTokens`.

    4.0 is the integer 4, as in JSON Schema. An unknown option is a TypeError, one that is out of
    bounds a ConfigError.

    >>> mlm(50.0, 49, special=[0, 1])
    MaskTokens(vocabulary=50, mask_token=49, ..., special=(0, 1), field=None, ...)
    """
    if isinstance(options.get("special"), (list, tuple)):
        options["special"] = [_integer(token) for token in options["special"]]
    return MaskTokens(_integer(vocabulary), _integer(mask_token), **options)


def _integer(value: Any) -> Any:
    """Give 4 for 4.0, and all else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_token(value: Any, size: int) -> bool:
    return type(value) is int and 0 <= value < size


def _plain(value: Any) -> Any:
    """Give an option with Python's numbers in place of numpy's."""
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "iuf":
        return value.tolist()
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _say(value: Any) -> str:
    if isinstance(value, np.ndarray):
        kind = "an array" if type(value) is np.ndarray else f"a {type(value).__name__}"
        return f"{kind} of dtype {value.dtype} and shape {value.shape}"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(repr, list(value)[:8])) or 'no fields'}"
    return f"{type(value).__name__} {shown(value)}"
