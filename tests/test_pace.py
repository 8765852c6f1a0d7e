"""A group of batches is bounded by the time it takes, and slow batches are taken one by one."""

import sys

import numpy as np
import pytest
from clocked import stats_of

from threadloader import Loader
from threadloader._runtime import Runtime
from threadloader.loader import _pace, _supply
from threadloader.loader._choice import Choice

BATCHES = 40


class Table:
    """Builds batches of 2; each takes so long, by a clock that nothing else moves."""

    sample_bytes = 8

    def __init__(self, *seconds):
        self.seconds, self.now, self.sizes = iter(seconds), [0.0], []

    def __len__(self):
        return 2 * BATCHES

    def __getitem__(self, index):
        return np.int64(index)

    def take(self, indices):
        self.sizes.append(len(indices) // 2)
        self.now[0] += len(indices) / 2 * next(self.seconds)
        return np.array(indices)


def sizes(source, workers):
    """Takes an epoch; gives how many batches each call of `take` has made, in turn."""
    config = {"batch_size": 2, "num_workers": workers, "prefetch_batches": 2}
    loader = Loader({**config, "num_epochs": 1, "shuffle": False}, source=source)
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: source.now[0]
    with loader as batches:
        assert list(range(2 * BATCHES)) == [row for batch in batches for row in batch.tolist()]
    assert BATCHES == sum(source.sizes)
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


def test_groups_grow_again_behind_a_slow_one():
    """As behind the first read of a disk that has to start."""
    assert [1, 1, 2, 4, 8, 16, 8] == sizes(Table(1.0, *forever(1e-6)), 0)


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
