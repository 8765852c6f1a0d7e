"""The samplers of a config, and those that are given in code: imported when there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, Problem, from_signal, innermost
from ..order import EpochOrder, Indices, Order
from ._classes import classes
from ._excluding import Kept, Listed, Ranged
from ._indices import checked, checked_range

if TYPE_CHECKING:
    from . import Sampler

__all__ = ["configured", "given"]


def configured(spec: Mapping[str, Any], n: int, seed: int, kept: Kept) -> Sampler:
    """Give the sampler that a config describes, for n samples of which some are kept.

    ``spec`` is the config's ``sampler``, defaults filled in; the files that it names, and the
    ``labels`` of a field, were read into it, as arrays or lists. Weights, labels or indices that
    are wrong are a ConfigError with the option's pointer.
    """
    make = {"balanced": _balanced, "subset": _subset}.get(spec["type"], _by_weight)
    return make(spec, n, seed, kept)


def _by_weight(spec: Mapping[str, Any], n: int, seed: int, kept: Kept) -> Sampler:
    whole = _weights(spec["weights"], n)
    weights = kept.of(whole)
    chosen = int(np.count_nonzero(weights))
    if not chosen:
        raise _wrong("weights", "a weight above 0 of a sample that is kept", "none")
    replace = spec["type"] == "weighted"
    length = spec.get("num_samples") or (kept.count if replace else chosen)
    if not replace and length > chosen:
        expected = f"at most {chosen}, the number of weights above 0 of samples that are kept"
        raise _wrong("num_samples", expected, length)
    name = _drawn(spec, spec["type"], _described(whole))
    from ._weighted import Alias, Drawing, Drawn, in_weighted_order  # when it is asked for

    if replace:
        table = Alias(weights)
        return Drawing(name, length, seed, lambda stream: Drawn(table, length, stream, kept))

    def draw(stream: int) -> EpochOrder:  # one pass over all weights, and a sort
        return Listed(kept.indices(in_weighted_order(weights, length, stream)))

    return Drawing(name, length, seed, draw)


def _drawn(spec: Mapping[str, Any], *parts: str) -> str:
    """Give the name of a sampler that draws.

    Nothing in it may depend on what is excluded: that list may change while a run goes on.
    """
    number = spec.get("num_samples")
    return ", ".join([*parts, *([] if number is None else [f"{number} samples"])])


def _balanced(spec: Mapping[str, Any], n: int, seed: int, kept: Kept) -> Sampler:
    option = "labels" if spec.get("field") is None else "field"
    whole = classes(spec["labels"], n, f"/sampler/{option}", kept)
    if not kept.count:
        raise _wrong(option, "a sample that is kept", "none")
    left = kept.of(whole)
    if not kept.all:  # numbered anew: a class of which no sample is kept does not count
        there = np.bincount(left.astype(np.intp, copy=False)) > 0
        left = (np.cumsum(there, dtype=np.int64) - 1)[left]
    length = spec.get("num_samples") or kept.count
    name = _drawn(spec, "balanced", f"{int(whole.max()) + 1} classes", _described(whole))
    from ._weighted import Balanced, Drawing, Drawn  # imported when it is asked for

    table = Balanced(left)
    return Drawing(name, length, seed, lambda stream: Drawn(table, length, stream, kept))


def _subset(spec: Mapping[str, Any], n: int, seed: int, kept: Kept) -> Sampler:
    indices = checked(spec["indices"], n, "/sampler/indices")
    return _List(indices, "subset", seed, kept, shuffle=bool(spec.get("shuffle")))


class _List:
    """A list of dataset indices, in its own order or permuted in each epoch."""

    def __init__(
        self, indices: Indices, kind: str, seed: int, kept: Kept, *, shuffle: bool = False
    ) -> None:
        self.name = f"{kind}, {_described(indices)}" + (", shuffled" if shuffle else "")
        self._indices = kept.among(indices)
        self.length = len(self._indices)
        self._seed = seed
        self._shuffle = shuffle

    def order(self, epoch: int) -> EpochOrder:
        if not self._shuffle:
            return Listed(self._indices)
        order = Order(self.length, seed=self._seed, epoch=epoch, shuffle=True)
        return Listed(self._indices, order)


class _Range:
    """A range of dataset indices."""

    def __init__(self, indices: range, n: int, kept: Kept) -> None:
        indices = checked_range(indices, n)
        self.name = f"sequence, {indices}"
        self._order = Ranged(indices, kept)
        self.length = self._order.n

    def order(self, epoch: int) -> EpochOrder:
        return self._order


class _Asked:
    """A callable of the user's, asked for each epoch."""

    length = None

    def __init__(self, sampler: Callable[..., Any], n: int, kept: Kept) -> None:
        self.name = _name(sampler)
        self._sampler = sampler
        self._n = n
        self._kept = kept

    def order(self, epoch: int) -> EpochOrder:
        answer = self._sampler(epoch, self._n)
        if type(answer) is range:
            return Ranged(checked_range(answer, self._n), self._kept)
        indices = checked(answer, self._n, "sampler")
        return Listed(self._kept.among(indices))


