"""The arrays in one ``.npz`` file, a zip archive as `numpy.savez` writes it.

Nothing in the file is believed before it is checked: what a header says is compared
with what is there before memory is taken, every byte goes through the checksum,
and nothing is ever unpickled. So a damaged file is an error that names file and
field, never fewer or other samples.
"""

from __future__ import annotations

import errno
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, by_handler
from ._fields import NEAREST, listed, nearest, repeated
from ._npy_header import read_header
from ._open_file import unreadable

__all__ = ["Archive"]

_READ = 1 << 20
"""Bytes read at once. Chosen: few calls, and little memory beside the array."""

_DEFLATE_GAIN = 1032
"""No deflated byte becomes more than this many (the zlib manual, "Maximum Compression")."""

_DAMAGED = "copy the file again, or make it again with numpy.savez"

_LOCAL_BYTES = 30
"""Bytes of the header before each member, without its name and more (APPNOTE 4.3.7)."""


class Archive:
    """An open ``.npz`` file, read with mistrust."""

    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self._path = path
        self._size = size
        file.seek(0)
        if file.read(6) == b"\x93NUMPY":
            raise self._fault(
                "expected an archive as numpy.savez writes it, got one array, as numpy.save does; "
                'it is of "type": "npy"'
            )
        with self._mistrust():
            try:
                self._zip = zipfile.ZipFile(file)
            except zipfile.BadZipFile as error:
                if error.__context__ is not None:
                    raise
                # What a signal handler raises at a seek, an OSError, it takes for an archive that
                # has no end, and keeps nothing of it. So it looks twice.
                self._zip = zipfile.ZipFile(file)
        self._check_directory(file)

    def _fault(self, message: str, name: str = "") -> SourceError:
        return SourceError(message, self._path, f"field {name!r}" if name else "")

    @contextmanager
    def _mistrust(self, name: str = "") -> Iterator[None]:
        """Turn what zipfile, zlib and numpy raise over damaged bytes into one kind of error."""
        outside = sys.exception()  # the caller's own: the context of each error here ends with it
        try:
            yield
        except (SourceError, MemoryError):
            raise
        except Exception as error:
            _pass_on(error, outside, self._path)
            reason = str(error) or type(error).__name__
            what = "a readable array" if name else "an npz file (a zip archive of arrays)"
            raise self._fault(f"expected {what}, got: {reason}; {_DAMAGED}", name) from error

    def _check_directory(self, file: IO[bytes]) -> None:
        """Refuse a table of contents that lost or doubled a member: zipfile would go on."""
        names = self._zip.namelist()
        if len(set(names)) < len(names):
            message = "expected one array of this name, got several; write the file again"
            raise self._fault(message, repeated(names).removesuffix(".npy"))
        # Members that share their bytes would make gigabytes of a small file.
        members = sorted(self._zip.infolist(), key=lambda member: member.header_offset)
        ends = [member.header_offset + _LOCAL_BYTES + member.compress_size for member in members]
        begins = [member.header_offset for member in members[1:]]
        for member, end, next_one in zip(members, ends, [*begins, self._size], strict=False):
            if end > next_one:
                name = member.filename.removesuffix(".npy")
                raise self._fault(
                    f"expected bytes of its own, got those of others; {_DAMAGED}", name
                )
        # The last record, found as zipfile finds it: 22 bytes and a comment.
        file.seek(max(self._size - 22 - 0xFFFF, 0))
        tail = file.read()
        at = tail.rfind(b"PK\5\6")
        announced = int.from_bytes(tail[at + 10 : at + 12], "little")
        if announced not in (len(names), 0xFFFF):  # 0xffff: a number too large for this place
            raise self._fault(
                f"expected the {announced} members that the archive announces, "
                f"got {len(names)}; {_DAMAGED}"
            )

    def load(self, chosen: dict[str, str] | None) -> dict[str, npt.NDArray[Any]]:
        """Read the chosen fields, or every array."""
        members = self._zip.infolist()
        arrays = {
            member.filename.removesuffix(".npy"): member
            for member in members
            if member.filename.endswith(".npy")
        }
        if chosen is None:
            chosen = {name: name for name in arrays}
            # What is not an array is left out, but not before its own header confirms its
            # name: one wrong byte in the table of contents must not make a field vanish.
            for member in members:
                if not member.filename.endswith(".npy"):
                    with self._mistrust(member.filename), self._zip.open(member):
                        pass
        if not chosen:
            raise self._fault("expected at least one array, got none; write it with numpy.savez")
        missing = [name for name in dict.fromkeys(chosen.values()) if name not in arrays]
        if missing:
            raise SourceError(
                f"expected arrays of the names that are in the file, {listed(arrays) or 'none'}, "
                f"got {'; '.join(_named(missing, arrays))}",
                self._path,
                option="/fields",
            )
        return {field: self._array(arrays[name], name) for field, name in chosen.items()}

    def _array(self, member: zipfile.ZipInfo, name: str) -> npt.NDArray[Any]:
        self._check_sizes(member, name)
        with self._mistrust(name), self._zip.open(member) as stream:
            header = read_header(
                stream,
                lambda message: self._fault(message, name),
                _DAMAGED,
                '; leave it out by choosing "fields"',
            )
            size = header.size
            if header.length + size != member.file_size:
                raise self._fault(
                    f"expected {size} bytes for shape {header.shape} of {header.dtype}, "
                    f"got {member.file_size - header.length}; {_DAMAGED}",
                    name,
                )
            values = np.empty(size, np.uint8)
            at = 0
            while at < size:
                part = stream.read(min(_READ, size - at))
                if not part:
                    raise self._fault(f"expected {size} bytes, got {at}; {_DAMAGED}", name)
                values[at : at + len(part)] = np.frombuffer(part, np.uint8)
                at += len(part)
            stream.read(1)  # reaches the end, where zipfile compares the checksum
            return header.array(values)

    def _check_sizes(self, member: zipfile.ZipInfo, name: str) -> None:
        """Compare the sizes in the table of contents with each other and with the file's size."""
        if member.compress_type == zipfile.ZIP_STORED:
            most = member.compress_size
        elif member.compress_type == zipfile.ZIP_DEFLATED:
            most = member.compress_size * _DEFLATE_GAIN
        else:
            raise self._fault(
                f"expected it stored or deflated, got compression {member.compress_type}; "
                "write it with numpy.savez or numpy.savez_compressed",
                name,
            )
        if member.compress_size > self._size or member.file_size > most:
            raise self._fault(
                f"expected at most {min(most, self._size * _DEFLATE_GAIN)} bytes, "
                f"got a member that says it has {member.file_size}; {_DAMAGED}",
                name,
            )


def _pass_on(error: BaseException | None, outside: BaseException | None, path: Path) -> None:
    """Raise what a signal handler or the system raised, if that is this error or lies behind it.

    zipfile makes of any error of the system one that says that the file is no zip file. CPython
    3.11 makes another exception of one that comes while the name of a member is decoded.
    """
    said = None
    try:
        while error is not None and error is not outside:
            if by_handler(error):
                raise error
            # Not EINVAL: damaged bytes may have zipfile seek to a place before the file.
            if isinstance(error, OSError) and error.errno != errno.EINVAL:
                said = error
            error = error.__cause__ or error.__context__
        if said is not None:
            raise unreadable(path, said) from said
    finally:
        del error, outside, said  # they would be in a cycle with this frame


def _named(names: list[str], known: Iterable[str]) -> Iterator[str]:
    """Give wrong names, the first ones each with the nearest known name."""
    for number, name in enumerate(names):
        near = nearest(name, known) if number < NEAREST else ""
        yield repr(name) + (f" ({near})" if near else "")
