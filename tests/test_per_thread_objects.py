"""A source for each thread is what its objects are, made at a first read and closed together."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from dtypes import same
from leaks import Watch
from own_sources import Squares

from threadloader import Loader
from threadloader.errors import ClosedError, ConfigError
from threadloader.sources import as_source, fingerprint, per_thread


class Handle(Squares):
    """A source that only the thread that made it may read."""

    made = None  # replaced for each test

    def __init__(self):
        self.thread = threading.get_ident()
        self.closed = 0
        self.made.append(self)

    def __getitem__(self, index):
        assert self.thread == threading.get_ident()
        assert not self.closed
        return super().__getitem__(index)

    def close(self):
        self.closed += 1


@pytest.fixture
def made(monkeypatch):
    handles = []
    monkeypatch.setattr(Handle, "made", handles)
    return handles


def run(work):
    """Run in a thread of its own; give what it returns or raise what it raises."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_each_thread_reads_from_an_object_of_its_own(made):
    source = per_thread(Handle)
    assert [] == made
    assert 4 == len(source)
    barrier = threading.Barrier(4)

    def read():
        barrier.wait()
        return [source[i] for i in range(4)], len(source)

    with ThreadPoolExecutor(4) as pool:
        results = [future.result() for future in [pool.submit(read) for _ in range(4)]]
    assert [([0, 1, 4, 9], 4)] * 4 == results
    assert 5 == len(made)
    source.close()
    assert [1] * 5 == [handle.closed for handle in made]


def test_the_length_is_that_of_the_opening_thread_and_costs_others_no_object(made):
    source = per_thread(Handle)
    len(source)
    assert 4 == run(lambda: len(source))
    assert 1 == len(made)
    source.close()


def test_closing_twice_or_unused_does_nothing(made):
    source = per_thread(Handle)
    source.close()
    assert 0 == source[0]
    source.close()
    source.close()
    assert [1] == [handle.closed for handle in made]


def test_it_can_be_used_again_after_close(made):
    source = per_thread(Handle)
    for _ in range(2):
        assert 4 == len(source)
        assert 9 == run(lambda: source[3])
        source.close()
    assert [1] * 4 == [handle.closed for handle in made]


@pytest.mark.parametrize("workers", [0, 2])
def test_two_loaders_over_one_per_thread_each_close_what_was_made_for_them(workers):
    open_now = []

    class Data:
        def __len__(self):
            return 30

        def __getitem__(self, index):
            assert self in open_now
            return index

        def close(self):
            open_now.remove(self)

    def opened():
        data = Data()
        open_now.append(data)
        return data

    source = per_thread(opened)
    config = {"batch_size": 5, "num_workers": workers, "on_error": {"skip": 99}}
    with Loader(config, source) as train:
        for epoch in train.epochs(3):
            assert 30 == sum(map(len, epoch))
            before = list(open_now)
            with Loader(config, source) as test:
                assert 30 == sum(map(len, test))
            assert set(before) <= set(open_now)
        assert 0 == train.stats().skipped
    assert [] == open_now


def test_asking_where_a_sample_stands_opens_nothing(made, monkeypatch):
    """Nor does how large one is: not before a read, not in another thread, not after close."""
    monkeypatch.setattr(Handle, "locate", lambda self, index: "here", raising=False)
    monkeypatch.setattr(Handle, "sample_bytes", 8, raising=False)
    source = per_thread(Handle)

    def offered():
        return [name for name in ("locate", "sample_bytes") if hasattr(source, name)]

    assert [] == offered()
    source[0]
    locate = source.locate
    assert ("here", 8) == (locate(0), source.sample_bytes)
    assert [] == run(offered)
    with pytest.raises(AttributeError, match="got one without an object"):
        run(lambda: locate(0))
    assert ["locate", "sample_bytes"] == offered()
    source.close()
    assert [] == offered()
    with pytest.raises(AttributeError):
        locate(0)
    assert [1] == [handle.closed for handle in made]


def test_objects_without_close_are_left_alone():
    source = per_thread(lambda: [1, 2])
    assert 2 == source[1]
    source.close()


def test_every_object_is_closed_even_if_one_close_raises(made):
    source = per_thread(Handle)
    source[0]
    run(lambda: source[0])
    run(lambda: source[0])

    def fail():
        raise OSError("disk gone")

    made[0].close = made[1].close = fail
    with pytest.raises(OSError, match="disk gone"):
        source.close()
    assert 1 == made[2].closed


