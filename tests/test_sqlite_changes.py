"""A database is read as it was when it was opened, with its log; a change to it is an error."""

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from databases import made, opened
from links import make_link
from opened_sources import samples

from threadloader.errors import SourceError
from threadloader.sources import _sqlite_connections, stamp

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
