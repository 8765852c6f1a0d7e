"""`based` tells a loader which folder its config's relative paths start at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config import Base
from ._loader import Loader

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["based"]


def based(loader: Loader, base: Base | Path, *, opened: bool = False) -> Loader:
    """Give a loader the folder to which relative paths in its config are relative.

    A `LoaderConfig` does not know the folder of the file that it was read from, so that a
    loader of one starts them at the current folder.

    Args:
        loader: a loader that was not entered yet.
        base: the folder.
        opened: whether the source that the loader was given is that of its config, opened
            before: what a cache keeps of it is the same.

    Returns:
        The same loader.
    """
    loader._base = base if isinstance(base, Base) else Base(base)
    loader._opened = opened
    return loader
