"""A run that was stopped goes on exactly where it was, wherever that is, however often."""

import signal
import sys
import threading

import numpy as np
import pytest
from numbered import Numbers
from stopped import config, cut, delivered, place

from threadloader import BusyError, ClosedError, Loader

WORKERS = [0, 1, 2, 8]


def test_a_relative_path_starts_where_the_loader_was_made(tmp_path, monkeypatch):
    """As all others do: where it is entered there may be the state of another run."""
    states = []
    for number, name in enumerate(("here", "there"), 1):
        (tmp_path / name).mkdir()
        with Loader({"batch_size": 1}, range(4)) as batches:
            for batch, _ in zip(batches, range(number), strict=False):
                assert len(batch)
            batches.save(tmp_path / name / "run.state")
            states.append(batches.state_dict()["shard"]["batches"])
    monkeypatch.chdir(tmp_path / "here")
    loader = Loader({"batch_size": 1}, range(4), resume="run.state")
    monkeypatch.chdir(tmp_path / "there")
    with loader as batches:
        assert states[0] == batches.state_dict()["shard"]["batches"] != states[1]


def test_a_state_that_is_given_as_a_dict_is_that_of_the_time_when_it_was_given():
    """A Loader is a recipe: what becomes of the dict later is the caller's own."""
    with Loader({"batch_size": 1, "shuffle": False}, range(4)) as batches:
        epoch = iter(batches)
        state = batches.state_dict()
        loader = Loader({"batch_size": 1, "shuffle": False}, range(4), resume=state)
        next(epoch)
        state.update(batches.state_dict())
        state["world"]["position"] = 3
    with loader as batches:
        assert [0, 1, 2, 3] == [int(batch[0]) for batch in batches]


def test_what_a_signal_handler_raises_while_a_state_is_copied_passes(rung):
    class Slow:
        def __deepcopy__(self, memo):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TimeoutError, match="rung"):
        Loader({}, range(4), resume={"format": Slow()})


class Taking(Numbers):
    """Whole batches at once, so small that several are made together."""

    sample_bytes = 8

    def take(self, indices):
        return np.array([self[index] for index in indices.tolist()])


@pytest.mark.parametrize("prefetch", [1, 3, 64])
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", [Numbers, Taking])
def test_restoring_reads_no_sample(kind, workers, prefetch):
    """Neither `resume` nor `load_state_dict`; what is read then is what was not delivered yet."""
    options = {"seed": 5, "shuffle": True, "num_epochs": 1, "prefetch_batches": prefetch}
    done, state = cut(6, kind(30), **options)
    source = kind(30)
    with Loader(config(num_workers=workers, **options), source, resume=state) as batches:
        batches.load_state_dict(state)
        assert state == batches.state_dict()
        assert 15 == len(batches)
        assert batches.info is None
    assert [] == source.read
    with Loader(config(num_workers=workers, **options), source, resume=state) as batches:
        rest = delivered(batches)
    assert (6, 9) == (len(done), len(rest))
    delivered_before = {index for _, _, batch in done for index in batch}
    assert sorted(set(range(30)) - delivered_before) == sorted(source.read)


def test_without_workers_nothing_but_the_next_batch_is_read():
    _, state = cut(3, Numbers(20))
    source = Numbers(20)
    with Loader(config(), source, resume=state) as batches:
        assert [6, 7] == next(iter(batches)).tolist()
    assert [6, 7] == source.read


@pytest.mark.parametrize("where", range(6))
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", [Numbers, Taking])
def test_after_an_exception_the_state_stands_before_the_failed_batch(kind, workers, where):
    """Until next is called; a run that goes on from there gets the batch, if it can be read now."""
    options = {"num_workers": workers, "num_epochs": 2, "seed": 3, "shuffle": True}
    whole = cut(12, kind(12), **options)[0]
    bad = whole[where][2][1]
    with Loader(config(**options), kind(12, {bad: OSError(f"no {bad}")})) as batches:
        epoch = iter(batches)
        assert [batch for _, _, batch in whole[:where]] == [
            next(epoch).tolist() for _ in range(where)
        ]
        before = batches.state_dict()
        with pytest.raises(OSError, match=f"no {bad}"):
            next(epoch)
        failed = batches.state_dict()
        assert before == failed
        behind = next(epoch, None)
        assert failed["world"] != batches.state_dict()["world"]
        assert (where < 5) == (behind is not None)
    with Loader(config(**options), kind(12), resume=failed) as batches:
        assert whole[where:] == delivered(batches)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("where", [0, 2, 5])
