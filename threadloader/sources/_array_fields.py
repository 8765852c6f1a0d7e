"""Whether what a user gives as arrays is fit to be fields of samples, and what to give instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..errors import ConfigError, Problem

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["checked", "common_length", "is_sparse"]

# numpy.record arrays and maps of a file hold what a plain array holds; any other
# subclass adds something (a mask, a unit, another meaning of []) that would be lost.
_PLAIN_TYPES = (np.ndarray, np.memmap, np.recarray)

_Array: TypeAlias = "npt.NDArray[Any]"


_STORED = ("chunks", "chunking", "chunk_layout")
"""Attributes of arrays that lie in files: those of h5py and zarr, netCDF4, tensorstore."""


def is_sparse(data: Any) -> bool:
    """Tell whether ``data`` is a sparse matrix of scipy; scipy need not be installed.

    A subclass of one that has a ``len()`` of its own does not count: it may well give samples.
    """
    for each in type(data).__mro__:
        if "__len__" in vars(each):
            # The dok format has a len(), too: how many values are not 0.
            known = str(each.__module__).startswith("scipy.sparse.")
            return known or {"nnz", "toarray"} <= vars(each).keys()
    return False


def checked(kind: str, label: str, field: Any) -> _Array:
    """Give the field as a plain array, not copied; raise `ConfigError` if it is not fit for one."""

    def refusal(expected: str, got: str, hint: str) -> ConfigError:
        return ConfigError(Problem("source", f"{expected} ({label})", got, hint))

    name = type(field).__name__
    samples = "" if kind in ("array", "dict") else ", or list(...) of a tuple of samples"
    if type(field) not in _PLAIN_TYPES:
        # Not asked before: newer numpy imports `numpy.ma` at this, 1.2 MiB.
        if isinstance(field, np.ma.MaskedArray):
            hint = "the mask would be lost: give array.filled(value) and the mask as two fields"
            raise refusal("an array without a mask", name, hint)
        more = ", without what its class adds" if isinstance(field, np.ndarray) else samples
        if any(hasattr(type(field), name) for name in _STORED):
            more = f" if it fits into memory, else an object of your own for its samples{samples}"
        dense = "its toarray()" if is_sparse(field) else f"numpy.asarray(...) of it{more}"
        if hasattr(type(field), "set_auto_mask"):  # of netCDF4, whose mask that would lose
            dense = f"its [:], which shows what is masked,{more}"
        if field is None or np.isscalar(field):
            dense = "one value for each sample, or leave it out"
        elif isinstance(field, Mapping):
            dense = "what is in it as fields of their own, or a list of samples"
        if hasattr(field, "__getitems__"):  # a source, as those of a Hugging Face DatasetDict
            dense = "it alone: it has samples of its own"
        raise refusal("a numpy array", name, f"give {dense}")
    if field.dtype.hasobject:
        hint = "convert it with astype (which makes a text of None, too, where it makes texts), or "
        hint += "give a list of samples"
        raise refusal("numbers, or strings of a fixed width", f"dtype {field.dtype}", hint)
    if field.ndim == 0:
        hint = f"give one sample a row{samples}"
        raise refusal("at least one dimension, the samples", "an array of shape ()", hint)
    return np.asarray(field)


def common_length(labels: Sequence[str], arrays: Sequence[_Array]) -> int:
    """Give how many samples the fields have; raise `ConfigError` if that differs, or none is."""
    if not arrays:
        raise ConfigError(Problem("source", "at least one array", "none", "name the fields"))
    for label, array in zip(labels, arrays, strict=True):
        if len(array) != len(arrays[0]):
            expected = "the same number of samples in each field"
            got = f"{len(arrays[0])} in {labels[0]} and {len(array)} in {label}"
            hint = (
                "the first dimension counts the samples; "
                "for samples of differing length give a list of arrays"
            )
            raise ConfigError(Problem("source", expected, got, hint))
    return len(arrays[0])
