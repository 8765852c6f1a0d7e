"""Batches cut out of what was taken for several, and one joined of what was taken row by row."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import CollateError

__all__ = ["UncutError", "cut", "join"]


class UncutError(CollateError):
    """What `take` gave cannot be cut, or joined: it may hold more than rows."""


def cut(made: Any, count: int, rows: int) -> list[Any]:
    """Cut what has count * rows rows, as `take` gives it, into count batches, field by field.

    Only what is known to hold rows and nothing else is cut: an object of a user's class may hold
    more, which belongs to all batches.

    Raises:
        UncutError: there is something else in it.
    """
    if count == 1:  # nothing to cut
        return [made]
    kind = type(made)
    bare = not getattr(made, "__dict__", None)
    if kind in (np.ndarray, np.memmap) and made.shape[:1] == (count * rows,):
        return list(made.reshape(count, rows, *made.shape[1:]))
    if kind in (dict, OrderedDict) and bare:
        batches = _fields(made.values(), count, rows)
        return [kind(zip(made, batch, strict=True)) for batch in batches]
    if kind is tuple:
        return _fields(made, count, rows)
    if isinstance(made, tuple) and hasattr(kind, "_make") and bare:
        return [kind._make(batch) for batch in _fields(made, count, rows)]
    if kind is list:
        # A list of as many arrays or lists as there are rows may hold fields, or ragged rows.
        apart = (np.ndarray, dict, tuple, list)
        if len(made) != count * rows:
            return list(map(list, _fields(made, count, rows)))
        if not any(isinstance(row, apart) for row in made):
            return [made[first : first + rows] for first in range(0, count * rows, rows)]
    raise UncutError(f"expected arrays, or a list of {count * rows} values, got {kind}")


def _fields(fields: Iterable[Any], count: int, rows: int) -> list[tuple[Any, ...]]:
    """Cut each of some fields, and give those of each batch."""
    parts = [cut(field, count, rows) for field in fields]
    # To zip no fields would give no batches.
    return list(zip(*parts, strict=True)) if parts else [()] * count


def join(parts: list[Any]) -> Any:
    """Join batches of one row each, as `take` gives them, at least one; the reverse of `cut`.

    A list of several fields, which `cut` cuts, is not joined.

    Raises:
        UncutError: there is something else in one, or they differ.
    """
    first, kind = parts[0], type(parts[0])
    if set(map(type, parts)) == {kind} and not any(getattr(it, "__dict__", None) for it in parts):
        if kind is np.ndarray:
            if {(it.dtype, it.shape) for it in parts} == {(first.dtype, (1, *first.shape[1:]))}:
                # Not without `out`, which turns a foreign byte order into the machine's own. And
                # zeros: between the fields of a record nothing is written.
                joined = np.zeros((len(parts), *first.shape[1:]), first.dtype)
                return np.concatenate(parts, out=joined)
        elif kind in (dict, OrderedDict):
            if all(list(it) == list(first) for it in parts):
                return kind((name, join([it[name] for it in parts])) for name in first)
        elif isinstance(first, tuple) and (kind is tuple or hasattr(kind, "_make")):
            if len(set(map(len, parts))) == 1:
                fields = map(join, map(list, zip(*parts, strict=True)))
                return tuple(fields) if kind is tuple else kind._make(fields)
        elif kind is list and set(map(len, parts)) == {1}:
            rows = [row for (row,) in parts]
            # One array or list may be the only field, or a ragged row.
            if not any(isinstance(row, (np.ndarray, dict, tuple, list)) for row in rows):
                return rows
    raise UncutError(f"expected batches of one row each, got {kind}")
