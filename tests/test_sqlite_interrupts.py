"""An interrupt passes as it is, wherever it comes: no row is lost, no connection stays open."""

import itertools
import operator
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from conftest import open_files
from databases import made, opened, reader
from numbered_jobs import until

from threadloader import ClosedError, Loader
from threadloader.sources import _sqlite_connections, _sqlite_reading, sqlite

WAIT = 60.0
"""Seconds after which a test gives up."""


def test_a_thread_closes_the_connection_that_an_interrupt_left_it_holding(tmp_path, caplog):
    """As a Ctrl-C in contextlib does, before it goes on with the generator."""
    source = opened(made(tmp_path))
    held = reader(source).connections.mine()
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
        with pytest.raises(KeyboardInterrupt) as caught:
            opened(made(tmp_path))
    assert caught.value.__traceback__ is not None  # it leads to the connection
    assert str(tmp_path / "a.db") not in open_files()


def test_an_interrupt_behind_the_reading_of_the_keys_closes_the_connection(tmp_path, monkeypatch):
    """At once, though whoever keeps the interrupt keeps what its traceback leads to."""

    def interrupted(data):
        raise KeyboardInterrupt

    made(tmp_path)
    monkeypatch.setattr(sqlite, "sha256", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        opened(tmp_path)
    assert caught.value.__traceback__ is not None
    assert str(tmp_path / "a.db") not in open_files()


def test_every_connection_is_closed_though_one_close_is_interrupted(tmp_path, monkeypatch):
    """As by a second Ctrl-C. The other two are closed all the same, and it the next time."""
    source = opened(made(tmp_path))
    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda index: (together.wait(WAIT), source[index]), range(2)))
    connections = [each.thing for each in reader(source).connections._made]
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


