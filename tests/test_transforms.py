"""A transform's generator depends on the key and the position, and on nothing else."""

import random
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader.transforms import bind

keys = st.integers(0, 2**128 - 1)
positions = st.integers(0, 2**62)
noise = bind(lambda sample, rng: rng.random(3).tolist())


@given(key=keys, position=positions)
def test_the_stream_is_philox_under_the_key_from_the_position_on(key, position):
    """What a pooled generator gives is what one built anew for the sample gives."""
    fresh = np.random.Generator(np.random.Philox(key=key, counter=position << 64))
    assert fresh.random(3).tolist() == noise(None, key, position)


@given(key=keys, position=positions)
def test_what_the_sample_before_drew_does_not_matter(key, position):
    """Not even half a 64-bit draw, which numpy keeps for the next 32-bit one."""

    def draw(sample, rng):
        return rng.random(dtype=np.float32), rng.integers(10, dtype=np.int32)

    bound = bind(draw)
    first = bound(None, key, position)
    bound(None, key, position + 1)
    assert first == bound(None, key, position)


def test_threads_do_not_share_a_generator():
    """Two threads draw at the same time, in lock step, what each draws alone."""
    step, results = threading.Barrier(2), {}

    def draw(sample, rng):
        values = []
        for _ in range(20):
            step.wait(30)
            values.append(rng.random())
        return values

    bound = bind(draw)

    def run(position):
        results[position] = bound(None, 7, position)

    threads = [threading.Thread(target=run, args=(position,)) for position in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for position in (0, 1):
        fresh = np.random.Generator(np.random.Philox(key=7, counter=position << 64))
        assert fresh.random(20).tolist() == results[position]


def test_global_random_state_is_neither_read_nor_written():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 (the state that must not be touched)
    before = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    first = noise(None, 5, 5)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    random.seed(2)
    np.random.seed(2)  # noqa: NPY002
    assert first == noise(None, 5, 5)


def method_of_rng(sample, *, rng):
    return float(rng.random())


class Callable:
    def __call__(self, sample, rng=None):
        return float(rng.random())

    def method(self, sample, rng):
        return float(rng.random())


@pytest.mark.parametrize(
    "transform",
    [
        method_of_rng,
        Callable(),
        Callable().method,
        partial(method_of_rng),
        lambda s, rng: float(rng.random()),
    ],
)
def test_a_parameter_named_rng_is_seen_in_any_callable(transform):
    expected = float(np.random.Generator(np.random.Philox(key=1, counter=2 << 64)).random())
    assert expected == bind(transform)(None, 1, 2)


def test_others_are_called_with_the_sample_alone():
    """Also one with **options, and a builtin that does not say what it takes."""
    assert 3 == bind(lambda sample, **options: sample + len(options))(3, 1, 2)
    assert "3" == bind(str)(3, 1, 2)
    assert bind(None) is None


@pytest.mark.parametrize("wrong", [5, "name"])
def test_what_cannot_be_called_is_refused(wrong):
    with pytest.raises(TypeError, match="transform: expected a callable"):
        bind(wrong)


def test_an_rng_by_position_only_is_refused():
    def transform(sample, rng, /):
        return sample

    with pytest.raises(TypeError, match="make it a keyword"):
        bind(transform)
