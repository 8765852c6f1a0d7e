"""Indexes of lines that are kept in files, so that the next run need not look for the lines again.

A kept index is a file of fixed form: a header (which file it is of: size and time of its
last change; what it holds: how many offsets and rows), a checksum over header, name of the
file and contents, and the contents as little-endian int64. It is believed only if it is
whole, of this very file in this very state, and consistent; otherwise the index is built anew.
So an index can cost time, but it changes samples in one case alone: if a file was written to
and given its old size and time back, blank lines are left out where they were before.

An index is written under a temporary name, flushed to the disk and then renamed. So several
processes may build it at once: the final name holds a whole index or none.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
from io import FileIO
from pathlib import Path

import numpy as np

from ..errors import by_handler, log, once_free
from ._line_scan import IntArray
from ._open_file import open_regular, read_all

__all__ = ["SUFFIX", "IndexCache"]

SUFFIX = ".threadloader-index"

_MAGIC = b"threadloader ix\n"
_FORMAT = 1
# magic, format, whether blank lines are left out, size and time of the file, how many
# offsets and rows follow, checksum.
_HEADER = struct.Struct("<16s I I q q q q 32s")
_DIGEST = 32  # bytes of the checksum, the last ones of the header
_MOST = 1 << 30  # bytes asked for in one call: some systems refuse 2 GiB or more
_WINDOWS = os.name == "nt"


class IndexCache:
    """Indexes of files, kept in one folder; None: each beside its file."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._warned = False

    def path(self, file: Path, skip_blank: bool) -> Path:
        """Give the name of a file's index.

        It begins with a dot, so that a pattern takes it for data only if it begins with one
        itself. In a folder of their own, files of the same name are told apart by a checksum
        of where they are.
        """
        name = f".{file.name}{'.no-blank' if skip_blank else ''}"
        if self._folder is None:
            return file.with_name(name + SUFFIX)
        where = hashlib.sha256(os.fsencode(os.path.realpath(file))).hexdigest()[:16]
        return self._folder / f"{name}.{where}{SUFFIX}"

    def load(
        self, file: Path, size: int, modified: int, begin: int, skip_blank: bool
    ) -> tuple[IntArray, IntArray | None] | None:
        """Give a file's offsets, and the rows that are not blank, if a sound index has them.

        An index is sound if it is for a file of this size, time of change (of
        `FileReader.modified`) and first byte of its text.
        """
        path = self.path(file, skip_blank)
        try:
            with open_regular(path) as stream:
                found = _read(stream, file.name, size, modified, begin, skip_blank)
        except _StaleError as error:
            text = "%s: the index is for another state of the file (%s); built anew"
            log("info", text, path, error)
        except _DamagedError as error:
            log("warning", "%s: this is no sound index (%s); built anew", path, error)
        except OSError as error:  # a SourceError is one
            if by_handler(error):
                raise
            # Another process may be putting the index in place; any other cause `save` will tell.
            denied = _WINDOWS and isinstance(error.__cause__, PermissionError)
            if not (denied or isinstance(error.__cause__, FileNotFoundError)):
                self._warn(path, error)
        else:
            return found
        return None

    def save(
        self, file: Path, size: int, modified: int, offsets: IntArray, kept: IntArray | None
    ) -> None:
        """Write a file's index. Where that fails a warning is logged, once."""
        path = self.path(file, kept is not None)
        temporary = path.with_name(f".{secrets.token_hex(8)}{SUFFIX}")
        parts = [part.astype("<i8", copy=False) for part in (offsets, kept) if part is not None]
        rows = -1 if kept is None else len(kept)
        header = _HEADER.pack(
            _MAGIC, _FORMAT, kept is not None, size, modified, len(offsets), rows, bytes(_DIGEST)
        )
        try:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("xb") as stream:
                    stream.write(header[:-_DIGEST] + _checksum(header, file.name, parts))
                    for part in parts:
                        stream.write(part.data)
                    stream.flush()
                    os.fsync(stream.fileno())
                if self._warned:  # after one failure, the next of many files do not wait
                    temporary.replace(path)
                else:
                    once_free(os.replace, temporary, path)
            finally:  # around the opening, too: an interrupt may come right after it
                try:
                    temporary.unlink()
                except OSError as error:  # after the renaming there is nothing of this name
                    if by_handler(error):
                        raise
        except (OSError, ValueError) as error:  # ValueError: a folder that no system has
            if by_handler(error):
                raise
            self._warn(path, error)

    def _warn(self, path: Path, error: OSError | ValueError) -> None:
        if not self._warned:
            self._warned = True
            # Without the path, which some of these errors name, and those of a write do not.
            got = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            hint = "going on with the index in memory"
            log("warning", "%s: expected to keep an index of lines, got: %s; %s", path, got, hint)


