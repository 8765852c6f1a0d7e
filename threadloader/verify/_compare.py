"""Says where two batches differ: which fields, which rows, which values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..fingerprint import digest, place, used_bytes

__all__ = ["Field", "differing"]

Path = tuple[Any, ...]


class Field(NamedTuple):
    """A field that differs.

    Attributes:
        name: where it stands: ``batch['x']``.
        what: what was expected, and what came.
        rows: the rows of the batch that differ; empty where the whole of it does.
    """

    name: str
    what: str
    rows: tuple[int, ...] = ()


def differing(expected: Any, got: Any, rows: int) -> list[Field]:
    """List the fields, in their order, in which a batch of `rows` rows is not as expected.

    >>> differing({"x": np.array([1, 2])}, {"x": np.array([1, 3])}, 2)
    [Field(name="batch['x']", what='1 of 2 values differs, the first at [1]: expected 2, got 3', \
rows=(1,))]
    """
    return list(_fields(expected, got, rows, ()))


def _fields(expected: Any, got: Any, rows: int, path: Path) -> Iterator[Field]:
    if digest(expected) == digest(got):
        return
    found = list(_within(expected, got, rows, path))
    # `_within` sees no attributes, as of an object of a class derived from dict, and takes the key
    # 1 for True.
    other = f"the same items, but other keys or attributes of the {_kind(expected)}"
    yield from found or [Field(place(path), other)]


def _within(expected: Any, got: Any, rows: int, path: Path) -> Iterator[Field]:
    name = place(path)
    scalars = [isinstance(it, np.generic) for it in (expected, got)]
    if _is_array(expected) and _is_array(got) and scalars[0] == scalars[1]:
        yield _arrays(name, np.asarray(expected), np.asarray(got), rows)
    elif type(expected) is not type(got):
        yield Field(name, f"expected {_kind(expected)}, got {_kind(got)}")
    elif isinstance(expected, dict):
        if list(expected) != list(got):
            yield Field(
                name, f"expected the keys {_short(list(expected))}, got {_short(list(got))}"
            )
            return
        for key in expected:
            yield from _fields(expected[key], got[key], rows, (*path, key))
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(got):
            yield Field(name, f"expected {len(expected)} items, got {len(got)}")
        elif len(expected) == rows and not any(map(_is_field, expected)):
            # One item for each row, as in a list of texts.
            wrong = [row for row in range(rows) if digest(expected[row]) != digest(got[row])]
            for at in wrong[:1]:  # none where only attributes of the list differ
                what = f"expected {_short(expected[at])}, got {_short(got[at])}"
                yield Field(f"{name}[{at}]", what, tuple(wrong))
        else:
            for number, (one, other) in enumerate(zip(expected, got, strict=True)):
                yield from _fields(one, other, rows, (*path, number))
    else:
        yield Field(name, f"expected {_short(expected)}, got {_short(got)}")


def _arrays(name: str, expected: npt.NDArray[Any], got: npt.NDArray[Any], rows: int) -> Field:
    kinds = [f"{array.dtype} {array.shape}" for array in (expected, got)]
    plain = [array.dtype.newbyteorder("=") for array in (expected, got)]
    if expected.shape != got.shape or plain[0] != plain[1]:
        return Field(name, f"expected {kinds[0]}, got {kinds[1]}")
    wrong: tuple[int, ...] = ()
    if expected.ndim and len(expected) == rows:
        wrong = tuple(row for row in range(rows) if digest(expected[row]) != digest(got[row]))
    if expected.dtype.kind not in "biufcmMSU":
        return Field(name, f"{kinds[0]}, its values differ", wrong)
    differs = (used_bytes(expected) != used_bytes(got)).any(axis=-1)
    count = int(np.count_nonzero(differs))
    at = tuple(int(axis[0]) for axis in np.nonzero(differs)) if expected.ndim else ()
    values = f"expected {_short(expected[at].item())}, got {_short(got[at].item())}"
    where = f", the first at [{', '.join(map(str, at))}]" if at else ""
    verb = "differs" if count == 1 else "differ"
    return Field(name, f"{count:,} of {expected.size:,} values {verb}{where}: {values}", wrong)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(type(value), "__array__")


def _is_field(value: Any) -> bool:
    """Tell whether an item is a field of all rows, as collate makes them, and not a row."""
    return _is_array(value) or isinstance(value, (list, tuple))


def _kind(value: Any) -> str:
    if _is_array(value):
        array = np.asarray(value)
        return f"{array.dtype} {array.shape}"
    return type(value).__name__


def _short(value: Any) -> str:
    """Show a plain value in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]} ..."
