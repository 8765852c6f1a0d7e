"""A transform's generator depends on the key and the position, and on nothing else."""

import functools
import inspect
import random
import signal
import sys
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader import CollateError, ConfigError, Loader
from threadloader.order import key
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


def refused(transform):
    """Gives what a loader says about a transform, as expected, got and what to do."""
    with pytest.raises(ConfigError) as caught:
        Loader({}, range(3), transform=transform)
    (problem,) = caught.value.problems
    assert ("transform", EXPECTED) == (problem.pointer, problem.expected)
    return problem.got, problem.hint


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


EXPECTED = "a callable of one sample, or of a sample and rng"


@pytest.mark.parametrize("wrong", [5, "name"])
def test_what_cannot_be_called_is_refused(wrong):
    assert (type(wrong).__name__, "") == refused(wrong)


def test_options_of_a_transform_are_sent_to_the_config():
    """They take the place of nothing there, as those of a collate."""
    assert ("dict", "an object of options stands in the config") == refused({"type": "mlm"})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda rng, sample: sample, "multiple values for argument 'rng'"),
        (lambda sample, key: sample, "missing a required argument: 'key'"),
        (lambda: None, "too many positional arguments"),
        (functools.partial(lambda sample: sample, sample=1), "too many positional arguments"),
    ],
)
def test_what_cannot_be_called_with_a_sample_is_refused_before_the_first_one(wrong, why):
    got, hint = refused(wrong)
    assert got == f"one that cannot be called so: {why}"
    assert hint == "its first parameter is the sample"


def test_who_says_another_signature_than_its_own_is_not_refused_by_it():
    """A decorator that gives the function it wraps one argument more."""

    def transform(sample):
        return sample

    transform.__signature__ = inspect.signature(lambda sample, scale: sample)
    assert 3 == bind(transform)(3, 7, 0)


def test_an_rng_by_position_only_is_refused():
    def transform(sample, rng, /):
        return sample

    got, hint = refused(transform)
    assert "one that takes rng by position only" == got
    assert "make it a keyword, as in def transform(sample, *, rng)" == hint


async def awaited(sample):
    raise AssertionError("it is never called")


async def awaited_often(sample):
    raise AssertionError("it is never called")
    yield


class Awaited:
    async def __call__(self, sample):
        raise AssertionError("it is never called")

    async def method(self, sample, rng):
        raise AssertionError("it is never called")


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (awaited, "awaited"),
        (awaited_often, "awaited_often"),
        (partial(partial(awaited), 1), "awaited"),
        (Awaited(), "Awaited.__call__"),
        (partial(Awaited()), "Awaited.__call__"),
        (Awaited().__call__, "Awaited.__call__"),
        (Awaited().method, "Awaited.method"),
    ],
    ids=["function", "generator", "partial", "object", "partial object", "call", "method"],
)
def test_what_has_to_be_awaited_is_refused_by_its_name(transform, name):
    """Before anything runs, and without the warning of one that is never awaited."""
    hint = "nothing awaits it: give a plain function, which may call asyncio.run(...)"
    assert (f"the async function {name}", hint) == refused(transform)


def test_a_collate_that_has_to_be_awaited_is_refused_by_its_name():
    """Its batches would be coroutines, and nothing would say so."""
    with pytest.raises(ConfigError) as caught:
        Loader({"batch_size": 2}, source=[1, 2], collate=partial(awaited))
    (problem,) = caught.value.problems
    assert problem.pointer == "collate"
    assert problem.got == "the async function awaited"


def test_a_generator_is_a_sample_for_a_collate_that_takes_it():
    """One sample may become many rows."""

    def rows(sample):
        yield from range(sample)

    def collate(samples):
        return [row for sample in samples for row in sample]

    with Loader({"shuffle": False}, [1, 3], transform=rows, collate=collate) as batches:
        assert [0, 0, 1, 2] == next(iter(batches))


# Several at once


class Counting:
    """Adds to each sample its position and the key; knows how many it was given at once."""

    def __init__(self):
        self.sizes = []

    def __call__(self, sample):
        raise AssertionError("many is called instead")

    def many(self, samples, key, positions):
        self.sizes.append(len(samples))
        assert np.dtype(np.int64) == positions.dtype
        adding = (key % 1000 + at for at in positions.tolist())
        return [sample + more for sample, more in zip(samples, adding, strict=True)]


