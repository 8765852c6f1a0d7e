"""Samples of equal structure, stacked field by field; what the collates share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CollateError, by_handler, shown
from ._advice import ARRAYS, COLUMNS, CUT, EQUAL, LIFT, LISTS, LISTS_INSIDE, PAD, has_texts, unfit

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["stack"]

_DEEPEST = 32
"""Containers inside each other. Chosen: no sample needs as many; one that holds itself has more."""

# Other subclasses of ndarray add something (a mask, a unit) that stacking would lose.
_PLAIN_TYPES = (np.ndarray, np.memmap, np.recarray)

_NUMBERS = (
    (bool, np.dtype(np.bool_)),  # before int, of which it is a subclass
    (int, np.dtype(np.int64)),
    (float, np.dtype(np.float64)),
)

Path = tuple[Any, ...]
"""The keys, positions or names that lead from a sample to one of its fields."""

_NOTHING: Mapping[Path, Any] = {}


def stack(samples: Sequence[Any], whole: Mapping[Path, Any] | None = None) -> Any:
    """Stack samples of equal structure along a new first axis.

    Args:
        samples: the samples of one batch, at least one. By what they are, the batch is:

            - numpy arrays or scalars: an array ``(batch, *shape)`` of the same dtype;
            - ``bool``, ``int``, ``float``: an array ``(batch,)`` of bool, int64, float64;
            - ``str`` or ``bytes`` (of numpy too): a list of them;
            - dicts, tuples, named tuples, lists: one such of their fields, stacked each.

        whole: by path, arrays ``(batch, *shape)`` of fields whose rows are written already.

    Returns:
        The batch. Its arrays, but those of `whole`, are newly made, writable and C-contiguous.

    Raises:
        CollateError: a sample is something else, or the samples differ. It names the
            field, and row 0 and the lowest row that differs from it.
        ValueError: there is no sample.

    >>> stack([{"x": np.array([1, 2]), "name": "a"}, {"x": np.array([3, 4]), "name": "b"}])
    {'x': array([[1, 2],
           [3, 4]]), 'name': ['a', 'b']}
    """
    faults = Faults()
    batch = stack_field(at_least_one(samples), (), faults, whole or _NOTHING)
    faults.raise_lowest()
    return batch


class Faults:
    """The fault of the lowest row so far: fields are compared one after the other.

    ``ragged`` is the advice for arrays that differ in length.
    """

    def __init__(self, ragged: str = PAD) -> None:
        self._ragged = ragged
        self._lowest: CollateError | None = None

    def add(self, path: Path, message: str, row: int, *others: int) -> None:
        """Note a fault of one row, which the message also compares to others."""
        if self._lowest is None or row < self._lowest.rows[-1]:
            self._lowest = fault(path, message, *others, row)

    def differs(self, path: Path, first: Any, row: int, value: Any) -> None:
        """Note what row 0 has, what another row has instead, and what to do."""
        hint = unfit(value) if family_of(value) is None else EQUAL
        inside = len(path) > 1
        if isinstance(first, np.ndarray) and isinstance(value, np.ndarray):
            same = first.dtype == value.dtype and first.dtype.kind in "biufc"
            if same and first.ndim == value.ndim and first.shape[1:] != value.shape[1:]:
                hint = CUT
            elif same and first.ndim == value.ndim > 0 and len(first) != len(value):
                hint = LIFT if inside else self._ragged
            elif not path and first.ndim and value.ndim and len(first) == len(value):
                hint = f"{hint}; {COLUMNS}"
        elif isinstance(first, list) and isinstance(value, list):
            lists = LISTS_INSIDE if inside else LISTS
            hint = EQUAL if has_texts(first) or has_texts(value) else lists
        self.add(path, f"row 0 has {say(first)}, row {row} has {say(value)}; {hint}", row, 0)

    def raise_lowest(self) -> None:
        """Raise the fault of the lowest row, if there was any."""
        if self._lowest is None:
            return
        # The traceback leads to this frame, so neither it nor the object may keep the error.
        lowest, self._lowest = self._lowest, None
        try:
            raise lowest
        finally:
            del lowest


def fault(path: Path, message: str, *rows: int) -> CollateError:
    """Make an error that begins with the field."""
    where = f"field {path[0]!r}" if path else "the sample"
    return CollateError(where + "".join(f"[{key!r}]" for key in path[1:]) + f": {message}", rows)


def at_least_one(samples: Sequence[Any]) -> Sequence[Any]:
    """Give the samples, if there are any."""
    if not len(samples):
        raise ValueError("expected at least one sample for a batch, got none")
    return samples


def stack_field(
    rows: Sequence[Any], path: Path, faults: Faults, whole: Mapping[Path, Any] = _NOTHING
) -> Any:
    """Stack one field. Rows from a faulty one on are left out: only a lower fault counts then."""
    first = rows[0]
    family = family_of(first)
    if family is None or len(path) > _DEEPEST:
        what = say(first) if family is None else f"more than {_DEEPEST} containers in each other"
        raise fault(path, f"row 0 has {what}, which cannot be stacked; {unfit(first)}", 0)
    if family == "number":
        return whole[path] if path in whole else _stack_numbers(rows, path, faults)
    if family in ("str", "bytes"):
        if not of_one_type(rows):
            up_to_fault(rows, path, faults, lambda value: family_of(value) == family)
        return list(rows)
    columns = columns_of(rows, path, faults)
    fields = {
        name: stack_field(column, (*path, name), faults, whole) for name, column in columns.items()
    }
    if family == "dict":
        return fields
    if family == "tuple":
        return tuple(fields.values())
    return list(fields.values()) if family == "list" else family._make(fields.values())


def _stack_numbers(rows: Sequence[Any], path: Path, faults: Faults) -> npt.NDArray[Any]:
    first = rows[0]
    dtype, shape = kind = kind_of(first) or (np.dtype(object), ())
    uniform = of_one_type(rows)
    if isinstance(first, (np.ndarray, np.generic)):
        uniform = uniform and have_all(rows, "dtype", dtype) and have_all(rows, "shape", shape)
    if not uniform:
        rows = up_to_fault(rows, path, faults, lambda value: kind_of(value) == kind)
    if not dtype.itemsize:  # strings of no width, which numpy makes one wide except as a field
        return np.zeros((len(rows), *shape), [("", dtype)])["f0"]
    if shape or dtype.names:
        # Zeros: between the fields of a record nothing is written.
        batch = (np.zeros if dtype.names else np.empty)((len(rows), *shape), dtype)
        if not shape:
            for at, row in enumerate(rows):
                batch[at] = row
            return batch
        # A third of the time of numpy.stack for many small arrays.
        joined = batch.reshape(len(rows) * shape[0], *shape[1:])
        np.concatenate(rows, out=joined, casting="no")
        return batch
    try:
        return np.array(rows, dtype)
    except OverflowError as error:
        if by_handler(error):
            raise
        row = next(row for row, value in enumerate(rows) if not -(2**63) <= value < 2**63)
        faults.add(path, f"row {row} has {say(rows[row])}, too large for int64; {ARRAYS}", row)
        return np.zeros(len(rows), dtype)


def columns_of(rows: Sequence[Any], path: Path, faults: Faults) -> dict[Any, list[Any]]:
    """Give the column of each field of containers, by its key, position or name."""
    first = rows[0]
    family = family_of(first)
    keys = list(first) if family == "dict" else range(len(first))
    names = first._fields if isinstance(family, type) else keys

    def fits(value: Any) -> bool:
        if family_of(value) != family:
            return False
        return value.keys() == first.keys() if family == "dict" else len(value) == len(first)

    # Only a plain dict is known to raise KeyError for a key that it does not have.
    if of_one_type(rows) and (family != "dict" or type(first) is dict):
        try:
            if set(map(len, rows)) == {len(first)}:
                return {n: [row[key] for row in rows] for n, key in zip(names, keys, strict=True)}
        except KeyError as error:
            if by_handler(error):
                raise
    rows = up_to_fault(rows, path, faults, fits)
    return {n: [row[key] for row in rows] for n, key in zip(names, keys, strict=True)}


def of_one_type(rows: Sequence[Any]) -> bool:
    """Tell whether all have the very type of row 0: the common case, quick to see."""
    return set(map(type, rows)) == {type(rows[0])}


def have_all(rows: Sequence[Any], attribute: str, value: Any) -> bool:
    """Tell whether an attribute of all rows is equal to a value.

    With the loop in C: for small arrays most of the time of a batch goes here.
    """
    return list(map(attrgetter(attribute), rows)).count(value) == len(rows)


def up_to_fault(
    rows: Sequence[Any], path: Path, faults: Faults, fits: Callable[[Any], bool]
) -> Sequence[Any]:
    """Note the first row that does not fit, if there is one, and give the rows before it."""
    for row, value in enumerate(rows):
        if not fits(value):
            faults.differs(path, rows[0], row, value)
            return rows[:row]
    return rows


def kind_of(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Give dtype and shape of what becomes part of an array, None for all else."""
    if isinstance(value, (str, bytes)):  # the strings of numpy too
        return None
    if isinstance(value, (np.ndarray, np.generic)):
        plain = isinstance(value, np.generic) or type(value) in _PLAIN_TYPES
        return (value.dtype, value.shape) if plain and not value.dtype.hasobject else None
    return next(((dtype, ()) for kind, dtype in _NUMBERS if isinstance(value, kind)), None)


