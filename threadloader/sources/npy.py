"""Arrays of ``.npy`` files, as `numpy.save` writes them, read row by row or mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError
from ._closing import close_all
from ._fields import in_pointer
from ._files import kept_open
from ._fingerprint import checked_rows, extent, sha256
from ._named import check_there, named_files
from ._npy_rows import Joined, Mapped, Positioned
from ._paths import expand
from ._progress import ProgressLog
from ._row_numbers import row_number, row_numbers
from .arrays import ArraySource, Empty

__all__ = ["NpySource", "open_npy"]

_COLUMN_BYTES = 1 << 20
"""How much of a field is read at once for all samples. Chosen: many rows, and little memory."""

_Array = npt.NDArray[Any]


def open_npy(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> NpySource:
    """Open ``{"type": "npy", "fields": {field: path}, "mmap": false}``, or ``"path"`` for one.

    A path is a name or a pattern, or a list of these.
    """
    path, fields = spec.get("path"), spec.get("fields")
    if (path is None) == (fields is None):
        expected = 'either "path", for one array, or "fields", for several under names'
        got = "neither" if path is None else "both"
        raise ConfigError(Problem("/source", expected, got))

    def files(field: str, names: str | Sequence[str]) -> list[Path]:
        try:
            return expand(base, names, root, through_links=True)
        except SourceError as error:
            error.option = _option(field)
            raise

    if fields is None:
        data: Any = named_files(spec, base, root)
    else:
        data = {field: files(field, names) for field, names in fields.items()}
        options: dict[Path, str] = {}
        for field, parts in data.items():
            for part in parts:
                options.setdefault(part, _option(field))
        check_there(options, options)
    return NpySource(data, mapped=spec.get("mmap", False))


class NpySource:
    """Samples are rows of the array in ``.npy`` files, or dicts of rows of several, by field.

    They are read by position, a row at a time, or a run of neighbouring rows in one read; or
    the files are mapped into memory and rows are copied from there. A mapped file must not be
    cut while rows of it are copied: reading past its new end kills the process, by the system
    and not by an exception. All arrays have the same number of rows.

    Args:
        data: the file of the array, or several whose rows follow one another; or these by field.
        mapped: map the files.
    """

    def __init__(
        self,
        data: Path | Sequence[Path] | Mapping[str, Path | Sequence[Path]],
        *,
        mapped: bool = False,
    ) -> None:
        self._names = list(data) if isinstance(data, Mapping) else None
        arrays = data if isinstance(data, Mapping) else {None: data}
        if not arrays:
            expected, hint = "at least one field", "name a .npy file"
            raise ConfigError(Problem("/source/fields", expected, "none", hint))
        with ExitStack() as undo:
            self._rows = _opened(arrays, undo, mapped=mapped)
            self._length = self._common_length()
            undo.pop_all()

    def _common_length(self) -> int:
        first = self._rows[0]
        length, files = first.header.shape[0], len(first.sizes)
        others = (
            f"{first.path} has" if files == 1 else f"the {files} files from {first.path} on have"
        )
        for name, rows in zip(self._names or [""], self._rows, strict=True):
            if rows.header.shape[0] != length:
                several = f" in {len(rows.sizes)} files" if len(rows.sizes) > 1 else ""
                raise SourceError(
                    f"expected as many rows as {others}, {length}, "
                    f"got {rows.header.shape[0]}{several}; name files that belong together",
                    rows.path,
                    option=_option(name),
                )
        return length

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
        """Give a field of every sample, read from its files alone; None where there is none."""
        if self._names is None or field not in self._names:
            return None
        rows = self._rows[self._names.index(str(field))]
        shape, dtype = rows.header.shape, rows.header.dtype
        given = np.empty(shape, dtype)
        # In blocks: `take` makes several integers for each row, which may need more memory than
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
        """Whether a batch costs what its rows cost, as of `ArraySource`: if all are mapped."""
        return all(rows.mapped for rows in self._rows)

    def fingerprint(self) -> str:
        """Tell this data from other data: length, sizes, dtypes, shapes, checksum of 64 rows.

        Whether the files are mapped does not count.
        """
        digest = sha256()
        # Row by row, since a row may be large; the empty batch says dtypes and shapes.
        for chosen in [[], *([row] for row in checked_rows(self._length))]:
            digest.update(ArraySource(self.take(np.array(chosen, np.int64))).fingerprint().encode())
        for rows in self._rows:
            if len(rows.sizes) > 1:
                digest.update(f"{rows.sizes}".encode())
        labels = [""] if self._names is None else [f"field {name!r} " for name in self._names]
        fields = ", ".join(
            f"{label}{rows.header.dtype.str[1:]} {rows.header.shape[1:]} ({extent(rows.sizes)})"
            for label, rows in zip(labels, self._rows, strict=True)
        )
        return f"npy, {self._length} samples, {fields}, sha256 {digest.hexdigest()}"

    def locate(self, index: int) -> str:
        """Say where a sample stands: ``path[row]``, of every field."""
        row = row_number(index, self._length)
        return ", ".join(rows.place(row) for rows in self._rows)

    def close(self) -> None:
        """Close the files; a second time does nothing."""
        close_all([rows.close for rows in self._rows])


def _opened(
    arrays: Mapping[Any, Path | Sequence[Path]], undo: ExitStack, *, mapped: bool
) -> list[Positioned | Mapped | Joined]:
    """Open the file or files of each array, by field; `undo` is given what closes them."""
    opened: list[Positioned | Mapped | Joined] = []
    progress = ProgressLog()
    number, most = 0, kept_open()
    for field, files in arrays.items():
        parts: list[Positioned | Mapped] = []
        try:
            for file in [files] if isinstance(files, Path) else files:
                part = Mapped(file) if mapped else Positioned(file, keep=number < most)
                undo.callback(part.close)
                parts.append(part)
                number += 1
                progress.tell("%s: %d files of arrays opened", file, number)
            opened.append(parts[0] if len(parts) == 1 else Joined(parts))
        except SourceError as error:
            error.option = _option(field)
            raise
    return opened


def _option(field: str | None) -> str:
    """Give the option that names the files of a field; None: of the one array, "" for the path."""
    return "" if field is None else f"/fields/{in_pointer(field)}"
