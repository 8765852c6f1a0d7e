"""What a batch becomes in page-locked memory: the same, with a pinned tensor for each array of it.

What torch cannot hold is told with its field. The torch is a fake one.
"""

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from functools import partial
from types import MappingProxyType

import numpy as np
import pytest
from fake_torch import Tensor, torch
from page_locked import load

from threadloader import CollateError

__all__ = ["torch"]  # the fixture

Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize("pin", [True, "auto"])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_array_of_a_batch_is_a_pinned_tensor(torch, pin, workers):
    """Of an array source, which is taken whole, and of samples that are collated."""
    x = np.arange(12).reshape(6, 2)
    for source in (x, list(x)):
        with load(source, pin, batch_size=4, num_workers=workers) as batches:
            got = list(batches)
            assert [True, True] == [batch.pinned for batch in got]
            assert [x[:4].tolist(), x[4:].tolist()] == [batch.array.tolist() for batch in got]
            assert "" == batches.stats().not_pinned


@pytest.mark.parametrize("transform", [None, abs])
def test_each_batch_of_many_small_ones_is_pinned(torch, transform):
    """Without workers, where such batches need no job of their own but for the pinning."""
    with load(range(80), batch_size=2, num_workers=0, transform=transform) as batches:
        assert [True] * 40 == [batch.pinned for batch in batches]


def test_any_nesting_is_kept(torch):
    """Dicts, tuples, named tuples and lists keep their kind; strings stay strings."""
    sample = {"a": [1, ("text", np.zeros(2))], "b": Pair(1.0, np.float32(2))}
    with load([sample] * 2, batch_size=2) as batches:
        batch = next(iter(batches))
    assert {"a", "b"} == set(batch)
    assert (list, tuple, Pair) == (type(batch["a"]), type(batch["a"][1]), type(batch["b"]))
    assert ["text", "text"] == batch["a"][1][0]
    tensors = [batch["a"][0], batch["a"][1][1], *batch["b"]]
    assert [True] * 4 == [tensor.pinned for tensor in tensors]


@pytest.mark.parametrize("kind", [OrderedDict, UserDict, partial(defaultdict, list)])
def test_a_mapping_keeps_its_class_and_the_collate_s_own_one_is_not_changed(torch, kind):
    made = []

    def collate(samples):
        made.append(kind({"x": np.array(samples)}))
        return made[-1]

    with load(range(2), collate=collate) as batches:
        batch = next(iter(batches))
    assert type(made[0]) is type(batch)
    assert (True, np.ndarray) == (batch["x"].pinned, type(made[0]["x"]))
    assert getattr(made[0], "default_factory", None) is getattr(batch, "default_factory", None)


def test_a_mapping_that_cannot_be_changed_comes_as_a_dict(torch):
    def collate(samples):
        return MappingProxyType({"x": np.array(samples)})

    with load(range(2), collate=collate) as batches:
        batch = next(iter(batches))
    assert (dict, True) == (type(batch), batch["x"].pinned)


def test_an_object_that_can_pin_itself_is_asked(torch):
    """As by PyTorch's own loader; one that cannot stays as it is."""

    class Own:
        def __init__(self, pinned):
            self.pinned = pinned

        def pin_memory(self):
            return Own(True)

    other = object()
    with load(range(2), collate=lambda samples: [Own(False), other, None, "text"]) as batches:
        own, *rest = next(iter(batches))
    assert (True, [other, None, "text"]) == (own.pinned, rest)


def test_a_collate_that_makes_tensors_has_them_pinned(torch):
    def collate(samples):
        return {"t": Tensor(np.array(samples)), "n": len(samples)}

    with load(range(4), collate=collate) as batches:
        batch = next(iter(batches))
    assert (True, 4) == (batch["t"].pinned, batch["n"])


def test_an_array_that_cannot_be_written_is_copied_first(torch):
    """torch would warn of it, and warnings are errors here."""

    def collate(samples):
        array = np.array(samples)
        array.flags.writeable = False
        return array

    with load(range(4), collate=collate) as batches:
        assert [0, 1, 2, 3] == next(iter(batches)).array.tolist()


def test_a_field_of_a_packed_record_is_copied_first(torch):
    """torch refuses values that lie otherwise than whole ones apart."""
    rows = np.array([(1, 2.5), (3, 4.5)], [("a", "u1"), ("x", "<f4")])
    with load(range(2), collate=lambda samples: rows["x"]) as batches:
        assert [2.5, 4.5] == next(iter(batches)).array.tolist()


def test_values_of_no_bytes_are_told_as_what_torch_cannot_hold(torch):
    with load(range(2), collate=lambda samples: np.zeros(2, "V0")) as batches:
        with pytest.raises(CollateError, match="that torch can hold, got dtype"):
            next(iter(batches))


def test_a_masked_array_is_refused_since_its_mask_would_be_lost(torch):
    rows = np.ma.masked_array([1, 2], [True, False])
    with (
        load(range(2), collate=lambda samples: {"x": rows}) as batches,
        pytest.raises(CollateError, match=r"field \['x'\]: expected .*, got a masked array"),
    ):
        next(iter(batches))


def test_what_torch_cannot_hold_is_named(torch):
    with load([{"day": np.datetime64("2020-01-01")}] * 2) as batches:
        with pytest.raises(CollateError, match=r"field \['day'\]: .* datetime64") as caught:
            next(iter(batches))
    assert "the batch of step 0, epoch 0" in caught.value.__notes__[0]


@pytest.mark.parametrize("dtype", ["M8[s]", np.dtype("i4").newbyteorder()])
def test_what_torch_cannot_hold_of_arrays_is_named(torch, dtype):
    with load({"x": np.arange(4), "day": np.arange(4).astype(dtype)}, batch_size=2) as batches:
        with pytest.raises(CollateError, match=r"field \['day'\]: expected an array that torch"):
            next(iter(batches))
