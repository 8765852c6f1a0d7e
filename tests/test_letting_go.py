"""What the engine holds is let go of in time, where no lock is held, and nobody waits for it."""

import gc
import sys
import threading
import time
import weakref
from contextlib import suppress
from functools import partialmethod
from types import SimpleNamespace

import pytest
from freeing import AT_ONCE, free_at_once
from leaks import Watch
from numbered_jobs import WAIT, Job

from threadloader import ClosedError, Loader
from threadloader._runtime import Runtime
from threadloader.engine import ENDED, Engine, _joining, _slots
from threadloader.loader._results import Results
from threadloader.loader._run import Run
from threadloader.loader._supply import Supply


class Source:
    """Two samples that fail, the second one first; what it held then ends when it is told to."""

    def __init__(self):
        self.ends, self.may_end = threading.Event(), threading.Event()
        self.failed = threading.Event()

    def __len__(self):
        return 2

    def __getitem__(self, index):
        if index == 1:
            connection = Connection(self)
            raise OSError(f"by {connection}")
        assert self.failed.wait(WAIT)
        raise OSError


class Connection:
    def __init__(self, source):
        self.source = source

    def __del__(self):
        self.source.ends.set()
        assert self.source.may_end.wait(WAIT)


@pytest.mark.skipif(not AT_ONCE, reason="an object ends in the thread that has made it")
def test_nobody_waits_for_the_end_of_what_a_failed_read_held(monkeypatch):
    """G5, G9: it ends in a worker, as a lower part has failed; a stop wakes the loop all the same.

    It ended under the lock of the slot, where whoever stops waited for it for ever.
    """

    def fail(slot, worker, error, real=_slots.Slot.fail):
        real(slot, worker, error)
        source.failed.set()

    def ask(batches):
        try:
            next(batches)
        except ClosedError:
            woken.set()

    monkeypatch.setattr(_slots.Slot, "fail", fail)
    source, woken = Source(), threading.Event()
    config = {"batch_size": 2, "num_workers": 2, "shuffle": False, "close_timeout": 0.1}
    with Loader(config, source) as batches:
        loop = threading.Thread(target=ask, args=(iter(batches),), daemon=True)
        loop.start()
        assert source.ends.wait(WAIT)
        closing = threading.Thread(target=batches.close, daemon=True)
        closing.start()
        try:
            assert woken.wait(WAIT / 2)
        finally:
            source.may_end.set()
            loop.join(WAIT)
            closing.join(WAIT)


class Cyclic:
    """Garbage that says under what lock of a slot it is collected."""

    under = ()

    def __init__(self):
        self.itself = self

    def __del__(self):
        frame = sys._getframe().f_back
        guard = frame and getattr(frame.f_locals.get("self"), "_guard", None)
        if guard is not None and guard.locked():
            Cyclic.under += ((frame.f_code.co_name, frame.f_lineno),)


class Littering(list):
    """Each sample leaves some garbage."""

    def __getitem__(self, index):
        Cyclic()
        return index, [index]


def test_no_garbage_is_collected_where_a_slot_is_locked():
    """G5, G9: what ends there may wait, and whoever stops then waits for it in vain.

    Up to CPython 3.11 each new tuple may begin a collection; later ones begin between two lines.
    """
    before = gc.get_threshold()
    gc.set_threshold(20)
    config = {"batch_size": 32, "num_workers": 1, "stall_action": "raise"}  # one: it has the lock
    try:
        with Loader(config, Littering(range(60_000)), collate=list) as batches:
            for epoch in batches.epochs(3):
                for _ in epoch:
                    pass
    finally:
        gc.set_threshold(*before)
    assert () == Cyclic.under


class Batch(list):
    """A list that can be referred to weakly."""


