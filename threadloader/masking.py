"""Tokens hidden for masked-language modelling, with the labels to be guessed.

The recipe of J. Devlin, M.-W. Chang, K. Lee, K. Toutanova, *BERT: Pre-training of Deep
Bidirectional Transformers*, 2018: each token is chosen with probability 0.15; of the
chosen, 80% become the mask token, 10% a random token, and 10% stay as they are.

Every choice is integer arithmetic on the raw bits of the sample's generator, which numpy
guarantees from one version to the next (its distributions it does not): so the same
seed hides the same tokens for ever.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from threadloader.errors import ConfigError, Problem, SourceError

__all__ = ["IGNORED", "MaskTokens", "mlm"]

IGNORED = -100
"""The label where no token was chosen: what the losses of PyTorch and others pass over."""

_LARGEST = 1 << 24
"""Tokens in a vocabulary, at most. Chosen: far above any in use, and its tables take 80 MiB."""

_BITS = 53
"""Bits of a draw that are compared to the probability: as many as a float64 holds exactly."""


@dataclasses.dataclass(frozen=True)
class MaskTokens:
    """A transform that hides tokens and says by labels what they were.

    A sample is an array of integers, or a dict with such a field. An array becomes a
    dict of ``tokens`` and ``labels``; a dict keeps its other fields, its tokens are
    replaced, and the labels come last. Both arrays are new, int64, of the shape of the
    tokens; labels hold the original token where it was chosen and -100 elsewhere.

    Args:
        vocabulary: how many tokens there are, 2 to 2**24; tokens are 0 to vocabulary - 1.
        mask_token: what is put in place of hidden tokens; itself never chosen or drawn.
        probability: the chance of a token to be chosen, 0 to 1. 0.15 is BERT's.
        special: further tokens that are never chosen and never drawn as a random token:
            padding, beginning, end.
        field: the field of the sample that holds the tokens; None where the sample itself
            is the array.
        tokens: the name of the masked tokens; None for that of ``field``, or ``"tokens"``.
        labels: the name of the labels.

    Raises:
        ConfigError: an option is out of bounds; it holds every problem.

    >>> bits = np.random.Generator(np.random.Philox(key=0))
    >>> sample = MaskTokens(vocabulary=100, mask_token=99)(np.arange(10, 20), rng=bits)
    >>> sample["tokens"]
    array([99, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    >>> sample["labels"]
    array([  10, -100,   12, -100, -100, -100, -100, -100, -100, -100])
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
    _threshold: np.uint64 = dataclasses.field(init=False, repr=False, compare=False)
    _may_hide: npt.NDArray[np.bool_] = dataclasses.field(init=False, repr=False, compare=False)
    _new: npt.NDArray[np.int32] = dataclasses.field(init=False, repr=False, compare=False)
    _tenths: tuple[np.uint64, np.uint64] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ConfigError(problems)
        may_hide = np.ones(self.vocabulary, np.bool_)
        may_hide[[self.mask_token, *self.special]] = False
        ordinary = np.flatnonzero(may_hide)
        if not len(ordinary):
            raise ConfigError(
                Problem("/transform/special", "a token of the vocabulary left to hide", "none")
            )
        made = {
            "special": tuple(self.special),
            "_name": self.tokens or self.field or "tokens",
            "_threshold": np.uint64(round(self.probability * 2**_BITS)),
            "_may_hide": may_hide,
            "_new": np.append(ordinary, self.mask_token).astype(np.int32),
            "_tenths": (np.uint64(9 * len(ordinary)), np.uint64(10 * len(ordinary))),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def _problems(self) -> Iterator[Problem]:
        at, size = "/transform", self.vocabulary
        if type(size) is not int or not 2 <= size <= _LARGEST:
            yield Problem(f"{at}/vocabulary", f"an integer from 2 to {_LARGEST}", repr(size))
            size = _LARGEST  # what the others can still be checked against
        token = f"a token, 0 to {size - 1}"
        if not _is_token(self.mask_token, size):
            yield Problem(f"{at}/mask_token", token, repr(self.mask_token))
        chance = self.probability
        if isinstance(chance, bool) or not isinstance(chance, (int, float)) or not 0 <= chance <= 1:
            yield Problem(f"{at}/probability", "a number from 0 to 1", repr(chance))
        if not isinstance(self.special, (list, tuple)):
            yield Problem(f"{at}/special", "a list of tokens", repr(self.special))
        else:
            for place, one in enumerate(self.special):
                if not _is_token(one, size):
                    yield Problem(f"{at}/special/{place}", token, repr(one))
        names = {"field": self.field, "tokens": self.tokens, "labels": self.labels}
        for name, value in names.items():
            if not (isinstance(value, str) and value) and (value is not None or name == "labels"):
                yield Problem(f"{at}/{name}", "a name", repr(value))
        if self.labels == (self.tokens or self.field or "tokens"):
            yield Problem(f"{at}/labels", "another name than the tokens have", repr(self.labels))

    def __call__(self, sample: Any, *, rng: np.random.Generator) -> dict[Any, Any]:
        """Hide tokens of one sample, which stays as it is.

        Args:
            sample: an array of integers of any shape, or a dict that has one in ``field``.
            rng: the sample's generator. The raw bits of its bit generator are used, which
                has to give 64 at once, as the loader's does (of numpy's all but MT19937).

        Returns:
            A new dict: the fields of the sample, masked tokens and labels.

        Raises:
            SourceError: there is no array of integers, a token is none of the vocabulary,
                or a name is taken.
        """
        original, rest = self._original(sample)
        masked = np.array(original, np.int64, order="C")
        flat = masked.reshape(-1)
        # Seen as unsigned, a negative number is a very large one: one pass finds both.
        if flat.size and int(flat.view(np.uint64).max()) >= self.vocabulary:
            raise self._no_token(np.asarray(original).reshape(-1))

        random_raw = rng.bit_generator.random_raw
        chosen = (random_raw(flat.size) >> np.uint64(64 - _BITS)) < self._threshold
        places = np.flatnonzero(chosen & self._may_hide[flat])
        hidden = flat[places]
        labels = np.full(flat.size, IGNORED, np.int64)
        labels[places] = hidden

        # Of ten equal parts of the numbers the first means a random token and the last none;
        # the other eight lie behind the end of the table, whose last entry is the mask token.
        draws = random_raw(places.size) % self._tenths[1]
        new = self._new.take(draws.view(np.int64), mode="clip")
        flat[places] = np.where(draws < self._tenths[0], new, hidden)
        return {**rest, self._name: masked, self.labels: labels.reshape(masked.shape)}

    def _original(self, sample: Any) -> tuple[npt.NDArray[Any], Mapping[Any, Any]]:
        """Give the tokens of a sample, and the fields that the masked ones are put into."""
        if self.field is None:
            return self._integers(sample, "the sample", 'name the "field" of a dict'), {}
        if not isinstance(sample, Mapping) or self.field not in sample:
            got = _say(sample)
            raise SourceError(f"mlm: the sample: expected a dict with {self.field!r}, got {got}")
        rest = dict(sample)
        tokens = self._integers(rest[self.field], f"field {self.field!r}", "encode text before")
        if self._name != self.field:
            del rest[self.field]
        for name in {self._name, self.labels} - {self.field}:
            if name in rest:
                raise SourceError(
                    f"mlm: the sample: expected no field {name!r} of its own, "
                    f"got {_say(sample)}; give another name"
                )
        return tokens, rest

    def _integers(self, tokens: Any, where: str, hint: str) -> npt.NDArray[Any]:
        if isinstance(tokens, np.ndarray) and tokens.dtype.kind in "iu":
            return tokens
        raise SourceError(
            f"mlm: {where}: expected an array of integers, got {_say(tokens)}; {hint}"
        )

    def _no_token(self, flat: npt.NDArray[Any]) -> SourceError:
        place = int(np.flatnonzero((flat < 0) | (flat >= self.vocabulary))[0])
        return SourceError(
            f"mlm: expected a token, 0 to {self.vocabulary - 1}, got {flat[place]}; "
            'give the "vocabulary" that the tokens were made with',
            place=f"position {place}",
        )


def mlm(vocabulary: int, mask_token: int, **options: Any) -> MaskTokens:
    """Make the transform that a config describes.

    Args:
        vocabulary: as of `MaskTokens`.
        mask_token: as of `MaskTokens`.
        options: the other options of `MaskTokens`. 4.0 is the integer 4, as in JSON Schema.

    Returns:
        The transform, safe to call in several threads.

    Raises:
        ConfigError: an option is out of bounds.
        TypeError: there is no such option.

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


def _say(value: Any) -> str:
    """Name what stands somewhere, in a few words."""
    if isinstance(value, np.ndarray):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(repr, list(value)[:8])) or 'no fields'}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:40] + '...'}"
