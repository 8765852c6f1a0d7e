"""`on_error`: samples that fail are tried again, left out within a budget, and counted."""

import contextlib
import gc
import itertools
import json
import threading
import weakref
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from bad_samples import AllAtOnce, Failing, Whole
from hypothesis import given
from hypothesis import strategies as st
from sweep import Interrupt, Sweep

from threadloader import BatchInfo, ConfigError, Loader
from threadloader.jobs import Pause, Policy, Recipe, RetryingJob, Span

WORKERS = st.sampled_from([0, 1, 3])
KINDS = st.sampled_from([Failing, AllAtOnce, Whole])


def run(batches):
    """Lists (rows, step, skipped) of each batch that is delivered."""
    return [(batch.tolist(), batches.info.step, batches.info.skipped) for batch in batches]


def steps(n, batch_size, bad):
    """What `run` gives for an order that is not shuffled, by the contract."""
    made, passed = [], ()
    for step, first in enumerate(range(0, n, batch_size)):
        rows = range(first, min(first + batch_size, n))
        left = [row for row in rows if row not in bad]
        passed += tuple(row for row in rows if row in bad)
        if left:
            made.append((left, step, passed))
            passed = ()
    return made


@given(st.data(), KINDS, WORKERS, st.integers(1, 20), st.integers(1, 6))
def test_what_fails_is_left_out_of_its_batch_and_nothing_else(data, kind, workers, n, size):
    bad = data.draw(st.sets(st.integers(0, n - 1)))
    config = {
        "batch_size": size,
        "shuffle": False,
        "num_workers": workers,
        "on_error": {"skip": len(bad)},
    }
    with Loader(config, source=kind(n, bad)) as batches:
        assert steps(n, size, bad) == run(batches)
        assert (len(bad), n - len(bad)) == (batches.stats().skipped, batches.stats().samples)


@given(st.data(), KINDS, WORKERS, st.integers(1, 20), st.integers(1, 6))
def test_what_succeeds_after_some_tries_is_delivered_and_counted(data, kind, workers, n, size):
    flaky = data.draw(st.dictionaries(st.integers(0, n - 1), st.integers(1, 3)))
    config = {
        "batch_size": size,
        "shuffle": False,
        "num_workers": workers,
        # Else an epoch that is prepared ahead may meet a failure of this one.
        "num_epochs": 1,
        "on_error": {"retry": 3, "backoff": 0},
    }
    with Loader(config, source=kind(n, flaky=flaky)) as batches:
        assert steps(n, size, ()) == run(batches)
        # A source that reads many at once fails once as a whole, before it is asked row by row.
        least = sum(flaky.values()) if kind is Failing else 0
        assert least <= batches.stats().retried <= sum(flaky.values())
        assert batches.stats().skipped == 0


@given(st.data(), WORKERS, st.integers(1, 12), st.integers(1, 4))
def test_the_budget_permits_so_many_and_the_next_is_raised(data, workers, n, size):
    """A batch with samples above the budget is raised whole; the next one follows."""
    bad = data.draw(st.sets(st.integers(0, n - 1)))
    budget = data.draw(st.integers(0, n))
    config = {
        "batch_size": size,
        "shuffle": False,
        "num_workers": workers,
        "on_error": {"skip": budget},
    }
    expected, spent = [], 0
    for first in range(0, n, size):
        rows = range(first, min(first + size, n))
        failing = [row for row in rows if row in bad]
        if spent + len(failing) > budget:
            expected.append(f"sample {failing[0]} is bad")
        else:
            spent += len(failing)
            expected += [[row for row in rows if row not in bad]] if set(rows) - bad else []
    got = []
    with Loader(config, source=Failing(n, bad)) as batches:
        epoch = iter(batches)
        while True:
            try:
                got.append(next(epoch).tolist())
            except StopIteration:
                break
            except ValueError as error:
                got.append(str(error))
        assert spent == batches.stats().skipped
    assert expected == got


@given(st.data(), KINDS, WORKERS, st.integers(1, 16), st.integers(1, 5), st.booleans())
def test_a_run_that_is_cut_leaves_out_the_same_and_goes_on_counting(
    data, kind, workers, n, size, shuffle
):
    bad = data.draw(st.sets(st.integers(0, n - 1)))
    config = {
        "batch_size": size,
        "shuffle": shuffle,
        "num_workers": workers,
        "on_error": {"skip": 2 * len(bad)},
    }

    def two_epochs(batches):
        for epoch in batches.epochs(2):
            for batch in epoch:
                yield epoch.number, batch.tolist(), batches.info.skipped

    with Loader(config, source=kind(n, bad)) as batches:
        whole = list(two_epochs(batches))
        end = batches.state_dict()
    cut = data.draw(st.integers(0, len(whole)))
    with Loader(config, source=kind(n, bad)) as batches:
        seen = list(islice(two_epochs(batches), cut))
        state = json.loads(json.dumps(batches.state_dict()))
    with Loader(config, source=kind(n, bad), resume=state) as batches:
        seen += two_epochs(batches)
        assert whole == seen
        assert end == batches.state_dict()


