"""An experiment shows what it is made for, whatever the part does, and leaves nothing behind."""

import copy
import functools
import itertools
import random
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import faults
import numpy as np
import pytest
from sweep import Interrupt, Sweep
from verified import failing, found, report_of, unhurried

from threadloader import LoaderConfig, MaskTokens, verify
from threadloader.fingerprint import digest
from threadloader.verify import _case, _cause_texts, _causes, _parts, _probe, _stress
from threadloader.verify._plan import Leg
from threadloader.verify._probe import overwritten, repeated
from threadloader.verify._result import result
from threadloader.verify._stress import stressed

as_it_was = pytest.fixture(unhurried, autouse=True)


@pytest.mark.parametrize("guarded", ["source", "transform", "collate"])
def test_a_lock_around_a_part_changes_no_batch(guarded):
    """Not even those of a transform that gives other samples one by one than by its `many`."""
    hides = MaskTokens(vocabulary=100, mask_token=99)
    case = _case.Case(
        LoaderConfig(batch_size=4),
        Path(),
        lambda: [np.arange(8) + n for n in range(8)],
        hides,
        list,
    )
    made = []
    for names in ((), (guarded,)):
        with case.batches(Leg(0, 1), names) as batches:
            made.append(list(batches))
    assert digest(made[0]) == digest(made[1])


def noting_threads():
    """A set of threads, and a call that adds its own; wrong each time, so that no time passes."""
    threads, numbers = set(), itertools.count()

    def call():
        threads.add(threading.get_ident())
        return next(numbers)

    return threads, call


def test_calls_are_made_in_as_many_threads_as_are_asked_for():
    threads, call = noting_threads()
    stressed([call], seconds=3600, count=1)
    assert 1 == len(threads - {threading.get_ident()})


def test_what_is_steady_after_its_first_call_is_not_blamed_on_the_clock():
    """That it stays the same with the clock stopped shows nothing, if it does without that."""
    results = iter([1.0])
    found = repeated(lambda: next(results, 0.0), None)
    assert (2, False, False) == (found.differs, found.by_state, found.by_clock)


class Thing:
    """Its hash() is made of its address."""


@pytest.mark.parametrize(
    "sample",
    [{"a": np.zeros(3)}, [1, 2], (np.zeros(2), 1), {1, 2}, bytearray(9), np.zeros(4), Thing()],
    ids=lambda sample: type(sample).__name__,
)
@pytest.mark.parametrize("most", [_causes.GLANCE, _probe.CALLS])
def test_what_depends_on_where_a_sample_lies_is_not_repeatable(sample, most):
    """Though it is gone by the next call, whose sample would lie at the same place."""

    def address(sample):
        return float(id(sample) % 9973)

    call = functools.partial(_parts._call, address, functools.partial(copy.deepcopy, sample))
    assert repeated(call, address, most).differs


def test_what_differs_in_one_thread_is_not_blamed_on_another_one():
    """Where looking at the part alone has not seen it."""
    case = _case.Case(LoaderConfig(), Path(), faults.Source, faults.of_the_system)
    (cause,) = _causes._in_threads(case, [3], {}, 0.0)
    assert ("transform", "not-repeatable") == (cause.part, cause.kind)


def test_a_stopped_clock_goes_on_for_who_waits_for_it():
    """A call that waits for the time to pass comes back, and the clock is put back."""

    def waiting():
        end = time.perf_counter() + 1e-4
        while time.perf_counter() < end:
            pass
        return random.random() + time.time()

    found = repeated(waiting, waiting)
    assert (("the module random",), False, False) == (found.moved, found.by_state, found.by_clock)


def test_experiments_that_fail_hide_no_difference(monkeypatch):
    monkeypatch.setattr(_causes, "_alone", failing)
    report = report_of(transform=lambda sample: sample + random.random())
    assert ("differs", [("", "unknown")]) == (report.result, found(report))
    assert "the experiments themselves failed: OSError: no memory" in report.causes[0].evidence[0]


def test_experiments_that_fail_make_no_fault_of_what_is_the_same(monkeypatch):
    monkeypatch.setattr(_causes, "_alone", failing)
    report = report_of()
    assert ("same", (), ()) == (report.result, report.causes, report.dangers)


def test_what_cannot_be_copied_is_asked_for_anew_and_what_fails_is_left_out():
    calls = {1: threading.Lock, 2: failing, 3: sys.exit}
    assert {1: threading.Lock} == _parts._fresh(calls)


def test_a_ctrl_c_in_an_experiment_is_no_result():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result(interrupted)
    with pytest.raises(KeyboardInterrupt):
        _parts._fresh({1: interrupted})
    with pytest.raises(KeyboardInterrupt):
        overwritten(int, interrupted)


