"""Samples that a folder keeps: filled in, read again, and counted."""

import numpy as np
from samples import same

from threadloader.cache import Folder

COUNT = 6


def made(index):
    """The sample of an index; samples differ in size, so that a record fits nowhere else."""
    return {"x": np.arange(index, index + 3 + index), "name": f"sample {index}", "y": index}


def filled(folder, indices=range(COUNT), key="key", **options):
    """Keeps some samples and closes."""
    cache = Folder(folder, key, COUNT, **options)
    for index in indices:
        cache.get(index, made)
    cache.close()
    return cache.stats()


def read(folder, key="key", **options):
    """Reads every sample through a new cache; gives its numbers. A wrong sample fails."""
    cache = Folder(folder, key, COUNT, **options)
    try:
        for index in range(COUNT):
            assert same(made(index), cache.get(index, made))
        return cache.stats()
    finally:
        cache.close()


def files(folder, suffix=""):
    return sorted(path for path in folder.rglob(f"*{suffix}") if path.is_file())


def numbers(stats):
    return stats.hits, stats.misses, stats.damaged


class Clock:
    """Stands still until it is set."""

    now = 0.0

    def __call__(self):
        return self.now
