"""What the handlers of the log raise in the midst of a batch costs neither sample nor batch."""

import gc
import logging
import threading
import weakref
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from kept_samples import files

from threadloader import Loader
from threadloader.errors import log

LOG = logging.getLogger("threadloader")


class FullDisk(logging.Handler):
    def emit(self, record):
        raise OSError("the log's disk is full")


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """Give what `threading.excepthook` is told; all is logged, by a handler that raises."""
    found, handler, level = [], FullDisk(), LOG.level
    monkeypatch.setattr(threading, "excepthook", lambda args: found.append(str(args.exc_value)))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield found
    LOG.setLevel(level)
    LOG.removeHandler(handler)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_a_cache_cannot_keep_is_not_skipped(told, workers):
    config = {"batch_size": 3, "num_workers": workers, "cache": {"max_bytes": "1MB"}}
    things = [object() for _ in range(9)]
    with Loader({**config, "on_error": {"skip": 9}}, things, collate=len) as batches:
        assert [3, 3, 3] == list(batches)
        assert 0 == batches.stats().skipped
    assert ["the log's disk is full"] == told


def test_a_damaged_record_of_a_cache_is_prepared_anew(told, tmp_path):
    config = {"num_workers": 0, "cache": {"folder": str(tmp_path)}, "on_error": {"skip": 9}}
    data = np.arange(40.0).reshape(20, 2)
    LOG.setLevel(logging.ERROR)  # the number of other keys is logged at the opening
    with Loader(config, data) as batches:
        expected = [batch.tolist() for batch in batches]
    for file in files(tmp_path, ".data"):
        damaged = bytearray(file.read_bytes())
        damaged[-1] ^= 1
        file.write_bytes(damaged)
    LOG.setLevel(logging.WARNING)
    with Loader(config, data) as batches:
        assert expected == [batch.tolist() for batch in batches]
        assert (0, 1) == (batches.stats().skipped, batches.stats().cache_damaged)
    assert ["the log's disk is full"] == told


class Uncut(list):
    """Its batches hold something that is not known to be rows."""

    sample_bytes = 8

    def take(self, indices):
        return {"rows": [self[index] for index in indices], "about": SimpleNamespace()}


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_cannot_be_cut_are_taken_one_by_one(told, workers):
    config = {"batch_size": 2, "num_workers": workers, "shuffle": False}
    delivered = []
    with Loader(config, Uncut(range(40))) as batches:
        epoch = iter(batches)
        for _ in range(40):  # each failure would be met anew
            with suppress(OSError, StopIteration):
                delivered += next(epoch)["rows"]
    assert list(range(40)) == delivered
    assert {"the log's disk is full"} == set(told)


@pytest.mark.parametrize("error", [OSError, SystemExit])
def test_nor_does_a_hook_that_logs_itself(error, monkeypatch):
    """As one that sends what threads raise to the same log."""

    def hook(args):
        with suppress(OSError):
            LOG.error("a thread has failed")
        raised.append(error)
        raise error

    raised = []
    monkeypatch.setattr(threading, "excepthook", hook)
    config = {"num_workers": 2, "cache": {"max_samples": 9}, "on_error": {"skip": 9}}
    with Loader(config, [object() for _ in range(9)], collate=len) as batches:
        assert ([9], 0, [error]) == (list(batches), batches.stats().skipped, raised)


def test_what_it_raised_is_freed_without_the_collector(monkeypatch):
    class Failure(Exception):
        def __init__(self):
            freed.append(weakref.ref(self))

    def emit(handler, record):
        raise Failure

    freed = []
    monkeypatch.setattr(FullDisk, "emit", emit)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    gc.disable()
    try:
        log("warning", "a cache says something", aside=True)
        assert [None] == [it() for it in freed]
    finally:
        gc.enable()