def test_what_a_signal_handler_raises_beside_a_connection_that_is_left_over_passes(
    tmp_path, rung, monkeypatch
):
    """It is no error of the closing; and what it has kept open is closed by the next read."""
    with ThreadPoolExecutor(1) as pool:
        source = pool.submit(opened, made(tmp_path)).result()
    (left,) = reader(source).connections._made

    def ringing(*args):
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(_sqlite_connections._Connection, "close", ringing)
        with pytest.raises(TimeoutError, match="rung"):
            source[1]
    assert 2 == source[1]["id"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        left.thing.sql.execute("SELECT 1")
    source.close()


def test_what_comes_before_sqlite_is_told_whom_to_ask_leaves_the_one_of_before(tmp_path):
    """Which has ended: so the next read tells it anew, and is not refused for ever."""

    class Rung:
        def set_progress_handler(self, *arguments):
            raise KeyboardInterrupt

    with closing(opened(made(tmp_path))) as source:
        connections = reader(source).connections
        (connection,) = (held.thing for held in connections._made)
        before, sql = connection.going_on, connection.sql
        connection.sql = Rung()
        with pytest.raises(KeyboardInterrupt):
            connection.ask(connections.reading)
        connection.sql = sql
        assert before is connection.going_on


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


class Noting(map):
    """The generator by which SQLite asks, and how often; in C, so that nothing else is run."""

    gi_frame = "has not ended"


COUNTING = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 100000000)"
"""Rows that SQLite makes for many seconds; of this many, so that a test that fails ends."""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals come from outside here")
@pytest.mark.parametrize(
    "query",
    [f"{COUNTING} SELECT x AS id FROM c WHERE x < 0", f"{COUNTING} SELECT count(*) AS id FROM c"],
    ids=["a row never comes", "one row comes late"],
)
def test_a_signal_is_seen_while_sqlite_works_and_gives_no_row(tmp_path, monkeypatch, rung, query):
    """What its handler raises comes out as it is. Else even Ctrl-C waits for the next row."""
    real, most = _sqlite_reading.Reading.go_on, 10**6
    asked = itertools.repeat(0, most)

    def ring():
        # In C, so that the handler runs where it would run otherwise.
        until(lambda: operator.length_hint(asked) < most - 2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    monkeypatch.setattr(
        _sqlite_reading.Reading, "go_on", lambda self: Noting(operator.add, real(self), asked)
    )
    thread = threading.Thread(target=ring)
    thread.start()
    with pytest.raises(TimeoutError, match="rung"):
        opened(made(tmp_path), query)
    thread.join(WAIT)
    assert -7 == opened(tmp_path)[0]["id"]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals come from outside here")
@pytest.mark.parametrize("kind", [TimeoutError, GeneratorExit])
def test_a_connection_goes_on_behind_any_number_of_signals(tmp_path, monkeypatch, kind, request):
    """Also where the handler raises what would end a generator, as that by which SQLite asks."""

    def handler(number, frame):
        raise kind("rung")

    before = signal.signal(signal.SIGINT, handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    real, most = _sqlite_reading.Reading.go_on, 10**6
    asked = itertools.repeat(0, most)
    monkeypatch.setattr(
        _sqlite_reading.Reading, "go_on", lambda self: Noting(operator.add, real(self), asked)
    )
    slow = f"CASE id WHEN 5 THEN ({COUNTING} SELECT count(*) FROM c) ELSE 0 END"
    source = opened(made(tmp_path), f"SELECT id, {slow} AS n FROM t")
    for _ in range(3):
        seen = operator.length_hint(asked)

        def ring(seen=seen):
            until(lambda: operator.length_hint(asked) < seen - 2)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        thread = threading.Thread(target=ring)
        thread.start()
        with pytest.raises(kind, match="rung"):
            source[2]
        thread.join(WAIT)
        assert {"id": -7, "n": 0} == source[0]
    source.close()


def test_a_second_signal_at_the_same_moment_leaves_no_good_row_out(tmp_path, monkeypatch, rung):
    """It ends what SQLite asks, which a run that goes on makes anew."""
    real = _sqlite_reading.Reading.go_on
    ends = []

    def ending(self):
        yield next(going := real(self))
        while not ends:
            yield next(going)
        signal.raise_signal(signal.SIGINT)  # as where the first one has been kept

    monkeypatch.setattr(_sqlite_reading.Reading, "go_on", ending)
    monkeypatch.setattr(_sqlite_connections, "_ASKED_EACH", 1)
    source = opened(made(tmp_path))
    assert -7 == source[0]["id"]
    ends.append(True)
    with pytest.raises(KeyboardInterrupt):
        source[0]
    ends.clear()
    assert [-7, 2] == [source[0]["id"], source[1]["id"]]
    ends.append(True)
    with pytest.raises(KeyboardInterrupt):
        source[0]
    source.close()
    with pytest.raises(ClosedError):
        source[0]


CLOSES = """
import itertools, operator, signal, sys, threading
from threadloader import Loader
from threadloader.sources import _sqlite_reading, open_source

class Noting(map):
    gi_frame = "has not ended"

real, most = _sqlite_reading.Reading.go_on, 10**6
asked = itertools.repeat(0, most)
_sqlite_reading.Reading.go_on = lambda self: Noting(operator.add, real(self), asked)
query = sys.argv[2]
source = open_source({"type": "sqlite", "path": sys.argv[1], "query": query, "key": "id"})

def handler(*args):
    source.close()
    raise SystemExit(3)

signal.signal(signal.SIGINT, handler)

class Read:
    def __len__(self):
        return 1
    def __getitem__(self, index):
        seen = operator.length_hint(asked)
        threading.Thread(target=ring, args=(seen,)).start()
        return source[index]

def ring(seen):
    while operator.length_hint(asked) > seen - 2:
        pass  # until the statement is at work
    signal.pthread_kill(main, signal.SIGINT)

main = threading.main_thread().ident
with Loader({"num_workers": 0}, source=Read()) as batches:
    next(iter(batches))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals come from outside here")
def test_a_handler_that_closes_the_source_in_the_middle_of_a_statement_ends_the_program(
    tmp_path, run_child
):
    """Python crashed: what SQLite asked was freed while it was being asked."""
    query = f"SELECT id, ({COUNTING} SELECT count(*) FROM c) + id AS n FROM t"
    child = run_child(CLOSES, str(made(tmp_path) / "a.db"), query)
    assert (3, "") == (child.returncode, child.stdout)
    assert "Exception ignored" not in child.stderr


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
