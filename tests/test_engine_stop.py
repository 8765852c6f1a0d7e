"""Once an engine is stopped, or a stream left, nothing more begins and nobody waits (G5, G6)."""

import sys
import threading
import warnings

import pytest
from freeing import AT_ONCE
from numbered_jobs import WAIT, Job, results, until

from threadloader.engine import ENDED, Engine, _engine


def stop_before(engine, go_on):
    """Stops an engine, and lets what is in work go on once the stop has begun."""
    stopper = threading.Thread(target=engine.stop)
    stopper.start()
    while engine.usable:
        pass
    go_on.set()
    stopper.join(WAIT)


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
    stop_before(engine, go_on)
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
    stop_before(engine, go_on)
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


def test_an_engine_that_was_stopped_is_not_kept_for_the_exit_hook(make_engine, monkeypatch):
    """Of a program that opens many loaders, one after the other, none stays."""
    monkeypatch.setattr(_engine, "_running", {})
    engine = make_engine(1)
    (there,) = _engine._running.values()
    assert there() is engine
    engine.stop()
    assert {} == _engine._running


def test_stopping_twice_and_from_a_worker_is_harmless(make_engine):
    """G6: a worker that stops its own engine does not wait for itself."""
    engine, ended = make_engine(2), []
    job = Job(0, do=lambda number, part: ended.append(engine.stop()))
    stream = engine.stream(iter([job]), depth=1)
    assert ENDED is stream.result(0)
    ended += [engine.stop(), engine.stop()]
    assert ([False, True, True], False) == (sorted(ended), engine.usable)


def test_a_dropped_engine_ends_its_threads(monkeypatch):
    """A finalizer tells them to end, and the feeder warns of the one who forgot."""
    monkeypatch.setattr(_engine, "_running", {})
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
    assert ([ResourceWarning], {}) == (caught, _engine._running)


@pytest.mark.skipif(not AT_ONCE, reason="the engine is dropped when the collector runs")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dropped_engine_begins_no_further_part():
    """G5: not even while the feeder is still in the iterator of jobs, and cannot be told."""
    begun, inside, asked, go_on = [], threading.Event(), threading.Event(), threading.Event()
    feeder_may_go_on = threading.Event()

    def do(number, part):
        begun.append(part)
        inside.set()
        assert go_on.wait(WAIT)

    def jobs():
        yield Job(0, parts=4, do=do)
        asked.set()
        assert feeder_may_go_on.wait(WAIT)

    engine = Engine(1, 5.0)
    engine.start()
    ((worker, thread),), feeder = engine._shared.crew, engine._feeder
    engine.stream(jobs(), depth=2).prefetch()
    assert inside.wait(WAIT)
    assert asked.wait(WAIT)
    del engine
    go_on.set()
    until(lambda: worker.job is None)
    feeder_may_go_on.set()
    feeder.join(WAIT)
    thread.join(WAIT)
    assert [0] == begun


def test_a_new_stream_takes_the_place_of_a_cancelled_one(make_engine):
    """Results of a cancelled stream never come out of the next one."""
    engine = make_engine(3)
    for round_ in range(50):
        stream = engine.stream(iter([Job((round_, n), parts=2) for n in range(9)]), depth=4)
        assert [(round_, n) for n in range(round_ % 4)] == [
            outcome.value[0] for outcome in results(stream, round_ % 4)
        ]
        stream.cancel()
