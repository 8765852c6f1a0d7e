"""Page-locked memory is torch's own, is copied into only if need be, and is that of few batches.

The torch is a fake one, which tells memory of its own from what it was given with an array.
"""

from weakref import WeakSet

import numpy as np
import pytest
from campaigns import device
from fake_torch import Kind, Tensor, empty, torch
from freeing import AT_ONCE
from page_locked import load

from threadloader import CollateError, Loader, buffers
from threadloader.adapters import torch_pin
from threadloader.adapters.torch_pin import pinning
from threadloader.collate._rows import LARGE_BYTES

__all__ = ["torch"]  # the fixture


@pytest.fixture
def copies(torch, monkeypatch):
    """The tensors that were copied into page-locked memory."""
    copied, pin_memory = [], Tensor.pin_memory

    def noting(self):
        made = pin_memory(self)
        if made is not self:
            copied.append(self)
        return made

    monkeypatch.setattr(Tensor, "pin_memory", noting)
    return copied


class Large:
    """Samples that are written into their rows of the batch as they come."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return np.full(LARGE_BYTES, index, np.uint8)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("source", [np.arange(80.0).reshape(40, 2), Large()])
def test_what_is_gathered_at_once_is_gathered_into_page_locked_memory(copies, source, workers):
    """And not copied into it; the tensors are torch's own, or of rows of those.

    Only of them does torch know when the last copy to a device has read them.
    """
    with load(source, batch_size=2, num_workers=workers) as batches:
        got = list(batches)
    assert [] == copies
    expected = [source[at] for at in range(len(source))]
    assert np.stack(expected).tolist() == np.concatenate([one.array for one in got]).tolist()
    assert {True} == {one.pinned for one in got}


def test_batches_of_a_group_are_rows_of_one_memory(copies):
    """Many small ones are gathered by one call; each is rows of its own."""
    with load(np.arange(40), batch_size=2, num_workers=1) as batches:
        *_, one, other = list(batches)
    assert one.storage is other.storage
    assert [[36, 37], [38, 39]] == [one.array.tolist(), other.array.tolist()]


@pytest.mark.parametrize(
    ("seen", "count"),
    [
        (lambda array: array[1:].T, 1),
        (lambda array: array[1:][::-1], 1),
        (lambda array: array[1:, 1:], 1),
        (lambda array: array[1:], 0),
        (lambda array: array.reshape(2, 1, 3)[:, ::-1], 0),  # turned along one value
        (lambda array: array[1:].view(np.int32), 0),
        (lambda array: array.reshape(-1)[2:].view(np.float64), 0),
        (lambda array: np.asarray(memoryview(array[1:])), 1),
        (lambda array: np.frombuffer(bytearray(array.tobytes()), np.int64).reshape(3, 2)[1:], 1),
        (lambda array: array.reshape(-1).view(np.int8)[4:36].view(np.int64), 1),
        # Well aligned, but no whole number of values from where the memory begins.
        (lambda array: array.reshape(-1)[1:5].view(np.complex128), 1),
    ],
)
def test_memory_is_copied_only_if_it_lies_otherwise_than_row_after_row(copies, seen, count):
    """A copy of it is torch's own as well: not a tensor that torch makes of the array."""

    class Turned(list):
        def take_into(self, indices, empty):
            array = empty((3, 2), np.int64)
            array[:] = [[1, 2], [3, 4], [5, 6]]
            return seen(array)

        def take(self, indices):
            raise NotImplementedError

    expected = seen(np.array([[1, 2], [3, 4], [5, 6]], np.int64))
    samples = Turned(range(len(expected)))
    with load(samples, batch_size=len(expected), num_epochs=1) as batches:
        (batch,) = list(batches)
    assert (expected.dtype, expected.tolist()) == (batch.array.dtype, batch.array.tolist())
    assert (count, True) == (len(copies), batch.pinned)


@pytest.mark.filterwarnings("ignore:Setting the dtype:DeprecationWarning")
def test_an_array_whose_dtype_was_set_in_place_has_that_dtype(copies):
    class Set(list):
        def take_into(self, indices, empty):
            array = empty(2, np.int64)
            array[:] = 1
            array.dtype = np.float64
            return array

        def take(self, indices):
            raise NotImplementedError

    with load(Set([0, 1]), batch_size=2, num_epochs=1) as batches:
        (batch,) = list(batches)
    assert [5e-324, 5e-324] == batch.array.tolist()


@pytest.mark.parametrize("dtype", [("i4", (2,)), "U3", np.dtype([("a", "i4")])])
def test_of_a_dtype_that_torch_has_not_memory_is_made_as_numpy_makes_it(torch, dtype):
    made, _ = pinning(True)
    array, like = made.empty(4, dtype), np.empty(4, dtype)
    assert (like.shape, like.dtype) == (array.shape, array.dtype)


