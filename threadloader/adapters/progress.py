"""A progress bar by tqdm, where it is installed."""

from __future__ import annotations

import importlib
from typing import Any, TextIO

from ..errors import from_signal

__all__ = ["bar"]


def bar(total: int, stream: TextIO) -> Any:
    """Give a tqdm bar of so many runs, or None where tqdm is not installed or does not work."""
    try:
        return importlib.import_module("tqdm").tqdm(
            total=total, file=stream, unit="run", leave=False, dynamic_ncols=True
        )
    except Exception as error:  # a bar is no reason to fail
        if from_signal(error):
            raise
        return None
