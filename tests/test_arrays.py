"""The rows of arrays are samples and batches of their own, in any layout; an index never wraps."""

import tracemalloc

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from dtypes import DTYPES, content, filled, same
from hypothesis import given
from hypothesis import strategies as st
from own_sources import Pair

from threadloader.collate import stack
from threadloader.sources import as_source, fingerprint


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 2)])
def test_a_sample_is_the_row_and_a_batch_the_stacked_samples(dtype, shape):
    array = filled(shape, dtype)
    indices = np.array([6, 0, 0, 3])
    for data in (array, {"x": array, "y": np.arange(7)}, (array,), Pair(array, array)):
        source = as_source(data)
        assert 7 == len(source)
        assert same(stack([source[i] for i in indices]), source.take(indices))
    assert same(array[indices], as_source(array).take(indices))
    assert content(array[3, ...]) == content(np.asarray(as_source(array)[3]))


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("dtype", ["U0", "S0"])
def test_texts_of_no_width_come_as_arrays_in_samples_and_batches_alike(dtype, shape):
    """A numpy scalar of them is a plain text, of which a collate makes a list."""
    source = as_source(np.zeros((5, *shape), [("a", dtype)])["a"])
    batch, taken = stack([source[row] for row in range(5)]), source.take(range(5))
    assert (np.ndarray, taken.dtype, taken.shape) == (type(batch), batch.dtype, batch.shape)


@pytest.mark.parametrize("layout", ["Fortran", "strided", "backwards", "unaligned", "read-only"])
def test_any_layout_in_memory_gives_contiguous_writable_batches(layout):
    plain = np.arange(60.0).reshape(10, 6)
    other = {
        "Fortran": np.asfortranarray(plain),
        "strided": np.repeat(plain, 2, axis=1)[:, ::2],
        "backwards": plain[::-1].copy()[::-1],
        "unaligned": np.frombuffer(b"." + plain.tobytes(), np.uint8)[1:].view("f8").reshape(10, 6),
        "read-only": plain.copy(),
    }[layout]
    other.flags.writeable = False
    source = as_source(other)
    batch = source.take(np.array([9, 1]))
    assert same(plain[[9, 1]], batch)
    assert batch.flags.c_contiguous
    assert batch.flags.writeable
    assert source[2].flags.writeable
    assert same(plain[2], source[2])


def test_a_batch_of_an_unusual_layout_does_not_copy_the_whole_array():
    array = np.asfortranarray(np.zeros((100_000, 8)))
    source = as_source(array)
    tracemalloc.start()
    source.take(np.arange(10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < array.nbytes / 50


@given(st.data())
def test_take_equals_indexing_for_any_arrays(data):
    n = data.draw(st.integers(1, 6))
    array = data.draw(
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3).flatmap(
            lambda shape: hnp.arrays(hnp.scalar_dtypes(), (n, *shape))
        )
    )
    indices = data.draw(hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(0, n - 1)))
    assert same(array[indices], as_source(array).take(indices))


SWAPPED = np.dtype("i4").newbyteorder()  # which is not this machine's


@pytest.mark.parametrize(
    "array", [np.zeros((3, 2)), np.zeros(3, [("a", "i4")]), np.zeros(3, SWAPPED), np.zeros(3, "U2")]
)
def test_writing_into_a_sample_never_spoils_the_data(array):
    before = array.tobytes()
    sample = as_source({"x": array})[1]["x"]
    assert not np.shares_memory(sample, array)
    sample["a" if array.dtype.names else ...] = 1
    assert before == array.tobytes()


@pytest.mark.parametrize("index", [-1, 3, 2**63, np.int64(-1), np.int8(3)])
def test_an_index_out_of_range_never_wraps(index):
    source = as_source(np.arange(3))
    with pytest.raises(IndexError, match=rf"expected an index of 0 .. 2, got {index}"):
        source[index]
    with pytest.raises(IndexError):
        source.take(np.array([index]))


@pytest.mark.parametrize("index", [True, np.True_, 1.0, "1", None, slice(2)])
def test_an_index_that_is_no_integer_is_refused(index):
    with pytest.raises(TypeError):
        as_source(np.arange(3))[index]


@pytest.mark.parametrize(
    "indices", [np.array([1.0]), np.array([True]), np.array([[1]]), np.array(1), ["a"], 1]
)
def test_indices_that_are_no_integers_in_a_row_are_refused(indices):
    with pytest.raises(TypeError, match="expected integers in one row as indices"):
        as_source(np.arange(3)).take(indices)


def test_no_indices_give_an_empty_batch():
    assert same(np.zeros((0, 2)), as_source(np.zeros((3, 2))).take([]))


def test_no_samples_are_a_source_of_length_0():
    source = as_source({"x": np.zeros((0, 2))})
    assert 0 == len(source)
    assert same({"x": np.zeros((0, 2))}, source.take(np.zeros(0, np.int64)))
    with pytest.raises(IndexError, match="since there are no samples, got 0"):
        source[0]
    assert fingerprint(source).startswith("dict, 0 samples")


def test_a_memory_map_stays_one(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = as_source({"x": mapped})
    assert np.shares_memory(mapped, source.arrays[0])
    assert type(source[1]["x"]) is np.ndarray
    assert [2, 3] == source[1]["x"].tolist()


def test_a_change_of_the_given_dict_does_not_reach_the_source():
    data = {"x": np.arange(3)}
    source = as_source(data)
    data["y"] = np.arange(1)
    del data["x"]
    assert {"x": 2} == source[2]
