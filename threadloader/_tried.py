"""A config tried out for a command: read, its source opened, and what is wrong with its place."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ._schema import pointer
from .config import LoaderConfig, Report, examine
from .errors import CollateError, ConfigError, Problem, SourceError
from .loader import Loader, based, unlisted, without_source
from .loader import open_configured as open_source

__all__ = [
    "GOOD",
    "PROBLEM",
    "USAGE",
    "examined",
    "from_source",
    "line",
    "located",
    "open_source",
    "read",
    "told",
]

GOOD, PROBLEM, USAGE = 0, 1, 2
"""Exit codes of all commands."""


def examined(
    arguments: argparse.Namespace, said: list[str], err: list[str]
) -> tuple[Report | None, int, list[str]]:
    """Reads a config and tries it out; what is wrong is put into ``said`` or ``err``.

    Returns:
        The report, unless there is none; the exit code up to now; what to say about a batch.
    """
    report = read(arguments, err)
    if report is None:
        return None, USAGE, []
    problems, lines = _try_out(report, arguments)
    said += told(report, problems)
    return report, PROBLEM if problems or report.config is None else GOOD, lines


def read(arguments: argparse.Namespace, err: list[str]) -> Report | None:
    """Reads the config; None, and what is wrong in ``err``, when the system cannot read it."""
    name = arguments.config
    try:
        return examine(name, unknown=arguments.unknown, source_in_code=arguments.source_in_code)
    except OSError as error:
        err.append(line(f"threadloader: cannot read {name}: {error.strerror or error}"))
    except ConfigError as error:  # the name, not what stands in the file
        err.append(line(f"threadloader: {error}"))
    return None


def _try_out(report: Report, arguments: argparse.Namespace) -> tuple[list[Problem], list[str]]:
    """Does what ``with Loader(...)`` does, as far as the problems of the config let it.

    The source is opened whatever is wrong elsewhere, and what needs none is tried where it
    does not open, so that all problems come at once. It is opened once, and the loader is
    given what is open.

    Returns:
        All problems, in the order of the document; and what to say about a batch.
    """
    problems = list(report.problems)
    lines: list[str] = []
    source: Any = None
    close = None
    try:
        if report.source and not arguments.source_in_code:
            try:
                source = open_source(report.source, report.base, report.root)
                close = getattr(source, "close", None)
            except Exception as error:  # noqa: BLE001 - whatever a file does to its reader
                problems += from_source(report, error)
        if report.config:
            try:
                config, opened = report.config, source is not None
                if not opened:
                    config, length = without_source(config, report.base)
                    source = range(length)
                with based(Loader(config, source=source), report.base, opened=opened):
                    pass
            except Exception as error:  # noqa: BLE001 - a command shows no traceback
                problems += located(report, error, "", "a loader that enters")
        if report.config and not problems and arguments.batch:
            try:
                lines += _first_batch(report.config, report.base, source)
            except Exception as error:  # noqa: BLE001 - the same
                pointer = "/collate" if isinstance(error, CollateError) else "/source"
                problems += located(report, error, pointer, "a batch")
    finally:
        if close:
            close()
    return sorted(problems, key=lambda problem: (problem.line, problem.column)), lines


def _first_batch(config: LoaderConfig, base: Path, source: Any) -> Iterator[str]:
    loader = Loader(dataclasses.replace(unlisted(config), num_workers=0), source=source)
    with based(loader, base, opened=True) as batches:
        for batch in batches:
            yield from _shapes(batch, "")
            return
        yield f"no batch: {len(source)} samples make {len(batches)} steps on this shard"


def _shapes(batch: Any, field: str) -> Iterator[str]:
    """A line for each array of a batch: ``x: shape (32, 64), dtype uint8``."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(batch, dict):
        parts = batch.items()
    elif isinstance(batch, (tuple, list)) and not isinstance(next(iter(batch), ""), (str, bytes)):
        parts = enumerate(batch)
    elif isinstance(batch, np.ndarray):
        yield f"{field or 'batch'}: shape {batch.shape}, dtype {batch.dtype}"
    else:
        length = f" of {len(batch)}" if hasattr(batch, "__len__") else ""
        yield f"{field or 'batch'}: {type(batch).__name__}{length}"
    for name, part in parts:
        yield from _shapes(part, f"{field}/{name}" if field else f"{name}")


def told(report: Report, problems: list[Problem]) -> list[str]:
    """Problems as lines: the file, and in it the place."""
    return [line(f"{report.file}:{'' if it.line else ' '}{it}") for it in problems]


def from_source(report: Report, error: Exception) -> list[Problem]:
    """What kept the source from opening, at the option that names the file."""
    if not isinstance(error, SourceError):
        return located(report, error, "/source", "a source that opens")
    option = "/source" + (error.option or _option_of(error.path, report))
    # The sources say what they expected and what came; said once is enough.
    told = re.fullmatch("expected (.+?),? (?:got|found):? (.+)", error.message, re.DOTALL)
    expected, got = told.groups() if told else ("a source that opens", error.message)
    place = ", ".join(part for part in (error.path, error.place) if part)
    return [report.locate(Problem(option, expected, got, place and f"see {place}"))]


def _option_of(path: str, report: Report) -> str:
    """The option of the source that names a file, as a JSON pointer below the source."""
    source = report.source or {}
    # Without the type, which may be the same word.
    for option, text in _texts({name: it for name, it in source.items() if name != "type"}):
        if path in (text, str(report.base / text)):
            return option
    # One of those that a pattern or a folder stands for.
    return next((f"/{option}" for option in ("path", "folder") if source.get(option)), "")


def _texts(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a JSON value, with its pointer."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, (dict, list)):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(part, at + pointer([name]))


def located(report: Report, error: Exception, pointer: str, expected: str) -> list[Problem]:
    """The problems of an error of the loader, in the whole document."""
    if isinstance(error, ConfigError):
        return [report.locate(problem) for problem in error.problems]
    told = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return [report.locate(Problem(pointer, expected, told))]


def line(text: str) -> str:
    """One line that is safe for a terminal, whatever file names and data it quotes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
