"""Samples that fail: sources and a transform that have them, and the lines that list them."""

import json
import threading

import numpy as np


class Failing:
    """Sample i is i; those in `bad` fail always, those in `flaky` so many times at first."""

    def __init__(self, n, bad=(), flaky=()):
        self.n, self.bad = n, frozenset(bad)
        self._left = dict(flaky)
        self._guard = threading.Lock()

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        with self._guard:
            left = self._left.get(index, 0)
            self._left[index] = left - 1
        if left > 0:
            raise OSError(f"sample {index} fails for now")
        if index in self.bad:
            raise ValueError(f"sample {index} is bad")
        return index

    def locate(self, index):
        return f"data/{index}.bin"


class AllAtOnce(Failing):
    """Reads the samples of a batch in one call."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Whole(Failing):
    """Makes whole batches."""

    def take(self, indices):
        return np.array([self[int(index)] for index in indices])


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def raising(kind):
    """Gives a transform that raises that."""

    def transform(sample):
        raise kind

    return transform
