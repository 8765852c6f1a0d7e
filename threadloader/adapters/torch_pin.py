"""Batches as torch tensors in page-locked memory, from which a copy to a CUDA device is fast.

The only file of the loader that imports torch, and only when a config asks for `pin_memory`.
(`torch_loader` is the bench's, for `--compare torch`.)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..errors import CollateError, ConfigError, Problem, from_signal

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Pinning", "pinning"]


class Pinning(NamedTuple):
    """How batches come into page-locked memory.

    Attributes:
        pin: gives a batch of the same structure with a tensor in page-locked memory for each
            array, of its shape and dtype. It goes into mappings, lists and tuples. Another
            object that has a method ``pin_memory`` is replaced by what that gives, as PyTorch's
            own loader does; all else stays as it is.
        empty: ``empty(shape, dtype) -> array``, as `numpy.empty`: where torch has the dtype the
            array is page-locked, and `pin` makes a tensor of it, or of consecutive rows of it,
            without a copy.
    """

    pin: Callable[[Any], Any]
    empty: Callable[..., npt.NDArray[Any]]


def pinning(option: Literal[True, "auto"]) -> tuple[Pinning | None, str]:
    """Give what pins batches, or the reason why there is nothing that could.

    Args:
        option: the config's `pin_memory`: True, or "auto" to go on without torch or CUDA.

    Returns:
        It, and ""; or None and what is missing.

    Raises:
        ConfigError: with True, torch or CUDA is missing; it says which.
    """
    missing, install = "", ""
    try:
        import torch

        if torch.cuda.is_available():
            torch.from_numpy(np.zeros(1))  # raises where torch was built for another numpy
        else:
            missing = f"torch {torch.__version__} without a CUDA device"
            install = "use a build and a machine with CUDA"
    except ImportError as error:
        missing, install = f"no torch ({error})", "pip install torch"
    except Exception as error:  # a broken installation raises what it likes
        if from_signal(error):
            raise
        # A folder of that name somewhere on the path is imported, too, as a module of nothing.
        missing, install = f"a torch that does not work ({error})", "install it anew"
    if not missing:
        return Pinning(lambda batch: _pinned(torch, batch, ""), partial(_empty, torch)), ""
    if option == "auto":
        return None, missing
    raise ConfigError(
        Problem(
            "/pin_memory",
            "torch with a CUDA device",
            missing,
            f'{install}, or write "auto" to go on with numpy where it is missing',
        )
    )


def _empty(torch: Any, shape: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Make an array in page-locked memory, which torch uses again after the last copy from it.

    Each is torch's own to allocate: it alone knows which copies to a device are still reading
    the memory of a tensor that nobody holds any more.
    """
    try:
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
    except (TypeError, ValueError):  # told of by `_pinned`, which knows the field
        return np.empty(shape, dtype)
    array: npt.NDArray[Any] = torch.empty(shape, dtype=kind, pin_memory=True).numpy()
    return array


def _held(torch: Any, array: npt.NDArray[Any]) -> Any:
    """Give the page-locked memory of a tensor that an array lies in, as a tensor like the array.

    None where it lies elsewhere. The tensor must be of that memory, and not one that torch makes
    of the array: such a one is not known to whatever waits for copies from it.
    """
    whole = array.base if isinstance(array.base, np.ndarray) else array
    tensor = whole.base
    if not isinstance(tensor, torch.Tensor) or whole.dtype != array.dtype:
        return None
    if not array.flags.carray or not tensor.is_pinned():
        return None
    # The tensor may be one of the user's, of a part of its storage.
    begin = tensor.storage_offset() + (_address(array) - _address(whole)) // array.itemsize
    strides = [stride // array.itemsize for stride in array.strides]
    return tensor.as_strided(array.shape, strides, begin)


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _pinned(torch: Any, part: Any, field: str) -> Any:
    """Pin a batch or a part of one."""
    if isinstance(part, np.ndarray):
        held = _held(torch, part)
        if held is not None:
            return held
        try:
            # torch warns of memory that it must not write to, and refuses rows that lie backwards.
            fit = part.flags.writeable and min(part.strides, default=0) >= 0
            part = torch.from_numpy(part if fit else part.copy())
        except (TypeError, ValueError) as error:
            where = f"field {field}: " if field else ""
            raise CollateError(
                f"{where}expected an array that torch can hold, got dtype {part.dtype} ({error}); "
                "convert it in the transform or the collate, or load without pin_memory"
            ) from error
    if isinstance(part, Mapping):
        named = {name: _pinned(torch, item, f"{field}[{name!r}]") for name, item in part.items()}
        if type(part) is dict or not isinstance(part, MutableMapping):
            return named
        other: Any = copy.copy(part)  # with all that such a class keeps beside its fields
        other.update(named)
        return other
    if isinstance(part, tuple | list):
        items = [_pinned(torch, item, f"{field}[{number}]") for number, item in enumerate(part)]
        if isinstance(part, list):
            return items
        return type(part)._make(items) if hasattr(part, "_make") else tuple(items)
    return part.pin_memory() if hasattr(part, "pin_memory") else part
