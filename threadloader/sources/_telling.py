"""Logs now and then: progress of whatever takes longer than a second, and what is seldom said."""

from __future__ import annotations

import sys
import time
from typing import Literal

from ..errors import by_handler

__all__ = ["Telling", "log"]

_TELL_SECONDS = 1.0
"""What takes longer says how far it is, and again after as long. Chosen."""


class Telling:
    """Logs how far something is that begins now, every second or so."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def tell(self, message: str, *values: object) -> None:
        """Log this, if the last time is long enough ago.

        Args:
            message: as `logging` has it, with ``%s`` and the like.
            values: what stands in their places.
        """
        if time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            log("info", message, *values)


def log(how: Literal["info", "warning"], message: str, *values: object) -> None:
    """Log something, in a module that hardly ever does.

    Where no file can be opened any more, `logging` cannot be imported. A warning is written to
    the standard error then, as `logging` itself does unless it is told otherwise.

    Args:
        how: the method of the log.
        message: as `logging` has it, with ``%s`` and the like.
        values: what stands in their places.
    """
    try:
        import logging  # here, where it is hardly ever wanted: it is a tenth of an import
    except (OSError, ImportError) as error:
        if by_handler(error):
            raise
        if how == "warning" and sys.stderr is not None:  # as in a program without a console
            sys.stderr.write(f"threadloader: {message % values}\n")
    else:
        getattr(logging.getLogger("threadloader"), how)(message, *values, stacklevel=2)
