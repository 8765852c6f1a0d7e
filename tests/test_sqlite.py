"""The sqlite source: rows by key, reading and nothing else, and changes as errors."""

import gc
import logging
import os
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import open_files
from hypothesis import given
from hypothesis import strategies as st
from links import make_link

from threadloader import Loader
from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import (
    _progress,
    _sqlite_connections,
    _sqlite_errors,
    _sqlite_reading,
    open_source,
    sqlite,
    stamp,
)
from threadloader.sources.sqlite import open_sqlite

QUERY = "SELECT id, text, label FROM t"


def opened(folder, query=QUERY, key="id", root=None, path="a.db"):
    return open_sqlite({"type": "sqlite", "path": path, "query": query, "key": key}, folder, root)


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


STOPPED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA cache_size = 1")
rows = [(str(number) * 500, number) for number in range(999)]
database.executemany("UPDATE t SET text = ? WHERE id = ?", rows)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows kills no process by a signal")
def test_a_database_whose_writer_was_killed_is_told_with_what_to_do(tmp_path, run_child):
    """SQLite would have to write what takes back the half of it."""
    made(tmp_path, [(number, "x" * 500, 0) for number in range(999)])
    run_child(STOPPED, str(tmp_path / "a.db"))
    said = refused(tmp_path)
    assert "a readonly database; its writer was stopped: open it once with a program that" in said
    run(tmp_path, "SELECT id FROM t")
    assert 999 == len(samples(opened(tmp_path)))


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("SQLITE_BUSY", "end what writes to it, or give a copy"),
        ("SQLITE_CANTOPEN", "look at the permissions of the file and of its folder"),
        ("SQLITE_CORRUPT", "copy the database again"),
        (1544, "it is in WAL mode: make its folder writable, or end that mode there"),
    ],
)
def test_what_sqlite_says_is_told_with_what_to_do(code, hint):
    error = sqlite3.DatabaseError("so it is")
    error.sqlite_errorcode = getattr(sqlite3, code) if isinstance(code, str) else code
    said = f"expected a database that can be read, got: so it is; {hint}"
    assert (said, error) == _sqlite_errors.in_words(error)


def samples(source):
    with closing(source):
        return [source[i] for i in range(len(source))]


def refused(folder, kind=SourceError, **options):
    with pytest.raises(kind) as caught:
        samples(opened(folder, **options))
    return str(caught.value)


# Rows


def test_rows_are_dicts_sorted_by_their_key(tmp_path):
    assert [
        {"id": -7, "text": "minus", "label": b"\0"},
        {"id": 2, "text": "two", "label": 0.5},
        {"id": 5, "text": "é", "label": 9},
    ] == samples(opened(made(tmp_path)))


rows = st.dictionaries(
    st.integers(-(2**63), 2**63 - 1),
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        st.one_of(
            st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=5)
        ),
    ),
    max_size=6,
)


@given(rows)
def test_any_rows_arrive_as_they_are(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("any")
    made(folder, [(key, *values) for key, values in rows.items()])
    assert [
        {"id": key, "text": text, "label": label} for key, (text, label) in sorted(rows.items())
    ] == samples(opened(folder))


@pytest.mark.parametrize(
    ("query", "key", "expected"),
    [
        ("SELECT id FROM t WHERE id > 0;", "id", [{"id": 2}, {"id": 5}]),
        ("  -- first\n/* SELECT */ select id from t where id = 2 -- last", "id", [{"id": 2}]),
        ('SELECT id + 1 AS "a ""b" FROM t WHERE id = 2 ORDER BY text', 'a "b', [{'a "b': 3}]),
        ("WITH u AS (SELECT id FROM t) SELECT max(id) AS id FROM u", "id", [{"id": 5}]),
        (
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION SELECT i + 1 FROM n) SELECT * FROM n LIMIT 2",
            "i",
            [{"i": 1}, {"i": 2}],
        ),
        ("SELECT a.id, b.text AS other FROM t a JOIN t b ON b.id = a.id + 3", "id",
         [{"id": 2, "other": "é"}]),
        ("SELECT id FROM t LIMIT 0", "id", []),
        ("SELECT id, coalesce(nullif(text, 'two'), '-') AS text FROM t WHERE id = 2", "id",
         [{"id": 2, "text": "-"}]),
    ],
)  # fmt: skip
def test_a_query_may_be_any_select(tmp_path, query, key, expected):
    assert expected == samples(opened(made(tmp_path), query, key))


def indexed(folder):
    """Make a database whose index on label gives the rows in another order than the table."""
    made(folder, [(number, f"text {number}", number % 5) for number in range(20)])
    run(folder, "CREATE INDEX by_label ON t (label)")
    return folder


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, text, label FROM t LIMIT 8",
        "WITH u AS (SELECT * FROM t) SELECT id, text FROM u limit 8; ",
        "SELECT id, label FROM (SELECT * FROM t LIMIT 8) -- nested",
    ],
)
def test_a_query_with_a_limit_gives_as_many_samples(tmp_path, query):
    assert 8 == len(samples(opened(indexed(tmp_path), query)))


@pytest.mark.parametrize("columns", ["*", "id, label"])
def test_the_limit_of_a_view_gives_as_many_samples(tmp_path, columns):
    run(indexed(tmp_path), "CREATE VIEW some AS SELECT * FROM t LIMIT 8")
    assert 8 == len(samples(opened(tmp_path, f"SELECT {columns} FROM some")))


