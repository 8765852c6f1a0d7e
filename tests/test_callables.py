"""What is given to be called is looked at before it is: in the line that gives it."""

import functools
import inspect
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest

from threadloader import ConfigError, Loader, per_thread
from threadloader.collate import Pad


def of_collate(called):
    Loader({}, [1, 2], collate=called)


def of_sampler(called):
    Loader({}, [1, 2], sampler=called)


def refused(give, called):
    """Says how it is refused: where, what was expected, what came, what to do."""
    with pytest.raises(ConfigError) as caught:
        give(called)
    (problem,) = caught.value.problems
    return problem[:4]


TOLD = {
    of_collate: ("collate", "a callable of a list of samples", "def collate(samples): ..."),
    of_sampler: ("sampler", "a callable of (epoch, n)", "def sampler(epoch, n): ..."),
    per_thread: (
        "source",
        "a callable without arguments in per_thread",
        "per_thread(lambda: opened(path))",
    ),
}


@pytest.mark.parametrize(
    ("give", "called", "why"),
    [
        (of_collate, lambda samples, device: samples, "missing a required argument: 'device'"),
        (of_collate, lambda: 0, "too many positional arguments"),
        (of_collate, lambda *, samples: samples, "too many positional arguments"),
        (of_sampler, lambda epoch: [0], "too many positional arguments"),
        (of_sampler, lambda epoch, n, seed: [0], "missing a required argument: 'seed'"),
        (per_thread, lambda path: [1], "missing a required argument: 'path'"),
        (per_thread, partial(lambda path, mode: [1], "x"), "missing a required argument: 'mode'"),
    ],
)
def test_what_takes_other_arguments_is_refused_before_it_is_called(give, called, why):
    where, expected, _ = TOLD[give]
    got = f"one that cannot be called so: {why}"
    assert (where, expected, got) == refused(give, called)[:3]


def test_a_class_of_the_package_is_not_taken_for_an_object_of_it():
    _, expected, got, hint = refused(of_collate, Pad)
    told = ("a callable of a list of samples", "the class Pad", "give an object of it: collate=Pad")
    assert told == (expected, got, hint.removesuffix("(...)"))


@pytest.mark.parametrize(
    ("give", "called"),
    [(of_collate, lambda: 0), (of_sampler, lambda: 0), (per_thread, lambda path: [1])],
)
def test_a_refusal_says_how_to_write_it(give, called):
    assert TOLD[give][2] in refused(give, called)[3]


async def awaited(*args):
    raise AssertionError("it is never called")


@pytest.mark.parametrize("give", TOLD)
def test_what_has_to_be_awaited_is_refused_by_its_name(give):
    """Without the warning of one that is never awaited: it is not called at all."""
    where, expected, _ = TOLD[give]
    hint = "nothing awaits it: give a plain function, which may call asyncio.run(...)"
    told = (where, expected, "the async function awaited", hint)
    assert told == refused(give, partial(awaited))


class Given:
    def __call__(self, *args):
        return [0]


def renamed(samples, device):
    raise AssertionError("it is never called")


@functools.wraps(renamed)
def wrapping(samples):
    return samples


def signed(pool, samples):
    """Its signature is that of what it wraps, and adds to."""
    return samples


signed.__signature__ = inspect.signature(wrapping, follow_wrapped=False)


class Signed:
    __call__ = signed


@pytest.mark.parametrize(
    ("give", "called"),
    [
        (of_collate, list),
        (of_collate, np.array),
        (of_collate, np.stack),
        (of_collate, partial(np.concatenate, axis=0)),
        (of_collate, Given()),
        (of_collate, wrapping),
        (of_collate, functools.lru_cache(renamed)),
        (of_collate, partial(partial(signed), "pool")),
        (of_collate, Signed()),
        (of_collate, Mock(spec=wrapping, side_effect=wrapping)),
        (of_sampler, range),
        (of_sampler, Given()),
        (of_sampler, lambda epoch, n, seed=0: [0]),
        (per_thread, list),
        (per_thread, Given()),
        (per_thread, Given),
    ],
)
def test_what_may_be_called_so_or_does_not_say_is_let_through(give, called):
    give(called)


def test_a_sampler_that_gives_no_indices_is_told_what_to_return():
    with (
        Loader({}, [1, 2], sampler=lambda epoch, n: None) as batches,
        pytest.raises(ConfigError) as caught,
    ):
        next(iter(batches))
    (problem,) = caught.value.problems
    assert "NoneType" == problem.got
    assert "give, or return, a list, a range or an array of them, as in [2, 0, 1]" == problem.hint
