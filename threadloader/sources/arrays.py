"""Arrays in memory (or mapped into it) as a source of samples.

One array, or several of equal first length side by side in a tuple, a named tuple or a dict. A
whole batch is taken with one `numpy.take` a field, into memory that the caller may provide.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._array_fields import checked, common_length
from ._closing import closed_error
from ._fingerprint import add_values, checked_rows, describe_dtype, sha256
from ._row_numbers import row_number, row_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ArraySource", "Empty", "stays_array"]

_Array: TypeAlias = "npt.NDArray[Any]"

Empty = Callable[..., _Array]
"""``empty(shape, dtype) -> array``: what makes the arrays of a batch; `numpy.empty` is one."""


def stays_array(dtype: np.dtype[Any]) -> bool:
    """Tell whether a single value of this dtype stays an array: no numpy scalar carries it.

    A scalar would cut a string to its own width, and swap a foreign byte order. The dtype alone is
    looked at, since a value may be as large as a damaged file says.
    """
    return dtype.kind in "SU" or (dtype.kind != "V" and not dtype.isnative)


class ArraySource:
    """Samples are the rows of arrays.

    Args:
        data: an array of shape ``(n, ...)``, or a tuple, named tuple or dict of such arrays
            with the same ``n``, which the attribute ``arrays`` lists. They are not copied: a
            `numpy.memmap` stays a map of its file.

    Raises:
        ConfigError: something else, naming the field that does not fit.

    >>> source = ArraySource({"x": np.arange(6).reshape(3, 2), "y": np.array([7, 8, 9])})
    >>> source[1]["x"]
    array([2, 3])
    >>> source.take([2, 0])["y"]
    array([9, 7])
    """

    def __init__(self, data: Any) -> None:
        self._kind, names, fields, self._build = _parts(data)
        self._labels = ["the array"] if names is None else [f"field {name!r}" for name in names]
        self.arrays = [
            checked(self._kind, label, field)
            for label, field in zip(self._labels, fields, strict=True)
        ]
        self._length = common_length(self._labels, self.arrays)
        # Where a field's array is.
        self._at: dict[Any, int] = {name: at for at, name in enumerate(names or ())}
        if isinstance(data, tuple):  # a named one has its fields by position, too
            self._at |= {at: at for at in range(len(data))}
        # Cuts fields into a list of batches, along a further first axis, that of the batches.
        self._cut = partial(_built, self._build)
        if isinstance(data, Mapping):
            self._cut = partial(_dicts, list(data))
        self._boxed = [array.ndim == 1 and stays_array(array.dtype) for array in self.arrays]
        # What `_gathered` needs of each array, looked up once.
        self._fields = [
            (array, _is_direct(array), array.shape[1:], array.dtype) for array in self.arrays
        ]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        """Give one sample, in memory of its own.

        Returns:
            An array of shape ``sample_shape`` and the array's dtype, or a tuple,
            named tuple or dict of such: as the data came. A single value is a
            numpy scalar; where that cannot carry the dtype (strings of a fixed
            width, a foreign byte order) it is an array of shape ``()``, and
            ``.item()`` gives the plain value.
        """
        row = row_number(index, self._length)
        return self._build(
            [
                array[row, ...].copy() if boxed else array[row].copy()
                for array, boxed in zip(self.arrays, self._boxed, strict=True)
            ]
        )

    def take(self, indices: npt.ArrayLike) -> Any:
        """Give a batch: the same as the samples of these indices, stacked, newly made.

        Args:
            indices: ``(batch,)``, integers.

        Returns:
            Arrays ``(batch, *sample_shape)``, dtype of the data, C-contiguous; in a tuple, named
            tuple or dict as the data came.
        """
        return self.take_into(indices, np.empty)

    def take_into(self, indices: npt.ArrayLike, empty: Empty) -> Any:
        """Give a batch as `take` does, in memory that ``empty(shape, dtype)`` makes.

        It is not called for an array that is not C-contiguous and aligned: new memory from numpy is
        faster there.
        """
        return self._build(self._gathered(row_numbers(indices, self._length), empty))

    def _gathered(self, rows: npt.NDArray[np.int64], empty: Empty) -> list[_Array]:
        """Give of each array the rows that `rows` numbers, in its shape; all are in range."""
        places = rows.astype(np.intp, copy=False)  # `take` refuses int64 on a 32-bit system
        gathered: list[_Array] = []
        for array, direct, shape, dtype in self._fields:
            if direct:
                field = empty(rows.shape + shape, dtype)
                # "clip" spares the buffer that "raise" has beside the result.
                array.take(places, 0, field, "clip")
            else:
                # The layout of what fancy indexing gives is left open by numpy.
                field = np.ascontiguousarray(array[places])
            gathered.append(field)
        return gathered

    def take_batches(
        self, indices: npt.NDArray[np.int64], empty: Empty
    ) -> Callable[[int, int], list[Any]]:
        """Check the indices of many batches at once; give a function that makes some together.

        The indices are int64, C-contiguous, shape (batches, batch). The function,
        ``(first, last) -> batches``, makes the batches from number ``first`` to before ``last``:
        each as `take` gives it, but as views of what `take_into` gives for all of them.

        >>> source = ArraySource({"x": np.array([5, 6, 7])})
        >>> source.take_batches(np.array([[2, 0], [1, 1], [0, 2]]), np.empty)(1, 3)
        [{'x': array([6, 6])}, {'x': array([5, 7])}]
        """
        row_numbers(indices.reshape(-1), self._length)
        gathered, cut = self._gathered, self._cut
        return lambda first, last: cut(gathered(indices[first:last], empty))

    in_memory = True
    """A batch costs what its rows cost: several calls take no longer than one for all."""

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample, so that small batches can be gathered together."""
        return sum(array[:1].nbytes for array in self.arrays)

    def column(self, field: str | int) -> _Array | list[Any] | None:
        """Give a field of every sample, not copied; None where it is not kept apart.

        >>> ArraySource((np.zeros((2, 9)), np.array([7, 8]))).column(1)
        array([7, 8])
        """
        return self.arrays[self._at[field]] if field in self._at else None

    def _let_go(self, path: object) -> None:
        """Free the arrays, which were read from a file; reads are a ClosedError from now on."""
        self._build = self._cut = partial(_closed, path)
        self.arrays, self._fields, self._boxed, self._at = [], [], [], {}

    def fingerprint(self) -> str:
        """Tell this data from other data: length, dtypes, shapes, checksum of 64 rows.

        The rows are spread evenly from the first to the last. The same on every
        platform and numpy version; byte order and layout in memory do not count.

        >>> ArraySource({"x": np.zeros((10, 3))}).fingerprint()
        "dict, 10 samples, field 'x' f8 (3,), sha256 2dfba633817046c7..."
        """
        self._build(self.arrays)  # a ClosedError once they have been let go
        rows = checked_rows(self._length)
        digest = sha256()
        for array in self.arrays:
            for row in rows:
                add_values(digest.update, array[row : row + 1])
        fields = ", ".join(
            f"{label} {describe_dtype(array.dtype)} {array.shape[1:]}"
            for label, array in zip(self._labels, self.arrays, strict=True)
        )
        return f"{self._kind}, {self._length} samples, {fields}, sha256 {digest.hexdigest()}"


