"""What is kept, up to a bound, comes again as it was, and nobody can spoil it for the others."""

import logging
import random
import sys
import tracemalloc
import warnings
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from cache_kinds import roomy
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import same, samples

from threadloader.cache import Cached, Memory, open_cache
from threadloader.cache._base import MISSING
from threadloader.cache._samples import freeze, size_of

Point = namedtuple("Point", "x y")


class Scaled(Point):
    """Has an attribute beside its fields."""

    def __new__(cls, *fields):
        self = super().__new__(cls, *fields)
        self.scale = 2.0
        return self


class Score(np.float64):
    """A number with an attribute that may change."""


@pytest.fixture(params=["memory", "folder"])
def cache(request, tmp_path):
    """Either kind, with room for everything."""
    with roomy(request.param, tmp_path) as made:
        yield made


def arrays_in(sample):
    """Lists the arrays of a sample."""
    if isinstance(sample, np.ndarray):
        return [sample]
    inside = sample.values() if isinstance(sample, dict) else sample
    nested = isinstance(sample, (dict, list, tuple))
    return [array for each in inside for array in arrays_in(each)] if nested else []


def never(index):
    raise AssertionError(f"sample {index} was prepared again")


def test_what_is_kept_is_not_prepared_again(cache):
    made = {"x": np.arange(3), "y": 1, "name": "a"}
    first = cache.get(7, lambda index: made)
    assert same(made, first)
    assert same(made, cache.get(7, never))


def test_none_is_a_sample(cache):
    cache.get(0, lambda index: None)
    assert cache.get(0, never) is None


@given(samples)
@settings(max_examples=150)
def test_memory_gives_back_what_it_was_given(sample):
    cache = Memory()
    first = cache.get(0, lambda index: sample)
    assert same(sample, first)
    assert same(sample, cache.get(0, never))


def test_hits_and_misses_are_counted(cache):
    for index in (0, 1, 0, 0):
        cache.get(index, lambda index: index)
    stats = cache.stats()
    assert (2, 2, 2) == (stats.hits, stats.misses, stats.samples)


def test_an_array_that_came_from_a_cache_cannot_be_written(cache):
    """Neither the first time nor later, nor by setting its flag."""
    swapped = np.zeros(3, np.dtype(float).newbyteorder())
    more = [np.ones(2), (np.ones(1),)]
    for _ in range(2):
        sample = cache.get(0, lambda index: {"x": np.zeros(3), "swapped": swapped, "more": more})
        for array in arrays_in(sample):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
    for name in ("x", "swapped"):
        with pytest.raises(ValueError, match="WRITEABLE"):
            sample[name].flags.writeable = True


def test_nor_can_the_memory_behind_it():
    """What is kept has no owner whose flag could be set."""
    cache = Memory()
    cache.get(0, lambda index: np.zeros(3))
    base = cache.get(0, never).base
    with pytest.raises(ValueError, match="WRITEABLE"):
        base.setflags(write=True)


def test_an_array_that_did_not_fit_cannot_be_written_either():
    """So a transform that writes in place fails at the first sample, and not at some."""
    array = Memory(max_samples=0).get(0, lambda index: np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_what_a_receiver_does_to_its_containers_stays_there(cache):
    def make(index):
        return {"x": np.zeros(6), "list": [1, [2]], "pair": ([3], 4)}

    for _ in range(3):
        sample = cache.get(0, make)
        assert same(make(0), sample)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer numpy would rather have none of this
            sample["x"].shape = (2, 3)
        sample["list"][1].append(5)
        sample["pair"][0].clear()
        del sample["x"]


def test_the_source_keeps_its_array_and_may_write_to_it(cache):
    """The array stays writable, and what is kept does not change with it."""
    rows = np.zeros((2, 3))
    cache.get(0, rows.__getitem__)
    rows[0] = 1
    assert rows.flags.writeable
    assert [0, 0, 0] == cache.get(0, never).tolist()


@pytest.mark.parametrize(
    "sample",
    [
        object(),
        {1, 2},
        bytearray(b"a"),
        OrderedDict(x=1),
        {(1, 2): 3},
        np.ma.masked_array([1, 2]),
        np.rec.fromarrays([[1, 2], [3.0, 4.0]], names="a,b"),
        np.array([None, 1], dtype=object),
        np.zeros(2, "i4,f4")[0],
        np.rec.fromarrays([[1, 2], [3.0, 4.0]], names="a,b")[0],
        Scaled(1, 2),
        Score(1.0),
        [np.zeros(2), {"x": range(3)}],
    ],
    ids=lambda sample: type(sample).__name__,
)
def test_a_sample_of_another_type_is_prepared_each_time(cache, sample, caplog):
    """It comes as it is, is counted, and said once."""
    for index in (0, 0, 1):
        assert cache.get(index, lambda index: sample) is sample
    stats = cache.stats()
    assert (0, 3, 3, 0) == (stats.hits, stats.misses, stats.uncacheable, stats.samples)
    assert ["cannot be kept" in record.getMessage() for record in caplog.records] == [True]


def test_a_list_that_holds_itself_is_not_kept(cache):
    endless = []
    endless.append(endless)
    assert cache.get(0, lambda index: endless) is endless
    assert 1 == cache.stats().uncacheable


def test_memory_keeps_named_tuples_and_mapped_arrays(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    cache = Memory()
    for _ in range(2):
        point = cache.get(0, lambda index: Point(np.arange(2), 1))
        assert (Point, [0, 1], 1) == (type(point), point.x.tolist(), point.y)
        plain = cache.get(1, lambda index: mapped)
        assert (np.ndarray, [0, 1, 2]) == (type(plain), plain.tolist())


def test_structured_arrays_are_kept_in_memory():
    table = np.array([(1, 2.0)], "i4,f4")
    cache = Memory()
    cache.get(0, lambda index: table)
    assert same(table, cache.get(0, never))


def test_an_exception_passes_and_nothing_is_kept(cache):
    def fail(index):
        raise KeyError(index)

    with pytest.raises(KeyError):
        cache.get(5, fail)
    assert cache.get(5, lambda index: "now") == "now"
    assert 2 == cache.stats().misses


def test_an_epoch_has_as_many_hits_as_there_is_room():
    """Whatever the orders are: the rule that nothing is evicted cannot be bettered."""
    cache = Memory(max_samples=30)
    rng, order = random.Random(5), list(range(100))
    hits = []
    for _ in range(4):
        rng.shuffle(order)
        before = cache.stats().hits
        for index in order:
            assert index == cache.get(index, lambda index: index)
        hits.append(cache.stats().hits - before)
    assert [0, 30, 30, 30] == hits


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=40),
    st.integers(0, 3000),
    st.integers(0, 6),
)
def test_a_bound_is_never_passed(asked, max_bytes, max_samples):
    """Those kept are the first that fitted, their bytes are exact, and each `get` is counted."""
    cache = Memory(max_bytes, max_samples)
    kept, used = {}, 0
    for index, length in asked:
        sample = cache.get(index, lambda index, length=length: np.zeros(length, np.uint8))
        size = size_of(freeze(np.zeros(length, np.uint8)))
        if index in kept:
            assert kept[index] == len(sample)
        elif used + size <= max_bytes and len(kept) < max_samples:
            kept[index] = length
            used += size
    stats = cache.stats()
    assert (len(kept), used) == (stats.samples, stats.bytes)
    assert len(asked) == stats.hits + stats.misses


