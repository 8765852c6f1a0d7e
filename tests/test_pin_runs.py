"""Pinning changes nothing of a batch but where it lies."""

import numpy as np
import pinned
import pytest
from campaigns import versions
from fake_torch import Tensor, torch

__all__ = ["torch"]  # the fixture


def unpinned(batch):
    """The batch as it is without pinning; every array of numbers has to come pinned."""
    if isinstance(batch, Tensor):
        assert batch.array.size == 0 or batch.pinned
        return batch.numpy()
    assert not isinstance(batch, np.ndarray) or batch.dtype.kind not in "biufc"
    if isinstance(batch, dict):
        return {name: unpinned(value) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(map(unpinned, batch))
    return batch


@pytest.mark.parametrize("part", range(4))
def test_pinned_runs_come_to_what_is_written_down(torch, part, tmp_path, monkeypatch):
    """From every kind of source but npy files, cut once, with the same states.

    The numbers of those files are big-endian: torch has no such, and that is told.
    """
    digest, drawn, quarter = pinned.digest, pinned.drawn, pinned.RUNS // 4

    def pinning(number):
        run = drawn(number)
        pins = run.config["pin_memory"] = "npy" not in run.kind
        held = (lambda batch: digest(unpinned(batch))) if pins else digest
        monkeypatch.setattr(pinned, "digest", held)
        return run

    monkeypatch.setattr(pinned, "drawn", pinning)
    assert [] == versions.drifted(range(part * quarter, (part + 1) * quarter), 1, tmp_path)
