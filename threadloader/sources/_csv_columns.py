"""Columns of a csv file, from texts to arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import by_handler
from ._dtypes import UnfitError, say, to_array

__all__ = ["Categories", "Column", "Numbers", "Texts"]

# What int() and float() take beyond these (underscores, digits of other scripts, "inf",
# "nan") is no number in a file.
_INTEGER = b"0123456789+- \t\n"
_NUMBER = b"0123456789+-.eE \t\n"

_TRUE, _FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")
_BOOLS = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)


class Column:
    """Takes the texts of one column, block after block, for an array of this dtype."""

    def __init__(self, dtype: Any, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._held: npt.NDArray[Any] = np.empty((0, *row_shape), self.dtype)
        self._used = 0  # rows of `_held` that are filled

    def _put(self, rows: npt.NDArray[Any]) -> None:
        """Add rows to the array that is held, which grows as a list does.

        An array for each block would cost more: in a wide table a block has few rows, and each
        array takes 112 bytes beside them.
        """
        end = self._used + len(rows)
        if end > len(self._held):
            shape = (max(end, len(self._held) + len(self._held) // 4), *self._held.shape[1:])
            self._held.resize(shape, refcheck=False)
        self._held[self._used : end] = rows
        self._used = end

    def add(self, cells: Sequence[str]) -> None:
        """Take some more rows.

        An UnfitError names the first one that is no value; if all are, the first out of range.
        """
        raise NotImplementedError  # pragma: no cover - each column has its own

    def finish(self) -> npt.NDArray[Any]:
        """Give the array of all rows; the first dimension counts them."""
        self._held.resize((self._used, *self._held.shape[1:]), refcheck=False)
        return self._held


class Numbers(Column):
    """Numbers and booleans, of one of `DTYPES`.

    ``fill`` is the value of each text in ``missing``; None: those texts mean nothing special.
    A fill that the dtype does not hold is an UnfitError.
    """

    def __init__(
        self, dtype: np.dtype[Any], missing: Iterable[str] = (), fill: float | None = None
    ) -> None:
        super().__init__(dtype)
        self._missing = frozenset() if fill is None else frozenset(missing)
        self._fill = None if fill is None else filler(fill, dtype)

    def add(self, cells: Sequence[str]) -> None:
        """Take some more rows, as `Column.add` says."""
        if self._missing.isdisjoint(cells):
            self._put(self._converted(cells))
            return
        present = [row for row, cell in enumerate(cells) if cell not in self._missing]
        array = np.full(len(cells), self._fill, self.dtype)
        try:
            array[present] = self._converted([cells[row] for row in present])
        except UnfitError as error:
            raise UnfitError(error.expected, error.got, present[error.row]) from error
        self._put(array)

    def _converted(self, cells: Sequence[str]) -> npt.NDArray[Any]:
        values = self._parsed(cells)
        if values is None:
            row = [self._parsed([cell]) for cell in cells].index(None)
            expected = {"b": "true, false, 1 or 0", "f": "a number"}.get(self.dtype.kind)
            if expected is None:  # Python refuses thousands of digits, which no dtype holds
                digits = re.fullmatch(r"[ \t]*[+-]?0*[1-9][0-9]{20,}[ \t]*", cells[row])
                expected = f"an integer of {self.dtype}" if digits else "an integer"
            raise UnfitError(expected, show_cell(cells[row]), row)
        try:
            return to_array(values, self.dtype)
        except UnfitError as error:
            raise UnfitError(error.expected, show_cell(cells[error.row]), error.row) from error

    def _parsed(self, cells: Sequence[str]) -> list[Any] | None:
        """Give the values of texts; None if any text is not a value."""
        joined = "\n".join(cells)
        is_float = self.dtype.kind == "f"
        try:
            if self.dtype.kind == "b":
                return [_BOOLS[cell.strip(" \t")] for cell in cells]
            # One look at all texts takes a fifth of the time of a pattern for each.
            if (
                not joined.isascii()
                or joined.encode().translate(None, _NUMBER if is_float else _INTEGER)
                or joined.count("\n") >= max(len(cells), 1)
            ):
                return None
            return list(map(float if is_float else int, cells))
        except (ValueError, KeyError) as error:
            if by_handler(error):
                raise
            return None


class Categories(Column):
    """Texts out of a list, as their places in it: int64.

    Missing ones are as in `Numbers`, but a text that is in the list is its place, never missing.
    """

    def __init__(
        self, names: Sequence[str], missing: Iterable[str] = (), fill: float | None = None
    ) -> None:
        super().__init__(np.int64)
        self._numbers = {name: number for number, name in enumerate(names)}
        if fill is not None:
            number = int(filler(fill, self.dtype))
            self._numbers = dict.fromkeys(missing, number) | self._numbers

    def add(self, cells: Sequence[str]) -> None:
        """Take some more rows, as `Column.add` says."""
        numbers = list(map(self._numbers.get, cells))
        if None in numbers:
            row = numbers.index(None)
            listed = ", ".join(map(repr, list(self._numbers)[:10]))
            raise UnfitError(f"one of {listed}", show_cell(cells[row]), row)
        self._put(np.array(numbers, np.int64))


class Texts(Column):
    """Texts, held as UTF-8 without an object for each.

    `finish` gives an array of shape ``(rows, 2)``: where each text begins and ends in `joined`,
    which from then on holds all texts, one after the other.
    """

    def __init__(self) -> None:
        super().__init__(np.int64, (2,))
        self._texts = bytearray()
        self.joined = b""

    def add(self, cells: Sequence[str]) -> None:
        """Take some more rows."""
        encoded = [cell.encode() for cell in cells]
        ends = np.fromiter(accumulate(map(len, encoded), initial=len(self._texts)), np.int64)
        self._texts += b"".join(encoded)
        self._put(np.stack([ends[:-1], ends[1:]], axis=1))

    def finish(self) -> npt.NDArray[Any]:
        """Give where each text begins and ends in `joined`."""
        self.joined, self._texts = bytes(self._texts), bytearray()
        return super().finish()


def filler(fill: float, dtype: np.dtype[Any]) -> Any:
    """Give the number for a missing value as a numpy scalar of this dtype.

    A float dtype takes the number nearest to a fraction: no float is exactly 0.1. For bool,
    ``fill`` is 0 or 1, as in a cell. If the dtype does not hold it, or a whole number not
    exactly, that is an UnfitError.
    """
    if isinstance(fill, float) and dtype.kind != "f" and fill.is_integer():
        fill = int(fill)
    if (dtype.kind == "f" and fill != fill) or (dtype.kind == "b" and fill in (0, 1)):
        return dtype.type(fill)
    if dtype.kind == "b":
        raise UnfitError("0 or 1 of bool", say(fill))
    value = to_array([fill], dtype)[0]
    # As Python's integers, which have no bound: numpy would round one to compare the two.
    if dtype.kind == "f" and int(fill) == fill and int(value) != int(fill):
        raise UnfitError(f"a number that {dtype} holds exactly", say(fill))
    return value


def show_cell(cell: str) -> str:
    """Name a text in a few words."""
    return f"{cell[:40]!r}{'...' if len(cell) > 40 else ''}" if cell else "an empty field"
