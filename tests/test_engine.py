"""The engine's guarantees, each by its number in the engine's docstring."""

import gc
import logging
import queue
import signal
import sys
import threading
import time
import warnings
import weakref
from types import SimpleNamespace

import pytest
from freeing import free_at_once
from hypothesis import given
from hypothesis import strategies as st
from leaks import Watch

from threadloader._runtime import RUNTIME, Runtime, Tickets
from threadloader.engine import ENDED, Engine, Inline, Outcome, _engine, _joining, _threads
from threadloader.engine._slots import Slot, Worker
from threadloader.errors import ClosedError, ConfigError

WAIT = 30.0
"""Seconds after which a gate that should have opened fails its test; never waited out."""


class Job:
    """A job whose parts call a function of (number, part) and keep what it gives."""

    def __init__(self, number, parts=1, do=lambda number, part: part, finish=None):
        self.number = number
        self.parts = parts
        self.do = do
        self.results = [None] * parts
        self.finished = 0
        self.finish_with = finish

    def run(self, parts):
        for part in parts:
            self.results[part] = self.do(self.number, part)

    def finish(self):
        self.finished += 1
        if self.finish_with is not None:
            return self.finish_with(self.number)
        return self.number, self.results

    def failed(self, part):
        pass

    def describe(self, part):
        return f"job {self.number}, part {part}"


@pytest.fixture
def make_engine():
    """Gives a function that starts an engine; each is stopped at the end of the test."""
    engines = []

    def make(num_workers=2, close_timeout=5.0, runtime=None):
        engine = Engine(num_workers, close_timeout, runtime or Runtime())
        engines.append(engine)
        engine.start()
        return engine

    yield make
    for engine in engines:
        engine.stop()


def results(stream, count):
    return [stream.result(number) for number in range(count)]


@given(
    workers=st.integers(1, 5),
    depth=st.integers(1, 6),
    parts=st.lists(st.integers(1, 7), max_size=12),
)
def test_results_come_in_job_order_whatever_the_sizes(workers, depth, parts):
    """G1: the n-th result is the n-th job's, at any number of workers, depth and parts."""
    engine = Engine(workers, 5.0)
    engine.start()
    try:
        stream = engine.stream(iter([Job(n, size) for n, size in enumerate(parts)]), depth)
        got = [outcome.value for outcome in results(stream, len(parts))]
        assert [(n, list(range(size))) for n, size in enumerate(parts)] == got
        assert ENDED is stream.result(len(parts))
    finally:
        engine.stop()


def test_a_slow_first_job_is_not_overtaken(make_engine):
    """G1: job 0 ends last of all, and is still the first to be given."""
    others = threading.Semaphore(0)

    def do(number, part):
        if number == 0:
            for _ in range(3):
                assert others.acquire(timeout=WAIT)
        else:
            others.release()
        return part

    stream = make_engine(2).stream(iter([Job(n, do=do) for n in range(4)]), depth=4)
    stream.prefetch()
    assert [0, 1, 2, 3] == [outcome.value[0] for outcome in results(stream, 4)]


def test_no_more_jobs_are_begun_than_the_depth_allows(make_engine):
    """G2: while the consumer has taken k results, no job above k + depth - 1 is drawn."""
    drawn = []
    enough = threading.Event()

    def jobs():
        for number in range(20):
            drawn.append(number)
            if number == 2:
                enough.set()
            yield Job(number)

    engine = make_engine(2)
    stream = engine.stream(jobs(), depth=3)
    stream.prefetch()
    assert enough.wait(WAIT)
    for number in range(10):
        stream.result(number)
        assert len(drawn) <= number + 1 + 3
    stream.cancel()
    engine.stop()
    assert len(drawn) <= 10 + 3


def test_each_job_is_finished_once_however_many_workers_share_it(make_engine):
    """G3: the last worker to leave a job finishes it, and only that one."""
    jobs = [Job(number, parts=16) for number in range(200)]
    results(make_engine(6).stream(iter(jobs), depth=4), 200)
    assert {1} == {job.finished for job in jobs}


def test_every_part_is_done_once(make_engine):
    """G3: no part is left out or done twice when six workers share a job."""
    done = []
    jobs = [Job(n, parts=32, do=lambda n, part: done.append((n, part))) for n in range(50)]
    results(make_engine(6).stream(iter(jobs), depth=3), 50)
    assert [(n, part) for n in range(50) for part in range(32)] == sorted(done)


def test_no_put_ever_waits(make_engine):
    """G4: every put of feeder and consumer finds room at once, at a depth far above the workers."""
    waited = []

    class Watched(Tickets):
        def put_all(self, items):
            waited.append(self.full())
            super().put_all(items)

    class Watching(Runtime):
        def queue(self):
            return Watched(super().queue().maxsize)

    engine = make_engine(2, runtime=Watching())
    stream = engine.stream(iter([Job(n, parts=2) for n in range(500)]), depth=400)
    results(stream, 500)
    engine.stop()
    assert len(waited) > 500
    assert {False} == set(waited)


def test_items_put_together_wake_as_many_of_those_who_wait():
    """And they come in their order, to whoever takes them."""
    tickets, taken = Tickets(), queue.SimpleQueue()
    threads = [
        threading.Thread(target=lambda: taken.put(tickets.take()), daemon=True) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(tickets.not_empty._waiters) == 3)
    tickets.put_all([1, 2, 3, 4, 5])
    assert [1, 2, 3] == sorted(taken.get(timeout=WAIT) for _ in range(3))
    assert [4, 5] == [tickets.take(), tickets.take()]


