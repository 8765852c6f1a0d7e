"""Saving in the midst of saving: a signal's handler may, and its state is the newer one."""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ._file import write

__all__ = ["save"]

_LAST = 16
"""Files that a thread remembers to have saved. Chosen: more than a handler saves at once."""


class _Saved(_thread._local):
    """What this thread has saved: how many files, and the last ones of them; one store."""

    files: tuple[int, tuple[str, ...]] = 0, ()

    def add(self, place: str) -> None:
        """Note a file."""
        count, places = self.files
        self.files = count + 1, (*places, place)[-_LAST:]

    def since(self, count: int, place: str) -> bool:
        """Tell whether a file was saved since there were `count`."""
        now, places = self.files
        return place in places[max(0, len(places) - (now - count)) :]


_saved = _Saved()


def save(
    make: Callable[[], Mapping[str, Any]], path: str | os.PathLike[str], *, tidy: bool = False
) -> None:
    """Write the state of this moment, and never over one that was saved in the midst of this.

    Args:
        make: gives the state.
        path: the file.
        tidy: as of `write`, as are the errors.
    """
    newer = partial(_saved.since, _saved.files[0])  # before the state is made
    place = write(make(), path, tidy=tidy, newer=newer)
    if newer(place):  # it may have come between the last look and the rename, and be gone
        save(make, path)
    _saved.add(place)
