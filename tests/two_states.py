"""A plain state and a rich one, a folder to save them in, and a config to make others."""

import os

import pytest

from threadloader.state import Cursor, Excluded, dump

RUN = {"source": "x", "samples": 90, "seed": 2**64 - 1, "shuffle": True, "sampler": None}
WORLD = {"batch_size": 4, "shard_count": 2}
PLAIN = dump(Cursor(), RUN, WORLD, 0)
RICH = dump(
    Cursor(3, 16, 2, 47, 180, ((0, 3, 2), (1, 0, 9)), "f0" * 16),
    {**RUN, "source": 'a "täble"\n'},
    WORLD,
    1,
    Excluded.of("4-6 80"),
)
CONFIG = {"batch_size": 2, "num_workers": 0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in which the disk is not waited for."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    return tmp_path
