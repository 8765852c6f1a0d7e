"""Leaving a loader within the leaving of it, or after one that has failed."""

import _thread
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from conftest import our_threads
from own_sources import Part
from sweep import Sweep

from threadloader import ClosedError, Loader, per_thread
from threadloader._runtime import RUNTIME
from threadloader.engine import Inline
from threadloader.engine._slots import Slot
from threadloader.loader._turn import Turn

WAIT = 60.0


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_source_that_closes_its_loader_while_it_is_closed_is_closed_once(num_workers):
    """As a signal's handler or a finalizer does, that comes in the midst of it."""
    closed = []

    class Closing(Part):
        @staticmethod
        def closing():
            closed.append(1)
            batches.close()

    def leave():
        nonlocal batches
        with Loader({"num_workers": num_workers}, per_thread(Closing)) as batches:
            next(iter(batches))
            made.append(len(closed))

    batches, made = None, []
    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert made == [0]
    assert closed
    assert len(closed) <= 1 + num_workers  # one for each thread that has asked


@pytest.mark.parametrize("error", [None, OSError("of a close")])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_a_with_that_ends_in_a_worker_is_closed_behind_the_threads(num_workers, error, monkeypatch):
    """As that of a generator in a cycle, if it is collected there; then it can be entered anew."""
    left, collect, closed, raised = [], threading.Event(), [], []
    monkeypatch.setattr(threading, "excepthook", lambda it: raised.append(it.exc_value))

    class Closing(Part):
        @staticmethod
        def closing():
            closed.append(our_threads())
            if error is not None and len(closed) == 1:
                raise error

    def transform(sample):
        if collect.is_set() and not left:
            left.append(threading.current_thread().name)
            loader.__exit__(None, None, None)
        return sample

    loader = Loader(
        {"num_workers": num_workers, "batch_size": 1}, per_thread(Closing), transform=transform
    )
    batches = loader.__enter__()
    next(iter(batches))
    threads = [it for it in threading.enumerate() if "threadloader" in it.name]
    collect.set()
    for thread in threads:
        thread.join(WAIT)
    assert "threadloader-worker" in left[0]
    assert 1 < len(closed) <= 1 + num_workers
    # The feeder alone: nobody reads any more.
    assert {1} == {len(there) for there in closed}
    assert ([] if error is None else [error]) == raised
    assert not our_threads()
    with loader as batches:
        assert len(batches)


@pytest.mark.parametrize("leaves", [True, False])
def test_where_somebody_else_closes_too_the_source_is_closed_there(leaves, monkeypatch):
    """With its errors, and without a bound, as it is if a worker only calls `close`."""
    told, raised = [], []
    monkeypatch.setattr(threading, "excepthook", lambda it: raised.append(it.exc_value))
    inside, go_on = threading.Event(), threading.Event()

    class Closing(Part):
        @staticmethod
        def closing():
            told.append(threading.current_thread())
            raise OSError("of a close")

    def transform(sample):
        if not inside.is_set():
            loader.__exit__(None, None, None) if leaves else batches.close()
            inside.set()
            assert go_on.wait(WAIT)  # and the feeder waits for this thread
        return sample

    def wait(slot, timeout=None):
        if slot is batches._supply.engine._shared.end:
            go_on.set()
        return plain(slot, timeout)

    plain = Slot.wait
    loader = Loader({"num_workers": 1, "batch_size": 1}, per_thread(Closing), transform=transform)
    batches = loader.__enter__()
    with pytest.raises(ClosedError):
        next(iter(batches))
    assert inside.wait(WAIT)
    monkeypatch.setattr(Slot, "wait", wait)
    with pytest.raises(OSError, match="of a close"):
        batches.close()
    assert ({threading.current_thread()}, []) == (set(told), raised)


def test_a_loader_whose_closing_fails_twice_can_be_entered_again():
    """Interrupted again and again, it has not closed all; but nobody is shut out."""

    def interrupted():
        signal.raise_signal(signal.SIGINT)

    loader = Loader({"num_workers": 0}, list(range(4)))
    with pytest.raises(KeyboardInterrupt), loader as batches:
        batches._close_source = interrupted
    with loader as batches:
        assert [[0, 1, 2, 3]] == [sorted(batch) for batch in batches]