def _dicts(names: Sequence[Any], fields: Sequence[_Array]) -> list[Any]:
    """Cut fields along their first axis, into dicts.

    A batch of two fields takes 0.5 us, and 1.3 if each is a dict of its names and values zipped.
    """
    batches: list[Any] = [{} for _ in fields[0]]
    for name, field in zip(names, fields, strict=True):
        for batch, rows in zip(batches, field, strict=True):
            batch[name] = rows
    return batches


def _built(build: Callable[[Sequence[Any]], Any], fields: Sequence[_Array]) -> list[Any]:
    """Cut fields along their first axis; `build` makes a batch of one part of each."""
    return list(map(build, zip(*fields, strict=True)))


def _closed(path: object, rows: object) -> Any:
    """Raise a ClosedError: what a closed source has in place of what puts rows together."""
    raise closed_error(path)


def _is_direct(array: _Array) -> bool:
    """Tell whether `numpy.take` goes from this array straight into memory that it is given."""
    # Else numpy first copies the *whole* array, or (for strings of no width) does not write there.
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.itemsize > 0


def _parts(
    data: Any,
) -> tuple[str, Sequence[Any] | None, list[Any], Callable[[Sequence[Any]], Any]]:
    """Take data apart: its kind, the fields' names, the fields, and how to put rows together.

    The kind is ``array``, ``tuple``, ``dict`` or the name of the named tuple. The names are those
    of a dict or a named tuple, positions in another tuple, and None for an array alone.
    """
    if isinstance(data, Mapping):
        names = list(data)
        return "dict", names, list(data.values()), lambda row: dict(zip(names, row, strict=True))
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data).__name__, data._fields, list(data), data._make  # type: ignore[attr-defined]
    if isinstance(data, tuple):
        return "tuple", range(len(data)), list(data), tuple
    return "array", None, [data], operator.itemgetter(0)
