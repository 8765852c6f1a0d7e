r"""The lines of files, by number: where each begins is known from an index.

The rules, the same on every machine:

- A line ends with LF (``\n``), and one CR (``\r``) before that is cut off. What comes
  after the last LF is a line too, unless it is empty; so an empty file has none.
- A byte order mark at the start of a file is left out.
- Lines that are empty or white space only (as `str.isspace` says) are lines, unless
  ``skip_blank`` leaves them out.
- Files follow each other in the order given; a line never goes on in the next file.

The index is made in one pass when the files are opened, or taken from a file that an
earlier run has kept (`_index_cache`). It is never simply believed: each read also sees the
line ends around the line, and a line that is not one of the file as it is now is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError, by_handler
from ._closing import close_all
from ._files import FileReader, kept_open
from ._line_scan import IntArray, first_byte, scan
from ._named import named_files
from ._open_file import not_utf8
from ._paths import inside
from ._row_numbers import part_of

if TYPE_CHECKING:
    from ._index_cache import IndexCache

__all__ = ["Line", "LineFiles", "line_options"]

_CHUNK = 4 << 20
"""Bytes read at once for the index. Chosen: a few MiB keep reads long and memory small."""


def line_options(spec: Mapping[str, Any], base: Path, root: Path | None) -> dict[str, Any]:
    """Give the arguments of `LineFiles`, of ``path``, ``skip_blank`` and ``index`` of a config."""
    files = named_files(spec, base, root)
    index = spec.get("index", "memory")
    if isinstance(index, Mapping):
        index = inside(base / index["folder"], root)
    elif index == "beside":
        for folder in {file.parent for file in files}:
            inside(folder, root)
    return {"paths": files, "skip_blank": spec.get("skip_blank", False), "index": index}


@dataclass(slots=True)
class Line:
    """One line, read from its file."""

    path: Path
    number: int  # in the file, from 1
    begin: int  # its first byte in the file
    data: bytes  # without the line end
    ended: bool  # whether a line end follows it; only the last line may be without one

    def text(self) -> str:
        """Decode it; a SourceError if it is not UTF-8."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(not_utf8(self.path, error), error.start) from error

    def error(self, message: str, at: int = 0) -> SourceError:
        """Make an error that names file, line, and the byte ``at`` in the line."""
        return SourceError(message, self.path, f"line {self.number}, byte {self.begin + at}")


