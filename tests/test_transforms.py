"""Who takes rng is given a generator that depends on the key and the position alone."""

import functools
import random
import sys
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.transforms import bind, takes_rng

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


def wrapper(function):
    """A decorator as one writes it: it passes on what it is given."""

    @functools.wraps(function)
    def passing(*args, **options):
        return function(*args, **options)

    return passing


def drawing(function):
    @functools.wraps(function)
    def drawn(sample, rng=None):
        return function(sample) + rng.random()

    return drawn


def both(function):
    @functools.wraps(function)
    def drawn(sample, rng=None, **options):
        return function(sample, **options) + rng.random()

    return drawn


def hiding(function):
    @functools.wraps(function)
    def hidden(sample):
        return function(sample, rng=np.random.default_rng(0))

    return hidden


class Decorated:
    @wrapper
    def __call__(self, sample, rng):
        return sample + rng.random()

    @wrapper
    def method(self, sample, rng):
        return sample + rng.random()


def plain(sample):
    return sample


def noisy(sample, rng):
    return sample + rng.random()


class Half:
    """A generator of the user's own."""

    def random(self):
        return 0.5


class Halving:
    """CPython 3.14 makes a method of it; 3.13 warns of that, and older ones do not."""

    transform = partial(lambda *given, rng: given[-1] + rng.random(), rng=Half())


with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    halving = Halving().transform


def test_wrappers_in_a_circle_take_nothing():
    def passing(*args, **options):
        return args

    passing.__wrapped__ = passing
    assert not takes_rng(passing)


@pytest.mark.parametrize(
    ("transform", "taken"),
    [
        (wrapper(plain), False),
        (wrapper(noisy), True),
        (wrapper(wrapper(noisy)), True),
        (drawing(plain), True),
        (both(plain), True),
        (wrapper(drawing(plain)), True),
        (drawing(wrapper(plain)), True),
        (hiding(noisy), False),
        (wrapper(hiding(noisy)), False),
        (functools.lru_cache(noisy), True),
        (functools.lru_cache(plain), False),
        (partial(wrapper(noisy)), True),
        (partial(noisy, rng=Half()), False),
        (wrapper(partial(noisy, rng=Half())), False),
        (halving, False),
        (Decorated(), True),
        (Decorated().method, True),
    ],
)
def test_a_decorated_transform_is_given_what_it_takes_itself(transform, taken):
    """`functools.wraps` says of it what the function takes that it wraps."""
    assert taken == takes_rng(transform)
    bound, generator = bind(transform), bind(noisy)
    assert bound(0.0, 7, 3) == (generator(0.0, 7, 3) if taken else bound(0.0, 7, 4))


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated before")
def test_annotations_that_only_a_checker_knows_are_not_evaluated():
    """They are written without quotes, as CPython 3.14 has it, and are evaluated when asked for."""
    code = "def plain(sample: NotThere) -> NotThere:\n    return sample\n"
    code += "def drawing(sample: NotThere, rng: NotThere):\n    return sample + rng.random()\n"
    names = {}
    exec(compile(code, "annotated", "exec", dont_inherit=True), names)
    loader = Loader({"batch_size": 2}, range(4), transform=names["drawing"], collate=names["plain"])
    with loader as batches:
        assert 2 == len(list(batches))
