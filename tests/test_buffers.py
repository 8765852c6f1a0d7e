"""Arrays of a pool are as numpy's, and come from memory that is used again, up to a bound."""

from collections import deque

import numpy as np
import pytest
from pools import SHAPE, SIZE, filled, idle_bytes, sizes_made, small_pool

from threadloader import buffers
from threadloader.buffers import LEAST_BYTES, Pool


def address(array):
    return array.__array_interface__["data"][0]


@pytest.fixture
def made(monkeypatch):
    """The sizes of the blocks that pools have made, in this list."""
    return sizes_made(monkeypatch)


# What an array looks like.


@pytest.mark.parametrize(
    "dtype",
    ["f4", ">i2", "?", "c16", "U3", "S5", "M8[us]", "V7", [("a", "i1"), ("b", ">f8", (2,))]],
)
@pytest.mark.parametrize("shape", [(7,), (3, 5, 2), (64, 1)])
def test_an_array_is_what_numpy_would_give(shape, dtype):
    """Type, shape, dtype, strides and flags are those of `numpy.empty`, but for who owns it."""
    array, plain = small_pool().empty(shape, dtype), np.empty(shape, dtype)
    assert np.ndarray is type(array)
    assert (plain.shape, plain.dtype, plain.strides) == (array.shape, array.dtype, array.strides)
    flags = ("C_CONTIGUOUS", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
    assert [plain.flags[flag] for flag in flags] == [array.flags[flag] for flag in flags]


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000, 4097])
def test_memory_is_aligned(size):
    """Every array begins at a multiple of 64 bytes, new or used again."""
    pool = small_pool()
    held = []
    for _ in range(3):
        held += [pool.empty(size, np.uint8) for _ in range(3)]
        assert {0} == {address(array) % 64 for array in held}
        del held[::2]


def test_an_array_can_be_locked_and_unlocked():
    """What is done to protect a batch for a while works as with numpy's own memory."""
    array = small_pool().empty(SHAPE, np.float32)
    for lock in (array, array[2:]):
        lock.flags.writeable = False
        lock.flags.writeable = True
    array[2:] = 1.0


@pytest.mark.parametrize("shape", [0, (0,), (3, 0, 2), ()])
def test_arrays_without_items_or_axes_are_arrays(shape):
    """Nothing and a single value are shapes like others."""
    pool = small_pool()
    assert np.empty(shape).shape == pool.empty(shape, np.float32).shape
    assert np.empty(shape).shape == pool.empty(shape, "V0").shape


@pytest.mark.parametrize("shape", [5, np.int64(5), [5], (np.int32(5),)])
def test_a_shape_may_be_written_as_for_numpy(shape):
    """An integer, a list, and integers of numpy are taken."""
    assert (5,) == small_pool().empty(shape, np.int64).shape


@pytest.mark.parametrize("shape", [-1, (-2, -3), (2**40, 2**40)])
def test_an_impossible_shape_is_refused_as_by_numpy(shape):
    """Negative and too large lengths are a ValueError, and the pool works on."""
    pool = small_pool()
    with pytest.raises(ValueError, match=r"negative|too big|too large|exceeded"):
        pool.empty(shape, np.float64)
    assert SHAPE == pool.empty(SHAPE, np.float32).shape


def test_objects_are_left_to_numpy():
    """An array that points to objects is numpy's own: memory lent twice would mix them up."""
    for dtype in (object, [("a", object), ("b", "i4")]):
        assert small_pool().empty((4,), dtype).flags.owndata


def test_small_arrays_are_left_to_numpy():
    """Below `LEAST_BYTES` malloc does as well."""
    pool = Pool(1 << 30)
    assert pool.empty(LEAST_BYTES - 1, np.uint8).flags.owndata
    assert not pool.empty(LEAST_BYTES, np.uint8).flags.owndata


# Memory comes back.


def test_the_same_memory_comes_back(made):
    """A loop that drops each array before the next needs one block; holding two, three."""
    pool = small_pool()
    seen = {address(filled(pool, 1.0)) for _ in range(1000)}
    assert (1, [SIZE]) == (len(seen), made)
    held = deque(maxlen=2)
    for _ in range(1000):
        held.append(filled(pool, 1.0))
    assert 3 == len(made)


