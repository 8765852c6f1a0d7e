"""A Ctrl-C at any moment loses no batch and leaves everything closable (G8).

A timer sends a real signal after a random time; its handler is Python's own for Ctrl-C.
"""

import _thread
import functools
import gc
import os
import queue
import random
import signal
import threading
import time
import timeit

import numpy as np
import pytest
from conftest import our_threads

from threadloader import Loader, state
from threadloader.cache._segments import Segment

pytestmark = [
    pytest.mark.skipif(
        not hasattr(signal, "setitimer"), reason="the system has no timer that sends a signal"
    ),
    # threading keeps its threads in a WeakSet, whose callback is Python code: a signal that
    # lands in it is reported and swallowed there, in any program that uses threads.
    pytest.mark.filterwarnings("ignore:Exception ignored.*<function WeakSet"),
    # Likewise one in a generator that is closed because nobody has it any more.
    pytest.mark.filterwarnings("ignore:Exception ignored.*<generator object"),
]


ALARM = functools.partial(signal.default_int_handler)
"""The handler: Python's own, which C code calls, or, with another state, one that does nothing."""

# Each is one call in C: no signal lands between a call of it and what it does.
heed = functools.partial(ALARM.__setstate__, (signal.default_int_handler, (), {}, None))
ignore = functools.partial(ALARM.__setstate__, (lambda number, frame: None, (), {}, None))


@pytest.fixture(autouse=True)
def alarm_is_ctrl_c():
    before = signal.signal(signal.SIGALRM, ALARM)
    # A callback of the collector (hypothesis has one) is Python code without a caller: a
    # signal that lands in it is reported and swallowed.
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    yield
    gc.callbacks[:] = callbacks
    signal.signal(signal.SIGALRM, before)


def interrupted(delay, body, again=2.0):
    """Runs a body and interrupts it after some seconds; says whether it was in time.

    The timer goes on, should a signal be swallowed where Python cannot raise; slowly, since a
    close that is interrupted again and again leaves threads that have yet to end. Its last
    signal may come late, from a thread that the system has given it to: it is ignored, and ends
    no test.
    """
    try:
        try:
            heed()
            signal.setitimer(signal.ITIMER_REAL, delay, again)
            body()
        finally:
            ignore()
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


def test_signals_without_a_pause_leave_nothing_behind_a_body():
    """However many come while one is on its way out."""
    assert [True] * 2000 == [interrupted(1e-6, signal.pause, again=1e-5) for _ in range(2000)]


class Numbers:
    """Sample i is i; every eighth read waits a little, so that the consumer waits too."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index % 8 == 0:
            time.sleep(0.0002)
        return index


@pytest.mark.parametrize(("workers", "trials"), [(0, 1000), (1, 2500), (3, 2500)])
def test_a_loader_interrupted_anywhere_closes_with_nothing_left(workers, trials):
    """Entering, iterating, leaving: the signal comes up to 4 ms after the first line."""
    rng = random.Random(workers)
    config = {"batch_size": 4, "num_workers": workers, "prefetch_batches": 2}
    # Imports what is imported late: importlib swallows a signal that lands in its own callbacks.
    with Loader(config, Numbers(40)) as batches:
        list(batches)
    hits = 0
    for _ in range(trials):
        loader = Loader(config, Numbers(40))

        def run(loader=loader):
            with loader as batches:
                for _ in batches:
                    pass

        hits += interrupted(rng.uniform(1e-6, 4e-3), run)
        # The signal may land on the first bytecode of __exit__ itself: then it has done nothing.
        loader.__exit__(None, None, None)
        assert set() == our_threads()
    assert hits > trials // 20


class Last:
    """Where a loop's variable is stored, so that an interrupt behind the loop cannot lose it."""

    batch = None


@pytest.mark.parametrize(("workers", "trials"), [(0, 3000), (1, 6000), (3, 6000)])
def test_an_interrupt_consumes_no_batch(workers, trials):
    """Interrupted thousands of times, the run delivers each batch once and in order."""
    rng = random.Random(workers)
    n, size = 64, 4
    config = {"batch_size": size, "shuffle": False, "num_workers": workers, "prefetch_batches": 2}
    seen, hits = [], 0
    with Loader(config, Numbers(n)) as batches:
        epoch, last = iter(batches), Last()

        def run():
            nonlocal epoch
            while True:
                for last.batch in epoch:
                    pass
                epoch = iter(batches)

        delivered = 0
        for _ in range(trials):
            hits += interrupted(rng.uniform(1e-6, 1e-3), run)
            # What the run says it has delivered is what the loop was given, not one more.
            if batches.info is not None:
                assert batches.info.indices.tolist() == last.batch.tolist()
            counted = batches.state_dict()["shard"]["batches"]
            assert counted >= delivered
            delivered = counted
            if batches.info is not None:
                seen.append((batches.info.epoch, batches.info.step))
        assert hits == trials
        assert sorted(seen) == seen
        assert delivered == batches.stats().batches
    assert set() == our_threads()


