"""A pool that lends memory for the smallest arrays too, arrays of it, and the blocks it makes."""

import numpy as np

from threadloader import buffers
from threadloader.buffers import Pool

SHAPE = (8, 32)  # of float32: 1 KiB
SIZE = 1024


def small_pool(max_bytes=1 << 20):
    """A pool that lends memory for the smallest arrays too."""
    return Pool(max_bytes, least_bytes=1)


def idle_bytes(pool):
    """Bytes that wait to be used again."""
    return sum(shelf.size * len(shelf.ended) for shelf in pool._shelves or ())


def filled(pool, value, shape=SHAPE, dtype=np.float32):
    """An array of the pool that has been written to."""
    array = pool.empty(shape, dtype)
    array[...] = value
    return array


def filler(pool, count=8):
    """Writes over all that the pool would give to the next ones who ask."""
    return [filled(pool, -1.0) for _ in range(count)]


def sizes_made(monkeypatch):
    """Gives a list of the sizes of the blocks that pools make from now on."""
    sizes = []

    class Counted(buffers._Block):
        __slots__ = ()

        def __init__(self, size):
            sizes.append(size)
            super().__init__(size)

    monkeypatch.setattr(buffers, "_Block", Counted)
    return sizes
