"""PyTorch's side of bench: how a source is read, what becomes of a batch, how many rows it has."""

import os
import pickle
import sys
from collections import namedtuple
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from fake_dataloader import FakeData, FakeTorch, fake_torch
from frameworks import framework

from threadloader import LoaderConfig
from threadloader.adapters import torch_loader
from threadloader.bench import _child
from threadloader.collate import make_collate, stack

__all__ = ["fake_torch"]  # the fixture


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


def batches_of(source, config=None, **options):
    """The counted batches that PyTorch's side makes of a source, and how it was made."""
    options = {"batch_size": 2, "shuffle": False, "seed": 1, "drop_last": False, **options}
    collate = make_collate(config or {"type": "stack"})
    whole = config is None
    with torch_loader.TorchLoader(lambda: source, collate=collate, whole=whole, **options) as it:
        return list(it.begin()), it._loader.options, len(it)


def test_samples_are_collated_as_here_and_become_tensors(fake_torch):
    """Arrays that torch has no dtype for, and what is no array, stay as they are."""
    sample = {"x": np.ones(2), "pair": (np.int64(3), "s"), "u": np.array("unicode")}
    ((samples, batch),), *_ = batches_of([sample, sample])
    assert 2 == samples
    assert ("tensor", [[1.0, 1.0], [1.0, 1.0]]) == batch["x"]
    assert (("tensor", [3, 3]), ["s", "s"]) == batch["pair"]
    assert isinstance(batch["u"], np.ndarray)


class Whole:
    """A source that builds whole batches, and tells what it was asked for."""

    def __init__(self, n):
        self.n, self.closed = n, 0

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return np.array(index)

    def __getitems__(self, indices):
        return [np.array(100 + index) for index in indices]

    def take(self, indices):
        assert np.int64 == indices.dtype
        return 1000 + indices

    def close(self):
        self.closed += 1


def tensors(*batches):
    """Counted batches of tensors."""
    return [(len(batch), ("tensor", batch)) for batch in batches]


@pytest.mark.parametrize("collate", [list, lambda samples: {"n": 9, "x": np.zeros((7, 2))}, len])
def test_samples_are_counted_whatever_a_collate_makes_of_them(fake_torch, collate):
    """Ragged lists, a number first, time before the batch: what is in a batch does not show it."""
    options = {"batch_size": 2, "shuffle": False, "seed": 1, "drop_last": False}
    with torch_loader.TorchLoader(
        lambda: [[0, 1], [2], [3, 4, 5]], collate=collate, **options
    ) as it:
        assert [2, 1] == [count for count, _ in it.begin()]


def test_a_source_is_read_in_its_best_way(fake_torch):
    """Whole batches by ``take``; else samples at once by ``__getitems__``; else one by one."""
    source = Whole(3)
    assert tensors([1000, 1001], [1002]) == batches_of(source)[0]
    stacked = make_collate({"type": "stack"})
    options = {"batch_size": 2, "shuffle": False, "seed": 1, "drop_last": False}
    with torch_loader.TorchLoader(lambda: source, collate=stacked, **options) as loader:
        assert tensors([100, 101], [102]) == list(loader.begin())
    double = lambda sample, index: sample * 2 + index  # noqa: E731
    assert tensors([200, 203], [206]) == batches_of(source, transform=double)[0]
    assert tensors([0, 3], [6]) == batches_of([*map(np.array, range(3))], transform=double)[0]
    assert 3 == source.closed


def test_order_and_tail_follow_the_config(fake_torch):
    source = [np.array(i) for i in range(5)]
    assert tensors([4, 3], [2, 1]) == batches_of(source, shuffle=True, drop_last=True)[0]
    assert 3 == batches_of(source)[2]
    assert ([], 0) == batches_of([], shuffle=True)[::2]


def test_a_shard_is_dealt_by_torch_anew_in_each_epoch(fake_torch):
    """Its sampler is told the number of the epoch, and what the config says of the order."""
    source = [np.array(i) for i in range(6)]
    options = {"shuffle": True, "seed": 1, "drop_last": False}
    stacked = make_collate({"type": "stack"})
    with torch_loader.TorchLoader(
        lambda: source, batch_size=2, shard=(1, 2), collate=stacked, **options
    ) as loader:
        epochs = [list(loader.begin()), list(loader.begin())]
        assert options == loader._loader.batches.sampler.options
    assert [tensors([1, 3], [5]), tensors([2, 4], [0])] == epochs


