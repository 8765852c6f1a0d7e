"""JSON text in, `LoaderConfig` or `ConfigError` out.

A config is a JSON file (`_text` says what is accepted), a mapping, or a
`LoaderConfig`. What it may hold is said once, in ``config_schema.json``;
here is what a schema cannot say, such as options that are right alone and wrong
together. Reading a config opens the config file and, once, the schema, and nothing
else: it imports no code, unpickles nothing, and opens no data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any, Literal, cast

from .._schema import Place, pointer, show
from ..errors import ConfigError, Problem
from . import _check
from ._base import Base
from ._bytes import bytes_of
from ._check import NO_SOURCE
from ._file import Document, follow, read, split
from ._hints import hint
from ._report import Report, in_order
from ._text import parse  # here: reading a config imports nothing of ours, not even this

__all__ = [
    "NO_SOURCE",
    "Base",
    "LoaderConfig",
    "Report",
    "bytes_of",
    "examine",
    "in_order",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderConfig:
    """The options of a loader, checked.

    Nested values are copies with their own defaults filled in; 4.0 becomes 4. Numpy numbers and
    paths become the numbers and strings that they stand for. Only the options themselves are
    frozen, not what is nested in them; a loader makes a copy, checked anew, so that nothing
    changes behind its back.

    Attributes:
        source: where samples come from, by its ``type``; ``None`` when it is given in code.
        root: a folder that must contain every file named here; ``None`` for no restriction.
        transform: what the workers do to a sample, by its ``type``; ``None`` for nothing.
        batch_size: samples in one batch, on each shard.
        shuffle: whether each epoch has an order of its own; False with a sampler. Here nothing says
            whether it was asked for: to `dataclasses.replace` a sampler, give ``shuffle=False``.
        sampler: which samples make an epoch, by its ``type``; ``None`` for all of them.
        exclude: samples that are left out: a list, or the path of one; ``None`` for none.
        seed: decides, with the epoch, the order and the random choices; 0 to 2**64 - 1.
        drop_last: whether the tail that does not fill a batch on every shard is left out.
        shard: ``{"index": r, "count": W, "remainder": "pad"}``, or ``"auto"``.
        collate: how samples become a batch, by its ``type``.
        on_error: what becomes of a sample that fails: ``"raise"``, or how often it is retried
            and how many may be skipped.
        pin_memory: ``True`` for torch tensors in page-locked memory, ``"auto"`` for them
            where torch and CUDA are there.
        fingerprint: whether `stats()` and `info` carry a fingerprint of all batches.
        cache: where prepared samples are kept, and how many; ``None`` for nowhere.
        num_workers: threads that read and prepare samples; 0 does it in the loop's own thread.
        prefetch_batches: batches ready or in progress ahead of the training loop; more of small
            ones that a source builds whole: up to some 16 MiB, or 64 MiB of arrays in memory.
        max_bytes: bound of the batches that wait for the loop: bytes, or ``"512MiB"``; ``None``
            for no bound.
        switch_interval: the interpreter's, in seconds, while the loader is open; ``"auto"``
            to shorten it when the training loop holds the GIL and waits for data; ``None`` to
            leave it alone.
        num_epochs: epochs of a run; ``None`` for no limit.
        stall_seconds: seconds without progress after which a wait is a stall; ``None``: never.
        stall_action: ``"log"``, or ``"raise"`` for a `StalledError` from `next`.
        close_timeout: the most seconds that leaving the loader waits for a stuck thread.

    The defaults are those of the schema, where each option has its bounds.

    Raises:
        ConfigError: with every problem of these options.

    >>> LoaderConfig(batch_size=8.0, collate={"type": "pad"}).collate["multiple_of"]
    1
    >>> LoaderConfig(batch_size=0)
    Traceback (most recent call last):
    ...
    threadloader.errors.ConfigError: /batch_size: expected an integer from 1 to 2147483647, got 0
    """

    source: Mapping[str, Any] | None = None
    root: str | None = None
    transform: Mapping[str, Any] | None = None
    batch_size: int = 32
    shuffle: bool = cast("bool", ...)  # not given: True, but False beside a sampler
    sampler: Mapping[str, Any] | None = None
    exclude: str | Sequence[int] | None = None
    seed: int = 0
    drop_last: bool = False
    shard: Mapping[str, Any] | Literal["auto"] = field(
        default_factory=lambda: {"index": 0, "count": 1, "remainder": "pad"}
    )
    collate: Mapping[str, Any] = field(default_factory=lambda: {"type": "stack"})
    on_error: Mapping[str, Any] | Literal["raise"] = "raise"
    pin_memory: Literal[False, True, "auto"] = False
    fingerprint: bool = False
    cache: Mapping[str, Any] | None = None
    num_workers: int = 2
    prefetch_batches: int = 3
    max_bytes: int | str | None = None
    switch_interval: float | Literal["auto"] | None = None
    num_epochs: int | None = None
    stall_seconds: float | None = 300
    stall_action: Literal["log", "raise"] = "log"
    close_timeout: float = 5

    def __post_init__(self) -> None:
        given = {option.name: getattr(self, option.name) for option in fields(self)}
        if given["shuffle"] is ...:
            del given["shuffle"]
        options, found = _check.plain(given)
        refused = {mismatch.path for mismatch in found}
        found += _check.check(options, refused, {"source": True})
        if found:
            raise ConfigError(_check.problems(found, options))
        for name, value in _check.filled(options).items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.batch_size, self.seed, self.num_workers, self.prefetch_batches))

    def as_dict(self) -> dict[str, Any]:
        """The options as plain JSON values, each of them, in the order of the schema.

        >>> LoaderConfig().as_dict()["shard"]
        {'index': 0, 'count': 1, 'remainder': 'pad'}
        """
        options = {option.name: getattr(self, option.name) for option in fields(self)}
        filled: dict[str, Any] = _check.schema().fill(options)
        return filled


def examine(
    config: str | os.PathLike[str] | Mapping[str, Any] | LoaderConfig,
    *,
    unknown: str = "error",
    source_in_code: bool = False,
    sampler_in_code: bool = False,
) -> Report:
    """Read a config; the report holds its problems, which `Report.checked` raises.

    Args:
        config: the path of a JSON file, with ``#`` and a JSON pointer after it for a
            section of the file (``"train.json#/training"``); a mapping; a `LoaderConfig`.
            A file whose own name has the ``#`` comes before a section.
        unknown: ``"error"``, or ``"ignore"`` to let through keys of the section that are
            not options; one that is one edit away from an option is still an error, and
            so is any unknown key further down.
        source_in_code: whether the config may do without a source.
        sampler_in_code: whether a sampler takes the place of `sampler`, and of `shuffle`.

    Returns:
        The report.

    Raises:
        ConfigError: an argument is wrong.
        OSError: the system cannot read the file.

    >>> examine({"batch_size": 16, "num_worker": 4}, source_in_code=True).checked()
    Traceback (most recent call last):
    ...
    threadloader.errors.ConfigError: /num_worker: expected a known key, got "num_worker"; \
