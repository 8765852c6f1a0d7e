"""Loaders whose config is of another folder than the current one: `based`, `again`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config import Base

if TYPE_CHECKING:
    from pathlib import Path

    from ._loader import Loader

__all__ = ["again", "based"]


def based(loader: Loader, base: Base | Path, *, opened: str | None = None) -> Loader:
    """Give a loader the folder to which relative paths in its config are relative.

    A `LoaderConfig` does not know the folder of the file that it was read from, so that a
    loader of one starts them at the current folder.

    Args:
        loader: a loader that was not entered yet.
        base: the folder.
        opened: for a loader that was given the source of its config, opened before: what
            `stamp_of` gave before that, so that a cache finds what it keeps of it. None for others.

    Returns:
        The same loader.
    """
    loader._base = base if isinstance(base, Base) else Base(base)
    loader._opened = opened if isinstance(opened, str) else None  # older pickles have a bool
    return loader


def again(
    kind: type[Loader],
    options: Mapping[str, Any],
    given: Mapping[str, Any],
    base: Base,
    opened: str | None,
) -> Loader:
    """Make a loader anew, of what another was made of. A pickle holds the name of this function.

    Args:
        kind: its class.
        options: the options as they were given.
        given: what was given in code.
        base: as of `based`.
        opened: as of `based`.

    Raises:
        ConfigError: an option is wrong.
    """
    return based(kind(options, **given), base, opened=opened)
