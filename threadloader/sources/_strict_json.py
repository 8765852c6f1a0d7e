"""JSON as its standard has it: Python's `json` lets more through."""

from __future__ import annotations

import math
from typing import Any

from ._fields import repeated

__all__ = ["STRICT"]


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated(name for name, _ in pairs)
        raise ValueError(f"the key {twice!r} twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]}, too large for a float")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word}, which JSON does not have")


STRICT: dict[str, Any] = {
    "object_pairs_hook": _each_once,
    "parse_float": _finite,
    "parse_constant": _no_constant,
}
"""Arguments by which `json.loads` and `json.JSONDecoder` refuse, with a `ValueError`, a key twice,
numbers too large for a float, NaN and infinities."""
