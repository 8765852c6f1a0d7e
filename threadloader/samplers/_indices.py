"""What counts as dataset indices, whoever gives them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, Problem, from_signal, has_order, shown
from ..order import Indices

__all__ = ["checked", "checked_range"]


def checked(indices: Any, n: int, pointer: str) -> Indices:
    """Give dataset indices as an int64 array of its own, shape (m,), if each is in [0, n).

    They are an array, or anything that gives integers in an order of its own; ``pointer`` says who
    gave them.

    Raises:
        ConfigError: they are not integers, or one is negative or too large: none counts
            from the end.
        Exception: whatever a generator raises.
    """
    if hasattr(indices, "__array__"):
        if isinstance(indices, np.ma.MaskedArray):
            raise _no_indices(pointer, "a masked array, whose mask would be lost")
        array = np.asarray(indices)
        if array.shape == (0,):  # of any dtype: not every one can be compared
            array = np.empty(0, np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise _no_indices(pointer, f"{array.dtype} of shape {array.shape}")
    elif has_order(indices):  # else, as of a set, the shards might not fit together
        array = _array(list(indices), pointer)
    else:
        raise _no_indices(pointer, type(indices).__name__)
    outside = np.flatnonzero((array < 0) | (array >= n))
    if len(outside):
        place = int(outside[0])
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        raise _outside(n, pointer, f"{_told(int(array[place]))} at position {place}{more}")
    return array.astype(np.int64)


def checked_range(indices: range, n: int) -> range:
    """Give a range of dataset indices, if each is in [0, n), without making them.

    For equal ranges the result has the same text; its start and step are no farther from 0
    than n. An index outside is a ConfigError.
    """
    if not indices:
        return range(0)
    for index in (indices[0], indices[-1]):
        if not 0 <= index < n:
            raise _outside(n, "sampler", f"{_told(index)} in {shown(indices)}")
    # The step of a single one may be of any size.
    step = indices.step if indices[1:] else 1
    return range(indices[0], indices[-1] + step, step)


def _array(values: list[Any], pointer: str) -> NDArray[Any]:
    """Give integers of any type as an array; numpy would take bools, and make floats of some."""
    numbers: list[int] = values
    if not {int}.issuperset(map(type, values)):
        numbers = []
        for place, value in enumerate(values):
            try:
                number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
            except TypeError as error:
                if from_signal(error):
                    raise
                number = None
            if number is None:
                raise _no_indices(pointer, f"{type(value).__name__} at position {place}")
            numbers.append(number)
    try:
        return np.array(numbers, np.int64)
    except OverflowError as error:  # one that no source has
        if from_signal(error):
            raise
        return np.array(numbers, object)


def _told(index: int) -> str:
    """Give an index in a few digits, as the config tells of an integer."""
    bits, sign = index.bit_length(), "a negative" if index < 0 else "an"
    return f"{sign} integer of {bits} bits" if bits > 128 else str(index)


def _outside(n: int, pointer: str, got: str) -> ConfigError:
    expected = f"indices from 0 to {n - 1}" if n else "no index: the source is empty"
    return ConfigError(Problem(pointer, expected, got, "no index counts from the end"))


def _no_indices(pointer: str, got: str) -> ConfigError:
    from_code = "give, or return, a list, a range or an array of them, as in [2, 0, 1]"
    from_config = "give a list, or a file of text or .npy, as of [2, 0, 1]"
    hint = from_config if pointer.startswith("/") else from_code
    return ConfigError(Problem(pointer, "dataset indices: integers in one row", got, hint))
