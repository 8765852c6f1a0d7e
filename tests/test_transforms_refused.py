"""What cannot be called for samples is refused, and why is told, before the first one is read."""

import functools
import inspect
from functools import partial

import pytest

from threadloader import ConfigError, Loader
from threadloader.transforms import bind


def refused(transform):
    """Gives what a loader says about a transform, as expected, got and what to do."""
    with pytest.raises(ConfigError) as caught:
        Loader({}, range(3), transform=transform)
    (problem,) = caught.value.problems
    assert ("transform", EXPECTED) == (problem.pointer, problem.expected)
    return problem.got, problem.hint


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


def crops(sample, rng):
    yield sample + rng.random()


class Crops:
    def __call__(self, sample, rng):
        yield sample + rng.random()


@pytest.mark.parametrize(
    "transform",
    [crops, partial(crops), Crops(), partial(partial(Crops())), Crops().__call__],
    ids=["function", "partial", "object", "partial object", "method"],
)
def test_a_generator_function_that_takes_rng_is_refused(transform):
    """Its body would run in the collate, where the thread's generator is at another sample."""
    hint = "its body would run when rng is another sample's: return a list of what it yields"
    assert ("a generator function that takes rng", hint) == refused(transform)
