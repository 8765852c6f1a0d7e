"""The first batch of a config, built for a command: its shapes, or what is at fault."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ._messages import in_words
from .config import LoaderConfig
from .errors import CollateError, ConfigError, Problem
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
    except Exception as error:  # noqa: BLE001 - told, if `on_error` lets it pass
        first = in_words(error)
    return _built(config, make, first)


def _built(
    config: LoaderConfig, make: Callable[[LoaderConfig], Loader], first: str = ""
) -> list[str]:
    """Lines about the first batch; `first` is what was raised for a sample that is left out."""
    with make(config) as batches:
        for batch in batches:
            lines = list(_shapes(batch, ""))
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
    codes = {_python_code(it): part for part, it in given.items() if part != "source"}
    if found := next((frame.f_code for frame in frames if frame.f_code in codes), None):
        return codes[found]
    calls = [(frame.f_globals.get("__name__", ""), frame.f_code.co_name) for frame in frames]
    changing = (f"{__package__}.masking", f"{__package__}.transforms")
    part = "source"
    if isinstance(error, CollateError):
        part = "collate"
    elif any(module.startswith(changing) for module, _ in calls):
        part = "transform"
    elif (f"{__package__}.jobs._batch", "collated") in calls:
        part = "collate"
    return part if part in given else f"/{part}"


def _python_code(given: Any) -> Any:
    """The code of a function, or of the method that calls an object; None where it has none."""
    method: Any = type(given).__call__
    return getattr(given, "__code__", None) or getattr(method, "__code__", None)


def _shapes(batch: Any, field: str) -> Iterator[str]:
    """A line for each array of a batch: ``x: shape (32, 64), dtype uint8``."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(batch, dict):
        parts = batch.items()
    elif isinstance(batch, (tuple, list)) and not isinstance(next(iter(batch), ""), (str, bytes)):
        parts = enumerate(batch)
    elif isinstance(getattr(batch, "shape", None), tuple) and hasattr(batch, "dtype"):
        # An array, or a tensor where they are pinned, whose shape is a tuple of its own kind.
        yield f"{field or 'batch'}: shape {tuple(batch.shape)}, dtype {batch.dtype}"
    else:
        length = f" of {len(batch)}" if hasattr(batch, "__len__") else ""
        yield f"{field or 'batch'}: {type(batch).__name__}{length}"
    for name, part in parts:
        yield from _shapes(part, f"{field}/{name}" if field else f"{name}")
