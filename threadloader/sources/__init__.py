"""What a source is, and the ones that come with threadloader, one file a kind.

A source is anything that has a length and gives sample ``i``: see `Source`. One
that is given in code goes through `as_source`; one that a config describes, such as
``{"type": "npz", "path": "digits.npz"}``, is opened by `open_source`.

How to add a kind: write ``sources/<kind>.py`` with a class that has the methods of
`Source` and a function ``open_<kind>(spec, base, root)``, with the arguments of `open_source`:
``base`` a `Path`, and ``root`` one joined to it, or None; name the file in ``_KINDS`` below;
describe its options in ``config_schema.json`` and for users in ``docs/sources/<kind>.md``. What
holds for every kind, and is not said again in each:

- Any number of threads may read at once (`_files.FileReader` reads files by position for that).
- An index is 0 .. ``len - 1``, counted through all files: any other integer is an `IndexError`,
  anything else a `TypeError`. The same goes for each index that ``take`` is given. Arrays of
  ``take`` are C-contiguous.
- Data that is missing, damaged, or no longer what it was at opening is a `SourceError` that names
  file and place; options that do not fit together are a `ConfigError`.
- ``fingerprint`` includes the sizes of the files; what ``path`` names goes through
  `_named.named_files`.
- ``close`` closes all that the source has opened, once; a read after it is a `ClosedError`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConfigError, Problem, at_need
from ._closing import close_all, warn_by
from ._given import Without, as_source, attributes_of, has_own
from ._per_thread import PerThread
from .arrays import ArraySource

if TYPE_CHECKING:
    from pathlib import Path

    from ._paths import inside
    from ._stamp import stamp
    from .columns import column, read_numbers

__all__ = [
    "ArraySource",
    "OpenSource",
    "PerThread",
    "Source",
    "Without",
    "as_source",
    "attributes_of",
    "behind",
    "close_all",
    "column",
    "fingerprint",
    "has_fingerprint",
    "inside",
    "open_source",
    "per_thread",
    "read_numbers",
    "sample_fingerprint",
    "stamp",
    "warn_by",
]


_AT_NEED = {
    "inside": "._paths",
    "stamp": "._stamp",
    "column": ".columns",
    "read_numbers": ".columns",
}


if not TYPE_CHECKING:  # with `__getattr__` a type checker takes any name
    __getattr__, __dir__ = at_need(globals(), _AT_NEED)


class Source(Protocol):
    """An object that gives samples by index, to several threads at once.

    The two methods below make a source. It may also offer:

    - ``take(indices) -> batch``, where it can build a whole batch faster than sample
      by sample. ``indices`` is an int64 array of shape ``(batch,)``, read-only; the batch is
      what stacking the samples would give. If it also has ``sample_bytes`` (the size of one
      sample), several small batches may be taken in one call and split; ``in_memory = True``
      as well says that a batch costs what its rows cost, and that numpy gathers it.
    - ``take_into(indices, empty) -> batch``: the same, in arrays made by ``empty(shape, dtype)``,
      which is called as `numpy.empty` and may give memory that was used before. Without a
      ``take`` beside it, it is never called.
    - ``__getitems__(indices) -> list of samples``, where reading many at once is faster.
    - ``fingerprint() -> str``, the same in every run over the same data and different
      for other data: a saved state is refused when it has changed.
    - ``column(field)``, an array or list of one integer, text or bool for each sample, where that
      can be had without reading them, else None: a balanced sampler asks for it.
    - ``locate(index) -> str | None``, where a sample lies (``notes.txt:17``; None if that is not
      known), for messages.
    - ``close()``. The loader closes only the sources that its config made, and those
      of `per_thread`.
    """

    def __len__(self) -> int:
        """Give the number of samples."""
        ...

    def __getitem__(self, index: int, /) -> Any:
        """Give the sample of an index, 0 .. ``len - 1``."""
        ...


class OpenSource(Source, Protocol):
    """A source that a config made: it can be closed."""

    def close(self) -> None:
        """Close what it has opened; a second call does nothing."""
        ...

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Give an attribute that only some kinds have, as `classes` of files."""
            ...


# The registry: the name of a kind in a config -> the module that holds it, imported when a
# config asks for that kind.
_KINDS = {
    kind: "csv_file" if kind == "csv" else kind  # "csv" is the standard library's module
    for kind in ("npz", "npy", "csv", "jsonl", "text", "tokens", "files", "tar", "sqlite")
}
_DECODING = ("files", "tar")
"""Kinds whose opener is given the decoders as well."""


