"""Arrays of an ``.npz`` file, as `numpy.savez` writes it, loaded into memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ..errors import SourceError
from ._fields import chosen_fields
from ._files import inside
from ._npz_archive import Archive
from ._open_file import open_regular, readable, size_of
from ._row_numbers import row_number
from .arrays import ArraySource

__all__ = ["NpzSource", "open_npz"]


def open_npz(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> NpzSource:
    """Open ``{"type": "npz", "path": ..., "fields": null, a list or an object}``."""
    return NpzSource(inside(base / spec["path"], root), spec.get("fields"))


class NpzSource(ArraySource):
    """Samples are dicts of rows of the arrays in an ``.npz`` file, which is read and closed.

    ``fields`` are names of the arrays to load, or a mapping of field to the name in the file;
    None for every array, under its own name.
    """

    def __init__(
        self, path: str | Path, fields: Iterable[str] | Mapping[str, str] | None = None
    ) -> None:
        self._path = Path(path)
        chosen = chosen_fields(fields, "every array")
        with readable(self._path), open_regular(self._path) as raw:
            self._size = size_of(raw)
            with BufferedReader(raw) as file:
                arrays = Archive(self._path, file, self._size).load(chosen)
        _check_lengths(self._path, arrays)
        super().__init__(arrays)

    def fingerprint(self) -> str:
        """Tell this data from other data: as for arrays, and the size of the file."""
        return f"npz, {self._size} bytes, {super().fingerprint()}"

    def locate(self, index: int) -> str:
        """Say where a sample stands: ``path[row]``."""
        return f"{self._path}[{row_number(index, len(self))}]"

    def close(self) -> None:
        """Free the arrays; the file was closed when it had been read."""
        self._let_go(self._path)


def _check_lengths(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    first = next(iter(arrays))
    for field, array in arrays.items():
        if len(array) != len(arrays[first]):
            raise SourceError(
                f"expected as many rows as field {first!r} has, {len(arrays[first])}, "
                f'got {len(array)}; choose fields that belong together with "fields"',
                path,
                f"field {field!r}",
            )
