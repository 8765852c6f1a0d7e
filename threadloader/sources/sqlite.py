"""Rows of an SQLite database as samples, chosen by one query with an integer key.

The rules:

- The query is a single SELECT (or WITH ... SELECT) that only reads: all else is refused
  before it runs. The database is opened read-only, can attach no other file and load no
  extension. ``random()`` is refused too: a sample is the same whenever it is read.
- The key is a column of the query that holds integers, each once. The keys are read once,
  at opening; samples are sorted by them, ascending.
- A sample is a dict of all columns, the key too: int, float, str or bytes. NULL is an
  error, since no batch can hold it: ``coalesce(label, 0)`` says what to take instead.
- A row is looked up by its key: choose the table's own, or give it an index.
- A database that is written to while it is open here is an error at the next read.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError, log
from ._fields import near
from ._files import inside
from ._fingerprint import sha256
from ._progress import ProgressLog
from ._row_numbers import row_number
from ._sqlite_connections import Connections

__all__ = ["SqliteSource", "open_sqlite"]

_ROWS = 65_536
"""Keys taken from the database at once. Chosen: little memory as Python integers."""

_MANY = 1000
"""From so many rows on it is worth a warning that each of them is searched for in all."""

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
_MADE = re.compile(r"(:|\Acolumn)[0-9]+\Z")
"""Matches names that SQLite makes for columns of a query in brackets: ``x:1`` where another column
is called ``x``, and ``column2`` for one that is called true or false."""
_SEARCHED = re.compile(r"SCAN (?!\(|CONSTANT)")
"""Matches a line of a plan that says that all rows of a table are looked at."""
_LIMITED_VIEWS = "SELECT 1 FROM sqlite_master WHERE type = 'view' AND sql LIKE '%limit%'"


def open_sqlite(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> SqliteSource:
    """Open ``{"type": "sqlite", "path": ..., "query": "SELECT ...", "key": "id"}``."""
    return SqliteSource(inside(base / spec["path"], root), spec["query"], spec["key"])


class SqliteSource:
    """Samples are the rows that a query gives, as dicts, sorted by an integer key.

    The keys are held in memory, 8 bytes each. Each thread that reads has a connection of
    its own.

    Attributes:
        columns: the names of the columns.
    """

    def __init__(self, path: Path, query: str, key: str) -> None:
        word = _FIRST_WORD.match(query)
        if word is None or word[1].upper() not in ("SELECT", "WITH"):
            raise _refused("one that begins with SELECT or WITH", repr(query[:40]))
        # Absolute: the process may have changed its folder when a connection is made.
        self._path = path.absolute()
        self._key = key
        query = query.rstrip().removesuffix(";")
        # The line ends keep a comment at the end of the query from hiding what follows.
        self._row = f"SELECT * FROM (\n{query}\n) WHERE {_quoted(key)} = ?"
        self._connections = Connections(self._path)
        try:
            self.columns = self._checked_columns(query)
            self._keys = self._read_keys(*self._key_statement(query))
            self._warn_of_searches()
            digest = sha256(f"{query}\0{key}\0".encode())
            digest.update(self._keys.astype("<i8").tobytes())
            self._fingerprint = (
                f"sqlite, {len(self._keys)} rows, {self._connections.size} bytes, "
                f"sha256 of query and keys {digest.hexdigest()}"
            )
        except BaseException:  # a lost connection stays open: it is in a cycle with itself
            self.close()
            raise

    def _checked_columns(self, query: str) -> tuple[str, ...]:
        """Refuse what is not a single SELECT, before any of it runs; give its columns."""
        with self._connections.mine() as mine:
            try:
                # EXPLAIN runs nothing. The query by itself comes first: what is no SELECT may
                # become a part of one in the brackets of the second text.
                for text in (query, f"SELECT * FROM (\n{query}\n)"):
                    mine.execute(f"EXPLAIN QUERY PLAN\n{text}").close()
                with closing(mine.execute(f"SELECT * FROM (\n{query}\n) LIMIT 0")) as cursor:
                    columns = tuple(column[0] for column in cursor.description)
                names = columns
                # Only the query by itself tells a name of the user's from one made by SQLite.
                # For that SQLite runs it up to its first row.
                if any(map(_MADE.search, columns)):
                    with closing(mine.execute(query)) as cursor:
                        names = tuple(column[0] for column in cursor.description)
            except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
                self._connections.reading.raise_kept(error)
                if denied := self._connections.reading.denied:
                    raise _refused("one that only reads", denied[0]) from error
                # Other codes, of a damaged or locked file, are not about the query, nor is a
                # message that quotes damaged bytes.
                code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
                if code == sqlite3.SQLITE_ERROR and not isinstance(error, UnicodeDecodeError):
                    hint = 'leave out the ";" and what follows it' if '";"' in str(error) else ""
                    raise _refused(f"one that {self._path} answers", str(error), hint) from error
                raise
        for column, name in zip(columns, names, strict=True):
            if _MADE.search(column) and column != name:
                if name.lower() in ("true", "false"):
                    expected = f"names that SQLite keeps: it makes {column!r} of this one"
                    raise _refused(expected, repr(name), "name it otherwise with AS")
                got = f"{name.lower()!r} twice, in whatever case"
                raise _refused("a name for each column", got, "name one with AS")
        if self._key not in columns:
            got, hint = repr(self._key), near(self._key, columns)
            raise ConfigError(Problem("/source/key", "a column of the query", got, hint))
        return columns

    def _key_statement(self, query: str) -> tuple[str, tuple[int, ...]]:
        """Give the statement that reads the keys, and its parameters."""
        keys = f"SELECT {_quoted(self._key)} FROM (\n{query}\n)"
        with self._connections.mine() as mine, closing(mine.execute(_LIMITED_VIEWS)) as views:
            if views.fetchone() is None and "limit" not in query.lower():
                return keys, ()
        # Which rows a LIMIT lets through depends on SQLite's plan: for the key alone it may use an
        # index that `_row` does not use. With a condition on all columns it plans both alike.
        # (This one is always true by its first part, but SQLite plans before it knows the values.)
        names = ", ".join(map(_quoted, self.columns))
        # Two parameters, not "?1" twice: Python 3.12.1 warns of that, since it counts as named.
        return f"{keys} WHERE ? OR ? IN ({names})", (1, 1)

    def _read_keys(self, query: str, values: tuple[int, ...]) -> npt.NDArray[np.int64]:
        parts = [np.empty(0, np.int64)]
        progress, count = ProgressLog(), 0
        with self._connections.mine() as mine, closing(mine.execute(query, values)) as cursor:
            while rows := cursor.fetchmany(_ROWS):
                keys = [row[0] for row in rows]
                if set(map(type, keys)) != {int}:
                    wrong = next(key for key in keys if type(key) is not int)
                    got = "NULL" if wrong is None else repr(wrong)[:40]
                    raise self._fault(
                        f"expected integers as keys, got {got}; choose another column, or leave "
                        "the row out by WHERE"
                    )
                parts.append(np.array(keys, np.int64))
                count += len(keys)
                progress.tell("%s: %d keys read", self._path, count)
        found = np.sort(np.concatenate(parts))
        twice = np.flatnonzero(found[1:] == found[:-1])
        if len(twice):
            raise self._fault(
                f"expected each key once, got {int(found[twice[0]])} in several rows; "
                "choose a column that tells the rows apart"
            )
        return found

    def _warn_of_searches(self) -> None:
        if len(self._keys) < _MANY:
            return
        with (
            self._connections.mine() as mine,
            closing(mine.execute(f"EXPLAIN QUERY PLAN\n{self._row}", (0,))) as cursor,
        ):
            plan = [str(row[3]) for row in cursor]
        if any(map(_SEARCHED.match, plan)):
            text = "%s: each sample is searched for in all rows, which is slow (%s); add an index "
            text += "on the column that %r stands for, or write the query's result into a table"
            log("warning", text, self._path, ", ".join(plan), self._key)

    def _fault(self, message: str, place: str = "") -> SourceError:
        return SourceError(message, self._path, place or f"column {self._key!r}")

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Give one row, a dict of its columns; NULL, and text that is not UTF-8, are errors."""
        key = int(self._keys[row_number(index, len(self._keys))])
        place = f"{self._key}={key}"
        with self._connections.mine(place) as mine, closing(mine.execute(self._row, (key,))) as got:
            rows = got.fetchmany(2)
        if len(rows) != 1:
            raise self._fault(
                f"expected one row, got {'several' if rows else 'none'}; let the query give the "
                "same rows each time",
                place,
            )
        sample = dict(zip(self.columns, rows[0], strict=True))
        for column, value in sample.items():
            if value is None:
                instead = f"coalesce({_quoted(column)}, 0)"
                raise self._fault(
                    f"expected a value in column {column!r}, got NULL; say in the query what to "
                    f"take instead, as by {instead} (0.0 where the others have a point), or leave "
                    "the row out by WHERE",
                    place,
                )
        return sample

    def locate(self, index: int) -> str:
        """Say where a row stands: ``path: key=value``."""
        key = int(self._keys[row_number(index, len(self._keys))])
        return f"{self._path}: {self._key}={key}"

    def fingerprint(self) -> str:
        """Tell this data from other data: rows, size in bytes, checksum of query and keys."""
        return self._fingerprint

    def close(self) -> None:
        """Close the connections of all threads; a second time does nothing."""
        self._connections.close()


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _refused(expected: str, got: str, hint: str = "") -> ConfigError:
    return ConfigError(Problem("/source/query", expected, got, hint))