def test_a_source_is_closed_once_wherever_a_handler_closes_the_loader():
    """At each line of the closing; the source is not asked whether it was closed before."""
    for at in range(1, 400):
        closed = []
        with Loader({"num_workers": 0}, [1]) as batches:
            batches._close_source = partial(closed.append, 1)
            sweep = Sweep(at, lambda frame, batches=batches: batches.close())
            with sweep:
                batches.close()
        assert [1] == closed, sweep.where
        if not sweep.where:
            break
    assert 20 < at < 399


@pytest.mark.parametrize("presses", [1, 2])
def test_a_loader_that_is_interrupted_while_it_closes_closes_all_the_same(presses):
    """Who presses Ctrl-C again, since the end takes long, leaves nothing open."""
    left, closed = [1] * presses, []

    def close():
        if left:
            left.pop()
            signal.raise_signal(signal.SIGINT)
        closed.append(1)

    with pytest.raises(KeyboardInterrupt), Loader({"num_workers": 0}, [1]) as batches:
        batches._close_source = close
    assert ([], [1]) == (left, closed)


def test_what_shortens_the_switch_interval_behind_the_end_puts_it_back():
    """The loop's thread may be about to, while another one closes the loader."""
    before = sys.getswitchinterval()
    with Loader({"num_workers": 1, "switch_interval": "auto"}, list(range(4))) as batches:
        pass
    batches._supply._shorten(before / 10)
    assert before == pytest.approx(sys.getswitchinterval())


def test_who_waits_is_woken_when_the_sampler_never_comes_back():
    """Not by the feeder, which is in it, but by who leaves the `with`."""
    asked, never, told = threading.Event(), threading.Event(), []

    def sampler(epoch, n):
        if epoch:
            asked.set()
            never.wait()
        return range(n)

    def consume():
        try:
            for epoch in batches.epochs(2):
                list(epoch)
        except ClosedError as error:
            told.append(error)

    config = {"num_workers": 1, "close_timeout": 0.1}
    try:
        with Loader(config, list(range(4)), sampler=sampler) as batches:
            thread = threading.Thread(target=consume, daemon=True)
            thread.start()
            assert asked.wait(WAIT)
            while batches._supply.engine._shared.awaited is None:
                pass
        thread.join(WAIT)
        assert not thread.is_alive()
        assert 1 == len(told)
    finally:
        never.set()
        while our_threads():  # the feeder, and the worker that it joins
            pass


def test_behind_a_job_in_another_thread_what_the_loader_opened_is_closed():
    """The `with` is left while that thread is in the job, without workers: it does the rest."""
    begun, go_on, closed = threading.Event(), threading.Event(), []

    class Closed(Part):
        @staticmethod
        def closing():
            closed.append(1)

    def slow(sample):
        begun.set()
        assert go_on.wait(WAIT)
        return sample

    with Loader({"num_workers": 0}, per_thread(Closed), transform=slow) as batches:
        thread = threading.Thread(target=lambda: next(iter(batches)), daemon=True)
        thread.start()
        assert begun.wait(WAIT)
    before = len(closed)
    go_on.set()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert before < len(closed)  # that of the thread


def test_what_closing_raises_behind_a_job_does_not_hide_a_ctrl_c_in_it():
    """The job's own thread closes, since another one has asked for it meanwhile."""

    def read(sample):
        thread = threading.Thread(target=batches.close)
        thread.start()
        thread.join(WAIT)
        signal.raise_signal(signal.SIGINT)

    class Failing(Part):
        @staticmethod
        def closing():
            raise OSError("the disk is gone")

    with pytest.raises(KeyboardInterrupt) as caught:
        with Loader({"num_workers": 0}, per_thread(Failing), transform=read) as batches:
            next(iter(batches))
    (note,) = caught.value.__notes__
    assert "the disk is gone" in note


