"""What a call gave, as a digest.

A *call* is a function without arguments that reads a sample, transforms one or collates some,
each time on fresh copies of the same, and gives what came of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import ends, from_signal
from ..fingerprint import digest

__all__ = ["RAISED", "Call", "result", "seen"]

Call = Callable[[], Any]

BLOCKS, BLOCK_BYTES = 8, 1 << 20
"""How many blocks of memory of each size are filled anew between two calls, and of how many bytes
in all, but at least one block. Chosen: numpy and the C library hand out the blocks that were freed
last again, of small sizes seven."""

RAISED = b"raised "
"""How the result of a call that raised begins; the name of the exception follows."""


def seen(value: Any) -> bytes:
    """Give the digest of a value; b"" for one that cannot be compared."""
    try:
        return digest(value)
    except TypeError as error:
        if from_signal(error):
            raise
        return b""


def result(call: Call) -> bytes:
    """Give the digest of what a call gives; if it raises, `RAISED` and the exception's name.

    Free memory of the sizes of its arrays is overwritten afterwards: `numpy.empty` may hand it to
    the next call, which must not find there what this one has left.
    """
    try:
        value = call()
        found = seen(value)
        sizes = set(_sizes(value)) if found else set()
    except BaseException as error:  # whatever the data does to its reader
        if ends(error):
            raise
        return RAISED + type(error).__name__.encode()
    del value  # its memory is free now, unless somebody keeps it
    for size in sizes:
        _fill(size)
    return found


def _sizes(value: Any) -> Iterator[int]:
    """Give the bytes of the memory of each array in a value of which there is a digest."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        yield value.nbytes
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _sizes(item)


_fillings = itertools.count()


def _fill(size: int) -> None:
    """Fill free memory with another byte than the last time."""
    count = max(1, min(BLOCKS, BLOCK_BYTES // max(1, size)))
    filling = next(_fillings) % 256
    _ = [np.full(size, filling, np.uint8) for _ in range(count)]  # free again with the return
