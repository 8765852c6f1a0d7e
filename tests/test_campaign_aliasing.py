"""tools/campaign aliasing runs, and would see memory that is written again too early."""

from collections import Counter

import pytest
from campaigns import aliasing

from threadloader import buffers


@pytest.mark.parametrize("seed", ["2", "3", "4", "5"])
def test_nothing_that_is_held_is_written_again(seed, capsys):
    """10,000 batches together."""
    assert 0 == aliasing.main(["--count", "2500", "--seed", seed])
    assert capsys.readouterr().out.startswith("aliasing: 0 changed; ")


def test_memory_that_comes_back_too_early_is_seen(monkeypatch):
    """A lease that holds something else than the memory it has lent."""
    made = buffers._Lease.__init__
    monkeypatch.setattr(
        buffers._Lease, "__init__", lambda lease, block, memory: made(lease, block, memory[:])
    )
    assert aliasing.run(600, 1, Counter()) > 0


def test_where_no_memory_is_used_again_nothing_was_tried(monkeypatch, capsys):
    monkeypatch.setattr(aliasing, "run", lambda count, seed, told: 0)
    assert 1 == aliasing.main([])
    assert "so nothing was tried" in capsys.readouterr().err


def test_a_changed_batch_fails_it(monkeypatch):
    def run(count, seed, told):
        told["used again"] = 1
        return 1

    monkeypatch.setattr(aliasing, "run", run)
    assert 1 == aliasing.main([])


@pytest.mark.parametrize("way", range(30))
def test_whatever_holds_a_batch_sees_a_change(way):
    """Each way of holding, drawn with 30 seeds."""
    import random

    import numpy as np

    batch = np.arange(4 * 40, dtype=np.float32).reshape(4, 40)
    holder = aliasing.Holder(batch, random.Random(way), None, Counter())
    assert not holder.changed()
    batch += 1
    assert holder.changed()