def test_a_turn_that_ends_while_it_is_looked_at_is_not_mine():
    """Somebody is seen inside; that turn ends, and the lock of the next one is free."""

    class Ending:
        lock = _thread.RLock()

        @property
        def inside(self):
            self.lock = _thread.RLock()
            return True

    thread = threading.Thread(target=Ending.lock.acquire)
    thread.start()
    thread.join(WAIT)
    assert not Turn.is_mine(Ending())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_goes_on_though_another_thread_was_in_next(run_child):
    """Who had the turn is not there; without workers, it makes its batches itself."""
    done = run_child(
        """
import os, threading, warnings
from threadloader import Loader

warnings.simplefilter("ignore")  # of forks with threads
begun, go_on, main = threading.Event(), threading.Event(), threading.main_thread()

class Slow:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if threading.current_thread() is not main:
            begun.set()
            go_on.wait()
        return index

with Loader({"batch_size": 2, "num_workers": 0, "shuffle": False}, Slow()) as batches:
    epoch = iter(batches)
    thread = threading.Thread(target=lambda: next(epoch))
    thread.start()
    begun.wait()
    child = os.fork()
    if not child:
        print([batch.tolist() for batch in epoch], flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    go_on.set()
    thread.join()
"""
    )
    assert ("[[0, 1], [2, 3], [4, 5], [6, 7]]\n", 0) == (done.stdout, done.returncode), done.stderr


def test_a_loader_that_is_left_in_a_read_of_its_own_thread_can_be_entered_again():
    """Without workers: what is being read ends behind it, and nobody else leaves."""
    left = []

    class Leaving(Part):
        def __getitem__(self, index):
            if not left:
                left.append(loader.__exit__(None, None, None))
            return index

    loader = Loader({"num_workers": 0}, Leaving())
    assert [0, 1, 2, 3] == sorted(next(iter(loader.__enter__())))
    with loader as batches:
        assert [[0, 1, 2, 3]] == [sorted(batch) for batch in batches]


def test_whoever_leaves_waits_for_another_thread_that_closes_the_source():
    """The `with` was left while a file was open still."""
    begun, may_end, closed = threading.Event(), threading.Event(), []

    class Slow(Part):
        @staticmethod
        def closing():
            begun.set()
            assert may_end.wait(WAIT)
            closed.append(1)

    def wait(lock, timeout=None, real=RUNTIME.wait):
        may_end.set()  # not before somebody waits
        return real(lock, timeout)

    loader = Loader({"num_workers": 0, "close_timeout": WAIT}, per_thread(Slow))
    with loader as batches, pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches._runtime, "wait", wait, raising=False)
        next(iter(batches))
        other = threading.Thread(target=batches.close, daemon=True)
        other.start()
        assert begun.wait(WAIT)
        loader.__exit__(None, None, None)
        assert closed
        other.join(WAIT)


def test_a_batch_that_is_made_without_workers_past_the_bound_of_a_close_is_told(caplog):
    """With its stack; what is open is closed behind it."""
    reads, may_end, closed = threading.Event(), threading.Event(), threading.Event()

    class Stuck(Part):
        def __getitem__(self, index):
            reads.set()
            assert may_end.wait(WAIT)
            return index

        @staticmethod
        def closing():
            if reads.is_set():
                closed.set()

    def loop():
        with suppress(ClosedError):
            next(iter(batches))

    with Loader({"num_workers": 0, "close_timeout": 0.1}, per_thread(Stuck)) as batches:
        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        assert reads.wait(WAIT)
    said = [record.getMessage() for record in caplog.records]
    may_end.set()
    thread.join(WAIT)
    assert closed.wait(WAIT)
    assert 1 == len(said)
    assert "is not done within 0.1 s" in said[0]
    assert "in __getitem__" in said[0]


def test_nothing_is_told_of_a_batch_that_is_done_just_as_the_bound_is_over(caplog):
    Inline().wait(0.0)
    assert not caplog.records


def test_where_the_source_is_closed_nobody_is_waited_for(monkeypatch):
    """A lock that an interrupt has left held would be, for the whole bound, at each close."""
    quiet = type("Quiet", (Part,), {"closing": staticmethod(lambda: None)})
    with Loader({"num_workers": 0}, per_thread(quiet)) as batches:
        batches.close()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(batches._closing.acquire).result()
        monkeypatch.setattr(batches._runtime, "wait", None, raising=False)
        batches.close()
