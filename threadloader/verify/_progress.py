"""Tells on stderr how far it has got."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, TextIO

from .. import bench
from .._messages import is_terminal

__all__ = ["Progress"]

PATIENCE_SECONDS = 1.0
"""How long nothing is said, except at a terminal, which keeps none of it: a quick answer needs no
progress."""


class Progress:
    """Tells which run is being made, once it takes longer.

    Args:
        stream: stderr; None: nothing is told.
        json: whether JSON was asked for; then only people are told, at a terminal.
    """

    def __init__(self, stream: TextIO | None = None, *, json: bool = False) -> None:
        self._open = partial(bench.progress, stream, json=json)
        # At a terminal progress is wiped out in the end, so it is told from the beginning.
        patience = 0 if is_terminal(stream) else PATIENCE_SECONDS
        self._silent_until = time.monotonic() + patience
        self._shown: Any = None
        self._waiting: tuple[int, int, str] | None = None

    def begin(self, number: int, total: int, what: str) -> None:
        """Tell that a run begins: its number, from 1, of about how many, and what it is."""
        self._waiting = (number, total, what)
        self.tick()

    def tick(self) -> None:
        """Tell what is going on, if it is time to."""
        if self._waiting is not None and time.monotonic() >= self._silent_until:
            number, total, what = self._waiting
            self._waiting = None
            if self._shown is None:
                self._shown = self._open(total)
            self._shown.begin(number, what)

    def close(self) -> None:
        """Tell that there is no more."""
        if self._shown is not None:
            self._shown.close()