def test_the_samples_of_a_limit_are_the_rows_of_the_query(tmp_path):
    query = "SELECT id, text, label FROM t LIMIT 8"
    with closing(sqlite3.connect(indexed(tmp_path) / "a.db")) as database:
        expected = sorted(database.execute(query))
    assert expected == [tuple(sample.values()) for sample in samples(opened(tmp_path, query))]


limits = st.sampled_from(["", " LIMIT 7", " LIMIT 9 OFFSET 2"])
levels = st.tuples(
    st.sampled_from(["*", "id, text, label", "label, id, text"]),
    st.sampled_from(["", " WHERE label < 4", " WHERE id % 2"]),
    st.sampled_from(["", " ORDER BY label", " ORDER BY text"]),
    limits,
)


@given(st.lists(levels, max_size=3), st.sampled_from(["*", "id", "id, text", "label, id"]), limits)
def test_every_key_of_a_query_with_limits_has_its_row(tmp_path_factory, inner, columns, limit):
    """Whatever SQLite takes together of it to read the keys alone."""
    table = "t"
    for chosen, where, order, bound in inner:
        table = f"(SELECT {chosen} FROM {table}{where}{order}{bound})"
    folder = indexed(tmp_path_factory.mktemp("limits"))
    source = opened(folder, f"SELECT {columns} FROM {table}{limit}")
    assert source._keys.tolist() == [sample["id"] for sample in samples(source)]


def test_the_keys_of_a_query_without_a_limit_are_read_from_an_index(tmp_path):
    """Which is smaller than the table."""
    indexed(tmp_path)
    with closing(opened(tmp_path)) as source, source._connections.mine() as connection:
        statement, values = source._key_statement(QUERY)
        plan = str(connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall())
    assert "USING COVERING INDEX by_label" in plan


def test_null_is_an_error_that_names_row_and_column(tmp_path):
    made(tmp_path, [(1, "a", 1), (2, None, 1)])
    source = opened(tmp_path)
    assert "a" == source[0]["text"]
    with closing(source), pytest.raises(SourceError) as caught:
        source[1]
    assert f"{tmp_path / 'a.db'}: id=2: expected a value in column 'text', got NULL; say in" in str(
        caught.value
    )


def test_text_that_is_not_utf_8_is_an_error_that_names_the_row(tmp_path):
    made(tmp_path, [(1, "a", 1)])
    run(tmp_path, "UPDATE t SET text = CAST(x'ff' AS TEXT)")
    said = refused(tmp_path)
    assert "a.db: id=1: expected a database that can be read, got: Could not decode" in said
    assert said.endswith("; have the query give bytes, as by CAST(... AS BLOB)")


@pytest.mark.parametrize(
    ("query", "key", "said"),
    [
        (
            "SELECT label FROM t WHERE id = 2",
            "label",
            "column 'label': expected integers as keys, got 0.5;",
        ),
        ("SELECT text FROM t", "text", "column 'text': expected integers as keys, got 'minus'"),
        ("SELECT nullif(id, 2) AS k FROM t", "k", "expected integers as keys, got NULL"),
        ("SELECT id / 10 AS k FROM t", "k", "expected each key once, got 0 in several rows"),
    ],
)
def test_keys_that_do_not_tell_rows_apart_are_an_error(tmp_path, query, key, said):
    assert said in refused(made(tmp_path), query=query, key=key)


def test_a_row_is_located_by_its_key(tmp_path):
    with closing(opened(made(tmp_path))) as source:
        assert f"{tmp_path / 'a.db'}: id=-7" == source.locate(0)


def test_indices_end_at_the_length_and_a_closed_source_reads_no_more(tmp_path):
    source = opened(made(tmp_path))
    for index in (-1, 3):
        with pytest.raises(IndexError):
            source[index]
    source.close()
    source.close()
    with pytest.raises(ClosedError):
        source[0]


def test_the_fingerprint_tells_keys_query_and_size(tmp_path):
    def said(**options):
        with closing(opened(tmp_path, **options)) as source:
            return source.fingerprint()

    first = said() if made(tmp_path) else ""
    assert first.startswith("sqlite, 3 rows, 8192 bytes, sha256 of query and keys ")
    others = [said(query=f"{QUERY} WHERE id > 0"), said(query="SELECT id FROM t")]
    run(tmp_path, "UPDATE t SET id = 3 WHERE id = 2")
    assert 4 == len({first, *others, said()})


def test_a_search_through_all_rows_for_each_sample_is_warned_of(tmp_path, caplog):
    made(tmp_path, [(i, i, i) for i in range(2000)])
    opened(tmp_path).close()
    assert "" == caplog.text
    opened(tmp_path, "SELECT text, label FROM t", "text").close()
    assert "each sample is searched for in all rows, which is slow (SCAN" in caplog.text
    run(tmp_path, "CREATE INDEX i ON t (text)")
    caplog.clear()
    opened(tmp_path, "SELECT text, label FROM t", "text").close()
    assert "" == caplog.text


