"""A Ctrl-C at every line that the consumer executes, and a garbage collection at some (G8).

In the library, and in the standard library's `queue` and `threading` below it; while entering,
iterating, looking at the state and leaving. `sweep` says how, `swept` what is looked at; every
run ends closed, and with nothing left. `python3 tools/campaign interrupts` does it at every
instruction. test_interrupts.py sends real signals at random moments.
"""

import contextlib
import gc
import itertools
import re
import sys
import threading
import warnings

import pytest
import swept
from campaigns import interrupts
from conftest import our_threads
from sweep import Interrupt, Sweep
from swept import KINDS

from threadloader.loader import _batches, _run

pytestmark = [
    # What CPython reports and swallows, in any program: a signal that lands in the callback with
    # which threading forgets a thread, or in a generator that nobody holds any more.
    pytest.mark.filterwarnings("ignore:Exception ignored.*<function WeakSet"),
    pytest.mark.filterwarnings("ignore:Exception ignored.*<generator object jobs"),
]

LEAST = {"closed": 1500, "going_on": 1200, "twice": 60, "collected": 1500, "dropped": 1500}
"""How many lines there are, at least."""


@pytest.fixture(autouse=True)
def undisturbed():
    """Collect no garbage of others, which runs Python code at moments of its own."""
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    gc.collect()
    gc.disable()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.enable()
    gc.callbacks[:] = callbacks


def every_line(name, kind, *raises, step=1):
    """Does it at one line after the other, until the run is over before; counts the lines.

    With a step, the kinds begin at different lines.
    """
    for at in itertools.count(1 + list(KINDS).index(kind) % step, step):
        sweep = getattr(swept, name)(kind, at, *raises)
        assert set() == our_threads(), sweep.where
        if not sweep.where:
            return at
        if at % 100 == 0:
            gc.collect()
    return None


