"""Samplers of every kind, and loaders with them over samples that are their own index."""

import sys
import threading

import numpy as np
import pytest

from threadloader import Loader

N = 12
WORKERS = [0, 1, 2, 8]

WEIGHTS = [1, 0, 2, 3, 0.5, 1, 1, 4, 2, 0, 1, 1]
CLASSES = np.array([0, 1, 1, 2, 0, 0, 2, 1, 1, 1, 0, 0])

needs_64_bits = pytest.mark.skipif(sys.maxsize < 2**32, reason="len() is below 2**31 there")


class Source:
    """Samples are their index, and have a class."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return index

    def column(self, field):
        return CLASSES if field == "y" else None


def asked(epoch, n):
    """A sampler in code; another order, and another length, in every epoch."""
    return (np.arange(n - epoch % 3) * 5 + epoch) % n


KINDS = {
    "plain": {},
    "unshuffled": {"shuffle": False},
    "weighted": {"sampler": {"type": "weighted", "weights": WEIGHTS}},
    "weighted 30": {"sampler": {"type": "weighted", "weights": WEIGHTS, "num_samples": 30}},
    "without": {"sampler": {"type": "weighted_without_replacement", "weights": WEIGHTS}},
    "balanced": {"sampler": {"type": "balanced", "field": "y"}},
    "subset": {"sampler": {"type": "subset", "indices": [3, 1, 4, 1, 5, 9, 2, 6]}},
    "shuffled subset": {
        "sampler": {"type": "subset", "indices": [3, 1, 4, 1, 5, 9, 2, 6], "shuffle": True}
    },
    "sequence": [3, 1, 4, 1, 5, 9, 2, 6, 0],
    "callable": asked,
}

kinds = pytest.mark.parametrize("kind", KINDS)


def loader(kind, *, source=None, resume=None, **options):
    """Gives a loader of a kind of sampler, over samples that are their own index."""
    sampler = KINDS[kind]
    config = {"batch_size": 3, "num_workers": 0, **options}
    if isinstance(sampler, dict):
        config, sampler = {**sampler, **config}, None
    source = Source() if source is None else source
    return Loader(config, source, sampler=sampler, resume=resume)


def lists(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def whole(kind, epoch=0, **options):
    """The global order of an epoch."""
    options |= {"batch_size": 1, "shard": {"index": 0, "count": 1, "remainder": "keep"}}
    with loader(kind, **options) as batches:
        epochs = [[int(batch[0]) for batch in each] for each in batches.epochs(epoch + 1)]
    return epochs[epoch]


class Asked:
    """A sampler that keeps which epochs it was asked for, and in which thread."""

    name = "asked"

    def __init__(self, orders=None, ahead=0):
        self.orders = orders or (lambda epoch, n: range(n))
        self.epochs = []
        self.threads = set()
        self.ahead = ahead
        self.far_ahead = threading.Event()

    def __call__(self, epoch, n):
        self.epochs.append(epoch)
        self.threads.add(threading.current_thread())
        if epoch >= self.ahead:
            self.far_ahead.set()
        return self.orders(epoch, n)


def named(indices):
    """A sampler with a name that does not tell what it gives."""

    def sampler(epoch, n):
        return indices

    return sampler
