"""What tells arrays, dtypes and torch's tensors from others, for `key_of`."""

from __future__ import annotations

import sys
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import from_signal
from ._kinds import said
from ._walk import Walk

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["contents", "module_class", "tell_array", "tell_dtype", "tell_tensor", "tensor_class"]


def tell_array(walk: Walk, array: Any, base: Any) -> None:
    """Say what is in an array or a scalar of numpy's."""
    tell_dtype(walk, array.dtype, base)
    walk.put(str(array.shape))
    if array.dtype.hasobject:  # its own bytes are addresses
        walk.add(np.asarray(array).reshape(-1).tolist())
    else:
        _tell_values(walk, np.asarray(array))


def _tell_values(walk: Walk, array: npt.NDArray[Any]) -> None:
    """Say all values, and not what is beside them, which may be anything."""
    if _is_full(array.dtype):
        walk.put(contents(array))
    elif array.dtype.names is not None:
        for name in array.dtype.names:
            _tell_values(walk, array[name])
    else:  # long doubles of 80 bits
        native = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1)
        values = native.view(np.uint8).reshape(-1, np.dtype(np.longdouble).itemsize)
        walk.put(values[:, :10].tobytes())


def _is_full(dtype: np.dtype[Any]) -> bool:
    """Tell whether values of a dtype fill all of its bytes, each once."""
    if dtype.subdtype is not None:
        return _is_full(dtype.subdtype[0])
    if dtype.names is None or dtype.fields is None:
        return dtype.char not in "gG" or np.finfo(np.longdouble).nmant != 63
    at = 0
    for field, offset in sorted([dtype.fields[name][:2] for name in dtype.names], key=_offset):
        if offset != at or not _is_full(field):
            return False
        at += field.itemsize
    return at == dtype.itemsize


_offset = itemgetter(1)


def tell_tensor(walk: Walk, tensor: Any) -> None:
    """Say what is in a tensor, on any device; an UntoldError where that cannot be read."""
    # Not by its pickle, which has addresses in it.
    try:
        walk.put(str(tensor.dtype), str(tuple(tensor.shape)))  # a nested tensor has no shape
        array = tensor.detach().cpu().resolve_conj().resolve_neg()
        if array.dtype.is_floating_point and array.dtype.itemsize < 4:
            array = array.float()  # the same values; numpy has no bfloat16
        walk.put(contents(np.asarray(array)))
    except Exception as error:
        if from_signal(error):
            raise
        raise walk.untold() from error


def tell_dtype(walk: Walk, dtype: Any, base: Any) -> None:
    """Say all that a dtype is."""
    # The two texts give byte order, size, fields and their offsets.
    walk.put(f"{dtype.str} {said(dtype)}")
    if dtype.metadata:
        walk.add(dict(dtype.metadata))


def contents(array: Any) -> memoryview | bytes:
    """Give bytes of an array or scalar in C order; those of a plain array in order are not copied.

    Values under a mask are among them: code may read those.
    """
    if type(array) not in (np.ndarray, np.memmap) or not array.nbytes:  # an empty one has no view
        return bytes(np.asarray(array).tobytes())
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def tensor_class() -> Any:
    """Give torch's class of tensors, or an empty tuple where nobody has imported it."""
    return getattr(sys.modules.get("torch"), "Tensor", ())


def module_class() -> Any:
    """Give torch's class of modules, likewise: some have no pickle, and a repr without weights."""
    return getattr(sys.modules.get("torch.nn"), "Module", ())
