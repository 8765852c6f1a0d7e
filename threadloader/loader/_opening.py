"""The source of a config, opened; with what it needs of other programs handed to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from .. import sources

__all__ = ["open_configured"]


def open_configured(
    spec: Mapping[str, Any], base: str | PathLike[str] = ".", root: str | None = None
) -> sources.OpenSource:
    """Open the source of a config, as entering a `Loader` does.

    Args:
        spec: the config's ``source``.
        base: the folder to which relative paths in it are relative.
        root: the config's ``root``.

    Returns:
        The open source; close it in the end.

    Raises:
        SourceError: what it names is missing or damaged.
        ConfigError: its options contradict each other.
    """
    return sources.open_source(spec, Path(base), root, {"image": _image})


def _image(**options: Any) -> Callable[[bytes], Any]:
    """Give the decoder of images; it needs Pillow, so it is imported when it is asked for."""
    from ..adapters.pillow import image_decoder

    return image_decoder(**options)
