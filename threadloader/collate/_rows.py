"""Large arrays of samples, written straight into their rows of the batch as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._stack import Path, kind_of, stack

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Rows", "RowsMaker"]

LARGE_BYTES = 128 << 10
"""Arrays from this size on are written into the batch as they come. Below, looking for them costs
more than the copy that is saved. Measured: docs/measurements.md."""

Empty: TypeAlias = "Callable[[tuple[int, ...], np.dtype[Any]], npt.NDArray[Any]]"
"""Makes memory of a shape and dtype: `numpy.empty`, or what uses memory again."""


class RowsMaker:
    """Makes `Rows` for batch after batch, in memory of ``empty``, as long as that is useful."""

    def __init__(self, empty: Empty = np.empty) -> None:
        self._empty = empty
        # Set to False, for good, by a worker whose sample has no large array, if no other sample
        # of the batch has had one so far.
        self.useful = True

    def rows(self, count: int) -> Rows | None:
        """Give the rows of a batch; None where samples are small."""
        return Rows(count, self) if self.useful else None


class Rows:
    """The rows of one batch, filled by several threads, each row by one of them."""

    def __init__(self, count: int, maker: RowsMaker) -> None:
        self._count = count
        self._maker = maker
        # By the path of a field: its memory, and which of its rows are written. A field is
        # added by single operations of the dicts; a row is written by the one worker that has it.
        self._memories: dict[Path, npt.NDArray[Any]] = {}
        self._written: dict[Path, npt.NDArray[np.bool_]] = {}

    def put(self, row: int, sample: Any) -> Any:
        """Write a sample's large arrays into the batch; give the sample with views of them."""
        for written in self._written.copy().values():
            written[row] = False  # of a run of this row that was cut short, or tried again
        lighter = self._replaced(row, sample, ())
        if not self._memories:
            self._maker.useful = False
        return lighter

    def _replaced(self, row: int, value: Any, path: Path) -> Any:
        if type(value) is np.ndarray:
            large = value.nbytes >= LARGE_BYTES and value.ndim and kind_of(value) is not None
            # Not records, between whose fields nothing would be written.
            return self._write(row, value, path) if large and not value.dtype.names else value
        # Plain containers, and not very deep: all else is left to stack.
        if len(path) < 2 and type(value) is dict:
            return {name: self._replaced(row, each, (*path, name)) for name, each in value.items()}
        if len(path) < 2 and type(value) is tuple:
            return tuple(self._replaced(row, each, (*path, at)) for at, each in enumerate(value))
        return value

    def _write(self, row: int, value: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
        memory = self._memories.get(path)
        if memory is None:
            made = self._maker._empty((self._count, *value.shape), value.dtype)
            # Another worker may have been faster; then what this one made is let go. The memory
            # comes last: a worker that finds it finds the field in `_written`, too.
            self._written.setdefault(path, np.zeros(self._count, np.bool_))
            memory = self._memories.setdefault(path, made)
        if memory.shape[1:] != value.shape or memory.dtype != value.dtype:
            return value
        memory[row] = value
        self._written[path][row] = True
        view: npt.NDArray[Any] = memory[row]
        return view

    def stack(self, samples: Sequence[Any]) -> Any:
        """Stack the samples that `put` gave, in the order of their rows, as `stack` does.

        Fields whose rows are all written are not copied again.
        """
        whole = {
            path: memory
            for path, memory in self._memories.items()
            if bool(self._written[path].all())
        }
        return stack(samples, whole)
