"""How large a batch is."""

from __future__ import annotations

from typing import Any

__all__ = ["nbytes"]


def nbytes(batch: Any) -> int:
    """Give the bytes of the arrays, texts and bytes of a batch, about.

    >>> import numpy as np
    >>> nbytes({"x": np.zeros((2, 3), np.float32), "name": ["one", b"two"]})
    30
    """
    if isinstance(batch, dict):
        return sum(map(nbytes, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(nbytes, batch))
    if isinstance(batch, (str, bytes)):
        return len(batch)
    return int(getattr(batch, "nbytes", 8))