@pytest.mark.parametrize("workers", [0, 2])
def test_every_batch_comes_once_under_interrupts(workers):
    """All that the loop was ever given is each sample once, whatever interrupted it.

    A batch costs some microseconds here, so that the signals land in the loader's own lines
    and not in a read.
    """
    rng = random.Random(7)
    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "num_epochs": 1}
    hits = 0
    for _ in range(10):
        with Loader(config, range(8000)) as batches:
            epoch, got = iter(batches), []

            def run(epoch=epoch, got=got):
                # A store in C, without a call that a signal could follow: it keeps every batch.
                for got[0:0] in epoch:
                    pass

            while interrupted(rng.uniform(1e-6, 3e-4), run):
                hits += 1
        # Stored in front, the batches came in reverse.
        blocks = [got[i : i + 4] for i in range(0, len(got), 4)]
        assert list(range(8000)) == [number for block in blocks[::-1] for number in block]
    assert hits > 100
    assert set() == our_threads()


def test_ctrl_c_while_waiting_is_prompt():
    """A consumer blocked on a read that takes as long as it likes is woken by the signal."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Numbers):
        def __getitem__(self, index):
            inside.set()
            assert go_on.wait(30)
            return index

    with Loader({"batch_size": 2, "num_workers": 1}, Slow(4)) as batches:
        epoch = iter(batches)
        assert inside.wait(30)
        assert interrupted(0.01, lambda: next(epoch))
        go_on.set()
        assert 2 == len(next(epoch))
        assert 0 == batches.info.step


def test_an_interrupt_that_wakes_nobody_is_seen_while_waiting():
    """As one is that a worker's thread takes, or that comes right before the wait begins."""
    seen, asking, go_on = [], queue.SimpleQueue(), threading.Event()

    class Pressing(Numbers):
        def __getitem__(self, index):
            if index == 0:
                asking.get(timeout=30)
                _thread.interrupt_main()
                seen.append(go_on.wait(30))  # nothing comes until the interrupt was seen
            return index

    config = {"batch_size": 2, "num_workers": 1, "shuffle": False, "num_epochs": 1}
    with Loader(config, Pressing(4)) as batches:
        epoch = iter(batches)

        def ask():
            asking.put(None)
            next(epoch)

        with pytest.raises(KeyboardInterrupt):
            ask()
        go_on.set()
        assert [0, 1] == next(epoch).tolist()
    assert [True] == seen


def test_two_interrupts_in_a_row_leave_nothing():
    """The second one lands while the first is closing the loader."""
    rng = random.Random(3)
    for _ in range(500):
        loader = Loader({"batch_size": 4, "num_workers": 2}, Numbers(40))

        def run(loader=loader):
            with loader as batches:
                try:
                    for _ in batches:
                        pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 5e-4))

        interrupted(rng.uniform(1e-6, 2e-3), run)
        loader.__exit__(None, None, None)
        assert set() == our_threads()


def saved(folder):
    with Loader({}, [1, 2]) as batches:
        plain = batches.state_dict()
    return lambda: state.write(plain, folder / "run.state")


def resumed(folder):
    saved(folder)()
    return lambda: state.read(folder / "run.state")


def cached(folder):
    with Loader({"cache": {"folder": str(folder)}}, np.arange(4)) as batches:
        list(batches)
    (records,) = folder.rglob("*.data")
    return lambda: Segment(records.parent, records.stem)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system lists no descriptors")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what has an owner is closed with that
@pytest.mark.parametrize("opening", [saved, resumed, cached])
def test_an_interrupt_loses_no_file_that_was_just_opened(tmp_path, opening, monkeypatch):
    """A number that `os.open` has given and nobody has yet is open for good."""
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk is for another test
    call, rng = opening(tmp_path), random.Random(1)
    took = min(timeit.repeat(call, number=1, repeat=20))
    before = len(os.listdir("/proc/self/fd"))
    hits = sum(interrupted(rng.uniform(1e-6, 2 * took), call) for _ in range(10_000))
    gc.collect()
    assert before == len(os.listdir("/proc/self/fd"))
    assert hits > 100
