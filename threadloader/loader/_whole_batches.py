"""Whole batches of a source that builds them: which of its methods is asked, and what it gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import sources
from ..errors import CollateError, shown

__all__ = ["builder", "from_package", "taking"]


def taking(source: Any, empty: Callable[..., Any]) -> Callable[[Any], Any]:
    """Give a function that builds whole batches, in memory used again where the source can."""
    kind = builder(sources.behind(source))
    # `take_into` may be None, to say that there is none, or hidden by a wrapper of the object.
    if kind is None or "take_into" not in vars(kind) or getattr(source, "take_into", None) is None:
        return lambda indices: _counted("take", source.take(indices), len(indices))
    if from_package(kind):  # tested, so not counted: that takes a third as long as gathering
        return lambda indices: source.take_into(indices, empty)
    return lambda indices: _counted("take_into", source.take_into(indices, empty), len(indices))


def builder(source: Any) -> type | None:
    """Give the class that decides how batches are built: the lowest with `take` or `take_into`.

    So a subclass that overrides only `take` has that one used. None where the object itself has a
    `take`, or has one by its ``__getattr__``: then that one is used.
    """
    if "take" not in sources.attributes_of(source):
        for kind in type(source).__mro__:
            if "take_into" in vars(kind) or "take" in vars(kind):
                return kind
    return None


def _counted(method: str, batch: Any, expected: int) -> Any:
    """Give a batch that a method of the source has built, if it has as many rows as expected."""
    if type(batch) is dict:  # the usual batches are checked without generators
        for field in batch.values():
            if type(field) is not np.ndarray or not field.ndim or len(field) != expected:
                break
        else:
            return batch
    # As from a `return` that was forgotten, or a `sum` that was not wanted.
    if batch is None or isinstance(batch, (str, bytes, int, float, complex, np.generic)):
        got = shown(batch)
        raise CollateError(
            f"the source's {method}: expected a batch of {expected} rows, got {got}; return an "
            "array, or a tuple or dict of them, with a row for each index"
        )
    for rows in _lengths(batch, expected):
        if rows != expected:
            raise CollateError(
                f"the source's {method}: expected arrays and lists of {expected} rows, "
                f"got one of {rows}; return a row for each index, in their order"
            )
    return batch


def _lengths(batch: Any, expected: int) -> Iterator[int]:
    """Give the lengths of what has rows in a batch, in dicts and tuples field by field."""
    if isinstance(batch, np.ndarray):
        yield len(batch) if batch.ndim else 0
    elif isinstance(batch, list):
        # A list of these may hold ragged rows, or fields, one of which has as many as expected.
        fields = (one for one in batch if isinstance(one, (np.ndarray, dict, tuple, list)))
        within = (rows for one in fields for rows in _lengths(one, expected))
        yield len(batch) if expected not in within else expected
    elif isinstance(batch, (dict, tuple)):
        for field in batch.values() if isinstance(batch, dict) else batch:
            yield from _lengths(field, expected)


def from_package(kind: type) -> bool:
    """Tell whether a class is this package's."""
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]
