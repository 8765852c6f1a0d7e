"""What is logged of a thread that is stuck: within a bound, whatever the log does (G6, G11)."""

import logging
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from databases import reader
from listened import LOG, heard

from threadloader import Loader
from threadloader._runtime import RUNTIME, Runtime
from threadloader.engine import ENDED, Engine, _engine, _log_thread
from threadloader.sources import _sqlite_connections, open_source, per_thread

__all__ = ["heard"]  # the fixture

WAIT = 30.0
"""Seconds after which a test gives up."""


@pytest.fixture
def go_on():
    """Set behind the test, which leaves threads behind that wait for it; they end then."""
    event, before = threading.Event(), set(threading.enumerate())
    yield event
    event.set()
    while left := set(threading.enumerate()) - before:  # one that stops may begin another to log
        for thread in left:
            if thread.ident is None:  # it is being started, and cannot be joined yet
                time.sleep(0)
                continue
            thread.join(WAIT)
            assert not thread.is_alive()


@pytest.fixture
def raised(monkeypatch):
    """Lists the kinds of exceptions that have ended a thread; `wait` waits for the next one."""
    kinds, told = [], threading.Semaphore(0)

    def hook(args):
        kinds.append(args.exc_type)
        told.release()

    monkeypatch.setattr(threading, "excepthook", hook)
    return SimpleNamespace(kinds=kinds, wait=lambda: told.acquire(timeout=WAIT))


@pytest.fixture
def patient(monkeypatch):
    """Has a stop wait for the feeder's report, which takes its time on a busy machine."""
    monkeypatch.setattr(_engine, "GRACE_SECONDS", WAIT)


class Job:
    """A job of one part, which calls a function."""

    parts = 1
    light = False

    def __init__(self, do):
        self._do = do

    def run(self, parts):
        for _ in parts:
            self._do()

    def finish(self):
        return "done"

    def failed(self, part):
        pass

    def describe(self, part):
        return f"part {part}"


def ends(function):
    """Say whether a function comes back, which it does in a thread of its own."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(WAIT)
    return not thread.is_alive()


def stuck_engine(workers, go_on, runtime=RUNTIME):
    """Give an engine of which each worker is in a job until it may go on."""
    inside = threading.Barrier(workers + 1)
    engine = Engine(workers, 0.05, runtime)
    engine.start()
    jobs = [Job(lambda: (inside.wait(WAIT), go_on.wait(WAIT)))] * workers
    engine.stream(iter(jobs), depth=workers).prefetch()
    inside.wait(WAIT)
    return engine


def test_a_stop_ends_while_a_worker_is_stuck_in_the_log(heard, go_on, monkeypatch):
    """G6: it holds the lock of a handler that has to be told of it, and is told when it can be."""
    monkeypatch.setattr(_log_thread, "SAY_SECONDS", 0.01)
    inside = threading.Event()

    def stuck(text):
        if text == "mine":
            inside.set()
            assert go_on.wait(WAIT)

    texts = heard(stuck)
    engine = Engine(1, 0.05)
    engine.start()
    engine.stream(iter([Job(lambda: LOG.error("mine"))]), depth=1).prefetch()
    assert inside.wait(WAIT)
    assert ends(engine.stop)
    go_on.set()
    deadline = time.monotonic() + WAIT
    while not any("threadloader-worker-0 has not ended" in text for text in texts[1:]):
        assert time.monotonic() < deadline
        time.sleep(0)


def test_a_batch_is_given_while_the_word_of_a_stall_is_stuck_in_the_log(heard, go_on, monkeypatch):
    """G11: who waits for the batch does not wait for the log."""
    monkeypatch.setattr(_log_thread, "SAY_SECONDS", 0.01)
    told, let_go = threading.Event(), threading.Event()

    def stuck(text):
        told.set()
        assert go_on.wait(WAIT)

    heard(stuck)
    engine = Engine(1, 5.0, stall_seconds=0.05)
    engine.start()
    stream = engine.stream(iter([Job(lambda: let_go.wait(WAIT))]), depth=1)
    stream.prefetch()

    def next_one():
        threading.Thread(target=lambda: told.wait(WAIT) and let_go.set()).start()
        assert stream.result(0).value == "done"

    given = ends(next_one)
    go_on.set()
    engine.stop()
    assert given


@pytest.mark.usefixtures("patient")
def test_a_log_that_stops_the_threads_does_not_wait_for_who_waits_for_it(heard, go_on):
    """G6: it is asked in the name of the threads, which only tells them; each is told of."""
    stopped = []
    texts = heard(lambda text: stopped.append(engine.stop()))
    engine = stuck_engine(2, go_on)
    assert ends(engine.stop)
    assert [False, False] == stopped
    assert ["threadloader-worker-0", "threadloader-worker-1"] == [text.split()[0] for text in texts]


def test_a_log_that_stops_the_threads_at_a_stall_wakes_the_consumer(heard, go_on, monkeypatch):
    """G5: though the iterator of jobs never comes back; it is asked in nobody's name then."""
    monkeypatch.setattr(_log_thread, "SAY_SECONDS", 0.01)
    engine = Engine(1, 0.05, stall_seconds=0.05)
    heard(lambda text: "nothing has moved" in text and engine.stop())
    engine.start()
    stream = engine.stream(filter(lambda job: go_on.wait(WAIT), [Job(None)]), depth=1)
    assert ends(lambda: stream.result(0))
    assert ENDED is stream.result(0)