def test_reading_keys_that_takes_long_says_how_far_it_is(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    monkeypatch.setattr(sqlite, "_ROWS", 2)
    with caplog.at_level(logging.INFO, "threadloader"):
        opened(made(tmp_path)).close()
    assert "a.db: 2 keys read" in caplog.text


# What is refused


WRITES = {
    "DELETE FROM t": "one that begins with SELECT or WITH, got 'DELETE FROM t'",
    "-- SELECT\nDROP TABLE t": "one that begins with SELECT or WITH",
    "": "one that begins with SELECT or WITH",
    "t": "one that begins with SELECT or WITH",
    "EXPLAIN SELECT 1 AS id": "one that begins with SELECT or WITH",
    "VACUUM INTO 'stolen.db'": "one that begins with SELECT or WITH",
    "ATTACH 'stolen.db' AS x": "one that begins with SELECT or WITH",
    "PRAGMA user_version = 7": "one that begins with SELECT or WITH",
    "WITH x AS (SELECT 1) DELETE FROM t": "one that only reads",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT 9, 9, 9 RETURNING id": "one that only reads",
    "SELECT 1 AS id; DROP TABLE t": "You can only execute one statement at a time",
    "SELECT 1 AS id); DROP TABLE t; SELECT (1": "syntax error",
    "SELECT 1 AS id) UNION SELECT * FROM (SELECT 2": "syntax error",
    "SELECT id FROM t; -- all": 'near ";": syntax error; leave out the ";" and what follows it',
    "SELECT id FROM t /*": "answers, got ",
    "SELECT id FROM t WHERE id = ?": "Incorrect number of bindings",
    "SELECT id\0 FROM t": "null character",
    "SELECT '\ud800' AS id": "surrogates not allowed",
    "SELECT random() AS id": "one that only reads, got the function random()",
    "SELECT length(randomblob(id)) AS id FROM t": "got the function randomblob()",
    "SELECT load_extension('x') AS id": "got the function load_extension()",
    "SELECT cid AS id FROM pragma_table_info('t')": "one that only reads",
    "SELECT id FROM nowhere": "a.db answers, got no such table: nowhere",
    "SELECT nowhere AS id FROM t": "answers, got no such column: nowhere",
    "SELECT id, id FROM t": "a name for each column, got 'id' twice, in whatever case; name one",
    "SELECT id, 1 AS ID FROM t": "a name for each column, got 'id' twice, in whatever case",
    "SELECT id, 1 AS b, 2 AS B FROM t": "a name for each column, got 'b' twice, in whatever case",
    'SELECT id, 1 AS "b:1", 2 AS "B:1" FROM t': "a name for each column, got 'b:1' twice, in",
    'SELECT id, 1 AS "id:1", 2 AS id FROM t': "a name for each column, got 'id' twice, in",
    'SELECT id, 1 AS "true" FROM t': "'column2' of this one, got 'true'; name it otherwise with AS",
    'SELECT id, 1 AS "False" FROM t': "names that SQLite keeps: it makes 'column2' of this one",
    'SELECT id, 1 AS column3, 2 AS "true" FROM t': "'column3:1' of this one, got 'true'; name it",
}


@pytest.mark.parametrize("query", WRITES)
def test_all_but_a_single_select_is_a_config_error_and_does_not_run(tmp_path, query, monkeypatch):
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = (tmp_path / "a.db").read_bytes()
    error = refused(tmp_path, ConfigError, query=query)
    assert error.startswith("/source/query: expected ")
    assert WRITES[query] in error
    assert (before, ["a.db"]) == ((tmp_path / "a.db").read_bytes(), os.listdir(tmp_path))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('SELECT id, text AS "id:1" FROM t WHERE id = 2', {"id": 2, "id:1": "two"}),
        ('SELECT text AS "ID:1", id FROM t WHERE id = 2', {"ID:1": "two", "id": 2}),
        ("SELECT 7 AS id, * FROM u", {"id": 7, "a": 1, "a:1": 2}),
        ('SELECT rowid, 1 AS id, label AS "id:1" FROM t WHERE id = 2',
         {"rowid": 2, "id": 1, "id:1": 0.5}),
        ("SELECT id, text AS column2 FROM t WHERE id = 2", {"id": 2, "column2": "two"}),
    ],
)  # fmt: skip
def test_a_name_like_those_that_sqlite_makes_is_a_name(tmp_path, query, expected):
    made(tmp_path)
    run(tmp_path, 'CREATE TABLE u (a, "a:1")', "INSERT INTO u VALUES (1, 2)")
    assert [expected] == samples(opened(tmp_path, query))


def test_a_pragma_beside_the_key_is_a_config_error_too(tmp_path):
    """At the latest when a sample asks for its rows, as SQLite 3.53 has it."""
    made(tmp_path)
    query = "SELECT id, (SELECT max(cid) FROM pragma_table_info('t')) AS last FROM t"
    error = refused(tmp_path, ConfigError, query=query)
    assert error.startswith("/source/query: expected one that only reads, got what is not reading")


def test_what_is_refused_only_while_rows_are_read_is_a_config_error(tmp_path):
    """As a pragma behind a table is, in SQLite 3.53: nothing before has compiled it."""
    made(tmp_path)
    expected = "/source/query: expected one that only reads, got what is not reading"
    with (
        closing(opened(tmp_path)) as source,
        pytest.raises(ConfigError, match=expected),
        source._connections.mine() as connection,
    ):
        connection.execute("DELETE FROM t")


@pytest.mark.parametrize(
    ("table", "query"),
    [
        ("fts5", "SELECT rowid AS id, body FROM v WHERE v MATCH 'two'"),
        ("fts4", "SELECT docid AS id, body FROM v WHERE v MATCH 'two'"),
    ],
)
def test_a_full_text_table_can_be_asked(tmp_path, table, query):
    """SQLite asks for leave to UPDATE its table of tables when it declares the columns."""
    made(tmp_path)
    try:
        run(tmp_path, f"CREATE VIRTUAL TABLE v USING {table} (body)")
    except sqlite3.OperationalError as error:
        pytest.skip(str(error))
    run(tmp_path, "INSERT INTO v VALUES ('one'), ('one or two')")
    assert [{"id": 2, "body": "one or two"}] == samples(opened(tmp_path, query))


