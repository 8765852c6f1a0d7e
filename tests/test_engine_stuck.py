"""A thread that does not end is waited for within a bound, and the log says what it is at (G6)."""

import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from numbered_jobs import WAIT, Job

from threadloader import ClosedError
from threadloader._runtime import Runtime
from threadloader.engine import ENDED, Engine, _engine, _joining
from threadloader.engine._slots import Slot, Worker


def test_a_worker_that_never_returns_is_named_with_its_work_and_stack(caplog):
    """G6: stop returns within its bound and the log says who, at what and where."""
    inside, go_on = threading.Event(), threading.Event()

    def stuck_in_here(number, part):
        inside.set()
        assert go_on.wait(WAIT)

    engine = Engine(1, 0.05)
    engine.start()
    engine.stream(iter([Job(7, do=stuck_in_here)]), depth=1).prefetch()
    assert inside.wait(WAIT)
    with caplog.at_level(logging.ERROR, logger="threadloader"):
        engine.stop()
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "threadloader-worker-0":
            thread.join(WAIT)
    (record,) = caplog.records
    text = record.getMessage()
    assert "threadloader-worker-0" in text
    assert "job 7, part 0" in text
    assert "in stuck_in_here" in text


class Waiting(Runtime):
    """A clock that is made up: a worker is waited for at once, and that moves it.

    Attributes:
        waited: seconds for which each worker was waited for, in turn.
    """

    def __init__(self):
        self.now, self.waited, self._workers = 0.0, [], []

    def monotonic(self):
        return self.now

    def wait(self, lock, timeout=None):
        return super().wait(lock, WAIT)  # for the feeder, as long as it takes

    def thread(self, target, args, name):
        def join(seconds):
            self.now += seconds
            self.waited.append(seconds)

        thread = super().thread(target, args, name)
        if "worker" in name:
            self._workers.append(thread)
            thread.join = join
        return thread

    def ended(self):
        """Wait for the workers, truly."""
        for worker in self._workers:
            threading.Thread.join(worker, WAIT)


def test_several_stuck_workers_share_the_bound_of_a_stop(caplog):
    """G6: the second is waited for as long as the first has left."""

    def stuck(number, part):
        inside.release()
        assert go_on.wait(WAIT)

    inside, go_on = threading.Semaphore(0), threading.Event()
    runtime = Waiting()
    engine = Engine(2, 4.0, runtime)
    engine.start()
    engine.stream(iter([Job(n, do=stuck) for n in range(2)]), depth=2).prefetch()
    assert inside.acquire(timeout=WAIT)
    assert inside.acquire(timeout=WAIT)
    engine.stop()
    go_on.set()
    runtime.ended()
    assert [*[0.1] * 40, 0.0] == pytest.approx(runtime.waited)
    assert 2 == len(caplog.records)


def test_an_idle_worker_has_a_moment_to_leave_whatever_the_bound():
    """G6: without one it would be told of as stuck, where a stop is to wait for nothing."""
    runtime = Waiting()
    engine = Engine(2, 0.0, runtime)
    engine.start()
    engine.stop()
    runtime.ended()
    assert [_joining.IDLE_SECONDS] * 2 == runtime.waited


def test_workers_at_work_have_a_moment_together_to_let_go_of_their_jobs():
    """G6: one was said to be left behind that had given its last result."""
    waited = []
    thread = SimpleNamespace(join=waited.append, is_alive=lambda: False)
    clock = SimpleNamespace(monotonic=lambda: sum(waited))
    crew = [(SimpleNamespace(job="its last"), thread)] * 2
    assert [] == _joining.join(crew, 0.0, 0.0, clock)
    assert [_joining.IDLE_SECONDS, 0.0] == waited


def test_a_worker_that_goes_on_while_it_is_told_of_is_told_of_as_it_is_then():
    """Whoever asks has read the job, job 0, when the worker gets to part 7 of job 1."""

    class GoesOn(Worker):
        later = None

        @property
        def part(self):
            if self.later is not None:
                self.job, self.later = self.later, None
            return self.job.parts - 1

        @part.setter
        def part(self, part):
            pass

    worker = GoesOn(lambda: False)
    worker.job, worker.later = Job(0, parts=2), Job(1, parts=8)
    assert "job 1, part 7" == str(worker)


def test_a_feeder_whose_word_does_not_come_in_time_is_logged(make_engine, monkeypatch, caplog):
    """G6: as if the bound had passed; it is told of though it has ended by then."""
    engine = make_engine(1)
    stream = engine.stream(iter([Job(0)]), depth=1)
    stream.result(0)
    end = engine._shared.end.wait
    with monkeypatch.context() as late:
        late.setattr(Slot, "wait", lambda slot, seconds=None: end() and None)
        assert engine.stop()
    assert "the feeder has not ended within" in caplog.text