def test_a_spent_budget_stays_spent_after_a_resume():
    config = {"batch_size": 1, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=Failing(3, {0, 2})) as batches:
        next(iter(batches))
        state = batches.state_dict()
    with Loader(config, source=Failing(3, {0, 2}), resume=state) as batches:
        with pytest.raises(ValueError, match="sample 2 is bad") as caught:
            next(iter(batches))
    assert any('"on_error" permits to skip 1' in note for note in caught.value.__notes__)


def test_a_transform_is_tried_again_with_the_same_random_numbers():
    seen, guard = {}, threading.Lock()

    def transform(sample, rng):
        drawn = int(rng.integers(1 << 30))
        with guard:
            first = sample not in seen
            seen.setdefault(sample, []).append(drawn)
        if first:
            raise RuntimeError("the first time")
        return drawn

    config = {"batch_size": 4, "num_epochs": 1, "on_error": {"retry": 1, "backoff": 0}}
    with Loader(config, source=range(8), transform=transform) as batches:
        got = np.concatenate(list(batches)).tolist()
    assert sorted(got) == sorted(drawn for _, drawn in seen.values())
    assert all(first == second for first, second in seen.values())


def test_padding_that_fails_is_left_out_and_not_counted():
    """It repeats a sample that is counted where it is no padding."""
    shard = {"index": 1, "count": 2, "remainder": "pad"}
    config = {"batch_size": 2, "shuffle": False, "shard": shard, "on_error": {"skip": 0}}
    with Loader(config, source=Failing(5, {0})) as batches:
        assert [([2, 3], 0, ())] == run(batches)
        assert batches.stats().skipped == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_padding_that_fails_is_left_out_of_a_batch_that_went_over_the_budget(workers):
    """The batch is made once more, as its one sample had failed; it is good then."""

    class Flaky:
        def __init__(self):
            self.reads = Counter()

        def __len__(self):
            return 3

        def __getitem__(self, index):
            self.reads[index] += 1
            if index == 0 or (index, self.reads[index]) == (2, 1):
                raise ValueError(f"bad {index}")
            return index

    shard = {"index": 1, "count": 2, "remainder": "pad"}
    config = {"batch_size": 2, "shuffle": False, "shard": shard, "on_error": {"skip": 0}}
    source = Flaky()
    with Loader({**config, "num_workers": workers, "num_epochs": 1}, source=source) as batches:
        assert [([2], 0, ())] == run(batches)
        assert (0, 2) == (batches.stats().skipped, source.reads[2])


def test_info_has_the_rows_that_are_left():
    config = {"batch_size": 4, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=Failing(4, {2})) as batches:
        list(batches)
        info: BatchInfo = batches.info
    assert [0, 1, 3] == info.indices.tolist()
    assert (np.int64, np.bool_) == (info.indices.dtype, info.valid.dtype)
    assert [True] * 3 == info.valid.tolist()
    assert not info.indices.flags.writeable
    assert not info.valid.flags.writeable


def test_large_rows_come_whole_where_one_is_left_out():
    """Rows that would be written straight into the batch are as they are without the policy."""

    def transform(sample):
        if sample == 5:
            raise ValueError("bad")
        return np.full(40_000, sample)

    config = {"batch_size": 8, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=range(8), transform=transform) as batches:
        (batch,) = batches
    assert [0, 1, 2, 3, 4, 6, 7] == batch[:, 0].tolist()
    assert (batch == batch[:, :1]).all()