def test_the_parts_of_a_json_value_can_be_rows(tmp_path):
    made(tmp_path, [(1, "[7, 8]", 1)])
    query = "SELECT j.value AS id, t.label FROM t, json_each(t.text) AS j"
    assert [7, 8] == [sample["id"] for sample in samples(opened(tmp_path, query))]


def test_the_table_of_tables_is_changed_by_nobody(tmp_path):
    """Though leave to do so is given: SQLite has it so, and the file is opened to be read."""
    made(tmp_path)
    with closing(opened(tmp_path)) as source, source._connections.mine() as connection:
        for statement in ("UPDATE sqlite_master SET sql = ''", "DELETE FROM sqlite_master"):
            with pytest.raises(sqlite3.DatabaseError, match=r"may not be modified|not authorized"):
                connection.execute(statement)
    query = "WITH x AS (SELECT 1) UPDATE sqlite_master SET sql = '' RETURNING 1 AS id"
    assert "/source/query: expected one that" in refused(tmp_path, ConfigError, query=query)


def test_a_key_that_is_no_column_names_the_nearest(tmp_path):
    assert (
        "/source/key: expected a column of the query, got 'ID'; there are 'id', 'text', 'label'; "
    ) in refused(made(tmp_path), ConfigError, key="ID") + "; "


def test_even_a_query_that_got_through_could_not_write(tmp_path):
    """Each of the three bounds by itself: the file, the setting, the authorizer."""
    made(tmp_path)
    with closing(opened(tmp_path)) as source, source._connections.mine() as connection:
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            connection.execute("DELETE FROM t")
        connection.set_authorizer(None)
        with pytest.raises(sqlite3.OperationalError, match="readonly database"):
            connection.execute("DELETE FROM t")
        connection.execute("PRAGMA query_only = OFF")
        with pytest.raises(sqlite3.OperationalError, match="readonly database"):
            connection.execute("DELETE FROM t")
        with pytest.raises(sqlite3.OperationalError, match="too many attached databases"):
            connection.execute("ATTACH 'stolen.db' AS x")
        connection.set_authorizer(None)


def test_the_database_may_not_lie_outside_of_root(tmp_path):
    made(tmp_path)
    (tmp_path / "in").mkdir()
    make_link(tmp_path / "in" / "link.db", "../a.db")
    for path in ("a.db", "in/../a.db", "in/link.db"):
        assert "expected a path inside the folder" in refused(
            tmp_path, path=path, root=tmp_path / "in"
        )


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "text.db").write_bytes(b"no database " * 100)
    (tmp_path / "empty.db").write_bytes(b"")
    assert "text.db: expected a database that can be read, got: file is not a database" in refused(
        tmp_path, path="text.db"
    )
    assert "empty.db: expected a database, got an empty file" in refused(tmp_path, path="empty.db")
    assert "no.db: expected a file, found none" in refused(tmp_path, path="no.db")
    assert "expected a regular file, got a folder" in refused(tmp_path, path=".")
    assert "expected a file that can be read, got: " in refused(tmp_path, path="a\0b")
    assert not (tmp_path / "no.db").exists()
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert "got a pipe, socket or device" in refused(tmp_path, path="pipe")


def test_a_name_with_the_characters_of_a_uri_is_a_name(tmp_path):
    name = "a mode=rw&#%20 é.db" if os.name == "nt" else "a?mode=rw&#%20 é.db"
    made(tmp_path, name=name)
    assert 3 == len(samples(opened(tmp_path, path=name)))


# From 3.14 on that is a matter of a Path alone, which cannot be one of another system.
@pytest.mark.filterwarnings("ignore:pathlib.PurePath.as_uri:DeprecationWarning")
@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PureWindowsPath(r"\\server\share\a b.db"), "file:////server/share/a%20b.db?mode=ro"),
        (PureWindowsPath(r"C:\data\a.db"), "file:///C:/data/a.db?mode=ro"),
        (PurePosixPath("/data/a.db"), "file:///data/a.db?mode=ro"),
    ],
)
def test_a_share_of_windows_is_a_uri_without_an_authority(path, uri):
    """Which is all that SQLite takes: "invalid uri authority: server", it says of another."""
    assert uri == _sqlite_connections._uri(path)


# Damage and change


def test_a_database_cut_anywhere_is_an_error(tmp_path):
    made(tmp_path, [(i, "x" * 40, i) for i in range(40)], page_size=512)
    whole = (tmp_path / "a.db").read_bytes()
    assert 40 == len(samples(opened(tmp_path)))
    for length in range(0, len(whole), 13):
        (tmp_path / "a.db").write_bytes(whole[:length])
        assert f"{tmp_path / 'a.db'}: " in refused(tmp_path)
    for length in range(512, len(whole), 512):
        (tmp_path / "a.db").write_bytes(whole[:length])
        assert "database disk image is malformed" in refused(tmp_path)


def test_a_damaged_page_is_an_error_of_the_rows_on_it(tmp_path):
    made(tmp_path, [(i, "x" * 40, i) for i in range(40)], page_size=512)
    source = opened(tmp_path, "SELECT id, text FROM t")
    source.close()
    whole = bytearray((tmp_path / "a.db").read_bytes())
    whole[-512:] = b"\xff" * 512
    (tmp_path / "a.db").write_bytes(whole)
    assert "expected a database that can be read, got: database disk image is malformed" in refused(
        tmp_path, query="SELECT id, text FROM t"
    )