def test_page_locked_memory_that_is_seen_as_what_torch_cannot_hold_is_told(torch):
    class Dates(list):
        def take_into(self, indices, empty):
            return empty(len(indices), np.int64).view("M8[s]")

        def take(self, indices):
            raise NotImplementedError

    with load(Dates([0, 1])) as batches:
        with pytest.raises(CollateError, match=r"an array that torch can hold, .* datetime64"):
            next(iter(batches))


def test_an_array_of_no_dimension_is_pinned(copies):
    with load(range(2), collate=lambda samples: np.array(7), num_epochs=1) as batches:
        (batch,) = list(batches)
    assert (7, True, 1) == (batch.array.item(), batch.pinned, len(copies))


def test_batches_of_a_file_are_read_into_page_locked_memory(copies, tmp_path):
    """It is read as bytes, and seen as its dtype."""
    np.save(tmp_path / "x.npy", np.arange(64, dtype="f4").reshape(32, 2))
    source = {"type": "npy", "path": str(tmp_path / "x.npy")}
    config = {"source": source, "batch_size": 2, "shuffle": False, "num_epochs": 1}
    with Loader({**config, "pin_memory": True}) as batches:
        got = list(batches)
    assert list(range(64)) == np.concatenate([one.array for one in got]).reshape(-1).tolist()
    assert ({True}, []) == ({one.pinned for one in got}, copies)


@pytest.mark.parametrize(("pinned", "count"), [(True, 0), (False, 1)])
def test_the_array_of_a_tensor_of_the_user_s_is_copied_unless_it_is_pinned(copies, pinned, count):
    """As PyTorch's own `pin_memory` gives a tensor back that is."""
    own = Tensor(np.array([1, 2]), pinned)
    with load(range(2), collate=lambda samples: own.numpy(), num_epochs=1) as batches:
        (batch,) = list(batches)
    assert ([1, 2], True, count) == (batch.array.tolist(), batch.pinned, len(copies))


def test_the_array_of_a_part_of_a_tensor_of_the_user_s_is_that_part(copies):
    own = Tensor(np.arange(10)[4:8], True)
    with load(range(2), collate=lambda samples: own.numpy()[1:3], num_epochs=1) as batches:
        (batch,) = list(batches)
    assert ([5, 6], []) == (batch.array.tolist(), copies)


def test_page_locked_memory_that_must_not_be_written_is_copied(copies):
    own = Tensor(np.arange(4), True)

    def collate(samples):
        array = own.numpy()
        array.flags.writeable = False
        return array

    with load(range(2), collate=collate, num_epochs=1) as batches:
        (batch,) = list(batches)
    assert ([0, 1, 2, 3], 1) == (batch.array.tolist(), len(copies))
    assert not np.shares_memory(batch.array, own.array)


def test_the_bug_that_the_campaign_plants_delivers_what_torch_does_not_know(torch, monkeypatch):
    """So that `campaigns.device --planted` has something to see."""
    torch.uint8 = Kind("uint8")
    for place, name in ((buffers._Block, "__init__"), (torch_pin, "_empty"), (torch_pin, "_held")):
        monkeypatch.setattr(place, name, getattr(place, name))  # put back behind the test
    device.plant(torch)
    x = np.zeros((4, buffers.LEAST_BYTES), np.uint8)
    with load(x, batch_size=2, num_epochs=1) as batches:
        got = list(batches)
    assert [True, True] == [one.is_pinned() for one in got]
    assert [False, False] == [one.pinned for one in got]


@pytest.mark.parametrize(("workers", "ahead"), [(0, 3), (1, 1), (2, 3), (4, 2), (8, 2)])
def test_page_locked_memory_is_that_of_the_batches_ahead_and_of_the_loop_s_own(
    torch, workers, ahead
):
    """The system cannot swap it out: more workers take no more of it, and none is left."""
    living, most = WeakSet(), [0]

    def counted(*args, **options):
        tensor = empty(*args, **options)
        living.add(tensor)
        most.append(len(living))
        return tensor

    torch.empty = counted
    x = np.zeros((40, 1 << 20), np.uint8)  # batches of 5 MiB, which come one by one
    with load(x, batch_size=5, num_workers=workers, prefetch_batches=ahead) as batches:
        for _ in range(2):
            for batch in batches:
                assert (5, 1 << 20) == batch.array.shape
        del batch
    # Without the GIL a worker that is idle keeps what it has made a little longer.
    late = 0 if AT_ONCE else workers
    assert 2 <= max(most) <= (ahead if workers else 1) + 1 + late
    assert 0 == len(living)
