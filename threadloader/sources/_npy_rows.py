"""The rows of one array that `numpy.save` wrote: into a file, or part by part into several.

A header is not believed before it is checked, and nothing is ever unpickled: a file must
have exactly the bytes that its dtype and shape need. The format has no checksum of the
values; an ``.npz`` file has one.

Each class of rows has ``header`` (of all its files together), ``path`` (of its first file),
``sizes`` (of its files, in bytes) and ``mapped`` (whether they are mapped into memory).
"""

from __future__ import annotations

import io
import mmap
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, by_handler
from ._closing import close_all, closed_error
from ._files import FileReader
from ._npy_header import LONGEST, Header, check_alike, read_header
from ._open_file import open_regular, other_size, readable, size_of, too_many_hint, unreadable
from ._row_numbers import part_of
from .arrays import ArraySource, Empty, stays_array

__all__ = ["Joined", "Mapped", "Positioned", "as_bytes"]

_DAMAGED = "copy the file again, or make it again with numpy.save"

_LARGEST = 2**31 - 1
"""Bytes of the largest value that numpy has a dtype for."""

_Array = npt.NDArray[Any]


class Positioned:
    """The rows of one file, read by position; `keep` is as of `FileReader`."""

    mapped = False

    def __init__(self, path: Path, *, keep: bool = True) -> None:
        self.path = path
        with ExitStack() as undo:
            self._reader = FileReader(path, keep=keep)
            undo.callback(self._reader.close)
            size = self._reader.size
            self.sizes = (size,)
            self.header = _checked_header(path, self._reader.read(0, min(size, LONGEST)), size)
            if self.header.columns_first and sum(n > 1 for n in self.header.shape) > 1:
                raise SourceError(
                    "expected the rows one after another (C order), got Fortran order; "
                    'save numpy.ascontiguousarray(...) of it, or set "mmap" to true',
                    path,
                )
            undo.pop_all()
        dtype, rows = self.header.dtype, self.header.shape[0]
        self._row_shape = self.header.shape[1:]
        self._row_size = self.header.size // rows if rows else 0
        self._boxed = not self._row_shape and stays_array(dtype)

    def one(self, row: int) -> Any:
        data = self._reader.read(self.header.length + row * self._row_size, self._row_size)
        # The copy can be written to, as a sample of an array in memory can.
        values = np.frombuffer(data, np.uint8).copy()
        sample = self._shaped(values, 1)
        return sample[0, ...] if self._boxed else sample[0]

    def take(self, numbers: npt.NDArray[np.int64], empty: Empty) -> _Array:
        offsets = numbers * self._row_size + self.header.length
        return self._shaped(self._reader.gather(offsets, self._row_size, empty), len(numbers))

    def _shaped(self, values: npt.NDArray[np.uint8], count: int) -> _Array:
        shape = (count, *self._row_shape)
        if not values.size:  # a view cannot change to or from a dtype without bytes
            return np.empty(shape, self.header.dtype)
        return values.reshape(-1).view(self.header.dtype).reshape(shape)

    def place(self, row: int) -> str:
        return f"{self.path}[{row}]"

    def close(self) -> None:
        self._reader.close()


class Mapped:
    """The rows of one file that is mapped into memory."""

    mapped = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable(path), open_regular(path) as raw:
            size = size_of(raw)
            with io.BufferedReader(raw) as file:
                self.header = _checked_header(path, file.read(LONGEST), size)
                whole, array = _mapped(path, file.fileno(), self.header, size)
        self.sizes = (size,)
        # Only this refers to the map, since ArraySource gives copies: close unmaps by setting None.
        self._opened: tuple[mmap.mmap | None, ArraySource] | None = whole, ArraySource(array)

    def one(self, row: int) -> Any:
        return self._open_array()[row]

    def take(self, numbers: npt.NDArray[np.int64], empty: Empty) -> _Array:
        taken: _Array = self._open_array().take_into(numbers, empty)
        return taken

    def _open_array(self) -> ArraySource:
        opened = self._opened
        if opened is None:
            raise closed_error(self.path)
        whole, array = opened
        try:
            # Before rows are read: a read past the end of a file that was cut kills the process.
            (before,) = self.sizes
            size = before if whole is None else whole.size()  # of the file, as it is now
            if size != before:
                raise other_size(self.path, before, size)
            return array
        except OSError as error:
            if by_handler(error) or isinstance(error, SourceError):
                raise
            raise unreadable(self.path, error) from error
        finally:
            del opened, whole, array  # else a kept exception's frame would keep the map

    def place(self, row: int) -> str:
        return f"{self.path}[{row}]"

    def close(self) -> None:
        self._opened = None


