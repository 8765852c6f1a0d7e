"""Runs a job's code: what a signal handler raises there passes, and is no result of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import from_signal, raised_first
from ._slots import caught

__all__ = ["attempt"]


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """Call a function; give its result, or what it raised, but raise what a signal handler did."""
    result, error = caught(function, *args)
    try:
        if error is not None and from_signal(error):
            raise raised_first(error)
        return result, error
    finally:
        del error  # its traceback leads to this frame