@pytest.mark.parametrize(("workers", "claims"), [(4, 4), (3, 7), (2, 6)])
def test_where_there_is_a_worker_for_each_part_none_asks_for_more(make_engine, workers, claims):
    """With fewer workers than parts each goes on until it finds none left."""
    engine = make_engine(workers)
    results(engine.stream(iter([Job(0, parts=4)]), depth=1), 1)
    assert claims == sum(worker.claims for worker, _ in engine._shared.crew)


def test_no_part_begins_after_a_stop(make_engine):
    """G5: with a stop during part 1 of 8, parts 2 to 7 are not begun."""
    begun, inside, go_on = [], threading.Event(), threading.Event()

    def do(number, part):
        begun.append(part)
        if part == 1:
            inside.set()
            assert go_on.wait(WAIT)

    engine = make_engine(1)
    engine.stream(iter([Job(0, parts=8, do=do)]), depth=1).prefetch()
    assert inside.wait(WAIT)
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    while engine.usable:
        pass
    go_on.set()
    stopper.join(WAIT)
    assert [0, 1] == begun


@pytest.mark.parametrize("depth", [1, 3, 50])
def test_no_job_is_drawn_after_a_stop(make_engine, depth):
    """G5: however many were asked for before; and nobody waits for one of them."""
    drawing, go_on, drawn = threading.Event(), threading.Event(), []

    def jobs():
        for number in range(100):
            drawn.append(number)
            drawing.set()
            assert go_on.wait(WAIT)
            yield Job(number)

    engine = make_engine(1)
    stream = engine.stream(jobs(), depth)
    stream.prefetch()
    assert drawing.wait(WAIT)
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    while engine.usable:
        pass
    go_on.set()
    stopper.join(WAIT)
    assert [0] == drawn
    assert all(slot.wait(WAIT) is not None for slot in stream._line)


def test_no_part_begins_after_its_stream_was_cancelled(make_engine):
    """With a cancel during part 1 of 8, parts 2 to 7 and the next job are not begun."""
    begun, inside, go_on = [], threading.Event(), threading.Event()

    def do(number, part):
        begun.append((number, part))
        if part == 1:
            inside.set()
            assert go_on.wait(WAIT)

    engine = make_engine(1)
    stream = engine.stream(iter([Job(n, parts=8, do=do) for n in range(2)]), depth=2)
    stream.prefetch()
    assert inside.wait(WAIT)
    stream.cancel()
    go_on.set()
    # Behind both in the queue, so by then the worker is done with them.
    assert (0, [0]) == engine.stream(iter([Job(0)]), depth=1).result(0).value
    assert [(0, 0), (0, 1)] == begun


def test_a_stop_wakes_a_consumer_that_waits_in_another_thread(make_engine):
    """G5: the waiting consumer is given ENDED though its job has not ended."""
    inside, go_on, got = threading.Event(), threading.Event(), []

    def do(number, part):
        inside.set()
        assert go_on.wait(WAIT)

    engine = make_engine(1)
    stream = engine.stream(iter([Job(0, do=do)]), depth=1)
    consumer = threading.Thread(target=lambda: got.append(stream.result(0)))
    consumer.start()
    assert inside.wait(WAIT)
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    consumer.join(WAIT)
    assert [ENDED] == got
    go_on.set()
    stopper.join(WAIT)


def test_a_result_asked_for_after_the_stop_is_ended(make_engine):
    """G5: nobody waits for threads that are gone."""
    engine = make_engine(2)
    stream = engine.stream(iter([Job(0), Job(1)]), depth=1)
    stream.result(0)
    engine.stop()
    assert ENDED is stream.result(1)


def test_a_cancelled_stream_is_ended(make_engine):
    """Whatever of it was ready."""
    stream = make_engine(1).stream(iter([Job(0)]), depth=1)
    stream.result(0)
    stream.cancel()
    assert ENDED is stream.result(0)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_after_a_stop_no_thread_of_ours_lives(workers):
    """G6: whether or not there was ever a job."""
    before = set(threading.enumerate())
    for count in (0, 5):
        engine = Engine(workers, 5.0)
        engine.start()
        results(engine.stream(iter([Job(n) for n in range(count)]), depth=2), count)
        engine.stop()
        assert before == set(threading.enumerate())


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


def test_the_exit_hook_tells_all_engines_before_it_waits_for_one(monkeypatch):
    """G6: so those that are stuck share one bound, and do not each have their own."""
    said = []

    class Heard(Engine):
        def tell(self):
            said.append("told")
            super().tell()

        def stop(self):
            said.append("waited for")
            return super().stop()

    monkeypatch.setattr(_engine, "_running", {})
    engines = [Heard(1, 5.0) for _ in range(3)]
    for engine in engines:
        engine.start()
    _engine._stop_all()
    assert (3, 3) == (said.index("waited for"), said.count("waited for"))


def test_the_clock_never_goes_back():
    """The system says so of its clocks; the one that tells the date may be set."""
    clock = time.get_clock_info(Runtime.monotonic.__name__)
    assert clock.monotonic
    assert not clock.adjustable


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


def test_stopping_twice_and_from_a_worker_is_harmless(make_engine):
    """G6: a worker that stops its own engine does not wait for itself."""
    engine = make_engine(2)
    stream = engine.stream(iter([Job(0, do=lambda number, part: engine.stop())]), depth=1)
    assert ENDED is stream.result(0)
    engine.stop()
    engine.stop()
    assert not engine.usable


def test_an_error_takes_the_place_of_its_result(make_engine):
    """G7: the jobs before and after a failing one are given as ever."""

    def do(number, part):
        if number == 2:
            raise ValueError("bad")
        return part

    stream = make_engine(3).stream(iter([Job(n, parts=2, do=do) for n in range(5)]), depth=5)
    got = results(stream, 5)
    assert [None, None, "bad", None, None] == [o.error and str(o.error) for o in got]
    assert 0 == got[2].part


@pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_no_exception_of_a_job_ends_a_thread(make_engine, error):
    """G7: whatever it is, it is the job's outcome, and the same worker does the next job."""

    def do(number, part):
        if number == 0:
            raise error("x")
        return part

    stream = make_engine(1).stream(iter([Job(0, do=do), Job(1, do=do)]), depth=2)
    first, second = results(stream, 2)
    assert error is type(first.error)
    assert (1, [0]) == second.value


def test_the_lowest_failing_part_is_the_one_reported(make_engine):
    """G7: part 5 fails first in time, part 2 fails later; part 2 is the job's error."""
    higher_failed = threading.Event()

    def do(number, part):
        if part == 2:
            assert higher_failed.wait(WAIT)
            raise ValueError("part 2")
        if part == 3:
            higher_failed.set()
            raise ValueError("part 3")

    outcome = make_engine(4).stream(iter([Job(0, parts=8, do=do)]), depth=1).result(0)
    assert (2, "part 2") == (outcome.part, str(outcome.error))


def test_an_error_of_the_finish_has_no_part(make_engine):
    """G7: it is the whole job's."""

    def finish(number):
        raise ValueError("collate")

    outcome = make_engine().stream(iter([Job(0, parts=3, finish=finish)]), depth=1).result(0)
    assert (None, "collate") == (outcome.part, str(outcome.error))


def test_an_error_of_the_iterator_of_jobs_comes_at_its_place(make_engine):
    """G7: the job before it is given, then the error, then the end."""

    def jobs():
        yield Job(0)
        raise OSError("order")

    stream = make_engine().stream(jobs(), depth=4)
    first, second, third = results(stream, 3)
    assert (0, [0]) == first.value
    assert "order" == str(second.error)
    assert ENDED is third


def test_asking_again_gives_the_same_result(make_engine):
    """G8: a result whose taking was interrupted can be asked for again."""
    stream = make_engine().stream(iter([Job(n) for n in range(3)]), depth=2)
    assert stream.result(0) is stream.result(0)
    assert 1 == stream.result(1).value[0]


def test_a_slot_sent_twice_is_dealt_once(make_engine):
    """G8: an interrupt between sending a slot and counting it makes the consumer send it again."""
    stream = make_engine(1).stream(iter([Job(n) for n in range(4)]), depth=2)
    stream.prefetch()
    stream._sent -= 1  # as an interrupt right behind the put leaves it
    assert [0, 1, 2, 3] == [outcome.value[0] for outcome in results(stream, 4)]


def test_a_slot_kept_back_is_sent_when_asked_for(make_engine):
    """G8: an interrupt between a slot joining the line and its sending loses nothing."""
    stream = make_engine(1).stream(iter([Job(n) for n in range(4)]), depth=2)
    inbox = stream._shared.inbox

    class Interrupted:
        def put(self, slot):
            raise KeyboardInterrupt

    stream._shared.inbox = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        stream.prefetch()
    stream._shared.inbox = inbox
    assert 0 == stream._sent  # or else what follows waits for ever
    assert [0, 1, 2, 3] == [outcome.value[0] for outcome in results(stream, 4)]


def test_no_lock_is_held_while_a_job_runs():
    """G9: every lock the engine has made is free, or is one that somebody waits to be released."""

    class Watching(Runtime):
        def __init__(self):
            self.depth = threading.local()

        def lock(self):
            runtime, lock = self, super().lock()

            class Watched:
                def acquire(self, *args, **options):
                    return lock.acquire(*args, **options)

                def release(self):
                    lock.release()

                def __enter__(self):
                    lock.acquire()
                    runtime.depth.held = getattr(runtime.depth, "held", 0) + 1
                    return True

                def __exit__(self, *exc):
                    runtime.depth.held -= 1
                    lock.release()

            return Watched()

    runtime = Watching()
    held = []

    def do(number, part):
        held.append(getattr(runtime.depth, "held", 0))

    def finish(number):
        held.append(getattr(runtime.depth, "held", 0))

    engine = Engine(3, 5.0, runtime)
    engine.start()
    results(engine.stream(iter([Job(n, 4, do, finish) for n in range(10)]), depth=3), 10)
    engine.stop()
    assert [0] * 50 == held


def test_an_idle_worker_keeps_no_job_alive(make_engine):
    """G10: once its result is taken and the next one asked for, a job is gone."""
    jobs = [Job(n, parts=4) for n in range(6)]
    gone = [weakref.ref(job) for job in jobs[:4]]
    # Not an iterator of the list, which without the GIL holds it beyond its end.
    stream = make_engine(2).stream((jobs.pop(0) for _ in range(6)), depth=1)
    for number in range(6):
        stream.result(number)
    assert ENDED is stream.result(6)
    free_at_once()
    assert [None] * 4 == [job() for job in gone]


def test_failures_leave_no_cyclic_garbage(make_engine):
    """G10: an error that was taken, or thrown away with its stream, is freed without the gc."""

    def do(number, part):
        raise ValueError(number)

    gc.collect()
    gc.disable()
    try:
        engine = make_engine(2)
        stream = engine.stream(iter([Job(n, parts=3, do=do) for n in range(20)]), depth=4)
        for number in range(10):
            stream.result(number).error = None
        stream.cancel()
        engine.stop()
        del stream, engine
        assert 0 == gc.collect()
    finally:
        gc.enable()


def test_an_error_of_the_iterator_of_jobs_leaves_no_cyclic_garbage(make_engine):
    """G10: nobody takes it, and it is freed with its stream, without the gc."""

    def jobs():
        yield Job(0)
        raise OSError("order")

    gc.collect()
    gc.disable()
    try:
        engine = make_engine(1)
        stream = engine.stream(jobs(), depth=2)
        stream.result(0)
        engine.stop()
        del stream, engine
        assert 0 == gc.collect()
    finally:
        gc.enable()


