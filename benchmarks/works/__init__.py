"""The kinds of work, one file each; `_protocol` says what is in such a file."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["BESIDE", "NAMES", "work"]

NAMES = (
    "arrays",
    "storage",
    "jpeg",
    "ragged",
    "python",
    "start",
    "memory",
    "cheap",
    "train",
    "train_gil",
    "footprint",
)
"""In the order of the table."""

BESIDE = ("scale", "close", "gpu")
"""Measured when asked for by name."""


def work(name: str) -> Any:
    """Give the module of a kind of work."""
    return importlib.import_module(f".{name}", __name__)
