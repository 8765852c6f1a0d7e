"""Logs now and then the progress of whatever takes longer than a second."""

from __future__ import annotations

import time

from ..errors import log

__all__ = ["ProgressLog"]

_TELL_SECONDS = 1.0
"""Work that takes longer logs how far it is, and again each time as much has passed. Chosen."""


class ProgressLog:
    """Logs how far a piece of work is, about every second from when this is made."""

    def __init__(self) -> None:
        self._logged = time.monotonic()

    def tell(self, message: str, *values: object) -> None:
        """Log this, as `logging` takes it, if the last log is long enough ago."""
        if time.monotonic() - self._logged > _TELL_SECONDS:
            self._logged = time.monotonic()
            log("info", message, *values)
