"""What goes into a fingerprint, the same on every machine: checksum, rows, values and dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

# Not from `hashlib`, which loads OpenSSL: 5 ms before the first batch, and 3.5 MiB. What is summed
# here is short: some rows, or sizes and times of files.
try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # CPython 3.12 and later
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:  # pragma: no cover - a Python built without its own
        from hashlib import sha256

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["add_values", "checked_rows", "describe_dtype", "extent", "sha256"]

_CHECKED_ROWS = 64
"""Rows that a fingerprint reads: enough to tell two datasets apart, and quick at any size."""


def checked_rows(length: int) -> list[int]:
    """Give the rows that a fingerprint reads, spread evenly from the first to the last.

    >>> checked_rows(3), checked_rows(1000)[:3], checked_rows(1000)[-1]
    ([0, 1, 2], [0, 15, 31], 999)
    """
    count = min(_CHECKED_ROWS, length)
    return [i * (length - 1) // max(count - 1, 1) for i in range(count)]


def add_values(update: Callable[[bytes], object], values: npt.NDArray[Any]) -> None:
    """Feed values into a checksum, independent of the machine.

    Byte order is made little-endian. Bytes between the fields of a record and
    unused bytes of long doubles hold anything: they are left out.
    """
    dtype = values.dtype
    if dtype.names is not None:
        for name in dtype.names:
            add_values(update, values[name])
        return
    if dtype.kind in "fc" and dtype.itemsize > 8 * (1 + (dtype.kind == "c")):
        dtype = np.dtype("f8" if dtype.kind == "f" else "c16")
    with np.errstate(all="ignore"):
        update(values.astype(dtype.newbyteorder("<"), order="C").tobytes())


def describe_dtype(dtype: np.dtype[Any]) -> str:
    """Name a dtype without its byte order: ``f4``, ``M8[D]``, ``{'id': i8, 'box': f4 (4,)}``."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return f"{describe_dtype(base)} {shape}"
    if dtype.names is not None and dtype.fields is not None:
        fields = (f"{name!r}: {describe_dtype(dtype.fields[name][0])}" for name in dtype.names)
        return "{" + ", ".join(fields) + "}"
    return dtype.str[1:]


def extent(sizes: Sequence[int]) -> str:
    """Say how many bytes the files of some data have, in as few words for ten thousand of them.

    >>> extent([70]), extent([70, 20])
    ('70 bytes', '2 files of 90 bytes')
    """
    several = f"{len(sizes)} files of " if len(sizes) > 1 else ""
    return f"{several}{sum(sizes)} bytes"
