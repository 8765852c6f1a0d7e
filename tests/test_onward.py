"""Batches that lie ready are taken one behind the other; what they add up to comes later."""

import itertools
import json
import threading
import weakref
from contextlib import suppress

import numpy as np
import pytest
from freeing import AT_ONCE, free_at_once
from hypothesis import given, settings
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.loader._choice import Choice
from threadloader.loader._run import Run

CONFIG = {"batch_size": 2, "num_workers": 2, "shuffle": False, "num_epochs": 1}


class Patient(Choice):
    """The workers prepare the batches, whatever that costs."""

    noted = 0

    def note(self, *noted):
        self.noted += 1
        return False


class Counted(Run):
    """Says how often a place was worked out for a job."""

    jobs = 0

    def _next_job(self, place, epoch):
        self.jobs += 1
        return super()._next_job(place, epoch)


def opened(config, source, **given):
    """A loader whose workers stay, and whose batches are counted."""
    loader = Loader({**CONFIG, **config}, source=source, **given)

    class Entered:
        def __enter__(self):
            batches = loader.__enter__()
            batches._run.__class__ = Counted
            if config.get("num_workers", 2):
                batches._supply.choice = Patient()
            return batches

        def __exit__(self, *error):
            return loader.__exit__(*error)

    return Entered()


def all_ready(batches, count):
    """Wait until so many results can be had without waiting."""
    place = batches._run.results.place
    while place.stream.ready(place.taken) < count:
        threading.Event().wait(0.001)


def delivered(batches, epoch):
    """What is known behind each batch, or the error in its place."""
    got = []
    while True:
        try:
            batch = next(epoch)
        except StopIteration:
            return got
        except OSError as error:
            got.append((str(error), batches.state_dict()))
            continue
        info, stats = batches.info, batches.stats()
        where = info.epoch, info.step, info.indices.tolist(), info.valid.tolist()
        counts = stats.batches, stats.samples, stats.failed
        got.append((batch.tolist(), where, counts, json.dumps(batches.state_dict())))


def test_no_place_is_worked_out_behind_batches_that_lie_ready():
    with opened({"prefetch_batches": 20}, range(39)) as batches:
        epoch = iter(batches)
        all_ready(batches, 20)
        assert 20 == len(list(epoch))
        # For the first batch, and at the end.
        assert 2 == batches._run.jobs
        assert 20 == batches._supply.choice.noted, "what each has cost is looked at all the same"
        assert 20 * 21 // 2 == batches.stats().ready_sum
        assert (20, 39) == (batches.stats().batches, batches.stats().samples)


class Damaged:
    """Some samples are damaged."""

    def __init__(self, n, bad):
        self.n, self.bad = n, bad

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index in self.bad:
            raise OSError(f"damaged: {index}")
        return index


@given(
    n=st.integers(1, 40),
    batch_size=st.integers(1, 5),
    index=st.integers(0, 1),
    bad=st.sets(st.integers(0, 39), max_size=3),
    asked=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_what_is_known_behind_each_is_what_is_known_without_workers(
    n, batch_size, index, bad, asked
):
    """Place, counts, `info` and state: asked for behind each batch, or behind the last alone."""

    def run(workers):
        shared = {"batch_size": batch_size, "num_workers": workers, "prefetch_batches": 50}
        shared["shard"] = {"index": index, "count": 2}
        with opened({**shared, "num_epochs": 2}, Damaged(n, bad)) as batches:
            got = []
            for epoch in batches.epochs():
                if workers:
                    all_ready(batches, len(batches))
                if asked:
                    got.append(delivered(batches, epoch))
                    continue
                while True:
                    with suppress(OSError):
                        if next(epoch, None) is None:
                            break
            stats, state = batches.stats(), batches.state_dict()
            return got, (stats.batches, stats.samples, stats.failed), state

    assert run(0) == run(2)


def test_the_time_that_they_are_asked_for_is_waited():
    ticks = itertools.count()
    with opened({"prefetch_batches": 20}, range(40)) as batches:
        epoch = iter(batches)
        all_ready(batches, 20)
        next(epoch)
        before = batches.stats().data_wait_seconds
        batches._supply.now = lambda: float(next(ticks))
        for _ in range(19):
            next(epoch)
        assert 19.0 == batches.stats().data_wait_seconds - before


def test_of_another_kind_of_outcome_the_usual_way_is_gone():
    """A fingerprint, a policy, a loop that may starve."""
    for config in (
        {"fingerprint": True},
        {"on_error": {"skip": 3}},
        {"switch_interval": "auto"},
    ):
        with opened({**config, "prefetch_batches": 20}, range(40)) as batches:
            epoch = iter(batches)
            all_ready(batches, 20)
            assert 20 == len(list(epoch))
            assert 21 == batches._run.jobs


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_was_given_is_held_by_nobody(workers):
    """Nor is the memory that its large samples were written into."""
    samples = [np.full(8192, number, np.float64) for number in range(64)]
    config = {"num_workers": workers, "prefetch_batches": 32}
    with opened(config, samples) as batches:
        epoch, there = iter(batches), []
        if workers:
            all_ready(batches, 32)
        for batch in epoch:
            there.append(weakref.ref(batch))
            del batch
            assert not AT_ONCE or not any(ref() is not None for ref in there)
        assert len(batches) == len(there) > 0
    free_at_once()
    assert not any(ref() is not None for ref in there)
