"""A thread whose own lines fail, without memory even to tell: nobody waits for ever (G3, G7)."""

import threading

import pytest
from numbered_jobs import Job

from threadloader._runtime import Runtime
from threadloader.engine import ENDED, Engine, _engine, _feeder, _shared, _worker


def full(*args):
    raise MemoryError


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Python reports what ends a thread."""
    monkeypatch.setattr(threading, "excepthook", lambda args: None)


def failing(shared, worker, first):
    """Fails as `_serve` may: with a slot in hand, which is lost."""
    shared.tickets.take()
    raise MemoryError


@pytest.mark.parametrize("fails", [(), ("outside",)])
def test_a_worker_without_memory_ends_the_engine(monkeypatch, fails):
    """G7: also where it cannot make the outcome that says so."""
    monkeypatch.setattr(_worker, "_serve", failing)
    for name in fails:
        monkeypatch.setattr(_worker, name, full)
    before, engine = set(threading.enumerate()), Engine(1, 5.0)
    engine.start()
    outcome = engine.stream(iter([Job(0)]), 1).result(0)
    assert isinstance(outcome.error, MemoryError)
    assert engine.failed.error is outcome.error
    assert engine.stop()
    assert before == set(threading.enumerate())


@pytest.mark.parametrize("fails", [("_deal",), ("_deal", "outside"), ("_deal_one", "outside")])
def test_a_feeder_without_memory_ends_the_engine(monkeypatch, fails):
    """G7: the same."""
    before, engine = set(threading.enumerate()), Engine(2, 5.0)
    for name in fails:
        monkeypatch.setattr(_feeder, name, full)
    engine.start()
    stream = engine.stream(iter([Job(0)]), 1)
    outcome = stream.result(0)
    assert (outcome is ENDED) or isinstance(outcome.error, MemoryError)
    assert isinstance(engine.failed.error, MemoryError)
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


def test_threads_that_do_not_come_to_life_are_waited_for_within_a_bound(monkeypatch, caplog):
    """G6: a new thread that has no memory for its first line dies, and tells nobody."""

    class Dying(Runtime):
        def launch(self, function, args):
            pass

    monkeypatch.setattr(_engine, "START_SECONDS", 0.05)
    engine = Engine(3, 0.05, Dying())
    with pytest.raises(RuntimeError, match="asks for 3 threads, and they have not started within"):
        engine.start()
    assert engine.stop()
    assert "the feeder has not ended within 0.05 s; it is at\n" in caplog.text


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
