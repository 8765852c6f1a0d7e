"""Pinning that fails, takes long or never ends is told as what it is, and spoils no other batch."""

import logging
import signal
import threading

import numpy as np
import pytest
from fake_torch import Tensor, empty, from_numpy, torch
from page_locked import load

from threadloader import Loader, WorkerError
from threadloader.engine import _engine

__all__ = ["torch"]  # the fixture

WAIT = 30.0


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
