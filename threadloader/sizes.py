"""How large a batch is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .errors import from_signal

__all__ = ["nbytes"]

_OTHER = 8
"""Bytes that count for a value that tells no size: those of a number."""

_DEEPEST = 64
"""Containers inside each other that are looked into, as many as a fingerprint reads."""

_TEXTS = (str, bytes, bytearray)
_NUMBERS = frozenset({bool, int, float, complex, type(None)})
_ALONE = frozenset({np.ndarray, *_TEXTS, *_NUMBERS})
"""The usual types of what is no container: most values are told by this one look-up."""


def nbytes(batch: Any) -> int:
    """Give the bytes of the arrays, texts and bytes of a batch, about.

    Mappings, lists, tuples and the fields of dataclasses are looked into, each once and not
    endlessly deep. Any other object, or a dataclass, that has `nbytes`, as arrays and tensors do,
    counts as that: so a view counts as what it shows, and not as the array that it keeps, which may
    be the whole dataset's.
    Texts and bytes count as the memory that Python has for them. Whatever else there may be, a
    number or an object of the collate's own, counts as 8.

    >>> import numpy as np
    >>> nbytes({"x": np.zeros((2, 3), np.float32), "number": [1, 2]})
    40
    """
    total = 0
    level = [batch]
    # Containers by id: one that holds itself is not looked into again. They are kept alive, or
    # another object might get the id.
    seen: dict[int, Any] = {}
    for _ in range(_DEEPEST):
        inside: list[Any] = []
        for value in level:
            if id(value) in seen:
                continue
            held = _held(value)
            if held is None:
                total += _alone(value)
            else:
                seen[id(value)] = value
                inside.extend(held)
        if not inside:
            return total
        level = inside
    return total + sum(map(_alone, level))


def _held(value: Any) -> Iterable[Any] | None:
    """Give what a container holds; None for all else, and a dataclass that tells its own size."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:  # its own bytes are addresses
        held: list[Any] = value.ravel().tolist()
        return held
    if type(value) in _ALONE:
        return None
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, Mapping):
        try:
            return list(value.values())
        except Exception as error:  # of any class: it may read its values only now
            if from_signal(error):
                raise
            return None
    if (
        isinstance(value, type)
        or not dataclasses.is_dataclass(value)
        or _own_size(value) is not None
    ):
        return None
    # A field that was never set gives None, which counts as a value.
    return [_attribute(value, field.name) for field in dataclasses.fields(value)]


def _alone(value: Any) -> int:
    if type(value) in _NUMBERS:
        return _OTHER
    for kind in _TEXTS:
        if isinstance(value, kind):
            return kind.__sizeof__(value)
    size = _own_size(value)
    return _OTHER if size is None else size


def _own_size(value: Any) -> int | None:
    """Give the size that something tells; None if it tells none."""
    size = _attribute(value, "nbytes")
    return int(size) if isinstance(size, (int, np.integer)) and size >= 0 else None


def _attribute(value: Any, name: str) -> Any:
    # A lazy or strange object may give None, a method or NaN, or raise, as a sparse tensor does.
    try:
        return getattr(value, name, None)
    except Exception as error:
        if from_signal(error):
            raise
        return None
