"""Which record of a folder has which sample: a table in memory over all its segments."""

from __future__ import annotations

import _thread
import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from ..errors import TOO_MANY, by_handler, log, most_open
from ._segments import Entries, Segment, segment_names

__all__ = ["PLACE_BYTES", "Place", "Shelf", "of_process", "unless_held"]


_MOST_OPEN = 64
"""How many segments are kept open at most, fewer where the process may open few files; others
are opened for each read. Chosen: a quarter of the 256 that macOS allows."""

# A sample without a record has the number 0.
_PLACE = np.dtype([("offset", "i8"), ("length", "u4"), ("number", "i4")])

PLACE_BYTES = _PLACE.itemsize
"""Bytes of memory for each sample of the source."""


class Place(NamedTuple):
    """Where a record is: the first byte and the length, in the segment of this number, from 1."""

    offset: int
    length: int
    number: int


class Shelf:
    """The segments of a folder, and in which of them a sample is.

    The table has `PLACE_BYTES` for each sample of the source, and takes memory where it is written
    to. Too little memory is a MemoryError; more than any memory has, a ValueError.
    """

    def __init__(self, folder: Path, key: bytes, samples: int) -> None:
        self._folder = folder
        self._key = key
        self._kept_open = most_open(_MOST_OPEN)
        # Held while the table is read or written; never while a file is opened, read or
        # written. `held` and `close` do not take it: a signal handler may call them in the
        # thread that holds it. A forked child makes another.
        self._lock = _thread.allocate_lock()
        self._places = np.zeros(samples, _PLACE)  # rows: only under the lock; see close
        self._samples = 0  # written under the lock
        self._bytes = 0  # written under the lock
        self._closed = False  # set by close
        self._segments: list[Segment] = []  # appended to under the lock
        # Held by the one thread in `look`; nobody waits for it. A forked child makes another.
        self._looking = _thread.allocate_lock()
        # Numbers of segments by name; 0: not to be read. The thread that writes and the one that
        # looks share it without a lock, so that each use is one operation of a dict.
        self._known: dict[str, int] = {}

    def find(self, index: int) -> Place | None:
        """Give the place of a sample, if it is here."""
        with self._lock:
            places = self._places  # read once: close may replace it meanwhile
            if not 0 <= index < len(places):
                return None
            found = places.item(index)
        place = Place(*cast("tuple[int, int, int]", found))
        return place if place.number else None

    def segment(self, place: Place) -> Segment:
        """Give the segment of a place."""
        return self._segments[place.number - 1]

    def note(self, index: int, place: Place) -> None:
        """Say where a sample is."""
        with self._lock:
            places = self._places  # before the flag is looked at: see close
            if not self._closed:
                self._samples += places["number"].item(index) == 0
                places[index] = place

    def forget(self, index: int, place: Place) -> bool:
        """Say that a sample is not at this place; tell whether it was noted there until now."""
        with self._lock:
            places = self._places  # before the flag is looked at: see close
            if self._closed or places.item(index) != place:
                return False
            self._samples -= 1
            places[index] = (0, 0, 0)
            return True

    def grow(self, size: int) -> None:
        """Count bytes that have been written."""
        with self._lock:
            self._bytes += size

    def held(self) -> tuple[int, int]:
        """Give how many samples can be read, and the bytes of all files."""
        return self._samples, self._bytes

    def leave_out(self, name: str) -> None:
        """Say that `look` is to pass over a segment: the process's own writer notes its records."""
        self._known[name] = 0

    def look_at(self, name: str, number: int, counted: int) -> None:
        """Look from now on at a segment that was left out, since another process writes it.

        ``counted`` of its bytes have been counted.
        """
        self._segments[number - 1].size = counted
        self._known[name] = number

    def add(self, name: str) -> int:
        """Open a segment for reading; give its number, or 0 if the shelf has been closed."""
        segment = Segment(self._folder, name, keep=len(self._segments) < self._kept_open)
        with self._lock:
            self._segments.append(segment)
            number = len(self._segments)
        if self._closed:  # by another thread, which may not have seen this segment
            segment.close()
            return 0
        return number

    def let_go(self, number: int) -> None:
        """Close a segment that has no record: on Windows no open file can be removed."""
        self._segments[number - 1].close()

    def look(self) -> None:
        """Look for records written since the last time; do nothing if another thread is looking."""
        unless_held(self._looking, self._look)

    def _look(self) -> None:
        for name in segment_names(self._folder):
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        try:
            if name not in self._known:
                self._known[name] = self.add(name)
            number = self._known[name]
            if not number:
                return
            segment = self._segments[number - 1]
            before = segment.size
            try:
                for entries in segment.new_entries(self._key, len(self._places)):
                    self._merge(entries, number)
            finally:
                self.grow(segment.size - before)
        except (OSError, ValueError, MemoryError) as error:
            if by_handler(error):
                raise
            if of_process(error):
                return  # it is tried again the next time
            # Its writer may have removed it between the listing and the opening here.
            gone = isinstance(error, FileNotFoundError)
            gone = gone and not (self._folder / f"{name}.index").exists()
            self._known[name] = 0
            if gone:
                return
            # After an OSError the files may still be good for other processes.
            hint = "; its files can be deleted" if isinstance(error, ValueError) else ""
            text = "cache: %s/%s is passed over: %s%s"
            log("warning", text, self._folder, name, error, hint, aside=True)

    def _merge(self, entries: Entries, number: int) -> None:
        """Take note of records. Of several of one sample the last one counts."""
        # It is chosen here: numpy leaves open which of several values for one place it stores last.
        index, last = np.unique(entries["index"][::-1], return_index=True)
        entries = entries[::-1][last]
        with self._lock:
            places = self._places  # before the flag is looked at: see close
            if self._closed:
                return  # pragma: no cover - a race with close
            self._samples += int(np.count_nonzero(places["number"][index] == 0))
            places["offset"][index] = entries["offset"]
            places["length"][index] = entries["length"]
            places["number"][index] = number

    def forked(self) -> bool:
        """In a forked child: make new locks; tell whether a thread of the parent was looking."""
        busy = self._looking.locked()
        self._lock, self._looking = _thread.allocate_lock(), _thread.allocate_lock()
        return busy

    def close(self) -> None:
        """Close the files and forget all places; a second time does nothing."""
        # The flag first: a thread that sees the new table finds the flag set, and does not write
        # to it. What a thread still writes to the old table goes with that.
        self._closed = True
        self._places = np.zeros(0, _PLACE)
        # A copy: `add` may append one meanwhile, which it then closes itself.
        for segment in self._segments.copy():
            try:
                segment.close()
            except OSError as error:  # nothing is lost: the file is only read
                if by_handler(error):
                    raise


def of_process(error: BaseException) -> bool:
    """Tell whether an error says nothing about a file: too many are open, or memory is short."""
    short = issubclass(type(error), MemoryError)
    return short or getattr(error, "errno", None) in TOO_MANY | {errno.ENOMEM}


def unless_held(lock: _thread.LockType, work: Callable[[], None]) -> None:
    """Do some work under a lock; do nothing if the lock is held.

    If a Ctrl-C landed between taking the lock and a ``try`` behind that, the lock would be held for
    ever. So one call of C, in which Python runs no signal handler, takes it and writes that down.
    """
    taken: list[bool] = []
    try:
        taken.extend(map(lock.acquire, (False,)))
        if taken[0]:
            work()
    finally:
        if taken and taken[0]:  # tested without a call: after one a signal handler may run
            lock.release()
