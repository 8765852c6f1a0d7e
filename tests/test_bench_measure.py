"""A run is timed by batches and steps, and tells of memory and reads what the system tells."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader.bench import BenchError, _measure, _steps
from threadloader.bench._measure import take_time
from threadloader.bench._steps import amount, make_step

# How a run is timed.


class Clock:
    """A clock that others move on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def after(self, seconds, value=None):
        self.now += seconds
        return value


def epoch_of(clock, waits):
    for wait in waits:
        clock.after(wait)
        yield [0] * 4


def timed(waits, **bounds):
    """The times of epochs whose batches keep one waiting so long, with a step of 10 s."""
    clock = Clock()
    return take_time(
        lambda: epoch_of(clock, waits),
        step=lambda: clock.after(10),
        clock=clock,
        count=len,
        **{"seconds": None, "batches": None, **bounds},
    )


def test_each_batch_behind_the_first_counts_with_its_step_and_its_wait():
    got = timed([1, 2, 3, 4], batches=4)
    assert (1, 39, 9, 30) == (got.first_batch, got.measured, got.wait, got.step)
    assert (3, 12, []) == (got.batches, got.samples, got.epoch_gaps)


def test_the_first_batch_of_a_later_epoch_is_told_apart():
    """Three epochs, the last of them cut; the very first batch is in neither number."""
    got = timed([1, 2], batches=5)
    assert ([1, 1], 2 + 1 + 2 + 1, 4) == (got.epoch_gaps, got.wait, got.batches)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"seconds": 0.001}, 1),
        ({"seconds": 12}, 1),
        ({"seconds": 12.001}, 2),
        ({"seconds": 1e9, "batches": 2}, 1),
        ({"seconds": 12.001, "batches": 9}, 2),
    ],
)
def test_a_run_ends_at_its_first_bound_and_has_a_batch_behind_the_first(bounds, expected):
    assert expected == timed([1, 2, 2, 2, 2], **bounds).batches


def test_an_epoch_without_a_batch_has_no_times():
    assert None is timed([], batches=2)


def test_a_later_epoch_without_a_batch_is_told_by_its_number():
    """As where `on_error` leaves out all its samples; epochs are counted from 0."""
    epochs = iter([[1, 2], [3], []])
    with pytest.raises(BenchError) as failed:
        take_time(lambda: iter(next(epochs)), seconds=None, batches=9)
    told = "expected a batch in each epoch, got none in epoch 2: all its samples were left out"
    assert told == str(failed.value)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=5), st.integers(2, 20))
def test_waits_and_steps_make_up_the_measured_time(waits, batches):
    got = timed(waits, batches=batches)
    assert pytest.approx(got.measured) == got.wait + got.step
    assert (batches - 1, 4 * (batches - 1)) == (got.batches, got.samples)


# The step.


@pytest.mark.parametrize("kind", ["gil", "numpy"])
def test_a_step_that_computes_is_made_of_as_much_as_takes_so_long(kind):
    """Two rounds take 1/64 s by a clock that says so; a second is 128 of them."""
    clock = Clock()
    assert 2 * 64 == amount(kind, 1000, lambda: clock.after(1 / 64, clock.now))
    step = make_step(kind, 3)
    assert step is not None
    step()


@pytest.mark.skipif(os.name == "nt", reason="Windows counts processor time in steps of 16 ms")
@pytest.mark.parametrize(("kind", "expected"), [("gil", 128), ("numpy", 64)])
def test_a_step_of_python_is_measured_by_the_processor_time_it_takes(kind, expected, monkeypatch):
    """Others have half of the wall time here, and shall not make the step half as long."""
    clock = Clock()
    own = SimpleNamespace(
        perf_counter=lambda: clock.after(1 / 32, clock.now),
        thread_time=lambda: clock.after(1 / 64, clock.now),
    )
    monkeypatch.setattr(_steps, "time", own)
    assert expected == amount(kind, 1000)


def test_a_step_that_sleeps_is_its_seconds_and_no_step_is_none():
    assert (0.008, 0.0, 0.0) == (amount("sleep", 8), amount("sleep", 0), amount("gil", 0))
    assert None is make_step("gil", 0)
    assert callable(make_step("sleep", 0.008))


# What the system tells.


def test_what_the_system_does_not_tell_is_none(monkeypatch):
    def refused(path, *args, **options):
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_text", refused)
    assert (None, None) == (_measure.storage_bytes(), _measure.Memory().bytes_above_start())


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells it")
def test_the_memory_of_children_is_added(monkeypatch):
    """As far as they have it to themselves; here the child is this very process."""
    monkeypatch.setattr(_measure.Memory, "bytes_above_start", lambda memory: 5)
    children = []
    monkeypatch.setattr(_measure.multiprocessing, "active_children", lambda: children)
    assert 5 == _measure.Memory().with_children()
    children.append(SimpleNamespace(pid=os.getpid()))
    assert _measure.Memory().with_children() > 1 << 20


def test_a_child_that_has_just_ended_has_no_memory_to_count(monkeypatch):
    def gone(process):
        raise FileNotFoundError(process)

    monkeypatch.setattr(_measure, "_private", gone)
    monkeypatch.setattr(_measure.Memory, "bytes_above_start", lambda memory: 5)
    ended = SimpleNamespace(pid=1)
    monkeypatch.setattr(_measure.multiprocessing, "active_children", lambda: [ended])
    assert _measure.Memory().with_children() is None