def test_closes_that_raise_come_as_one_and_leave_no_garbage(made):
    """The last is raised with the one before as its context, and in no cycle."""

    class Stubborn(Handle):
        def close(self):
            raise OSError(made.index(self))

    with Watch() as watch:
        source = per_thread(Stubborn)
        for _ in range(3):
            run(lambda: source[0])
        seen = []
        try:
            source.close()
        except OSError as error:
            step = error
            while step is not None:
                seen.append(step.args[0])
                step = step.__context__
        source = None
        made.clear()
        watch.look()
    assert [2, 1, 0] == seen


def test_an_object_made_while_closing_is_closed_at_once(made):
    """The thread is in the factory; close() returns; the factory returns."""
    entered, go_on = threading.Event(), threading.Event()

    def slow():
        entered.set()
        go_on.wait(60)
        return Handle()

    source = per_thread(slow)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: source[0])
        entered.wait(60)
        source.close()
        go_on.set()
        with pytest.raises(ClosedError, match="while a thread still opened"):
            reading.result()
    assert [1] == [handle.closed for handle in made]


def test_a_thread_left_over_from_before_close_does_not_open_again(made):
    """A worker reads; the opener closes; the worker comes back for more."""
    source = per_thread(Handle)
    len(source)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: source[0]).result()
        source.close()
        with pytest.raises(ClosedError, match="closed while a thread still read"):
            pool.submit(lambda: source[0]).result()
        assert 2 == len(made)
        len(source)  # opened again by the thread that opened it: now the other may read
        assert 0 == pool.submit(lambda: source[0]).result()
    source.close()
    assert [1] * 4 == [handle.closed for handle in made]


def test_what_the_factory_raises_passes():
    def factory():
        raise LookupError("no such table")

    with pytest.raises(LookupError, match="no such table"):
        len(per_thread(factory))


def test_a_factory_that_cannot_be_called_is_refused():
    with pytest.raises(ConfigError, match=r"expected a callable .* got list; give the function"):
        per_thread([1, 2])


def test_what_the_factory_makes_must_be_a_source():
    with pytest.raises(ConfigError, match="a stream cannot be indexed"):
        len(per_thread(lambda: iter([1])))


@pytest.mark.parametrize("name", ["take", "__getitems__", "fingerprint", "locate"])
def test_a_method_is_offered_exactly_when_the_objects_offer_it(name):
    offering = type("Offering", (Squares,), {name: lambda self, *args: (id(self), args)})
    source = per_thread(offering)
    without = per_thread(Squares)
    assert 0 == without[0] == source[0]
    assert not hasattr(without, name)
    assert not hasattr(source, "another")
    without.close()
    method = getattr(source, name)  # in this thread, but called in others
    here, there = method(3), run(lambda: (source[0], method(3))[1])
    assert (3,) == here[1] == there[1]
    assert here[0] != there[0]
    source.close()


def test_small_batches_are_taken_together_as_from_one_object_for_all():
    """Since the size of a sample is told; the batches stay the same."""
    asked = []

    class Rows:
        sample_bytes = 8

        def __len__(self):
            return 1000

        def __getitem__(self, index):
            return np.int64(index)

        def take(self, indices):
            asked.append(len(indices))
            return indices.copy()

    config = {"batch_size": 4, "shuffle": False, "num_workers": 2}
    with Loader(config, per_thread(Rows)) as batches:
        assert list(range(1000)) == np.concatenate(list(batches)).tolist()
    assert max(asked) > 4


def test_arrays_from_the_factory_are_array_sources():
    source = per_thread(lambda: {"x": np.arange(4)})
    assert same({"x": np.array([3, 1])}, source.take(np.array([3, 1])))
    assert fingerprint(as_source({"x": np.arange(4)})) == fingerprint(source)
    source.close()


def test_its_fingerprint_is_that_of_its_objects():
    source = per_thread(Squares)
    assert fingerprint(Squares()) == fingerprint(source)
    source.close()


def test_a_closed_memory_map_is_let_go(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6))
    maps = []

    def factory():
        array = np.load(tmp_path / "x.npy", mmap_mode="r")
        maps.append(weakref.ref(array))
        return array

    source = per_thread(factory)
    assert 5 == source[5]
    run(lambda: source[0])
    source.close()
    gc.collect()
    assert [None, None] == [ref() for ref in maps]