def test_small_batches_of_an_array_are_made_in_groups_all_the_same():
    """Where a group fails, its batches are made one by one, and only the sample is left out."""
    config = {"batch_size": 2, "shuffle": False, "on_error": {"skip": 1}}
    with Loader(config, source=Whole(400, {301})) as batches:
        assert steps(400, 2, {301}) == run(batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_a_last_batch_that_is_passed_over_are_told_with_the_next_epoch(workers):
    config = {"batch_size": 2, "shuffle": False, "num_workers": workers, "on_error": {"skip": 9}}
    told = []
    with Loader(config, source=Failing(4, {2, 3})) as batches:
        for epoch in batches.epochs(3):
            told += [batches.info.skipped for _ in epoch]
    assert [(), (2, 3), (2, 3)] == told


@pytest.mark.parametrize("skip", [None, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_closing_ends_a_pause(workers, skip):
    """Whoever leaves the `with` does not wait; and the sample has not failed to the end."""
    failing = threading.Event()
    interrupted = []

    def transform(sample):
        failing.set()
        raise OSError("not now")

    on_error = {"retry": 9, "backoff": 60, "skip": skip}
    config = {"batch_size": 1, "num_workers": workers, "on_error": on_error}
    with Loader(config, source=range(4), transform=transform) as batches:

        def ask():
            try:
                next(iter(batches))
            except Exception as error:
                interrupted.append(type(error).__name__)

        asking = threading.Thread(target=ask)
        asking.start()
        failing.wait()
        batches.close()
        asking.join(30)
        assert not asking.is_alive()
    assert ["ClosedError"] == interrupted
    assert (0, 0) == (batches.stats().skipped, batches.state_dict()["world"]["position"])


@pytest.mark.parametrize("workers", [0, 2])
def test_above_the_budget_the_sample_is_told_and_not_what_its_absence_does(workers):
    def transform(index):
        if index == 0:
            raise OSError("sample 0 is damaged")
        return np.zeros(index)  # the others do not fit together

    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": {"skip": 0}}
    with Loader(config, source=range(4), transform=transform) as batches:
        with pytest.raises(OSError, match="sample 0 is damaged"):
            next(iter(batches))


def test_an_exception_that_is_raised_again_and_again_keeps_no_batch_alive():
    """As that of a `Future`: its traceback would lead to every job that it was raised in."""
    error, samples = ValueError("damaged"), []

    class Sample:
        pass

    class Kept(Failing):
        def __getitem__(self, index):
            if index % 2:
                raise error
            sample = Sample()
            samples.append(weakref.ref(sample))
            return sample

    config = {"batch_size": 2, "shuffle": False, "num_workers": 0, "on_error": {"skip": 99}}
    with Loader(config, source=Kept(20), collate=len) as batches:
        assert [1] * 10 == list(batches)
        gc.collect()
        assert 0 == sum(sample() is not None for sample in samples)
    assert error.__traceback__ is None


@pytest.mark.parametrize("kind", [Failing, AllAtOnce, Whole])
def test_a_batch_that_is_made_again_forgets_what_was_left_out_before(kind):
    """Without workers a Ctrl-C behind the work has it done anew, and all may be good then."""
    source = kind(3, flaky={1: 2})
    policy = Policy(0, 0.0, True, Pause(threading.Lock(), lambda lock, seconds: False))
    recipe = Recipe(source, None, np.array, policy=policy)
    if kind is not Failing:
        whole = "take" if kind is Whole else "getitems"
        recipe = recipe._replace(whole=whole, take=getattr(source, "take", None))
    rows = np.arange(3)
    span = Span(0, 0, 1, 0, 3, 3, last=True, over=True)
    job = RetryingJob(recipe, span, rows, rows, np.ones(3, bool), 3, 0)
    job.run(iter(range(job.parts)))
    assert ([0, 2], [1]) == (job.finish()[0].tolist(), [it.index for it in job.failures])
    source._left.clear()
    job.run(iter(range(job.parts)))
    assert [0, 1, 2] == job.finish()[0].tolist()
    assert ((), [0, 1, 2]) == (job.failures, job.info().indices.tolist())


def test_pauses_double_up_to_a_minute():
    pauses = []
    pause = Pause(threading.Lock(), lambda lock, seconds: pauses.append(seconds) or False)
    policy = Policy(2000, 0.5, False, pause)
    assert all(policy.again(tries) for tries in range(10))
    assert [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60] == pauses
    assert policy.again(1999)
    assert not policy.again(2000)


def test_a_ctrl_c_at_any_line_of_ending_the_pauses_is_made_good_by_a_second_end():
    for at in itertools.count(1):
        lock = threading.Lock()
        pause = Pause(lock, lambda lock, seconds: False)
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt)
            with contextlib.suppress(KeyboardInterrupt), sweep:
                pause.end()
        pause.end()
        assert not lock.locked(), sweep.where
        if not sweep.where:
            break
    assert at > 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "/on_error"),
        ({"skip": -1}, "/on_error"),
        ({"retry": 1, "skips": 2}, "/on_error/skips"),
        ({"quarantine": "bad.jsonl"}, "/on_error"),
        ({"skip": None, "quarantine": "bad.jsonl"}, "/on_error/quarantine"),
        ({"backoff": 1}, "/on_error"),
        ("skip", "/on_error"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_place(options, told):
    with pytest.raises(ConfigError, match=told):
        Loader({"on_error": options}, source=range(4))


@pytest.mark.parametrize(("skip", "times"), [({}, 1), ({"skip": 0}, 2)])
@pytest.mark.parametrize("workers", [0, 2])
def test_tries_that_end_in_an_exception_are_counted_as_it_comes(workers, skip, times):
    """Once; they were counted with the next batch alone, and those before a spent budget never."""

    def bad(sample):
        if sample % 2 == 0:
            raise ValueError("bad")
        return sample

    config = {"batch_size": 1, "shuffle": False, "num_workers": workers, "num_epochs": 3}
    config["on_error"] = {"retry": 2, "backoff": 0, **skip}
    with Loader(config, range(3), transform=bad) as batches:
        epoch = iter(batches)
        for failed in (1, 1, 2):
            with contextlib.suppress(ValueError):
                next(epoch)
            assert failed * 2 * times == batches.stats().retried
        with pytest.raises(ValueError, match="bad"):
            next(iter(batches))
    assert 3 * 2 * times == batches.stats().retried