did you mean "num_workers"?
    """
    if not isinstance(unknown, str) or unknown not in ("error", "ignore"):
        raise ConfigError(Problem("unknown", 'one of "error", "ignore"', show(unknown)))
    ignore = unknown == "ignore"
    in_code = {"source": source_in_code, "sampler": sampler_in_code}
    if isinstance(config, LoaderConfig):
        config = config.as_dict()
        # `shuffle` has a value whether or not somebody gave it.
        if sampler_in_code or config["shuffle"] is (config["sampler"] is None):
            del config["shuffle"]
    if isinstance(config, Mapping):
        options, found = _check.plain(_check.ours(config, ignore=ignore))
        refused = {mismatch.path for mismatch in found}
        found += _check.check(options, refused, in_code)
        refused.update(mismatch.path for mismatch in found)
        return _report(options, _check.problems(found, options), refused, Base.working())
    from pathlib import Path  # only where there is a file: see `Base`

    file, names = split(config)
    data = read(file)  # first: where the current folder is gone, its error names the file
    base = Base(str(Path(file).absolute().parent))
    try:
        document = parse(data, file)
    except ConfigError as error:
        return Report(None, None, None, base, error.problems, file)
    section, value = follow(document.value, names)
    problems = list(document.problems)
    if len(section) < len(names):
        problems.append(_missing(document, section, value, names))
        return Report(None, None, None, base, tuple(sorted(problems, key=in_order)), file)
    if isinstance(value, dict):
        value = _check.ours(value, ignore=ignore)
    depth = len(section)
    refused = {path[depth:] for path in document.refused if path[:depth] == section}
    found = _check.check(value, refused, in_code)
    problems += _check.problems(found, (), section, document.place)
    problems.sort(key=in_order)
    refused.update(mismatch.path for mismatch in found)
    return _report(value, problems, refused, base, file, section, document)


def _report(
    options: Any,
    problems: list[Problem],
    wrong: set[Place],
    base: Base,
    file: str = "",
    section: Place = (),
    document: Document | None = None,
) -> Report:
    """The report; ``wrong`` are the paths of the options that have problems."""
    source = root = config = None
    about_source = [path for path in wrong if path[:1] in (("source",), ("root",))]
    if isinstance(options, dict) and not about_source:
        source = _check.schema().properties["source"].fill(options.get("source"))
        root = options.get("root")
    if not problems:
        # Made without `__post_init__`, which would check once more what has been checked.
        filled, config = _check.filled(options), object.__new__(LoaderConfig)
        for option in fields(LoaderConfig):
            object.__setattr__(config, option.name, filled[option.name])
    right = None if problems else options
    return Report(config, source, root, base, tuple(problems), file, section, document, right)


def _missing(document: Document, path: Place, value: Any, names: list[str]) -> Problem:
    """The problem of a section that is not there, with the nearest key that is."""
    near = (
        hint(names[len(path)], islice(value, 1000), is_key=True) if isinstance(value, dict) else ""
    )
    return Problem(pointer(names), "a section here", "nothing", near, *document.place(path))