def test_an_engine_that_cannot_start_its_workers_leaves_none(caplog):
    """G6: the third thread of four fails to start; start raises and no thread is left."""
    before = set(threading.enumerate())

    class Full(Runtime):
        made = 0

        def thread(self, target, args, name):
            thread = super().thread(target, args, name)
            self.made += 1
            if self.made == 3:

                def start():
                    raise RuntimeError("can't start new thread")

                thread.start = start
            return thread

    engine = Engine(4, 5.0, Full())
    with pytest.raises(RuntimeError, match="can't start new thread") as caught:
        engine.start()
    note = caught.value.__notes__[0]
    assert '"num_workers" asks for 4 threads, besides one that feeds them and one that' in note
    bounds = ", or raise what bounds them: ulimit -u, a container's limit of pids, or ulimit -v"
    hint = f"give fewer (0 needs none){'' if sys.platform == 'win32' else bounds}"
    assert hint in note
    engine.stop()
    assert before == set(threading.enumerate())


def test_an_engine_whose_feeder_cannot_start_says_so():
    """G6: the same for the very first thread, and for the bare one that starts it."""

    class NoFeeder(Runtime):
        def thread(self, target, args, name):
            thread = super().thread(target, args, name)
            thread.start = lambda: (_ for _ in ()).throw(RuntimeError("no feeder"))
            return thread

    class NoLaunch(Runtime):
        def launch(self, function, args):
            raise RuntimeError("can't start new thread")

    for runtime, text in ((NoFeeder(), "no feeder"), (NoLaunch(), "can't start new thread")):
        engine = Engine(2, 5.0, runtime)
        with pytest.raises(RuntimeError, match=text) as caught:
            engine.start()
        # What the system refuses is told with the option that asks for it.
        told = ['threadloader: "num_workers" asks for 2 threads, besides one that feeds them ']
        notes = [note[: len(told[0])] for note in getattr(caught.value, "__notes__", [])]
        assert notes == (told if runtime.__class__ is NoLaunch else [])
        engine.stop()


def test_a_feeder_that_starts_says_so_itself():
    """G6: who starts it is not heard of."""
    shared = _threads.Shared(Runtime(), 1, 5.0)
    _threads.start_feeder(SimpleNamespace(start=lambda: None), shared)
    assert (None, None) == (shared.started.outcome, shared.end.outcome)


def test_who_waits_for_a_feeder_that_cannot_start_gets_its_error():
    """G6: and what waits for the end of the threads waits for nothing."""
    error = RuntimeError("no feeder")

    def start():
        raise error

    shared = _threads.Shared(Runtime(), 1, 5.0)
    _threads.start_feeder(SimpleNamespace(start=start), shared)
    assert (ENDED, error) == (shared.end.wait(0), shared.started.wait(0).error)


def test_a_signal_behind_the_launch_does_not_lose_the_threads():
    """G6: the handler raises; `stop` ends them all the same."""

    def ring(number, frame):
        raise TimeoutError("rung")

    class Rung(Runtime):
        def launch(self, function, args):
            super().launch(function, args)
            signal.raise_signal(signal.SIGINT)

    before, threads = signal.signal(signal.SIGINT, ring), set(threading.enumerate())
    engine = Engine(2, 5.0, Rung())
    try:
        with pytest.raises(TimeoutError, match="rung"):
            engine.start()
    finally:
        signal.signal(signal.SIGINT, before)
        engine.stop()
    assert threads == set(threading.enumerate())


def test_a_feeder_that_cannot_start_leaves_no_garbage():
    """G10: its error leads to nothing that leads back to it."""

    class NoFeeder(Runtime):
        def thread(self, target, args, name):
            thread = super().thread(target, args, name)
            thread.start = refused
            return thread

    def refused():
        raise RuntimeError("no feeder")

    with Watch() as watch:
        engine = Engine(2, 5.0, NoFeeder())
        try:
            engine.start()
        except RuntimeError:
            engine.stop()
        else:
            pytest.fail("a feeder that cannot start has started")
        del engine
        watch.look()


def test_an_error_in_the_engine_itself_reaches_the_consumer(make_engine, monkeypatch):
    """G7: out of memory in a worker's own lines, say: nobody waits for ever, and it goes on."""
    conclude, failures = Slot.conclude, [MemoryError("no memory")]

    def failing(self, *args):
        if failures:
            raise failures.pop()
        return conclude(self, *args)

    monkeypatch.setattr(Slot, "conclude", failing)
    stream = make_engine(1).stream(iter([Job(0), Job(1)]), depth=1)
    outcome = stream.result(0)
    assert (0, "no memory") == (outcome.job.number, str(outcome.error))
    assert (1, [0]) == stream.result(1).value


def test_an_error_in_the_feeder_itself_reaches_the_consumer(make_engine, monkeypatch):
    """G7: the same for the feeder, which then ends the engine."""

    def failing(shared, slot, dealt, cost):
        dealt.append(slot)
        raise MemoryError("no memory")

    monkeypatch.setattr(_threads, "_deal_one", failing)
    engine = make_engine(2)
    assert "no memory" == str(engine.stream(iter([Job(0)]), depth=1).result(0).error)
    engine.stop()


