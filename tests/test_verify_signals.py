"""What a signal handler raises ends a verification: it is neither difference nor cause."""

import itertools
import signal
import sys
import time
from types import SimpleNamespace

import pytest
from sweep import Interrupt, Sweep
from verified import CONFIG

from threadloader import verify
from threadloader.verify import (
    _case,
    _causes,
    _clock,
    _difference,
    _inner_state,
    _parts,
    _probe,
    _process,
    _result,
)

CLOCKS = time.time, time.monotonic


def ring(*args, **options):
    signal.raise_signal(signal.SIGINT)


class Uncopied:
    """What is interrupted while it is copied."""

    __deepcopy__ = ring


class Shut(SimpleNamespace):
    """A source that is interrupted while it is closed."""

    close = ring


PLACES = {
    "a call": (lambda: _result.result(ring), None),
    "a digest": (lambda: _result.seen(0), (_result, "digest")),
    "a call whose memory may be written again": (lambda: _probe.overwritten(ring, int), None),
    "a sample": (lambda: _parts._fresh({0: ring}), None),
    "the copy of a sample": (lambda: _parts._fresh({0: Uncopied}), None),
    "a part alone": (lambda: _causes.faults(None, [0]), (_causes, "_alone")),
    "a cause": (
        lambda: _causes.causes(
            None, None, SimpleNamespace(kind="content"), [0], depth=1, alone=True, tell=ring
        ),
        None,
    ),
    "another process": (
        lambda: _process.Process.cause(SimpleNamespace(_case=None), [0]),
        (_process, "results"),
    ),
    "a run": (
        lambda: _difference.compared(None, None, SimpleNamespace(marks={})),
        (_difference, "follow"),
    ),
    "what a thing holds": (lambda: _inner_state.held(0), (_inner_state, "_looked")),
    "the mark of a value": (lambda: _inner_state.held(0), (_inner_state, "digest")),
    "a function's names": (
        lambda: _inner_state.held(ring),
        (_inner_state.inspect, "getclosurevars"),
    ),
    "a batch that is made once more": (
        lambda: _difference._anew(SimpleNamespace(batches=ring), None),
        None,
    ),
    "the end of a source": (
        lambda: _case.Case.close(SimpleNamespace(_opened=Shut())),
        None,
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_passes_as_it_is(place, monkeypatch):
    def rings(number, frame):
        # Of a kind by which these places tell what user code has done.
        raise TypeError("rung")

    look, patched = PLACES[place]
    before = signal.signal(signal.SIGINT, rings)
    try:
        with monkeypatch.context() as patch:
            if patched:
                patch.setattr(*patched, ring)
            with pytest.raises(TypeError, match=r"^rung$"):
                look()
    finally:
        signal.signal(signal.SIGINT, before)


def test_while_the_parts_are_tried_alone_it_ends_the_verification(rung, monkeypatch):
    """It was told as a result of the user's own code, which had raised it now and not before."""
    threads = []

    def transform(sample):
        if threads:
            threads.clear()
            ring()
        return sample

    real = _causes._alone
    monkeypatch.setattr(_causes, "_alone", lambda *args: threads.append(1) or real(*args))
    with pytest.raises(TimeoutError, match="rung"):
        verify.run(CONFIG, source=lambda: list(range(20)), transform=transform)


def test_while_another_process_is_started_it_ends_the_verification(rung, monkeypatch):
    """It is no error of the system, by which a process could not be started."""
    monkeypatch.setattr(_process.subprocess, "Popen", ring)
    with pytest.raises(TimeoutError, match="rung"):
        _process.Process._ask(SimpleNamespace(_spec={}), {}, "1")


@pytest.mark.parametrize(
    "within",
    [
        _case.hurried,
        # Two clocks tell as much as all: for each line it is run once.
        lambda: _clock._replaced(ring, dict.fromkeys(map(id, CLOCKS), time.perf_counter)),
    ],
)
def test_an_interrupt_at_any_line_leaves_clocks_and_threads_as_they_were(within):
    def state():
        return time.time, time.monotonic, sys.getswitchinterval()

    before = state()
    for at in itertools.count(1):
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt)
            try:
                with sweep, within():
                    pass
            except KeyboardInterrupt as error:
                interrupt.came_as(error)
            finally:
                sys.settrace(None)
        assert before == state(), sweep.where
        interrupt.look()
        if sweep.passed < at:
            break
    assert at > 4
