"""A thread whose own lines fail, without memory even to tell: nobody waits for ever (G3, G7)."""

import os
import signal
import threading

import numpy as np
import pytest
from numbered_jobs import WAIT, Job

from threadloader._runtime import Runtime
from threadloader.engine import ENDED, Engine, _engine, _feeder, _shared, _slots, _worker
from threadloader.engine._outcome import outside


def full(*args):
    raise MemoryError


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Python reports what ends a thread."""
    monkeypatch.setattr(threading, "excepthook", lambda args: None)


@pytest.fixture
def waited(monkeypatch):
    """Set once the consumer waits for a slot."""
    waits, real = threading.Event(), _slots.Slot.wait

    def wait(slot, timeout=None):
        if slot.origin is not None:
            waits.set()
        return real(slot, timeout)

    monkeypatch.setattr(_slots.Slot, "wait", wait)
    return waits


@pytest.mark.parametrize("no_outcome", [False, True])
@pytest.mark.parametrize("who", ["worker", "feeder"])
def test_a_thread_without_memory_ends_the_engine(monkeypatch, waited, who, no_outcome):
    """G7: with a slot in hand that is waited for; also where it cannot make the outcome for it."""

    def serve(shared, worker, first):
        shared.tickets.take()
        deal()

    def deal(*args):
        assert waited.wait(WAIT)
        raise MemoryError

    before, engine = set(threading.enumerate()), Engine(1, 5.0)
    if who == "worker":
        monkeypatch.setattr(_worker, "_serve", serve)
    else:
        monkeypatch.setattr(_feeder, "_deal_one", deal)
    if no_outcome:
        monkeypatch.setattr(_worker if who == "worker" else _feeder, "outside", full)
    engine.start()
    outcome = engine.stream(iter([Job(0)]), 1).result(0)
    assert isinstance(outcome.error, MemoryError)
    assert engine.failed.error is outcome.error
    assert engine.stop()
    assert before == set(threading.enumerate())


@pytest.mark.parametrize("fails", ["Bound", "_start_workers", "Outcome", "_feed"])
def test_an_engine_whose_feeder_has_no_memory_does_not_start(monkeypatch, fails):
    """G6: and leaves no thread behind."""
    before, engine = set(threading.enumerate()), Engine(2, 5.0)
    monkeypatch.setattr(_feeder, fails, full)
    with pytest.raises(MemoryError):
        engine.start()
    assert engine.stop()
    assert before == set(threading.enumerate())


def test_who_starts_the_feeder_without_memory_says_so():
    """G6: the bare thread, whose failure nobody else hears of."""
    shared = _shared.Shared(Runtime(), 1, 5.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_feeder, "caught", full)
        with pytest.raises(MemoryError):
            _feeder.start_feeder(threading.Thread(), shared)
    assert (ENDED, shared.broken) == (shared.end.outcome, shared.started.outcome)


@pytest.mark.parametrize("who", ["launcher", "worker"])
def test_threads_that_do_not_come_to_life_are_waited_for_within_a_bound(monkeypatch, caplog, who):
    """G6: a new thread that has no memory for its first line dies; who starts it waits for ever."""
    before, never = set(threading.enumerate()), threading.Event()

    class Dying(Runtime):
        def launch(self, function, args):
            if who != "launcher":
                super().launch(function, args)

        def thread(self, target, args, name):
            thread = super().thread(target, args, name)
            if name.endswith("worker-1"):
                thread.start = lambda: never.wait(WAIT)
            return thread

    monkeypatch.setattr(_engine, "START_SECONDS", 0.05)
    engine = Engine(3, 0.05, Dying())
    with pytest.raises(RuntimeError, match="asks for 3 threads, and they have not started within"):
        engine.start()
    assert engine.stop()
    assert "the feeder has not ended within 0.05 s; it is at\n" in caplog.text
    assert {"threadloader-feeder"} >= {it.name for it in set(threading.enumerate()) - before}
    never.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)


def test_a_feeder_that_fails_at_its_end_leaves_nothing_behind(monkeypatch):
    """G6, G10: who stops ends what it has left, and does not wait for a word of it."""
    before, engine = set(threading.enumerate()), Engine(2, WAIT)
    engine.start()
    shared = engine._shared
    monkeypatch.setattr(_feeder, "forget_handed", full)
    assert engine.stop()
    assert (ENDED, ()) == (shared.end.outcome, shared.crew)
    assert before == set(threading.enumerate())


def test_what_fails_outside_of_a_job_keeps_no_frame_alive():
    """G10: also where it was raised while another error was handled."""
    error = MemoryError()
    error.__context__ = OSError("before it")
    kept = outside(error).error
    assert (kept, None, None) == (error, kept.__context__, kept.__traceback__)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows cannot fork")
@pytest.mark.parametrize("seconds", [0.1, None])
def test_a_child_that_a_handler_forks_while_the_loop_waits_is_told_that_it_is_one(
    run_child, seconds
):
    """G6: none of the threads is in it; so the watch has nobody to miss."""
    child = run_child(
        f"""
import os, signal, sys, threading
from threadloader import ClosedError, Loader
from threadloader.engine import _watch

_watch.LONGEST_TICK = 0.1

gate, children = threading.Event(), []

class Source:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        assert gate.wait(30)
        return index

def fork(number, frame):
    children.append(os.fork())
    if children[0]:
        gate.set()

signal.signal(signal.SIGALRM, fork)
config = {{"num_workers": 1, "batch_size": 4, "stall_seconds": {seconds}}}
with Loader(config, Source()) as batches:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        next(iter(batches))
    except ClosedError as error:
        os._exit(7 if "fork" in str(error) else 8)
_, status = os.waitpid(children[0], 0)
print(os.waitstatus_to_exitcode(status))
"""
    )
    assert (0, "7\n") == (child.returncode, child.stdout), child.stderr


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such timer")
def test_a_look_for_dead_threads_that_is_interrupted_kills_none():
    """G8: on CPython 3.11 and 3.12 `Thread.is_alive`, interrupted, marks a live one as dead."""
    gate, before = threading.Event(), signal.signal(signal.SIGALRM, signal.default_int_handler)
    jobs = iter([Job(0, do=lambda number, part: gate.wait(WAIT))])
    engine = Engine(32, 5.0, stall_seconds=0.01)
    engine.start()
    stream = engine.stream(jobs, 1)
    random = np.random.default_rng(0)
    try:
        for _ in range(400):
            soon = 0.0005 + 0.004 * random.random()
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come right away
                signal.setitimer(signal.ITIMER_REAL, soon)
                stream.result(0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        gate.set()
        assert stream.result(0).error is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gate.set()
        engine.stop()


@pytest.mark.parametrize("who", ["worker", "feeder"])
def test_a_thread_that_dies_without_a_word_is_missed(monkeypatch, who):
    """G3: whoever waits looks, as often as for a stall, whether all threads are there."""
    if who == "worker":
        monkeypatch.setattr(_feeder, "work", lambda shared, worker, first: None)
    else:
        monkeypatch.setattr(_feeder, "_deal", lambda shared, dealt, bound: None)
        monkeypatch.setattr(_feeder, "_end", lambda shared, dealt, word: None)
    engine = Engine(1, 0.05, stall_seconds=0.5)
    engine.start()
    outcome = engine.stream(iter([Job(0)]), 1).result(0)
    assert isinstance(outcome.error, MemoryError)
    assert engine.stop()
