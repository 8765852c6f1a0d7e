"""The campaign `device` sees a batch that arrives as another; without a device it says so."""

import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pinned
import pytest
from campaigns import device
from fake_torch import Tensor, torch

__all__ = ["torch"]  # the fixture


WAYS = ("ways_of_torch", "ways_of_jax", "ways_of_cupy", "ways_of_tinygrad")


def sides(copy):
    return copy.min(1), copy.max(1)


@pytest.mark.parametrize("data", device.DATA)
def test_what_arrives_as_it_was_sent_is_not_wrong(data):
    """Here the device is the host's memory; each batch is held until it is looked at."""
    told = Counter()
    assert 0 == device.run(device.Way("held", False, lambda batch: batch, sides), data, 128, told)
    assert told["batches"] >= 128
    assert told["where an earlier one had lain"] > 0


@pytest.mark.parametrize("value", [-1.0, 1000.0])
def test_one_value_that_arrives_as_another_is_seen(value):
    sent = []

    def send(batch):
        copy = batch.copy()
        if len(sent) == 3:
            copy[7, 11] = value
        sent.append(batch.shape)
        return copy

    assert 1 == device.run(device.Way("spoilt", False, send, sides), device.DATA[0], 32, Counter())


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        (None, "expected torch with a CUDA device, got none"),
        (
            SimpleNamespace(__version__="0.fake", cuda=SimpleNamespace(is_available=lambda: False)),
            "torch 0.fake sees no CUDA device",
        ),
    ],
)
def test_without_a_device_it_says_so(torch, expected, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert 2 == device.main([])
    assert expected in capsys.readouterr().err


@pytest.fixture
def without_runs(monkeypatch):
    """A device whose ways are each of one name, and where no run is played."""
    cuda = SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "a device")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    for ways in WAYS:
        way = device.Way(ways, False, None, None)
        monkeypatch.setattr(device, ways, lambda *torch, way=way: [way])
    monkeypatch.setattr(device, "runs", lambda torch, numbers: [])


@pytest.mark.parametrize("untried", [False, True])
@pytest.mark.parametrize("data", [each.name for each in device.DATA])
@pytest.mark.parametrize("bad", [None, *WAYS])
def test_its_exit_code_says_whether_all_was_good_and_anything_was_tried(
    without_runs, bad, data, untried, monkeypatch, capsys
):
    """One way alone is bad, for one kind of data: a batch is wrong, or no memory came again."""

    def run(way, what, count, told):
        is_bad = (way.name, what.name) == (bad, data)
        told["where an earlier one had lain"] = not (is_bad and untried)
        return int(is_bad and not untried)

    monkeypatch.setattr(device, "run", run)
    assert (bad is not None) == device.main([])
    told = capsys.readouterr().out
    for way in WAYS:
        for each in device.DATA:
            wrong = (way, each.name) == (bad, data) and not untried
            assert f"{way}, {each.name}: {int(wrong)} wrong; " in told
    assert ("FAILED" if bad else "nothing wrong") in told


@pytest.mark.parametrize(("default", "count"), [("CUDA", 2), ("CPU", 0)])
def test_tinygrad_takes_part_where_it_computes_by_cuda(monkeypatch, default, count):
    there = SimpleNamespace(Device=SimpleNamespace(DEFAULT=default), Tensor=None)
    monkeypatch.setitem(sys.modules, "tinygrad", there)
    assert count == len(list(device.ways_of_tinygrad()))


def test_a_run_that_drifted_on_the_device_fails_it(without_runs, monkeypatch, capsys):
    monkeypatch.setattr(device, "DATA", ())
    monkeypatch.setattr(device, "runs", lambda torch, numbers: ["run 7 drifted"])
    assert 1 == device.main([])
    told = capsys.readouterr()
    assert "1 drifted of 240" in told.out
    assert "run 7 drifted" in told.err


@pytest.fixture
def on_a_device(torch, monkeypatch):
    """A fake torch whose tensors go to a device, which gives back what they hold."""
    monkeypatch.setattr(Tensor, "numel", lambda tensor: tensor.array.size, raising=False)
    monkeypatch.setattr(Tensor, "to", lambda tensor, device, non_blocking: tensor, raising=False)
    monkeypatch.setattr(Tensor, "cpu", lambda tensor: tensor, raising=False)
    return torch


def test_runs_that_arrive_as_they_were_sent_come_to_what_is_written_down(on_a_device):
    """And leave what plays them as it was."""
    before = pinned.digest, pinned.drawn
    assert [] == device.runs(on_a_device, range(20))
    assert before == (pinned.digest, pinned.drawn)


def test_a_run_that_arrives_as_another_is_named(on_a_device, monkeypatch):
    monkeypatch.setattr(Tensor, "cpu", lambda tensor: Tensor(tensor.array + 1), raising=False)
    (text,) = device.runs(on_a_device, range(4, 5))
    assert text.startswith("run 4, ")


def test_a_run_whose_batches_are_not_page_locked_is_named(on_a_device, monkeypatch):
    monkeypatch.setattr(Tensor, "is_pinned", lambda tensor: False)
    (text,) = device.runs(on_a_device, range(4, 5))
    assert text.startswith("run 4, ")


def test_a_run_whose_batches_stay_arrays_is_named(on_a_device, monkeypatch):
    monkeypatch.setattr(device.torch_pin, "_empty", lambda torch, *like: np.empty(*like))
    monkeypatch.setattr(device.torch_pin, "_pinned", lambda torch, part, field: part)
    (text,) = device.runs(on_a_device, range(4, 5))
    assert text.startswith("run 4, ")


def test_arrays_are_looked_at_row_by_row():
    way = device.Way("", False, None, sides)
    good = np.repeat(np.arange(4.0)[:, None], 3, 1)
    assert not device._differs(way, np.arange(4), good)
    assert device._differs(way, np.arange(4), good[::-1])
