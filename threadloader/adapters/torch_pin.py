"""Batches as torch tensors in page-locked memory, from which a copy to a CUDA device is fast.

The only file of the loader that imports torch, and only when a config asks for `pin_memory`.
(`torch_loader` is the bench's, for `--compare torch`.)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal

import numpy as np

from ..errors import CollateError, ConfigError, Problem, from_signal

__all__ = ["pinning"]


def pinning(option: Literal[True, "auto"]) -> tuple[Callable[[Any], Any] | None, str]:
    """Give the function that pins a batch, or the reason why there is none.

    Args:
        option: the config's `pin_memory`: True, or "auto" to go on without torch or CUDA.

    Returns:
        The function, which gives a batch of the same structure with a tensor in page-locked
        memory for each array, of its shape and dtype; and "". Or None and what is missing. It
        goes into mappings, lists and tuples. Another object that has a method ``pin_memory`` is
        replaced by what that gives, as PyTorch's own loader does; all else stays as it is.

    Raises:
        ConfigError: with True, torch or CUDA is missing; it says which.
    """
    missing, install = "", ""
    try:
        import torch

        if not torch.cuda.is_available():
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
        return lambda batch: _pinned(torch, batch, ""), ""
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


def _pinned(torch: Any, part: Any, field: str) -> Any:
    """Pin a batch or a part of one."""
    if isinstance(part, np.ndarray):
        try:
            # torch warns of memory that it might write to; pinning copies it all the same.
            part = torch.from_numpy(part if part.flags.writeable else part.copy())
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