@pytest.mark.usefixtures("patient")
def test_a_record_comes_from_this_package(heard, go_on):
    """So says a format with `%(module)s` in it, and whoever filters by that."""
    heard()
    handler, seen = LOG.handlers[-1], []
    handler.emit = lambda record: seen.append(record.module)
    assert ends(stuck_engine(1, go_on).stop)
    assert ["_log_thread"] == seen


@pytest.mark.usefixtures("patient")
def test_one_log_that_is_stuck_is_waited_for_once(heard, go_on, monkeypatch):
    """G6: however many workers are stuck, one thread stands in the log, and the feeder ends."""
    monkeypatch.setattr(_log_thread, "SAY_SECONDS", 0.01)
    inside = threading.Event()
    heard(lambda text: inside.set() or go_on.wait(WAIT))
    assert ends(stuck_engine(3, go_on).stop)
    assert inside.wait(WAIT)  # on a busy machine it begins behind the end of the bound
    names = [thread.name for thread in threading.enumerate()]
    assert (0, 1) == (names.count("threadloader-feeder"), names.count("threadloader-log"))


def test_a_feeder_that_waits_for_a_slow_log_is_not_taken_for_stuck(heard, go_on):
    """G6: its report is late then, as here, where the log takes until it is late."""
    telling, late = threading.Event(), threading.Event()

    class Late(Runtime):
        def wait(self, lock, timeout=None):
            if timeout == pytest.approx(0.05 + _engine.GRACE_SECONDS):
                assert telling.wait(WAIT)
                return False
            if telling.is_set():
                late.set()
            return super().wait(lock, timeout)

    texts = heard(lambda text: telling.set() or late.wait(WAIT))
    assert ends(stuck_engine(1, go_on, Late()).stop)
    late.set()
    for thread in threading.enumerate():
        if thread.name == "threadloader-log":
            thread.join(WAIT)
    assert ["threadloader-worker-0"] == [text.split()[0] for text in texts]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_a_log_raises_ends_the_thread_that_writes_and_no_other(heard, raised, error):
    """As `ValueError`, which a handler raises whose file is closed."""

    def fails(text):
        raise error(text)

    texts = heard(fails)
    stuck = ["worker-0 is stuck", "worker-1 is stuck"]
    _log_thread.say(object(), "error", stuck)
    assert raised.wait()
    assert (stuck, [error]) == (texts, raised.kinds)


def test_the_end_of_the_threads_is_told_whatever_ends_the_feeder(raised, go_on):
    """G6: here the system gives no stack of a worker that is stuck."""

    class NoStack(Runtime):
        def stack(self, ident):
            raise OSError("no stack")

    inside = threading.Event()
    engine = Engine(1, 0.05, NoStack())
    engine.start()
    job = Job(lambda: inside.set() or go_on.wait(WAIT))
    engine.stream(iter([job]), depth=1).prefetch()
    assert inside.wait(WAIT)
    engine.tell()
    assert ENDED is engine._shared.end.wait(WAIT)
    assert raised.wait()
    assert [OSError] == raised.kinds


def no_more(*args):
    raise RuntimeError("can't create new thread at interpreter shutdown")


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("launch", no_more),
        ("thread", lambda target, args, name: SimpleNamespace(start=no_more, ident=None)),
    ],
)
def test_where_no_thread_starts_any_more_it_is_logged_all_the_same(
    heard, monkeypatch, name, instead
):
    """By who says it, or by the bare thread."""
    texts = heard()
    monkeypatch.setattr(logging, "logThreads", False)  # it would name the bare one, and keep that
    monkeypatch.setattr(RUNTIME, name, instead, raising=False)
    _log_thread.say(object(), "error", ["stuck"])
    assert ["stuck"] == texts


