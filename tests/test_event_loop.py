"""Where the training loop runs inside of an event loop, user code runs in the workers alone."""

import asyncio

import numpy as np
import pytest
from test_choice import Here

from threadloader import Loader

ROWS = list(range(64))
CONFIG = {"batch_size": 1, "shuffle": False, "prefetch_batches": 2}


class Awaited(list):
    """Its samples are read by a loop of their own, which works in no thread that runs another."""

    def __getitem__(self, index):
        async def read():
            return list.__getitem__(self, index)

        return asyncio.run(read())


def begun(batches):
    """Begins an epoch whose batches are prepared by the loop itself from the first chance on."""
    batches._supply.choice = Here()
    return iter(batches)


class AwaitedToo(Awaited):
    """Its `take` is another than a source's, and is not used: something stands around it."""

    def take(self, n):
        return self[:n]


@pytest.mark.parametrize("kind", [Awaited, AwaitedToo])
def test_a_read_may_run_a_loop_of_its_own(kind):
    async def train():
        with Loader(CONFIG, kind(ROWS)) as batches:
            got = [batch.item() for batch in begun(batches)]
            return got, batches.stats().prepared_here

    assert (ROWS, 0) == asyncio.run(train())


@pytest.mark.parametrize("first", range(20, 29))
def test_a_loop_that_comes_and_goes_has_the_same_batches(first):
    """What the loop has begun to prepare itself is gone on with in the workers, and back."""
    with Loader(CONFIG, Awaited(ROWS)) as batches:
        epoch = begun(batches)

        def take(count):
            return [next(epoch).item() for _ in range(count)]

        async def some():
            got = take(2)
            stream = batches._run.place.stream
            got += take(11)
            # It is not begun anew, as it would be for another choice.
            assert stream is batches._run.place.stream
            return got

        got = take(first)
        before = batches.stats().prepared_here
        got += asyncio.run(some())
        inside = batches.stats().prepared_here
        got += take(51 - first)
        assert ROWS == got
        assert [] == list(epoch)
        # Of a series as well as of what begins one, and again behind the loop.
        assert 0 < before == inside < batches.stats().prepared_here


def test_a_length_is_asked_for_in_the_workers():
    """That of a sampler comes with the first result of the next epoch, which is made then."""
    with Loader(CONFIG, Awaited(ROWS), sampler=lambda epoch, n: range(n)) as batches:
        assert ROWS == [batch.item() for batch in begun(batches)]
        assert batches.stats().prepared_here

        async def length():
            return len(batches)

        assert len(ROWS) == asyncio.run(length())
        assert ROWS == [batch.item() for batch in batches]


def test_what_runs_no_code_of_the_users_is_prepared_by_the_loop_all_the_same():
    async def train(source, config=CONFIG, **given):
        with Loader(config, source, **given) as batches:
            assert len(ROWS) == len(list(begun(batches)))
            return batches.stats().prepared_here > 0

    assert asyncio.run(train(np.array(ROWS)))
    assert asyncio.run(train(ROWS))
    assert not asyncio.run(train(ROWS, transform=abs))
    assert not asyncio.run(train(ROWS, collate=list))
    assert not asyncio.run(train(Awaited(ROWS)))
    cached = {**CONFIG, "cache": {"max_samples": 9}}
    assert not asyncio.run(train(ROWS, cached, transform=abs))