def test_sizes_that_hardly_differ_share_memory(made):
    """Batches of ragged rows, hardly ever of the same size, come from few blocks."""
    pool = small_pool()
    for rows in range(833, 897):
        pool.empty((rows, 32), np.float32)
    assert 1 == len(made)


@pytest.mark.parametrize(("size", "expected"), [(3 * SIZE, 0), (2 * SIZE, 0), (SIZE, 1)])
def test_memory_that_is_somewhat_larger_does_as_well(made, size, expected):
    """A block serves what needs two thirds of it, and goes back to be used as a whole."""
    pool = small_pool()
    pool.empty(3 * SIZE, np.uint8)
    made.clear()
    array = pool.empty(size, np.uint8)
    assert (expected, (size,)) == (len(made), array.shape)
    del array
    pool.empty(3 * SIZE, np.uint8)
    assert expected == len(made)


def test_batches_of_varying_size_come_from_few_blocks(made):
    """Of 5,000 batches, some of them three times as large as others and six held, few are new."""
    pool, held = small_pool(), deque(maxlen=6)
    for size in np.random.default_rng(0).integers(20 * SIZE, 60 * SIZE, 5000).tolist():
        held.append(pool.empty(size, np.uint8))
    assert len(made) < 100


# What is kept, and for how long.


def test_a_pool_never_keeps_more_than_its_bound(made):
    """A hundred arrays end at once: only as many as fit wait to be used again."""
    pool = small_pool(max_bytes=10 * SIZE)
    held = [filled(pool, 1.0) for _ in range(100)]
    assert 0 == idle_bytes(pool)
    held.clear()
    assert 10 * SIZE == idle_bytes(pool)


def test_an_array_larger_than_the_bound_is_numpys():
    """It could never be kept."""
    assert small_pool(max_bytes=SIZE).empty(SIZE + 1, np.uint8).flags.owndata


def test_blocks_that_nobody_needs_are_freed(made):
    """Twenty end at once and one is used after that: soon one is left."""
    pool = small_pool()
    held = [filled(pool, 1.0) for _ in range(20)]
    held.clear()
    for _ in range(3 * buffers._REVIEW):
        filled(pool, 1.0)
    assert SIZE == idle_bytes(pool)
    assert 20 == len(made)


def test_blocks_that_are_needed_now_and_then_are_kept(made):
    """As where two workers are at the last batches of an epoch, and one at all others."""
    pool = small_pool()
    for _ in range(20):
        for _ in range(100):
            filled(pool, 1.0)
        both = filled(pool, 1.0), filled(pool, 1.0)
        del both
    assert 2 == len(made)


def test_a_size_that_is_asked_for_no_longer_is_dropped():
    """Another batch size, and the blocks of the one before are freed."""
    pool = small_pool()
    del (held := [filled(pool, 1.0) for _ in range(4)])[:]
    for _ in range(2 * buffers._REVIEW):
        pool.empty(2 * SIZE, np.uint8)
    assert (2 * SIZE, []) == (idle_bytes(pool), held)


def test_arrays_of_a_size_that_went_do_not_fill_the_pool(made):
    """The bound is taken up by a few that are held; those of the next size come back soon."""
    pool = small_pool(max_bytes=4 * SIZE)
    for_ever = [filled(pool, 5.0) for _ in range(4)]
    for _ in range(2 * buffers._REVIEW):
        pool.empty(2 * SIZE, np.uint8)
    made.clear()
    for _ in range(10):
        pool.empty(2 * SIZE, np.uint8)
    assert ([], 4) == (made, len(for_ever))


def test_arrays_that_are_kept_for_ever_do_not_fill_the_pool(made):
    """The bound is taken up by arrays that never end; later ones are recycled all the same."""
    pool = small_pool(max_bytes=4 * SIZE)
    for_ever = [filled(pool, 5.0) for _ in range(4)]
    for _ in range(buffers._PATIENCE):
        filled(pool, 1.0)
    made.clear()
    for _ in range(100):
        filled(pool, 1.0)
    assert 1 == len(made)
    assert 4 * 256 * 5.0 == sum(float(array.sum()) for array in for_ever)
