"""What was decided by the cost of a batch is decided anew where that cost changes for good."""

from itertools import groupby

import numpy as np
import pytest

from threadloader import Loader
from threadloader._runtime import Runtime
from threadloader.loader import _choice, _pace, _supply
from threadloader.loader._choice import LATE_SECONDS, Choice
from threadloader.loader._pace import Pace

CHANGE = 400
"""The sample at which its cost changes."""


class Source(list):
    """Its samples take time by a clock that nothing else moves: the first ones, and the rest."""

    def __init__(self, first, rest):
        super().__init__(range(1000))
        self.now, self._first, self._rest = [0.0], first, rest

    def __getitem__(self, index):
        self.now[0] += self._first if index < CHANGE else self._rest
        return index


class Here(Choice):
    """Has the consumer prepare the batches, in long series until they are late; tells of that."""

    told: tuple[float, int] | None = None

    def note(self, *noted):
        changed, self.here = not self.here, True
        return changed

    def series(self):
        return 10**6 if self.told is None else 1

    def late(self, waited, made):
        self.told = waited, made
        super().late(waited, made)


def late(monkeypatch, rest):
    """Give what a choice is told of a series that is late, or None, where batches cost `rest`."""
    monkeypatch.setattr(_supply, "Choice", Here)
    source = Source(1e-6, rest)
    config = {"batch_size": 1, "prefetch_batches": 2, "num_workers": 2, "shuffle": False}
    loader = Loader(config, source)
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: source.now[0]
    with loader as batches:
        assert list(range(1000)) == [row for batch in batches for row in batch.tolist()]
        return batches._supply.choice.told


def test_a_series_whose_batches_become_dear_ends_before_its_time(monkeypatch):
    """At the batch by which the loop has waited too long."""
    waited, _ = late(monkeypatch, 10e-3)
    assert LATE_SECONDS < waited < LATE_SECONDS + 2 * 10e-3


def test_a_series_of_cheap_batches_goes_on(monkeypatch):
    assert late(monkeypatch, 1e-6) is None


def changes(cost, slower, loop=0.0, until=120.0):
    """Give when a choice has changed, by a clock of its own, and to what.

    Args:
        cost: gives the seconds of a batch that the consumer makes, at a time.
        slower: how many times as long it takes the threads, at a time.
        loop: seconds of the loop's own work, beside each batch.
    """
    choice, now, found = Choice(), 0.0, []
    while now < until:
        wait = cost(now) * (1 if choice.here else slower(now))
        now += loop + wait
        if choice.note(now, wait, 1, 8, 1e-4, 1, 0.0):
            found.append((now, choice.here))
    return found


@pytest.mark.parametrize("loop", [0.0, 5e-3])
def test_the_threads_are_tried_again_soon_where_a_batch_became_dear(loop):
    """However long the decision for the consumer would stand else, and whatever the loop does."""

    def tried(dear):
        found = changes(lambda now: dear if now > 70 else 1e-3, lambda now: 2.0, loop)
        return min(now for now, here in found if now > 70 and not here) - 70

    soon = _choice.LONGEST_PAUSE * _choice.CHANGED_PAUSE + 1
    assert tried(6e-3) < soon < tried(1.5e-3)


def test_threads_that_hide_what_became_dear_are_not_compared_with_what_was_cheap():
    """Files in memory, then others on a disk: no trial could beat what the first ones took."""
    found = changes(
        lambda now: 9e-3 if now > 70 else 13e-6, lambda now: 0.12 if now > 70 else 25.0, until=100
    )
    assert [here for now, here in found if now < 73][-1] is False
    assert found[-1][1] is False


@pytest.mark.parametrize(("cheap", "dear"), [(20e-6, 5e-3), (100e-6, 5e-3), (100e-6, 20e-3)])
def test_a_stretch_of_dear_batches_is_no_reason_to_try_the_threads(cheap, dear):
    """A tenth of a second of each 0.6: when it ends, a trial of the threads would seem to win."""
    found = changes(
        lambda now: cheap if now % 0.6 < 0.5 else dear,
        lambda now: 5.0 if now % 0.6 < 0.5 else 0.2,
        until=60,
    )
    assert 20 > len([now for now, _ in found if now > 10])


def test_costs_that_come_and_go_do_not_have_it_tried_for_ever():
    found = changes(lambda now: 1e-3 if now % 1.8 < 1.5 else 6e-3, lambda now: 1.5, until=240)
    assert sum(now > 120 for now, _ in found) < 40


def test_batches_that_are_quick_again_come_in_groups_again():
    """Later each time, up to 1,024 batches: to change costs what is in work."""
    pace, changes = Pace(), []
    for job in range(4000):
        seconds = 1.0 if len(changes) % 2 == 0 else 1e-5
        before, batches = pace.singly, 1 + job % 2
        pace.note(seconds * batches, batches)
        changes += [job] * (pace.singly != before)
    slow, quick = _pace.SLOW_JOBS, _pace.QUICK_JOBS
    apart = np.diff([-1, *changes]).tolist()
    assert [quick, 2 * quick, 4 * quick, 8 * quick, 1024, 1024] == apart[1:12:2]
    # Of a job that is slow behind a quick one, the call may be what has become slow.
    assert {slow, slow + 1} >= set(apart[0:6:2])


def test_a_slow_beginning_does_not_cost_the_groups_of_the_rest():
    """As of files that come from a disk first, and are in memory then."""
    made = []

    class Table(list):
        sample_bytes, now = 8, [0.0]

        def take(self, indices):
            made.append(len(indices))
            self.now[0] += (0.02 if indices[0] < 100 else 1e-5) * len(indices) / 2
            return np.asarray(indices)

    source = Table(range(4000))
    loader = Loader({"batch_size": 2, "num_workers": 0, "shuffle": False}, source)
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: source.now[0]
    with loader as batches:
        assert list(range(4000)) == [row for batch in batches for row in batch.tolist()]
    runs = [(size, len(list(takes))) for size, takes in groupby(made)]
    alone = max(runs, key=lambda run: run[1])
    assert (2, True) == (alone[0], alone[1] >= _pace.QUICK_JOBS)
    assert max(size for size, _ in runs[runs.index(alone) :]) > 100
