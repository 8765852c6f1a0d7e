"""Padding adds what a mask takes away again, or an error names the field and the lowest row."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from collated import Pair, ragged, refused
from dtypes import content
from hypothesis import given
from hypothesis import strategies as st

from threadloader.collate import Pad, stack
from threadloader.errors import CollateError


def test_a_list_that_holds_itself_is_told_as_any_other():
    itself = []
    itself.append(itself)
    with pytest.raises(CollateError, match="field 'y': row 0 has a list of length 1, which is no"):
        Pad(fields=["y"])([{"y": itself}])


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


class Foreign:
    """An array of another package, as a tensor is."""

    def __array__(self, *args, **options):
        return np.ones(2)


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
        (Pad(), [Foreign()], (0,), "fields to pad; return numpy.asarray(...) of it from the"),
        (Pad(), [{"x": Foreign()}], (0,), "return numpy.asarray(...) of it from the transform (f"),
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
