"""Small databases made for a test, and the sqlite source opened on them, read through, refused."""

import sqlite3
from contextlib import closing

import pytest
from opened_sources import samples

from threadloader.errors import SourceError
from threadloader.sources.sqlite import open_sqlite

QUERY = "SELECT id, text, label FROM t"


def opened(folder, query=QUERY, key="id", root=None, path="a.db"):
    return open_sqlite({"type": "sqlite", "path": path, "query": query, "key": key}, folder, root)


def reader(source):
    """Give what reads the only database of a source."""
    (only,) = source._databases
    return only


def made(folder, rows=((2, "two", 0.5), (-7, "minus", b"\0"), (5, "é", 9)), name="a.db", **pragmas):
    """Make a database with the table t."""
    with closing(sqlite3.connect(folder / name)) as database:
        for pragma, value in pragmas.items():
            database.execute(f"PRAGMA {pragma} = {value}")
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text, label)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        database.commit()
    return folder


def run(folder, *statements, name="a.db"):
    with closing(sqlite3.connect(folder / name)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def refused(folder, kind=SourceError, **options):
    with pytest.raises(kind) as caught:
        samples(opened(folder, **options))
    return str(caught.value)
