"""Closing that was cut short, or is called again or within itself, closes all, and each once."""

import gc
import os
import signal
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from conftest import open_files, our_threads
from leaks import PATIENCE
from sweep import Interrupt, Sweep

from threadloader import ClosedError, Loader, per_thread
from threadloader.sources import _per_thread
from threadloader.sources._closing import Held, Token
from threadloader.sources._files import FileReader
from threadloader.sources._sqlite_connections import Connections


class Opened:
    """Samples over something that is open until it is closed, once or several times."""

    still = 0

    def __init__(self):
        self.open = True
        Opened.still += 1

    def __len__(self):
        return 4

    def __getitem__(self, index):
        assert self.open
        return index

    def close(self):
        Opened.still -= self.open
        self.open = False


def test_a_close_does_not_wait_for_the_thread_that_is_inside_next():
    """That leaves its lock taken: the next one stands in another's place. A later close forgets."""
    taken, leave = threading.Event(), threading.Event()
    with Loader({"num_workers": 2}, range(8)) as batches:
        next(iter(batches))
        lock = batches._run.turn.lock

        def inside():
            lock.acquire()
            taken.set()
            leave.wait()
            lock.release()

        threads = [threading.Thread(target=inside), threading.Thread(target=batches.close)]
        threads[0].start()
        taken.wait()
        threads[1].start()
        threads[1].join(PATIENCE)
        waits, ended = threads[1].is_alive(), batches._ended
        leave.set()
        for thread in threads:
            thread.join()
        assert (False, False) == (waits, ended)
        batches.close()
        assert batches._ended


@pytest.mark.parametrize("raises", [KeyboardInterrupt, TimeoutError, SystemExit])
def test_closing_again_closes_what_an_interrupt_left_open(raises, monkeypatch):
    """At each line of closing three objects; afterwards the source can be used anew."""
    monkeypatch.setattr(Opened, "still", 0)
    source = per_thread(Opened)
    for at in range(1, 200):
        assert 4 == len(source)
        with ThreadPoolExecutor(1) as pool:
            assert 3 == pool.submit(source.__getitem__, 3).result()
            assert 2 == Opened.still
        with Interrupt(raises) as interrupt:
            sweep = Sweep(at, interrupt)
            try:
                with sweep:
                    source.close()
            except raises as error:
                interrupt.came_as(error)
            source.close()
            interrupt.look()
        assert 0 == Opened.still, sweep.where
        if not sweep.where:
            break
    assert 20 < at < 199


def test_a_loader_that_is_interrupted_while_it_closes_its_objects_closes_them(monkeypatch):
    """A Ctrl-C lands before the first of them; leaving begins anew, and raises it."""
    monkeypatch.setattr(Opened, "still", 0)
    real = _per_thread.close_each

    def pressed(close, things):
        monkeypatch.setattr(_per_thread, "close_each", real)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal has not come")

    loader = Loader({"num_workers": 2}, per_thread(Opened))
    next(iter(loader.__enter__()))
    assert Opened.still
    monkeypatch.setattr(_per_thread, "close_each", pressed)
    with pytest.raises(KeyboardInterrupt):
        loader.__exit__(None, None, None)
    assert 0 == Opened.still


def test_what_fails_on_the_way_to_closing_leaves_it_for_the_next_time(monkeypatch):
    """Out of memory, say, or of stack: no object was asked to close by then."""
    monkeypatch.setattr(Opened, "still", 0)
    real = _per_thread.close_each

    def short(close, things):
        monkeypatch.setattr(_per_thread, "close_each", real)
        raise MemoryError

    with Loader({"num_workers": 0}, per_thread(Opened)) as batches:
        next(iter(batches))
        monkeypatch.setattr(_per_thread, "close_each", short)
        with pytest.raises(MemoryError):
            batches.close()
        assert Opened.still
    assert 0 == Opened.still


