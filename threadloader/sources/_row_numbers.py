"""Checks indices, each of which must be one of the source's: none ever counts from the end.

Where a source has several parts, `part_of` says which of them has a sample.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["part_of", "row_number", "row_numbers"]


def row_number(index: Any, length: int) -> int:
    """Give an index, a Python int or numpy integer, as a Python int, if 0 .. ``length - 1``.

    Raises:
        IndexError: it is negative or too large; it never counts from the end.
        TypeError: it is not an integer (a bool is not one).

    >>> row_number(2, 3)
    2
    >>> row_number(-1, 3)
    Traceback (most recent call last):
    ...
    IndexError: expected an index of 0 .. 2, got -1
    """
    if isinstance(index, (bool, np.bool_)):
        raise TypeError(f"expected an integer as index, got the bool {index}")
    number = operator.index(index)
    if not 0 <= number < length:
        raise IndexError(_outside(number, length))
    return number


def part_of(index: Any, firsts: Sequence[int]) -> tuple[int, int]:
    """Give the number of the part that has a sample, and the sample's number in it.

    Args:
        index: of the sample, checked as `row_number` does.
        firsts: the index of each part's first sample, and in the end the number of all samples.

    >>> part_of(3, [0, 2, 2, 5])  # the second part has none
    (2, 1)
    """
    number = row_number(index, firsts[-1])
    part = bisect_right(firsts, number) - 1
    return part, number - firsts[part]


def _outside(number: int, length: int) -> str:
    if not length:
        return f"expected no index, since there are no samples, got {number}"
    return f"expected an index of 0 .. {length - 1}, got {number}"


def row_numbers(indices: npt.ArrayLike, length: int) -> npt.NDArray[np.int64]:
    """Give indices as int64 ``(batch,)``, if all are 0 .. ``length - 1``; raise as `row_number`."""
    rows = np.asarray(indices)
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
        got = f"{rows.dtype} of shape {rows.shape}"
        raise TypeError(f"expected integers in one row as indices, got {got}")
    if rows.dtype != np.int64:
        # An unsigned index too large for int64 becomes a negative one, and is refused as that.
        rows = rows.astype(np.int64)
    # Seen as unsigned, a negative index is a huge one: one comparison finds both. argmax
    # takes a third of the time of max.
    unsigned = rows.view(np.uint64)
    if rows.size and unsigned.item(unsigned.argmax()) >= length:
        raise IndexError(_outside(int(rows[unsigned >= length][0]), length))
    return rows