@contextmanager
def hanging(runtime=None, *, reading=False):
    """An engine whose feeder hangs in the iterator of jobs, and its one worker in a part, too."""
    read, asked, go_on = threading.Event(), threading.Event(), threading.Event()

    def stuck_in_here(number, part):
        read.set()
        assert go_on.wait(WAIT)

    def jobs():
        if reading:
            yield Job(0, do=stuck_in_here)
        asked.set()
        assert go_on.wait(WAIT)
        yield Job(0)

    engine = Engine(1, 0.05, Runtime() if runtime is None else runtime)
    engine.start()
    threads = [engine._feeder, *(thread for _, thread in engine._shared.crew)]
    engine.stream(jobs(), depth=2).prefetch()
    try:
        assert asked.wait(WAIT)
        assert not reading or read.wait(WAIT)
        yield engine
    finally:
        go_on.set()
        for thread in threads:
            thread.join(WAIT)


def test_a_feeder_that_does_not_end_is_waited_for_once(caplog):
    """G6: who stops again has nothing left to wait for, and is told nothing anew."""
    with hanging() as engine:
        assert engine.stop()
        assert engine._shared.end.outcome is ENDED
        assert engine.stop()
        assert 1 == len(caplog.records)


def test_a_worker_that_is_stuck_beside_the_feeder_is_logged_too(caplog):
    """G6: storage that hangs stops both at once, and each is logged with its stack."""
    with hanging(reading=True) as engine:
        assert engine.stop()
        feeder, stuck = [record.getMessage() for record in caplog.records]
        assert feeder.startswith("the feeder has not ended within 0.05 s; it is at\n")
        assert "in jobs" in feeder
        assert "has not ended within 0.05 s and is left behind; it is at job 0, part 0\n" in stuck
        assert "in stuck_in_here" in stuck


def test_a_stop_beside_one_that_tells_of_the_stuck_joins_and_tells_nothing_anew(monkeypatch):
    """G6: it comes while the first one waits for the log."""
    told = []

    def say(shared, level, texts):
        told.append(len(texts))
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(engine.stop).result(WAIT)

    monkeypatch.setattr(_engine, "say", say)
    with hanging(reading=True) as engine:
        assert engine.stop()
        assert [2] == told  # the feeder and the worker, once


def test_a_child_that_a_handler_forks_while_a_stop_waits_tells_of_nothing(monkeypatch, caplog):
    """G6: none of the threads is in it, and its parent waits for them."""
    with hanging() as engine, monkeypatch.context() as child:
        answers = iter([False, False, True])  # to tell, to begin to wait, and behind the wait
        child.setattr(_engine, "forked", lambda shared: next(answers))
        assert engine.stop()
        assert [] == [*answers, *caplog.records]


def test_an_engine_that_was_stopped_before_starts_no_thread():
    """G6: whoever has stopped it does not wait for threads that come later."""
    engine = Engine(1, WAIT, Runtime())
    assert engine.stop()
    with pytest.raises(ClosedError, match="closed while it was being entered"):
        engine.start()
    assert engine._feeder is None


def test_a_feeder_that_is_stuck_costs_its_bound_and_no_more():
    """G6: only where it is the log that it waits for, a second comes on top."""
    me, waits = threading.get_ident(), []

    class Noting(Runtime):
        def wait(self, lock, timeout=None):
            if threading.get_ident() == me:
                waits.append(timeout)
            return super().wait(lock, timeout)

    with hanging(Noting()) as engine:
        waits.clear()  # the start has a bound of its own
        assert engine.stop()
        assert [0.05 + _engine.GRACE_SECONDS] == waits


def test_what_a_handler_raises_while_a_stuck_feeder_is_ended_passes():
    """G6: though it is what Python raises where no thread begins any more. A second stop ends."""
    rung = []

    def ring(number, frame):
        raise RuntimeError("rung")

    class Ringing(Runtime):
        def launch(self, function, args):
            if function is _engine.end_without_feeder and not rung:
                rung.append(True)
                signal.raise_signal(signal.SIGINT)
            super().launch(function, args)

    before = signal.signal(signal.SIGINT, ring)
    try:
        with hanging(Ringing()) as engine:
            with pytest.raises(RuntimeError, match="rung"):
                engine.stop()
            assert engine.stop()
    finally:
        signal.signal(signal.SIGINT, before)