def test_a_worker_that_fails_outside_of_a_job_ends_the_engine(make_engine, monkeypatch):
    """G7: what it has taken may be lost, so that nobody could wait for the others."""
    take, failures = Tickets.take, [MemoryError("no memory")]

    def failing(self):
        slot = take(self)
        if failures and slot is not _threads.STOP:
            raise failures.pop()
        return slot

    monkeypatch.setattr(Tickets, "take", failing)
    engine = make_engine(2)
    stream = engine.stream(iter([Job(0), Job(1)]), depth=1)
    outcome = stream.result(0)
    assert (None, "no memory") == (outcome.job, str(outcome.error))
    assert outcome is engine.failed
    assert not engine.usable
    assert stream.result(1) is ENDED
    engine.stop()


def test_a_slot_that_only_the_consumer_knows_is_filled_when_the_feeder_fails(
    make_engine, monkeypatch
):
    """G7: it is no longer in the inbox, and not dealt yet."""

    waiting, wait = threading.Event(), Slot.wait

    def waits(slot, timeout=None):
        waiting.set()
        return wait(slot, timeout)

    def failing(shared, slot, dealt, cost):
        assert waiting.wait(WAIT)
        raise MemoryError("no memory")

    engine = make_engine(1)
    monkeypatch.setattr(Slot, "wait", waits)
    monkeypatch.setattr(_threads, "_deal_one", failing)
    outcome = engine.stream(iter([Job(0)]), depth=1).result(0)
    assert "no memory" == str(outcome.error)
    engine.stop()


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_fails_behind_an_end_is_not_told(cancelled):
    """G7: a part below it may have been claimed before, and not begun."""
    origin = SimpleNamespace(cancelled=False)
    slot, job = Slot(RUNTIME, origin), Job(0, parts=2)
    slot.hands, slot.singly = 2, True
    stopped = []
    late, quick = Worker(lambda: bool(stopped)), Worker(lambda: bool(stopped))
    assert [0] == list(slot.claims(late, 2))
    assert [1] == list(slot.claims(quick, 2))
    slot.fail(quick, OSError("the higher one"))
    stopped += [] if cancelled else [True]
    origin.cancelled = cancelled
    assert not slot.leave(0.0)
    assert slot.leave(0.0)
    assert slot.conclude(late, job, slot.complete(late), None, None) is ENDED


def test_a_dropped_engine_ends_its_threads(make_engine):
    """A finalizer tells them to end, and the feeder warns of the one who forgot."""
    engine = Engine(2, 5.0)
    engine.start()
    threads = [t for t in threading.enumerate() if t.name.startswith("threadloader")]
    assert 3 == len(threads)
    caught = []
    sys.unraisablehook, hook = lambda args: caught.append(args.exc_type), sys.unraisablehook
    # Of the whole process: pytest's may be of a context that the thread has not (see `leaks`).
    error = ("error", None, ResourceWarning, None, 0)
    warnings.filters.insert(0, error)
    try:
        del engine
        for thread in threads:
            thread.join(WAIT)
    finally:
        sys.unraisablehook = hook
        warnings.filters.remove(error)
    assert [ResourceWarning] == caught


def test_a_new_stream_takes_the_place_of_a_cancelled_one(make_engine):
    """Results of a cancelled stream never come out of the next one."""
    engine = make_engine(3)
    for round_ in range(50):
        stream = engine.stream(iter([Job((round_, n), parts=2) for n in range(9)]), depth=4)
        assert [(round_, n) for n in range(round_ % 4)] == [
            outcome.value[0] for outcome in results(stream, round_ % 4)
        ]
        stream.cancel()


def test_a_part_that_hangs_keeps_nothing_of_later_streams(make_engine):
    """G10: what was ready in them, and thrown away, is gone, though the part's job is not."""
    begun, go_on, made = threading.Event(), threading.Event(), []

    class Value:
        pass

    def make(number):
        value = Value()
        made.append(weakref.ref(value))
        return value

    def hang(number, part):
        begun.set()
        assert go_on.wait(WAIT)

    engine = make_engine(2)
    stream = engine.stream(iter([Job(0, do=hang)]), depth=1)
    stream.prefetch()
    assert begun.wait(WAIT)
    for _ in range(20):
        stream.cancel()
        stream = engine.stream((Job(number, finish=make) for number in range(9)), depth=4)
        stream.result(0)
        for slot in stream._line:
            assert slot.wait(WAIT) is not None
    free_at_once()
    assert len(made) == 20 * 5
    assert sum(value() is not None for value in made) <= 5
    go_on.set()


def test_ready_counts_what_can_be_had_at_once(make_engine):
    """Jobs 0 to 2 are done, 3 is held: three are ready, then two after one was taken."""
    held, go_on = threading.Event(), threading.Event()

    def do(number, part):
        if number == 3:
            held.set()
            assert go_on.wait(WAIT)

    stream = make_engine(1).stream(iter([Job(n, do=do) for n in range(5)]), depth=4)
    stream.prefetch()
    assert held.wait(WAIT)
    assert 3 == stream.ready(0)
    stream.result(0)
    assert 2 == stream.ready(1)
    go_on.set()


def test_what_a_part_costs_is_known_when_the_job_was_taken_out():
    """The feeder asks for it while the consumer, in `_raise`, takes job and error out."""
    done = Outcome(Job(0, parts=4), value=1, seconds=2.0)
    failed = Outcome(Job(1, parts=4), error=ValueError("bad"), part=1, seconds=2.0)
    for outcome in (done, failed):
        outcome.error = outcome.job = None
    assert (0.5, None, None) == (done.cost, failed.cost, ENDED.cost)


def test_claims_grow_when_parts_are_cheap(make_engine):
    """After the first jobs a batch of cheap parts is done by one worker in one claim."""
    hands = []

    class Counting(Job):
        def run(self, parts):
            hands.append(self.number)
            super().run(parts)

    results(make_engine(4).stream(iter([Counting(n, parts=8) for n in range(60)]), depth=1), 60)
    assert 1 == hands.count(59)