@pytest.mark.parametrize("asks", [1, 2])
@pytest.mark.parametrize("delivers", [False, True])
def test_what_was_prepared_is_let_go_of_where_a_close_finds_the_loop_inside_next(
    delivers, asks, monkeypatch
):
    """The loop does it then, at the latest when it asks again; or else the end of the `with`."""
    made = threading.Semaphore(0)
    held, inside, forgotten = threading.Event(), threading.Event(), threading.Event()
    prepared = []

    def collate(samples):
        batch = Batch(samples)
        prepared.append(weakref.ref(batch))
        made.release()
        return batch

    class Source(list):
        def __getitem__(self, index):
            assert index or held.wait(WAIT)
            return index

    def forget(run, real=Run.forget):
        done = real(run)
        forgotten.set()
        return done

    def end_of_next(run, *args, real):
        held.set()
        inside.set()
        assert forgotten.wait(WAIT)
        return real(run, *args)

    def ask():
        for _ in range(asks):
            with suppress(ClosedError):
                next(epoch)

    monkeypatch.setattr(Run, "forget", forget)
    # Where a stop wakes the loop, and where the loop has its batch just before.
    where, name = (Supply, "note") if delivers else (Run, "_cut_short")
    monkeypatch.setattr(where, name, partialmethod(end_of_next, real=getattr(where, name)))
    config = {"batch_size": 8, "shuffle": False, "num_workers": 3, "prefetch_batches": 6}
    loader = Loader({**config, "stall_action": "raise"}, Source(range(1000)), collate=collate)
    with loader as batches:
        epoch = iter(batches)
        loop = threading.Thread(target=ask)
        loop.start()
        if delivers:
            held.set()
            assert inside.wait(WAIT)
        assert all(made.acquire(timeout=WAIT) for _ in range(5))
        batches.close()
        loop.join(WAIT)
        if asks > delivers:
            free_at_once()
            assert {None} == {batch() for batch in prepared}
    free_at_once()
    assert {None} == {batch() for batch in prepared}


def test_what_was_prepared_is_let_go_of_where_a_close_finds_a_thread_inside_len(monkeypatch):
    """Which waits for a sampler, say, and learns of the close only then."""

    def coming(results, place, end, real=Results.coming):
        place, _ = real(results, place, end)
        closing = threading.Thread(target=batches.close)
        closing.start()
        closing.join(WAIT)
        assert not place.stream.cancelled
        return place, ENDED

    monkeypatch.setattr(Results, "coming", coming)
    with Loader({}, list(range(400)), sampler=lambda epoch, n: range(n)) as batches:
        with pytest.raises(ClosedError):
            len(batches)
        assert batches._run.place.stream.cancelled


def test_batches_that_nobody_will_ask_for_are_let_go_of():
    """G10: the feeder kept them until it was asked for more."""
    made, ended = threading.Semaphore(0), threading.Semaphore(0)

    def collate(samples):
        batch = Batch(samples)
        weakref.finalize(batch, ended.release)
        made.release()
        return batch

    config = {"batch_size": 10, "num_workers": 2, "prefetch_batches": 8}
    with Loader(config, range(1000), collate=collate) as batches:
        begin = batches.state_dict()
        epoch = iter(batches)
        assert all(made.acquire(timeout=WAIT) for _ in range(8))
        epoch.close()
        batches.load_state_dict(begin)
        for _ in range(8):
            until = time.monotonic() + WAIT
            while not ended.acquire(timeout=0.05):
                free_at_once()
                assert time.monotonic() < until


class Suspended:
    """A thread that ends at its 30th look, in a process that is stopped at each for a minute."""

    name, ident, looks = "threadloader-worker-0", 1, 0

    def __init__(self):
        self.monotonic = lambda: 60.0 * self.looks

    def join(self, timeout=None):
        self.looks += 1

    def is_alive(self):
        return self.looks < 30


def test_time_in_which_the_process_was_stopped_is_not_waited_for_a_worker():
    """G6: one that would have ended in time was given up."""
    thread, worker = Suspended(), _slots.Worker(lambda: True)
    worker.job = "something"
    assert [] == _joining.join([(worker, thread)], 5.0, 5.0, thread)
    assert 30 == thread.looks


class Late:
    """A thread that ends some time after it was first waited for, by a clock that is made up."""

    name, ident, now = "threadloader-worker", 1, 0.0

    def __init__(self, seconds):
        self._left = seconds

    def join(self, timeout=None):
        waited = min(self._left, timeout)
        self._left -= waited
        Late.now += waited

    def is_alive(self):
        return self._left > 0


def test_those_that_end_soon_leave_the_last_one_its_time():
    """G6: a look that was cut short by the end of a thread counts as long as it took."""
    runtime = SimpleNamespace(monotonic=lambda: Late.now)
    crew = [(_slots.Worker(lambda: True), Late(seconds)) for seconds in [2**-7] * 16 + [0.5]]
    for worker, _ in crew:
        worker.job = "something"
    assert [] == _joining.join(crew, 1.0, 1.0, runtime)


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
