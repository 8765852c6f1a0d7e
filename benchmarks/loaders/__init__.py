"""The loaders, one file each; `_protocol` says what is in such a file."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["NAMES", "loader"]

NAMES = (
    "threadloader",
    "torch",
    "torchdata",
    "grain",
    "spdl",
    "mlx_data",
    "tf_data",
    "keras",
    "dataloader_rs",
)
"""In the order of the table."""


def loader(name: str) -> Any:
    """Give the module of a loader; its package is not imported by that."""
    return importlib.import_module(f".{name}", __name__)