def test_a_sample_that_just_fits_is_kept():
    size = size_of(freeze(np.zeros(10)))
    kept = []
    for room in (size - 1, size):
        cache = Memory(max_bytes=room)
        cache.get(0, lambda index: np.zeros(10))
        kept.append(cache.stats().samples)
    assert [0, 1] == kept


def test_bytes_of_arrays_are_exact():
    small, large = (size_of(freeze(np.zeros(length, np.float32))) for length in (10, 1010))
    assert 4000 == large - small


def test_the_estimate_covers_the_memory_that_is_taken():
    """What a thousand samples take, as the allocators tell it, is at most what is counted.

    It is a third of that at least, where a pointer has 32 bits.
    """
    cache = Memory()
    made = [{"x": np.arange(i % 50), "y": 1000 + i, "name": f"sample {i}"} for i in range(1000)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for index in range(1000):
        cache.keep(index + 1000, made[index])
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = cache.stats().bytes
    assert (0.5 if sys.maxsize > 2**32 else 0.33) * counted < after - before <= counted


def test_after_closing_all_are_misses_and_the_numbers_stay(cache):
    cache.get(0, lambda index: "a")
    held = cache.stats()
    cache.close()
    cache.close()
    assert cache.get(0, lambda index: "b") == "b"
    assert cache.find(0) is MISSING
    assert (held.samples, held.bytes) == (cache.stats().samples, cache.stats().bytes)


def test_a_cached_source_is_read_through_the_cache():
    """It says where samples stand, and does not offer whole batches, which would go round it."""

    class Source(list):
        def locate(self, index):
            return f"row {index}"

        def take(self, indices):
            raise AssertionError

        __getitems__ = take

    source = Source([3, 4])
    cached = Cached(Memory(), source, lambda index: source[index] * 10)
    assert [30, 40, 40] == [cached[0], cached[1], cached[1]]
    assert (2, "row 1") == (len(cached), cached.locate(1))
    assert not hasattr(cached, "take")
    assert not hasattr(cached, "__getitems__")
    assert not hasattr(Cached(Memory(), [1], abs), "locate")


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"max_bytes": 900}, 2),
        ({"max_samples": 1}, 1),
        ({"max_bytes": 900, "max_samples": 1, "folder": None}, 1),
        ({"folder": "kept"}, 10),
        ({"folder": "kept", "max_bytes": 400}, 2),
    ],
)
def test_a_config_says_which_cache(spec, kept, tmp_path):
    cache = open_cache(spec, tmp_path, 10, lambda: "key")
    for index in range(10):
        cache.get(index, lambda index: np.zeros(100, np.uint8))
    cache.close()
    assert kept == cache.stats().samples
    assert bool(spec.get("folder")) == (tmp_path / "kept").is_dir()


def test_nothing_is_logged_above_info_when_all_is_well(cache, caplog):
    caplog.set_level(logging.DEBUG, "threadloader")
    cache.get(0, lambda index: 1)
    assert [] == [record for record in caplog.records if record.levelno > logging.INFO]