def test_a_slow_call_is_repeated_no_longer_than_there_is_time(monkeypatch):
    monkeypatch.setattr(_probe, "SECONDS", -1)
    assert 1 == repeated(lambda: 0, None).calls


def test_the_random_state_of_torch_is_seen_to_move_and_put_back(monkeypatch):
    """Where the user has imported it. This one's state is a count."""
    state = np.zeros(1, np.uint8)
    torch = ModuleType("torch")
    torch.get_rng_state = state.copy
    torch.set_rng_state = lambda kept: np.copyto(state, kept)
    monkeypatch.setitem(sys.modules, "torch", torch)

    def drawn(*shape, device="cpu"):
        state[0] += 1
        return int(state[0])

    def seeding():
        state[0] = 0

    torch.rand = drawn
    assert ("torch",) == repeated(drawn, None).moved
    assert 0 == state[0]
    assert ("torch",) == repeated(seeding, None).moved


@pytest.mark.parametrize("fails", [failing, sys.exit])
def test_what_fails_is_not_said_to_be_overwritten(fails):
    """Nor does a SystemExit end the command."""
    assert not overwritten(fails, lambda: 0)
    assert not overwritten(lambda: 0, fails)


def test_threads_stop_as_soon_as_enough_is_wrong():
    """Long before the time is over."""
    found = stressed([itertools.count().__next__], seconds=3600)
    assert found.wrong >= _stress.ENOUGH


def only_so_many_start(monkeypatch, number, error):
    """Has the system start so many threads and no more; gives the list of them."""
    start, begun = threading.Thread.start, []

    def starting(thread):
        if len(begun) == number:
            raise error
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    return begun


@pytest.mark.parametrize(
    ("number", "error"),
    [(1, RuntimeError("can't start new thread")), (3, RuntimeError("a handler's"))],
)
def test_a_thread_that_cannot_start_leaves_none_that_waits_for_it(monkeypatch, number, error):
    begun = only_so_many_start(monkeypatch, number, error)
    with pytest.raises(RuntimeError) as caught:
        stressed([int], seconds=3600)
    assert error is caught.value
    for thread in begun:
        thread.join(30)
    assert (number, False) == (len(begun), any(thread.is_alive() for thread in begun))


@pytest.mark.parametrize("number", [2, 3])
def test_where_the_system_starts_fewer_threads_two_show_what_several_do(monkeypatch, number):
    begun = only_so_many_start(monkeypatch, number, RuntimeError("can't start new thread"))
    found = stressed([itertools.count().__next__], seconds=3600)
    assert (number, number, True) == (len(begun), found.threads, found.wrong >= _stress.ENOUGH)
    (evidence, _) = _cause_texts.unsafe("source", found, found, ()).evidence
    assert f"alone, called in {number} threads at once, " in evidence


def test_experiments_that_cannot_be_made_are_told(monkeypatch):
    """A race that they alone would show may be there, though every run was the same."""

    def stressed(calls, seconds):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_causes, "stressed", stressed)
    report = verify.run({"batch_size": 4}, source=lambda: list(range(8)))
    said = "each part alone, and in several threads at once: RuntimeError: can't start new thread"
    assert ("same", (said,)) == (report.result, report.not_compared)


def test_threads_that_are_started_begin_together(monkeypatch):
    """Else the first ones were done, or alone, before the last began."""
    started, me = _stress._started, threading.get_ident()
    made, call = noting_threads()

    def watching(threads):
        begun = started(threads)
        assert made == {me}
        return begun

    monkeypatch.setattr(_stress, "_started", watching)
    stressed([call], seconds=3600, count=4)
    assert made > {me}


def test_a_ctrl_c_in_an_experiment_waits_for_nothing(monkeypatch):
    """An Event that the loop sets may be left locked by it."""
    started = _stress._started
    for at in itertools.count(1):  # pragma: no branch - it ends where no line is left
        begun = []
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt)

            def sweeping(threads, begun=begun, sweep=sweep):
                begun += started(threads)
                sweep.__enter__()  # from here on: what `Thread.start` does is not ours
                return begun

            monkeypatch.setattr(_stress, "_started", sweeping)
            try:
                stressed([int], 0.05, count=2)
            except KeyboardInterrupt as error:
                interrupt.came_as(error)
            finally:
                sys.settrace(None)
            interrupt.look()
        for thread in begun:
            thread.join(30)
            assert not thread.is_alive()
        if sweep.passed < at:
            break
    assert at > 1


def test_a_part_that_is_false_is_looked_at_all_the_same(monkeypatch):
    """As a callable of a class that has a length, of 0."""

    class Empty:
        def __len__(self):
            return 0

        def __call__(self, sample):
            return sample

    case = SimpleNamespace(transform=Empty(), collate=None)
    monkeypatch.setattr(
        _causes, "differs", lambda case, tape, depth, guarded: "transform" not in guarded
    )
    assert "transform" == _causes._locked(case, None, 1).part
