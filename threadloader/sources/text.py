r"""Lines of text files as samples.

The rules, the same on every machine:

- A line ends with LF (``\n``), and one CR (``\r``) before that is cut off. What
  comes after the last LF is a line too, unless it is empty; so an empty file has none.
- The text is UTF-8. A byte order mark at the start of a file is left out. A line that
  is not UTF-8 is an error when it is read, never replaced or left out.
- Blank lines are samples too, ``""``, unless ``skip_blank`` leaves out the lines that
  are empty or white space only (as `str.isspace` says).
- Files follow each other in the order given; a line never goes on in the next file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from threadloader.errors import ConfigError, Problem, SourceError

from ._files import FileReader
from .arrays import row_number

__all__ = ["TextSource", "open_text"]

_CHUNK = 4 << 20
"""Bytes read at once for the index. Chosen: a few MiB keep reads long and memory small."""

_BOM = b"\xef\xbb\xbf"

# What a byte says about its line: 0 white space, 2 something else, and 1 may be part of
# a white space character beyond ASCII (its line is looked at as text in the end).
_CLASSES = np.full(256, 2, np.uint8)
for _character in map(chr, range(0x3001)):  # U+3000 is the last one that is white space
    if _character.isspace():
        _encoded = _character.encode()
        _CLASSES[list(_encoded)] = 0 if len(_encoded) == 1 else 1


def open_text(spec: Mapping[str, Any], base: Path) -> TextSource:
    """Open ``{"type": "text", "path": one or several, "skip_blank": false}``.

    Args:
        spec: the section of the config.
        base: the folder to which relative paths are relative.

    Returns:
        The open source.

    Raises:
        SourceError: a file is missing, not a regular one, or cannot be read.
        ConfigError: the list of files is empty.
    """
    path = spec["path"]
    names = [path] if isinstance(path, str) else list(path)
    return TextSource([base / name for name in names], skip_blank=spec.get("skip_blank", False))


class TextSource:
    """Samples are the lines of text files, as str, without their line ends.

    An index of line offsets (8 bytes a line; 16 with ``skip_blank``) is made at
    opening, in one pass over the files. Lines are read by position: any number of
    threads may read at once.

    Args:
        paths: the files, at least one.
        skip_blank: leave out lines that are empty or white space only.

    Raises:
        SourceError: a file is missing, not a regular one, or cannot be read.
        ConfigError: there is no file.
    """

    def __init__(
        self, paths: Iterable[Path], *, skip_blank: bool = False, _chunk: int = _CHUNK
    ) -> None:
        self._skip_blank = skip_blank
        self._files: list[_Lines] = []
        with ExitStack() as undo:
            for path in paths:
                reader = FileReader(path)
                undo.callback(reader.close)
                self._files.append(_Lines(reader, skip_blank, _chunk))
            undo.pop_all()
        if not self._files:
            raise ConfigError(Problem("/source/path", "at least one file", "an empty list"))
        # The index of each file's first sample, and the number of all in the end.
        self._first = [0, *accumulate(len(file) for file in self._files)]

    def __len__(self) -> int:
        return self._first[-1]

    def __getitem__(self, index: int) -> str:
        """Give one line.

        Args:
            index: 0 .. ``len - 1``, counted through all files.

        Returns:
            The line, without its end.

        Raises:
            IndexError: there is no such line.
            SourceError: it is not UTF-8, or the file has no longer the size it had.
            ClosedError: the source has been closed.
        """
        file, sample = self._find(index)
        return file.text(file.row(sample))

    def locate(self, index: int) -> str:
        """Say where a line stands: ``path:line``, with its number in the file, from 1.

        Raises:
            IndexError: there is no such line.
        """
        file, sample = self._find(index)
        return f"{file.reader.path}:{file.row(sample) + 1}"

    def _find(self, index: int) -> tuple[_Lines, int]:
        number = row_number(index, len(self))
        at = bisect_right(self._first, number) - 1
        return self._files[at], number - self._first[at]

    def fingerprint(self) -> str:
        """Tell these files from others: number of lines, sizes in bytes, ``skip_blank``."""
        sizes = "+".join(str(file.reader.size) for file in self._files)
        blank = ", blank lines left out" if self._skip_blank else ""
        return f"text, {len(self)} lines, {sizes} bytes{blank}"

    def close(self) -> None:
        """Close the files; a second time does nothing."""
        with ExitStack() as stack:  # closes each of them, even when one close raises
            for file in self._files:
                stack.callback(file.reader.close)


class _Lines:
    """The lines of one file: row r has the bytes ``offsets[r] .. offsets[r + 1] - 2``.

    The byte before ``offsets[r + 1]`` is the LF; after a last line without one it is
    thought behind the end of the file. ``kept`` holds the rows that are samples, None
    for all of them.
    """

    def __init__(self, reader: FileReader, skip_blank: bool, chunk: int) -> None:
        self.reader = reader
        begin = len(_BOM) if reader.read(0, min(len(_BOM), reader.size)) == _BOM else 0
        offsets = [np.array([begin], np.int64)]
        classes = [np.zeros(0, np.uint8)]
        unfinished = np.uint8(0)  # class of the line that goes on in the next chunk
        for start in range(begin, reader.size, chunk):
            raw = reader.read(start, min(chunk, reader.size - start))
            data = np.frombuffer(raw, np.uint8)
            after_ends = np.flatnonzero(data == ord("\n")) + 1
            offsets.append(after_ends.astype(np.int64) + start)
            if skip_blank:
                found, unfinished = _classify(data, after_ends, unfinished)
                classes.append(found)
        if offsets[-1].size == 0 or offsets[-1][-1] < reader.size:
            offsets.append(np.array([reader.size + 1], np.int64))
            classes.append(np.array([unfinished], np.uint8))
        self.offsets = np.concatenate(offsets)
        self.kept = self._not_blank(np.concatenate(classes)) if skip_blank else None

    def _not_blank(self, classes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        for row in np.flatnonzero(classes == 1).tolist():
            try:
                classes[row] = 0 if self.text(row).isspace() else 2
            except SourceError:  # not UTF-8: to be an error when it is read, it must stay
                classes[row] = 2
        return np.flatnonzero(classes).astype(np.int64)

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self.kept is None else len(self.kept)

    def row(self, sample: int) -> int:
        return sample if self.kept is None else int(self.kept[sample])

    def text(self, row: int) -> str:
        begin, end = int(self.offsets[row]), int(self.offsets[row + 1]) - 1
        line = self.reader.read(begin, end - begin)
        if end < self.reader.size and line.endswith(b"\r"):
            line = line[:-1]
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SourceError(
                f"expected UTF-8, got the byte 0x{line[error.start]:02x} ({error.reason}); "
                "convert the file to UTF-8",
                self.reader.path,
                f"line {row + 1}, byte {begin + error.start}",
            ) from error


def _classify(
    data: npt.NDArray[np.uint8], after_ends: npt.NDArray[np.intp], unfinished: np.uint8
) -> tuple[npt.NDArray[np.uint8], np.uint8]:
    """Give the classes of the lines that end in a chunk, and of the one that goes on after it."""
    cuts = np.concatenate([np.zeros(1, np.intp), after_ends])
    goes_on = cuts[-1] < len(data)
    found = np.maximum.reduceat(_CLASSES[data], cuts if goes_on else cuts[:-1])
    found[0] = max(found[0], unfinished)
    return (found[:-1], found[-1]) if goes_on else (found, np.uint8(0))
