"""Rows of SQLite databases as samples, chosen by one query with an integer key.

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
- The rows of several databases follow one another: each is asked the same query, and has
  keys of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..errors import SourceError, log
from ._closing import close_all
from ._fields import listed
from ._fingerprint import extent, sha256
from ._named import named_files
from ._progress import ProgressLog
from ._row_numbers import part_of
from ._sqlite_database import Database

__all__ = ["SqliteSource", "open_sqlite"]

_MANY = 1000
"""From so many rows on it is worth a warning that each of them is searched for in all."""


def open_sqlite(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> SqliteSource:
    """Open ``{"type": "sqlite", "path": names or patterns, "query": ..., "key": "id"}``."""
    paths = named_files(spec, base, root)
    return SqliteSource(paths, spec["query"], spec["key"])


class SqliteSource:
    """Samples are the rows that a query gives, as dicts, sorted by an integer key.

    The rows of several databases follow one another, each database's sorted by themselves; all
    give the same columns. The keys are held in memory, 8 bytes each. Each thread that reads has a
    connection of its own to each database.

    Attributes:
        columns: the names of the columns.
    """

    def __init__(self, paths: Iterable[Path], query: str, key: str) -> None:
        self._databases: list[Database] = []
        progress = ProgressLog()
        try:
            for path in paths:
                self._databases.append(Database(path, query, key, progress))
                self._check_columns(self._databases[-1])
                progress.tell("%s: %d databases looked through", path, len(self._databases))
            self.columns = self._databases[0].columns
            # The number of each database's first row, and in the end the number of all rows.
            self._firsts = [0, *accumulate(len(each.keys) for each in self._databases)]
            self._warn_of_searches(key)
            self._fingerprint = self._make_fingerprint(key)
        except BaseException:  # a lost connection stays open: it is in a cycle with itself
            self.close()
            raise

    def _check_columns(self, database: Database) -> None:
        first = self._databases[0]
        if database.columns != first.columns:  # a query with "*" gives what each table has
            raise SourceError(
                f"expected the columns of {first.path}, {listed(first.columns)}, "
                f"got {listed(database.columns)}; name those in the query that all databases have",
                database.path,
            )

    def _warn_of_searches(self, key: str) -> None:
        for database in self._databases:
            if len(database.keys) >= _MANY and (plan := database.searches()):
                text = "%s: each sample is searched for in all rows, which is slow (%s); add an "
                text += "index on the column that %r stands for, or write the query's result into "
                text += "a table"
                log("warning", text, database.path, plan, key)
                return  # once: the others will have no index either

    def _make_fingerprint(self, key: str) -> str:
        sizes = [database.connections.size for database in self._databases]
        digest = sha256(f"{self._databases[0].query}\0{key}\0".encode())
        for database in self._databases:
            digest.update(database.keys.astype("<i8").tobytes())
        said = (
            f"sqlite, {len(self)} rows, {extent(sizes)}, "
            f"sha256 of query and keys {digest.hexdigest()}"
        )
        if len(sizes) == 1:
            return said
        cuts = sha256(f"{self._firsts} {sizes}".encode()).hexdigest()
        return f"{said}, sha256 of rows and sizes {cuts}"

    def __len__(self) -> int:
        return self._firsts[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Give one row, a dict of its columns; NULL, and text that is not UTF-8, are errors."""
        database, row = self._find(index)
        return database.sample(row)

    def _find(self, index: int) -> tuple[Database, int]:
        at, row = part_of(index, self._firsts)
        return self._databases[at], row

    def locate(self, index: int) -> str:
        """Say where a row stands: ``path: key=value``."""
        database, row = self._find(index)
        return f"{database.path}: {database.place(row)}"

    def fingerprint(self) -> str:
        """Tell this data from other data: rows, sizes in bytes, checksum of query and keys."""
        return self._fingerprint

    def close(self) -> None:
        """Close the connections of all threads; a second time does nothing."""
        close_all([database.close for database in self._databases])
