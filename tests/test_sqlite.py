"""The sqlite source: the rows of a query by key, each as it is, or an error that says why."""

import logging
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from databases import QUERY, made, opened, reader, refused, run
from hypothesis import given
from hypothesis import strategies as st
from opened_sources import close_at, samples

from threadloader.errors import SourceError
from threadloader.sources import _progress, _sqlite_database


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
    assert reader(source).keys.tolist() == [sample["id"] for sample in samples(source)]


def test_the_keys_of_a_query_without_a_limit_are_read_from_an_index(tmp_path):
    """Which is smaller than the table."""
    indexed(tmp_path)
    with closing(opened(tmp_path)) as source, reader(source).connections.mine() as connection:
        statement, values = reader(source)._key_statement()
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
    close_at(source, 3)


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
    monkeypatch.setattr(_sqlite_database, "_ROWS", 2)
    with caplog.at_level(logging.INFO, "threadloader"):
        opened(made(tmp_path)).close()
    assert "a.db: 2 keys read" in caplog.text


def test_the_keys_are_held_as_int64(tmp_path):
    made(tmp_path, [(2**63 - 1, "a", 1), (-(2**63), "b", 1)])
    with closing(opened(tmp_path)) as source:
        assert (np.int64, [-(2**63), 2**63 - 1]) == (
            reader(source).keys.dtype,
            reader(source).keys.tolist(),
        )


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


def test_a_query_that_gives_other_rows_each_time_is_an_error(tmp_path):
    with closing(opened(made(tmp_path))) as source:
        reader(source).keys = np.array([99, 2, 5])  # as if the first time it had given this key
        with pytest.raises(SourceError, match="expected one row, got none; let the query give"):
            source[0]
