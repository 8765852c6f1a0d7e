"""PyTorch's side of bench: what becomes of a batch there, and how many samples it has."""

from collections import namedtuple

import numpy as np
import pytest
from frameworks import framework

from threadloader.adapters import torch_loader
from threadloader.collate import stack


class FakeTorch:
    """Makes tensors as torch does, and refuses as torch does."""

    @staticmethod
    def from_numpy(array):
        if not array.dtype.isnative:
            raise ValueError("given numpy array has byte order different from the native one")
        if array.dtype.kind not in "biuf":
            raise TypeError(f"can't convert np.ndarray of type {array.dtype}")
        return ("tensor", array.tolist())


@pytest.mark.parametrize(
    "sample",
    [
        7,
        "text",
        b"bytes",
        [7, 8],
        [np.ones(2), np.ones(3)],
        {"x": [np.ones(2), "a"]},
        (["a", 1],),
        [[["a"]], 1],
    ],
    ids=str,
)
def test_a_batch_has_as_many_rows_as_samples(sample):
    """Whatever they are made of, also where their fields are lists."""
    assert 5 == torch_loader.rows(stack([sample] * 5))


@pytest.mark.parametrize("batch", [[7, 8, 9], ["a", "b", "c"], [b"a", b"b", b"c"]], ids=str)
def test_a_list_of_what_holds_nothing_is_the_rows_themselves(batch):
    """As a `collate=list` gives it."""
    assert 3 == torch_loader.rows(batch)


def test_a_batch_without_a_field_has_no_rows():
    assert [0, 0, 0] == [torch_loader.rows(batch) for batch in ([], (), {})]


def test_arrays_in_lists_become_tensors():
    batch = stack([[np.array([1.0]), ["a", 2]], [np.array([3.0]), ["b", 4]]])
    expected = [("tensor", [[1.0], [3.0]]), [["a", "b"], ("tensor", [2, 4])]]
    assert expected == torch_loader._tensors(FakeTorch, batch)


class Ends(namedtuple("Ends", "begin end")):
    """Made of one argument, unlike other named tuples."""

    __slots__ = ()

    def __new__(cls, both):
        return super().__new__(cls, *both)


def test_a_named_tuple_stays_one_however_it_is_made():
    made = torch_loader._tensors(FakeTorch, Ends((np.zeros(1), ["a"])))
    assert (Ends, ("tensor", [0.0]), ["a"]) == (type(made), made.begin, made.end)


@pytest.mark.parametrize("dtype", ["U3", ">f4", "<f4", ">i8", "<i8"])
def test_what_torch_cannot_hold_stays_an_array(dtype):
    """Of another kind, or of the byte order that this machine has not; and only that."""
    array = np.zeros(3, dtype)
    made = torch_loader._tensors(FakeTorch, {"x": array})["x"]
    assert (array.dtype.isnative and array.dtype.kind != "U") == (made is not array)


def test_the_real_torch_is_given_what_it_can_hold():
    """Foreign byte order is a ValueError there, and no TypeError."""
    torch = framework("torch")
    foreign = np.zeros(3, np.dtype("f4").newbyteorder())
    batch = torch_loader._tensors(torch, [np.ones((4, 2)), foreign, ["a"] * 4])
    assert [torch.float64, foreign.dtype] == [batch[0].dtype, batch[1].dtype]
    assert 4 == torch_loader.rows(batch)