def open_source(
    spec: Mapping[str, Any] | None,
    base: str | PathLike[str] = ".",
    root: str | Path | None = None,
    decoders: Mapping[str, Callable[..., Any]] | None = None,
) -> OpenSource:
    """Open the source that a config describes, once its options have been checked.

    Args:
        spec: the ``source`` section of a config, as ``Loader({"source": spec}).config.source``
            gives it, after refusing what the schema does. Options are not checked again here:
            unknown ones may be ignored, and missing or wrong ones raise any exception.
        base: the folder to which relative paths in the spec are relative.
        root: a folder that no path may leave, even by links; relative to ``base``. None: no bound.
        decoders: name of a way to decode that needs another package, as ``"image"`` -> a
            function that makes the decoder: what turns a file's bytes into a sample.

    Returns:
        The open source, which the caller closes.

    Raises:
        SourceError: a pattern finds nothing; a file is missing, damaged, outside of root or named
            twice, or lacks what the options ask for; or a package is missing.
        ConfigError: there is no such type, the spec is None (as where the source is given in
            code), root is no folder, or the options of a checked spec contradict each other.
    """
    if spec is None:  # of a config whose source is given in code
        raise ConfigError(Problem("/source", 'an object with a "type"', "null"))
    kind = spec.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        known = ", ".join(f'"{name}"' for name in _KINDS)
        raise ConfigError(Problem("/source/type", f"one of {known}", repr(kind)))
    opener = getattr(import_module(f".{_KINDS[kind]}", __name__), f"open_{kind}")
    from pathlib import Path  # imported where there are files

    base = base if isinstance(base, Path) else Path(base)  # keeps config's `Gone`
    bound = None if root is None else base / root
    opened: OpenSource = opener(spec, base, bound, *([decoders] if kind in _DECODING else []))
    return opened


def per_thread(factory: Callable[[], Any]) -> PerThread:
    """Give each thread a source of its own, where several threads must not share one.

    Args:
        factory: called without arguments, once in each worker, and once in the thread that
            enters the ``with``, which asks for the length. It gives what `as_source` takes: an
            object over a handle or connection of its own.

    Returns:
        A source over all these objects. The loader closes it, and so each object that has
        ``close()``. It can be used again afterwards.

    Raises:
        ConfigError: the factory cannot be called without arguments, or is an async function.

    >>> source = per_thread(lambda: [10, 20, 30])
    >>> len(source), source[2]
    (3, 30)
    >>> source.close()
    """
    return PerThread(factory, as_source)


def behind(source: Any) -> Any:
    """Give the object itself, where `per_thread` or `as_source` has put something around it."""
    while isinstance(source, (PerThread, Without)):
        source = source.mine() if isinstance(source, PerThread) else source.source
    return source


def fingerprint(source: Source) -> str:
    """Give what tells this source's data from other data.

    Returns:
        What the source's own ``fingerprint()`` says; without one, its class and length.

    Raises:
        ConfigError: its ``fingerprint()`` gives something other than a str.

    >>> fingerprint(["a", "b"])
    'builtins.list, 2 samples'
    """
    thing = behind(source)
    own = getattr(thing, "fingerprint", None)
    if not callable(own):
        return f"{_kind(thing)}, {len(thing)} samples"
    text = own()
    if not isinstance(text, str):
        raise ConfigError(Problem("source", "a str from its fingerprint()", type(text).__name__))
    return str.__str__(text)  # a plain one, as a state holds, also of numpy's


def sample_fingerprint(source: Source) -> str:
    """Give what tells the samples of a source, and not its data alone, from other samples.

    A fingerprint that is passed on from a wrapped object, or inherited by a class with another
    ``[]``, describes other samples than the source gives: the name of the source's class is put
    before it.
    """
    thing = behind(source)
    said = callable(getattr(thing, "fingerprint", None))
    another = said and not has_own(thing, "fingerprint")
    return f"{_kind(thing)}, {fingerprint(thing)}" if another else fingerprint(thing)


def _kind(source: Any) -> str:
    return f"{type(source).__module__}.{type(source).__qualname__}"


def has_fingerprint(source: Source) -> bool:
    """Tell whether a source itself says what its data is.

    A wrapper that passes on the fingerprint of what it wraps does not. Nor does a class with a
    ``[]`` of its own that inherits the fingerprint of one of our classes, which reads some rows.
    """
    thing = behind(source)
    # What the object or its class has, and not what its ``__getattr__`` would find.
    defined = inspect.getattr_static(thing, "fingerprint", None)
    if defined is None or not callable(getattr(thing, "fingerprint", None)):
        return False
    ours = str(getattr(defined, "__module__", "")).startswith(f"{__package__.partition('.')[0]}.")
    return has_own(thing, "fingerprint") or not ours