CHANGES = {
    "a row": "UPDATE t SET text = 'new' WHERE id = 5",
    "another row": "INSERT INTO t VALUES (100, 'x', 1)",
    "a table": "CREATE TABLE u (x)",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize("another_thread", [False, True])
def test_a_database_that_is_written_to_is_an_error_at_the_next_read(
    tmp_path, change, journal, another_thread
):
    """Both in a thread that has read before and in one that connects only now."""
    made(tmp_path, journal_mode=journal)
    with (
        closing(sqlite3.connect(tmp_path / "a.db")) as writer,
        closing(opened(tmp_path)) as source,
    ):
        assert -7 == source[0]["id"]
        writer.execute(CHANGES[change])
        writer.commit()
        if another_thread:
            # Its time of change may be the same where the system's clock is coarse.
            status = os.stat(tmp_path / "a.db")
            os.utime(tmp_path / "a.db", ns=(0, status.st_mtime_ns + 10**9))
            with ThreadPoolExecutor(1) as pool:
                error = pool.submit(lambda: source[0]).exception()
        else:
            with pytest.raises(SourceError) as caught:
                source[0]
            error = caught.value
        assert "expected the database as it was when it was opened, got one that was" in str(error)


def test_a_database_replaced_meanwhile_is_an_error_for_threads_that_connect_later(tmp_path):
    made(tmp_path)
    made(tmp_path, [(1, "other", 1)], name="b.db")
    with closing(opened(tmp_path)) as source, ThreadPoolExecutor(1) as pool:
        if os.name != "nt":  # where an open file cannot be replaced
            os.replace(tmp_path / "b.db", tmp_path / "a.db")
            assert "got one that was written to" in str(pool.submit(lambda: source[0]).exception())
        assert -7 == source[0]["id"]


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced there")
def test_a_database_replaced_while_a_thread_connects_is_an_error(tmp_path, monkeypatch):
    """It was the right one when it was looked at, before SQLite opened it."""
    made(tmp_path)
    made(tmp_path, [(1, "other", 1)], name="b.db")
    with closing(opened(tmp_path)) as source, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(
            _sqlite_connections,
            "check_beside",
            lambda path: os.replace(tmp_path / "b.db", path),
        )
        assert "got one that was written to" in str(pool.submit(lambda: source[0]).exception())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Path.unlink, "expected a file, found none"),
        (lambda path: [path.unlink(), os.mkfifo(path)], "got a pipe, socket or device"),
        (lambda path: path.write_bytes(bytes(8192)), "got one that was written to"),
        (lambda path: os.truncate(path, 4096), "got one that was written to"),
    ],
    ids=["gone", "a pipe", "no database", "cut"],
)
def test_what_stands_in_its_place_is_looked_at_before_a_thread_connects(tmp_path, change, said):
    """SQLite would wait for a pipe's other end, and of the others say that they are damaged."""
    made(tmp_path)
    with closing(opened(tmp_path)) as source, ThreadPoolExecutor(1) as pool:
        change(tmp_path / "a.db")
        assert said in str(pool.submit(lambda: source[0]).exception())


def test_a_commit_in_the_log_of_a_linked_database_is_an_error_for_threads_that_connect_later(
    tmp_path,
):
    """SQLite writes its log beside the database itself, and not beside the link."""
    made(tmp_path, journal_mode="WAL", name="real.db")
    (tmp_path / "in").mkdir()
    make_link(tmp_path / "in" / "link.db", "../real.db")
    with (
        closing(sqlite3.connect(tmp_path / "real.db")) as writer,
        closing(opened(tmp_path, path="in/link.db")) as source,
        ThreadPoolExecutor(1) as pool,
    ):
        before = (tmp_path / "real.db").stat().st_mtime_ns
        writer.execute("UPDATE t SET text = 'new'")
        writer.commit()
        assert before == (tmp_path / "real.db").stat().st_mtime_ns
        assert "got one that was written to" in str(pool.submit(lambda: source[0]).exception())


def test_reading_leaves_the_stamp_of_a_database_with_a_log_as_it_was(tmp_path):
    """Though it may leave a log beside the database, in which is nothing."""
    made(tmp_path, journal_mode="WAL")
    spec = {"type": "sqlite", "path": "a.db"}
    before = stamp(spec, tmp_path)
    assert 3 == len(samples(opened(tmp_path)))
    assert before == stamp(spec, tmp_path)


def test_a_database_with_a_write_ahead_log_is_read_with_what_is_in_it(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db")) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text, label)")
        writer.execute("INSERT INTO t VALUES (1, 'x', 1)")
        writer.commit()
        assert (tmp_path / "a.db-wal").stat().st_size > 0
        with closing(opened(tmp_path)) as source, ThreadPoolExecutor(1) as pool:
            assert "x" == source[0]["text"]
            assert "x" == pool.submit(lambda: source[0]).result()["text"]


# Threads


def test_many_threads_read_at_once_by_connections_of_their_own(tmp_path, monkeypatch):
    connections = []
    real = sqlite3.connect

    def connect(*args, **options):
        connections.append(real(*args, **options))
        return connections[-1]

    monkeypatch.setattr(_sqlite_connections.sqlite3, "connect", connect)
    made(tmp_path, [(i, f"text {i}", i) for i in range(30)])
    connections.clear()
    source = opened(tmp_path)
    together = threading.Barrier(16)

    def read(start):
        together.wait(10)
        return [source[(start + i) % 30]["text"] for i in range(60)]

    with ThreadPoolExecutor(16) as pool:
        for start, found in enumerate(pool.map(read, range(16))):
            assert [f"text {(start + i) % 30}" for i in range(60)] == found
    assert 17 == len(connections)
    source.close()
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            connection.execute("SELECT 1")


