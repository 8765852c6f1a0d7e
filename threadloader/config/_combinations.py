"""Options that are right alone and wrong together, option by option; and some wrong texts.

These are wrong alone, but the schema cannot tell: a path with a NUL, or no number of bytes.
The one pair that is not here is ``sampler`` and ``shuffle``: a sampler may be given in code, of
which `_check.check` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._schema import Mismatch, Place, show
from ..errors import by_handler
from ._bytes import bytes_of

__all__ = ["wrong_together"]

_PATHS: tuple[Place, ...] = (
    ("root",),
    ("exclude",),
    ("cache", "folder"),
    ("on_error", "quarantine"),
    ("sampler", "weights"),
    ("sampler", "labels"),
    ("sampler", "indices"),
    ("source", "path"),
    ("source", "folder"),
    ("source", "pattern"),
    ("source", "index", "folder"),
    ("source", "label", "csv"),
)
"""Options that are paths; those of a source may be lists of them."""


def wrong_together(options: dict[str, Any], wrong: set[Place]) -> Iterator[Mismatch]:
    """What the schema cannot say: options that are wrong together, and the texts as above.

    Args:
        options: the options.
        wrong: the paths of values that are refused already; these are not compared with others.
    """

    def right(option: str, *keys: str) -> bool:
        inside = isinstance(options.get(option), dict) and (option,) not in wrong
        return inside and not any((option, key) in wrong for key in keys)

    yield from _paths(options)
    if right("sampler", "type", "field", "labels"):
        yield from _sampler(options["sampler"])
    if right("on_error", "skip", "quarantine"):
        yield from _on_error(options["on_error"])
    if right("cache"):
        yield from _cache(options["cache"], lambda key: right("cache", key))
    if options.get("max_bytes") is not None and ("max_bytes",) not in wrong:
        yield from _bytes(options["max_bytes"], ("max_bytes",))
    if right("shard", "index", "count"):
        yield from _shard(options["shard"])
    if right("collate", "type", "length"):
        yield from _collate(options["collate"], lambda key: right("collate", key))


def _paths(options: dict[str, Any]) -> Iterator[Mismatch]:
    for place in _PATHS:
        named: Any = options
        for key in place:
            named = named.get(key) if isinstance(named, dict) else None
        # Elsewhere a list has numbers, perhaps a million.
        yield from _with_nul(named, place, lists=place[0] == "source")
    source = options.get("source")
    if isinstance(source, dict) and source.get("type") == "npy":  # whose fields are paths
        fields = source.get("fields")
        for field, named in fields.items() if isinstance(fields, dict) else ():
            yield from _with_nul(named, ("source", "fields", field), lists=True)


def _with_nul(named: Any, place: Place, *, lists: bool) -> Iterator[Mismatch]:
    """Refuse a path, or those in a list, with a NUL; what is neither is told as of a wrong type."""
    if isinstance(named, list) and lists:
        for number, path in enumerate(named):
            yield from _with_nul(path, (*place, number), lists=False)
    elif isinstance(named, str) and "\0" in named:
        yield Mismatch(place, "a path without NUL characters", show(named))


def _sampler(sampler: dict[str, Any]) -> Iterator[Mismatch]:
    given = [key for key in ("field", "labels") if sampler.get(key) is not None]
    if sampler["type"] == "balanced" and len(given) != 1:
        expected = "a field or labels, one of the two"
        yield Mismatch(("sampler",), expected, " and ".join(given) or "none of them")


def _on_error(on_error: dict[str, Any]) -> Iterator[Mismatch]:
    quarantine = on_error.get("quarantine")
    if quarantine is not None and on_error.get("skip") is None:
        expected = 'null or nothing without a "skip", since nothing is left out'
        yield Mismatch(("on_error", "quarantine"), expected, show(quarantine))


def _cache(cache: dict[str, Any], right: Callable[[str], bool]) -> Iterator[Mismatch]:
    bounds = "max_bytes", "max_samples", "folder"
    given = [key for key in bounds if cache.get(key) is not None]
    if not given and all(map(right, bounds)):
        expected = "a max_bytes, a max_samples or a folder"
        yield Mismatch(("cache",), expected, "none of them")
    if "folder" in given and "max_samples" in given:
        expected = "null or nothing beside a folder, which max_bytes bounds"
        yield Mismatch(("cache", "max_samples"), expected, show(cache["max_samples"]))
    if "max_bytes" in given and right("max_bytes"):
        yield from _bytes(cache["max_bytes"], ("cache", "max_bytes"))


def _shard(shard: dict[str, Any]) -> Iterator[Mismatch]:
    index, count = shard.get("index", 0), shard.get("count", 1)
    if index >= count:
        yield Mismatch(("shard", "index"), f"less than the count, {count}", show(index))


def _collate(collate: dict[str, Any], right: Callable[[str], bool]) -> Iterator[Mismatch]:
    length, multiple = collate.get("length"), collate.get("multiple_of")
    if length and multiple and right("multiple_of") and length % multiple:
        expected = f"a multiple of multiple_of, {multiple}"
        yield Mismatch(("collate", "length"), expected, show(length))
    if not length and collate.get("truncate") is True:
        yield Mismatch(("collate", "truncate"), 'false, or a "length" to cut to', "true")


def _bytes(value: float | str, place: Place) -> Iterator[Mismatch]:
    try:
        bytes_of(value if isinstance(value, str) else int(value))  # 4.0 is the integer 4
    except ValueError as error:
        if by_handler(error):
            raise
        expected = str(error).removeprefix("expected ").partition(", got")[0]
        yield Mismatch(place, expected, show(value))
