"""A group of batches is bounded by the time it takes, and slow batches are taken one by one."""

import sys
import threading

import numpy as np
import pytest
from clocked import stats_of
from numbered_jobs import WAIT

from threadloader import Loader
from threadloader._runtime import Runtime
from threadloader.loader import _pace, _supply
from threadloader.loader._choice import Choice
from threadloader.loader._pace import Pace
from threadloader.loader._recipe import GROUP_MOST

BATCHES = 40


class Table:
    """Builds batches of 2; each takes so long, by a clock that nothing else moves."""

    sample_bytes = 8

    def __init__(self, *seconds, batches=BATCHES):
        self.length = 2 * batches
        self.seconds, self.now, self.sizes = iter(seconds), [0.0], []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return np.int64(index)

    def take(self, indices):
        self.sizes.append(len(indices) // 2)
        self.now[0] += len(indices) / 2 * next(self.seconds)
        return np.array(indices)


class Asked(Table):
    """Each call takes so long, and each batch in it."""

    def __init__(self, call, each, batches):
        super().__init__(batches=batches)
        self.call, self.each = call, each

    def take(self, indices):
        self.sizes.append(len(indices) // 2)
        self.now[0] += self.call + len(indices) / 2 * self.each
        return np.array(indices)


def sizes(source, workers, ahead=2):
    """Takes an epoch; gives how many batches each call of `take` has made, in turn."""
    config = {"batch_size": 2, "num_workers": workers, "prefetch_batches": ahead}
    loader = Loader({**config, "num_epochs": 1, "shuffle": False}, source=source)
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: source.now[0]
    with loader as batches:
        assert list(range(len(source))) == [row for batch in batches for row in batch.tolist()]
    assert len(source) == 2 * sum(source.sizes)
    return source.sizes


def forever(seconds):
    return [seconds] * BATCHES


def test_quick_batches_come_in_groups_that_grow():
    assert [1, 2, 4, 8, 16, 9] == sizes(Table(*forever(1e-6)), 0)


@pytest.mark.parametrize("workers", [0, 1])
def test_no_group_is_made_that_would_take_too_long(workers):
    """Of 6 ms each: with a worker, some jobs are drawn before that is known."""
    most = int(_pace.GROUP_SECONDS / 6e-3)
    assert 4 < max(sizes(Table(*forever(6e-3)), workers)) <= most


@pytest.mark.parametrize("workers", [0, 1])
def test_slow_batches_are_taken_one_by_one_from_some_jobs_on(workers, caplog):
    caplog.set_level("INFO", "threadloader")
    ahead = 4 * workers  # jobs that were drawn before anything was known
    assert {1} == set(sizes(Table(*forever(0.2)), workers)[_pace.SLOW_JOBS + ahead :])
    told = "a batch takes long: batches are taken one by one"
    assert [told] == [record.getMessage() for record in caplog.records]


def test_they_are_where_the_log_cannot_be_imported(monkeypatch):
    """As where no file can be opened any more: what is told at the level info ends no run."""
    monkeypatch.setitem(sys.modules, "logging", None)
    assert {1} == set(sizes(Table(*forever(0.2)), 0)[_pace.SLOW_JOBS :])


@pytest.mark.parametrize("call", [5e-3, 20e-3, 60e-3, 0.3])
@pytest.mark.parametrize("workers", [0, 1, 8])
def test_where_a_call_takes_long_and_its_batches_little_groups_grow(workers, call, caplog):
    """As of a query: however long it takes, one that gives more batches costs hardly more."""
    caplog.set_level("INFO", "threadloader")
    made = sizes(Asked(call, 1e-6, batches=2000), workers, ahead=8)
    assert GROUP_MOST / 2 < max(made)
    assert [] == caplog.records


@pytest.mark.parametrize(("call", "each"), [(20e-3, 2e-3), (40e-3, 5e-3), (60e-3, 20e-3)])
def test_a_group_takes_twice_the_time_of_a_call_at_most_or_as_long_as_others(call, each):
    source = Asked(call, each, batches=400)
    longest = max(sizes(source, 0)) * each + call
    assert max(_pace.GROUP_SECONDS, 2 * call) * 0.7 < longest
    assert longest <= max(_pace.GROUP_SECONDS, 2 * call) + each


def test_batches_whose_calls_cost_less_than_they_do_are_taken_one_by_one():
    assert {1} == set(sizes(Asked(4e-3, 11e-3, batches=400), 1)[-100:])


def test_before_any_is_taken_no_job_has_many_batches():
    """A group is ahead for each of eight workers, and none is done before all are at work."""
    gate = threading.Barrier(8)

    class Gated(Table):
        def take(self, indices):
            self.sizes.append(len(indices) // 2)
            if len(self.sizes) <= 8:
                gate.wait(WAIT)
            return np.array(indices)

    source = Gated(batches=400)
    with Loader({"batch_size": 2, "num_workers": 8, "prefetch_batches": 8}, source) as batches:
        next(iter(batches))
    assert {1, 2, 4} < set(source.sizes[:8])
    assert 8 >= max(source.sizes[:8])


def test_by_a_first_job_alone_two_batches_are_tried_at_most():
    """Where it was slow; by the second one it is known whether that was its call."""
    pace, most = Pace(), []
    for batches in (1, 2):
        pace.note(32e-3 * batches, batches)
        most.append(pace.most())
    assert [2, 1] == most


def test_where_batches_take_less_than_half_of_a_call_they_come_in_groups():
    """However long they take: each call that is saved counts."""
    assert max(sizes(Asked(30e-3, 12e-3, batches=400), 1)[-20:]) > 1


def test_batches_that_were_taken_one_by_one_by_mistake_come_in_groups_again():
    """A job was late, and those behind it, of one size, told nothing of the call."""
    pace = Pace()
    for batches, late in ((1, 1), (2, 1), (4, 1), (8, 2.2), *[(8, 1)] * _pace.SLOW_JOBS):
        pace.note(late * (60e-3 + batches * 7e-3), batches)
    assert pace.singly
    for _ in range(_pace.QUICK_JOBS):
        pace.note(67e-3, 1)
    assert not pace.singly


@pytest.mark.parametrize("seconds", [10e-3, 40e-3, 66e-3])
def test_where_two_jobs_mislead_a_group_takes_four_times_as_long_at_most(seconds):
    """A batch takes as long as any other, but the smaller job of the two was late."""
    pace, each = Pace(), seconds / 25
    for batches, took in ((16, seconds), (25, seconds)):
        pace.note(took, batches)
    assert _pace.GROUP_SECONDS < pace.most() * each <= 4 * _pace.GROUP_SECONDS


def test_one_quick_job_does_not_keep_slow_batches_from_coming_in_groups_again():
    """Cold at first, then warm; what the call takes is not forgotten by a job that took less."""
    pace = Pace()
    for batches in (1, 2, 1, 2, *[1] * _pace.SLOW_JOBS):
        pace.note(20e-3 + batches * 30e-3, batches)
    assert pace.singly
    for number in range(2 * _pace.QUICK_JOBS):
        pace.note(4e-3 if number == 9 else 22e-3, 1)
    assert not pace.singly


def test_jobs_of_one_size_tell_nothing_of_a_call():
    """A call of 20 ms, with 1 ms a batch; then all takes longer, in jobs of 30 and of 29."""
    pace = Pace()
    for batches, seconds in ((1, 21e-3), (2, 22e-3), (30, 50e-3), (30, 80e-3), (29, 79e-3)):
        pace.note(seconds, batches)
    assert int(30e-3 / ((79e-3 - 20e-3) / 29)) == pace.most()


def test_groups_grow_again_behind_a_slow_one():
    """As behind a read of a disk that had to start."""
    assert [1, 2, 2, 4, 8, 16, 7] == sizes(Table(1.0, *forever(1e-6)), 0)
    assert [1, 2, 4, 1, 8, 16, 8] == sizes(Table(1e-6, 1e-6, 1.0, *forever(1e-6)), 0)


def test_the_work_of_a_batch_is_that_of_its_collate_too(monkeypatch):
    """Else threads are doubted where the collate takes long, and the loop tries it alone."""
    now, told = [0.0], []

    class Told(Choice):
        def note(self, now, waited, batches, rows, busy, *others):
            told.append(busy)
            return False

    def collate(samples):
        now[0] += 1
        return samples

    monkeypatch.setattr(_supply, "Choice", Told)
    stats_of({"batch_size": 2, "num_workers": 1}, list(range(6)), now, 3, collate)
    assert [1, 1, 1] == told
