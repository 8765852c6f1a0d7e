"""How large a batch is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["nbytes"]


def nbytes(batch: Any) -> int:
    """Give the bytes of the arrays, texts and bytes of a batch, about.

    Mappings, lists and tuples are looked into. What tells its own `nbytes`, as arrays and tensors
    do, counts as that; whatever else there may be, a number or an object of the collate's own,
    counts as 8.

    >>> import numpy as np
    >>> nbytes({"x": np.zeros((2, 3), np.float32), "name": ["one", b"two"]})
    30
    """
    if isinstance(batch, Mapping):
        return sum(map(nbytes, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(nbytes, batch))
    if isinstance(batch, (str, bytes, bytearray)):
        return len(batch)
    return int(getattr(batch, "nbytes", 8))