class TestInline:
    def test_it_gives_what_the_threads_give(self):
        """Same values, errors, parts and end, without a thread."""

        def do(number, part):
            if (number, part) == (1, 2):
                raise ValueError("bad")
            return part

        stream = Inline().stream(iter([Job(n, parts=3, do=do) for n in range(3)]), depth=9)
        first, second, third = results(stream, 3)
        assert (0, [0, 1, 2]) == first.value
        assert ("bad", 2) == (str(second.error), second.part)
        assert (2, [0, 1, 2]) == third.value
        assert ENDED is stream.result(3)

    def test_asking_again_runs_nothing_again(self):
        ran = []
        stream = Inline().stream(iter([Job(0, do=lambda n, p: ran.append(p))]), depth=1)
        assert stream.result(0) is stream.result(0)
        assert [0] == ran

    def test_an_interrupt_that_the_job_raises_itself_is_an_error_of_the_job(self):
        def do(number, part):
            raise KeyboardInterrupt

        outcome = Inline().stream(iter([Job(0, do=do)]), depth=1).result(0)
        assert KeyboardInterrupt is type(outcome.error)

    def test_a_real_interrupt_passes_and_the_job_is_run_again(self):
        """A signal during the job is the user's own, and consumes no result."""
        runs = []

        def do(number, part):
            runs.append(part)
            if len(runs) == 1:
                signal.raise_signal(signal.SIGINT)
            return part

        stream = Inline().stream(iter([Job(0, do=do)]), depth=1)
        with pytest.raises(KeyboardInterrupt):
            stream.result(0)
        assert (0, [0]) == stream.result(0).value
        assert [0, 0] == runs

    def test_what_a_handler_in_python_raises_passes_too(self):
        def handler(number, frame):
            raise SystemExit("told to end")

        def do(number, part):
            signal.raise_signal(signal.SIGTERM)

        before = signal.signal(signal.SIGTERM, handler)
        try:
            with pytest.raises(SystemExit, match="told to end"):
                Inline().stream(iter([Job(0, do=do)]), depth=1).result(0)
        finally:
            signal.signal(signal.SIGTERM, before)

    def test_an_interrupted_draw_ends_the_stream(self):
        """The job that the iterator gave is lost: the consumer must begin anew where it stands."""

        def jobs():
            yield Job(0)
            signal.raise_signal(signal.SIGINT)
            yield Job(1)

        stream = Inline().stream(jobs(), depth=1)
        assert (0, [0]) == stream.result(0).value
        with pytest.raises(KeyboardInterrupt):
            stream.result(1)
        assert ENDED is stream.result(1)

    @pytest.mark.parametrize("kind", ["method", "partial", "object"])
    def test_a_handler_of_any_kind_is_known(self, kind):
        """As asyncio's is a partial of a method."""
        import functools

        class Handler:
            def __call__(self, number, frame):
                raise KeyboardInterrupt

            def method(self, number, frame):
                raise KeyboardInterrupt

        made = {
            "method": Handler().method,
            "partial": functools.partial(Handler().method),
            "object": Handler(),
        }
        before = signal.signal(signal.SIGINT, made[kind])
        try:
            job = Job(0, do=lambda number, part: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                Inline().stream(iter([job]), depth=1).result(0)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_a_stop_that_comes_as_a_job_begins_is_told_of_it(self):
        """Another thread stops it right behind the look whether it is usable: the job is run."""

        class Stopped(Inline):
            said = None

            def __getattribute__(self, name):
                found = super().__getattribute__(name)
                if name == "usable" and found and self.said is None:
                    self.said = False  # so that the stop itself is not looked at
                    self.said = self.stop()
                return found

        ran = []
        inline = Stopped()
        job = Job(0, do=lambda number, part: ran.append(part))
        inline.stream(iter([job]), depth=1).result(0)
        assert (False, [0]) == (inline.said, ran)

    def test_what_is_left_behind_a_job_may_be_taken_back_as_it_is_looked_at(self):
        """Another thread closes right behind the look whether there is something: it is done."""
        done = []

        class Taken(Inline):
            def __getattribute__(self, name):
                found = super().__getattribute__(name)
                if name == "behind":
                    self.behind = None
                return found

        inline = Taken()

        def close(number, part):
            inline.stop()
            inline.behind = lambda *error: done.append(error)

        inline.stream(iter([Job(0, do=close)]), depth=1).result(0)
        assert 1 == len(done)

    def test_after_a_stop_nothing_is_run(self):
        inline = Inline()
        stream = inline.stream(iter([Job(0)]), depth=1)
        inline.stop()
        assert ENDED is stream.result(0)


class Delayed(Runtime):
    """A runtime in which a thread that lets go of the GIL waits long for it.

    Args:
        ends: called before the wait ends.
    """

    def __init__(self, ends):
        self.ends = ends

    def gil_delay(self):
        self.ends()
        return 0.008


@pytest.fixture
def _always_probed(monkeypatch):
    monkeypatch.setattr(_threads, "SOON_SECONDS", -1.0)
    monkeypatch.setattr(_threads, "PROBE_SECONDS", -1.0)


@pytest.mark.usefixtures("_always_probed")
def test_the_delay_of_the_gil_is_measured_by_the_first_worker(make_engine):
    probed = threading.Semaphore(0)
    engine = make_engine(num_workers=1, runtime=Delayed(probed.release))
    assert (0.0, False) == (engine.gil_delay, engine.gil_held)
    stream = engine.stream((Job(number) for number in range(20)), depth=20)
    stream.prefetch(0)
    for _ in range(20):  # as a loop does that works meanwhile
        assert probed.acquire(timeout=60)
    # Half of what was known each time: it has come near, but for the last, perhaps.
    assert 0.0079 < engine.gil_delay < 0.008
    assert engine.gil_held


@pytest.mark.usefixtures("_always_probed")
def test_no_other_worker_measures_it(make_engine, monkeypatch):
    """Three are at each job at once, and whoever comes back for the next one could have."""
    monkeypatch.setattr(_threads, "CLAIM_SECONDS", 0.0)
    names, three = set(), threading.Barrier(3)

    class Noting(Runtime):
        def gil_delay(self):
            names.add(threading.current_thread().name)
            return 0.0

    jobs = (Job(number, 3, lambda number, part: three.wait(WAIT)) for number in range(5))
    results(make_engine(3, runtime=Noting()).stream(jobs, depth=1), 5)
    assert {"threadloader-worker-0"} == names


class Clocked(Delayed):
    """One with a clock that is set by hand, too.

    Args:
        ends: called before a wait for the GIL ends, but only the first.

    Attributes:
        now: what the clock says.
        woken: to be set before the consumer, which a worker has woken, goes on.
    """

    def __init__(self, ends):
        super().__init__(lambda: self.once and self.once.pop()())
        self.once = [ends]
        self.now = 0.0
        self.woken = threading.Event()
        self.woken.set()

    def monotonic(self):
        return self.now

    def wait(self, lock, timeout=None):
        came = super().wait(lock, timeout)
        assert self.woken.wait(WAIT)
        return came


def until(seen):
    """Wait for what another thread stores."""
    deadline = time.monotonic() + WAIT
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0)


