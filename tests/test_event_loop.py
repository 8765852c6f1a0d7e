"""Where the loop's thread has what no worker has, user code runs in the workers alone.

That is an event loop, or a setting of a package that belongs to a thread.
"""

import asyncio
import sys
import types

import numpy as np
import pytest
from test_choice import Here

from threadloader import Loader, _runtime

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


def prepared_here(source=ROWS, **given):
    """How many batches of two epochs the loop has prepared itself."""
    with Loader(CONFIG, source, **given) as batches:
        assert 2 * len(ROWS) == len(list(begun(batches))) + len(list(batches))
        return batches.stats().prepared_here


def test_what_a_package_has_set_for_a_thread_is_seen_by_no_transform(monkeypatch):
    """As whether torch keeps gradients, or jax has 64 bits: nobody else can tell what is set."""
    monkeypatch.setattr(_runtime, "HAVE_MODES", {"modes_of_threads"})
    assert prepared_here(transform=abs)
    monkeypatch.setitem(sys.modules, "modes_of_threads", types.ModuleType("modes_of_threads"))
    assert not prepared_here(transform=abs)
    assert prepared_here()


def test_a_package_that_is_imported_in_the_middle_changes_no_batch(monkeypatch):
    monkeypatch.setattr(_runtime, "HAVE_MODES", {"modes_of_threads"})
    with Loader(CONFIG, ROWS, transform=abs) as batches:
        epoch = begun(batches)
        got = [next(epoch).item() for _ in range(20)]
        before = batches.stats().prepared_here
        monkeypatch.setitem(sys.modules, "modes_of_threads", types.ModuleType("modes_of_threads"))
        got += [batch.item() for batch in epoch]
        assert (ROWS, True) == (got, 0 < before == batches.stats().prepared_here)


def test_an_errstate_that_belongs_to_the_thread_is_seen_by_no_transform(monkeypatch):
    """As before numpy 2.0; what a thread begins with may be prepared anywhere."""
    monkeypatch.setattr(_runtime, "OWN_ERRSTATE", True)
    assert prepared_here(transform=abs)
    with np.errstate(over="raise"):
        assert not prepared_here(transform=abs)
    monkeypatch.setattr(_runtime, "OWN_ERRSTATE", False)
    with np.errstate(over="raise"):
        assert prepared_here(transform=abs)


def test_inside_of_trio_user_code_runs_in_the_workers(monkeypatch):
    running = [False]
    trio = types.SimpleNamespace(in_trio_run=lambda: running[0])
    monkeypatch.setitem(sys.modules, "trio.lowlevel", trio)
    assert prepared_here(transform=abs)
    running[0] = True
    assert not prepared_here(transform=abs)
    monkeypatch.setitem(sys.modules, "trio.lowlevel", types.SimpleNamespace())  # half imported
    assert prepared_here(transform=abs)


def test_with_any_package_that_has_such_settings_imported_no_transform_runs_in_the_loop(run_child):
    """Of those that are known to have them; each is imported alone."""
    child = run_child(
        """
import sys, types
sys.path.insert(0, "tests")
from test_event_loop import prepared_here
from threadloader import _runtime
print(prepared_here(transform=abs) > 0)
for name in sorted(_runtime.HAVE_MODES):
    sys.modules[name] = types.ModuleType(name)
    print(name, prepared_here(transform=abs))
    del sys.modules[name]
"""
    )
    known = ("cupy", "jax", "mlx", "paddle", "sklearn", "tensorflow", "torch")
    expected = ["True", *(f"{name} 0" for name in known)]
    assert ("", expected) == (child.stderr, child.stdout.splitlines())
