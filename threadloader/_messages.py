"""What commands say of problems and errors, in lines that are safe for a terminal; how they end."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from ._schema import pointer
from .config import Report, in_order
from .errors import ConfigError, LoaderError, Problem, SourceError, from_signal, name_of
from .errors import one_line as line

__all__ = [
    "GOOD",
    "PROBLEM",
    "USAGE",
    "counted",
    "from_source",
    "in_words",
    "is_terminal",
    "line",
    "located",
    "problem_lines",
    "telling",
    "texts",
    "with_cause",
]

GOOD, PROBLEM, USAGE = 0, 1, 2
"""Exit codes of all commands."""


def counted(number: int, one: str, many: str = "") -> str:
    """Say a number of things: one is called `one`, several `many`, or `one` with an "s"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a stream is a terminal; one of the program's own may have no ``isatty``."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, OSError, ValueError):  # or it is closed
        return False


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Within, what is logged is shown at a terminal, as how far a source is with a large file.

    Not if a handler of the log is there already.
    """
    log = logging.getLogger("threadloader")
    if not is_terminal(sys.stderr) or log.hasHandlers():
        yield
        return
    shown, before = logging.StreamHandler(sys.stderr), log.level
    shown.setFormatter(logging.Formatter("threadloader: %(message)s"))
    try:
        log.addHandler(shown)
        log.setLevel(logging.INFO)
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(shown)


def problem_lines(report: Report, problems: list[Problem]) -> list[str]:
    """Problems as lines, in the order of the document: the file, and in it the place."""
    return [
        line(f"{report.file}:{'' if it.line else ' '}{it}") for it in sorted(problems, key=in_order)
    ]


def from_source(report: Report, error: BaseException) -> list[Problem]:
    """What kept the source from opening, at the option that names the file."""
    if not isinstance(error, SourceError):
        return located(report, error, "/source", "a source that opens")
    option = "/source" + (error.option or _option_of(error.path, report))
    # A source's message says itself what it expected and what came: that is not said twice.
    told = re.fullmatch("expected (.+?),? (?:got|found):? (.+)", error.message, re.DOTALL)
    expected, got = told.groups() if told else ("a source that opens", error.message)
    place = ", ".join(part for part in (error.path, error.place) if part)
    return [report.locate(Problem(option, expected, got, place and f"see {place}"))]


def _option_of(path: str, report: Report) -> str:
    """The option of the source that names a file, as a JSON pointer below the source."""
    source = report.source or {}
    # Without the type, which may be the same word.
    for option, text in texts({name: it for name, it in source.items() if name != "type"}):
        if path in (text, str(report.base / text)):
            return option
    # Else it is one of the files that a pattern or a folder stands for.
    return next((f"/{option}" for option in ("path", "folder") if source.get(option)), "")


def texts(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a JSON value, with its pointer."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, (dict, list)):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(part, at + pointer([name]))


def located(report: Report, error: BaseException, place: str, expected: str) -> list[Problem]:
    """What an error of the loader tells, in the whole document; at a place if it knows none."""
    if isinstance(error, ConfigError):
        return [report.locate(problem) for problem in error.problems]
    return [report.locate(Problem(place, expected, with_cause(error)))]


def with_cause(error: BaseException) -> str:
    """Say what was raised, as `in_words`, and what that wraps, where it is one of the loader's."""
    text = in_words(error)
    if issubclass(type(error), LoaderError) and error.__cause__ is not None:
        text = text.replace("; see its cause", "")
        text += f"; its cause: {in_words(error.__cause__)}"
    return text


def in_words(error: BaseException) -> str:
    """Says what was raised, with its notes; also of an exception that cannot be printed.

    >>> in_words(KeyError("x"))
    "KeyError: 'x'"
    >>> in_words(GeneratorExit())
    'GeneratorExit'
    """
    kind = name_of(type(error))
    try:
        text = str(error)
        said = f"{kind}: {text}" if text else kind
    except Exception as problem:  # an exception may be made of anything
        if from_signal(problem):
            raise
        said = f"{kind} (not printable: {type(problem).__name__})"
    try:
        return "; ".join([said, *getattr(error, "__notes__", [])])
    except Exception as problem:  # as above
        if from_signal(problem):
            raise
        return said