@pytest.mark.usefixtures("_always_probed")
@pytest.mark.parametrize(("own", "counted"), [(0.0, 0.0), (0.003, 0.003), (0.02, 0.008)])
def test_the_gil_is_held_by_the_loop_for_as_long_as_it_works_itself(make_engine, own, counted):
    """Then it waits: what a worker waits for from there on is another one, in Python code.

    1. Job 0 is done, and the worker asks for the GIL. The loop works.
    2. So much later it waits for job 1. The GIL has come 8 ms after it was asked for, even where
       the worker goes on only later.
    3. Job 1 sees half of what is counted.
    """
    asked = threading.Event()

    def ends():
        asked.set()
        until(lambda: engine._shared.wait_began == own)
        runtime.now = 0.008

    runtime = Clocked(ends)
    engine = make_engine(num_workers=1, runtime=runtime)
    job = Job(1, do=lambda number, part: engine.gil_delay)
    stream = engine.stream(iter([Job(0), job]), depth=1)
    stream.prefetch()
    assert asked.wait(WAIT)
    runtime.now = own
    assert [counted / 2] == stream.result(1).value[1]


@pytest.mark.usefixtures("_always_probed")
def test_a_loop_that_waited_at_first_holds_the_gil_only_from_there_on(make_engine):
    """It has its batch 5 ms after a worker asked for the GIL, and waits again 2 ms later."""

    def ends():
        runtime.now = 0.005
        runtime.woken.set()
        until(lambda: engine._shared.wait_began == 0.007)
        runtime.now = 0.008

    runtime = Clocked(ends)
    engine = make_engine(num_workers=1, runtime=runtime)
    runtime.woken.clear()
    jobs = [Job(0, do=lambda number, part: until(lambda: engine._shared.wait_began == 0.0))]
    jobs.append(Job(1, do=lambda number, part: engine.gil_delay))
    stream = engine.stream(iter(jobs), depth=1)
    stream.result(0)
    runtime.now = 0.007
    assert [0.001] == stream.result(1).value[1]


@pytest.mark.usefixtures("_always_probed")
def test_a_loop_that_begins_to_make_batches_itself_is_not_measured(make_engine):
    """It holds the GIL then, but in the place of the workers."""
    asked, cancelled = threading.Event(), threading.Event()

    def ends():
        asked.set()
        assert cancelled.wait(WAIT)

    engine = make_engine(num_workers=1, runtime=Delayed(ends))
    stream = engine.stream(iter([Job(0)]), depth=1)
    stream.prefetch()
    assert asked.wait(WAIT)
    stream.cancel()
    cancelled.set()
    assert engine.stop()
    assert (0.0, False) == (engine.gil_delay, engine.gil_held)


@pytest.mark.parametrize(("delay", "claims"), [(0.0, 36), (0.008, 16)])
def test_while_the_gil_is_held_workers_come_for_parts_more_rarely(make_engine, delay, claims):
    """Each takes what leaves the others as much, by the jobs in work, and not one part alone.

    1. Job 0 is dealt, of 8 parts. Four workers share them: 4 claims of 2, or 8 of one.
    2. None ends before job 2 is dealt. Two of the workers are left to job 1: 2 claims of 4, or 8.
    3. So they are to job 2: with one each for the three jobs, the fourth would have nothing.
    4. Each of the four, or of the two, comes once more, and finds none left.
    """
    all_dealt = threading.Event()

    def jobs():
        yield Job(0, 8, lambda number, part: all_dealt.wait(WAIT))
        yield Job(1, 8, lambda number, part: all_dealt.wait(WAIT))
        all_dealt.set()
        yield Job(2, 8)

    engine = make_engine(num_workers=4)
    engine._shared.gil_delay = delay
    stream = engine.stream(jobs(), depth=3)
    stream.prefetch()
    made = [stream.result(number).value[1] for number in range(3)]
    assert [[True] * 8, [True] * 8, [*range(8)]] == made
    assert claims == sum(worker.claims for worker, _ in engine._shared.crew)