def test_an_epoch_that_is_left_after_an_exception_counts_as_begun(workers, where):
    """`iter` instead of `next`: the state moves to the next epoch when that begins."""
    source = Numbers(12, {2 * where: OSError("no sample")})
    with Loader(config(num_workers=workers), source) as batches:
        epoch = iter(batches)
        for _ in range(where):
            next(epoch)
        with pytest.raises(OSError, match="no"):
            next(epoch)
        assert (0, 2 * where) == place(batches)
        epoch = iter(batches)
        assert 1 == epoch.number
        assert (1, 0) == place(batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_goes_on_at_a_batch_that_still_fails_stands_before_it_again(workers):
    source = Numbers(8, {3: OSError("no 3")})
    with Loader(config(num_workers=workers), source) as batches:
        epoch = iter(batches)
        next(epoch)
        state = batches.state_dict()
        with pytest.raises(OSError, match="no 3"):
            next(epoch)
    for _ in range(3):
        with Loader(config(num_workers=workers), source, resume=state) as batches:
            with pytest.raises(OSError, match="no 3"):
                next(iter(batches))
            assert state == batches.state_dict()


@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_sampler_failed_the_state_stands_before_its_epoch(workers):
    fail = {1}

    def sampler(epoch, n):
        if epoch in fail:
            raise LookupError("no order")
        return range(epoch, n)

    with Loader(config(num_workers=workers), Numbers(6), sampler=sampler) as batches:
        epochs = batches.epochs(3)
        assert 3 == len(list(next(epochs)))
        state = batches.state_dict()
        epoch = next(epochs)
        with pytest.raises(LookupError):
            next(epoch)
        assert state == batches.state_dict()
    fail.clear()
    with Loader(config(num_workers=workers), Numbers(6), sampler=sampler, resume=state) as batches:
        assert [1, 2] == [epoch.number for epoch in batches.epochs(3) if list(epoch)]


@pytest.fixture
def hasty():
    """Threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_taken_in_another_thread_is_that_of_a_delivered_prefix(workers, hasty):
    """Whole, whatever the consumer does at that moment; and it never goes back."""
    options = config(num_workers=workers, batch_size=3, num_epochs=4, shuffle=True)
    with Loader(options, np.arange(100)) as batches:
        between = [batches.state_dict()]
        between += [batches.state_dict() for epoch in batches.epochs() for _ in epoch]
    taken, done, there = [], threading.Event(), threading.Barrier(2)

    def take(batches):
        there.wait()
        while not done.is_set():
            taken.append(batches.state_dict())

    with Loader(options, np.arange(100)) as batches:
        thread = threading.Thread(target=take, args=(batches,))
        thread.start()
        there.wait()
        try:
            got = delivered(batches)
        finally:
            done.set()
            thread.join()
    assert len(between) == 1 + len(got)
    counts = [state["shard"]["batches"] for state in taken]
    assert [between[count] for count in counts] == taken
    assert sorted(counts) == counts


@pytest.mark.parametrize("until", range(10))
def test_what_is_loaded_is_what_is_given_back(until):
    """Before anything is delivered, however often, through every way in."""
    options = {"num_epochs": 3, "seed": 9, "shuffle": True, "exclude": [1], "fingerprint": True}
    _, state = cut(until, np.arange(8), **options)
    with Loader(config(**options), np.arange(8), resume=state) as batches:
        assert state == batches.state_dict()
        batches.load_state_dict(state)
        assert state == batches.state_dict()
        iter(batches)
        assert state == batches.state_dict()
    assert state == batches.state_dict()


@pytest.mark.parametrize("until", range(1, 13))
def test_a_resumed_run_finishes_the_same_epochs(until):
    """`num_epochs` of them: the first of what is left has its number, and so have its steps."""
    options = {"num_epochs": 3, "seed": 9, "shuffle": True}
    whole = cut(12, np.arange(8), **options)[0]
    done, state = cut(until, np.arange(8), **options)
    with Loader(config(**options), np.arange(8), resume=state) as batches:
        assert whole == done + delivered(batches)
        assert [] == list(batches.epochs())
        assert (3, 0) == place(batches)


@pytest.fixture(params=[0, 2])
def resumed(request):
    """Batches of a run of 8 samples that goes on behind the first 2; epochs have 4 steps."""
    loader = Loader({"batch_size": 2, "num_workers": request.param, "seed": 3}, np.arange(8))
    with loader as batches:
        next(iter(batches))
        state = batches.state_dict()
    with loader as batches:
        batches.load_state_dict(state)
        yield batches


def rest_of(batches):
    """Take an epoch; give its number, and how many batches came."""
    epoch = iter(batches)
    return epoch.number, len(list(epoch))


def test_an_iterator_that_nobody_asks_does_not_end_the_epoch_that_goes_on(resumed):
    """As Lightning makes one, to see whether there is any; the rest of the epoch was lost."""
    iter(resumed)
    kept = iter(resumed)
    assert 4 == len(resumed)
    assert [(0, 3), (1, 4)] == [rest_of(resumed), rest_of(resumed)]
    with pytest.raises(ClosedError):
        next(kept)


def test_an_iterator_that_is_closed_ends_the_epoch_that_goes_on(resumed):
    iter(resumed).close()
    assert (1, 4) == rest_of(resumed)


def test_an_epoch_that_goes_on_is_that_of_epochs_after_an_iterator_that_nobody_asks(resumed):
    before = resumed.state_dict()
    iter(resumed)
    assert before == resumed.state_dict()
    assert [(0, 3), (1, 4)] == [(epoch.number, len(list(epoch))) for epoch in resumed.epochs(2)]


def test_epochs_of_which_nothing_is_asked_go_on_all_the_same(resumed):
    numbers = [epoch.number for epoch, _ in zip(resumed.epochs(3), range(9), strict=False)]
    assert [0, 1, 2] == numbers


def test_an_iterator_that_was_asked_in_vain_ends_the_epoch_that_goes_on(resumed, rung):
    """What a signal's handler raises there is no batch, but it was asked for one."""
    epoch = iter(resumed)

    def ring(*place, real=resumed._run._next_of):
        resumed._run._next_of = real
        signal.raise_signal(signal.SIGINT)

    resumed._run._next_of = ring
    with pytest.raises(TimeoutError):
        next(epoch)
    next(iter(resumed))
    assert 1 == resumed.info.epoch


def test_an_iterator_that_nobody_asks_ends_an_epoch_that_begins(resumed):
    assert (0, 3) == rest_of(resumed)
    iter(resumed)
    assert (2, 4) == rest_of(resumed)


def test_a_loader_that_is_entered_again_goes_on_from_its_state_again():
    _, state = cut(3, np.arange(12))
    loader = Loader(config(num_epochs=1), np.arange(12), resume=state)
    got = []
    for _ in range(2):
        with loader as batches:
            got.append(delivered(batches))
    assert [(0, 3), (0, 4), (0, 5)] == [place[:2] for place in got[0]]
    assert got[0] == got[1]


def test_a_state_can_be_loaded_back_and_forth_between_epochs():
    """In one `with`, once the iterator has ended; while it is live it is refused."""
    states = [cut(until, np.arange(12))[1] for until in (1, 4, 8)]
    with Loader(config(), np.arange(12)) as batches:
        for state in [*states, *reversed(states)]:
            batches.load_state_dict(state)
            epoch = iter(batches)
            left = 6 - state["world"]["step"]
            next(epoch)
            with pytest.raises(BusyError, match="live"):
                batches.load_state_dict(state)
            assert left - 1 == len(list(epoch))


SAMPLERS = {
    "none": {},
    "shuffle": {"shuffle": True},
    "weighted": {"sampler": {"type": "weighted", "weights": [1 + i % 3 for i in range(12)]}},
    "so many": {
        "sampler": {"type": "weighted", "weights": [1 + i % 3 for i in range(12)], "num_samples": 9}
    },
    "without replacement": {
        "sampler": {"type": "weighted_without_replacement", "weights": list(range(12))}
    },
    "balanced": {"sampler": {"type": "balanced", "labels": "labels.npy", "num_samples": 12}},
    "subset": {"sampler": {"type": "subset", "indices": [9, 2, 4, 6, 1, 3, 7], "shuffle": True}},
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_another_list_of_excluded_samples_counts_from_the_next_epoch_on(
    sampler, tmp_path, monkeypatch
):
    """The epoch that was begun goes on with the old one, over several resumes."""
    monkeypatch.chdir(tmp_path)
    np.save("labels.npy", np.arange(12) % 3)
    options = {**SAMPLERS[sampler], "num_epochs": 2, "seed": 6}
    old, new = {**options, "exclude": [1, 2]}, {**options, "exclude": [2, 3, 4]}
    first = [got for got in cut(99, np.arange(12), **old)[0] if got[0] == 0]
    second = [got for got in cut(99, np.arange(12), **new)[0] if got[0] == 1]
    got, state = cut(1, np.arange(12), **old)
    for until in (1, None):
        with Loader(config(**new), np.arange(12), resume=state) as batches:
            assert state == batches.state_dict()
            got += delivered(batches, until)
            state = batches.state_dict()
    assert first + second == got


def test_an_epoch_that_was_not_begun_has_the_new_list():
    _, state = cut(0, np.arange(6), exclude=[1])
    with Loader(config(exclude=[4], num_epochs=1), np.arange(6), resume=state) as batches:
        assert [[0, 1], [2, 3], [5]] == [batch for _, _, batch in delivered(batches)]


def test_a_fingerprint_of_all_batches_ends_with_a_batch_that_has_none():
    """A run that goes on without `fingerprint` does not show that of a part as that of all."""
    _, state = cut(2, np.arange(12), fingerprint=True)
    with Loader(config(), np.arange(12), resume=state) as batches:
        assert state["shard"]["fingerprint"] == batches.state_dict()["shard"]["fingerprint"] != ""
        assert "" == batches.stats().fingerprint
        delivered(batches, 1)
        assert "" == batches.state_dict()["shard"]["fingerprint"] == batches.stats().fingerprint