@pytest.mark.parametrize(
    "raised",
    [
        OSError(5, "the disk is gone"),
        OSError("gone"),
        TimeoutError("gone"),
        SystemExit("gone"),
        KeyboardInterrupt("gone"),
    ],
    ids=repr,
)
def test_what_could_not_be_closed_is_not_closed_twice(raised):
    """An exception of its own says that it has done what it could; one of a handler would not."""
    asked = []

    class Stubborn(Opened):
        def close(self):
            asked.append(self)
            raise raised

    source = per_thread(Stubborn)
    for count in (1, 2):  # a later use has nothing to do with it
        assert 4 == len(source)
        with pytest.raises(type(raised), match="gone"):
            source.close()
        source.close()
        assert count == len(asked)


def test_a_close_that_would_fail_each_time_is_asked_once_and_hides_no_error_of_the_body():
    """Each way out of the `with` begins anew where it was cut short, which this was not."""
    asked = []

    def fail():
        asked.append(1)
        raise OSError(28, "the disk is full")

    loader = Loader({"num_workers": 0}, list(range(4)))

    def run():
        with loader as batches:
            batches._close_source = fail
            raise LookupError("of the body")

    for _ in range(2):
        with pytest.raises(LookupError, match="of the body") as caught:
            run()
        assert "closing the source failed: OSError(28" in caught.value.__notes__[0]
    assert 2 == len(asked)


def test_what_is_being_closed_is_not_closed_in_the_middle_of_that():
    """As by a signal's handler, or by a finalizer: the close goes on behind it."""
    asked = []

    class Nested(Opened):
        def close(self):
            asked.append(self)
            source.close()

    source = per_thread(Nested)
    assert 4 == len(source)
    source.close()
    source.close()
    assert 1 == len(asked)


def test_a_close_that_is_cut_short_is_called_three_times():
    """Else one that hangs takes a Ctrl-C for each of the levels that would make it good."""
    calls = []

    class Hanging(Opened):
        def close(self):
            calls.append(self)
            signal.raise_signal(signal.SIGINT)

    loader = Loader({"num_workers": 0}, per_thread(Hanging))
    with pytest.raises(KeyboardInterrupt), loader as batches:
        next(iter(batches))
    with suppress(KeyboardInterrupt):
        batches.close()
    assert [calls[0]] * 3 == calls


def test_a_lock_that_an_interrupt_left_taken_holds_up_no_later_close():
    """Its own thread closes the thing all the same; another one passes it by, and does not wait.

    The interrupt comes right behind the `acquire`: no line begins there for a sweep to find.
    """
    closed, said, held = [], [], Held("the thing", Token())
    held._closing.acquire()
    other = threading.Thread(target=lambda: said.append(held.close(closed.append)), daemon=True)
    other.start()
    other.join(PATIENCE)
    assert ([False], []) == (said, closed)
    assert held.close(closed.append)
    assert ["the thing"] == closed


def file_reader(path):
    """A reader with a handle for each thread, as where the system has no `os.pread`."""
    path.write_bytes(b"abc")
    reader = FileReader(path, shared=False)
    return reader, lambda: reader.read(0, 3)


def connections(path):
    if not path.exists():
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    made = Connections(path)

    def read():
        with made.mine() as connection:
            return connection.execute("SELECT * FROM t").fetchall()

    return made, read


def objects(path):
    path.touch()
    source = per_thread(lambda: Lines(path))
    return source, source.mine


class Lines:
    """A file as a user's object; it is closed once."""

    def __init__(self, path):
        self.file = path.open("rb")

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.file.read()  # pragma: no cover - a source offers it, and nobody reads here

    def close(self):
        assert not self.file.closed
        self.file.close()


