"""Arrays of ``.npy`` files, as `numpy.save` writes them, read row by row or mapped.

A header is not believed before it is checked, and nothing is ever unpickled: a file must
have exactly the bytes that its dtype and shape need. The format has no checksum of the
values; an ``.npz`` file has one.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError, by_handler
from ._closing import close_all, closed_error
from ._files import FileReader, inside
from ._fingerprint import checked_rows, sha256
from ._npy_header import LONGEST, Header, read_header
from ._open_file import (
    none_there,
    open_regular,
    other_size,
    readable,
    size_of,
    too_many,
    unreadable,
)
from ._row_numbers import row_number, row_numbers
from .arrays import ArraySource, Empty, stays_array

__all__ = ["NpySource", "open_npy"]

_DAMAGED = "copy the file again, or make it again with numpy.save"

_COLUMN_BYTES = 1 << 20
"""How much of a field is read at once for all samples. Chosen: many rows, and little memory."""

_Array = npt.NDArray[Any]


def open_npy(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> NpySource:
    """Open ``{"type": "npy", "fields": {field: path}, "mmap": false}``, or ``"path"`` for one."""
    path, fields = spec.get("path"), spec.get("fields")
    if (path is None) == (fields is None):
        expected = 'either "path", for one array, or "fields", for several under names'
        got = "neither" if path is None else "both"
        raise ConfigError(Problem("/source", expected, got))
    if fields is None:
        return NpySource(inside(base / str(path), root), mapped=spec.get("mmap", False))
    files = {field: inside(base / name, root) for field, name in fields.items()}
    return NpySource(files, mapped=spec.get("mmap", False))


class NpySource:
    """Samples are rows of the array in a ``.npy`` file, or dicts of rows of several, by field.

    They are read by position, a row at a time, or a run of neighbouring rows in one read; or
    the files are mapped into memory and rows are copied from there. A mapped file must not be
    cut while rows of it are copied: reading past its new end kills the process, by the system
    and not by an exception. All files have as many rows.
    """

    def __init__(self, data: Path | Mapping[str, Path], *, mapped: bool = False) -> None:
        self._names = list(data) if isinstance(data, Mapping) else None
        files = list(data.values()) if isinstance(data, Mapping) else [data]
        if not files:
            expected, hint = "at least one field", "name a .npy file"
            raise ConfigError(Problem("/source/fields", expected, "none", hint))
        self._rows: list[_Positioned | _Mapped] = []
        with ExitStack() as undo:
            missing: dict[Path, None] = {}  # told all at once
            causes: list[BaseException] = []
            for file in files:
                try:
                    rows = _Mapped(file) if mapped else _Positioned(file)
                except SourceError as error:
                    if isinstance(error.__cause__, FileNotFoundError):
                        missing[file] = None
                        causes = causes or [error.__cause__]
                    elif not missing:  # else it is told when those are there
                        raise
                    continue
                undo.callback(rows.close)
                self._rows.append(rows)
            if missing:
                raise none_there([*missing]) from causes.pop()  # else it would be in a cycle
            self._length = self._common_length()
            undo.pop_all()

    def _common_length(self) -> int:
        first = self._rows[0]
        for rows in self._rows:
            if rows.header.shape[0] != first.header.shape[0]:
                raise SourceError(
                    f"expected as many rows as {first.path} has, {first.header.shape[0]}, "
                    f"got {rows.header.shape[0]}; name files that belong together",
                    rows.path,
                )
        return first.header.shape[0]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        """Give one sample, as `ArraySource` gives it, in memory of its own."""
        row = row_number(index, self._length)
        return self._built([rows.one(row) for rows in self._rows])

    def take(self, indices: npt.ArrayLike) -> Any:
        """Give a batch, as `ArraySource.take` gives it."""
        return self.take_into(indices, np.empty)

    def take_into(self, indices: npt.ArrayLike, empty: Empty) -> Any:
        """Give a batch as `take` does, in memory that ``empty`` makes; see `ArraySource`."""
        numbers = row_numbers(indices, self._length)
        return self._built([rows.take(numbers, empty) for rows in self._rows])

    def _built(self, parts: list[Any]) -> Any:
        return parts[0] if self._names is None else dict(zip(self._names, parts, strict=True))

    def column(self, field: str | int) -> _Array | None:
        """Give a field of every sample, read from its file alone; None where there is none."""
        if self._names is None or field not in self._names:
            return None
        rows = self._rows[self._names.index(str(field))]
        shape, dtype = rows.header.shape, rows.header.dtype
        given = np.empty(shape, dtype)
        # In blocks: to take rows costs several integers for each besides, which may be more than
        # the rows themselves.
        most = max(1, _COLUMN_BYTES // max(8, rows.header.size // max(1, shape[0])))
        for at in range(0, shape[0], most):
            numbers = np.arange(at, min(at + most, shape[0]), dtype=np.int64)
            given[at : at + most] = rows.take(numbers, np.empty)
        return given

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample, so that small batches can be gathered together."""
        return sum(rows.header.size // max(1, rows.header.shape[0]) for rows in self._rows)

    @property
    def in_memory(self) -> bool:
        """Whether a batch costs what its rows cost, as of `ArraySource`: where it is mapped."""
        return all(isinstance(rows, _Mapped) for rows in self._rows)

    def fingerprint(self) -> str:
        """Tell this data from other data: length, sizes, dtypes, shapes, checksum of 64 rows.

        Whether the files are mapped does not count.
        """
        digest = sha256()
        # Row by row, since a row may be large; the empty batch says dtypes and shapes.
        for chosen in [[], *([row] for row in checked_rows(self._length))]:
            digest.update(ArraySource(self.take(np.array(chosen, np.int64))).fingerprint().encode())
        labels = [""] if self._names is None else [f"field {name!r} " for name in self._names]
        fields = ", ".join(
            f"{label}{rows.header.dtype.str[1:]} {rows.header.shape[1:]} ({rows.size} bytes)"
            for label, rows in zip(labels, self._rows, strict=True)
        )
        return f"npy, {self._length} samples, {fields}, sha256 {digest.hexdigest()}"

    def locate(self, index: int) -> str:
        """Say where a sample stands: ``path[row]``, of every field."""
        row = row_number(index, self._length)
        return ", ".join(f"{rows.path}[{row}]" for rows in self._rows)

    def close(self) -> None:
        """Close the files; a second time does nothing."""
        close_all([rows.close for rows in self._rows])


class _Positioned:
    """The rows of one file, read by position."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with ExitStack() as undo:
            self._reader = FileReader(path)
            undo.callback(self._reader.close)
            self.size = self._reader.size
            start = self._reader.read(0, min(self.size, LONGEST))
            self.header = _checked_header(path, start, self.size)
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
        # The copy can be written to, as what is read from an array in memory.
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

    def close(self) -> None:
        self._reader.close()


class _Mapped:
    """The rows of one file that is mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable(path), open_regular(path) as raw:
            self.size = size_of(raw)
            with io.BufferedReader(raw) as file:
                self.header = _checked_header(path, file.read(LONGEST), self.size)
                whole, array = _mapped(path, file.fileno(), self.header, self.size)
        # Only this refers to the map, since ArraySource gives copies: without it, the map goes.
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
            # Before rows are read: past the end of a file that was cut that kills the process.
            size = self.size if whole is None else whole.size()  # of the file, as it is now
            if size != self.size:
                raise other_size(self.path, self.size, size)
            return array
        except OSError as error:
            if by_handler(error) or isinstance(error, SourceError):
                raise
            raise unreadable(self.path, error) from error
        finally:
            del opened, whole, array  # who keeps what is raised keeps this frame, not the map

    def close(self) -> None:
        self._opened = None


def _mapped(path: Path, number: int, header: Header, size: int) -> tuple[mmap.mmap | None, _Array]:
    """Give the map of an open file, and its array there, to be read only."""
    if not header.size:  # there may be nothing to map, and none is needed
        return None, np.empty(header.shape, header.dtype)
    try:
        # With the size: a file that has become shorter since is refused.
        whole = mmap.mmap(number, size, access=mmap.ACCESS_READ)
    # OverflowError: larger than a system of 32 bits can count.
    except (OSError, ValueError, OverflowError) as error:
        if by_handler(error):
            raise
        got = f"{getattr(error, 'strerror', None) or error}{too_many(error)}"
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
