"""Logs now and then the progress of whatever takes longer than a second."""

from __future__ import annotations

import time

from ..errors import log

__all__ = ["ProgressLog"]

_TELL_SECONDS = 1.0
"""What takes longer says how far it is, and again after as long. Chosen."""


class ProgressLog:
    """Logs how far something is that begins now, every second or so."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def tell(self, message: str, *values: object) -> None:
        """Log this, as `logging` takes it, if the last time is long enough ago."""
        if time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            log("info", message, *values)