class LineFiles:
    """All of a source of the lines of files, one file after the other, but its ``[]``.

    The index takes 8 bytes a line; 16 with ``skip_blank``, which leaves out lines that are empty
    or white space only. ``index`` says where it is kept: nowhere (``"memory"``), ``"beside"`` the
    files, or in the folder of this path. ``_chunk``: bytes read at once for it; for tests.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        skip_blank: bool = False,
        index: str | Path = "memory",
        _chunk: int = _CHUNK,
    ) -> None:
        self._skip_blank = skip_blank
        self._files: list[_File] = []
        cache = None
        if index != "memory":
            from ._index_cache import IndexCache  # it imports OpenSSL, 3.5 MiB

            cache = IndexCache(None if index == "beside" else Path(index))
        most = kept_open()
        with ExitStack() as undo:
            for path in paths:
                reader = FileReader(path, keep=len(self._files) < most)
                undo.callback(reader.close)
                self._files.append(_File(reader, skip_blank, cache, _chunk))
            undo.pop_all()
        # The index of each file's first line, and in the end the number of all lines.
        self._firsts = [0, *accumulate(len(file) for file in self._files)]

    def __len__(self) -> int:
        return self._firsts[-1]

    def line(self, index: int) -> Line:
        """Read one line; a SourceError if the file is no longer the one that was indexed."""
        file, row = self._find(index)
        return file.line(row)

    def locate(self, index: int) -> str:
        """Say where a line stands: ``path:line``, with its number in the file, from 1."""
        file, row = self._find(index)
        return f"{file.reader.path}:{row + 1}"

    def _find(self, index: int) -> tuple[_File, int]:
        at, row = part_of(index, self._firsts)
        return self._files[at], self._files[at].row(row)

    def fingerprint(self) -> str:
        """Tell these files from others: number of lines, sizes in bytes, ``skip_blank``."""
        sizes = "+".join(str(file.reader.size) for file in self._files)
        blank = ", blank lines left out" if self._skip_blank else ""
        return f"{len(self)} lines, {sizes} bytes{blank}"

    def close(self) -> None:
        """Close the files; a second time does nothing."""
        close_all([file.reader.close for file in self._files])


def _is_blank(line: bytes) -> bool:
    """Tell whether a line has white space alone, as text; bytes that are no text are not blank."""
    if line and 32 < line[0] < 127:  # nearly all lines
        return False
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        if by_handler(error):
            raise
        return False
    return not text or text.isspace()


class _File:
    """The lines of one file: row r has the bytes ``offsets[r] .. offsets[r + 1] - 2``.

    The byte before ``offsets[r + 1]`` is the LF; after a last line without one it is
    imagined past the end of the file. ``kept`` holds the rows that are not left out,
    None for all of them.
    """

    def __init__(
        self, reader: FileReader, skip_blank: bool, cache: IndexCache | None, chunk: int
    ) -> None:
        self.reader = reader
        self._loaded: Path | None = None  # the path of the index, if it was loaded
        begin = first_byte(reader)
        modified = reader.modified()
        if cache is not None:
            found = cache.load(reader.path, reader.size, modified, begin, skip_blank)
            if found is not None:
                self.offsets, self.kept = found
                self._loaded = cache.path(reader.path, skip_blank)
                return
        self.kept = None  # until it is known, all lines are read
        self.offsets, classes = scan(reader, begin, skip_blank, chunk)
        self.kept = self._not_blank(classes) if skip_blank else None
        # A file that was changed during the scan may be indexed half before and half after it.
        if cache is not None and reader.modified() == modified:
            cache.save(reader.path, reader.size, modified, self.offsets, self.kept)

    def _not_blank(self, classes: npt.NDArray[np.uint8]) -> IntArray:
        for row in np.flatnonzero(classes == 1).tolist():
            # A line that is no text must stay: reading it is an error.
            classes[row] = 0 if _is_blank(self.line(row).data) else 2
        return np.flatnonzero(classes).astype(np.int64)

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.kept is None else len(self.kept)

    def row(self, number: int) -> int:
        return number if self.kept is None else int(self.kept[number])

    def line(self, row: int) -> Line:
        begin, end = int(self.offsets[row]), int(self.offsets[row + 1]) - 1
        # With the line ends on both sides: where they are missing, the index is not of
        # the file as it is now, even if that has kept its size and its time.
        before, ended = int(row > 0), end < self.reader.size
        data = self.reader.read(begin - before, end - begin + before + ended)
        ends = data.count(b"\n")
        sound = ends == before + ended and (not before or data[:1] == b"\n")
        if not sound or (ended and data[-1:] != b"\n"):
            raise self._changed(row, begin)
        line = data[before:-1] if ended else data[before:]
        if ended and line.endswith(b"\r"):
            line = line[:-1]
        if self.kept is not None and self._loaded is not None and _is_blank(line):
            raise self._changed(row, begin)  # it was not blank when the index was made
        return Line(self.reader.path, row + 1, begin, line, ended)

    def _changed(self, row: int, begin: int) -> SourceError:
        again = "open the source again when the file is complete"
        if self._loaded is not None:
            again = f"remove the index, {self._loaded}, and open the source again"
        return SourceError(
            "expected the line that the index has, got other line ends, or a blank one, so the "
            f"file has changed; {again}",
            self.reader.path,
            f"line {row + 1}, byte {begin}",
        )
