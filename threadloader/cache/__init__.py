"""Prepared samples kept, in memory or in a folder, up to a bound.

What is kept is the result of the deterministic part of the transforms; the random part
is applied to the sample that the cache gives out. A cache gives the same samples as preparing
them anew, only sooner: what it cannot keep, has no room for, or finds damaged, is prepared.

**Nothing is evicted.** The first samples that fit stay, which for shuffled epochs is the best
that any rule can do. Each sample is asked for once an epoch; so it is a hit only if it was
there when the epoch began (one that enters later has had its turn). With room for c of n
samples no rule has more than c hits an epoch, and the samples that came first have exactly c.
The usual rule, to drop what was used least recently, has fewer: between two uses of a sample,
at the parts u of one epoch and v of the next, ``1 - u (1 - v)`` of all others are used (in the
mean), and it is still there if that is less than f = c/n. For uniform u and v the chance
of this is ``f + (1 - f) ln(1 - f)``: 0.005 where f is 0.1, 0.15 where it is 0.5, 0.67 where it
is 0.9. Where a sampler asks for some samples more often than for others, those come earlier,
and so are more likely to be among the first.

`_base` is what caches have in common (`_count` counts for them), `_memory` and `_folder` are the
two kinds; `_samples` makes samples safe to share, `_encode` turns them into bytes, `_segments` are
the files of a folder, and `_shelf` says which of those has which sample. `_key` says what kept
samples depend on: `_walk` meets all objects, `_kinds`, `_arrays` and `_code` say what is in
objects, arrays and functions, and `_graph` makes one digest of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import log
from ._base import Cache
from ._folder import Folder
from ._key import key_of
from ._memory import Memory
from ._walk import UntoldError

__all__ = ["Cache", "Cached", "key_of", "open_cache"]


_FOLDER_BYTES = 16 << 30
"""The bound of a folder without ``max_bytes``. Chosen: several times what 100,000 tokenised samples
take (2 to 4 GB, see docs/tuning.md), and not the whole disk, which others need as well."""


def open_cache(
    spec: Mapping[str, Any], base: str | Path, samples: int, key: Callable[[], str]
) -> Cache:
    """Open the cache that a config describes; the caller closes it.

    Args:
        spec: ``"max_bytes"`` and ``"max_samples"`` bound a cache in memory; ``"folder"`` puts it
            into files, which ``"max_bytes"`` bounds (16 GiB without it).
        base: the folder to which a relative ``"folder"`` is relative.
        samples: how many samples the source has.
        key: gives what the samples depend on; called for a folder only. See `key_of`. If it
            raises UntoldError, the cache keeps nothing, and the log says why.

    Raises:
        ConfigError: the folder cannot be made or read, or there is no memory for so many samples.

    >>> open_cache({"max_samples": 10}, ".", 100, str).stats().samples
    0
    """
    bounds = {
        name: spec[name] for name in ("max_bytes", "max_samples") if spec.get(name) is not None
    }
    folder = spec.get("folder")
    if folder is None:
        return Memory(**bounds)
    try:
        key_text = key()
    except UntoldError as error:
        log(
            "warning",
            "cache: nothing is kept in %s: nobody can see what is in %s, so samples of another "
            "transform could be taken for those of this one; let the object that holds it have a "
            "method fingerprint() that gives another str when the samples change",
            Path(base) / folder,
            error,
        )
        return Memory(max_samples=0)
    return Folder(Path(base) / folder, key_text, samples, bounds.get("max_bytes", _FOLDER_BYTES))


class Cached:
    """A source whose samples come prepared, from a cache where it has them.

    ``make`` prepares the sample of an index: reads it from the source and applies the
    deterministic part of the transforms.
    """

    def __init__(self, cache: Cache, source: Any, make: Callable[[int], Any]) -> None:
        self._get = cache.get
        self.source = source
        self._make = make

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        return self._get(index, self._make)

    def __getattr__(self, name: str) -> Any:
        # The source's `take` and `__getitems__` stay hidden: they would bypass the cache.
        if name == "locate":
            return self.source.locate
        raise AttributeError(name)
