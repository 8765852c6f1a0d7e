"""What to do about samples that do not fit: the end of an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = [
    "ARRAYS",
    "AS_ARRAY",
    "COLUMNS",
    "CUT",
    "EQUAL",
    "LIFT",
    "LISTS",
    "LISTS_INSIDE",
    "PAD",
    "TOO",
    "has_texts",
    "is_foreign_array",
    "no_array",
    "no_fill",
    "unfit",
]

EQUAL = "make them equal in the transform, or give collate=... in code"
ARRAYS = "return numpy arrays from the transform, or give collate=... in code"
AS_ARRAY = "return numpy.asarray(...) of it from the transform"
CUT = "cut or scale them to one shape in the transform, or give collate=... in code"
COLUMNS = "if these are columns, give them to the Loader as a tuple or a dict and not as a list"
PAD = (
    'pad them along the first axis with "collate": {"type": "pad"}, or make them equal in the '
    "transform"
)
TOO = 'name it in the "fields" to pad, too, or make them equal in the transform'
LIFT = (
    'only fields of the sample itself are padded ("collate": {"type": "pad"}): lift its arrays '
    "there in the transform, or give collate=... in code"
)
_NUMBERS = "padding takes numbers only: convert it in the transform"
LISTS = "return a numpy array instead of a list, which can be padded"
LISTS_INSIDE = "return a numpy array in a field of the sample itself, where it can be padded"


def no_fill(dtype: np.dtype[Any], *, named: bool, listed: bool) -> str:
    """Say what to do about a dtype that does not hold the pad value.

    ``named`` is whether it is that of a field, ``listed`` whether the option names the fields.
    """
    if dtype.kind in "mMSUV" and dtype.isbuiltin != 2:  # a 2 is a number of another package
        if listed:
            return f'{_NUMBERS}, or leave it out of "fields", if all are alike'
        return f'{_NUMBERS}, or name the "fields"' if named else _NUMBERS
    return 'give another "value"' + (', or the "fields" to pad' if named and not listed else "")


def no_array(value: Any, *, stacks: bool, named: bool) -> str:
    """Say what to do about what is to be padded and is no array of one dimension or more.

    ``stacks`` is whether it can be stacked, ``named`` whether it is a field, or else the sample.
    """
    inside = isinstance(value, (dict, list, tuple))
    parts = value.values() if isinstance(value, dict) else value if inside else ()
    if any(isinstance(part, (np.ndarray, dict)) for part in parts):
        return LIFT
    if isinstance(value, (list, tuple)):
        if has_texts(value):
            return _NUMBERS
        return f'{AS_ARRAY}, or name its dtype in the source ("dtypes")'
    if stacks:
        stacked = 'leave it out of "fields": it is stacked as it is'
        return stacked if named else 'take the collate {"type": "stack"}'
    return AS_ARRAY


def is_foreign_array(value: Any) -> bool:
    """Tell whether a value is an array of another package, as a tensor is."""
    return hasattr(type(value), "__array__") and not isinstance(value, (np.ndarray, np.generic))


def has_texts(value: Any, deep: int = 8) -> bool:
    """Tell whether a list or a tuple has None or texts in it, also in lists and tuples inside."""
    return any(
        part is None
        or isinstance(part, (str, bytes))
        or (deep > 0 and isinstance(part, (list, tuple)) and has_texts(part, deep - 1))
        for part in value
    )


def unfit(value: Any) -> str:
    """Say what to do about a value that cannot be stacked."""
    fields = hasattr(type(value), "__dataclass_fields__") and not is_foreign_array(value)
    if isinstance(value, Mapping) or fields:
        return "return a dict of its fields from the transform, or give collate=... in code"
    if hasattr(type(value), "as_py"):  # a value of pyarrow
        return "return its as_py() from the transform, or give collate=... in code"
    if not isinstance(value, np.ndarray):
        return ARRAYS
    # Newer numpy imports numpy.ma at its first use; that may be here, where there is an error.
    if isinstance(value, np.ma.MaskedArray):
        return "return array.filled(value) and the mask as two fields from the transform"
    if value.dtype.kind == "T":
        return (
            'return its tolist(), or array.astype("U20") with the width of the longest text, '
            "from the transform"
        )
    if any(isinstance(part, (np.ndarray, list, tuple)) for part in value.flat):
        return "pad its rows to one length in the transform, or return each in a field of its own"
    if value.dtype.hasobject:
        return "return array.astype(...) with the dtype of what it holds from the transform"
    return "return numpy.asarray(...) of it, without what its class adds, from the transform"
