"""Collates: samples become a batch exactly, or an error names the field and the lowest row."""

import collections
import functools
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from configs import read_config
from frameworks import framework
from hypothesis import given
from hypothesis import strategies as st

from threadloader.collate import Pad, make_collate, stack
from threadloader.errors import CollateError, ConfigError

Pair = collections.namedtuple("Pair", "image label")

DTYPES = [
    *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u8", "f2", "f4", "f8", ">f8"),
    *(() if np.longdouble(0).nbytes == 8 else ("g", "G")),  # on Windows they are "d" and "D"
    *("F", "D", "S1", "S5", "U1", "U5", ">U5", "V3", "M8[D]", "M8[ns]", ">M8[D]", "m8[s]"),
    np.dtype([("a", "i4"), ("b", "U2")]),
    np.dtype([("a", ">i4"), ("b", "U2")]),
    np.dtype([("c", "i4"), ("b", "U2")]),
    np.dtype([("a", "i4", (2,))]),
]


def refused(collate, samples):
    with pytest.raises(CollateError) as caught:
        collate(samples)
    return caught.value


def content(array):
    """Give what counts in an array: for long doubles not the bytes, of which some are unused."""
    if array.dtype.char in "gG":
        return str(array.ravel().tolist())
    return array.tobytes()


# Stack: what goes in comes out, row by row

