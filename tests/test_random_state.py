"""Random choices come from (seed, epoch, position), and never from what all the world shares."""

import inspect
import json
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.transforms import bind

N = 40
WORKERS = [0, 1, 2, 8]

SAMPLERS = {
    "plain": {},
    "weighted": {"sampler": {"type": "weighted", "weights": list(range(N)), "num_samples": 60}},
    "without": {"sampler": {"type": "weighted_without_replacement", "weights": list(range(N))}},
    "balanced": {"sampler": {"type": "balanced", "field": 1}},
    "subset": {"sampler": {"type": "subset", "indices": [3, 1, 3, 3, 5], "shuffle": True}},
}


class Pairs:
    """Samples are (index, class)."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return index, index % 3


def shaken(sample, rng):
    """Draws in all the ways that leave something half used behind."""
    index, label = sample
    half = int(rng.integers(2**20, dtype=np.uint32))
    return index, label, half, float(rng.random()), int(rng.bit_generator.random_raw()) >> 1


def run(config, *, workers, epochs=2, until=None, resume=None, transform=shaken):
    """Gives all that is delivered, row by row, and the state behind it."""
    config = {"batch_size": 3, "num_workers": workers, **config}
    rows = []
    with Loader(config, Pairs(), transform=transform, resume=resume) as batches:
        for epoch in batches.epochs(epochs):
            for count, batch in enumerate(epoch, start=1):
                rows += list(zip(*(column.tolist() for column in batch), strict=True))
                if count == until:
                    return rows, json.loads(json.dumps(batches.state_dict()))
    return rows, None


@pytest.fixture
def poisoned(monkeypatch):
    """Makes everything that reads or writes the global random state raise."""

    def caught(*_args, **_kwargs):
        raise AssertionError("the global random state was used")

    for module in (random, np.random):
        for name in set(module.__all__) - {"default_rng"}:  # which makes one of its own
            each = getattr(module, name)
            if callable(each) and not inspect.isclass(each):
                monkeypatch.setattr(module, name, caught)
    with pytest.raises(AssertionError):
        random.random()
    with pytest.raises(AssertionError):
        np.random.permutation(3)  # noqa: NPY002


def global_state():
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), (name, keys.tolist(), rest)


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("workers", WORKERS)
def test_nothing_asks_the_global_random_state(poisoned, kind, workers):
    """Neither sampler nor shuffle nor transform, in whole epochs and in resumed ones."""
    whole, _ = run(SAMPLERS[kind], workers=workers)
    begun, state = run(SAMPLERS[kind], workers=workers, until=1)
    assert whole == begun + run(SAMPLERS[kind], workers=workers, resume=state)[0]


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("workers", WORKERS)
def test_the_global_random_state_stays_what_it_is(kind, workers):
    """And what is delivered does not depend on it."""
    got = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        before = global_state()
        got.append(run(SAMPLERS[kind], workers=workers))
        assert before == global_state()
    assert got[0] == got[1]


@pytest.mark.parametrize("workers", WORKERS)
def test_numbers_drawn_globally_by_a_transform_are_not_disturbed(workers):
    """A transform may use the global state for itself; the loader adds no draw to it."""
    random.seed(5)
    alone = [random.random() for _ in range(2 * N)]
    guard, drawn = threading.Lock(), []

    def careless(sample, rng):
        rng.random()
        with guard:
            drawn.append(random.random())
        return sample

    random.seed(5)
    run({}, workers=workers, transform=careless)
    assert alone == drawn


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("workers", WORKERS[1:])
def test_random_choices_are_the_same_at_any_number_of_workers(kind, workers):
    assert run(SAMPLERS[kind], workers=0) == run(SAMPLERS[kind], workers=workers)


@pytest.mark.parametrize("kind", SAMPLERS)
@settings(max_examples=10)
@given(data=st.data())
def test_random_choices_are_the_same_after_a_resume(kind, data):
    """At any number of workers before and after, and in another batch size."""
    whole, _ = run(SAMPLERS[kind], workers=0)
    workers = st.sampled_from(WORKERS)
    state, rows, size = None, [], 3
    for _ in range(data.draw(st.integers(1, 3))):
        size = data.draw(st.integers(1, 4))
        options = {**SAMPLERS[kind], "batch_size": size}
        more, state = run(options, workers=data.draw(workers), until=1, resume=state)
        rows += more
        if len(rows) >= 5:  # the shortest epoch; `until` counts in one epoch
            break
    more, _ = run(SAMPLERS[kind], workers=data.draw(workers), resume=state)
    assert whole == rows + more


@pytest.mark.parametrize("workers", WORKERS)
def test_a_sample_that_comes_twice_is_changed_twice_differently(workers):
    """In one epoch as in two: its position counts, not its index."""
    rows, _ = run(SAMPLERS["weighted"], workers=workers)
    indices = [row[0] for row in rows]
    assert len(set(indices)) < len(indices)
    assert len(rows) == len({row[3:] for row in rows})


@pytest.mark.parametrize("workers", WORKERS)
def test_each_row_has_the_stream_of_its_position(workers):
    """Whatever sampler chose the sample: one list of streams for a seed and an epoch."""
    streams = [
        [row[2:] for row in run(SAMPLERS[kind], workers=workers)[0][:5]] for kind in SAMPLERS
    ]
    assert [streams[0]] * len(SAMPLERS) == streams


def test_streams_of_seeds_epochs_and_positions_are_apart():
    """No two of them have a draw in common."""
    draws = {
        (seed, epoch, row): tuple(map(int, numbers))
        for seed in (0, 1)
        for epoch, rows in enumerate(streams_of(seed))
        for row, numbers in enumerate(rows)
    }
    flat = [number for numbers in draws.values() for number in numbers]
    assert 2 * 2 * N * 8 == len(flat) == len(set(flat))


def streams_of(seed):
    """Gives eight raw draws of each row of two epochs."""

    def raw(sample, rng):
        return rng.bit_generator.random_raw(8)

    with Loader({"seed": seed, "num_workers": 0, "batch_size": N}, Pairs(), transform=raw) as it:
        return [np.concatenate(list(epoch)).tolist() for epoch in it.epochs(2)]


def test_a_pooled_generator_is_as_good_as_a_new_one():
    """Whatever the sample before it left half used, and in several threads at once."""

    def drawn(sample, rng):
        small = rng.integers(2**16, size=sample % 3, dtype=np.uint16).tolist()
        return [*small, rng.standard_normal(), float(rng.random(dtype=np.float32))]

    bound, seen = bind(drawn), {}

    def work(first):
        for position in range(first, 300, 3):
            seen[position] = bound(position, 2**100 + 7, position)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for position in range(300):
        bits = np.random.Philox(key=2**100 + 7, counter=[0, position, 0, 0])
        assert drawn(position, np.random.Generator(bits)) == seen[position]
