"""A query may read whatever it likes and change nothing: all else is an error of the config."""

import os
import sqlite3
from contextlib import closing

import pytest
from databases import made, opened, reader, refused, run
from opened_sources import samples

from threadloader.errors import ConfigError
from threadloader.sources import open_source

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
        reader(source).connections.mine() as connection,
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
    with closing(opened(tmp_path)) as source, reader(source).connections.mine() as connection:
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
    with closing(opened(tmp_path)) as source, reader(source).connections.mine() as connection:
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
