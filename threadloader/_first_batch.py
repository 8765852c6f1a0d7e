"""The first batch of a config, built for a command: its shapes, or what is at fault."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._messages import in_words
from .config import LoaderConfig
from .errors import CollateError, ConfigError, Problem, from_signal
from .loader import NO_BATCH, Loader, unlisted

__all__ = ["at_fault", "first_batch"]


def first_batch(config: LoaderConfig, make: Callable[[LoaderConfig], Loader]) -> list[str]:
    """Lines about the first batch, and about what `on_error` has left out by then.

    Raises:
        ConfigError: `on_error` leaves out everything.
        Exception: whatever is raised for a batch, if `on_error` does not let that pass.
    """
    config = dataclasses.replace(unlisted(config), num_workers=0)
    if config.on_error == "raise":
        return _built(config, make)
    try:
        return _built(dataclasses.replace(config, on_error="raise"), make)
    except Exception as error:  # told, if `on_error` lets it pass
        if from_signal(error):
            raise
        first = in_words(error)
    return _built(config, make, first)


def _built(
    config: LoaderConfig, make: Callable[[LoaderConfig], Loader], first: str = ""
) -> list[str]:
    """Lines about the first batch; `first` is what was raised for a sample that is left out."""
    with make(config) as batches:
        for batch in batches:
            lines = list(_shapes(batch))
            skipped = batches.info.skipped if batches.info else ()
            if skipped:
                told = f"samples left out by on_error, up to this batch: {len(skipped)}"
                lines.append(f"{told}; the first: {first}")
            return lines
        if len(batches):
            got = f"none: all samples of this shard were left out; the first: {first}"
            raise ConfigError(Problem("/on_error", "a batch", got))
        return [f"no batch: {NO_BATCH}"]


def at_fault(error: BaseException, given: Mapping[str, Any]) -> str:
    """What an error of the first batch lies in: an option, by JSON pointer, or a part in code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if error.__cause__ is not None:  # that of a WorkerError has the frames of the code
        frames += [frame for frame, _ in traceback.walk_tb(error.__cause__.__traceback__)]
    calls = [(frame.f_globals.get("__name__", ""), frame.f_code.co_name) for frame in frames]
    # Told by the room of ours that called the part, and not by the part's own code, which two parts
    # may share: functions of one decorator do.
    transforming = (f"{__package__}.masking", f"{__package__}.transforms")
    collating = (f"{__package__}.jobs._batch", "collated")
    part = ""
    for room, function in calls:  # the outermost first: a collate may call our own transforms
        if room.startswith(transforming):
            part = "transform"
        elif room.startswith(f"{__package__}.samplers") and "sampler" in given:
            part = "sampler"
        elif (room, function) == collating and "collate" in given:
            part = "collate"
        if part:
            break
    if not part:  # our own collate, inside of which a transform of many samples may run
        ours = isinstance(error, CollateError) or collating in calls
        part = "collate" if ours else "source"
    return part if part in given else f"/{part}"


def _shapes(batch: Any, field: str | None = None) -> Iterator[str]:
    """A line for each array of a batch: ``x: shape (32, 64), dtype uint8``."""
    where = "batch" if field is None else field or repr(field)
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(batch, dict):
        parts = batch.items()
    elif isinstance(batch, (tuple, list)) and not isinstance(next(iter(batch), ""), (str, bytes)):
        parts = enumerate(batch)
    elif isinstance(getattr(batch, "shape", None), tuple) and hasattr(batch, "dtype"):
        # An array, or a tensor where they are pinned, whose shape is a tuple of its own kind.
        yield f"{where}: shape {tuple(batch.shape)}, dtype {batch.dtype}"
    else:
        length = f" of {len(batch)}" if hasattr(batch, "__len__") else ""
        yield f"{where}: {type(batch).__name__}{length}"
    for name, part in parts:
        yield from _shapes(part, f"{name}" if field is None else f"{field}/{name}")
