"""Arrays of ``.npz`` files, as `numpy.savez` writes them, loaded into memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, by_handler
from ._fields import chosen_fields, listed
from ._fingerprint import extent, sha256
from ._named import named_files
from ._npy_header import check_alike
from ._npy_rows import as_bytes
from ._npz_archive import Archive
from ._open_file import open_regular, readable, size_of
from ._progress import ProgressLog
from ._row_numbers import part_of
from .arrays import ArraySource

__all__ = ["NpzSource", "open_npz"]

_Arrays = dict[str, npt.NDArray[Any]]


def open_npz(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> NpzSource:
    """Open ``{"type": "npz", "path": names or patterns, "fields": null, a list or an object}``."""
    return NpzSource(named_files(spec, base, root), spec.get("fields"))


class NpzSource(ArraySource):
    """Samples are dicts of rows of the arrays in ``.npz`` files, which are read and closed.

    Args:
        path: the file, or several whose rows follow one another. While several are put together,
            memory holds one of the fields twice.
        fields: names of the arrays to load, or a mapping of field to the name in the file; None
            for every array, under its own name.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        fields: Iterable[str] | Mapping[str, str] | None = None,
    ) -> None:
        chosen = chosen_fields(fields, "every array")
        paths = [path] if isinstance(path, (str, os.PathLike)) else path
        self._paths = [Path(it) for it in paths]
        self._sizes: list[int] = []
        parts: list[_Arrays] = []
        progress = ProgressLog()
        for file in self._paths:
            with readable(file), open_regular(file) as raw:
                self._sizes.append(size_of(raw))
                with BufferedReader(raw) as stream:
                    arrays = Archive(file, stream, self._sizes[-1]).load(chosen)
            _check_lengths(file, arrays)
            if parts:
                _check_follows(self._paths[0], parts[0], file, arrays)
            parts.append(arrays)
            progress.tell("%s: %d files of arrays read", file, len(parts))
        # The number of each file's first row, and in the end the number of all rows.
        self._firsts = [0, *accumulate(len(next(iter(arrays.values()))) for arrays in parts)]
        super().__init__(_joined(self._paths[0], parts, self._firsts))

    def fingerprint(self) -> str:
        """Tell this data from other data: as for arrays, and the sizes of the files."""
        sizes = sha256(f"{self._sizes}".encode()).hexdigest()
        several = f", sha256 of the sizes {sizes}" if len(self._sizes) > 1 else ""
        return f"npz, {extent(self._sizes)}, {super().fingerprint()}{several}"

    def locate(self, index: int) -> str:
        """Say where a sample stands: ``path[row]``."""
        file, row = part_of(index, self._firsts)
        return f"{self._paths[file]}[{row}]"

    def close(self) -> None:
        """Free the arrays; the files were closed when they had been read."""
        self._let_go(", ".join(map(str, self._paths[:3])))


def _check_lengths(path: Path, arrays: _Arrays) -> None:
    first = next(iter(arrays))
    for field, array in arrays.items():
        if len(array) != len(arrays[first]):
            raise SourceError(
                f"expected as many rows as field {first!r} has, {len(arrays[first])}, "
                f'got {len(array)}; choose fields that belong together with "fields"',
                path,
                f"field {field!r}",
            )


def _check_follows(first: Path, expected: _Arrays, path: Path, arrays: _Arrays) -> None:
    """Refuse a file whose rows cannot follow those of the first one."""
    if arrays.keys() != expected.keys():  # where none is chosen
        raise SourceError(
            f"expected the arrays of {first}, {listed(expected)}, got {listed(arrays)}; "
            'choose what all files have with "fields"',
            path,
        )
    for field, array in arrays.items():
        check_alike(first, expected[field], path, array, f"field {field!r}")


def _joined(path: Path, parts: Sequence[_Arrays], firsts: Sequence[int]) -> _Arrays:
    """Put the arrays of the files together, field by field; each array is freed once copied.

    ``path`` is the first file's, and ``firsts`` the number of each file's first row, and of all.
    """
    if len(parts) == 1:
        return parts[0]
    whole: _Arrays = {}
    for field in list(parts[0]):
        shape, dtype = (firsts[-1], *parts[0][field].shape[1:]), parts[0][field].dtype
        try:
            whole[field] = np.empty(shape, dtype)
        # Of rows without bytes a file may say that it has any number.
        except (ValueError, OverflowError) as error:
            if by_handler(error):
                raise
            text = f"expected fewer rows in all files, got an array {shape} of {dtype}: {error}"
            raise SourceError(text, path, f"field {field!r}") from error
        length = whole[field].nbytes // max(1, firsts[-1])
        for first, last, arrays in zip(firsts, firsts[1:], parts, strict=False):
            # As bytes. And not by numpy.concatenate, which turns a foreign byte order into the
            # machine's own.
            if length and first < last:
                as_bytes(whole[field], length)[first:last] = as_bytes(arrays.pop(field), length)
    return whole
