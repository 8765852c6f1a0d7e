"""Labels of files: classes named by folders, or what a csv file says of each."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import ConfigError, Problem, SourceError, by_handler, log
from ._dtypes import int64_of
from ._fields import nearest
from ._open_file import not_utf8, open_regular, readable
from ._paths import inside

__all__ = ["labels_of"]

# Repeats are possessive (++, *+), so nothing is tried twice: a long cell could else take hours.
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def labels_of(
    spec: Mapping[str, Any], base: Path, root: Path | None, folder: Path, names: list[str]
) -> tuple[list[str], list[Any] | None, Sequence[str]]:
    """Give the files that are samples, their labels or None, and the names of the classes.

    ``label`` and ``classes`` of the config decide that. ``names`` are the files that were found,
    relative to the folder, with forward slashes.
    """
    label, classes = spec.get("label"), spec.get("classes")
    kind = label.get("as", "class") if isinstance(label, Mapping) else "class"
    if classes is not None and (label is None or kind != "class"):
        expected = "null, since no label is a class"
        hint = 'leave it out, or choose a "label" that is a class'
        raise ConfigError(Problem("/source/classes", expected, "a list of classes", hint))
    if label is None:
        return names, None, ()
    if not isinstance(label, Mapping):
        return names, *_numbered(_first_folders(folder, names), classes, folder, names)
    table = _Table(inside(base / label["csv"], root), label["file"], label["label"])
    names = table.choose(names)
    if kind == "class":
        texts = [table.rows[name][1] for name in names]
        return names, *_numbered(texts, classes, table.path, names)
    return names, [table.number(name, kind) for name in names], ()


def _first_folders(folder: Path, names: Sequence[str]) -> list[str]:
    firsts = []
    for name in names:
        first, slash, _ = name.partition("/")
        if not slash:
            raise SourceError(
                "expected a folder that names its class, got a file without one; "
                'move it into a folder, or find only those in folders ("pattern": "*/*")',
                folder / name,
            )
        firsts.append(first)
    return firsts


def _numbered(
    texts: Sequence[str], classes: Sequence[str] | None, path: Path, names: Sequence[str]
) -> tuple[list[Any], Sequence[str]]:
    """Give the numbers of classes, and the classes in the order of their numbers."""
    if classes is None:
        classes = sorted(set(texts), key=str.encode)
    numbers = {name: number for number, name in enumerate(classes)}
    if len(numbers) < len(classes):
        raise ConfigError(Problem("/source/classes", "each class once", "one of them twice"))
    for text, name in zip(texts, names, strict=True):
        if text not in numbers:
            raise SourceError(
                f'expected one of the {len(numbers)} in "classes" as the class of {name!r}, '
                f"got {text!r}{_near(text, numbers)}",
                path,
            )
    return [numbers[text] for text in texts], classes


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f"; {near}" if near else ""


class _Table:
    """A csv file with a row for each file that is a sample; two columns name file and label.

    It is UTF-8 (a byte order mark at its start is left out), its first row names the
    columns, commas part them, and ``"`` stands around what has a comma or a line end in
    it. Blank lines are passed over. Paths of files are relative to their folder, with forward
    slashes. A row without a file or a label, or two for one file, are errors.

    Attributes:
        rows: path of a file -> the line in which its row begins, and its label.
    """

    def __init__(self, path: Path, file: str, label: str) -> None:
        self.path = path
        self.rows: dict[str, tuple[int, str]] = {}
        with readable(path), open_regular(path) as opened:
            data = opened.readall()
        try:
            # All at once: read by lines, it would be decoded ahead of the row that an error names.
            text = data.removeprefix(b"\xef\xbb\xbf").decode()  # as in `_decode`
        except UnicodeDecodeError as error:
            if by_handler(error):
                raise
            at_line = error.object.count(b"\n", 0, error.start) + 1
            raise self._fault(not_utf8(path, error), at_line) from error
        reader = csv.reader(StringIO(text, newline=""), strict=True)
        header: list[str] = []
        line, at = 0, (0, 0)
        try:
            for row in reader:
                begin, line = line + 1, reader.line_num
                if header and row:
                    self._add(row, begin, header, *at)
                elif row:
                    header = row
                    at = self._column(row, file, begin), self._column(row, label, begin)
            if not header:
                self._column(header, file, 1)
        except csv.Error as error:
            if str(error).startswith("field larger than field limit"):  # only its text tells
                most = csv.field_size_limit()  # of the whole process: not for us to change
                raise self._fault(
                    f"expected fields of at most {most:,} characters, got a longer one; leave its "
                    "column out of the table, or raise csv.field_size_limit in your program",
                    line + 1,
                ) from error
            raise self._fault(
                f"expected csv, got: {error}; close the quotes around a field, and double those "
                "inside it",
                line + 1,
            ) from error

    def _fault(self, message: str, line: int) -> SourceError:
        return SourceError(message, self.path, f"line {line}")

    def _column(self, header: list[str], name: str, line: int) -> int:
        if header.count(name) != 1:
            got = ", ".join(map(repr, header[:20])) or "none"
            near = "" if name in header else _near(name, header)
            if len(header) == 1 and (other := re.search(r"[;\t|]", header[0])):
                near = f"; separate the columns by commas, and not by {other[0]!r}"
            raise self._fault(f"expected one column {name!r}, got {got}{near}", line)
        return header.index(name)

    def _add(self, row: list[str], line: int, header: list[str], file: int, label: int) -> None:
        if len(row) != len(header):
            got = f"{len(row)}; correct the line"
            raise self._fault(f"expected {len(header)} fields, got {got}", line)
        for column in (file, label):
            if not row[column]:
                got = f"an empty {header[column]!r}; correct the line, or leave it out"
                raise self._fault(f"expected a value, got {got}", line)
        name = PurePosixPath(row[file]).as_posix()  # "./a.png" is "a.png"
        if name in self.rows:
            raise self._fault(
                f"expected one row for each file, got another for {name!r}; the first is "
                f"line {self.rows[name][0]}; leave one of them out",
                line,
            )
        self.rows[name] = line, row[label]

    def choose(self, names: Sequence[str]) -> list[str]:
        """Give those of the files that have a row; each row has to name one of them."""
        if not self.rows:
            hint = "write a line for each file that is a sample"
            raise SourceError(f"expected a row for each file, got none; {hint}", self.path)
        found = set(names)
        for name, (line, _) in self.rows.items():
            if name not in found:
                hint = "paths are relative to the folder, with forward slashes"
                if near := next((each for each in names if each.startswith(f"{name}.")), None):
                    hint = f"did you mean {near!r}?"
                expected = "a file that the pattern finds"
                raise self._fault(f"expected {expected}, got {name!r}; {hint}", line)
        chosen = [name for name in names if name in self.rows]
        if left := len(names) - len(chosen):
            log("info", "%s: %d of %d files have no row: left out", self.path, left, len(names))
        return chosen

    def number(self, name: str, kind: str) -> int | float:
        """Give a file's label as a number: ``"int"`` for what int64 holds, or ``"float"``."""
        line, text = self.rows[name]
        bare = text.strip()
        if kind == "int" and (number := int64_of(bare)) is not None:
            return number
        # The pattern comes first: float() would also take "1_0" and "nan".
        if kind == "float" and _NUMBER.fullmatch(bare) and math.isfinite(float(bare)):
            return float(bare)
        what = "an integer that int64 holds" if kind == "int" else "a finite number"
        got = f'{text!r}; correct the line, or take it "as" another kind'
        raise self._fault(f"expected {what} as the label of {name!r}, got {got}", line)
