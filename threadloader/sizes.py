"""How large a batch is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from threadloader.errors import by_handler

__all__ = ["nbytes"]

_OTHER = 8
"""Bytes of what has no size: that of a number."""

_DEEPEST = 64
"""Containers inside each other that are looked into, as many as a fingerprint reads."""


def nbytes(batch: Any) -> int:
    """Give the bytes of the arrays, texts and bytes of a batch, about.

    Mappings, lists and tuples are looked into, each once and not endlessly deep. What tells its
    own `nbytes`, as arrays and tensors do, counts as that; whatever else there may be, a number
    or an object of the collate's own, counts as 8.

    >>> import numpy as np
    >>> nbytes({"x": np.zeros((2, 3), np.float32), "name": ["one", b"two"]})
    30
    """
    total = 0
    level = [batch]
    # What holds itself is not looked into again. The objects are kept: of one that is gone
    # another one might have the id.
    seen: dict[int, Any] = {}
    for _ in range(_DEEPEST):
        inside: list[Any] = []
        for it in level:
            if not isinstance(it, (Mapping, list, tuple)):
                total += _alone(it)
            elif id(it) not in seen:
                seen[id(it)] = it
                inside.extend(it.values() if isinstance(it, Mapping) else it)
        if not inside:
            return total
        level = inside
    return total + sum(map(_alone, level))


def _alone(it: Any) -> int:
    if isinstance(it, (str, bytes, bytearray)):
        return len(it)
    # Of a lazy or strange object it may be None, a method, NaN, or raise, as of a sparse tensor.
    try:
        size = getattr(it, "nbytes", _OTHER)
    except Exception as error:
        if by_handler(error):
            raise
        return _OTHER
    if isinstance(size, (int, np.integer)) and size >= 0:
        return int(size)
    return _OTHER