def test_a_stream_that_winds_down_gives_what_is_begun_and_begins_no_more(make_engine):
    drawn = []

    def jobs():
        for number in range(100):
            drawn.append(number)
            yield Job(number)

    engine = make_engine()
    stream = engine.stream(jobs(), depth=3)
    assert 0 == stream.result(0).value[0]
    stream.wind_down()
    given = []
    number = 1
    while (outcome := stream.result(number)) is not ENDED:
        given.append(outcome.value[0])
        number += 1
    assert [1, 2, 3] == given == drawn[1:]


def test_a_feeder_that_does_not_end_is_logged_with_its_stack(make_engine, monkeypatch, caplog):
    """G6: as if the bound had passed; whoever stops is told where it hangs."""
    engine = make_engine(1)
    stream = engine.stream(iter([Job(0)]), depth=1)
    stream.result(0)
    end = engine._shared.end.wait
    with monkeypatch.context() as late:
        late.setattr(Slot, "wait", lambda slot, seconds=None: end() and None)
        assert engine.stop()
    assert "the feeder has not ended within" in caplog.text


def test_a_feeder_that_does_not_end_is_waited_for_once(caplog):
    """G6: who stops again has nothing left to wait for, and is told nothing anew."""
    asked, go_on = threading.Event(), threading.Event()

    def jobs():
        asked.set()
        assert go_on.wait(WAIT)
        yield Job(0)

    engine = Engine(1, 0.05, Runtime())
    engine.start()
    try:
        engine.stream(jobs(), depth=2).prefetch()
        assert asked.wait(WAIT)
        assert engine.stop()
        assert engine._shared.end.outcome is ENDED
        assert engine.stop()
        assert 1 == len(caplog.records)
    finally:
        go_on.set()
        engine._feeder.join(WAIT)


def test_a_worker_that_is_stuck_beside_the_feeder_is_logged_too(caplog):
    """G6: storage that hangs stops both at once."""
    read, asked, go_on = threading.Event(), threading.Event(), threading.Event()

    def stuck_in_here(number, part):
        read.set()
        assert go_on.wait(WAIT)

    def jobs():
        yield Job(0, do=stuck_in_here)
        asked.set()
        assert go_on.wait(WAIT)

    engine = Engine(1, 0.05, Runtime())
    engine.start()
    engine.stream(jobs(), depth=2).prefetch()
    try:
        assert read.wait(WAIT)
        assert asked.wait(WAIT)
        ((_, worker),) = engine._shared.crew
        assert engine.stop()
        feeder, stuck = [record.getMessage() for record in caplog.records]
        assert feeder.startswith("the feeder has not ended within 0.05 s")
        assert "has not ended within 0.05 s and is left behind; it is at job 0, part 0\n" in stuck
        assert "in stuck_in_here" in stuck
    finally:
        go_on.set()
        worker.join(WAIT)
        engine._feeder.join(WAIT)


def test_a_feeder_that_is_stuck_costs_its_bound_and_no_more():
    """G6: only where it is the log that it waits for, a second comes on top."""
    me, waits, asked, go_on = threading.get_ident(), [], threading.Event(), threading.Event()

    class Noting(Runtime):
        def wait(self, lock, timeout=None):
            if threading.get_ident() == me and asked.is_set():
                waits.append(timeout)
            return super().wait(lock, timeout)

    def jobs():
        asked.set()
        assert go_on.wait(WAIT)
        yield Job(0)

    engine = Engine(1, 0.05, Noting())
    engine.start()
    engine.stream(jobs(), depth=1).prefetch()
    try:
        assert asked.wait(WAIT)
        assert engine.stop()
        assert [0.05 + _engine.GRACE_SECONDS] == waits
    finally:
        go_on.set()
        engine._feeder.join(WAIT)


class Ending(Runtime):
    """A runtime of an interpreter that shuts down: no thread begins any more."""

    ends = False

    def launch(self, function, args):
        if self.ends:
            raise RuntimeError("can't create new thread at interpreter shutdown")
        Runtime.launch(function, args)


def test_an_engine_is_not_started_while_the_interpreter_shuts_down():
    """CPython 3.12 refuses threads before it says that it ends."""
    runtime = Ending()
    runtime.ends = True
    with pytest.raises(ClosedError, match="while the interpreter shuts down"):
        Engine(1, 1.0, runtime).start()


def test_who_stops_takes_the_place_of_the_feeder_where_no_thread_begins():
    """G6: the feeder is in a sampler for good; the consumer is woken, and the workers end."""
    asked, never, given, runtime = threading.Event(), threading.Event(), [], Ending()

    def jobs():
        asked.set()
        assert never.wait(WAIT)
        yield Job(0)

    engine = Engine(1, 0.05, runtime)
    engine.start()
    stream = engine.stream(jobs(), depth=1)
    consumer = threading.Thread(target=lambda: given.append(stream.result(0)), daemon=True)
    consumer.start()
    try:
        assert asked.wait(WAIT)
        while engine._shared.awaited is None:
            pass
        ((_, worker),) = engine._shared.crew
        runtime.ends = True
        assert engine.stop()
        consumer.join(WAIT)
        worker.join(WAIT)
        assert ([ENDED], False) == (given, worker.is_alive())
    finally:
        never.set()
        engine._feeder.join(WAIT)


@pytest.mark.parametrize(
    ("patched", "refused"),
    [({"threading"}, True), ({"queue"}, True), ({"socket", "time"}, False)],
)
def test_threads_that_gevent_has_replaced_are_refused_with_what_to_do(
    monkeypatch, patched, refused
):
    """Some of them would wait for others for ever, where no line of ours is at fault."""
    gevent = SimpleNamespace(is_module_patched=patched.__contains__)
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    engine = Engine(2, WAIT)
    if refused:
        with pytest.raises(ConfigError, match=r"/num_workers: .* 0 .*got 2; .*queue=False"):
            engine.start()
    else:
        engine.start()
    assert engine.stop()
