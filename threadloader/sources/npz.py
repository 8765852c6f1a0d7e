"""Arrays of ``.npz`` files, as `numpy.savez` writes them, loaded into memory."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError
from ._fields import chosen_fields, listed
from ._files import expand
from ._npy_header import check_alike
from ._npz_archive import Archive
from ._open_file import open_regular, readable, size_of
from ._progress import ProgressLog
from ._row_numbers import row_number
from .arrays import ArraySource

__all__ = ["NpzSource", "open_npz"]

_Arrays = dict[str, npt.NDArray[Any]]


def open_npz(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> NpzSource:
    """Open ``{"type": "npz", "path": names or patterns, "fields": null, a list or an object}``."""
    return NpzSource(expand(base, spec["path"], root, through_links=True), spec.get("fields"))


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
        path: str | Path | Sequence[str | Path],
        fields: Iterable[str] | Mapping[str, str] | None = None,
    ) -> None:
        chosen = chosen_fields(fields, "every array")
        self._paths = [Path(it) for it in ([path] if isinstance(path, (str, Path)) else path)]
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
        if self._firsts[-1] > sys.maxsize:  # of rows without bytes a file may say so many
            text = f"expected at most {sys.maxsize} rows in all files, got {self._firsts[-1]}"
            raise SourceError(text, self._paths[0])
        super().__init__(_joined(parts, self._firsts))

    def fingerprint(self) -> str:
        """Tell this data from other data: as for arrays, and the sizes of the files."""
        return f"npz, {'+'.join(map(str, self._sizes))} bytes, {super().fingerprint()}"

    def locate(self, index: int) -> str:
        """Say where a sample stands: ``path[row]``."""
        row = row_number(index, len(self))
        file = bisect_right(self._firsts, row) - 1
        return f"{self._paths[file]}[{row - self._firsts[file]}]"

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


def _joined(parts: Sequence[_Arrays], firsts: Sequence[int]) -> _Arrays:
    """Put the arrays of the files together, field by field; each array is freed once copied."""
    if len(parts) == 1:
        return parts[0]
    whole: _Arrays = {}
    for field in list(parts[0]):
        shape, dtype = parts[0][field].shape[1:], parts[0][field].dtype
        # Not numpy.concatenate, which turns a foreign byte order into the machine's own.
        whole[field] = np.empty((firsts[-1], *shape), dtype)
        for first, last, arrays in zip(firsts, firsts[1:], parts, strict=False):
            whole[field][first:last] = arrays.pop(field)
    return whole
