"""The files of a kept folder: segments, to which one process appends and all may read.

A segment is two files of one name: a number that grows, and something random. ``NAME.data`` holds
records, each a checksum of 16 bytes followed by the encoded sample. ``NAME.index`` holds a header
(magic, format, folder's key) and each record's index, place, length.

A record is written before its entry, and whatever interrupts a write ends the segment: a whole
entry has its record before it, a torn one at the end is passed over. The checksum covers key,
index, length, contents: a damaged entry names a record that it does not fit. So neither
file is flushed or repaired: after a crash what is whole is used, the rest prepared anew.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import by_handler
from ._encode import Part

__all__ = [
    "ENTRY_BYTES",
    "FORMAT",
    "HEADER_BYTES",
    "LARGEST",
    "RECORD_HEAD",
    "Entries",
    "Segment",
    "Writer",
    "new_name",
    "record",
    "segment_names",
    "sound",
]

FORMAT = 1
RECORD_HEAD = 16
"""Bytes before the sample in a record: the checksum."""

_MAGIC = b"threadloader sc\n"
_HEADER = struct.Struct("<16s I 12x 32s")
HEADER_BYTES = _HEADER.size
_ENTRY = np.dtype([("index", "<i8"), ("offset", "<i8"), ("length", "<i8")])
_ONE_ENTRY = struct.Struct("<qqq")
ENTRY_BYTES = _ENTRY.itemsize
_CHUNK = 1 << 16  # entries read at once
_MOST = 1 << 30  # bytes asked for in one call: some systems refuse 2 GiB or more
LARGEST = (1 << 32) - 1
"""Bytes that a record may have."""
_SALT = struct.Struct("<qq")
_NAME = re.compile(r"([0-9a-f]{8}-[0-9a-f]{16})\.index")

Entries = npt.NDArray[np.void]


def segment_names(folder: Path) -> list[str]:
    """List the segments in a folder, those begun later last; an OSError where that fails."""
    with os.scandir(folder) as entries:
        found = (_NAME.fullmatch(entry.name) for entry in entries)
        return sorted(match[1] for match in found if match)


def new_name(folder: Path) -> str:
    """Give the name of a new segment; an OSError if the folder cannot be listed.

    It sorts after all there are, so that a sample prepared anew because its record was
    damaged is found in place of that one.
    """
    last = max((int(name[:8], 16) for name in segment_names(folder)), default=0)
    return f"{min(last + 1, 0xFFFFFFFF):08x}-{secrets.token_hex(8)}"


def record(parts: list[Part], key: bytes, index: int) -> bytearray:
    """Give the record of an encoded sample."""
    made = bytearray().join([bytes(RECORD_HEAD), *parts])
    made[:RECORD_HEAD] = _checksum(memoryview(made)[RECORD_HEAD:], key, index)
    return made


def sound(made: bytes, key: bytes, index: int) -> bool:
    """Tell whether a record is whole, and of this key and index."""
    contents = memoryview(made)[RECORD_HEAD:]
    return made[:RECORD_HEAD] == _checksum(contents, key, index)


def _checksum(contents: memoryview, key: bytes, index: int) -> bytes:
    salt = _SALT.pack(index, len(contents))
    return hashlib.blake2b(contents, digest_size=RECORD_HEAD, key=key, salt=salt).digest()


def _open_regular(path: Path) -> FileIO:
    """Open a file; a link or a pipe that stands in its place is not followed or waited for."""
    # Not by an opener that has flags for it: a Ctrl-C after its `os.open` would lose the number.
    found = path.lstat()
    if stat.S_ISREG(found.st_mode):
        file = FileIO(str(path), "rb")  # of a Path errors would show what Python makes of it
        if os.path.samestat(found, os.fstat(file.fileno())):
            return file
        file.close()
    raise OSError(errno.EINVAL, "expected a regular file", str(path))


class Segment:
    """A segment, read by any number of threads at once.

    Its files are in the folder under this name; if that of records is missing or no regular
    file, it is an OSError. ``keep`` holds that open; otherwise each read opens it. ``shared``
    uses ``os.pread``; False: for tests.

    Attributes:
        path: the file of records.
        size: bytes of both files, when they were last looked at.
    """

    def __init__(
        self, folder: Path, name: str, keep: bool = True, shared: bool = hasattr(os, "pread")
    ) -> None:
        self.path = folder / f"{name}.data"
        self.size = 0
        self._index = folder / f"{name}.index"
        self._known = 0  # entries that have been read
        self._shared = shared
        # Held while one thread seeks and reads, where the system cannot read by position.
        self._turn = threading.Lock()
        self._file = _open_regular(self.path)
        self._keep = keep
        if not keep:
            self._file.close()

    def new_entries(self, key: bytes, samples: int) -> Iterator[Entries]:
        """Give what has been written since the last call, at most `_CHUNK` entries at once.

        They are about samples that there are, and about bytes that the file of records has. A file
        that cannot be read is an OSError; an index that is not of this key, a ValueError.
        """
        if not self._known and not self._index.exists():
            return  # whoever began it has taken it back
        with _open_regular(self._index) as file:
            length = os.fstat(file.fileno()).st_size
            # After the index: every entry that was read has its record in this size.
            size = self.path.stat().st_size
            self.size = length + size  # even if it is of no use: the bytes are there
            header = _read_all(file, HEADER_BYTES)
            if len(header) < HEADER_BYTES:
                return  # somebody is beginning it, or was cut off
            if header != _header(key):
                raise ValueError("it has no header of this cache")
            # Each has a record: a file with holes may announce any number of them.
            count = min((length - HEADER_BYTES) // ENTRY_BYTES, size // (RECORD_HEAD + 1))
            file.seek(HEADER_BYTES + self._known * ENTRY_BYTES)
            while self._known < count:
                data = _read_all(file, min(count - self._known, _CHUNK) * ENTRY_BYTES)
                entries = np.frombuffer(data, _ENTRY, len(data) // ENTRY_BYTES)
                if not len(entries):  # it was cut while we read it
                    break
                self._known += len(entries)
                index, begin, lengths = entries["index"], entries["offset"], entries["length"]
                fits = (lengths > RECORD_HEAD) & (lengths <= LARGEST)
                fits &= (begin >= 0) & (begin <= size - lengths)
                yield entries[fits & (index >= 0) & (index < samples)]

    def read(self, offset: int, length: int) -> bytes:
        """Give bytes of the file of records; fewer where it ends before.

        An OSError if it cannot be read, a ValueError if it has been closed.
        """
        if not self._keep:
            with _open_regular(self.path) as file:
                return self._read(file, offset, length)
        return self._read(self._file, offset, length)

    def _read(self, file: FileIO, offset: int, length: int) -> bytes:
        data = b""
        while len(data) < length:  # a read may give less than it was asked for
            at, most = offset + len(data), min(length - len(data), _MOST)
            if self._shared:
                part = os.pread(file.fileno(), most, at)
            else:
                with self._turn:
                    file.seek(at)
                    part = file.read(most)
            if not part:
                break
            data = data + part if data else part
        return data

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        self._file.close()


class Writer:
    """A new segment, to which one thread at a time appends, of a name as `new_name` gives it.

    If its files cannot be made that is an OSError, and neither is left.

    Attributes:
        pid: the process that made it, which alone may append: a fork has the same place in the
            files, and counts for itself where they end.
        size: bytes of both files.
    """

    def __init__(self, folder: Path, name: str, key: bytes) -> None:
        self.name = name
        self._paths = (folder / f"{name}.data", folder / f"{name}.index")
        self.pid = os.getpid()
        self.size = HEADER_BYTES
        self._end = 0
        with ExitStack() as undo:
            self._data, self._index = [_made(path, undo) for path in self._paths]
            _write_all(self._index, _header(key))
            undo.pop_all()

    @property
    def in_vain(self) -> bool:
        """Whether closing removes it: no record is whole, and no parent goes on to write it."""
        return not self._end and self.pid == os.getpid()

    def append(self, made: bytearray, index: int) -> int:
        """Write the record of a sample, and its entry; give the record's offset.

        After an OSError, as of a full disk, or any other exception the writer must not be used
        again: where its files end is not known any more.
        """
        offset = self._end
        _write_all(self._data, made)
        _write_all(self._index, _ONE_ENTRY.pack(index, offset, len(made)))
        self._end += len(made)
        self.size += len(made) + ENTRY_BYTES
        return offset

    def close(self) -> None:
        """Close both files, and remove them if no record is whole; harmless a second time."""
        # Not by an ExitStack, which an interrupt leaves in a cycle with what it has not closed.
        try:
            self._data.close()
        finally:
            self._index.close()
        if self.in_vain:
            for path in reversed(self._paths):  # others find it by its index
                _remove(path)


def _made(path: Path, undo: ExitStack) -> FileIO:
    """Make a file, which is closed and removed if what follows fails."""
    # "x": a new file, and never through a link that stands in its place.
    file = FileIO(str(path), "xb")
    undo.callback(_remove, path)
    undo.callback(file.close)  # before that: Windows removes no open file
    return file


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:  # what came before counts
        if by_handler(error):
            raise


def _header(key: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, FORMAT, key)


def _read_all(file: FileIO, size: int) -> bytes:
    """Read so many bytes, of which a read may give less at once; fewer where the file ends."""
    data = b""
    while len(data) < size and (part := file.read(size - len(data))):
        data += part
    return data


def _write_all(file: FileIO, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest[:_MOST]) :]