def test_closing_ends_what_another_thread_is_reading(tmp_path, monkeypatch):
    """The reader is in a statement without end when it is told to end it."""
    monkeypatch.setattr(_sqlite_connections, "_PATIENCE_SECONDS", 60)
    made(tmp_path)
    source = opened(tmp_path)
    running = threading.Event()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    def read():
        with source._connections.mine() as connection:
            connection.set_progress_handler(running.set, 1000)
            connection.execute(endless).fetchone()

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert running.wait(10)
        source.close()
        assert isinstance(reading.exception(10), ClosedError)


def test_a_thread_that_does_not_let_go_keeps_its_connection(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_sqlite_connections, "_PATIENCE_SECONDS", 0)
    made(tmp_path)
    source = opened(tmp_path)
    reading, closed = threading.Event(), threading.Event()

    def read():
        with source._connections.mine() as connection:
            reading.set()
            assert closed.wait(10)
            found = connection.execute("SELECT 1").fetchone()
            connection.close()
            return found

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(read)
        assert reading.wait(10)
        source.close()
        assert "a connection stays open, since a thread still reads by it" in caplog.text
        closed.set()
        assert isinstance(found.exception(10), ClosedError)


def test_a_thread_closes_the_connection_that_an_interrupt_left_it_holding(tmp_path, caplog):
    """As a Ctrl-C in contextlib does, before it goes on with the generator."""
    source = opened(made(tmp_path))
    held = source._connections.mine()
    connection = held.__enter__()
    assert -7 == source[0]["id"]
    source.close()
    assert "" == caplog.text
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        connection.execute("SELECT 1")


def test_an_interrupt_at_the_end_of_connecting_leaves_what_can_be_closed(tmp_path, monkeypatch):
    """The connection is in the list of those to close, and closed all the same."""

    class Interrupted(dict):
        def __setitem__(self, connection, value):
            super().__setitem__(connection, value)
            raise KeyboardInterrupt

    real = _sqlite_connections.Connections.__init__

    def init(self, path):
        real(self, path)
        self._made = Interrupted()

    with monkeypatch.context() as patch:
        patch.setattr(_sqlite_connections.Connections, "__init__", init)
        with pytest.raises(KeyboardInterrupt):
            opened(made(tmp_path))


def test_an_interrupt_behind_the_reading_of_the_keys_closes_the_connection(tmp_path, monkeypatch):
    """At once, and not when the collector finds it."""

    def interrupted(data):
        raise KeyboardInterrupt

    made(tmp_path)
    monkeypatch.setattr(sqlite, "sha256", interrupted)
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path)
        assert str(tmp_path / "a.db") not in open_files()
    finally:
        gc.enable()


def test_threads_that_do_not_let_go_are_waited_for_together(tmp_path, monkeypatch, caplog):
    """All are told to end before one is waited for; the first takes all the time there is."""
    source = opened(made(tmp_path))
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda index: (together.wait(10), source[index]), range(2)))
    seen, seconds = [], [100.0]

    def acquire(timeout):
        seen.append(timeout)
        seconds[0] += timeout
        return False

    connections = [each.thing for each in source._connections._made]
    real = [connection.sql for connection in connections]
    for connection in connections:
        connection.lock = SimpleNamespace(acquire=acquire)
        connection.sql = SimpleNamespace(interrupt=lambda: seen.append("told"))
    clock = SimpleNamespace(monotonic=lambda: seconds[0])
    monkeypatch.setattr(_sqlite_connections, "time", clock)
    source.close()
    assert ["told"] * 3 + [_sqlite_connections._PATIENCE_SECONDS, 0, 0] == seen
    assert 3 == caplog.text.count("a connection stays open")
    for connection in real:
        connection.close()


def test_every_connection_is_closed_though_one_close_is_interrupted(tmp_path, monkeypatch):
    """As by a second Ctrl-C. The other two are closed all the same, and it the next time."""
    source = opened(made(tmp_path))
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda index: (together.wait(10), source[index]), range(2)))
    connections = [each.thing for each in source._connections._made]
    real, asked = _sqlite_connections._Connection.close, []

    def close(connection, path, until, told):
        asked.append(connection)
        if len(asked) == 1:
            raise KeyboardInterrupt
        real(connection, path, until, told)

    monkeypatch.setattr(_sqlite_connections._Connection, "close", close)
    with pytest.raises(KeyboardInterrupt):
        source.close()
    source.close()
    source.close()
    assert 3 == len(connections)
    assert [*connections, connections[0]] == asked
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            connection.sql.execute("SELECT 1")


