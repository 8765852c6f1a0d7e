"""A config that goes to a loader apart from its file."""

from __future__ import annotations

from pathlib import Path

from ._recipe import Loader

__all__ = ["based"]


def based(loader: Loader, base: Path) -> Loader:
    """Give a loader the folder to which relative paths in its config are relative.

    A `LoaderConfig` does not know the folder of the file that it was read from, so that a
    loader of one starts them at the current folder.

    Args:
        loader: a loader that was not entered yet.
        base: the folder.

    Returns:
        The same loader.
    """
    loader._base = base
    return loader
