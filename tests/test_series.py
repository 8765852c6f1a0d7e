"""Where the loop prepares batches, many are one job, and each is given and timed as if alone."""

import json
import signal
import weakref

import numpy as np
import pytest
from clocked import stats_of
from hypothesis import given, settings
from hypothesis import strategies as st
from in_series import BESIDE, CONFIG, Read, opened

from threadloader import ClosedError, Loader
from threadloader._runtime import Runtime
from threadloader.loader import _schedule
from threadloader.order import BLOCK
from threadloader.order._deal import FIRST


def test_the_jobs_of_an_epoch_grow_to_what_is_ordered_together(monkeypatch):
    made = []

    class Series(_schedule.SeriesJob):
        def __init__(self, recipe, span, *rest):
            made.append(span.size)
            super().__init__(recipe, span, *rest)

    monkeypatch.setattr(_schedule, "SeriesJob", Series)
    with Loader({**CONFIG, "batch_size": 1024}, source=Read(64 * 1024)) as batches:
        assert 64 == len(list(batches))
    # In blocks of 2, 32 and 30 batches; a job of one is none of these.
    assert (2 * 1024, 32 * 1024) == (FIRST, BLOCK)
    assert [4, 8, 16, 4, 30] == made


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"collate": np.array},
        {"transform": abs},
        {"transform": lambda sample, rng: sample + rng.integers(5)},
    ],
    ids=["stack", "collate", "transform", "rng"],
)
def test_batches_of_small_samples_need_no_jobs_of_their_own(monkeypatch, given):
    """But the first of each series, which is a job of the engine."""
    singles = []

    class Series(_schedule.SeriesJob):
        def single(self, number):
            singles.append(number)
            return super().single(number)

    monkeypatch.setattr(_schedule, "SeriesJob", Series)
    with Loader(CONFIG, source=Read(4000), **given) as batches:
        assert 2000 == len(list(batches))
    assert {0} == set(singles)


@BESIDE
def test_no_batch_is_read_before_it_is_asked_for(workers):
    source = Read(60)
    with opened(workers, source) as batches:
        ahead = [len(source.read) - 2 * number for number, _ in enumerate(batches, 1)]
    assert [0] * 30 == ahead


@given(
    n=st.integers(1, 40),
    batch_size=st.integers(1, 5),
    shard=st.integers(0, 1),
    cut=st.integers(0, 40),
    seed=st.integers(0, 9),
)
@settings(max_examples=40, deadline=None)
def test_wherever_it_is_cut_the_run_goes_on_as_with_workers(n, batch_size, shard, cut, seed):
    """Batches, `info` and state are those of a run with a worker, and of one that was cut."""
    shared = {"batch_size": batch_size, "seed": seed, "num_epochs": 2}
    shared["shard"] = {"index": shard, "count": 2}

    def run(workers, state=None, most=None):
        got = []
        with Loader({**shared, "num_workers": workers}, source=range(n)) as batches:
            if state is not None:
                batches.load_state_dict(state)
            for epoch in batches.epochs():
                for batch in epoch:
                    info = batches.info
                    state = json.loads(json.dumps(batches.state_dict()))
                    where = info.epoch, info.step, info.indices.tolist(), info.valid.tolist()
                    got.append((batch.tolist(), *where, state))
                    if len(got) == most:
                        return got
        return got

    whole = run(0)
    assert run(1) == whole
    if whole and cut % len(whole):
        begun = run(0, most=cut % len(whole))
        assert whole == begun + run(0, begun[-1][-1])


def test_a_transform_gets_the_numbers_of_its_place():
    def draw(sample, rng):
        return int(rng.integers(1 << 30))

    def run(workers):
        config = {**CONFIG, "num_workers": workers, "num_epochs": 2}
        with Loader(config, source=range(50), transform=draw) as batches:
            return [batch.tolist() for epoch in batches.epochs() for batch in epoch]

    assert run(1) == run(0)