class _StaleError(Exception):
    """The index is of another state of the file, or of another format or options."""


class _DamagedError(Exception):
    """The file found is no index, or not a whole one."""


def _read(
    stream: FileIO, name: str, size: int, modified: int, begin: int, skip_blank: bool
) -> tuple[IntArray, IntArray | None]:
    """Read an index; raise one of the two errors above if it is not to be believed."""
    header = read_all(stream, _HEADER.size)
    if len(header) < _HEADER.size or header[:16] != _MAGIC:
        raise _DamagedError("it has no header of ours")
    _, form, blank, its_size, its_time, count, rows, digest = _HEADER.unpack(header)
    if form != _FORMAT or blank != skip_blank:
        raise _StaleError("its format or its options differ")
    if (its_size, its_time) != (size, modified):
        raise _StaleError(f"size {its_size} and time {its_time} ns, now {size} and {modified} ns")
    # Checked against the true sizes of both files before memory is taken: a line has at least one
    # byte, and a sparse index file may announce more than any memory has.
    length, lines = os.fstat(stream.fileno()).st_size - _HEADER.size, count - 1
    if not 0 <= lines <= size - begin or not -1 <= rows <= lines or (rows >= 0) != skip_blank:
        raise _DamagedError("it announces lines that the file cannot have")
    if length != 8 * (count + max(rows, 0)):
        raise _DamagedError("its length is not what it announces")
    values = np.empty(length // 8, "<i8")
    _fill(stream, values.data.cast("B"))
    parts = [values[:count]] + ([values[count:]] if skip_blank else [])
    if _checksum(header, name, parts) != digest:
        raise _DamagedError("its checksum is another one")
    offsets, *kept = (part.astype(np.int64, copy=False) for part in parts)
    # To the end of the file: after the line end that is its last byte, or after an imagined one.
    ends = offsets[-1] == size or (count > 1 and offsets[-1] == size + 1 and offsets[-2] < size)
    sound = offsets[0] == begin and ends and _ascends(offsets)
    for chosen in kept:
        within = not len(chosen) or (chosen[0] >= 0 and chosen[-1] < len(offsets) - 1)
        sound = sound and within and _ascends(chosen)
    if not sound:
        raise _DamagedError("it is not an index of lines")
    return offsets, kept[0] if kept else None


def _fill(stream: FileIO, view: memoryview) -> None:
    at = 0
    while at < len(view):  # a read may give less than it was asked for
        got = stream.readinto(view[at : at + _MOST])
        if not got:
            raise _DamagedError("it is cut off")
        at += got


def _checksum(header: bytes, name: str, parts: list[IntArray]) -> bytes:
    # The file's name counts: an index that was renamed for another file is not that file's.
    digest = hashlib.blake2b(header[:-_DIGEST], digest_size=_DIGEST)
    encoded = name.encode("utf-8", "surrogatepass")
    digest.update(struct.pack("<q", len(encoded)) + encoded)
    for part in parts:
        digest.update(part.data)
    return digest.digest()


def _ascends(values: IntArray) -> bool:
    return bool((values[1:] > values[:-1]).all())
