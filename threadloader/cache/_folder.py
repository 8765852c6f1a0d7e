"""Prepared samples in a folder."""

from __future__ import annotations

import _thread
import errno
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ConfigError, Problem, by_handler, log, too_many
from ._base import MISSING, Cache, follow
from ._count import Count
from ._encode import DamagedError, Part, decode, encode
from ._segments import (
    ENTRY_BYTES,
    FORMAT,
    HEADER_BYTES,
    LARGEST,
    RECORD_HEAD,
    Writer,
    new_name,
    record,
    sound,
)
from ._shelf import PLACE_BYTES, Place, Shelf, of_process, unless_held

__all__ = ["Folder"]

_LOOK_SECONDS = 1.0
"""How often, at most, a miss looks for what other processes have written. Chosen: looking
takes 11 to 17 microseconds of processor time for each segment that others have written."""

_SUB_FOLDER = re.compile(r"[0-9a-f]{32}")


class Folder(Cache):
    """Keeps samples in files, for the next epoch, the next run and other processes.

    ``folder`` is made if it does not exist. In it each key, as `key_of` gives it, has a
    sub-folder of its own, so that samples of another source or transform are never taken for
    those of this one. Indices are 0 to ``samples - 1``; ``max_bytes`` bounds the files for this
    key. ``clock`` gives seconds; for tests. A folder that cannot be made or read, or too little
    memory for so many samples, is a ConfigError.
    """

    unfit = "of objects, fields or long doubles"

    def __init__(
        self,
        folder: Path,
        key: str,
        samples: int,
        max_bytes: int = sys.maxsize,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        text = f"{FORMAT}, {samples} samples, {key}"
        self._key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()
        self._folder = folder / self._key.hex()[:32]
        self._max_bytes = max_bytes
        self._shelf = _new_shelf(self._folder, self._key, samples)
        self._clock = clock
        self._looked = clock()  # when `look` ran last; written by each thread that looks
        # Held by the one thread that writes, even while it waits for the disk: other threads
        # that want to write would wait for the disk all the same, and hits do not take it. A
        # thread that looks takes it for a moment. A forked child makes another.
        self._writing = _thread.allocate_lock()
        self._writer: Writer | None = None
        self._ended: tuple[Writer, ...] = ()  # earlier writers that are not closed yet
        self._number = 0  # of the writer's segment on the shelf; 0: it is not there yet
        self._stopped = False  # writes no more; set for good, by close, _forked or a failed write
        lock = _thread.allocate_lock  # each is taken for good by the first to log its message
        self._said_damaged, self._said_full, self._said_short = lock(), lock(), lock()
        follow(self)
        try:
            _make_folder(self._folder)
            self._shelf.look()
        except BaseException as error:
            self.close()  # nobody else has it
            # ValueError: a path that no system has.
            if by_handler(error) or not isinstance(error, (OSError, ValueError)):
                raise
            reason = getattr(error, "strerror", None) or error
            if isinstance(error, FileExistsError):
                reason = "a file, or a link that leads nowhere"
            expected = "a folder that can be made and read"
            got = f"{getattr(error, 'filename', None) or folder}: {reason}"
            raise ConfigError(Problem("/cache/folder", expected, got, too_many(error))) from error
        try:
            self._tell()
        except BaseException:  # raised by a handler of the log, or of a signal
            self.close()
            raise

    def _tell(self) -> None:
        samples, _ = self._shelf.held()
        try:
            names = [path.name for path in self._folder.parent.iterdir()]
        except OSError as error:  # the folder may be one that we cannot list
            if by_handler(error):
                raise
            names = []
        others = sum(_SUB_FOLDER.fullmatch(name) is not None for name in names) - 1
        text, count = "cache: %s: %d samples are kept", samples
        if not samples and others >= 1:
            count = others
            text = (
                "cache: %s: begun anew; what is beside it (folders: %d) is of another source, "
                "transform or version, and can be deleted once nobody uses it"
            )
        log("info", text, self._folder, count)

    def find(self, index: int) -> Any:
        """Give the kept sample of an index, or `MISSING`; counts a hit or a miss."""
        sample = self._read(index)
        if sample is MISSING and self._clock() - self._looked >= _LOOK_SECONDS:
            self.look()
            sample = self._read(index)
        self._count.mine[Count.MISSES if sample is MISSING else Count.HITS] += 1
        return sample

    def look(self) -> None:
        """Look for what other processes have written; a miss does so, at most once a second."""
        self._looked = self._clock()
        try:
            unless_held(self._writing, self._leave_to_parent)
        finally:  # whoever closed this cache meanwhile took this thread for one that writes
            if self._stopped:
                self._retire()
        try:
            self._shelf.look()
        # Samples are prepared; if writing fails too, the log says why.
        except (OSError, MemoryError) as error:
            if by_handler(error):
                raise

    def _read(self, index: int) -> Any:
        place = self._shelf.find(index)
        if place is None:
            return MISSING
        segment = self._shelf.segment(place)
        try:
            data = segment.read(place.offset, place.length)
            if len(data) == place.length and sound(data, self._key, index):
                return decode(data, RECORD_HEAD)
            problem = "its checksum is another one"
        # ValueError: the file is closed.
        except (OSError, ValueError, DamagedError, MemoryError) as error:
            if by_handler(error):
                raise
            if of_process(error):
                return MISSING  # the record stays where it is, and is found the next time
            problem = str(error)
        if self._shelf.forget(index, place):
            self._count.mine[Count.DAMAGED] += 1
            if self._said_damaged.acquire(blocking=False):
                text = "cache: %s: byte %d: sample %d is damaged, and prepared anew: %s"
                log("warning", text, segment.path, place.offset, index, problem, aside=True)
        return MISSING

    def _keep(self, index: int, frozen: Any) -> None:
        if self._stopped:
            return
        parts = encode(frozen)
        size = RECORD_HEAD + sum(map(len, parts))
        to_log: tuple[Any, ...] | None = None
        try:
            with self._writing:
                # In the meantime another thread may have kept it, or found the disk full.
                if not self._stopped and self._shelf.find(index) is None:
                    to_log = self._write_if_it_fits(index, parts, size)
        finally:  # a signal handler may have closed this cache, and raised
            if self._stopped:
                self._retire()
        if to_log is not None:  # outside the lock: a log that hangs keeps no other from writing
            log(*to_log, aside=True)

    def _write_if_it_fits(self, index: int, parts: list[Part], size: int) -> tuple[Any, ...] | None:
        """Keep a sample if it fits; give the arguments for `log` if there is something to say."""
        self._leave_to_parent()
        samples, kept = self._shelf.held()
        more = size + ENTRY_BYTES + (HEADER_BYTES if self._writer is None else 0)
        if size > LARGEST or kept + more > self._max_bytes:
            if not self._said_full.acquire(blocking=False):
                return None
            text = "cache: %s: sample %d (%d bytes) does not fit into max_bytes beside the %d that "
            return "info", text + "are kept", self._folder, index, size, samples
        made = record(parts, self._key, index)
        try:
            self._write(index, made)
        except BaseException as error:
            # Where the writer's files end is not known any more. After an interrupt the next
            # sample goes to a new segment.
            self._close_writer()
            if by_handler(error) or not isinstance(error, OSError):
                raise
            passing = of_process(error)
            if not passing:
                self._stopped = True
            if not passing or self._said_short.acquire(blocking=False):
                text = "cache: %s: sample %d could not be written: %s; %s, and loading goes on"
                effect = "it is not kept this time" if passing else "no more are kept"
                return "warning", text, self._folder, index, str(error), effect
        return None

    def _write(self, index: int, made: bytearray) -> None:
        if self._writer is None:
            name = new_name(self._folder)
            self._shelf.leave_out(name)  # before its files exist: else `look` could count them, too
            self._number = 0
            self._writer = Writer(self._folder, name, self._key)
            self._number = self._shelf.add(name)
        offset = self._writer.append(made, index)
        self._shelf.grow(len(made) + ENTRY_BYTES + (0 if offset else HEADER_BYTES))
        self._shelf.note(index, Place(offset, len(made), self._number))

    def _leave_to_parent(self) -> None:
        """In a forked child: close the files that the parent writes; from now on only read them."""
        writer = self._writer
        if writer is not None and writer.pid != os.getpid():
            self._close_writer()  # this process's copies of its files
            if self._number:
                self._shelf.look_at(writer.name, self._number, writer.size)

    def _forked(self) -> None:
        # If a thread was writing or looking, it is missing here, its counts are incomplete: then
        # this process adds nothing to the folder, and leaves the files to its parent.
        busy = self._writing.locked()
        self._writing = _thread.allocate_lock()
        if self._shelf.forked() or busy:
            self._stopped = True

    def _retire(self) -> None:
        """Close the writer, unless a thread is writing or looks: that closes it when it is done."""
        unless_held(self._writing, self._close_writer)

    def _close_writer(self) -> None:
        # Nobody appends to this writer any more. `_ended` is emptied only once all are closed: an
        # interrupt may leave some of them to the next call.
        if self._writer is not None and self._writer.in_vain and self._number:
            self._shelf.let_go(self._number)
        self._ended, self._writer = (*self._ended, *filter(None, [self._writer])), None
        for writer in self._ended:
            try:
                writer.close()
            except OSError as error:  # what could not be written is prepared anew
                if by_handler(error):
                    raise
        self._ended = ()

    def _held(self) -> tuple[int, int]:
        return self._shelf.held()

    def close(self) -> None:
        """Close the files; a second time does nothing. From now on all are misses.

        A thread that is still reading may have to prepare its sample. Closing waits for nobody: a
        disk that hangs must not keep a loader from closing.
        """
        self._stopped = True
        self._retire()
        self._shelf.close()


def _new_shelf(folder: Path, key: bytes, samples: int) -> Shelf:
    try:
        return Shelf(folder, key, samples)
    except (MemoryError, ValueError) as error:  # ValueError: more than any memory has
        if by_handler(error):
            raise
        size = samples * PLACE_BYTES
        expected = f"{size / 2**30:,.1f} GiB of memory, {PLACE_BYTES} bytes for each sample"
        got = f"less, for {samples:,} samples"
        hint = 'give the samples in parts, or keep some in memory ("max_bytes")'
        raise ConfigError(Problem("/cache/folder", expected, got, hint)) from error


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    # No link: whoever made it would decide where we write. A junction is a folder to Windows.
    status, junction = path.lstat(), getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", 0)
    if not stat.S_ISDIR(status.st_mode) or getattr(status, "st_reparse_tag", None) == junction:
        raise OSError(errno.ENOTDIR, f"{path.name} in it is a link")