@pytest.mark.parametrize("opening", [file_reader, connections, objects])
def test_closing_at_each_line_in_the_same_thread_waits_for_nothing(tmp_path, opening):
    """As a signal's handler or a finalizer does, in the middle of opening, reading and closing."""
    hung = []

    def sweep_all():
        for at in range(1, 400):
            opened, read = opening(tmp_path / "data")
            with ThreadPoolExecutor(1) as pool:
                pool.submit(read).result()

            def close(frame, opened=opened):
                # What SQLite calls in the middle of its own work may not close its connection.
                if frame.f_code.co_name not in ("authorize", "_denied"):
                    opened.close()

            sweep = Sweep(at, close)
            hung[:] = [sweep]
            with sweep, suppress(ClosedError):
                read()
                opened.close()
            opened.close()
            if str(tmp_path / "data") in open_files():
                gc.collect()  # from CPython 3.12 on, a statement that was cut short is in a cycle
            assert str(tmp_path / "data") not in open_files(), sweep.where
            if not sweep.where:
                break
        assert 20 < at < 399
        hung.clear()

    # Not in the main thread, which a close that waits for itself would keep for ever.
    thread = threading.Thread(target=sweep_all, daemon=True)
    thread.start()
    thread.join(60)
    assert [] == [sweep.where for sweep in hung]


def forked(close):
    """Closes in a fork, and gives how that ended."""
    if not (child := os.fork()):
        code = 1
        try:
            signal.alarm(10)  # the end of one that waits for ever
            close()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the fork, where threads run
@pytest.mark.parametrize("opening", [file_reader, connections])
def test_a_fork_closes_what_a_thread_of_its_parent_was_opening(tmp_path, opening):
    """At each line of that: the thread is not there to go on."""
    forks = 0
    for at in range(1, 400):
        opened, read = opening(tmp_path / "data")
        told, goes_on = threading.Event(), threading.Event()

        def stand(frame, told=told, goes_on=goes_on):
            if frame.f_code.co_name in ("_connection", "_handle"):
                told.set()
                assert goes_on.wait(60)

        sweep = Sweep(at, stand)

        def read_swept(read=read, sweep=sweep, told=told):
            with sweep:
                read()
            told.set()

        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read_swept)
            assert told.wait(60)
            stands = sweep.where.endswith(("_connection", "_handle"))
            status = forked(opened.close) if stands else 0
            goes_on.set()
            reading.result()
        opened.close()
        assert 0 == status, sweep.where
        forks += stands
        if not sweep.where:
            break
    assert 5 < forks
    assert at < 399


@pytest.mark.parametrize("raises", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("opening", [file_reader, connections])
def test_closing_again_closes_the_files_that_an_interrupt_left_open(tmp_path, opening, raises):
    """At each line of closing what two threads have read by."""
    for at in range(1, 200):
        opened, read = opening(tmp_path / "data")
        read()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(read).result()
        with Interrupt(raises) as interrupt:
            sweep = Sweep(at, interrupt)
            try:
                with sweep:
                    opened.close()
            except raises as error:
                interrupt.came_as(error)
            opened.close()
            interrupt.look()
        assert str(tmp_path / "data") not in open_files(), sweep.where
        if not sweep.where:
            break
    assert 8 < at < 199


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="from 3.12 on CPython reports no instructions here"
)
def test_an_interrupt_on_the_way_to_closing_ends_the_threads(monkeypatch):
    """At each instruction of `__exit__` but its first, on which nothing of it has run yet."""
    # In a finalizer CPython reports it and swallows it, which `Interrupt` counts.
    monkeypatch.setattr(sys, "unraisablehook", lambda told: None)
    for at in range(2, 2000):
        loader = Loader({"num_workers": 1}, [1, 2, 3])
        loader.__enter__()
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt, opcodes=True)
            try:
                with sweep:
                    loader.__exit__(None, None, None)
            except KeyboardInterrupt as error:
                interrupt.came_as(error)
            interrupt.look()
        assert set() == our_threads(), sweep.where
        with loader as batches:  # it is not taken for open
            assert 3 == sum(map(len, batches))
        if not sweep.where:
            break
    assert 20 < at < 1999


def test_what_is_closed_asks_for_nothing_when_it_is_closed_again(monkeypatch):
    """At the program's end Python may have emptied the modules, as where jax was imported."""
    with Loader({"num_workers": 1}, range(3)) as batches:
        next(iter(batches))
    monkeypatch.delattr(type(batches._supply), "stop")
    batches.close()
