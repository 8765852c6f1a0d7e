"""Batches in page-locked memory, with a fake torch, and with the real one where it is declared."""

import logging
import signal
import sys
import threading
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from functools import partial
from types import MappingProxyType, ModuleType, SimpleNamespace
from weakref import WeakSet

import numpy as np
import pytest
from campaigns import device
from fake_torch import Kind, Tensor, empty, from_numpy, torch
from frameworks import framework
from freeing import AT_ONCE

from threadloader import CollateError, ConfigError, Loader, WorkerError, buffers
from threadloader.adapters import torch_pin
from threadloader.adapters.torch_pin import pinning
from threadloader.collate._rows import LARGE_BYTES
from threadloader.engine import _engine

__all__ = ["torch"]  # the fixture

WAIT = 30.0
Pair = namedtuple("Pair", "x y")


def load(source, pin=True, collate=None, transform=None, **config):
    config = {"shuffle": False, "pin_memory": pin, **config}
    return Loader(config, source, collate=collate, transform=transform)


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


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_pinning_comes_at_its_place(torch, workers, monkeypatch):
    """Batch 1 of 3 fails; the others are delivered, and the state stands where it should."""

    def pin_memory(self):
        if self.array[0] == 2:
            raise RuntimeError("CUDA error: out of memory")
        return Tensor(self.array, pinned=True)

    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    with load(range(6), batch_size=2, num_workers=workers) as batches:
        epoch = iter(batches)
        assert [0, 1] == next(epoch).array.tolist()
        with pytest.raises(RuntimeError, match="out of memory"):
            next(epoch)
        assert 2 == batches.state_dict()["world"]["position"]
        assert [4, 5] == next(epoch).array.tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_page_locked_memory_that_cannot_be_had_is_told_at_the_batch_that_wanted_it(
    torch, workers, monkeypatch
):
    """The other batches are delivered."""
    made = []

    def empty_or_not(shape, **options):
        made.append(shape)
        if len(made) == 1:
            raise RuntimeError("CUDA error: out of memory")
        return empty(shape, **options)

    torch.empty = empty_or_not
    x = np.zeros((6, 1 << 20))  # too large for groups, which are made anew
    with load(x, batch_size=2, num_workers=workers, num_epochs=1) as batches:
        epoch, failed, got = iter(batches), [], 0
        for _ in range(3):
            try:
                next(epoch)
                got += 1
            except RuntimeError as error:
                failed.append(error)
        assert (2, 1) == (got, len(failed))
    assert "out of memory" in str(failed[0])
    told, where = failed[0].__notes__
    assert told.startswith("threadloader: raised while memory was page-locked for a batch; if")
    assert "a smaller batch_size, prefetch_batches or num_workers takes less" in told
    assert "raised for the batch of step" in where


def test_what_a_signal_handler_raises_while_memory_is_page_locked_is_told_nothing_of_it(torch):
    def ring(number, frame):
        raise RuntimeError("job deadline")

    def empty_or_not(shape, **options):
        signal.raise_signal(signal.SIGINT)

    torch.empty = empty_or_not
    before = signal.signal(signal.SIGINT, ring)
    try:
        with load(np.zeros((6, 1 << 20)), batch_size=2, num_workers=0) as batches:
            with pytest.raises(RuntimeError, match="job deadline") as caught:
                next(iter(batches))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not any("page-locked" in note for note in getattr(caught.value, "__notes__", []))


class PinsItself:
    """A batch of a class of the user's, whose `pin_memory` raises the same object each time."""

    class Refused(RuntimeError):
        def add_note(self, note):
            raise TypeError("no notes here")

    error = Refused("the real reason")

    def __init__(self, samples):
        pass

    def pin_memory(self):
        raise self.error


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_an_object_that_pins_itself_is_given_no_note_of_page_locked_memory(
    torch, workers
):
    """It may refuse notes, and would have one more each time."""
    loader = Loader({"pin_memory": True, "num_workers": workers}, range(4), collate=PinsItself)
    with loader as batches, pytest.raises(WorkerError, match="Refused was raised") as caught:
        next(iter(batches))
    assert PinsItself.error is caught.value.__cause__


def test_a_tensor_of_another_class_that_pins_itself_is_given_no_note_either(torch):
    class PinsItselfToo(Tensor):
        pin_memory = PinsItself.pin_memory
        error = PinsItself.error

    loader = Loader(
        {"pin_memory": True}, range(4), collate=lambda samples: PinsItselfToo(np.array(samples))
    )
    with loader as batches, pytest.raises(WorkerError, match="Refused was raised") as caught:
        next(iter(batches))
    assert PinsItself.error is caught.value.__cause__


@pytest.mark.parametrize("workers", [0, 2])
def test_a_tensor_of_the_collate_that_cannot_be_page_locked_is_told_what_takes_less(
    torch, workers, monkeypatch
):
    def pin_memory(self):
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    loader = Loader(
        {"pin_memory": True, "num_workers": workers},
        range(4),
        collate=lambda samples: torch.from_numpy(np.array(samples)),
    )
    with loader as batches, pytest.raises(RuntimeError, match="out of memory") as caught:
        next(iter(batches))
    assert "takes less" in caught.value.__notes__[0]


def test_order_does_not_depend_on_how_long_pinning_takes(torch, monkeypatch):
    """The first batch's pinning ends after the second's has."""
    second = threading.Event()

    def pin_memory(self):
        if self.array[0] == 0:
            assert second.wait(WAIT)
        else:
            second.set()
        return Tensor(self.array, pinned=True)

    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    with load(range(4), batch_size=2, num_workers=2, num_epochs=1) as batches:
        assert [[0, 1], [2, 3]] == [batch.array.tolist() for batch in batches]