def test_processes_that_an_exception_leaves_are_ended(fake_torch, monkeypatch):
    """What was raised refers to the iterator, so that PyTorch does not end them by itself.

    Those of the user's, as of a pool in the source, are not: the source would wait for them.
    """
    done = []
    pool, worker, later = (
        SimpleNamespace(name=name, terminate=partial(done.append, name), join=partial(done.append))
        for name in ("pool", "worker", "later")
    )
    alive = [pool]
    monkeypatch.setattr(torch_loader.multiprocessing, "active_children", lambda: [*alive])

    class Starts(FakeData.DataLoader):
        def __iter__(self):
            alive.append(worker)
            return super().__iter__()

    monkeypatch.setattr(FakeData, "DataLoader", Starts)
    options = {"batch_size": 2, "shuffle": False, "seed": 1, "drop_last": False}
    with torch_loader.TorchLoader(lambda: [1, 2], collate=list, **options) as loader:
        loader.begin()
        alive.append(later)
    assert ["worker", 5] == done


def test_processes_live_as_long_as_the_loader_and_pin_where_asked(fake_torch):
    """Without workers there is nothing to keep alive."""
    expected = {"num_workers": 2, "persistent_workers": True, "pin_memory": True}
    assert expected == batches_of([1, 2], num_workers=2, pin_memory=True)[1]
    expected = {"num_workers": 0, "persistent_workers": False, "pin_memory": False}
    assert expected == batches_of([1, 2])[1]


def test_a_source_of_connections_is_opened_anew_in_a_fork(fake_torch, monkeypatch):
    opened = []
    source = torch_loader._Opened(lambda: opened.append(1) or opened)
    source.get()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    source.get()
    assert [1] == opened
    source.reopen = True
    source.get()
    assert [1, 1] == source.get()


def test_a_process_that_is_no_fork_opens_its_own_source():
    """What this process has opened does not travel with the dataset."""
    opened = torch_loader._Opened(partial(Whole, 3))
    opened.get().closed = 9
    got = pickle.loads(pickle.dumps(opened)).get()
    assert (3, 0) == (got.n, got.closed)


def test_the_transform_of_the_config_is_applied_there_too():
    """Also behind pickling, as where processes are spawned; one given in its place comes first."""
    options = {"type": "mlm", "field": "tokens", "vocabulary": 50, "mask_token": 3}
    config = LoaderConfig(transform=options)
    transform = _child._Transform(config, None)
    sample = {"tokens": np.arange(40)}
    expected = transform(sample, 7)
    assert {"tokens", "labels"} == set(expected)
    got = pickle.loads(pickle.dumps(transform))(sample, 7)
    assert expected["labels"].tolist() == got["labels"].tolist()
    assert "str" == _child._Transform(config, lambda sample: type(sample).__name__)("a", 7)


@pytest.mark.parametrize("shards", [[(0, 1)], [(0, 2), (1, 2)]], ids=["alone", "two-shards"])
@pytest.mark.parametrize("source", [[np.array(i) for i in range(10)], Whole(10)], ids=type)
def test_the_dataloader_of_torch_gives_each_sample_once(source, shards):
    """In tensors, over all shards together; the second epoch has another order."""
    torch = framework("torch")
    orders = [[], []]
    for shard in shards:
        loader = torch_loader.TorchLoader(
            lambda: source,
            batch_size=3,
            shuffle=True,
            seed=5,
            drop_last=False,
            shard=shard,
            collate=make_collate({"type": "stack"}),
            whole=True,
        )
        with loader:
            for order in orders:
                counts, batches = zip(*loader.begin(), strict=True)
                assert len(loader) == len(batches)
                order += torch.cat(batches).tolist()
                assert 10 // len(shards) == sum(counts)
    assert [*range(10)] == sorted(value % 1000 for value in orders[0])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_torch_put_in_its_place_by_a_program_is_found(monkeypatch):
    """Such a module has no spec."""
    stand_in = ModuleType("torch")
    stand_in.__spec__ = None
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    assert torch_loader.is_installed()


def test_torch_is_given_with_its_data_module_imported(monkeypatch):
    """`import torch` alone need not bring `torch.utils.data`."""
    names = ("torch", "torch.utils", "torch.utils.data")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert sys.modules["torch"] is torch_loader.import_torch()
    monkeypatch.setitem(sys.modules, "torch.utils.data", None)
    with pytest.raises(ImportError):
        torch_loader.import_torch()