def test_what_a_signal_handler_raises_passes_as_it_is(tmp_path, monkeypatch):
    """While the database is looked at."""
    rung = TimeoutError("rung")

    def stat(path, **options):
        raise rung

    made(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", stat)
        with pytest.raises(TimeoutError) as caught:
            opened(tmp_path)
    assert rung is caught.value


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
def test_what_comes_while_sqlite_asks_for_leave_passes_as_it_is(tmp_path, monkeypatch, kind):
    """At each time that it asks, in opening and in reading; and the row is read the next time."""
    made(tmp_path)
    real, rung, asked, sources = _sqlite_reading._denied, kind("rung"), [], []
    rings = [0]

    def ringing(*args):
        asked.append(args)
        if [len(asked)] == rings:
            raise rung
        return real(*args)

    def read(rings_at):
        asked.clear()
        rings[:] = [rings_at]
        sources.append(opened(tmp_path))
        return sources[-1][0]

    monkeypatch.setattr(_sqlite_reading, "_denied", ringing)
    assert -7 == read(0)["id"]
    times = len(asked)
    assert times > 20
    for rings_at in range(1, times + 1):
        with pytest.raises(kind) as caught:
            read(rings_at)
        assert rung is caught.value
    assert len(sources) > 1
    for source in sources:
        assert -7 == source[0]["id"]
        source.close()


def pressed(number, frame):
    """A handler of the user's for Ctrl-C, which does what Python's own does."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [signal.default_int_handler, pressed])
@pytest.mark.parametrize("on_error", [{}, {"on_error": {"skip": 9}}])
def test_ctrl_c_before_the_first_line_of_what_sqlite_asks_is_no_fault_of_a_row(
    tmp_path, monkeypatch, request, on_error, handler
):
    """There sqlite3 loses it; no batch is lost, and "skip" leaves no good row out."""
    real, rings = _sqlite_reading.Reading.authorize, []

    def ringing(*args):
        if rings:
            rings.pop()
            signal.raise_signal(signal.SIGINT)
        return real(*args)

    monkeypatch.setattr(_sqlite_reading.Reading, "authorize", ringing)
    made(tmp_path)
    query = "SELECT id FROM t"
    source = {"type": "sqlite", "path": str(tmp_path / "a.db"), "query": query, "key": "id"}
    loader = Loader({"source": source, "shuffle": False, "num_workers": 0, **on_error})
    before = signal.signal(signal.SIGINT, handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    rings.append("while it is opened")
    with pytest.raises(KeyboardInterrupt):
        loader.__enter__()
    with loader as batches:
        epoch = iter(batches)
        rings.append("while a row is read")
        with pytest.raises(KeyboardInterrupt):
            next(epoch)
        assert [[-7, 2, 5]] == [batch["id"].tolist() for batch in epoch]


def test_nothing_stays_open_when_opening_fails(tmp_path):
    """Which the fixture of all tests looks at, too: no file of it is open afterwards."""
    made(tmp_path)
    for query, key in (("SELECT id FROM no", "id"), ("SELECT text FROM t", "text")):
        with pytest.raises((ConfigError, SourceError)):
            opened(tmp_path, query, key)


def test_a_source_that_is_dropped_closes_its_database(tmp_path):
    """At once, and not with the garbage: a connection of sqlite3 leads to itself."""
    source = opened(made(tmp_path))
    assert -7 == source[0]["id"]
    (connection,) = [held.thing.sql for held in source._connections._made]
    del source
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        connection.execute("SELECT 1")


def test_of_a_source_that_was_closed_no_code_runs_when_it_is_dropped(tmp_path):
    """A finalizer would swallow a Ctrl-C that lands in it."""
    source = opened(made(tmp_path))
    finalizer = source._connections._finalizer
    assert finalizer.alive
    source.close()
    assert not finalizer.alive


def test_the_keys_are_held_as_int64(tmp_path):
    made(tmp_path, [(2**63 - 1, "a", 1), (-(2**63), "b", 1)])
    with closing(opened(tmp_path)) as source:
        assert (np.int64, [-(2**63), 2**63 - 1]) == (source._keys.dtype, source._keys.tolist())


def test_a_damaged_schema_is_an_error_of_the_file(tmp_path):
    """SQLite quotes the damaged bytes in what it says, which is then no UTF-8."""
    made(tmp_path)
    path = tmp_path / "a.db"
    whole = path.read_bytes()
    at = whole.index(b"TABLE")
    path.write_bytes(whole[: at + 4] + b"\xc5" + whole[at + 5 :])
    assert f"{path}: expected a database that can be read" in refused(tmp_path)


def test_a_damaged_name_of_a_column_is_an_error_of_the_file(tmp_path):
    """And not of the query, though it is the query that asks for the name."""
    made(tmp_path)
    path = tmp_path / "a.db"
    path.write_bytes(path.read_bytes().replace(b"label", b"la\xffel"))
    assert f"{path}: expected a database that can be read" in refused(
        tmp_path, query="SELECT * FROM t"
    )


def test_a_length_beyond_all_memory_is_an_error_of_the_file(tmp_path):
    """SQLite has no memory for what damaged bytes announce: no MemoryError for the user."""
    made(tmp_path, [(0, "zero", 1)], page_size=512)
    whole = bytearray((tmp_path / "a.db").read_bytes())
    # The cell of the table in the schema begins with its length.
    cell = int.from_bytes(whole[108:110], "big")
    whole[cell : cell + 8] = b"\xff" * 8
    (tmp_path / "a.db").write_bytes(whole)
    said = refused(tmp_path)
    assert f"{tmp_path / 'a.db'}: expected a database that can be read, got: " in said


def test_a_query_does_not_fill_the_memory_with_one_value(tmp_path):
    made(tmp_path, [(0, "zero", 1)])
    said = refused(tmp_path, query="SELECT length(zeroblob(900000000)) AS id FROM t")
    assert "expected values of at most 64 MiB and four times the size of the database" in said
    assert "got a larger one (string or blob too big); have the query give smaller ones" in said


@pytest.mark.parametrize("kind", ["NUMERIC", "DECIMAL(10, 2)"])
def test_a_cast_makes_floats_of_whole_numbers_that_sqlite_holds_as_integers(tmp_path, kind):
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, price {kind})")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(0, 1.5), (1, 3.0)])
        database.commit()
    for column, types in (("price", [float, int]), ("CAST(price AS REAL) AS price", [float] * 2)):
        with closing(opened(tmp_path, query=f"SELECT id, {column} FROM t")) as source:
            assert types == [type(source[row]["price"]) for row in range(2)]


def test_the_advice_about_a_null_is_sql_for_a_column_of_any_name(tmp_path):
    made(tmp_path)
    said = refused(tmp_path, query="SELECT id, nullif(text, 'two') AS 'a \"b' FROM t")
    assert 'as by coalesce("a ""b", 0) (0.0 where the others have a point), or leave' in said


def test_a_thread_that_comes_after_the_close_opens_nothing(tmp_path):
    source = opened(made(tmp_path))
    source.close()
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ClosedError):
            pool.submit(source.__getitem__, 0).result()


def test_a_query_that_gives_other_rows_each_time_is_an_error(tmp_path):
    with closing(opened(made(tmp_path))) as source:
        source._keys = np.array([99, 2, 5])  # as if the first time it had given this key
        with pytest.raises(SourceError, match="expected one row, got none; let the query give"):
            source[0]


def test_the_connections_of_threads_that_have_ended_are_closed_by_the_next_one(tmp_path):
    """As where a source that was given in code is read by one run after the other."""
    source = opened(made(tmp_path))
    path = str(tmp_path / "a.db")
    for _ in range(5):
        with ThreadPoolExecutor(1) as pool:
            assert 2 == pool.submit(lambda: source[1]["id"]).result()
    # That of the last one, and of the thread that has opened it.
    assert 2 == len(source._connections._made)
    assert 2 == source[1]["id"]
    source.close()
    assert path not in open_files()


def test_of_several_threads_that_find_what_is_left_over_one_closes_it(tmp_path, caplog):
    source = opened(made(tmp_path))
    for _ in range(5):
        with ThreadPoolExecutor(4, initializer=threading.Barrier(4).wait) as pool:
            got = list(pool.map(lambda row: source[1]["id"], range(4)))
        assert [2] * 4 == got
    assert len(source._connections._made) <= 1 + 4 + 4
    source.close()
    assert not caplog.text


def test_what_is_left_over_and_cannot_be_closed_fails_no_read(tmp_path, monkeypatch):
    source = opened(made(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: source[1]).result()

    def close(self, path, until, told):
        self.sql.close()  # or the interpreter warns of what ends open
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(_sqlite_connections._Connection, "close", close)
        assert 2 == pool.submit(lambda: source[1]["id"]).result()
    source.close()


def answers(held):
    """Tell whether a connection is open."""
    try:
        held.thing.sql.execute("SELECT 1").close()
    except sqlite3.ProgrammingError:
        return False
    return True


def in_fork(work):
    """Tell whether something is true in a forked child."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    child = os.fork()
    if not child:
        true = False
        try:
            true = work()
        finally:
            os._exit(not true)
    return 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the fork, where threads run
def test_a_fork_reads_by_a_connection_of_its_own_and_closes_that_alone(tmp_path):
    """SQLite forbids it to use, or to close, what the thread that forks had opened."""
    source = opened(made(tmp_path))
    (parents,) = source._connections._made

    def read_and_close():
        used = []
        parents.thing.sql.set_trace_callback(used.append)
        sample = source[1]["id"]
        (own,) = source._connections._made
        source.close()
        source.close()
        kept = not used
        parents.thing.sql.execute("SELECT 1").close()  # or it has been closed
        return kept and sample == 2 and not answers(own)

    assert in_fork(read_and_close)
    assert 2 == source[1]["id"]
    source.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the fork, where threads run
def test_a_fork_leaves_the_connections_of_its_parents_threads_alone(tmp_path):
    source = opened(made(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: source[1]).result()
        before = list(source._connections._made)
        assert 2 == len(before)

        def read():
            thread = threading.Thread(target=lambda: source[1])
            thread.start()
            thread.join()
            return all(map(answers, before)) and len(source._connections._made) == 1

        assert in_fork(read)
    source.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system lists no open files")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the fork, where threads run
def test_a_fork_that_drops_the_source_closes_nothing_of_its_parents(tmp_path):
    """What is freed is closed, and so it is kept alive."""
    sources = [opened(made(tmp_path))]

    def drop():
        before = open_files()
        sources.clear()
        gc.collect()
        return str(tmp_path / "a.db") in before <= open_files()

    assert in_fork(drop)
    assert 2 == sources[0][1]["id"]
    sources[0].close()


@pytest.mark.parametrize("query", ["fts3_tokenizer('simple')", "FTS3_TOKENIZER('x', x'4141')"])
def test_a_function_that_takes_a_number_for_code_is_refused(tmp_path, query):
    """Where SQLite is built with it, the second would be called."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table t(id integer primary key)")
        database.execute("insert into t values(1)")
        database.commit()
    spec = {"type": "sqlite", "path": str(path), "query": f"SELECT id, {query} AS n FROM t"}
    with pytest.raises(ConfigError, match=r"the function fts3_tokenizer|no such function"):
        open_source({**spec, "key": "id"})


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither pipes with names nor such links")
@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("-journal", "x.db-journal, which is no regular file"),
        ("-wal", "x.db-wal, which is no regular file"),
        ("-shm", "x.db-shm to be SQLite's alone, got a file with further names"),
    ],
)
def test_what_lies_beside_a_database_is_looked_at_before_sqlite_opens_it(tmp_path, ending, said):
    """A pipe would be waited for, and a file with another name written into."""
    path, beside, other = tmp_path / "x.db", tmp_path / f"x.db{ending}", tmp_path / "other"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table t(id integer primary key)")
        database.execute("insert into t values(1)")
        database.commit()
    other.write_bytes(b"somebody's")
    if ending == "-shm":
        os.link(other, beside)
    else:
        os.mkfifo(beside)
    spec = {"type": "sqlite", "path": str(path), "query": "SELECT id FROM t", "key": "id"}
    with pytest.raises(SourceError, match=said):
        open_source(spec)
    assert b"somebody's" == other.read_bytes()
    beside.unlink()
    with closing(open_source(spec)) as source:
        assert {"id": 1} == source[0]
