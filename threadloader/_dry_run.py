"""Reads and tries out a config for a command, and gives every problem with its place."""

from __future__ import annotations

import argparse
import dataclasses
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ._command_line import given_by
from ._messages import (
    GOOD,
    PROBLEM,
    USAGE,
    from_source,
    in_words,
    line,
    located,
    problem_lines,
    problems_of,
    telling,
    texts,
)
from ._schema import pointer
from .config import Base, LoaderConfig, Report, examine
from .engine import FEWER
from .errors import CollateError, ConfigError, Problem, SourceError
from .loader import NO_BATCH, Loader, based, open_configured, unlisted, without_source

__all__ = ["examined", "read"]

_TRIED = ("transform", "sampler", "exclude", "cache", "on_error", "pin_memory", "shard")
"""Options that can be right in the config and still keep a loader from entering."""

_BOUNDED = ("sampler", "exclude", "cache", "on_error")
"""Those that may name files, which `root` bounds: where that is wrong, none of them is tried."""


def examined(
    arguments: argparse.Namespace,
    said: list[str],
    err: list[str],
    given: Mapping[str, Any] | None = None,
) -> tuple[Report | None, int, list[str]]:
    """Reads a config and tries it out; what is wrong is put into ``said`` or ``err``.

    ``given``, as `code_of` gives it, is tried in the place of what the config says.

    Returns:
        The report, unless there is none; the exit code up to now; what to say about a batch.

    Raises:
        CodeError, UsageError: as of `given_by`, for a source in code.
    """
    report = read(arguments, err)
    if report is None:
        return None, USAGE, []
    with telling():
        problems, lines = _try_out(report, arguments, given or {})
    said += problem_lines(report, problems)
    return report, PROBLEM if problems or report.config is None else GOOD, lines


def read(arguments: argparse.Namespace, err: list[str]) -> Report | None:
    """Reads the config; None, and what is wrong in ``err``, when the system cannot read it."""
    name = arguments.config
    try:
        return examine(
            name,
            unknown=arguments.unknown,
            source_in_code=arguments.source_in_code,
            sampler_in_code=_sampler_in_code(arguments),
        )
    except OSError as error:
        err.append(line(f"threadloader: cannot read {name}: {error.strerror or error}"))
    except ConfigError as error:  # the name, not what stands in the file
        err.append(line(f"threadloader: {error}"))
    return None


def _try_out(
    report: Report, arguments: argparse.Namespace, given: Mapping[str, Any]
) -> tuple[list[Problem], list[str]]:
    """Does what ``with Loader(...)`` does, as far as the problems of the config let it.

    The source is opened whatever else is wrong; if it does not open, what needs none is tried;
    and right options are tried beside wrong ones: so all problems come at once. The source is
    opened once, and the loader is given what is open.

    Returns:
        All problems, and what to say about a batch.
    """
    problems = list(report.problems)
    lines: list[str] = []
    source: Any = None
    close = None
    try:
        if "source" in given:
            source = given_by(given["source"])  # not ours to close, as in a Loader
        elif report.source and not arguments.source_in_code:
            try:
                source = open_configured(report.source, report.base.path, report.root)
                close = getattr(source, "close", None)
            except Exception as error:  # noqa: BLE001 - whatever a file does to its reader
                problems += from_source(report, error)
        parts = _Parts(report.base, {**given, "source": source}, "source" not in given)
        config = report.config or _right_part(report)
        if config and not arguments.cache:  # to open one makes its folder
            config = dataclasses.replace(config, cache=None)
        if config and _sampler_in_code(arguments):  # what the config's names need not be there
            config = dataclasses.replace(config, sampler=None, shuffle=False)
        if config:
            problems += [it for it in _kept_out(report, config, parts) if it not in problems]
        if report.config and not problems and arguments.batch:
            try:
                lines += _first_batch(report.config, parts)
            except Exception as error:  # noqa: BLE001 - a command shows no traceback
                problems += located(report, error, _at_fault(error, given), "a batch")
    finally:
        if close is not None:
            try:
                close()
            except Exception as error:  # noqa: BLE001 - as above
                problems += from_source(report, error)
    return problems, lines


