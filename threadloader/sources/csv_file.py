"""Rows of csv files as samples, parsed once into columns in memory.

How the text becomes rows stands in `_csv_rows`, how texts become numbers in
`_csv_columns`. A value that its column's dtype does not hold, a row with a field too many
or too few, a quote that is never closed: each is an error when the files are opened, with
file and line. (This file is not called csv, as the standard library's module is.)
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, by_handler
from ._csv_columns import Column, Texts
from ._csv_options import CsvOptions
from ._csv_rows import Block, read_blocks
from ._dtypes import UnfitError
from ._fields import listed, near, nearest
from ._files import FileReader
from ._fingerprint import checked_rows, extent, sha256
from ._named import named_files
from ._row_numbers import row_number
from .arrays import ArraySource, Empty

__all__ = ["CsvOptions", "CsvSource", "open_csv"]

_CHUNK = 1 << 20
"""Bytes parsed at once. Chosen: as Python strings they take some 20 times as much."""

_STR_BYTES = sys.getsizeof("")
"""What a str takes beside its characters."""


def open_csv(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> CsvSource:
    """Open ``{"type": "csv", "path": names or patterns, "dtypes": {"*": "float32"}}``.

    All options are those of `CsvOptions`. No file is open any more afterwards.
    """
    rest = {name: value for name, value in spec.items() if name not in ("type", "path")}
    rest["quote"] = rest.get("quote", '"') or ""
    files = named_files(spec, base, root)
    return CsvSource(files, CsvOptions(**rest))


class CsvSource(ArraySource):
    """Samples are the rows of csv files, as dicts of their fields; headers are equal.

    A number is a numpy scalar of its dtype, a text a str. In memory a number takes what its
    dtype takes and a text its UTF-8 bytes and 16 more; while files are opened, up to twice
    that. ``_chunk`` are the bytes read at once; for tests.
    """

    def __init__(
        self, paths: Iterable[Path], options: CsvOptions | None = None, *, _chunk: int = _CHUNK
    ) -> None:
        self._options = options or CsvOptions()
        self._sizes: list[int] = []
        self._places = _Places()
        columns = _Columns(self._options, self._places)
        self._paths = list(paths)
        for path in self._paths:
            with closing(FileReader(path)) as reader:
                self._sizes.append(reader.size)
                for block, first in read_blocks(reader, self._options, _chunk):
                    columns.add(path, block, first)
        super().__init__(columns.finish())
        self._texts = columns.texts

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Give one sample: field -> numpy scalar or str."""
        sample: dict[str, Any] = super().__getitem__(index)
        for field, joined in self._texts.items():
            begin, end = sample[field].tolist()
            sample[field] = joined[begin:end].decode()
        return sample

    # Named here, since a `take` of the base class is not used where a class has a `[]` of its own.
    # This one calls `take_into`, and so gives the same as this class's `[]`.
    take = ArraySource.take

    def take_into(self, indices: npt.ArrayLike, empty: Empty) -> dict[str, Any]:
        """Give a batch as `take` does: field -> array ``(batch,)`` of its dtype, or list of str."""
        batch: dict[str, Any] = super().take_into(indices, empty)
        for field, joined in self._texts.items():
            batch[field] = [joined[begin:end].decode() for begin, end in batch[field].tolist()]
        return batch

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample, with the longest texts: small batches can be gathered together."""
        longest = 0
        for field in self._texts:
            spans: Any = super().column(field)
            longest += int((spans[:, 1] - spans[:, 0]).max(initial=0))
        return super().sample_bytes + longest + _STR_BYTES * len(self._texts)

    def column(self, field: str | int) -> npt.NDArray[Any] | list[Any] | None:
        """Give a field of every sample; None where there is no such field."""
        values, joined = super().column(field), self._texts.get(str(field))
        if values is None or joined is None:
            return values
        return [joined[begin:end].decode() for begin, end in np.asarray(values).tolist()]

    def fingerprint(self) -> str:
        """Tell this data from other data: as for arrays, and sizes of the files and options."""
        digest = sha256(str(self._options).encode())
        if len(self._sizes) > 1:
            digest.update(f"{self._sizes}".encode())
        for row in checked_rows(len(self)):
            sample = self[row]
            for field in self._texts:
                digest.update(sample[field].encode() + b"\0")
        kept = super().fingerprint()
        return f"csv, {extent(self._sizes)}, {kept}, sha256 {digest.hexdigest()}"

    def locate(self, index: int) -> str:
        """Say where a sample stands: ``path:line``, with the line in which it begins, from 1."""
        return self._places.locate(row_number(index, len(self)))

    def close(self) -> None:
        """Free the values; the files were closed when they had been read."""
        self._let_go(", ".join(map(str, self._paths[:3])))
        self._texts = {}


class _Columns:
    """Puts the blocks of all files together."""

    def __init__(self, options: CsvOptions, places: _Places) -> None:
        self._options = options
        self._places = places
        self._names: list[str] | None = None  # of the columns of the first file that has any
        self._chosen: dict[str, int] = {}
        self._columns: dict[str, Column] = {}
        self._path: Path | None = None
        self.texts: dict[str, bytes] = {}

    def add(self, path: Path, block: Block, first: list[str] | None) -> None:
        """Take a block of a file, and the first row of that; None if it has no row."""
        self._path = self._path or path
        if first is None:
            if self._options.header:
                raise SourceError("expected a header, got an empty file; leave it out", path)
            return
        names = first if self._options.header else [str(at) for at in range(len(first))]
        if self._names is None:
            self._begin(path, names)
        elif names != self._names:
            raise SourceError(
                f"expected the columns of the first file, {listed(self._names, 10)}, "
                f"got {listed(names, 10)}; make a source of files with the same columns",
                path,
                "line 1",
            )
        for field, at in self._chosen.items():
            try:
                self._columns[field].add(block.cells[at :: len(names)])
            except UnfitError as error:
                cell = block.cells[at :: len(names)][error.row]
                raise SourceError(
                    f"{error}; correct the line, or {self._options.meaning(field, cell)}",
                    path,
                    f"line {block.lines[error.row]}, column {names[at]!r}",
                ) from error
        self._places.add(path, block.lines)

    def _begin(self, path: Path, names: list[str]) -> None:
        try:
            self._chosen = self._options.columns_of(names)
        except KeyError as error:
            if by_handler(error):
                raise
            columns = error.args
            raise SourceError(
                _of_one(columns[0], names) if len(columns) == 1 else _of_several(columns, names),
                path,
                f"column{'s' if len(columns) > 1 else ''} {listed(columns, 10)}",
                "" if self._options.fields is None else "/fields",
            ) from None
        self._options.check_fields(self._chosen, path)
        self._columns = {field: self._options.column(field) for field in self._chosen}
        self._names = names

    def finish(self) -> dict[str, npt.NDArray[Any]]:
        """Give the arrays of the fields; those of texts say where in `texts` they are."""
        if self._names is None:
            raise SourceError(
                "expected a row, got a file without one; give one with rows", self._path
            )
        arrays = {}
        for field, column in self._columns.items():
            arrays[field] = column.finish()
            if isinstance(column, Texts):
                self.texts[field] = column.joined
        return arrays


def _of_one(column: str | int, names: Sequence[str]) -> str:
    """Say what is wrong with a column that is missing, or there more than once."""
    expected = "one column of this name"
    if not isinstance(column, str):
        expected = f"a position from 0 to {len(names) - 1}" if names else "a column"
    got, hint = "none" if isinstance(column, str) else repr(column), near(str(column), names)
    places = [at for at, name in enumerate(names) if name == column]
    if len(places) > 1:
        got = f"{len(places)}, at positions {listed(places, 10)}"
        example = f'{{"x": {places[0]}, "y": {places[1]}}}'
        hint = f'choose each by its position, as in "fields": {example}'
    return f"expected {expected}, got {got}; {hint}"


def _of_several(columns: Sequence[str | int], names: Sequence[str]) -> str:
    """Say what is wrong with several such columns."""
    told = []
    for column in columns[:10]:
        times = names.count(column) if isinstance(column, str) else 0
        said = f"{times} times" if times else nearest(str(column), names)
        told.append(repr(column) + (f" ({said})" if said else ""))
    more = ", ..." if len(columns) > 10 else ""
    return (
        f"expected columns that are there once, got {', '.join(told)}{more}; "
        f"there are {listed(names) or 'none'}"
    )


class _Places:
    """In which line of which file each row begins; noted only where it is not the next line."""

    def __init__(self) -> None:
        self._length = 0
        # From each of these rows on, `_files` gives the file, and the line's number less the row's.
        self._rows: list[int] = []
        self._files: list[tuple[Path, int]] = []

    def add(self, path: Path, lines: Sequence[int]) -> None:
        """Note the lines of the next rows."""
        ahead = self._files[-1][1] if self._files and self._files[-1][0] is path else None
        for row, line in enumerate(lines, self._length):
            if line - row != ahead:
                ahead = line - row
                self._rows.append(row)
                self._files.append((path, ahead))
            if isinstance(lines, range):  # the rest follows line by line
                break
        self._length += len(lines)

    def locate(self, row: int) -> str:
        """Give ``path:line``."""
        path, ahead = self._files[bisect_right(self._rows, row) - 1]
        return f"{path}:{row + ahead}"
