"""Fields whose length differs from sample to sample, padded, with masks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, by_handler
from ._advice import AS_ARRAY, TOO, is_foreign_array, no_array, no_fill
from ._pad_options import as_in_json, problems
from ._stack import (
    Faults,
    Path,
    at_least_one,
    columns_of,
    family_of,
    fault,
    have_all,
    kind_of,
    of_one_type,
    say,
    stack_field,
    up_to_fault,
)

__all__ = ["Pad"]


@dataclass(frozen=True)
class Pad:
    """Stacks samples, with array fields padded along their first axis, and masks.

    A batch has a mask for each padded field: a bool array ``(batch, padded length)``,
    True where there is data. A bare array becomes the tuple (values, mask). In a dict
    the mask of field ``x`` is called ``x_mask``; in a tuple or list the masks come
    last; both stand after all fields, in the order of the fields. All other fields are
    stacked.

    Args:
        fields: the fields to pad: keys of the dict, or positions in the tuple or list;
            None for every array (of one dimension or more) at the top of the sample.
        length: the padded length; None for that of the longest row in the batch.
        multiple_of: the longest is rounded up to a multiple of this.
        value: what is padded with: a number, or a mapping from field to number, which pads
            fields that it does not name with 0. Every padded field's dtype must hold its
            number exactly, except that a float dtype rounds a fraction. Names are those of
            ``fields``; a position may also be written as a string, as JSON has to
            (``{"1": -100}``).
        truncate: cut rows that are longer than ``length``, which is an error otherwise; only
            with a ``length``.

    Raises:
        ConfigError: an option is out of bounds, or ``length`` no multiple of ``multiple_of``.

    >>> values, mask = Pad()([np.array([1.0, 2.0]), np.array([3.0])])
    >>> values
    array([[1., 2.],
           [3., 0.]])
    >>> mask
    array([[ True,  True],
           [ True, False]])
    """

    fields: Sequence[str | int] | None = None
    length: int | None = None
    multiple_of: int = 1
    value: float | Mapping[Any, float] = 0  # to a checker no dict of str is one of str | int
    truncate: bool = False
    # The pad values that `filling` was given, by field.
    _field_fills: dict[str, float] = field(default_factory=dict, init=False, repr=False, hash=False)
    # What `_fill` has given; threads may make the same entry twice.
    _fills: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option in ("fields", "length", "multiple_of", "value", "truncate"):
            object.__setattr__(self, option, as_in_json(getattr(self, option)))
        found = problems(self.fields, self.length, self.multiple_of, self.value, self.truncate)
        if told := list(found):
            raise ConfigError(told)
        if self.fields is not None:
            object.__setattr__(self, "fields", tuple(self.fields))
        if isinstance(self.value, Mapping):
            named = {str(name): number for name, number in self.value.items()}
            object.__setattr__(self, "value", named)

    def __call__(self, samples: Sequence[Any]) -> Any:
        """Make the batch.

        Args:
            samples: the samples of one batch, at least one: arrays, or dicts, tuples
                or lists with array fields. The arrays of a padded field have the same
                dtype, and the same shape after the first axis. Or samples as columns, with
                fields that pad themselves, as `masking.Columns`.

        Returns:
            The batch as `stack` makes it, but padded fields have the shape ``(batch,
            padded length, *shape after the first axis)``; and the masks.

        Raises:
            CollateError: the samples differ otherwise, one is longer than ``length``,
                a field is missing or no array, or its dtype does not hold the value.
                It names the field and the rows.
            ValueError: there is no sample.
        """
        columns: Mapping[Any, Any] = getattr(samples, "columns", {})
        first = cast("Any", samples).first if columns else at_least_one(samples)[0]
        family = "dict" if columns else family_of(first)
        faults = Faults(TOO)
        batch: Any
        if isinstance(first, np.ndarray) and self.fields is None:
            self._know_names((), first)
            values, lengths = self._pad(samples, (), faults)
            batch = values, _mask_of(lengths, values.shape[1])
        elif family in ("dict", "tuple", "list"):
            rows = cast("Any", samples).plain if columns else samples
            fields: dict[Any, Any] = dict(columns_of(rows, (), faults) if len(rows) else ())
            fields.update(columns)
            chosen = self._chosen(first, fields)
            self._know_names(chosen, first)
            sizes = {}
            for name, column in fields.items():
                if name in columns:
                    sizes[name] = column.sizes
                    width = self._width(column.sizes, (name,), faults)
                    fields[name] = column.padded(width, self._fill(column.dtype, (name,)))
                elif name in chosen:
                    fields[name], sizes[name] = self._pad(column, (name,), faults)
                else:
                    fields[name] = stack_field(column, (name,), faults)
            masks = _masks_of(fields, sizes)
            if family == "dict":
                batch = _with_masks(fields, masks)
            else:
                parts = (*fields.values(), *masks.values())
                batch = parts if family == "tuple" else list(parts)
        else:
            what = "a named tuple, which has no place for masks"
            if not hasattr(first, "_fields"):
                what = f"{say(first)}, which is no dict, tuple or list of fields to pad"
            hint = AS_ARRAY if is_foreign_array(first) else "return a dict from the transform"
            raise fault((), f"row 0 has {what}; {hint}", 0)
        faults.raise_lowest()
        return batch

    def filling(self, fills: Mapping[str, float]) -> Pad:
        """Give a copy that pads fields by ``fills``, unless ``value`` names a number for them."""
        other = replace(self)
        object.__setattr__(other, "_field_fills", dict(fills))
        return other

    def pads(self, names: Collection[Any]) -> bool:
        """Tell whether these fields are among the padded ones, if they are arrays."""
        return self.fields is None or set(names) <= set(self.fields)

    def _chosen(self, first: Any, names: Collection[Any]) -> Collection[Any]:
        """Give the fields to pad, from the structure of row 0: never from lengths."""
        if self.fields is not None:
            for name in self.fields:
                if name not in names:
                    message = f"row 0 has {say(first)}, where a field {name!r} is to be padded; "
                    raise fault((), message + 'in "fields", name only fields that samples have', 0)
            return self.fields
        chosen = [n for n in names if isinstance(first[n], np.ndarray) and first[n].ndim]
        if not chosen:
            message = f"row 0 has {say(first)}, without an array of one dimension or more to pad; "
            hint = 'return one in a field of the sample itself, or take {"type": "stack"}'
            if isinstance(first, list) and {"number"}.issuperset(map(family_of, first)):
                # Lists that differ in length are not stacked, and arrays of texts are not padded.
                hint = "return numpy.asarray(...) of it from the transform"
            for name in names:
                if isinstance(first[name], list) or is_foreign_array(first[name]):
                    hint = f"{no_array(first[name], stacks=False, named=True)} (field {name!r})"
                    break
            raise fault((), message + hint, 0)
        return chosen

    def _know_names(self, chosen: Collection[Any], first: Any) -> None:
        """Refuse a pad value for a field that is not padded."""
        if isinstance(self.value, Mapping):
            known = set(map(str, chosen))
            for name in self.value:
                if str(name) not in known:
                    message = f"row 0 has {say(first)}, where no field {name!r} is padded; "
                    raise fault((), message + 'in "value", name only fields that are padded', 0)

    def _pad(
        self, rows: Sequence[Any], path: Path, faults: Faults
    ) -> tuple[npt.NDArray[Any], list[int]]:
        """Give the padded rows of a field, and how long each is."""
        first = rows[0]
        if not isinstance(first, np.ndarray) or not first.ndim:
            message = f"row 0 has {say(first)}, which is no array of one dimension or more to pad; "
            hint = no_array(first, stacks=family_of(first) is not None, named=bool(path))
            raise fault(path, message + hint, 0)
        if kind_of(first) is None:
            message = f"row 0 has {say(first)}, which cannot be padded without loss; "
            hint = "return a plain array of numbers from the transform"
            if isinstance(first, np.ma.MaskedArray):
                hint += ", as by array.filled(value)"
            raise fault(path, message + hint, 0)
        dtype, shape = first.dtype, first.shape[1:]
        uniform = of_one_type(rows) and have_all(rows, "dtype", dtype)
        if not uniform or shape or not have_all(rows, "ndim", 1):

            def fits(value: Any) -> bool:
                kind = kind_of(value) or (None, ())
                return kind[0] == dtype and kind[1] != () and kind[1][1:] == shape

            rows = up_to_fault(rows, path, faults, fits)
        sizes = list(map(len, rows))
        width = self._width(sizes, path, faults)
        values = np.full((len(rows), width, *shape), self._fill(dtype, path), dtype)
        for line, row, size in zip(values, rows, sizes, strict=True):
            line[:size] = row if size <= width else row[:width]
        return values, sizes

    def _width(self, sizes: list[int], path: Path, faults: Faults) -> int:
        """Give the padded length of rows of some lengths."""
        longest = max(sizes)
        width = longest if self.length is None else self.length
        width += -width % self.multiple_of
        if longest > width and not self.truncate:
            row = next(row for row, size in enumerate(sizes) if size > width)
            message = f"row {row} has the length {sizes[row]}, but all are padded to {width}; "
            hint = 'give a larger "length", or "truncate": true'
            if self.fields is None and path:
                hint += ', or name the "fields" to pad'
            faults.add(path, message + hint, row)
        return width

    def _fill(self, dtype: np.dtype[Any], path: Path) -> Any:
        """Give the pad value in a dtype that holds it."""
        known = self._fills.get((dtype, path))
        if known is None:
            known = self._fills[dtype, path] = self._held(dtype, path)
        return known

    def _held(self, dtype: np.dtype[Any], path: Path) -> Any:
        """Find what `_fill` gives, at the first time for a dtype and path."""
        name = str(path[0]) if path else ""
        named, others = ({}, self.value) if not isinstance(self.value, Mapping) else (self.value, 0)
        value: Any = named.get(name, self._field_fills.get(name, others))
        try:
            if dtype.kind in "iu":
                bounds = np.iinfo(dtype)
                if int(value) == value and bounds.min <= value <= bounds.max:
                    return int(value)
            elif dtype.kind in "bfc" or dtype.isbuiltin == 2:  # of another package
                with np.errstate(all="ignore"):
                    fill = dtype.type(value)
                # Compared as Python numbers, which compare exactly. A fraction is rounded, as
                # it was when it was written down; a whole number must be there as it is.
                back = type(value)(float(fill) if dtype.kind == "V" else fill.real)
                if back == value or (back != back and value != value):
                    return fill
                holds_fractions = dtype.type(0.5) == 0.5
                if holds_fractions and np.isfinite(fill) and value != int(value):
                    return fill
        # As for 10**400, or NaN in an integer dtype; other packages' dtypes for a long integer.
        except (OverflowError, ValueError, TypeError) as error:
            if by_handler(error):
                raise
        message = f"row 0 has dtype {dtype}, which cannot hold the pad value {say(value)}; "
        hint = no_fill(dtype, named=bool(path), listed=self.fields is not None)
        raise fault(path, message + hint, 0)


def _masks_of(
    fields: Mapping[Any, npt.NDArray[Any]], sizes: Mapping[Any, list[int]]
) -> dict[Any, npt.NDArray[np.bool_]]:
    """Give the mask of each padded field, by name; fields of equal sizes share the work."""
    masks: dict[Any, npt.NDArray[np.bool_]] = {}
    for name, lengths in sizes.items():
        twin = next((other for other in masks if sizes[other] == lengths), None)
        width = fields[name].shape[1]
        masks[name] = _mask_of(lengths, width) if twin is None else masks[twin].copy()
    return masks


def _mask_of(sizes: list[int], width: int) -> npt.NDArray[np.bool_]:
    """Tell where rows of some sizes, perhaps beyond the width, have data: bool (rows, width)."""
    narrow = np.min_scalar_type(width)  # which is compared faster
    ends = np.minimum(sizes, width).astype(narrow)
    mask: npt.NDArray[np.bool_] = np.arange(width, dtype=narrow) < ends[:, np.newaxis]
    return mask


def _with_masks(fields: dict[Any, Any], masks: dict[Any, Any]) -> dict[Any, Any]:
    batch = dict(fields)
    for name, mask in masks.items():
        key = f"{name}_mask"
        if key in batch:
            message = f"row 0 has {say(fields)}, where the mask of {name!r} has no name left; "
            raise fault((), message + "rename the fields in the transform", 0)
        batch[key] = mask
    return batch
