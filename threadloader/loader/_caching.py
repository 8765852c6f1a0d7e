"""From the option `cache` to a source whose samples come from one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from .. import sources
from ..config import Base, LoaderConfig, bytes_of
from ..errors import ConfigError, Problem
from ..jobs import samples_of
from ..sources import ArraySource

if TYPE_CHECKING:
    from ..cache import Cache, Cached

__all__ = ["cached_source", "check_folder", "counted", "stamp_of"]

_BYTES_AT_ONCE = 64 << 20
"""How much of an array is summed up in a call. Chosen: a Ctrl-C waits a fifth of a second."""


def stamp_of(config: LoaderConfig, base: Base, spec: Mapping[str, Any] | None) -> str:
    """Give the stamp of the source's files, where samples are kept for the next run.

    Args:
        config: the config.
        base: the folder that relative paths are relative to.
        spec: as of `cached_source`.
    """
    if not config.cache or config.cache["folder"] is None or spec is None:
        return ""
    return sources.stamp(spec, base.path, config.root)


def cached_source(
    config: LoaderConfig,
    base: Base,
    spec: Mapping[str, Any] | None,
    source: Any,
    length: int,
    transform: Callable[..., Any] | None,
    stamp: str,
) -> tuple[Cached, Cache]:
    """Open the cache of a config.

    Args:
        config: it has the option `cache`.
        base: the folder that relative paths are relative to.
        spec: the options by which the source was opened; None for one that was given in code,
            whatever the config has in its place.
        source: the open source.
        length: how many samples it has.
        transform: what is done to each sample before it is kept, or None.
        stamp: what `stamp_of` gave before the source was opened.

    Returns:
        The source to read samples from, already transformed; and the cache, to be closed.

    Raises:
        ConfigError: the folder cannot be used, or lies outside of ``root``, or the source cannot be
            told from another.
    """
    from ..cache import Cached, key_of, open_cache  # imported when it is asked for

    options = dict(config.cache or {})
    if options["max_bytes"] is not None:
        options["max_bytes"] = bytes_of(options["max_bytes"])
    if options["folder"] is not None:
        if spec is None and not sources.has_fingerprint(source):
            raise ConfigError(
                Problem(
                    "/cache/folder",
                    "a source that says what its data is",
                    f"{type(sources.behind(source)).__name__} without a fingerprint() of its own",
                    "write a method that gives another str when the data changes, or keep samples "
                    'in memory ("max_bytes")',
                )
            )
        check_folder(config, base)
    cache = open_cache(
        options,
        base.path,
        length,
        lambda: key_of(_data_of(source, spec), stamp, spec, transform),
    )
    read = source.__getitem__
    # As without a cache: `__getitem__` may give something else, as of Hugging Face's datasets.
    if hasattr(source, "__getitems__"):
        read = partial(_read_alone, source)
    make = read if transform is None else lambda index: transform(read(index))
    return Cached(cache, source, make), cache


def _read_alone(source: Any, index: int) -> Any:
    (sample,) = samples_of(source, [index])
    return sample


def check_folder(config: LoaderConfig, base: Base) -> None:
    """Look whether the folder of a cache, which the config names, lies where it may.

    Raises:
        ConfigError: it lies outside of ``root``, or that is no folder.
    """
    root = base.bound(config.root)
    sources.inside(base / cast("Any", config.cache)["folder"], root, "/cache/folder")


def counted(cache: Cache) -> dict[str, int]:
    """Give what a cache has counted, as attributes of `Stats`."""
    counts = dataclasses.asdict(cache.stats())
    return {f"cache_{name}": value for name, value in counts.items()}


def _data_of(source: Any, spec: Mapping[str, Any] | None) -> Any:
    """Say what the data of a source is; for arrays given in code, by every value.

    A fingerprint of arrays looks at some rows: enough to tell what a state belongs to, but not to
    see that a row was changed that the cache keeps. Files that a config names have their stamp.
    """
    fingerprint = sources.sample_fingerprint(source)
    arrays = source.mine() if isinstance(source, sources.PerThread) else source
    # A class with a `column` of its own makes something else of its arrays.
    if spec is not None or getattr(type(arrays), "column", None) is not ArraySource.column:
        return fingerprint
    from ..fingerprint import digest  # imported when it is asked for

    sums: list[Any] = []
    for array in arrays.arrays:
        rows = max(1, _BYTES_AT_ONCE // max(1, array[:1].nbytes))
        # The dtype besides, since a digest leaves out the byte order, which samples have.
        sums += [array.dtype, array.shape]
        sums += [digest(array[at : at + rows]) for at in range(0, len(array), rows)]
    return fingerprint, sums
