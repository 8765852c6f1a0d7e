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


def differing(there: Any, here: Any, rows: int) -> list[Field]:
    """List the fields in which a batch, `here`, is not as it should be, `there`; both of `rows`.

    >>> differing({"x": np.array([1, 2])}, {"x": np.array([1, 3])}, 2)
    [Field(name="batch['x']", what='1 of 2 values differs, the first at [1]: expected 2, got 3', \
rows=(1,))]
    """
    return list(_fields(there, here, rows, ()))


def _fields(there: Any, here: Any, rows: int, path: Path) -> Iterator[Field]:
    if digest(there) == digest(here):
        return
    found = list(_within(there, here, rows, path))
    # `_within` sees no attributes, as of an object of a class derived from dict, and takes the key
    # 1 for True.
    other = f"the same items, but other keys or attributes of the {_kind(there)}"
    yield from found or [Field(place(path), other)]


def _within(there: Any, here: Any, rows: int, path: Path) -> Iterator[Field]:
    name = place(path)
    scalars = [isinstance(it, np.generic) for it in (there, here)]
    if _is_array(there) and _is_array(here) and scalars[0] == scalars[1]:
        yield _arrays(name, np.asarray(there), np.asarray(here), rows)
    elif type(there) is not type(here):
        yield Field(name, f"expected {_kind(there)}, got {_kind(here)}")
    elif isinstance(there, dict):
        if list(there) != list(here):
            yield Field(name, f"expected the keys {_short(list(there))}, got {_short(list(here))}")
            return
        for key in there:
            yield from _fields(there[key], here[key], rows, (*path, key))
    elif isinstance(there, (list, tuple)):
        if len(there) != len(here):
            yield Field(name, f"expected {len(there)} items, got {len(here)}")
        elif len(there) == rows and not any(map(_is_field, there)):
            # One item for each row, as in a list of texts.
            wrong = [row for row in range(rows) if digest(there[row]) != digest(here[row])]
            for at in wrong[:1]:  # none where only attributes of the list differ
                what = f"expected {_short(there[at])}, got {_short(here[at])}"
                yield Field(f"{name}[{at}]", what, tuple(wrong))
        else:
            for number, (one, other) in enumerate(zip(there, here, strict=True)):
                yield from _fields(one, other, rows, (*path, number))
    else:
        yield Field(name, f"expected {_short(there)}, got {_short(here)}")


def _arrays(name: str, there: npt.NDArray[Any], here: npt.NDArray[Any], rows: int) -> Field:
    kinds = [f"{array.dtype} {array.shape}" for array in (there, here)]
    plain = [array.dtype.newbyteorder("=") for array in (there, here)]
    if there.shape != here.shape or plain[0] != plain[1]:
        return Field(name, f"expected {kinds[0]}, got {kinds[1]}")
    wrong: tuple[int, ...] = ()
    if there.ndim and len(there) == rows:
        wrong = tuple(row for row in range(rows) if digest(there[row]) != digest(here[row]))
    if there.dtype.kind not in "biufcmMSU":
        return Field(name, f"{kinds[0]}, its values differ", wrong)
    differs = (used_bytes(there) != used_bytes(here)).any(axis=-1)
    count = int(np.count_nonzero(differs))
    at = tuple(int(axis[0]) for axis in np.nonzero(differs)) if there.ndim else ()
    values = f"expected {_short(there[at].item())}, got {_short(here[at].item())}"
    where = f", the first at [{', '.join(map(str, at))}]" if at else ""
    verb = "differs" if count == 1 else "differ"
    return Field(name, f"{count:,} of {there.size:,} values {verb}{where}: {values}", wrong)


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
