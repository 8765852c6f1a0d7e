"""Reads files by position, from several threads at once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, by_handler, most_open
from ._closing import Held, Token, close_all, close_left_over, closed_error
from ._open_file import open_regular, other_size, readable, time_of_change, too_few

__all__ = ["FileReader", "kept_open"]

_MOST_OPEN = 128
"""Files that one source keeps open at most. Chosen: an eighth of the 1,024 that Linux allows."""

_MOST_EACH = 4
"""The same where each thread opens each file for itself, as on Windows, whose C library allows
8,192 open files. Chosen: so a thousand threads have room."""

_MOST = 1 << 30
"""Bytes asked for in one call: some systems refuse 2 GiB or more."""

_TOGETHER = 8 << 20
"""Bytes that `FileReader.gather` reads at once: memory beside what it gives. Chosen."""

_GAP = 4096
"""Where at most so many bytes lie between two ranges, `FileReader.gather` reads both at once.
Chosen: a page, which the system reads in any case."""


def kept_open() -> int:
    """Give how many files a source that is opened now keeps open at most.

    It is 128, or less where the process may have few files open: 32 where it may have 256. Where
    threads cannot share a handle, as on Windows, it is 4.
    """
    return most_open(_MOST_OPEN if hasattr(os, "pread") else _MOST_EACH)


def _known(status: os.stat_result) -> tuple[int, ...]:
    """Give what is known of a file: its device, inode number, size and times."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class FileReader:
    """Reads a regular file by position, from any number of threads at once.

    Where the system has ``os.pread``, all threads share one handle, since that call
    leaves the handle's position alone. Elsewhere (Windows) each thread gets a handle
    of its own.

    Args:
        path: the file.
        shared: use ``os.pread``. Default: where there is one; False: for tests.
        keep: hold the file open. Otherwise each read opens it, and closes it again: for a
            source of more files than a process may have open, see `kept_open`.

    Attributes:
        path: the file.
        size: its size in bytes when it was opened.

    A file that cannot be opened, looked at or read is a SourceError; so is a read of one that no
    longer has the size it had. A reader that has been closed raises ClosedError, but for ranges
    that are none or have no bytes: for these `gather` does not look at the file.
    """

    def __init__(
        self, path: Path, *, shared: bool = hasattr(os, "pread"), keep: bool = True
    ) -> None:
        self.path = path
        self._shared = shared
        self._keep = keep
        self._first = open_regular(path)
        with ExitStack() as undo:
            undo.callback(self._first.close)
            with readable(path):
                # Absolute: opened again, it is the same file whatever the working folder is then.
                self._again = path if shared and keep else path.absolute()
                status = os.fstat(self._first.fileno())
            undo.pop_all()
        self._known = _known(status)
        self.size = status.st_size
        self._local: Any = None  # None: each read opens the file
        # These two have no lock: `_closing` says why.
        self._handles: dict[Held[FileIO], None] = {}
        self._closed = False  # set by close
        self._token = Token()  # of the first handle, which is never left over
        if keep:
            self._local = threading.local()  # 700 bytes, too much for each of many files
            self._local.handle = self._first
            self._handles[Held(self._first, self._token)] = None
        else:
            with readable(path, "closed"):
                self._first.close()

    def modified(self) -> int:
        """Give the time of the file's last change, as it is now; see `time_of_change`."""
        try:
            with readable(self.path):
                handle = self._first if self._keep else self._handle()
                try:
                    return time_of_change(os.fstat(handle.fileno()))
                finally:
                    if not self._keep:
                        handle.close()
        except ValueError as error:  # what fileno() says of a closed file
            if not self._closed:  # then a signal handler raised it
                raise
            raise closed_error(self.path) from error

    def read(self, offset: int, length: int) -> bytes:
        """Give exactly so many bytes of the file from an offset on."""
        try:
            handle = self._first if self._shared and self._keep else self._handle()
            try:
                data = self._read_from(handle, offset, length)
                # Asked after the read, so that the bytes are those of an unchanged file.
                size = os.fstat(handle.fileno()).st_size
            finally:
                if not self._keep:
                    handle.close()
        except ValueError as error:  # what fileno() says of a closed file
            if not self._closed:  # then a signal handler raised it
                raise
            raise closed_error(self.path) from error
        except SourceError:
            raise
        except OSError as error:
            if by_handler(error):
                raise
            if self._closed:
                raise closed_error(self.path) from error
            message = f"expected {length} bytes, got: {error.strerror}"
            raise SourceError(message, self.path, f"byte {offset}") from error
        if size != self.size:
            raise other_size(self.path, self.size, size)
        if len(data) != length:
            raise too_few(self.path, offset, length, len(data))
        return data

    def gather(
        self,
        offsets: npt.NDArray[np.int64],
        length: int,
        empty: Callable[..., npt.NDArray[Any]] = np.empty,
    ) -> npt.NDArray[np.uint8]:
        """Give many ranges of equal length; those that lie close together are one read.

        The offsets, ``(n,)``, may have any order, and ranges may overlap. The result, uint8 ``(n,
        length)``, is in the order of the offsets; ``empty`` makes it, called as `numpy.empty` is.
        """
        given = empty((len(offsets), length), np.uint8)
        if not given.size:
            return given
        # numpy counts overlapping ranges as if each had memory of its own: on a 32-bit system
        # they soon are too many.
        together = min(_TOGETHER, sys.maxsize // length)
        order = np.argsort(offsets, kind="stable")
        begins = offsets[order]
        cuts = np.flatnonzero(np.diff(begins) > length + _GAP) + 1
        firsts, lasts = np.append(0, cuts), np.append(cuts, len(begins))
        if self._shared and self._keep and hasattr(os, "preadv"):
            alone = lasts - firsts == 1
            self._read_into(given, order[firsts[alone]].tolist(), begins[firsts[alone]].tolist())
            firsts, lasts = firsts[~alone], lasts[~alone]
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            at = first
            while at < last:
                begin = int(begins[at])
                # As many as fit into what is read at once; one at least.
                fit = int(np.searchsorted(begins[at:last], begin + together - length, "right"))
                upto = at + max(fit, 1)
                data = self.read(begin, int(begins[upto - 1]) - begin + length)
                if upto == at + 1:
                    given[order[at]] = np.frombuffer(data, np.uint8)
                else:
                    # Seen as one value, a range is copied in one piece, which is faster.
                    one = np.dtype(f"V{length}")
                    ranges = np.ndarray((len(data) - length + 1,), one, data, strides=(1,))
                    given.view(one)[order[at:upto], 0] = ranges[begins[at:upto] - begin]
                at = upto
        return given

    def _read_into(self, given: npt.NDArray[np.uint8], rows: list[int], begins: list[int]) -> None:
        """Read ranges of the file into rows of ``given``, in less than half the time of `read`.

        ``given`` is uint8, shape (n, length), C-contiguous; the rows may be in any order.
        """
        length = given.shape[1]
        memory, fileno, preadv = given.reshape(-1).data, self._first.fileno, os.preadv
        for row, begin in zip(rows, begins, strict=True):
            at, end = row * length, (row + 1) * length
            try:
                # A read may give less than it was asked for. Why fileno() is called each time,
                # `_read_from` says.
                while at < end and (count := preadv(fileno(), (memory[at:end],), begin)):
                    at, begin = at + count, begin + count
            except (OSError, ValueError) as error:
                if by_handler(error):
                    raise
                # `read` gives the rest if the fault has passed, and otherwise raises it in words.
                memory[at:end] = self.read(begin, end - at)
            else:
                if at < end:
                    self.read(0, 0)  # raises if the file has another size
                    raise too_few(self.path, begin - at + row * length, length, at - row * length)
        self.read(0, 0)  # raises if the file has another size: asked once for all ranges

    def _read_from(self, handle: FileIO, offset: int, length: int) -> bytes:
        data = b""
        while len(data) < length:  # a read may give less than it was asked for
            left = length - len(data)
            if self._shared:
                # fileno() each time: after close() the number may be that of another file.
                part = os.pread(handle.fileno(), min(left, _MOST), offset + len(data))
            else:
                handle.seek(offset + len(data))
                part = handle.read(min(left, _MOST))
            if not part:
                break
            data = data + part if data else part
        return data

    def _handle(self) -> FileIO:
        """Give the calling thread's own handle, opened at its first read or at each."""
        handle: FileIO | None = getattr(self._local, "handle", None)
        if handle is not None:
            return handle
        close_left_over(self._handles, FileIO.close)
        with ExitStack() as undo:
            handle = self._opened_again()
            undo.callback(handle.close)
            status = os.fstat(handle.fileno())
            if not self._is_first(_known(status)):
                raise SourceError(
                    "expected the file that was opened first, got another one under its "
                    "name; open the source again",
                    self.path,
                )
            if self._keep:
                token = self._local.token = Token()
                held = Held(handle, token)
                self._handles[held] = None
                undo.pop_all()  # from now on it is closed by way of the dict
                self._local.handle = handle
                if self._closed:
                    held.close(FileIO.close)
            if self._closed:
                raise closed_error(self.path)
            undo.pop_all()
        return handle

    def same_file(self, other: FileReader) -> bool:
        """Tell whether another reader has opened the same file, while this one holds it open."""
        return self._is_first(other._known)

    def _is_first(self, now: tuple[int, ...]) -> bool:
        """Tell whether what is known of a file now says that it is the one opened first.

        Some file systems, as of FUSE, give a file a new inode number each time: a file that differs
        in nothing else is the same. That does not hold on Windows, where all times can be set.
        """
        first = self._known
        if now[:2] == first[:2]:
            return True
        return os.name != "nt" and (now[0], now[2:]) == (first[0], first[2:])

    def _opened_again(self) -> FileIO:
        try:
            return open_regular(self._again)
        except SourceError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                message = "expected the file that was there when the source was opened, found none"
                raise SourceError(message, self.path) from error
            error.path = str(self.path)  # as it was given, not absolute
            raise

    def close(self) -> None:
        """Close every handle; a thread that still reads gets its bytes or ClosedError."""
        self._closed = True
        with readable(self.path, "closed"):
            # The handles stay in the dict: what an interrupt leaves open, a second close() closes.
            close_all([partial(each.close, FileIO.close) for each in self._handles.copy()])