def test_pinning_that_never_returns_is_named_and_left_behind(torch, monkeypatch, caplog):
    inside, go_on = threading.Event(), threading.Event()

    def pin_memory(self):
        inside.set()
        assert go_on.wait(WAIT)

    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(_engine, "GRACE_SECONDS", WAIT)  # the feeder tells of it, on a busy machine
    config = {"batch_size": 2, "num_workers": 1, "close_timeout": 0.05}
    with caplog.at_level(logging.ERROR, logger="threadloader"):
        with load(range(4), **config) as batches:
            iter(batches)
            assert inside.wait(WAIT)
        (record,) = caplog.records
    go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("threadloader"):
            thread.join(WAIT)
    assert "the batch of step 0, epoch 0 (samples 0, 1)" in record.getMessage()
    assert "in pin_memory" in record.getMessage()


def missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    return "no torch"


def without_cuda(monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "torch 0.fake without a CUDA device"


def broken(monkeypatch):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "torch":
                raise OSError("libtorch.so: cannot open shared object file")

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    return "a torch that does not work (libtorch.so: cannot open"


def no_torch_at_all(monkeypatch):
    """A folder of that name is enough for an import."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    return "a torch that does not work (module 'torch' has no attribute 'cuda')"


def at_odds_with_its_driver(monkeypatch):
    def is_available():
        raise RuntimeError("driver too old")

    cuda = SimpleNamespace(is_available=is_available)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "a torch that does not work (driver too old)"


def built_for_another_numpy(monkeypatch):
    def from_numpy(array):
        raise RuntimeError("Numpy is not available")

    cuda = SimpleNamespace(is_available=lambda: True)
    fake = SimpleNamespace(__version__="0.fake", cuda=cuda, from_numpy=from_numpy)
    monkeypatch.setitem(sys.modules, "torch", fake)
    return "a torch that does not work (Numpy is not available)"


def forked(monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: True, _is_in_bad_fork=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "a fork of a process that has used CUDA"


def forked_without_cuda(monkeypatch):
    """The parent has asked whether there is a device, and torch does not know forks from uses."""
    cuda = SimpleNamespace(is_available=lambda: False, _is_in_bad_fork=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    return "torch 0.fake without a CUDA device"


HOW = [
    missing,
    without_cuda,
    broken,
    no_torch_at_all,
    at_odds_with_its_driver,
    built_for_another_numpy,
    forked,
    forked_without_cuda,
]


@pytest.mark.parametrize("how", HOW)
def test_true_refuses_before_any_thread_what_it_cannot_do(monkeypatch, how):
    """It names the option, what is missing, and what to do."""
    text = how(monkeypatch)
    loader = load(range(4))
    monkeypatch.setattr(loader, "_runtime", None)  # nothing could be started with it
    with pytest.raises(ConfigError, match="/pin_memory: expected torch with a CUDA") as caught:
        loader.__enter__()
    assert text in str(caught.value)
    assert 'write "auto"' in str(caught.value)


def test_a_fork_is_told_how_to_start_the_process(monkeypatch):
    forked(monkeypatch)
    with pytest.raises(ConfigError, match="start the process by 'spawn' or 'forkserver', or write"):
        load(range(4)).__enter__()


@pytest.mark.parametrize("how", HOW)
def test_auto_goes_on_with_numpy_and_the_stats_say_so(monkeypatch, how):
    text = how(monkeypatch)
    with load(np.arange(4), "auto") as batches:
        assert [0, 1, 2, 3] == next(iter(batches)).tolist()
        assert text in batches.stats().not_pinned
        assert f"not pinned: {text}" in str(batches.stats())


@pytest.mark.parametrize("pin", [True, "auto"])
def test_what_a_signal_handler_raises_while_torch_is_looked_at_is_no_fault_of_torch(
    monkeypatch, pin
):
    """Importing it takes seconds, in which a job may come to its deadline."""

    def is_available():
        signal.raise_signal(signal.SIGINT)

    def ring(number, frame):
        raise TimeoutError("job deadline")

    cuda = SimpleNamespace(is_available=is_available)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="0.fake", cuda=cuda))
    before = signal.signal(signal.SIGINT, ring)
    try:
        with pytest.raises(TimeoutError, match="job deadline"), load(range(4), pin):
            pass
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("source", [np.arange(4), [0, 1, 2, 3]], ids=["gathered", "collated"])
def test_what_a_signal_handler_raises_while_memory_is_looked_at_is_no_fault_of_the_array(
    torch, source
):
    def ring(number, frame):
        raise ValueError("job deadline")

    def interrupted(array):
        torch.from_numpy = from_numpy
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, ring)
    try:
        with load(source, num_workers=0) as batches:
            torch.from_numpy = interrupted
            with pytest.raises(ValueError, match="job deadline") as caught:
                next(iter(batches))
            assert ValueError is type(caught.value)
    finally:
        signal.signal(signal.SIGINT, before)


def test_without_the_option_torch_is_not_touched(monkeypatch):
    broken(monkeypatch)
    with load(np.arange(4), False) as batches:
        assert [0, 1, 2, 3] == next(iter(batches)).tolist()
        assert "" == batches.stats().not_pinned


def test_a_real_torch_does_what_it_can_here():
    """With CUDA a pinned tensor; without it, what the two settings promise."""
    torch = framework("torch")
    if torch.cuda.is_available():
        with load({"x": np.arange(4.0)}) as batches:
            batch = next(iter(batches))
        assert batch["x"].is_pinned()
        assert [0.0, 1.0, 2.0, 3.0] == batch["x"].tolist()
        return
    with pytest.raises(ConfigError, match="without a CUDA device"), load(np.arange(4)):
        pass
    with load(np.arange(4), "auto") as batches:
        assert isinstance(next(iter(batches)), np.ndarray)