# A file that is open and not written down yet is closed where its object ends, and an interrupt in
# the end of a generator is swallowed: CPython tells both. No other kind has such places.
TOLD = ("ignore:unclosed file:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
KEPT = [
    pytest.mark.filterwarnings(*TOLD),
    pytest.mark.skipif(
        sys.version_info[:2] == (3, 14),
        reason="CPython's issue 148874: a lock may stay held behind a `with`, for ever",
    ),
]
EACH = [pytest.param(kind, marks=KEPT if kind == "kept" else []) for kind in KINDS]


@pytest.mark.parametrize("kind", EACH)
@pytest.mark.parametrize("name", ["closed", "going_on", "twice"])
def test_a_ctrl_c_at_any_line_loses_no_batch_and_leaves_nothing(name, kind):
    """A run that is left is closed; one that goes on is exact; and so is one closed by another."""
    assert every_line(name, kind) >= LEAST[name]


@pytest.mark.parametrize("raises", [MemoryError, SystemExit])
@pytest.mark.parametrize("name", ["closed", "going_on", "twice"])
def test_whatever_a_handler_raises_loses_no_batch_and_leaves_nothing(name, raises):
    """At each eleventh line. It comes out itself, and is not told as an exception of the source."""
    assert every_line(name, "two workers", raises, step=11) >= LEAST[name]


@pytest.mark.parametrize("kind", EACH)
def test_closing_can_be_interrupted_again_and_again(kind):
    """At each line of `__exit__`, and then at every eleventh of the one that finishes it."""
    most = every_line("twice", kind)
    pairs = 0
    for first in range(1, most + 1):
        for then in range(1 + first % 11, most + 1, 11):
            swept.closing_again(kind, first, then)
            assert set() == our_threads()
            pairs += 1
    assert pairs >= 500


@pytest.mark.parametrize("kind", EACH)
def test_garbage_that_closes_the_batches_may_be_collected_anywhere(kind):
    """It logs and allocates as well; the run ends there, or was over, and waits for nothing.

    At every second line; the campaign does it at every instruction.
    """
    assert every_line("collected", kind, step=2) >= LEAST["collected"]


@pytest.mark.parametrize("kind", EACH)
def test_another_loader_may_be_collected_anywhere(kind):
    """Its threads end. At every third line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        assert every_line("dropped", kind, step=3) >= LEAST["dropped"]


class TestTheSweep:
    def test_it_counts_lines_of_the_library_alone(self):
        sweep = Sweep(10**9, None)
        with sweep:
            sorted(KINDS)
            itertools.count()
            threading.Lock()
        assert 0 == sweep.passed
        with sweep:
            threading.Event()
        assert sweep.passed > 3

    def test_an_interrupt_lands_once_behind_its_line(self):
        """At the first place behind it where the interpreter looks for signals."""
        with Interrupt() as interrupt:
            sweep = Sweep(1, interrupt)
            with pytest.raises(KeyboardInterrupt), sweep:
                threading.Event().set()
        assert (1, 1) == (interrupt.heard, sweep.passed)
        assert sweep.where.startswith("threading.py:")

    @pytest.mark.parametrize("raises", [KeyboardInterrupt, MemoryError])
    def test_an_interrupt_that_is_swallowed_is_seen(self, raises):
        with Interrupt(raises) as interrupt:
            with contextlib.suppress(raises), Sweep(1, interrupt):
                threading.Event().set()
            with pytest.raises(AssertionError):
                interrupt.look()

    def test_an_interrupt_that_is_told_as_another_exception_is_seen(self):
        """One with a note is not it any more; neither is one that somebody else has raised."""
        with Interrupt(MemoryError) as interrupt:
            try:
                with Sweep(1, interrupt):
                    threading.Event().set()
            except MemoryError as error:
                error.add_note("raised for sample 3")
                interrupt.came_as(error)
            interrupt.came_as(MemoryError())
            assert (1, 0) == (interrupt.heard, interrupt.came)

    def test_a_store_before_another_call_is_seen_to_be_needed(self, monkeypatch):
        """A call between the store of a delivery and the return loses a batch."""
        next_job = _run.Run._next_job

        def careless(self, place, epoch):
            batch = next_job(self, place, epoch)
            self._now()
            return batch

        with monkeypatch.context() as patch:
            patch.setattr(_run.Run, "_next_job", careless)
            with pytest.raises(AssertionError):
                every_line("going_on", "here")
        assert set() == our_threads()

    def test_a_close_that_forgets_the_threads_is_seen(self, monkeypatch):
        """An interrupted `__exit__` that believes to be done leaves them."""
        close, opened = _batches.Batches._close, []

        def forgets(self):
            if self not in opened:
                opened.append(self)
                close(self)
            return True

        with monkeypatch.context() as patch:
            patch.setattr(_batches.Batches, "_close", forgets)
            with pytest.raises(AssertionError):
                every_line("twice", "two workers")
        for batches in opened:
            close(batches)


@pytest.mark.filterwarnings(*TOLD)
@pytest.mark.parametrize("raises", interrupts.RAISES)
def test_the_campaign_interrupts_at_instructions(raises, capsys):
    """Drawn from all runs; without a seed it does all of them, one after the other."""
    args = ["--count", "30", "--seed", "1", "--processes", "1", "--raises", raises]
    assert 0 == interrupts.main(args)
    # How many instructions a run with workers has differs, under load the more: one may end before
    # the drawn one.
    told = capsys.readouterr().out
    assert re.match(r"interrupts: 30 run, 30 distinct, 0 failed, (2[0-9]|30) interrupted", told)
    first = [("closed", "here", 2), ("twice", "groups", 3)]
    found = [interrupts.placed(number, first) for number in range(6)]
    told = [("closed", "here", 1), ("closed", "here", 2)]
    told += [("twice", "groups", at) for at in (1, 2, 3)]
    assert [*told, None] == found


def test_the_campaign_collects_garbage_at_instructions(capsys):
    """In the place of interrupts."""
    assert 0 == interrupts.main(["--garbage", "--count", "30", "--seed", "1", "--processes", "1"])
    told = capsys.readouterr().out
    assert re.match(r"interrupts: 30 run, 30 distinct, 0 failed, (2[0-9]|30) collected", told)
