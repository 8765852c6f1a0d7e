"""The collate that a config says: stacking is exact, or the field and the lowest row are named."""

import collections
import functools
import itertools
from dataclasses import make_dataclass
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from collated import Pair, refused
from dtypes import content
from hypothesis import given
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.collate import Pad, make_collate, stack
from threadloader.errors import ConfigError

DTYPES = [
    *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u8", "f2", "f4", "f8", ">f8"),
    *(() if np.longdouble(0).nbytes == 8 else ("g", "G")),  # on Windows they are "d" and "D"
    *("F", "D", "S1", "S5", "U1", "U5", ">U5", "V3", "M8[D]", "M8[ns]", ">M8[D]", "m8[s]"),
    np.dtype([("a", "i4"), ("b", "U2")]),
    np.dtype([("a", ">i4"), ("b", "U2")]),
    np.dtype([("c", "i4"), ("b", "U2")]),
    np.dtype([("a", "i4", (2,))]),
]

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
            rows = [content(batch[row, ...]) for row in (0, 1)]
            assert [content(first), content(second)] == rows
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
        (
            [make_dataclass("Stored", ["x"], namespace={"__array__": lambda self: 0})(1)],
            (0,),
            "cannot be stacked; return numpy arrays from the transform",
        ),
        (
            [type("Scalar", (), {"as_py": lambda self: 1})()],
            (0,),
            "cannot be stacked; return its as_py() from the transform",
        ),
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


@pytest.mark.parametrize("long", [np.str_("x" * 9999), {"x" * 9999: 1}, np.bytes_(b"x" * 9999)])
def test_what_is_long_is_told_in_short(long):
    """As of a row of another kind among the texts of an array."""
    assert len(refused(stack, [np.int64(1), long]).message) < 300


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


@pytest.mark.parametrize("length", [None, 3, 300_000])
def test_between_the_fields_of_records_nothing_is_left_of_other_memory(length, monkeypatch):
    """A batch is the same in every run, and shows nothing of the program."""
    dtype = np.dtype([("id", "u1"), ("v", "<f8")], align=True)
    empty = np.empty

    def used(shape, dtype=float, **options):
        array = empty(shape, dtype, **options)
        array.reshape(-1).view(np.uint8)[:] = 255
        return array

    class Records:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return np.zeros((), dtype)[()] if length is None else np.zeros(length, dtype)

    monkeypatch.setattr(np, "empty", used)
    with Loader({"batch_size": 2, "num_workers": 2}, Records()) as batches:
        assert {0} == {value for batch in batches for value in set(batch.tobytes())}
