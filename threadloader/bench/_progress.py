"""Tells on stderr which run is being made."""

from __future__ import annotations

import os
from typing import Any, TextIO

from .._messages import is_terminal
from ..adapters.progress import bar

__all__ = ["Progress", "progress"]


class Progress:
    """What is told while runs are made: nothing, unless a subclass does."""

    def begin(self, number: int, what: str) -> None:
        """Tell that a run begins, the number-th, from 1."""

    def close(self) -> None:
        """Tell that there are no more; a second time does nothing."""


class Lines(Progress):
    """A line for each run; on a terminal they take each other's place."""

    def __init__(self, stream: TextIO, total: int, *, rewrite: bool) -> None:
        self._stream = stream
        self._total = total
        self._rewrite = rewrite
        self._shown = 0

    def begin(self, number: int, what: str) -> None:
        """Write the line."""
        line = f"run {number} of {self._total}: {what} ..."
        if not self._rewrite:
            self._write(f"{line}\n")
            return
        columns = (_size(self._stream) or (0, 0))[0]
        if columns:  # the part of a line that wraps would not be wiped out
            line, self._shown = line[: columns - 1], min(self._shown, columns - 1)
        self._write(f"\r{line:<{self._shown}}")
        self._shown = len(line)

    def close(self) -> None:
        """Wipe out the last line."""
        if self._shown:
            self._write(f"\r{'':<{self._shown}}\r")
        self._shown = 0

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it any more
            pass


class Bar(Progress):
    """A bar of tqdm."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm

    def begin(self, number: int, what: str) -> None:
        """Move the bar past the runs before this one."""
        self._tqdm.set_description_str(what, refresh=False)
        self._tqdm.update(number - 1 - self._tqdm.n)
        self._tqdm.refresh()

    def close(self) -> None:
        """Take the bar away."""
        self._tqdm.close()


def progress(stream: TextIO | None, total: int, *, json: bool) -> Progress:
    """Give what tells of `total` runs on `stream`, which is stderr.

    Where JSON was asked for, it tells only people, at a terminal.
    """
    terminal = is_terminal(stream)
    if stream is None or (json and not terminal):
        return Progress()
    # tqdm is silent on a terminal that says it has no columns, or no lines. Serial lines and
    # terminals that a program has made say so.
    drawn = bar(total, stream) if terminal and 0 not in (_size(stream) or ()) else None
    return Lines(stream, total, rewrite=terminal) if drawn is None else Bar(drawn)


def _size(stream: TextIO) -> os.terminal_size | None:
    """Give how many columns and lines a terminal says that it has; None where it does not say."""
    try:
        return os.get_terminal_size(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None
