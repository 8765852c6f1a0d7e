"""What counts as the class of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConfigError, Problem
from ..order import Indices

__all__ = ["classes"]

_KINDS = {bool: "bools", int: "integers", str: "texts", bytes: "bytes"}  # a bool is an int


def classes(labels: Any, n: int, pointer: str) -> Indices:
    """Number the classes of samples, in the order of their labels.

    Args:
        labels: the label of each sample: integers, bools or texts, in an array or a list.
        n: samples of the source.
        pointer: the option that names them, for messages.

    Returns:
        int64, shape (n,): 0 .. k - 1.

    Raises:
        ConfigError: one is missing, or is no label, or of another kind than the first.

    >>> classes(["cat", "dog", "cat"], 3, "")
    array([0, 1, 0])
    """
    if isinstance(labels, np.ndarray):
        if labels.shape != (n,) or labels.dtype.kind not in "iubUS":
            expected = f"an integer or a text for each of the {n} samples"
            got = f"{labels.dtype} of shape {labels.shape}"
            raise ConfigError(Problem(pointer, expected, got))
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    # A list may hold what numpy would make alike, as 1, True and "1", or long texts, for
    # which an array has as much room as for the longest.
    values = list(labels)
    if len(values) != n:
        expected = f"a label for each of the {n} samples"
        raise ConfigError(Problem(pointer, expected, f"{len(values)} of them"))
    if not (kinds := set(map(type, values))).issubset(_KINDS) or len(kinds) > 1:
        values = _of_one_kind(values, pointer)
    numbers = {label: number for number, label in enumerate(sorted(set(values)))}
    return np.fromiter((numbers[label] for label in values), np.int64, n)


def _of_one_kind(labels: list[Any], pointer: str) -> list[Any]:
    """Give what Python has for labels of numpy's, or of another library's."""
    values = [it.item() if getattr(it, "shape", None) == () else it for it in labels]
    first = _kind(values[0])
    for index, value in enumerate(values):
        if not first or _kind(value) != first:
            expected = f"{first} alone, as the first label is" if first else "integers or texts"
            got = f"{value!r:.40} of sample {index}"
            raise ConfigError(Problem(pointer, expected, got))
    return values


def _kind(label: Any) -> str:
    return next((name for kind, name in _KINDS.items() if isinstance(label, kind)), "")
