"""A file replaced, or opened, as soon as nobody else is at it, which Windows alone asks for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ._handlers import by_handler

__all__ = ["once_free"]

_WINDOWS = os.name == "nt"

_SECONDS, _PAUSE_SECONDS = 1.0, 0.01
"""How long it is tried, and how often. Chosen: who reads a small file, or looks through new ones,
has it for a moment."""

_T = TypeVar("_T")


def once_free(call: Callable[..., _T], *paths: Any) -> _T:
    """Make a call that Windows refuses while somebody else has the file open, or replaces it.

    Raises:
        PermissionError: it still does after a second; elsewhere at once.
        Exception: what else the call raises.
    """
    until = time.monotonic() + _SECONDS
    while True:
        try:
            return call(*paths)
        except PermissionError as error:
            if not _WINDOWS or by_handler(error) or time.monotonic() >= until:
                raise
        time.sleep(_PAUSE_SECONDS)