class _Parts(NamedTuple):
    """What a config is tried with; its relative paths start at ``base``.

    The loader is ``given`` a source in any case, or None for none; ``ours`` is the config's.
    """

    base: Base
    given: Mapping[str, Any]
    ours: bool

    def loader(self, config: LoaderConfig) -> Loader:
        """The loader; where there is no source, one that needs none."""
        if self.given["source"] is not None:
            return based(Loader(config, **self.given), self.base, opened=self.ours)
        tried, length = without_source(config, self.base)
        # The sampler in code would be asked for an order of what is not there.
        given = {**self.given, "source": range(length), "sampler": None}
        return based(Loader(tried, **given), self.base)


def _sampler_in_code(arguments: argparse.Namespace) -> bool:
    return bool(getattr(arguments, "sampler", None))  # few commands have the option


def _right_part(report: Report) -> LoaderConfig | None:
    """What is right of a config that has problems, all else at its default.

    None where nothing can be told, or `root` is wrong, without which nothing bounds the paths.
    """
    if report.document is None:
        return None
    options, section = report.document.value, pointer(report.section)
    for key in report.section:
        options = options[key]
    wrong = {_option(problem.pointer.removeprefix(section)) for problem in report.problems}
    if not isinstance(options, dict) or "root" in wrong:
        return None
    right = {it.name for it in dataclasses.fields(LoaderConfig)} - wrong
    try:
        return LoaderConfig(**{name: value for name, value in options.items() if name in right})
    except ConfigError:  # a pointer that is cut, as of a long key, does not say what is wrong
        return None


def _kept_out(report: Report, config: LoaderConfig, parts: _Parts) -> list[Problem]:
    """What keeps a loader of a config, or of what is right of it, from entering.

    Entering ends at the first thing that is wrong. The option that names it goes back to its
    default then, and what is left is tried, until that enters, or no option is known to be at
    fault.
    """
    problems: list[Problem] = []
    defaults = LoaderConfig()
    while True:
        try:
            with parts.loader(config):
                return problems
        except Exception as error:  # noqa: BLE001 - a command shows no traceback
            naming = _naming(error, config, report.base)
            if isinstance(error, SourceError) and not naming:  # of a sample that a sampler has read
                problems += from_source(report, error)
                known = {"sampler"}
            else:
                wrong = _no_threads(error, config)
                wrong = wrong or problems_of(error, naming, "a loader that enters")
                problems += map(report.locate, wrong)
                known = {_option(problem.pointer) for problem in wrong}
                known = known.intersection(_TRIED).union(_BOUNDED if "root" in known else ())
        default = {option: getattr(defaults, option) for option in known}
        if default == {option: getattr(config, option) for option in known}:
            return problems
        config = dataclasses.replace(config, **default)


def _no_threads(error: Exception, config: LoaderConfig) -> tuple[Problem, ...]:
    """What is told where the system starts no more threads; nothing for another error."""
    if not isinstance(error, RuntimeError) or str(error) != "can't start new thread":
        return ()
    expected = "no more threads than the system starts"
    # Without its notes: that of the engine says the number again.
    advice = f"RuntimeError: {error}; {FEWER}"
    return (Problem("/num_workers", expected, str(config.num_workers), advice),)


def _option(place: str) -> str:
    """The option that a JSON pointer into a config leads to or into; "" for the config itself."""
    return place[1:].partition("/")[0]


def _naming(error: Exception, config: LoaderConfig, base: Base) -> str:
    """The option that names the file or folder which an error is about; "" for none."""
    if isinstance(error, SourceError):
        for option, text in texts({"cache": config.cache, "on_error": config.on_error}):
            if error.path == str(base / text):
                return option
    return ""


def _first_batch(config: LoaderConfig, parts: _Parts) -> list[str]:
    """Lines about the first batch, and about what `on_error` has left out by then.

    Raises:
        ConfigError: it leaves out everything.
        Exception: whatever is raised for a batch that it does not let pass.
    """
    config = dataclasses.replace(unlisted(config), num_workers=0)
    if config.on_error == "raise":
        return _built(config, parts)
    try:
        return _built(dataclasses.replace(config, on_error="raise"), parts)
    except Exception as error:  # noqa: BLE001 - told, if `on_error` lets it pass
        first = in_words(error)
    return _built(config, parts, first)


def _built(config: LoaderConfig, parts: _Parts, first: str = "") -> list[str]:
    """Lines about the first batch; `first` is what was raised for a sample that is left out."""
    with parts.loader(config) as batches:
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


def _at_fault(error: Exception, given: Mapping[str, Any]) -> str:
    """The option at which it is told why there is no batch: a JSON pointer, or the name in code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if error.__cause__ is not None:  # of a WorkerError that is where the code is
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
