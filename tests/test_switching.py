"""The switch interval is shortened where a config asks for it, and put back at the end."""

import contextlib
import gc
import itertools
import os
import sys
import threading
import time

import numpy as np
import pytest
from sweep import Interrupt, Sweep

from threadloader import Loader, Stats
from threadloader.engine import Engine
from threadloader.loader import _switching

BEFORE = 0.005


@pytest.fixture(autouse=True)
def interval():
    """Every test begins with the interpreter's own interval, and must end with it."""
    sys.setswitchinterval(BEFORE)
    yield
    assert pytest.approx(BEFORE) == sys.getswitchinterval()


def load(wish, workers=1):
    config = {"batch_size": 1, "num_workers": workers, "switch_interval": wish}
    return Loader(config, source=list(np.arange(2000)))


def test_without_asking_it_is_left_alone():
    with load(None) as batches:
        next(iter(batches))
        assert pytest.approx(BEFORE) == sys.getswitchinterval()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_number_holds_as_long_as_the_loader_is_open(workers):
    with load(0.001, workers) as batches:
        assert pytest.approx(0.001) == sys.getswitchinterval()
        assert batches.stats().switch_interval_shortened


@pytest.mark.parametrize("wish", [0.5, BEFORE])
def test_a_longer_one_than_it_is_changes_nothing(wish):
    """And is not told as a change, which would keep back the advice to shorten it."""
    with load(wish) as batches:
        assert pytest.approx(BEFORE) == sys.getswitchinterval()
        assert not batches.stats().switch_interval_shortened


def test_the_shortest_of_several_holds():
    with load(0.002):
        with load(0.001):
            with load(0.003):
                assert pytest.approx(0.001) == sys.getswitchinterval()
            assert pytest.approx(0.001) == sys.getswitchinterval()
        assert pytest.approx(0.002) == sys.getswitchinterval()


def test_a_later_choice_of_the_user_is_left_alone():
    """Nor does a loader that is opened behind it say that it had changed anything."""
    with load(0.002) as batches:
        sys.setswitchinterval(0.004)
        with load(0.001) as later:
            assert pytest.approx(0.004) == sys.getswitchinterval()
            assert batches.stats().switch_interval_shortened
            assert not later.stats().switch_interval_shortened
    assert pytest.approx(0.004) == sys.getswitchinterval()
    sys.setswitchinterval(BEFORE)


def test_taking_back_what_nobody_asked_for_changes_nothing():
    sys.setswitchinterval(0.003)
    _switching.restore(object())
    assert pytest.approx(0.003) == sys.getswitchinterval()
    sys.setswitchinterval(BEFORE)


def test_a_loader_that_ends_while_another_one_begins_leaves_the_interval_of_that(monkeypatch):
    """A finalizer may run anywhere, also between the choice of the shortest and its setting."""
    one, other = object(), object()
    setting, ends = sys.setswitchinterval, [one]

    def ending(seconds):
        if ends:
            _switching.restore(ends.pop())
        setting(seconds)

    _switching.shorten(one, 0.001)
    monkeypatch.setattr(sys, "setswitchinterval", ending)
    _switching.shorten(other, 0.002)
    assert pytest.approx(0.002) == sys.getswitchinterval()
    _switching.restore(other)


