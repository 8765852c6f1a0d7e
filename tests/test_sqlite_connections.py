"""Each thread and each fork reads by a connection of its own, closed once nobody reads by it."""

import gc
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from conftest import open_files
from databases import made, opened, reader

from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import _sqlite_connections

WAIT = 60.0
"""Seconds after which a test gives up."""


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
        together.wait(WAIT)
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
        with reader(source).connections.mine() as connection:
            connection.set_progress_handler(running.set, 1000)
            connection.execute(endless).fetchone()

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert running.wait(WAIT)
        source.close()
        assert isinstance(reading.exception(WAIT), ClosedError)


def test_a_thread_that_does_not_let_go_keeps_its_connection(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_sqlite_connections, "_PATIENCE_SECONDS", 0)
    made(tmp_path)
    source = opened(tmp_path)
    reading, closed = threading.Event(), threading.Event()

    def read():
        with reader(source).connections.mine() as connection:
            reading.set()
            assert closed.wait(WAIT)
            found = connection.execute("SELECT 1").fetchone()
            connection.close()
            return found

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(read)
        assert reading.wait(WAIT)
        source.close()
        assert "a connection stays open, since a thread still reads by it" in caplog.text
        closed.set()
        assert isinstance(found.exception(WAIT), ClosedError)


def test_threads_that_do_not_let_go_are_waited_for_together(tmp_path, monkeypatch, caplog):
    """All are told to end before one is waited for; the first takes all the time there is."""
    source = opened(made(tmp_path))
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda index: (together.wait(WAIT), source[index]), range(2)))
    seen, seconds = [], [100.0]

    def acquire(timeout):
        seen.append(timeout)
        seconds[0] += timeout
        return False

    connections = [each.thing for each in reader(source).connections._made]
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


@pytest.mark.parametrize(
    ("query", "key", "size"),
    [
        ("SELECT id FROM no", "id", None),
        ("SELECT text FROM t", "text", None),
        ("SELECT id FROM t", "id", 4097),  # no whole page
        ("SELECT id FROM t", "id", 99),  # not even a database
    ],
)
def test_nothing_stays_open_when_opening_fails(tmp_path, query, key, size):
    """At once, though whoever keeps the error keeps all that its traceback leads to."""
    made(tmp_path)
    if size is not None:
        os.truncate(tmp_path / "a.db", size)
    with pytest.raises((ConfigError, SourceError)) as caught:
        opened(tmp_path, query, key)
    assert caught.value.__traceback__ is not None
    assert str(tmp_path / "a.db") not in open_files()


def test_a_source_that_is_dropped_closes_its_database(tmp_path):
    """At once, and not with the garbage: a connection of sqlite3 leads to itself."""
    source = opened(made(tmp_path))
    assert -7 == source[0]["id"]
    (connection,) = [held.thing.sql for held in reader(source).connections._made]
    del source
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        connection.execute("SELECT 1")


def test_of_a_source_that_was_closed_no_code_runs_when_it_is_dropped(tmp_path):
    """A finalizer would swallow a Ctrl-C that lands in it."""
    source = opened(made(tmp_path))
    finalizer = reader(source).connections._finalizer
    assert finalizer.alive
    source.close()
    assert not finalizer.alive


def test_a_thread_that_comes_after_the_close_opens_nothing(tmp_path):
    source = opened(made(tmp_path))
    source.close()
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ClosedError):
            pool.submit(source.__getitem__, 0).result()


def test_a_connection_that_is_made_while_the_source_is_closed_is_closed_too(tmp_path, monkeypatch):
    """1. A thread is about to connect. 2. Another one closes the source. 3. The first connects."""
    source = opened(made(tmp_path))
    compare = reader(source).connections._compare

    def closing():
        source.close()
        compare()

    monkeypatch.setattr(reader(source).connections, "_compare", closing)
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(source.__getitem__, 0).exception()
    assert isinstance(error, ClosedError)
    assert str(tmp_path / "a.db") not in open_files()


def test_the_connections_of_threads_that_have_ended_are_closed_by_the_next_one(tmp_path):
    """As where a source that was given in code is read by one run after the other."""
    source = opened(made(tmp_path))
    path = str(tmp_path / "a.db")
    for _ in range(5):
        with ThreadPoolExecutor(1) as pool:
            assert 2 == pool.submit(lambda: source[1]["id"]).result()
    # That of the last one, and of the thread that has opened it.
    assert 2 == len(reader(source).connections._made)
    assert 2 == source[1]["id"]
    source.close()
    assert path not in open_files()


def test_of_several_threads_that_find_what_is_left_over_one_closes_it(tmp_path, caplog):
    source = opened(made(tmp_path))
    for _ in range(5):
        with ThreadPoolExecutor(4, initializer=threading.Barrier(4).wait) as pool:
            got = list(pool.map(lambda row: source[1]["id"], range(4)))
        assert [2] * 4 == got
    assert len(reader(source).connections._made) <= 1 + 4 + 4
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
    (parents,) = reader(source).connections._made

    def read_and_close():
        used = []
        parents.thing.sql.set_trace_callback(used.append)
        sample = source[1]["id"]
        (own,) = reader(source).connections._made
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
        before = list(reader(source).connections._made)
        assert 2 == len(before)

        def read():
            thread = threading.Thread(target=lambda: source[1])
            thread.start()
            thread.join()
            return all(map(answers, before)) and len(reader(source).connections._made) == 1

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
