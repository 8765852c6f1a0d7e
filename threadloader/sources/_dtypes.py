"""Python numbers become numpy numbers of the dtype asked for, rounded only if it is a float."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, by_handler

__all__ = ["DTYPES", "UnfitError", "int64_of", "number_dtype", "say", "to_array"]

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
"""The dtypes that a config can name."""

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_KINDS = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}
_NAMES = {"b": "true or false", "i": "an integer", "u": "an integer", "f": "a number"}


class UnfitError(ValueError):
    """A value that a dtype does not hold: what would fit, what came, and its place in a list."""

    def __init__(self, expected: str, got: str, row: int = 0) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got
        self.row = row


def number_dtype(name: str) -> np.dtype[Any]:
    """Give the dtype of a name; a ConfigError if it is not one of `DTYPES`."""
    if name not in DTYPES:
        raise ConfigError(Problem("/source/dtypes", f"one of {', '.join(DTYPES)}", repr(name)))
    return np.dtype(name)


def int64_of(text: str) -> int | None:
    """Give the integer of a text of plain digits, perhaps with a sign; None if int64 has none.

    A pattern checks it first: int() takes "1_0", and refuses thousands of digits, even of zeros.
    """
    match = _INTEGER.fullmatch(text)
    number = int(match[1] + match[2]) if match else 2**63
    return number if -(2**63) <= number < 2**63 else None


def to_array(values: Sequence[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Make an array ``(len(values),)`` of bool, int and float objects.

    An integer dtype, and bool, hold each value exactly. A float dtype gives the number nearest
    to what Python's float is, as floats always do, but never an infinity in place of a number.

    Raises:
        UnfitError: a value is of another kind (1.5, 1.0 and True are no integers), or it
            is out of the range of the dtype. The error names the first such value.

    >>> to_array([1, 255], np.dtype("uint8"))
    array([  1, 255], dtype=uint8)
    >>> to_array([1, 256], np.dtype("uint8"))
    Traceback (most recent call last):
    ...
    threadloader.sources._dtypes.UnfitError: expected an integer of uint8, got 256
    """
    if set(map(type, values)).issubset(_KINDS[dtype.kind]):
        array = _converted(values, dtype)
        if array is not None:
            return array
    fits = (type(v) in _KINDS[dtype.kind] and _converted([v], dtype) is not None for v in values)
    row = list(fits).index(False)
    raise UnfitError(f"{_NAMES[dtype.kind]} of {dtype}", say(values[row]), row)


def _converted(values: Sequence[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Give the array, or None where a value is out of range."""
    if dtype.kind == "f":
        try:
            wide = np.array(values, np.float64)
        except OverflowError as error:
            if by_handler(error):
                raise
            return None
        # Set here, as numpy's settings are per thread: a worker and the calling thread do alike.
        with np.errstate(all="ignore"):
            array = wide.astype(dtype, copy=False)
        return array if np.isfinite(array).all() else None
    # Not left to numpy: before numpy 2 an unsigned array makes its largest number of -1.
    if dtype.kind != "b" and values:
        bounds = np.iinfo(dtype)
        if min(values) < bounds.min or max(values) > bounds.max:
            return None
    return np.array(values, dtype)


def say(value: object) -> str:
    """Name a plain value in a few words."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    # Python refuses to print very long integers.
    if isinstance(value, int) and value.bit_length() > 128:
        sign = "a negative" if value < 0 else "an"
        return f"{sign} integer of {value.bit_length()} bits"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return f"the text {value[:40]!r}" if isinstance(value, str) else f"{value!r:.80}"
