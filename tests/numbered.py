"""Samples that are numbers: a source of them, a loader that does not shuffle, batches as lists."""

import threading

import numpy as np

from threadloader import Loader

WAIT = 30.0
"""Seconds after which a test gives up."""
WORKERS = [0, 1, 3]
"""Numbers of them at which a loader is the same."""


class Numbers:
    """A source whose sample i is the number i; keeps what was read, and may fail."""

    def __init__(self, n, fail=()):
        self.n = n
        self.fail = dict(fail)
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.read.append(index)
        if index in self.fail:
            raise self.fail[index]
        return index


class Gated(Numbers):
    """It counts its reads in a semaphore, so that a test can wait for them."""

    def __init__(self, n):
        super().__init__(n)
        self.reads = threading.Semaphore(0)

    def __getitem__(self, index):
        self.reads.release()
        return super().__getitem__(index)


def load(source, transform=None, collate=None, collate_config=None, **config):
    if collate_config is not None:
        config["collate"] = collate_config
    return Loader({"shuffle": False, **config}, source, transform=transform, collate=collate)


def lists(batches):
    return [np.asarray(batch).tolist() for batch in batches]