# What CPython swallows: a signal where the run, which is closed, is dropped.
@pytest.mark.filterwarnings("ignore:Exception ignored.*<finalize object")
@pytest.mark.filterwarnings("ignore:Exception ignored.*<function WeakSet")
@pytest.mark.parametrize("beside", [None, 0.003])
def test_a_ctrl_c_at_any_line_leaves_the_interval_of_others(beside):
    """While a loader is entered and closed, perhaps beside another one; closed again if need be."""
    with load(beside, 0):
        for at in itertools.count(1):
            loader = load(0.002)
            with Interrupt() as interrupt:
                sweep = Sweep(at, interrupt)
                with contextlib.suppress(KeyboardInterrupt), sweep, loader:
                    pass
            loader.__exit__(None, None, None)
            assert pytest.approx(beside or BEFORE) == sys.getswitchinterval(), sweep.where
            if not sweep.where:
                break
    assert not _switching._wanted
    assert at > 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_waits_for_no_thread_that_it_has_not(run_child):
    """One that was about to change the interval."""
    code = """
import os, signal, threading, warnings
from threadloader.loader import _switching

warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
inside, over = threading.Event(), threading.Event()

def hold():
    with _switching._guard:
        inside.set()
        over.wait()

threading.Thread(target=hold).start()
inside.wait()
if (child := os.fork()) == 0:
    signal.alarm(30)
    _switching.restore(object())
    os._exit(0)
print(os.waitpid(child, 0)[1])
over.set()
"""
    assert "0\n" == run_child(code).stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_the_interval_of_before_and_its_parent_keeps_its_own(run_child):
    """The threads for which it was shortened are not there."""
    code = """
import os, sys, warnings
from threadloader import Loader

warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
sys.setswitchinterval(0.003)

def told():
    return round(sys.getswitchinterval(), 6)

with Loader({"batch_size": 1, "num_workers": 1, "switch_interval": 0.001}, range(9)):
    if (child := os.fork()) == 0:
        before = told()
        with Loader({"batch_size": 1, "switch_interval": 0.002}, range(9)):
            inside = told()
        print(before, inside, told(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(told())
print(told())
"""
    assert "0.003 0.002 0.003\n0.001\n0.003\n" == run_child(code).stdout


def test_it_is_put_back_when_the_body_raises():
    with pytest.raises(KeyError), load(0.002):
        raise KeyError


@pytest.mark.filterwarnings("ignore:a loader was dropped:ResourceWarning")
def test_it_is_put_back_when_the_loader_is_dropped():
    loader = load(0.002)
    loader.__enter__()
    threads = [thread for thread in threading.enumerate() if "threadloader" in thread.name]
    del loader
    gc.collect()
    assert pytest.approx(BEFORE) == sys.getswitchinterval()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("delay", [0.0, 0.004])
def test_automatic_acts_when_the_loop_starves_and_the_gil_is_held(monkeypatch, delay):
    """Waiting there is always, since nothing is done with a batch; the delay is made up."""
    monkeypatch.setattr(Engine, "gil_delay", delay)
    monkeypatch.setattr(Engine, "gil_held", delay > 0.001)
    with load("auto") as batches:
        batches._supply.choice = None
        list(batches)
        expected = _switching.AUTO_SECONDS if delay else BEFORE
        assert pytest.approx(expected) == sys.getswitchinterval()
        assert bool(delay) == batches.stats().switch_interval_shortened


def test_automatic_does_not_act_while_the_loop_makes_the_batches_itself(monkeypatch):
    """It waits for no worker then, and what is known of the GIL is of before."""
    monkeypatch.setattr(Engine, "gil_held", True)
    with load("auto") as batches:
        batches._supply.choice.here = True
        batches._supply.choice.note = lambda *noted: False
        list(batches)
        assert 2000 == batches.stats().prepared_here
        assert pytest.approx(BEFORE) == sys.getswitchinterval()


class Waits:
    """A source whose reads let go of the GIL for a millisecond, as storage does."""

    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(0.001)
        return index


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to hold"
)
def test_the_delay_of_a_gil_that_a_loop_really_holds_is_told():
    """One attempt beside a step of 10 ms of Python is enough; it may come in any of 2,000."""
    with Loader({"batch_size": 1, "num_workers": 2}, source=Waits()) as batches:
        batches._supply.choice = None
        for _ in batches:
            until = time.perf_counter() + 0.01
            while time.perf_counter() < until:
                pass
            if batches.stats().gil_delay_seconds > 0.001:
                break
        assert batches.stats().gil_delay_seconds > 0.001


def test_a_loop_that_holds_the_gil_is_told_what_to_set():
    waiting = {"batches": 9, "elapsed_seconds": 10.0, "data_wait_seconds": 3.0}
    text = str(Stats(**waiting, gil_delay_seconds=0.0049))
    assert 'holds the GIL, for which workers wait 4.9 ms: try "switch_interval": "auto"' in text
    assert "GIL" not in str(Stats(**waiting, gil_delay_seconds=0.0001))
    # Workers that do nothing measure nothing: it is of before.
    assert "GIL" not in str(Stats(**waiting, gil_delay_seconds=0.0049, prepared_here=8))
    assert "GIL" not in str(
        Stats(**waiting, gil_delay_seconds=0.0049, switch_interval_shortened=True)
    )
