"""The rows that a query gives of one SQLite database, found again by an integer key."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, Problem, SourceError
from ._fields import near
from ._progress import ProgressLog
from ._sqlite_connections import Connections

__all__ = ["Database"]

_ROWS = 65_536
"""Keys taken from the database at once. Chosen: little memory as Python integers."""

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
_MADE = re.compile(r"(:|\Acolumn)[0-9]+\Z")
"""Matches names that SQLite makes for columns of a query in brackets: ``x:1`` where another column
is called ``x``, and ``column2`` for one that is called true or false."""
_SEARCHED = re.compile(r"SCAN (?!\(|CONSTANT)")
"""Matches a line of a plan that says that all rows of a table are looked at."""
_LIMITED_VIEWS = "SELECT 1 FROM sqlite_master WHERE type = 'view' AND sql LIKE '%limit%'"


class Database:
    """One database, with a query that only reads, and the integers by which its rows are found.

    The keys are read when it is opened, of which ``progress`` logs how far it is. Each thread that
    reads has a connection of its own.

    Attributes:
        path: of the file, absolute.
        query: without a semicolon at its end.
        columns: the names of the query's columns.
        keys: of all rows, ascending; int64 ``(rows,)``.
        connections: by which it is read.

    Raises:
        ConfigError: the query is no single SELECT that only reads, or has no such column as key.
        SourceError: the file is no database that can be read; or a key is no integer, or comes
            twice.
    """

    def __init__(self, path: Path, query: str, key: str, progress: ProgressLog) -> None:
        word = _FIRST_WORD.match(query)
        if word is None or word[1].upper() not in ("SELECT", "WITH"):
            raise _refused("one that begins with SELECT or WITH", repr(query[:40]))
        # Absolute: the process may have changed its folder when a connection is made.
        self.path = path.absolute()
        self._key = key
        self.query = query.rstrip().removesuffix(";")
        # The line ends keep a comment at the end of the query from hiding what follows.
        self._rows = f"SELECT * FROM (\n{self.query}\n)"
        self._row = f"{self._rows} WHERE {_quoted(key)} = ?"
        self.connections = Connections(self.path)
        try:
            self.columns = self._checked_columns()
            self.keys = self._read_keys(*self._key_statement(), progress)
        except BaseException:  # a lost connection stays open: it is in a cycle with itself
            self.close()
            raise

    def _checked_columns(self) -> tuple[str, ...]:
        """Refuse what is not a single SELECT, before any of it runs; give its columns."""
        with self.connections.mine() as mine:
            try:
                # EXPLAIN runs nothing. The query by itself comes first: what is no SELECT may
                # become a part of one in the brackets of the second text.
                for text in (self.query, self._rows):
                    mine.execute(f"EXPLAIN QUERY PLAN\n{text}").close()
                with closing(mine.execute(f"{self._rows} LIMIT 0")) as cursor:
                    columns = tuple(column[0] for column in cursor.description)
                names = columns
                # Only the query by itself tells a name of the user's from one made by SQLite.
                # For that SQLite runs it up to its first row.
                if any(map(_MADE.search, columns)):
                    with closing(mine.execute(self.query)) as cursor:
                        names = tuple(column[0] for column in cursor.description)
            except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
                self.connections.reading.raise_kept(error)
                if denied := self.connections.reading.denied:
                    raise _refused("one that only reads", denied[0]) from error
                # Other codes, of a damaged or locked file, are not about the query, nor is a
                # message that quotes damaged bytes.
                code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
                if code == sqlite3.SQLITE_ERROR and not isinstance(error, UnicodeDecodeError):
                    hint = 'leave out the ";" and what follows it' if '";"' in str(error) else ""
                    raise _refused(f"one that {self.path} answers", str(error), hint) from error
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

    def _key_statement(self) -> tuple[str, tuple[int, ...]]:
        """Give the statement that reads the keys, and its parameters."""
        keys = f"SELECT {_quoted(self._key)} FROM (\n{self.query}\n)"
        with self.connections.mine() as mine, closing(mine.execute(_LIMITED_VIEWS)) as views:
            if views.fetchone() is None and "limit" not in self.query.lower():
                return keys, ()
        # Which rows a LIMIT lets through depends on SQLite's plan: for the key alone it may use an
        # index that `_row` does not use. With a condition on all columns it plans both alike.
        # (This one is always true by its first part, but SQLite plans before it knows the values.)
        names = ", ".join(map(_quoted, self.columns))
        # Two parameters, not "?1" twice: Python 3.12.1 warns of that, since it counts as named.
        return f"{keys} WHERE ? OR ? IN ({names})", (1, 1)

    def _read_keys(
        self, statement: str, values: tuple[int, ...], progress: ProgressLog
    ) -> npt.NDArray[np.int64]:
        parts, count = [np.empty(0, np.int64)], 0
        with self.connections.mine() as mine, closing(mine.execute(statement, values)) as cursor:
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
                progress.tell("%s: %d keys read", self.path, count)
        found = np.sort(np.concatenate(parts))
        twice = np.flatnonzero(found[1:] == found[:-1])
        if len(twice):
            raise self._fault(
                f"expected each key once, got {int(found[twice[0]])} in several rows; "
                "choose a column that tells the rows apart"
            )
        return found

    def searches(self) -> str:
        """Give the steps of SQLite's plan for one row, if it looks at all rows for it; else ""."""
        with (
            self.connections.mine() as mine,
            closing(mine.execute(f"EXPLAIN QUERY PLAN\n{self._row}", (0,))) as cursor,
        ):
            plan = [str(row[3]) for row in cursor]
        return ", ".join(plan) if any(map(_SEARCHED.match, plan)) else ""

    def _fault(self, message: str, place: str = "") -> SourceError:
        return SourceError(message, self.path, place or f"column {self._key!r}")

    def place(self, row: int) -> str:
        """Say where a row stands, 0 for the first: ``key=value``."""
        return f"{self._key}={self.keys[row]}"

    def sample(self, row: int) -> dict[str, Any]:
        """Give one row, a dict of its columns; NULL, and text that is not UTF-8, are errors."""
        place, key = self.place(row), int(self.keys[row])
        with self.connections.mine(place) as mine, closing(mine.execute(self._row, (key,))) as got:
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

    def close(self) -> None:
        """Close the connections of all threads; a second time does nothing."""
        self.connections.close()


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _refused(expected: str, got: str, hint: str = "") -> ConfigError:
    return ConfigError(Problem("/source/query", expected, got, hint))
