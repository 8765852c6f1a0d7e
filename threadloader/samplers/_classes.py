"""What counts as the class of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConfigError, Problem, shown
from ..order import Indices
from ._excluding import Kept

__all__ = ["classes"]

_KINDS = {bool: "bools", int: "integers", str: "texts", bytes: "bytes"}  # a bool is an int


def classes(labels: Any, n: int, pointer: str, kept: Kept) -> Indices:
    """Number the classes of samples, in the order of their labels.

    The numbers do not depend on what is excluded, which may change while a run goes on: an
    excluded sample may lack a label, or have one of another kind, and is numbered all the same.

    Args:
        labels: the label of each sample: integers, bools or texts, in an array or a list.
        n: samples of the source.
        pointer: the option that names them, for messages.
        kept: the samples that are not excluded. One of them without a label, or with one of
            another kind than the first of them, is a ConfigError.

    Returns:
        int64, shape (n,): 0 .. k - 1; -1 for an excluded sample without a label.

    >>> classes(["cat", "dog", "cat"], 3, "", Kept(3, np.array([], int)))
    array([0, 1, 0])
    >>> classes(["cat", None, "ant"], 3, "", Kept(3, np.array([1])))
    array([ 1, -1,  0])
    """
    if isinstance(labels, np.ma.MaskedArray):
        expected = "labels without a mask, which would be lost"
        raise ConfigError(Problem(pointer, expected, "a masked array"))
    if isinstance(labels, np.ndarray):
        if labels.shape != (n,) or labels.dtype.kind not in "iubUS":
            expected = f"an integer, text or bool for each of the {n} samples"
            got = f"{labels.dtype} of shape {labels.shape}"
            raise ConfigError(Problem(pointer, expected, got))
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    # A list stays one: in an array numpy would make 1, True and "1" alike, and give each text
    # as much room as the longest.
    if not (hasattr(labels, "__iter__") or hasattr(labels, "__getitem__")):
        raise ConfigError(Problem(pointer, "an array or a list of labels", shown(labels)))
    values = list(labels)
    if len(values) != n:
        expected = f"a label for each of the {n} samples"
        raise ConfigError(Problem(pointer, expected, f"{len(values)} of them"))
    if not (kinds := set(map(type, values))).issubset(_KINDS) or len(kinds) > 1:
        values = _with_kinds(values, pointer, kept)
    numbers = {label: number for number, label in enumerate(sorted(set(values) - {None}))}
    numbers[None] = -1
    return np.fromiter((numbers[label] for label in values), np.int64, n)


def _with_kinds(labels: list[Any], pointer: str, kept: Kept) -> list[Any]:
    """Give the kind and the value of each label, None for what is no label.

    A label of numpy's, or of another library's, counts with its Python value.
    """
    values = [it.item() if getattr(it, "shape", None) == () else it for it in labels]
    kinds = list(map(_kind, values))
    first = ""
    for index in np.flatnonzero(kept.everything()).tolist():
        first = first or kinds[index]
        if not first or kinds[index] != first:
            expected = (
                f"{first} alone, as the first label is" if first else "integers, texts or bools"
            )
            got = f"{shown(values[index])} of sample {index}"
            raise ConfigError(Problem(pointer, expected, got))
    pairs = zip(kinds, values, strict=True)
    return [(kind, value) if kind else None for kind, value in pairs]


def _kind(label: Any) -> str:
    return next((name for kind, name in _KINDS.items() if isinstance(label, kind)), "")
