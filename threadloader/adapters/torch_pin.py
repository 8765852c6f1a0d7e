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
    """Give what pins batches, and ""; or None, and what is missing for it.

    The option is the config's `pin_memory`: "auto" goes on without torch or CUDA; with True that
    is a ConfigError, which says what is missing.
    """
    missing, install = "", ""
    try:
        import torch

        if not torch.cuda.is_available():
            missing = f"torch {torch.__version__} without a CUDA device"
            install = "use a build and a machine with CUDA"
        # Not public, but nothing else tells before the first batch, which raises CUDA's error. It
        # is also true if the parent has only asked whether there is a device, even in vain.
        elif getattr(torch.cuda, "_is_in_bad_fork", bool)():
            missing = "a fork of a process that has used CUDA, which CUDA does not allow"
            install = "start the process by 'spawn' or 'forkserver'"
        else:
            torch.from_numpy(np.zeros(1))  # raises where torch was built for another numpy
    except Exception as error:  # a broken installation raises what it likes
        if from_signal(error):
            raise
        # Also a folder called torch somewhere on the path, which is imported as an empty module.
        missing, install = f"a torch that does not work ({error})", "install it anew"
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            missing, install = f"no torch ({error})", "pip install torch"
    if not missing:
        return Pinning(lambda batch: _pinned(torch, batch, ""), partial(_empty, torch)), ""
    if option == "auto":
        return None, missing
    hint = f'{install}, or write "auto" to go on with numpy where it is missing'
    raise ConfigError(Problem("/pin_memory", "torch with a CUDA device", missing, hint))


def _empty(torch: Any, shape: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Make an array in page-locked memory, which torch uses again after the last copy from it.

    So torch allocates each array: it alone knows which copies to a device are still reading
    the memory of a tensor that nobody holds any more.
    """
    kind = None if np.dtype(dtype).subdtype else _kind(torch, dtype)
    if kind is None:  # `_pinned`, which knows the field, tells of it
        return np.empty(shape, dtype)
    # What `torch.set_default_device` says must not count here.
    make = partial(torch.empty, shape, dtype=kind, device="cpu", pin_memory=True)
    array: npt.NDArray[Any] = _locked(make).numpy()
    return array


def _locked(make: Callable[[], Any]) -> Any:
    """Have torch make a tensor in page-locked memory; an error says what takes less of it."""
    try:
        return make()
    except RuntimeError as error:  # torch makes a new one each time: it has no notes yet
        if not from_signal(error):
            error.add_note(
                "threadloader: raised while memory was page-locked for a batch; if there is too "
                "little of it, a smaller batch_size, prefetch_batches or num_workers takes less"
            )
        raise


def _kind(torch: Any, dtype: npt.DTypeLike) -> Any:
    """Give torch's dtype for one of numpy's; None where there is none."""
    try:
        return torch.from_numpy(np.empty(0, dtype)).dtype
    except (TypeError, ValueError) as error:
        if from_signal(error):
            raise
        return None


def _held(torch: Any, array: npt.NDArray[Any]) -> Any:
    """Give an array that lies in the page-locked memory of a tensor as a tensor of that memory.

    None where it lies elsewhere, or otherwise than row after row. torch keeps track of a copy to a
    device by the tensor's storage, and uses that again when the copy is done. A tensor that it
    makes of the array has another storage, and a copy from that goes unnoticed.
    """
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    tensor = whole.base
    if not isinstance(tensor, torch.Tensor) or not array.size or not array.flags.carray:
        return None
    kind = _kind(torch, array.dtype)
    if kind is None or not tensor.is_pinned():
        return None
    storage = tensor.untyped_storage()
    begin, rest = divmod(array.__array_interface__["data"][0] - storage.data_ptr(), array.itemsize)
    # Not a view of the tensor: changing one batch in place would count as a change of all.
    made = torch.empty(0, dtype=kind, device="cpu")
    return None if rest else made.set_(storage, begin, array.shape)


def _pinned(torch: Any, part: Any, field: str) -> Any:
    """Pin a batch or a part of one."""
    where = f"field {field}: " if field else ""
    if isinstance(part, np.ndarray):
        if type(part) is not np.ndarray and isinstance(part, np.ma.MaskedArray):
            raise CollateError(
                f"{where}expected an array that torch can hold, got a masked array, whose mask "
                "would be lost; give array.filled(value) and the mask as two fields"
            )
        held = _held(torch, part)
        if held is not None:
            return held
        try:
            # torch warns of memory that it must not write to, and refuses values that lie backwards
            # or between others, as a field of a packed record does.
            fit = part.flags.writeable
            fit &= all(step >= 0 and not step % max(part.itemsize, 1) for step in part.strides)
            part = torch.from_numpy(part if fit else part.copy())
            if part.is_pinned():  # pin_memory() would give it back as it is, with a foreign storage
                part = part.clone()
        except (TypeError, ValueError) as error:
            if from_signal(error):
                raise
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
    if getattr(type(part), "pin_memory", None) is torch.Tensor.pin_memory:  # a subclass may differ
        return _locked(part.pin_memory)
    return part.pin_memory() if hasattr(part, "pin_memory") else part
