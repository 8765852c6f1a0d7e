"""Files of a folder as samples, each a file, with labels from their folders or a table.

The rules, the same on every machine:

- A pattern finds files below the folder as `_paths` says; upper and lower case differ, and
  names that begin with a dot are left out, unless the pattern has the dot. Of several patterns
  every file is found once.
- The samples are sorted by their path, folder by folder, each name by its UTF-8 bytes.
- A class is named by the first folder on the way from the source's folder to the file, or
  by the table. Classes are numbered in the order of their UTF-8 bytes, or as ``classes``
  lists them.
- With a table the samples are the files that it lists: each must be among those that the
  patterns find. A file that it does not list is left out.
- A file that is not the one that was there at opening, by its size and the time of its
  last change, is an error when it is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError, Problem, SourceError, by_handler
from ._closing import closed_error
from ._decode import Decoder, Decoders, apply, decoder_of, image_options
from ._fingerprint import sha256
from ._labels import labels_of
from ._open_file import open_regular, read_all, regular_status, time_of_change, too_few
from ._paths import MAGIC, expand, inside, listing, why_not
from ._progress import ProgressLog
from ._row_numbers import row_number
from ._spelling import check_spelling

__all__ = ["FilesSource", "open_files"]


def open_files(
    spec: Mapping[str, Any], base: Path, root: Path | None = None, decoders: Decoders | None = None
) -> FilesSource:
    """Open ``{"type": "files", "folder": ..., "pattern": ..., "decode": ..., "label": ...}``."""
    # Absolute: the source opens files as long as it lives, in whatever folder the process is then.
    folder = inside(base / spec["folder"], root).absolute()
    decoder, said = decoder_of(spec.get("decode", "bytes"), decoders, image_options(spec))
    names = _names(folder, spec.get("pattern", "**/*"), root)
    names, labels, classes = labels_of(spec, base, root, folder, names)
    return FilesSource(folder, names, decoder, labels, tuple(classes), f"decode {said}")


class FilesSource:
    """Samples are dicts: ``"data"`` the decoded file, ``"label"`` if there is one, ``"path"``.

    The label is an int (of a class: 0 .. number of classes - 1) or a float, the path a
    str relative to the folder, with forward slashes, as ``names`` has it. Files are opened for
    each read and closed again. ``said`` is what a fingerprint tells of the options.

    Attributes:
        classes: the names of the classes, in the order of their numbers; empty without.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        decoder: Decoder,
        labels: Sequence[Any] | None = None,
        classes: tuple[str, ...] = (),
        said: str = "",
    ) -> None:
        self._folder = folder
        self._names = names
        self._decoder = decoder
        self._labels = labels
        self.classes = classes
        # Size and time of change of each file.
        self._status = np.empty((len(names), 2), np.int64)
        digest = sha256()
        progress = ProgressLog()
        for row, name in enumerate(names):
            status = regular_status(folder / name)
            self._status[row] = size, _ = status.st_size, time_of_change(status)
            label = "" if labels is None else labels[row]
            digest.update(f"{name}\0{size}\0{label}\n".encode())
            progress.tell("%s: looked at %d of %d files", folder, row + 1, len(names))
        told_classes = f", {len(classes)} classes" if classes else ""
        self._fingerprint = (
            f"files, {len(names)} files, {said}{told_classes}, "
            f"{int(self._status[:, 0].sum())} bytes, sha256 {digest.hexdigest()}"
        )
        self._closed = False

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Give one sample; a SourceError if its file is damaged, or not the one that was there."""
        row = row_number(index, len(self._names))
        name = self._names[row]
        path = self._folder / name
        if self._closed:
            raise closed_error(path)
        size, changed = self._status[row].tolist()
        sample: dict[str, Any] = {"data": apply(self._decoder, _read(path, size, changed), path)}
        if self._labels is not None:
            sample["label"] = self._labels[row]
        sample["path"] = name
        return sample

    def column(self, field: str | int) -> Sequence[Any] | None:
        """Give the labels or the paths of all samples; None for what has to be read."""
        return {"label": self._labels, "path": self._names}.get(str(field))

    def locate(self, index: int) -> str:
        """Say where a sample stands: the path of its file."""
        return str(self._folder / self._names[row_number(index, len(self._names))])

    def fingerprint(self) -> str:
        """Tell these files from others: number, options, sizes, checksum of names and labels."""
        return self._fingerprint

    def close(self) -> None:
        """Refuse reads from now on; no file is open between two of them."""
        self._closed = True


def _names(folder: Path, pattern: str | Sequence[str], root: Path | None) -> list[str]:
    """Find the files; give their paths relative to the folder, sorted."""
    patterns = [pattern] if isinstance(pattern, str) else list(pattern)
    for each in patterns:
        if Path(each).anchor or ".." in Path(each).parts:
            expected = 'a pattern below the folder, without ".."'
            hint = 'name the place in "folder"'
            raise ConfigError(Problem("/source/pattern", expected, repr(each), hint))
    check_spelling(folder, patterns, root)
    files = expand(folder, patterns, root, overlapping=True)
    for each in patterns:
        if MAGIC & set(each):
            continue
        # A file that cannot be looked at is an error now, before its label is looked for.
        why = why_not(folder / each)
        if isinstance(why, (FileNotFoundError, NotADirectoryError)):
            listing(folder, folder / each)  # raises, if there is no such folder
        if isinstance(why, FileNotFoundError):
            raise SourceError(
                "expected a file of this name, found none; a pattern without *, ? and [ is the "
                'name of one file below the folder; what finds all of an ending is like "**/*.jpg"',
                folder / each,
                option="/pattern",
            )
        if why is not None:
            regular_status(folder / each)  # raises an error that says why
    found = [path.relative_to(folder).parts for path in files]
    try:
        return list(map("/".join, sorted(found, key=_utf8)))
    except UnicodeEncodeError as error:
        if by_handler(error):
            raise
        wrong = next(path for path in map("/".join, found) if path != _shown(path))
        known = sys.getfilesystemencoding()
        hint = "rename it" if known == "utf-8" else f"names are read as {known}: set PYTHONUTF8=1"
        raise SourceError(
            f"expected names in Unicode, got one that is not; {hint}", folder / _shown(wrong)
        ) from error


def _utf8(parts: Sequence[str]) -> list[bytes]:
    return [part.encode() for part in parts]


def _shown(path: str) -> str:
    """Give a path that can be printed: what is not Unicode in it is written as Python does."""
    return path.encode("utf-8", "backslashreplace").decode()


def _read(path: Path, size: int, changed: int) -> bytes:
    """Give all bytes of a file, if it is the one that was there at opening."""
    try:
        with open_regular(path) as file:
            data = read_all(file, size + 1)  # one byte more than expected is asked for
            # After the bytes are read, so that they are those of an unchanged file.
            status = os.fstat(file.fileno())
    except SourceError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise SourceError(
            "expected the file that was there when the source was opened, found none", path
        ) from error
    except OSError as error:
        if by_handler(error):
            raise
        raise SourceError(f"expected {size} bytes, got: {error.strerror}", path) from error
    same = (status.st_size, time_of_change(status)) == (size, changed)
    if same and len(data) < size:
        raise too_few(path, 0, size, len(data))
    if not same or len(data) != size:
        raise SourceError(
            f"expected the file as it was when the source was opened, {size} bytes, got "
            f"{status.st_size} bytes, changed since; open the source again when the file "
            "is complete",
            path,
        )
    return data
