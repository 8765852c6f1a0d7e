"""From the option `cache` to a source whose samples come from one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import sources
from ..config import LoaderConfig, bytes_of
from ..errors import ConfigError, Problem

if TYPE_CHECKING:
    from ..cache import Cache, Cached

__all__ = ["cached_source", "stamp_of"]


def stamp_of(config: LoaderConfig, base: Path) -> str:
    """Give the stamp of the source's files, where samples are kept for the next run."""
    if not config.cache or config.cache["folder"] is None or config.source is None:
        return ""
    return sources.stamp(config.source, base, config.root)


def cached_source(
    config: LoaderConfig,
    base: Path,
    source: Any,
    length: int,
    transform: Callable[..., Any] | None,
    stamp: str,
) -> tuple[Cached, Cache]:
    """Open the cache of a config.

    Args:
        config: it has the option `cache`.
        base: the folder that relative paths are relative to.
        source: the open source.
        length: how many samples it has.
        transform: what is done to each sample before it is kept, or None.
        stamp: what `stamp_of` gave before the source was opened.

    Returns:
        The source to read samples from, already transformed; and the cache, to be closed.

    Raises:
        ConfigError: the folder cannot be used, or the source cannot be told from another.
    """
    from ..cache import Cached, key_of, open_cache  # imported when it is asked for

    spec = dict(config.cache or {})
    if spec["max_bytes"] is not None:
        spec["max_bytes"] = bytes_of(spec["max_bytes"])
    if spec["folder"] is not None:
        if config.source is None and not sources.has_fingerprint(source):
            raise ConfigError(
                Problem(
                    "/cache/folder",
                    "a source that says what its data is",
                    f"{type(source).__name__} without a method fingerprint()",
                    "write one that gives another str when the data changes, or keep samples "
                    'in memory ("max_bytes")',
                )
            )
        sources.inside(base / spec["folder"], None if config.root is None else base / config.root)
    cache = open_cache(
        spec,
        base,
        length,
        lambda: key_of(sources.fingerprint(source), stamp, config.source, transform),
    )
    make = source.__getitem__
    if transform is not None:
        read, prepare = make, transform

        def make(index: int) -> Any:
            return prepare(read(index))

    return Cached(cache, source, make), cache
