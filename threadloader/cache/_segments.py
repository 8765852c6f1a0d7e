"""The files of a kept folder: segments, to which one process appends and all may read.

A segment is two files of one name: a number that grows, and something random. ``NAME.data`` holds
records, each a checksum of 16 bytes followed by the encoded sample. ``NAME.index`` holds a header
(magic, format, folder's key) and each record's index, place, length.

A record is written before its entry, and whatever interrupts a write ends the segment: a whole
entry has its record before it, a torn one at the end is passed over. The checksum covers key,
index, length, contents: a damaged entry does not fit the record that it names. So neither
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

    It sorts after all others, so that a sample that was damaged and is written anew is found
    there, and not where it was before.
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
    # Not by an opener with flags for that: a Ctrl-C after its `os.open` would leave the file open.
    found = path.lstat()
    if stat.S_ISREG(found.st_mode):
        file = FileIO(str(path), "rb")  # str: errors would show a Path's repr
        if os.path.samestat(found, os.fstat(file.fileno())):
            return file
        file.close()
    raise OSError(errno.EINVAL, "expected a regular file", str(path))


class Segment:
    """A segment, read by any number of threads at once.

    Its files are in the folder under this name; if the file of records is missing or no regular
    file, that is an OSError. ``keep``: the file of records stays open; otherwise each read opens
    it. ``shared``: reads use ``os.pread``; tests set it to False.

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
        """Give the entries written since the last call, at most `_CHUNK` at once.

        Each is of an index below ``samples``, and of bytes that the file of records has. A file
        that cannot be read is an OSError; an index file that is not of this key, a ValueError.
        """
        if not self._known and not self._index.exists():
            return  # its writer has removed it
        with _open_regular(self._index) as file:
            length = os.fstat(file.fileno()).st_size
            # Asked after the length of the index: so each entry within that has its record here.
            size = self.path.stat().st_size
            self.size = length + size  # counted even if the index is of no use
            header = _read_all(file, HEADER_BYTES)
            if len(header) < HEADER_BYTES:
                return  # its writer has just begun, or was cut off
            if header != _header(key):
                raise ValueError("it has no header of this cache")
            # The records bound the number of entries: an index with holes may be of any length.
            count = min((length - HEADER_BYTES) // ENTRY_BYTES, size // (RECORD_HEAD + 1))
            file.seek(HEADER_BYTES + self._known * ENTRY_BYTES)
            while self._known < count:
                data = _read_all(file, min(count - self._known, _CHUNK) * ENTRY_BYTES)
                entries = np.frombuffer(data, _ENTRY, len(data) // ENTRY_BYTES)
                if not len(entries):  # the file was cut while we read it
                    break
                self._known += len(entries)
                index, begin, lengths = entries["index"], entries["offset"], entries["length"]
                fits = (lengths > RECORD_HEAD) & (lengths <= LARGEST)
                fits &= (begin >= 0) & (begin <= size - lengths)
                yield entries[fits & (index >= 0) & (index < samples)]

    def read(self, offset: int, length: int) -> bytes:
        """Give bytes of the file of records; fewer where it ends before.

        An OSError if it cannot be read, a ValueError if it was kept open and has been closed.
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
        pid: the process that made it, which alone may append: a forked child shares its place in
            the files, but not the count of where they end.
        size: bytes of both files.
    """

    def __init__(self, folder: Path, name: str, key: bytes) -> None:
        self.name = name
        self._paths = (folder / f"{name}.data", folder / f"{name}.index")
        self.pid = os.getpid()
        self.size = HEADER_BYTES
        self._end = 0
        with ExitStack() as undo:
            self._data, self._index = [_make_file(path, undo) for path in self._paths]
            _write_all(self._index, _header(key))
            undo.pop_all()

    @property
    def in_vain(self) -> bool:
        """Whether closing removes the files: no record is whole, and they are not a parent's."""
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
        # Not by an ExitStack: an interrupt leaves it in a cycle with the files not yet closed.
        try:
            self._data.close()
        finally:
            self._index.close()
        if self.in_vain:
            for path in reversed(self._paths):  # the index first, by which others find it
                _remove(path)


def _make_file(path: Path, undo: ExitStack) -> FileIO:
    """Make a file; ``undo`` closes and removes it if what follows fails."""
    # "x": a new file, and never through a link that stands in its place.
    file = FileIO(str(path), "xb")
    undo.callback(_remove, path)
    undo.callback(file.close)  # runs before the removal: Windows removes no open file
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
    """Read ``size`` bytes, by several reads if need be; fewer where the file ends."""
    data = b""
    while len(data) < size and (part := file.read(size - len(data))):
        data += part
    return data


def _write_all(file: FileIO, data: bytes | bytearray) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest[:_MOST]) :]