def family_of(value: Any) -> Any:
    """Give what decides how a value is stacked; None for what cannot be.

    That is ``"number"`` (arrays too), ``"str"``, ``"bytes"``, ``"dict"``, ``"tuple"``,
    ``"list"``, or the class of a named tuple.
    """
    if kind_of(value) is not None:
        return "number"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)
    families = (dict, tuple, list, str, bytes)
    return next((family.__name__ for family in families if isinstance(value, family)), None)


def say(value: Any) -> str:
    """Describe a value in an error."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        name = "an array" if kind in _PLAIN_TYPES else f"a {kind.__qualname__}"
        return f"{name} of dtype {value.dtype} and shape {value.shape}"
    if isinstance(value, dict):
        names = [shown(name) for name in islice(value, 10)] + ["..."] * (len(value) > 10)
        return f"a dict of {', '.join(names) or 'nothing'}"
    if isinstance(value, (tuple, list)):
        return f"a {kind.__qualname__} of length {len(value)}"
    if kind is int and value.bit_length() > 128:  # Python refuses to write very long ones
        return f"{'a negative' if value < 0 else 'an'} int of {value.bit_length()} bits"
    if kind in (str, bytes):
        return f"{kind.__name__} {value[:40]!r}"
    if kind in (bool, int, float) or isinstance(value, np.generic):
        return f"{kind.__name__} {shown(value)}"
    if value is None:
        return "None"
    return f"a {kind.__module__}.{kind.__qualname__}"