class Joined:
    """The rows of several files, one after another, as if they were one."""

    def __init__(self, parts: Sequence[Positioned | Mapped]) -> None:
        first = parts[0]
        for part in parts:
            check_alike(first.path, first.header, part.path, part.header)
        self.path = first.path
        self.mapped = first.mapped
        self.sizes = tuple(size for part in parts for size in part.sizes)
        self._parts = parts
        # The number of each file's first row, and in the end the number of all rows.
        self._firsts = [0, *accumulate(part.header.shape[0] for part in parts)]
        if self._firsts[-1] >= 1 << 63:  # of rows without bytes a file may say that it has so many
            text = f"expected fewer than 2**63 rows in all files, got {self._firsts[-1]}"
            raise SourceError(text, self.path)
        self._firsts_array = np.array(self._firsts, np.int64)  # the same, for many rows at once
        size = sum(part.header.size for part in parts)
        shape = (self._firsts[-1], *first.header.shape[1:])
        self.header = replace(first.header, shape=shape, size=size)

    def one(self, row: int) -> Any:
        part = bisect_right(self._firsts, row) - 1  # it is checked by now
        return self._parts[part].one(row - self._firsts[part])

    def take(self, numbers: npt.NDArray[np.int64], empty: Empty) -> _Array:
        files = np.searchsorted(self._firsts_array, numbers, "right") - 1
        used: list[int] = np.unique(files).tolist() or [0]
        if len(used) == 1:
            return self._parts[used[0]].take(numbers - self._firsts[used[0]], empty)
        given: _Array = empty((len(numbers), *self.header.shape[1:]), self.header.dtype)
        length = given.nbytes // len(numbers)  # of a row
        for file in used:
            rows = np.flatnonzero(files == file)
            # Each part is only copied from, so it gets no memory that is kept for batches.
            taken = self._parts[file].take(numbers[rows] - self._firsts[file], np.empty)
            if length:
                as_bytes(given, length)[rows] = as_bytes(taken, length)
        return given

    def place(self, row: int) -> str:
        part, at = part_of(row, self._firsts)
        return self._parts[part].place(at)

    def close(self) -> None:
        close_all([part.close for part in self._parts])


def as_bytes(rows: _Array, length: int) -> _Array:
    """See each row, of so many bytes, as one value: numpy copies records field by field.

    What lies between two fields would not be copied, and be whatever was in memory before.
    Above 2 GiB, for which there is no dtype, a row stays an array of its bytes.
    """
    seen = rows.reshape(-1).view(np.uint8).reshape(len(rows), length)
    return seen if length > _LARGEST else seen.view(f"V{length}")[:, 0]


def _mapped(path: Path, number: int, header: Header, size: int) -> tuple[mmap.mmap | None, _Array]:
    """Give the map of an open file, and the read-only array in it; no map if it has no values."""
    if not header.size:  # there may be nothing to map, and none is needed
        return None, np.empty(header.shape, header.dtype)
    try:
        # With the size: a file that has become shorter since is refused.
        whole = mmap.mmap(number, size, access=mmap.ACCESS_READ)
    # OverflowError: larger than a system of 32 bits can count.
    except (OSError, ValueError, OverflowError) as error:
        if by_handler(error):
            raise
        got = f"{getattr(error, 'strerror', None) or error}{too_many_hint(error)}"
        if isinstance(error, OverflowError):
            got = f'{size} bytes, more than this system can count; set "mmap" to false'
        raise SourceError(f"expected a file that can be mapped, got: {got}", path) from error
    order: Literal["F", "C"] = "F" if header.columns_first else "C"
    return whole, np.ndarray(header.shape, header.dtype, whole, header.length, order=order)


def _checked_header(path: Path, start: bytes, size: int) -> Header:
    """Read the header of a file of this size that starts with these bytes."""

    def fault(message: str) -> SourceError:
        return SourceError(message, path)

    header = read_header(io.BytesIO(start), fault, _DAMAGED, "; save it with one sample a row")
    if header.length + header.size != size:
        raise fault(
            f"expected {header.size} bytes for shape {header.shape} of {header.dtype} after "
            f"the header of {header.length}, got {size - header.length}; {_DAMAGED}"
        )
    return header
