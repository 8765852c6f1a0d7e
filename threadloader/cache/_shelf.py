"""Which record of a folder has which sample: a table in memory over all its segments."""

from __future__ import annotations

import _thread
import logging
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from ._segments import Entries, Segment, names_in

__all__ = ["Place", "Shelf"]

_LOG = logging.getLogger("threadloader")

KEPT_OPEN = 64
"""Segments whose files are held open. Chosen: a quarter of the 256 that macOS allows a process."""

# Number 0: there is no record.
_PLACE = np.dtype([("offset", "i8"), ("length", "u4"), ("number", "i4")])


class Place(NamedTuple):
    """Where a record is.

    Attributes:
        offset: of its first byte in the segment's file of records.
        length: its bytes.
        number: of the segment, from 1.
    """

    offset: int
    length: int
    number: int


class Shelf:
    """The segments of a folder, and in which of them a sample is.

    16 bytes of memory for each sample that there is, taken where the table is written to.

    Args:
        folder: where the segments are.
        key: the folder's.
        samples: how many samples there are.
    """

    def __init__(self, folder: Path, key: bytes, samples: int) -> None:
        self._folder = folder
        self._key = key
        # Guards the next four; never held while a file is opened, read or written.
        self._lock = _thread.allocate_lock()
        self._places = np.zeros(samples, _PLACE)
        self._samples = 0
        self._bytes = 0
        self._closed = False
        self._segments: list[Segment] = []  # appended to under the lock
        # Held by the one thread that looks; nobody waits for it.
        self._looking = _thread.allocate_lock()
        self._known: dict[str, int] = {}  # numbers of segments; 0: not to be read

    def find(self, index: int) -> Place | None:
        """Give the place of a sample, if it is here."""
        with self._lock:
            if not 0 <= index < len(self._places):
                return None
            place = self._at(index)
        return place if place.number else None

    def _at(self, index: int) -> Place:
        return Place(*cast("tuple[int, int, int]", self._places.item(index)))

    def segment(self, place: Place) -> Segment:
        """Give the segment of a place."""
        return self._segments[place.number - 1]

    def note(self, index: int, place: Place) -> None:
        """Say where a sample is."""
        with self._lock:
            if not self._closed:
                self._samples += self._places["number"].item(index) == 0
                self._places[index] = place

    def forget(self, index: int, place: Place) -> bool:
        """Say that a sample is not at its place; tell whether nobody had said so."""
        with self._lock:
            if self._closed or self._at(index) != place:
                return False
            self._places[index] = (0, 0, 0)
            self._samples -= 1
            return True

    def grow(self, size: int) -> None:
        """Count bytes that have been written."""
        with self._lock:
            self._bytes += size

    def held(self) -> tuple[int, int]:
        """Give how many samples can be read, and the bytes of all files."""
        with self._lock:
            return self._samples, self._bytes

    def leave_out(self, name: str) -> None:
        """Say that a segment is not to be looked at: its records are noted by who writes it."""
        self._known[name] = 0

    def add(self, name: str) -> int:
        """Open a segment for reading; give its number, or 0 if the shelf has been closed.

        Raises:
            OSError: it cannot be opened.
        """
        segment = Segment(self._folder, name, keep=len(self._segments) < KEPT_OPEN)
        with self._lock:
            if not self._closed:
                self._segments.append(segment)
                return len(self._segments)
        segment.close()
        return 0

    def look(self) -> None:
        """Look for what has been written since the last time; not if another thread does.

        Raises:
            OSError: the folder cannot be listed.
        """
        if not self._looking.acquire(blocking=False):
            return  # pragma: no cover - another thread looks
        try:
            for name in names_in(self._folder):
                self._look_at(name)
        finally:
            self._looking.release()

    def _look_at(self, name: str) -> None:
        try:
            if name not in self._known:
                self._known[name] = self.add(name)
            number = self._known[name]
            if not number:
                return
            segment = self._segments[number - 1]
            before = segment.size
            for entries in segment.new_entries(self._key, len(self._places)):
                self._merge(entries, number)
            self.grow(segment.size - before)
        except (OSError, ValueError) as error:
            self._known[name] = 0
            _LOG.warning("cache: %s/%s is passed over: %s", self._folder, name, error)

    def _merge(self, entries: Entries, number: int) -> None:
        """Take note of records. Of several of one sample the last one counts."""
        with self._lock:
            if self._closed:
                return  # pragma: no cover - a race with close
            index = entries["index"]
            new = index[self._places["number"][index] == 0]
            self._samples += len(np.unique(new))
            self._places["offset"][index] = entries["offset"]
            self._places["length"][index] = entries["length"]
            self._places["number"][index] = number

    def close(self) -> None:
        """Close the files and forget all places; a second time does nothing."""
        with self._lock:
            self._closed = True
            self._places = np.zeros(0, _PLACE)
        # Nothing is added any more.
        for segment in self._segments:
            segment.close()
