"""Batches that the loop prepares in series, and a source whose samples are read one by one."""

from contextlib import contextmanager

import pytest

from threadloader import Loader
from threadloader.loader._choice import Choice

CONFIG = {"batch_size": 2, "num_workers": 0, "shuffle": False, "num_epochs": 1}


class Here(Choice):
    """Has the consumer prepare the batches though there are workers, as where threads only lose."""

    def __init__(self):
        super().__init__()
        self.here = True

    def note(self, *noted):
        return False

    def series(self):
        return 8


BESIDE = pytest.mark.parametrize("workers", [0, 1])
"""Without workers, and beside one that has nothing to do."""


@contextmanager
def opened(workers, source, collate=None, transform=None, **options):
    """Gives the batches of a loader that makes them in series; collate and transform as of it."""
    config = {**CONFIG, **options, "num_workers": workers}
    with Loader(config, source=source, collate=collate, transform=transform) as batches:
        if workers:
            batches._supply.choice = Here()
        yield batches


class Read:
    """Samples that are read one by one; each call for the bad ones fails, and is written down."""

    def __init__(self, n, bad=()):
        self.n = n
        self.bad = set(bad)
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.read.append(index)
        if index in self.bad:
            raise OSError(f"damaged: {index}")
        return index

    def locate(self, index):
        return f"line {index + 1}"