def given(sampler: Any, n: int, kept: Kept) -> Sampler:
    """Give the sampler that was given in code, for n samples of which some are kept.

    It is a callable of (epoch, n) that gives dataset indices, in every epoch asked anew; or a
    sequence of them, the same in every epoch. Into the state goes the `name` of a callable, or
    that of its function or class; of a sequence its length and checksum, or the range.

    Raises:
        ConfigError: it is neither, or an index is not one of the source's.
    """
    if callable(sampler):
        return _Asked(sampler, n, kept)
    if type(sampler) is range:
        return _Range(sampler, n, kept)
    row = isinstance(sampler, Sequence) or hasattr(sampler, "__array__")
    hint = "name one in the config, or give a callable that gives the same whenever it is asked"
    if isinstance(sampler, Iterator):  # used up, it would leave later epochs empty
        hint = "for an iterator: list(it), the same in every epoch"
    if isinstance(sampler, Mapping):
        hint = 'its options stand in the config, as in {"sampler": {"type": ...}}'
    if not row or isinstance(sampler, (str, bytes)):
        expected = "a callable of (epoch, n), or a sequence of indices"
        raise ConfigError(Problem("sampler", expected, type(sampler).__name__, hint))
    return _List(checked(sampler, n, "sampler"), "sequence", 0, kept)


def _weights(weights: Any, n: int) -> NDArray[np.float64]:
    if isinstance(weights, list):  # integers of any size among them
        try:
            weights = np.array(weights, np.float64)
        except OverflowError as error:
            if from_signal(error):
                raise
            raise _wrong("weights", "numbers that a float64 can hold", "a larger one") from error
    array = np.asarray(weights)
    if array.shape != (n,) or array.dtype.kind not in "iuf":
        expected = f"a number for each of the {n} samples"
        raise _wrong("weights", expected, f"{array.dtype} of shape {array.shape}")
    with np.errstate(all="ignore"):  # of a wider float: what is too large is refused below
        array = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        got = f"{array[wrong[0]]} for sample {wrong[0]}"
        raise _wrong("weights", "finite numbers >= 0", got)
    return array


def _wrong(option: str, expected: str, got: object) -> ConfigError:
    return ConfigError(Problem(f"/sampler/{option}", expected, str(got)))


def _described(values: NDArray[Any]) -> str:
    """Name values by how many they are and a checksum, the same on every platform."""
    import hashlib  # imported when it is asked for

    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return f"{len(values)} x {hashlib.blake2b(plain.data, digest_size=8).hexdigest()}"


def _name(sampler: Callable[..., Any]) -> str:
    sampler = innermost(sampler)
    # Without the module, which is another one when a script is imported instead of run.
    names = (getattr(sampler, name, None) for name in ("name", "__qualname__"))
    own = next((name for name in names if isinstance(name, str)), None)
    # A plain text, as a state holds, also of numpy's.
    return type(sampler).__qualname__ if own is None else str.__str__(own)