@pytest.mark.usefixtures("rung")
def test_a_signal_behind_the_launch_comes_out_and_it_is_logged_once(heard, go_on, monkeypatch):
    def launch(function, args):
        Runtime.launch(function, args)
        signal.raise_signal(signal.SIGINT)

    told = threading.Semaphore(0)
    texts = heard(lambda text: told.release())
    monkeypatch.setattr(RUNTIME, "launch", launch, raising=False)
    with pytest.raises(TimeoutError, match="rung"):
        _log_thread.say(object(), "error", ["stuck"])
    assert told.acquire(timeout=WAIT)
    assert ["stuck"] == texts


def test_what_a_handler_raises_while_a_stack_is_asked_for_is_not_lost(monkeypatch):
    """It comes while the module is imported, and may be of the very kind that is passed over."""

    class Interrupted:
        def find_spec(self, name, path=None, target=None):
            if name == "traceback":
                signal.raise_signal(signal.SIGINT)

    def ring(number, frame):
        raise ImportError("mine")

    before = signal.signal(signal.SIGINT, ring)
    try:
        monkeypatch.delitem(sys.modules, "traceback")
        monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
        with pytest.raises(ImportError, match="mine"):
            RUNTIME.stack(threading.get_ident())
    finally:
        signal.signal(signal.SIGINT, before)


def test_where_no_module_can_be_imported_any_more_a_stack_and_a_record_still_come(
    monkeypatch, capsys
):
    """As where no file can be opened: the lines of code are missing, and the log is stderr."""
    thread = SimpleNamespace(ident=threading.get_ident())
    whole = RUNTIME.stack(thread.ident)
    for name in ("traceback", "logging"):
        monkeypatch.setitem(sys.modules, name, None)
    plain = RUNTIME.stack(thread.ident).splitlines()
    above = [line for line in whole.splitlines() if line.startswith("  File ")][:-2]
    assert above == plain[:-2]  # the next one is this function, at two of its lines
    assert plain[-1].endswith(", in stack")
    _log_thread.say(None, "error", ["a thread is stuck"])
    assert "threadloader: a thread is stuck\n" == capsys.readouterr().err


class Logging:
    """A source that logs when it is read by a worker."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if threading.current_thread() is not threading.main_thread():
            LOG.warning("read")
        return index


@pytest.mark.usefixtures("patient")
def test_a_loop_ends_while_objects_of_threads_are_stuck_in_the_log(heard, go_on, monkeypatch):
    """That they stay open is told by another thread, too, which is waited for once."""
    monkeypatch.setattr(_log_thread, "SAY_SECONDS", 0.01)
    stuck, waits = threading.Event(), []
    wait = Runtime.wait

    def waiting(runtime, lock, timeout=None):
        waits.append(timeout)
        return wait(runtime, lock, timeout)

    def hang(text):
        stuck.set()
        go_on.wait(WAIT)

    def leave():
        with Loader({"num_workers": 3, "close_timeout": 0.05}, per_thread(Logging)) as batches:
            iter(batches)
            assert stuck.wait(WAIT)

    monkeypatch.setattr(Runtime, "wait", waiting)
    heard(hang)
    assert ends(leave)
    assert stuck.is_set()
    assert 2 == waits.count(0.01)  # for the report of the threads, and of what stays open


def test_a_source_closes_while_its_connection_is_in_use_and_the_log_stuck(
    heard, go_on, tmp_path, monkeypatch
):
    with closing(sqlite3.connect(tmp_path / "x.db")) as base, base:
        base.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    spec = {"type": "sqlite", "path": "x.db", "query": "SELECT id FROM t", "key": "id"}
    source = open_source(spec, tmp_path)
    monkeypatch.setattr(_sqlite_connections, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(_log_thread, "SAY_SECONDS", 0.01)
    stuck = threading.Event()

    def hang(text):
        stuck.set()
        go_on.wait(WAIT)

    texts = heard(hang)
    threading.Thread(target=LOG.warning, args=("read",)).start()
    assert stuck.wait(WAIT)
    with reader(source).connections.mine() as connection:  # as a thread that still reads by it
        assert ends(source.close)
    connection.close()
    go_on.set()
    deadline = time.monotonic() + WAIT
    while not any("a connection stays open, since a thread still reads" in it for it in texts):
        assert time.monotonic() < deadline
        time.sleep(0)
