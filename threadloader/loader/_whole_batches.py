"""Whole batches of a source that builds them: which of its methods is asked, and what it gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import sources
from ..errors import CollateError, shown

__all__ = ["builder", "from_package", "taking"]


def taking(source: Any, empty: Callable[..., Any]) -> Callable[[Any], Any]:
    """Give what builds whole batches, in memory that is used again where the source can."""
    kind = builder(sources.behind(source))
    # It may be None, to say that there is none, or hidden by what stands around the object.
    if kind is None or "take_into" not in vars(kind) or getattr(source, "take_into", None) is None:
        return lambda indices: _counted("take", source.take(indices), len(indices))
    if from_package(kind):  # tested: counting takes a third as long as gathering from memory
        return lambda indices: source.take_into(indices, empty)
    return lambda indices: _counted("take_into", source.take_into(indices, empty), len(indices))


def builder(source: Any) -> type | None:
    """Give the class whose way to build batches is the source's: the lowest that has any.

    A subclass that overrides only `take` means this one. None where an object has a `take` of its
    own, which means that one, or has one by its ``__getattr__``.
    """
    if "take" not in sources.attributes_of(source):
        for kind in type(source).__mro__:
            if "take_into" in vars(kind) or "take" in vars(kind):
                return kind
    return None


def _counted(method: str, batch: Any, expected: int) -> Any:
    """Give a batch that a method of the source has built, if it has as many rows as expected."""
    if type(batch) is dict:  # the usual ones are seen to be good without generators
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
        # Of such, it may be ragged rows as well as fields, of which one has as many as expected.
        fields = (one for one in batch if isinstance(one, (np.ndarray, dict, tuple, list)))
        within = (rows for one in fields for rows in _lengths(one, expected))
        yield len(batch) if expected not in within else expected
    elif isinstance(batch, (dict, tuple)):
        for field in batch.values() if isinstance(batch, dict) else batch:
            yield from _lengths(field, expected)


def from_package(kind: type) -> bool:
    """Tell whether a class is this package's."""
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]