def test_leaving_the_with_meanwhile_ends_the_iterator():
    class Closing(Read):
        def __getitem__(self, index):
            if index == 21:
                batches.close()
            return super().__getitem__(index)

    with Loader(CONFIG, source=Closing(40)) as batches:
        epoch = iter(batches)
        got = [next(epoch).tolist() for _ in range(11)]  # the one that was asked for comes
        with pytest.raises(ClosedError):
            next(epoch)
    assert [[i, i + 1] for i in range(0, 22, 2)] == got


@pytest.mark.parametrize("bad", [(), (24,), (0, 5, 6)])
@pytest.mark.parametrize("collate", [None, np.array])
def test_the_time_that_batches_take_is_waited(bad, collate):
    """That of one that fails, too, with the question where its sample stands."""
    now = [0.0]

    class Slow(Read):
        def __getitem__(self, index):
            now[0] += 1.0
            return super().__getitem__(index)

        def locate(self, index):
            now[0] += 100.0
            return super().locate(index)

    source = Slow(64, bad)
    stats = stats_of(CONFIG, source, now, 32, collate)
    taken = len(source.read) + 100.0 * len(bad)
    assert taken == stats.first_batch_seconds + stats.data_wait_seconds


def test_a_wait_counts_while_it_lasts():
    """Whoever looks from elsewhere sees that the loop is blocked, and since when."""
    now, seen = [0.0], []

    class Slow(Read):
        def __getitem__(self, index):
            if index >= 2:  # behind the first batch
                now[0] += 1.0
                seen.append(batches.stats().data_wait_seconds)
            return super().__getitem__(index)

    loader = Loader({**CONFIG, "batch_size": 1, "prefetch_batches": 1}, source=Slow(6))
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: now[0]
    with loader as batches:
        for _ in batches:
            pass
        assert [1.0, 2.0, 3.0, 4.0] == seen
        assert 4.0 == batches.stats().data_wait_seconds


def test_a_wait_that_failed_lasts_no_longer():
    now = [0.0]

    class Failing(Read):
        def __getitem__(self, index):
            now[0] += 1.0
            if index == 3:
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    loader = Loader({**CONFIG, "batch_size": 1}, source=Failing(6))
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: now[0]
    with loader as batches:
        with pytest.raises(KeyboardInterrupt):
            list(batches)
        before = batches.stats().data_wait_seconds
        now[0] += 10.0
        assert before == batches.stats().data_wait_seconds


def test_a_batch_that_was_given_is_held_by_nobody():
    """Nor is the memory that its large samples were written into."""
    samples = [np.full(8192, number, np.float64) for number in range(64)]
    with Loader(CONFIG, source=samples) as batches:
        epoch, there = iter(batches), []
        for batch in epoch:
            there.append(weakref.ref(batch))
            del batch
            assert not any(ref() is not None for ref in there)
        assert len(batches) == len(there) > 0


def test_what_is_prepared_at_once_shrinks_as_soon_as_batches_get_dearer():
    """Else the next look at what they cost would come a whole series too late."""
    most = [8]
    sizes = _schedule._Sizes(lambda: most[0], 0)
    assert [1, 2, 4, 8, 8] == [sizes.next(100) for _ in range(5)]
    most[0] = 2
    assert [2, 2, 1] == [sizes.next(left) for left in (100, 100, 1)]


@settings(max_examples=300, deadline=None)
@given(
    depth=st.integers(1, 9), group=st.integers(1, 6), steps=st.integers(1, 20), draw=st.randoms()
)
def test_jobs_in_a_row_have_no_more_batches_than_is_told(depth, group, steps, draw):
    """However an epoch is cut into jobs, and wherever in it the row begins."""
    sizes = []
    for _ in range(depth + 2):
        left = steps
        while left:
            # Mostly full ones, as a run has.
            size = draw.choice([group, group, draw.randint(1, group)])
            sizes.append(min(size, left))
            left -= sizes[-1]
    rows = [sum(sizes[at : at + depth]) for at in range(len(sizes) - depth)]
    assert max(rows) <= _schedule.most_ahead(depth, group, steps) <= depth * group