class AtOnce(list):
    """Samples that are read at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Two(Counting):
    """Cannot make anything of a sample 2 or 3."""

    def many(self, samples, key, positions):
        if 2 in samples or 3 in samples:
            raise ValueError(f"{len(samples)} samples, the first is {samples[0]}")
        return super().many(samples, key, positions)


class Rows:
    """Two samples, by their number alone."""

    def __getitem__(self, index):
        return (5, 6)[index]


def test_a_many_may_give_anything_that_has_an_order():
    class Lazy(Counting):
        def many(self, samples, key, positions):
            return Rows()

    assert [5, 6] == bind(Lazy()).many([0, 0], 1, np.arange(2))


@pytest.mark.parametrize("given", [{"x": [1, 2], "y": [3, 4]}, {1, 2}, "ab", b"ab", None, 2])
def test_a_many_that_gives_no_list_is_refused(given):
    """As columns, whose names would be taken for samples."""

    class Columns(Counting):
        def many(self, samples, key, positions):
            return given

    with pytest.raises(CollateError, match=r"many: expected a list of 2 samples, got \w+; return"):
        bind(Columns()).many([0, 0], 1, np.arange(2))


def test_a_many_that_has_to_be_awaited_is_refused_by_its_name():
    class Later(Counting):
        async def many(self, samples, key, positions):
            """Nobody awaits it."""

    with pytest.raises(ConfigError, match=r"the async function .*Later\.many"):
        bind(Later())


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


def test_a_method_many_of_another_meaning_is_not_called():
    class Scaled:
        def __call__(self, sample):
            return 10 * sample

        def many(self, samples):
            raise AssertionError("the transform itself is called")

    assert 70 == bind(Scaled())(7, 0, 0)


def test_a_many_that_does_not_say_what_it_takes_is_not_called():
    """As what is written in C may not."""

    class Largest:
        many = staticmethod(max)

        def __call__(self, sample):
            return 10 * sample

    assert 70 == bind(Largest())(7, 0, 0)


def test_a_bound_many_is_given_one_sample_at_a_time():
    assert 5 + 100 + 7 == bind(Counting())(5, 100, 7)


@pytest.mark.parametrize("workers", [0, 2])
def test_all_samples_of_a_batch_are_given_to_many(workers):
    transform = Counting()
    config = {"batch_size": 4, "shuffle": False, "seed": 9, "num_epochs": 1}
    with Loader({**config, "num_workers": workers}, range(10), transform=transform) as batches:
        got = [batch.tolist() for batch in batches]
    first = key("transform", 9, 0) % 1000
    expected = [2 * at + first for at in range(10)]
    assert expected == [value for batch in got for value in batch]
    assert [2, 4, 4] == sorted(transform.sizes)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("source", [range(4), AtOnce(range(4))])
def test_an_error_of_many_is_that_of_the_lowest_row(source, workers):
    with Loader({"num_workers": workers, "shuffle": False}, source, transform=Two()) as batches:
        with pytest.raises(ValueError, match="1 samples, the first is 2") as caught:
            next(iter(batches))
    assert "sample 2 (row 2 of step 0, epoch 0)" in "".join(caught.value.__notes__)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_for_which_no_sample_is_to_blame_is_raised_for_the_batch(workers):
    class Together(Counting):
        def many(self, samples, key, positions):
            if len(samples) > 1:
                raise OSError("too many")
            return samples

    with Loader({"num_workers": workers}, range(3), transform=Together()) as batches:
        with pytest.raises(OSError, match="too many") as caught:
            next(iter(batches))
    assert "raised for the batch of step 0, epoch 0" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_collate_behind_many_is_called_once(workers):
    """Also where it raises: what is asked again is the transform alone."""
    calls = []

    def collate(samples):
        calls.append(len(samples))
        raise KeyError("no")

    config = {"num_workers": workers, "num_epochs": 1}
    with Loader(config, range(3), transform=Counting(), collate=collate) as batches:
        with pytest.raises(KeyError, match="no") as caught:
            next(iter(batches))
    assert [3] == calls
    assert "raised for the batch of step 0, epoch 0" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [GeneratorExit, KeyboardInterrupt, SystemExit])
def test_what_would_be_taken_for_an_end_is_of_the_lowest_row_too(kind, workers):
    """A higher row that raises it first does not win, and the sample is named."""

    class Backwards(Counting):
        def many(self, samples, key, positions):
            for sample in reversed(samples):
                if sample == 3:
                    raise kind
                if sample == 1:
                    raise ValueError("the lowest")
            return samples

    config = {"batch_size": 4, "shuffle": False, "num_workers": workers}
    with (
        Loader(config, list(range(4)), transform=Backwards()) as batches,
        pytest.raises(ValueError, match="the lowest") as caught,
    ):
        next(iter(batches))
    assert "sample 1 (row 1" in caught.value.__notes__[0]


def test_a_many_that_loses_samples_is_refused():
    class Losing(Counting):
        def many(self, samples, key, positions):
            return samples[:2]

    with Loader({"num_workers": 0}, range(5), transform=Losing()) as batches:
        with pytest.raises(CollateError, match="expected a list of 5 samples, got 2"):
            next(iter(batches))


def test_a_subclass_with_a_call_of_its_own_offers_no_many():
    class Own(Counting):
        def __call__(self, sample):
            return -sample

    assert -5 == bind(Own())(5, 1, 2)
    assert [1, 2] == bind(list)((1, 2), 1, 2)


def test_a_subclass_that_changes_neither_offers_the_many_of_its_base():
    class Same(Counting):
        pass

    transform = Same()
    with Loader({"num_workers": 0, "num_epochs": 1}, range(3), transform=transform) as batches:
        assert 1 == len(list(batches))
    assert [3] == transform.sizes


def test_what_many_makes_is_never_kept():
    """It may depend on the position, as what is made by `rng`."""
    config = {"batch_size": 4, "cache": {"max_samples": 100}, "num_workers": 0, "shuffle": False}
    with Loader(config, range(4), transform=Counting()) as batches:
        epochs = [next(iter(epoch)).tolist() for epoch in batches.epochs(2)]
    assert epochs[0] != epochs[1]


def test_what_a_signal_handler_raises_in_many_passes_and_consumes_no_batch():
    """Without workers it runs in the main thread. No sample is to blame for it."""

    class Rung(Counting):
        def many(self, samples, key, positions):
            if not self.sizes:
                self.sizes.append(0)
                signal.raise_signal(signal.SIGINT)
            return samples

    def ring(number, frame):
        raise TimeoutError("rung")

    before = signal.signal(signal.SIGINT, ring)
    try:
        with Loader({"num_workers": 0, "shuffle": False}, range(3), transform=Rung()) as batches:
            epoch = iter(batches)
            with pytest.raises(TimeoutError, match="rung") as caught:
                next(epoch)
            assert not hasattr(caught.value, "__notes__")
            assert [0, 1, 2] == next(epoch).tolist()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_row_at_which_a_signal_came_is_not_blamed_for_what_fails_later():
    """The batch is asked for again, and now its samples cannot be read."""

    class Fails(AtOnce):
        reads = 0

        def __getitems__(self, indices):
            self.reads += 1
            if self.reads == 2:
                raise OSError("gone")
            return super().__getitems__(indices)

    class Rung(Counting):
        def many(self, samples, key, positions):
            if len(samples) > 1:
                raise ValueError("one by one")
            if samples == [1]:
                signal.raise_signal(signal.SIGINT)
            return samples

    def ring(number, frame):
        raise TimeoutError("rung")

    before = signal.signal(signal.SIGINT, ring)
    config = {"num_workers": 0, "shuffle": False}
    try:
        with Loader(config, Fails(range(3)), transform=Rung()) as batches:
            epoch = iter(batches)
            with pytest.raises(TimeoutError, match="rung"):
                next(epoch)
            with pytest.raises(OSError, match="gone") as caught:
                next(epoch)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "raised for the batch of step 0, epoch 0" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("source", [range(5), AtOnce(range(5))])
def test_a_sample_that_many_refuses_is_left_out_where_that_is_asked_for(source, workers):
    """The others are what they are without the budget."""
    config = {"num_workers": workers, "shuffle": False, "seed": 9, "on_error": {"skip": 2}}
    with Loader(config, source, transform=Two()) as batches:
        got = next(iter(batches)).tolist()
        assert (2, 3) == batches.info.skipped
    first = key("transform", 9, 0) % 1000
    assert [first, 2 + first, 8 + first] == got
