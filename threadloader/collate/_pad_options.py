"""What the options of `Pad` may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import Problem, shown

__all__ = ["as_in_json", "problems"]

_MOST = 2**31 - 1  # as in the config's schema
_COUNT = f"an integer from 1 to {_MOST}"


def as_in_json(value: Any) -> Any:
    """Give an option with Python's numbers in place of numpy's."""
    if isinstance(value, Mapping):
        return {_plain(name): _plain(number) for name, number in value.items()}
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else _plain(value)


def problems(
    fields: Any, length: Any, multiple_of: Any, value: Any, truncate: Any
) -> Iterator[Problem]:
    """Say what is wrong with the options of `Pad`, in code as in a config."""
    if fields is not None:
        if not isinstance(fields, (list, tuple)) or not all(map(_is_field, fields)):
            yield Problem("/collate/fields", "a list of names or positions", shown(fields))
        elif not fields or len(set(fields)) < len(fields):
            yield Problem("/collate/fields", "at least one field, each once", shown(fields))
    if length is not None and not _is_positive(length):
        yield Problem("/collate/length", f"{_COUNT}, or null", shown(length))
    if not _is_positive(multiple_of):
        yield Problem("/collate/multiple_of", _COUNT, shown(multiple_of))
    elif length is not None and _is_positive(length) and length % multiple_of:
        yield Problem("/collate/length", f"a multiple of multiple_of, {multiple_of}", shown(length))
    yield from _value_problems(fields, value)
    if not isinstance(truncate, bool):
        yield Problem("/collate/truncate", "true or false", shown(truncate))
    elif truncate and length is None:
        yield Problem("/collate/truncate", 'false, or a "length" to cut to', "true")


def _value_problems(fields: Any, value: Any) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        if not _is_number(value):
            yield Problem("/collate/value", "a number, or an object", shown(value))
        return
    names = [str(name) for name in value if _is_field(name)]
    if not names or len(set(names)) < len(value):
        expected = "at least one name or position, each once"
        yield Problem("/collate/value", expected, shown(value))
    for name, number in value.items():
        if not _is_number(number):
            yield Problem(f"/collate/value/{name}", "a number", shown(number))
    if isinstance(fields, (list, tuple)):
        for name in sorted(set(names) - set(map(str, fields))):
            yield Problem(f"/collate/value/{name}", 'one of "fields"', shown(name))


def _is_field(name: Any) -> bool:
    return isinstance(name, str) or (type(name) is int and name >= 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _MOST


def _plain(value: Any) -> Any:
    # `item` would make an integer of a numpy time, which stands for none.
    is_time = isinstance(value, (np.datetime64, np.timedelta64))
    return value.item() if isinstance(value, np.generic) and not is_time else value
