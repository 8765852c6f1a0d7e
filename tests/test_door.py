"""One user of a loader at a time is let in, and nobody is shut out for good."""

import signal
import sys
import threading
from contextlib import suppress

import pytest
from own_sources import Part
from sweep import Interrupt, Sweep

from threadloader import BusyError, Loader, _runtime, per_thread
from threadloader._runtime import RUNTIME
from threadloader.loader._entry import Door

WAIT = 60.0


def test_a_loader_whose_entering_fails_shuts_nobody_out():
    """What it has opened is closed then; that is interrupted again and again."""

    class Interrupted(Part):
        @staticmethod
        def closing():
            signal.raise_signal(signal.SIGINT)

    loader = Loader({"num_workers": 0}, per_thread(Interrupted), sampler=[99])
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt) as caught:
            loader.__enter__()
        assert "indices from 0 to 3" in str(first_of(caught.value))


def test_a_second_ctrl_c_behind_one_while_entering_shuts_nobody_out():
    """At each line behind the first, which comes while the length is asked for."""
    lines = []

    def enter(loader, sweep):
        with Interrupt(), suppress(KeyboardInterrupt), sweep:
            loader.__enter__()

    class Interrupted(Part):
        def __len__(self):
            if sweep is not None:
                lines.append(sweep.passed)
                trace = sys.gettrace()
                try:
                    signal.raise_signal(signal.SIGINT)
                except KeyboardInterrupt:
                    sys.settrace(trace)  # which the first Ctrl-C has ended
                    raise
            return 4

    sweep = Sweep(1 << 30, lambda frame: None)
    enter(Loader({"num_workers": 0}, Interrupted()), sweep)
    (first,), last = lines, sweep.passed
    assert first < last
    for at in range(first + 1, last + 1):
        loader = Loader({"num_workers": 0}, Interrupted())
        sweep = Sweep(at, Interrupt())
        enter(loader, sweep)
        assert sweep.where
        loader.__exit__(None, None, None)  # finishes what the second has cut short
        where, sweep = sweep.where, None
        with loader as batches:
            assert [4] == [len(batch) for batch in batches], where


def first_of(error):
    """Give the exception behind which all the others came."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def test_a_loader_may_be_left_in_the_midst_of_its_leaving():
    """By a signal's handler, in the lines where nobody else may enter: its thread has the guard."""
    loader = Loader({"num_workers": 0}, list(range(4)))

    def leave():
        loader.__enter__()
        with loader._door._guard():
            loader.__exit__(None, None, None)

    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_of_two_that_enter_at_once_behind_a_worker_that_has_left_one_is_let_in():
    """Both close what it could not close; the one that is done with it last does not enter, too."""
    done = threading.Event()

    class Leaving(Part):
        def __getitem__(self, index):
            if not done.is_set():
                loader.__exit__(None, None, None)
                done.set()
            return index

    loader = Loader({"num_workers": 1}, Leaving())
    left = loader.__enter__()
    iter(left)
    assert done.wait(WAIT)
    close, entered = left._close, []

    def close_late():
        if not entered:
            entered.append(None)
            thread = threading.Thread(target=lambda: entered.append(loader.__enter__()))
            thread.start()
            thread.join(WAIT)
        return close()

    left._close = close_late
    with pytest.raises(BusyError):
        loader.__enter__()
    assert [[0, 1, 2, 3]] == [sorted(batch) for batch in entered[1]]
    loader.__exit__(None, None, None)


def test_who_leaves_and_fails_ends_nothing_of_who_has_entered_meanwhile():
    """Closing the source fails; by then the next one is let in, and is left alone."""
    entered, errors = [], [OSError("close failed")]

    class Failing(Part):
        @staticmethod
        def closing():
            if errors:
                raise errors.pop()

    loader = Loader({"num_workers": 0}, per_thread(Failing))
    let_in = loader._door.let_in

    def and_enter(batches):
        let_in(batches)
        if not entered:
            thread = threading.Thread(target=lambda: entered.append(loader.__enter__()))
            thread.start()
            thread.join(WAIT)

    loader._door.let_in = and_enter
    with pytest.raises(OSError, match="close failed"), loader:
        pass
    assert [[0, 1, 2, 3]] == [sorted(batch) for batch in entered[0]]
    entered[0].close()


def test_a_worker_that_leaves_late_leaves_nothing_of_who_is_in_by_then():
    """Only what is open can be left unclosed; who enters next would close it under its user."""
    door, old, new = Door(RUNTIME), object(), object()
    door.enter("somebody")
    door.batches = old
    door.let_out(old, unclosed=True)
    assert door.unclosed() is old
    door.let_in(old)
    door.enter("somebody else")
    door.batches = new
    door.let_out(old, unclosed=True)
    door.let_in(old)
    assert door.unclosed() is None
    assert door.inside == "somebody else"
    assert door.batches is new


def test_a_fork_has_a_door_of_its_own(monkeypatch):
    """Whoever had the parent's in hand is not there, and would shut the child out for good."""
    door, held, over = Door(RUNTIME), threading.Event(), threading.Event()

    def hold():
        with door._guard():
            held.set()
            over.wait(WAIT)

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(WAIT)
    monkeypatch.setattr(_runtime, "forks", _runtime.forks + 1)
    entering = threading.Thread(target=door.enter, args=("the child",), daemon=True)
    entering.start()
    entering.join(WAIT)
    over.set()
    holding.join(WAIT)
    assert door.inside == "the child"