leaves = st.one_of(
    st.sampled_from([np.zeros((2, 0)), np.array(5), np.array(b"ab"), np.zeros((), ">f4")]),
    hnp.arrays(
        st.sampled_from(["?", "i1", "u8", "f2", ">i4", "f8", "U3", "S2", "M8[s]"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
    st.sampled_from([np.float32(1.5), np.int64(3), np.datetime64("2020-01-01"), np.bool_(True)]),
    st.sampled_from([True, 7, -(2**63), 2.5, float("nan"), "text", b"bytes", np.str_("numpy's")]),
)
structures = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.builds(Pair, inner, inner),
        st.dictionaries(st.sampled_from(["x", "y", 3, ("a", "b")]), inner, max_size=3),
    ),
    max_leaves=6,
)


def another(value, number):
    """Give a value of the same structure with other contents."""
    if isinstance(value, dict):
        names = list(value) if number % 2 else list(reversed(value))
        return {name: another(value[name], number) for name in names}
    if isinstance(value, Pair):
        return Pair(*(another(part, number) for part in value))
    if isinstance(value, list | tuple):
        return type(value)(another(part, number) for part in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.ndim:
        return np.asfortranarray((value + number).astype(value.dtype))
    if isinstance(value, str | bytes):
        return value * number
    return number if type(value) is int else value


def row(batch, number):
    """Take one row out of a batch, by the definition of what stacking is."""
    if isinstance(batch, dict):
        return {name: row(part, number) for name, part in batch.items()}
    if isinstance(batch, Pair):
        return Pair(*(row(part, number) for part in batch))
    if isinstance(batch, list | tuple) and not (batch and isinstance(batch[0], str | bytes)):
        return type(batch)(row(part, number) for part in batch)
    return batch[number]


def alike(sample, taken):
    if isinstance(sample, dict):
        return sample.keys() == taken.keys() and all(alike(sample[k], taken[k]) for k in sample)
    if isinstance(sample, list | tuple):
        return (
            type(sample) is type(taken)
            and len(sample) == len(taken)
            and all(map(alike, sample, taken))
        )
    if isinstance(sample, str | bytes):
        return sample is taken
    sample = np.asarray(sample, np.int64 if type(sample) is int else None)
    taken = np.asarray(taken, sample.dtype if sample.dtype.kind in "US" else None)
    return sample.shape == taken.shape and content(sample) == content(
        taken.astype(sample.dtype, casting="equiv")
    )


def arrays_of(batch):
    if isinstance(batch, np.ndarray):
        return [batch]
    parts = batch.values() if isinstance(batch, dict) else batch
    return [] if isinstance(batch, str | bytes) else [a for p in parts for a in arrays_of(p)]


@given(structures, st.integers(1, 4))
def test_each_row_of_a_stacked_batch_is_its_sample(sample, n):
    samples = [sample, *(another(sample, number) for number in range(1, n))]
    batch = stack(samples)
    assert all(alike(each, row(batch, i)) for i, each in enumerate(samples))
    for array in arrays_of(batch):
        assert array.flags.owndata
        assert array.flags.writeable
        assert array.flags.c_contiguous
        assert n == len(array)


def some(dtype, shape):
    """Give an array of ones, of whatever these are in a dtype."""
    return np.zeros(shape, dtype) if dtype == "V3" else np.ones(shape, np.int64).astype(dtype)


@pytest.mark.parametrize("shape", [(), (2,), (2, 0), (1, 2)])
def test_equal_dtypes_stack_exactly_and_different_ones_are_refused(shape):
    for d1, d2 in itertools.product(map(np.dtype, DTYPES), repeat=2):
        first, second = some(d1, shape), some(d2, shape)
        if d1 == d2:
            batch = stack([first, second])
            assert (d1, (2, *shape)) == (batch.dtype, batch.shape)
            assert [content(first), content(second)] == [content(batch[:1]), content(batch[1:])]
        else:
            error = refused(stack, [first, second])
            assert (0, 1) == error.rows
            assert f"dtype {d1}" in error.message
            assert f"dtype {d2}" in error.message


@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
@pytest.mark.parametrize("dtype", ["U0", "S0", "V0"])
def test_strings_of_no_width_keep_their_dtype(dtype, shape):
    """numpy makes them one character wide, unless they are a field; a source gives them so."""
    values = np.zeros((5, *shape), [("a", dtype)])["a"]
    batch, taken = stack([values[row : row + 1].reshape(shape) for row in range(5)]), values[:]
    assert (taken.dtype, taken.shape) == (batch.dtype, batch.shape)
    assert 0 == batch.dtype.itemsize
    assert taken.tolist() == batch.tolist()
    assert batch.flags.writeable
    assert batch.flags.c_contiguous
    error = refused(stack, [np.zeros((), [("a", dtype)])["a"], np.zeros((), "U1")])
    assert (0, 1) == error.rows


def test_the_table_of_types():
    batch = stack(
        [
            {"flag": True, "n": 1, "x": 0.5, "s": "a", "b": b"a", "pair": Pair(1, (2, [3]))},
            {"b": b"b", "pair": Pair(4, (5, [6])), "flag": False, "n": 2, "x": 1.5, "s": "b"},
        ]
    )
    assert ["flag", "n", "x", "s", "b", "pair"] == list(batch)
    assert [np.bool_, np.int64, np.float64] == [batch[name].dtype for name in ("flag", "n", "x")]
    assert (["a", "b"], [b"a", b"b"]) == (batch["s"], batch["b"])
    assert isinstance(batch["pair"], Pair)
    assert [1, 4] == batch["pair"].image.tolist()
    assert (tuple, list) == (type(batch["pair"].label), type(batch["pair"].label[1]))
    assert [3, 6] == batch["pair"].label[1][0].tolist()


def test_numbers_and_scalars_of_the_same_dtype_go_together():
    for samples, dtype in (
        ([1, np.int64(2), np.array(3, np.int64)], np.int64),
        ([np.float64(1), 2.0], np.float64),
        ([np.True_, False], np.bool_),
    ):
        batch = stack(samples)
        assert (np.dtype(dtype), samples) == (batch.dtype, batch.tolist())


def test_int64_is_kept_to_its_ends():
    ends = [2**63 - 1, -(2**63)]
    assert ends == stack(ends).tolist()


def test_nothing_in_a_container_is_nothing_in_the_batch():
    assert {"a": (), "b": [], "c": {}} == stack([{"a": (), "b": [], "c": {}}] * 2)


def test_a_batch_shares_no_memory_with_its_samples(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(4))
    for sample in (np.arange(4), np.load(tmp_path / "x.npy", mmap_mode="r"), np.zeros(3)[:0]):
        batch = stack([sample])
        assert type(batch) is np.ndarray
        assert not np.shares_memory(batch, sample)


# Stack: what does not fit


class Odd:
    """No type that has a place in a batch."""


class Unit(np.ndarray):
    """An array with a meaning that a batch has no place for."""


@pytest.mark.parametrize(
    ("samples", "rows", "said"),
    [
        ([1, 1.0], (0, 1), "the sample: row 0 has int 1, row 1 has float 1.0; make them equal"),
        ([1, True], (0, 1), "row 0 has int 1, row 1 has bool True"),
        ([1.0, 1], (0, 1), "row 0 has float 1.0, row 1 has int 1"),
        ([1, "1"], (0, 1), "row 1 has str '1'"),
        (["1", 1], (0, 1), "row 0 has str '1', row 1 has int 1"),
        (["a", b"a"], (0, 1), "row 0 has str 'a', row 1 has bytes b'a'"),
        ([1, 2**63], (1,), "row 1 has int 9223372036854775808, too large for int64; return numpy"),
        ([-(2**63) - 1], (0,), "row 0 has int -9223372036854775809, too large for int64"),
        ([10**5000], (0,), "row 0 has an int of 16610 bits, too large for int64"),
        ([-(10**5000)], (0,), "row 0 has a negative int of 16610 bits, too large for int64"),
        (
            [dict.fromkeys(range(11), 0), 1],
            (0, 1),
            "row 0 has a dict of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..., row",
        ),
        ([1, 2, None], (0, 2), "row 0 has int 1, row 2 has None; return numpy arrays from the"),
        ([None, None], (0,), "the sample: row 0 has None, which cannot be stacked; return numpy"),
        ([Odd()], (0,), "row 0 has a test_collate.Odd, which cannot be stacked"),
        ([collections.UserDict(a=1)], (0,), "which cannot be stacked; return a dict of its fields"),
        ([make_dataclass("P", ["x"])(1)], (0,), "cannot be stacked; return a dict of its fields"),
        ([Fraction(1)], (0,), "row 0 has a fractions.Fraction, which cannot"),
        ([{"x": {1}}], (0,), "field 'x': row 0 has a builtins.set, which cannot"),
        ([1 + 2j], (0,), "row 0 has a builtins.complex, which cannot"),
        ([bytearray(b"a")], (0,), "row 0 has a builtins.bytearray, which cannot"),
        ([np.array([None])], (0,), "row 0 has an array of dtype object and shape (1,), which"),
        (
            [np.ma.array([1.0])],
            (0,),
            "row 0 has a MaskedArray of dtype float64 and shape (1,), which",
        ),
        ([np.ones(1), np.ma.ones(1)], (0, 1), "row 1 has a MaskedArray"),
        ([np.ma.array([1, None])], (0,), "; return array.filled(value) and the mask as two fields"),
        ([np.array([[1], [2, 3]], object)], (0,), "stacked; pad its rows to one length in the tr"),
        ([np.array([1, 2], object)], (0,), "stacked; return array.astype(...) with the dtype of w"),
        ([np.ones(1).view(Unit)], (0,), "a Unit of dtype float64 and shape (1,), which cannot be"),
        ([np.ones(1).view(Unit)], (0,), "stacked; return numpy.asarray(...) of it, without what"),
        (
            [np.zeros(2), np.zeros(3)],
            (0, 1),
            'shape (3,); pad them along the first axis with "collate": {"type": "pad"}, or make',
        ),
        ([np.zeros(2), np.ma.zeros(2)], (0, 1), "(2,); return array.filled(value) and the mask"),
        ([np.array(["a"]), np.array(["b"] * 2)], (0, 1), "and shape (2,); make them equal in the"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], (0, 1), "shape (2, 4); cut or scale them to one"),
        ([np.zeros((2, 3)), np.zeros((4, 4))], (0, 1), "shape (4, 4); cut or scale them to one"),
        ([{"x": [np.zeros(2)]}, {"x": [np.zeros(3)]}], (0, 1), "field 'x'[0]: row 0 has an array"),
        (
            [{"x": [np.zeros(2)]}, {"x": [np.zeros(3)]}],
            (0, 1),
            'padded ("collate": {"type": "pad"}): lift its arrays there in the transform, or give',
        ),
        ([{"x": {"y": [1]}}, {"x": {"y": [1, 2]}}], (0, 1), "in a field of the sample itself"),
        ([np.zeros(1, "f4"), np.zeros(1)], (0, 1), "of dtype float64 and shape (1,); make them"),
        ([np.zeros(1), np.float64(0)], (0, 1), "shape (1,), row 1 has float64 np.float64(0.0)"),
        ([np.float32(0), 0.0], (0, 1), "row 1 has float 0.0"),
        ([{"x": 1}, {"y": 1}], (0, 1), "the sample: row 0 has a dict of 'x', row 1 has a dict of"),
        ([{"x": 1}, {}], (0, 1), "row 1 has a dict of nothing"),
        ([{"x": 1}, [1]], (0, 1), "row 0 has a dict of 'x', row 1 has a list of length 1"),
        ([(1, 2), (1,)], (0, 1), "row 0 has a tuple of length 2, row 1 has a tuple of length 1"),
        ([[1], [1, 2]], (0, 1), "row 1 has a list of length 2; return a numpy array instead of"),
        ([(1, 2), [1, 2]], (0, 1), "row 0 has a tuple of length 2, row 1 has a list of length 2"),
        ([Pair(1, 2), (1, 2)], (0, 1), "row 0 has a Pair of length 2, row 1 has a tuple of le"),
        ([Pair(1, None)] * 2, (0,), "field 'label': row 0 has None"),
        ([{"a": {3: ("x", None)}}], (0,), "field 'a'[3][1]: row 0 has None"),
    ],
)
def test_what_does_not_fit_names_field_and_rows(samples, rows, said):
    error = refused(stack, samples)
    assert said.replace("np.float64(0.0)", repr(np.float64(0))) in error.message
    assert rows == error.rows


def test_a_list_that_holds_itself_is_told_as_any_other():
    itself = []
    itself.append(itself)
    with pytest.raises(CollateError, match="field 'y': row 0 has a list of length 1, which is no"):
        Pad(fields=["y"])([{"y": itself}])


@pytest.mark.skipif(np.__version__ < "2", reason="numpy 1 has no such texts")
def test_texts_of_no_fixed_width_are_told_to_be_a_list_or_of_a_fixed_width():
    """Both of them can be stacked, and the array cannot."""
    texts = np.array(["a", "bcd"], np.dtypes.StringDType())
    assert 'return its tolist(), or array.astype("U20") with' in refused(stack, [texts]).message
    assert [["a", "a"], ["bcd", "bcd"]] == stack([texts.tolist()] * 2)
    assert [["a", "bcd"]] * 2 == stack([texts.astype("U20")] * 2).tolist()


def test_the_lowest_row_is_named_whichever_field_it_is_in():
    good = {"a": np.zeros(2), "b": {"c": 1}, "d": (1,)}
    for lowest, bad in (
        ({**good, "a": np.zeros(3)}, "field 'a'"),
        ({**good, "b": {"c": 1.0}}, "field 'b'['c']"),
        ({**good, "d": ("1",)}, "field 'd'[0]"),
        ({**good, "b": {}}, "field 'b'"),
        (None, "the sample"),
    ):
        samples = [good, good, lowest, {**good, "a": 1}, {**good, "d": None}, 5]
        error = refused(stack, samples)
        assert error.message.startswith(f"{bad}: row 0 has")
        assert (0, 2) == error.rows


def test_a_sample_that_holds_itself_is_refused_at_once():
    sample = []
    sample += [sample, sample]
    assert "more than 32 containers in each other" in refused(stack, [sample]).message
    deep = functools.reduce(lambda inner, _: [inner], range(32), np.zeros(1))
    assert (1, 1) == functools.reduce(lambda outer, _: outer[0], range(32), stack([deep])).shape


def test_no_samples_are_a_mistake_of_the_caller():
    for collate in (stack, Pad()):
        with pytest.raises(ValueError, match="expected at least one sample"):
            collate([])


# Pad

ragged = st.tuples(
    st.sampled_from(["?", "i2", ">f4", "f8", "u8", "F"]),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
).flatmap(lambda drawn: st.tuples(*(hnp.arrays(drawn[0], (n, *drawn[1])) for n in drawn[2])))


@given(ragged, st.integers(1, 4), st.none() | st.integers(1, 3))
def test_cutting_a_padded_batch_by_its_mask_gives_the_samples(arrays, multiple_of, times):
    """Whatever the length: the longest rounded up, or a given one, which may truncate."""
    length = times and times * multiple_of
    pad = Pad(length=length, multiple_of=multiple_of, value=1, truncate=length is not None)
    values, mask = pad(arrays)
    longest = max(map(len, arrays))
    width = length or -(-longest // multiple_of) * multiple_of
    assert (len(arrays), width, *arrays[0].shape[1:]) == values.shape
    assert (np.bool_, (len(arrays), width)) == (mask.dtype, mask.shape)
    assert arrays[0].dtype == values.dtype
    for array, row, real in zip(arrays, values, mask, strict=True):
        assert content(np.ascontiguousarray(array[:width])) == content(row[real])
        assert real.tolist() == [i < len(array) for i in range(width)]
        assert (row[~real] == 1).all()


@given(ragged)
def test_padding_arrays_of_one_length_is_stacking(arrays):
    arrays = [array[:1] for array in arrays if len(array)]
    if arrays:
        values, mask = Pad()(arrays)
        assert content(stack(arrays)) == content(values)
        assert mask.all()


@pytest.mark.parametrize("longest", [0, 1, 255, 256, 65535, 65536])
def test_a_mask_is_right_where_numbers_of_fewer_bits_end(longest):
    """It compares the narrowest ones that hold the length."""
    arrays = [np.zeros(size, np.uint8) for size in (longest, 0, longest // 2)]
    for length, times in ((None, 1), (longest or 1, 1), (None, 256)):
        _, mask = Pad(length=length, multiple_of=times)(arrays)
        assert [len(array) for array in arrays] == mask.sum(axis=1).tolist()
        assert all(row[: len(array)].all() for array, row in zip(arrays, mask, strict=True))
    cut = Pad(length=200, truncate=True)(arrays)[1]
    assert [min(len(array), 200) for array in arrays] == cut.sum(axis=1).tolist()


def test_arrays_of_numbers_of_another_package_are_padded():
    """As they are stacked: jax brings bfloat16, and integers of four bits."""
    jax = framework("jax")
    short, tiny = np.dtype(jax.numpy.bfloat16), np.dtype(jax.numpy.int4)
    values, _ = Pad(value=0.5)([np.ones(2, short), np.ones(1, short)])
    assert (short, [[1, 1], [1, 0.5]]) == (values.dtype, values.astype(float).tolist())
    for dtype, value in ((short, 257), (short, 10**400), (tiny, 8), (tiny, 0.5)):
        with pytest.raises(CollateError, match=r'hold the pad value .*; give another "val'):
            Pad(value=value)([np.ones(2, dtype), np.ones(1, dtype)])


@pytest.mark.parametrize(
    ("pad", "sample"),
    [
        (Pad(value=300), np.zeros(2, np.uint8)),
        (Pad(), np.array(["a"])),
        (Pad(length=1), np.zeros(2)),
    ],
)
def test_a_bare_array_is_not_told_to_name_fields(pad, sample):
    """It has none, and ``fields`` would be refused with it."""
    assert "fields" not in refused(pad, [sample]).message
    assert 'the "fields"' in refused(pad, [{"x": sample}]).message


def test_a_pad_value_is_looked_at_again_for_another_dtype():
    pad = Pad(value=300)
    for dtype in (np.int16, np.float64, np.int16):
        values, _ = pad([np.zeros(1, dtype), np.zeros(2, dtype)])
        assert (dtype, 300) == (values.dtype, values[0, 1])
    with pytest.raises(CollateError, match="dtype uint8, which cannot hold the pad value int 300"):
        pad([np.zeros(1, np.uint8), np.zeros(2, np.uint8)])


def test_fields_of_equal_lengths_have_masks_of_their_own():
    batch = Pad()([{"x": np.ones(2), "y": np.ones(2)}, {"x": np.ones(1), "y": np.ones(1)}])
    batch["x_mask"][:] = False
    assert [[True, True], [True, False]] == batch["y_mask"].tolist()


def test_a_dict_has_its_masks_after_all_fields():
    samples = [{"x": np.arange(n), "name": "n", "y": np.ones((2, n)), "n": n} for n in (2, 2)]
    batch = Pad()(samples)
    assert ["x", "name", "y", "n", "x_mask", "y_mask"] == list(batch)
    assert ((2, 2), (2, 2, 2), (2, 2), (2, 2)) == tuple(
        batch[name].shape for name in ("x", "y", "x_mask", "y_mask")
    )
    assert ["n", "n"] == batch["name"]
    batch = Pad(fields=["y"])(samples)
    assert ["x", "name", "y", "n", "y_mask"] == list(batch)


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_tuple_or_list_has_its_masks_at_the_end(kind):
    samples = [kind([np.arange(n), n, np.zeros(n + 1)]) for n in (1, 2)]
    batch = Pad()(samples)
    assert (kind, 5) == (type(batch), len(batch))
    x, n, y, x_mask, y_mask = batch
    assert [[0, 0], [0, 1]] == x.tolist()
    assert [1, 2] == n.tolist()
    assert (2, 3) == y.shape == y_mask.shape
    assert [[True, False], [True, True]] == x_mask.tolist()
    assert 4 == len(Pad(fields=[2])([kind([1, "a", np.zeros(3)])]))


def test_the_structure_of_a_batch_never_depends_on_lengths():
    for lengths in ((1, 1), (1, 2), (0, 0)):
        batch = Pad()([{"x": np.zeros(n), "y": np.float32(n)} for n in lengths])
        assert ["x", "y", "x_mask"] == list(batch)
        assert (2, max(lengths)) == batch["x"].shape


def test_masks_of_fields_of_other_names_than_str():
    assert [3, "3_mask"] == list(Pad()([{3: np.zeros(1)}]))


@pytest.mark.parametrize(
    ("pad", "samples", "rows", "said"),
    [
        (
            Pad(),
            [1],
            (0,),
            "row 0 has int 1, which is no dict, tuple or list of fields to pad; return a dict",
        ),
        (
            Pad(),
            [Pair(np.ones(1), 1)],
            (0,),
            "row 0 has a named tuple, which has no place for masks",
        ),
        (Pad(), [None], (0,), "row 0 has None, which is no dict, tuple or list"),
        (Pad(fields=["x"]), [np.ones(1)], (0,), "shape (1,), which is no dict"),
        (Pad(), [{"x": 1, "y": [1]}], (0,), "without an array of one dimension or more to pad"),
        (Pad(), [[1, 2], [3]], (0,), "to pad; return numpy.asarray(...) of it from the transform"),
        (Pad(), [(1, 2)], (0,), 'return one in a field of the sample itself, or take {"type": "'),
        (Pad(), [["a", "b"]], (0,), 'or take {"type": "stack"}'),
        (Pad(), [[{"a": 1}]], (0,), 'or take {"type": "stack"}'),
        (Pad(), [{"x": np.array(1)}], (0,), "without an array of one dimension or more to pad"),
        (Pad(), [np.array(1)], (0,), "shape (), which is no array of one dimension or more"),
        (Pad(), [np.array([1, None])], (0,), "which cannot be padded without loss; return a plain"),
        (Pad(), [np.ma.array([1])], (0,), "from the transform, as by array.filled(value)"),
        (Pad(), [{"x": np.array([None])}], (0,), "field 'x': row 0 has an array of dtype object"),
        (Pad(fields=["z"]), [{"x": np.ones(1)}], (0,), "where a field 'z' is to be padded; in"),
        (Pad(fields=[2]), [(np.ones(1),)], (0,), "where a field 2 is to be padded"),
        (
            Pad(fields=["y"]),
            [{"y": [1, 2]}],
            (0,),
            "field 'y': row 0 has a list of length 2, which",
        ),
        (Pad(fields=["y"]), [{"y": 1}], (0,), 'leave it out of "fields": it is stacked as it is'),
        (Pad(fields=["y"]), [{"y": np.array(1)}], (0,), 'out of "fields": it is stacked as it is'),
        (Pad(fields=["y"]), [{"y": [1]}], (0,), "return numpy.asarray(...) of it from the transf"),
        (Pad(fields=["y"]), [{"y": ["a"]}], (0,), "to pad; padding takes numbers only: convert it"),
        (Pad(), [{"y": [1, None]}], (0,), "to pad; padding takes numbers only: convert it in the"),
        (Pad(fields=["y"]), [{"y": [["a"], []]}], (0,), "to pad; padding takes numbers only: conv"),
        *(
            (Pad(), [{"n": np.ones(1), "y": y} for y in lists], (0, 1), f"of length 1; {hint}")
            for lists, hint in (
                ([["a", "b"], ["c"]], "make them equal in the transform, or give collate"),
                ([[1, 2], [b"c"]], "make them equal in the transform, or give collate"),
                ([["a", "b"], [3]], "make them equal in the transform, or give collate"),
                ([[["a"], ["b"]], [["c"]]], "make them equal in the transform, or give collate"),
                ([[1, 2], [3]], "return a numpy array instead of a list, which can be padded"),
            )
        ),
        *(
            (Pad(fields=["y"]), [{"y": inside}], (0,), "; only fields of the sample itself are pad")
            for inside in ({"x": np.ones(1)}, (np.ones(1), 1), [np.ones(1)], {"x": {"z": 1}})
        ),
        (Pad(), [{"n": 1, "y": [1]}], (0,), "in the source (\"dtypes\") (field 'y')"),
        (Pad(), [np.array(3, ">i2")], (0,), 'pad; take the collate {"type": "stack"}'),
        (Pad(fields=["y"]), [{"y": {"x": 1}}], (0,), 'leave it out of "fields": it is stacked as'),
        (
            Pad(),
            [{"n": np.ones(1), "y": {"x": np.ones(k)}} for k in (1, 2)],
            (0, 1),
            "shape (2,); only fields of the sample itself are padded",
        ),
        (Pad(), [{"y": {"x": np.ones(1)}}], (0,), "to pad; return one in a field of the sample it"),
        (Pad(fields=["y"]), [{"y": {1}}], (0,), "return numpy.asarray(...) of it from the transf"),
        (Pad(fields=["y"]), [{"y": [1]}], (0,), 'or name its dtype in the source ("dtypes")'),
        (
            Pad(fields=["y"]),
            [{"y": np.ones(1), "x": np.ones(1)}, {"y": np.ones(2), "x": np.ones(2)}],
            (0, 1),
            'shape (2,); name it in the "fields" to pad, too, or make them equal',
        ),
        (Pad(length=1), [{"y": np.ones(2)}], (0,), 'true, or name the "fields" to pad'),
        (Pad(), [{"x": np.ones(1)}, {}], (0, 1), "row 0 has a dict of 'x', row 1 has a dict of no"),
        (Pad(), [{"x": np.ones(1)}, {"x": [1]}], (0, 1), "field 'x': row 0 has an array of dtype"),
        (Pad(), [np.ones(2), np.ones(2, "f4")], (0, 1), "of dtype float32 and shape (2,); make"),
        (Pad(), [np.ones((1, 2)), np.ones((1, 3))], (0, 1), "and shape (1, 3); cut or scale them"),
        (Pad(), [np.ones(2), np.ones((2, 1))], (0, 1), "and shape (2, 1); make them equal"),
        (Pad(), [np.ones(2), np.ones((2, 1))], (0, 1), "; if these are columns, give them to the"),
        (Pad(), [np.ones(2), np.array(1.0)], (0, 1), "and shape (); make them equal"),
        (
            Pad(length=2),
            [np.ones(1), np.ones(3), np.ones(4)],
            (1,),
            'row 1 has the length 3, but all are padded to 2; give a larger "length", or "trun',
        ),
        (
            Pad(),
            [{"x": np.ones(1), "x_mask": np.ones(1)}],
            (0,),
            "where the mask of 'x' has no name left",
        ),
        (Pad(), [{1: np.ones(1), "1": np.ones(1)}], (0,), "where the mask of '1' has no name left"),
        (Pad(), [{"x": np.ones(1), "n": 1}, {"x": np.ones(2), "n": 1.0}], (0, 1), "field 'n': row"),
    ],
)
def test_what_cannot_be_padded_names_field_and_rows(pad, samples, rows, said):
    error = refused(pad, samples)
    assert said in error.message
    assert rows == error.rows


def test_arrays_of_other_lengths_are_not_taken_for_columns():
    for samples in ([np.ones(2), np.ones((3, 1))], [np.ones(2), np.array(1.0)]):
        assert "columns" not in refused(Pad(), samples).message


def test_the_lowest_row_is_named_also_when_padding():
    good = {"x": np.ones(2), "n": 1}
    long, short = {"x": np.ones(9), "n": 1}, {"x": np.ones(1, "f4"), "n": 1}
    for samples, row in (
        ([good, long, short], 1),
        ([good, short, long], 1),
        ([good, {**good, "n": 1.0}, long], 1),
        ([good, good, long, {**good, "n": 1.0}], 2),
        ([long, short], 0),
    ):
        assert row == refused(Pad(length=5), samples).rows[-1]


FITS = [
    *(("i1", v) for v in (0, -128, 127, 4.0)),
    *(("u1", v) for v in (255, 0.0)),
    *(("i8", v) for v in (2**63 - 1, -(2**63))),
    *(("f2", v) for v in (0.5, -65504.0, float("inf"), float("nan"))),
    *(("f4", v) for v in (2**24, 1e10, -0.0)),
    *(("f8", v) for v in (0.1, 2**53, 2**70)),
    *(("?", v) for v in (0, 1)),
    *(("F", v) for v in (0.5, 3)),
    *((">i4", v) for v in (-1,)),
]
DOES_NOT_FIT = [
    *(("i1", v) for v in (128, -129, 300, 0.5, float("nan"), float("inf"), 2**70)),
    *(("u1", v) for v in (-1, 256)),
    *(("i8", v) for v in (2**63, 1e19)),
    *(("i4", v) for v in (0.5,)),
    *(("f2", v) for v in (65505, 1e9, 2**70, 10**400)),
    *(("f4", v) for v in (2**24 + 1, 1e39)),
    *(("f8", v) for v in (2**53 + 1, 10**400)),
    *(("?", v) for v in (2, -1, 0.5)),
    *(("U1", v) for v in (0,)),
    *(("S1", v) for v in (0,)),
    *(("M8[s]", v) for v in (0,)),
    *(("m8[s]", v) for v in (0,)),
    *(("V2", v) for v in (0,)),
]


@pytest.mark.parametrize(("dtype", "value"), FITS)
def test_a_pad_value_that_the_dtype_holds_is_there_exactly(dtype, value):
    values, _ = Pad(value=value)([np.zeros(0, dtype), np.zeros(1, dtype)])
    there = values[0, 0].item()
    assert np.dtype(dtype) == values.dtype
    assert there == value or (there != there and value != value)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_a_fraction_that_pads_is_rounded_to_the_dtype(dtype):
    """As 0.1 is already when it is written down; a whole number never is."""
    values, _ = Pad(value=0.1)([np.zeros(0, dtype), np.zeros(1, dtype)])
    assert np.dtype(dtype).type(0.1) == values[0, 0]


@pytest.mark.parametrize(("dtype", "value"), DOES_NOT_FIT)
def test_a_pad_value_that_the_dtype_does_not_hold_is_refused(dtype, value):
    error = refused(Pad(value=value), [{"x": np.zeros(1, dtype)}])
    assert error.message.startswith(f"field 'x': row 0 has dtype {np.dtype(dtype)}, which cannot")
    assert "the pad value" in error.message


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", "U3", "S3", "V3", [("a", "i4")]], ids=str)
def test_what_is_no_number_is_told_to_be_converted(dtype):
    """There is no other "value" to give, since that is a number, too."""
    error = refused(Pad(), [{"x": np.zeros(1, dtype)}, {"x": np.zeros(2, dtype)}])
    assert "; padding takes numbers only: convert it in the transform, or name" in error.message
    assert 'give another "value"' not in error.message
    assert 'give another "value"' in refused(Pad(value=300), [np.zeros(1, "u1")]).message
    error = refused(Pad(fields=["x"]), [{"x": np.zeros(1, dtype)}])
    assert 'in the transform, or leave it out of "fields", if all are alike' in error.message


@pytest.mark.parametrize(("fields", "told"), [(None, True), (["x"], False)])
def test_fields_are_not_asked_for_where_they_are_given(fields, told):
    message = refused(Pad(fields=fields, value=300), [{"x": np.zeros(1, "u1")}]).message
    assert told == ('or the "fields" to pad' in message)


@pytest.mark.parametrize("long", [np.str_("x" * 9999), {"x" * 9999: 1}, np.bytes_(b"x" * 9999)])
def test_what_is_long_is_told_in_short(long):
    """As of a row of another kind among the texts of an array."""
    assert len(refused(stack, [np.int64(1), long]).message) < 300


def test_a_pad_value_too_long_to_be_written_is_refused():
    error = refused(Pad(value=10**5000), [np.zeros(1)])
    assert "cannot hold the pad value an int of 16610 bits" in error.message


# A pad value for each field


def test_each_field_has_its_pad_value_and_others_have_0():
    samples = [{"x": np.arange(n), "y": np.ones(n), "z": np.ones(n, "u1")} for n in (1, 2)]
    batch = Pad(value={"x": -100, "y": 0.5})(samples)
    assert [[0, -100], [0, 1]] == batch["x"].tolist()
    assert [[1, 0.5], [1, 1]] == batch["y"].tolist()
    assert [[1, 0], [1, 1]] == batch["z"].tolist()
    assert [samples[0][name].dtype for name in "xyz"] == [batch[name].dtype for name in "xyz"]


@pytest.mark.parametrize("name", [1, "1"])
def test_a_pad_value_by_position_may_be_written_as_json_has_to(name):
    samples = [(np.zeros(n), np.zeros(n)) for n in (0, 1)]
    x, y, *_ = Pad(value={name: -100})(samples)
    assert ([[0], [0]], [[-100], [0]]) == (x.tolist(), y.tolist())
    assert Pad(value={1: -100}) == make_collate({"type": "pad", "value": {"1": -100}})


@given(ragged, st.integers(-128, 127))
def test_a_pad_value_by_name_is_that_value_for_all(arrays, value):
    """For int8 data, of any lengths, in one field."""
    samples = [{"x": np.zeros(len(array), np.int8)} for array in arrays]
    expected, got = Pad(value=value)(samples), Pad(value={"x": value})(samples)
    assert content(expected["x"]) == content(got["x"])


@pytest.mark.parametrize(
    ("pad", "sample", "said"),
    [
        (Pad(value={"z": 1}), {"x": np.ones(1)}, "no field 'z' is padded; in \"value\", name only"),
        (Pad(value={"n": 1}), {"x": np.ones(1), "n": 1}, "where no field 'n' is padded"),
        (Pad(value={"2": 1}), (np.ones(1), np.ones(1)), "where no field '2' is padded"),
        (Pad(value={"0": 1}), np.ones(1), "and shape (1,), where no field '0' is padded"),
        (Pad(value={"x": 0.5}), {"x": np.ones(1, "i4")}, "field 'x': row 0 has dtype int32, which"),
    ],
)
def test_a_pad_value_for_what_is_not_padded_is_refused(pad, sample, said):
    error = refused(pad, [sample])
    assert said in error.message
    assert (0,) == error.rows


def test_the_pad_values_are_those_of_the_time_when_pad_was_made():
    values = {"x": 1}
    pad = Pad(value=values)
    values["x"] = 2
    assert [[0, 1], [0, 0]] == pad([{"x": np.zeros(n)} for n in (1, 2)])["x"].tolist()


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"value": {}}, "/collate/value"),
        ({"value": {-1: 0}}, "/collate/value"),
        ({"value": {1: 0, "1": 0}}, "/collate/value"),
        ({"value": {"x": None}}, "/collate/value/x"),
        ({"value": {"x": True}}, "/collate/value/x"),
        ({"value": {"x": 0}, "fields": ["y"]}, "/collate/value/x"),
        ({"fields": []}, "/collate/fields"),
        ({"fields": ["x", "x"]}, "/collate/fields"),
        ({"fields": "x"}, "/collate/fields"),
        ({"fields": [-1]}, "/collate/fields"),
        ({"fields": [True]}, "/collate/fields"),
        ({"fields": 3}, "/collate/fields"),
        ({"length": 0}, "/collate/length"),
        ({"length": True}, "/collate/length"),
        ({"length": 2.5}, "/collate/length"),
        ({"length": 10**5000}, "/collate/length"),
        ({"length": 10, "multiple_of": 8}, "/collate/length"),
        ({"multiple_of": 0}, "/collate/multiple_of"),
        ({"multiple_of": None}, "/collate/multiple_of"),
        ({"value": "0"}, "/collate/value"),
        ({"value": True}, "/collate/value"),
        ({"truncate": 1}, "/collate/truncate"),
        ({"truncate": True}, "/collate/truncate"),
        ({"truncate": np.True_}, "/collate/truncate"),
        ({"length": 2**31}, "/collate/length"),
        ({"multiple_of": 2**31}, "/collate/multiple_of"),
        ({"length": np.True_}, "/collate/length"),
        ({"length": np.timedelta64(4, "s")}, "/collate/length"),
        ({"fields": [np.int64(-1)]}, "/collate/fields"),
        ({"value": np.True_}, "/collate/value"),
        ({"value": {"x": np.datetime64(4, "s")}}, "/collate/value/x"),
    ],
)
def test_options_out_of_bounds_are_config_errors(options, pointer):
    with pytest.raises(ConfigError) as caught:
        Pad(**options)
    assert [pointer] == [problem.pointer for problem in caught.value.problems]
    with pytest.raises(ConfigError):
        make_collate({"type": "pad", **options})


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({"length": np.int64(4)}, {"length": 4}),
        ({"length": np.uint8(4), "truncate": np.True_}, {"length": 4, "truncate": True}),
        ({"multiple_of": np.int32(8)}, {"multiple_of": 8}),
        ({"fields": [np.int64(0), np.str_("x")]}, {"fields": [0, "x"]}),
        ({"value": np.int64(-100)}, {"value": -100}),
        ({"value": np.float32(0.5)}, {"value": 0.5}),
        ({"value": {"x": np.int8(3)}}, {"value": {"x": 3}}),
    ],
    ids=str,
)
def test_numbers_of_numpy_are_options(options, plain):
    """In code as in a config, where they are those of Python."""
    assert repr(Pad(**plain)) == repr(Pad(**options))
    config, _ = read_config({"collate": {"type": "pad", **options}}, source_in_code=True)
    assert Pad(**plain) == make_collate(config.collate)


def test_all_wrong_options_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        Pad(fields=[], length=-1, multiple_of=-1, value=None, truncate=None)
    assert 5 == len(caught.value.problems)


def test_a_config_makes_the_collate_it_says():
    assert stack is make_collate({"type": "stack"})
    assert Pad() == make_collate({"type": "pad"})
    spec = {"fields": ["x", 1], "length": 8, "multiple_of": 4, "value": -1, "truncate": True}
    assert Pad(("x", 1), 8, 4, -1, True) == make_collate({"type": "pad", **spec})
    assert Pad() == make_collate(
        {"type": "pad", "fields": None, "length": None, "multiple_of": 1, "value": 0}
    )
    with pytest.raises(ConfigError, match=r'/collate/type: expected "stack" or "pad", got \'sum\''):
        make_collate({"type": "sum"})


def test_one_pad_serves_several_threads():
    pad = Pad()
    batches = [[np.full(n, k) for n in range(1, 6)] for k in range(8)]
    expected = [pad(batch)[0].tolist() for batch in batches]
    barrier = threading.Barrier(8)

    def work(batch):
        barrier.wait()
        return pad(batch)[0].tolist()

    with ThreadPoolExecutor(8) as pool:
        assert expected == list(pool.map(work, batches))
