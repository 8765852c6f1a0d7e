"""Reads and tries out a config for a command, and gives every problem with its place."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ._command_line import CodeError, given_by, names_of
from ._first_batch import at_fault, first_batch
from ._messages import (
    GOOD,
    PROBLEM,
    from_source,
    line,
    located,
    problem_lines,
    telling,
    with_cause,
)
from ._schema import pointer
from .config import Base, LoaderConfig, Report, examine
from .engine import FEWER
from .errors import ConfigError, Problem, SourceError, by_handler, ends
from .loader import Loader, based, open_configured, stamp_of, without_source

__all__ = ["examined", "read", "tried"]

_TRIED = ("transform", "sampler", "exclude", "cache", "on_error", "pin_memory", "shard")
"""Options that can be right in the config and still keep a loader from entering."""

_REPLACED: Mapping[str, Mapping[str, Any]] = {
    "transform": {"transform": None},
    "sampler": {"sampler": None, "shuffle": False},
}
"""Options that say nothing where a part is given in code, as in a `Loader`."""

_BOUNDED = ("sampler", "exclude", "cache", "on_error")
"""Those of `_TRIED` that may name files, which `root` bounds: if that is wrong, none is tried."""


def examined(report: Report, arguments: argparse.Namespace, said: list[str]) -> int:
    """Tries out a config that `read` has given, without the parts that are given in code.

    What is wrong is put into ``said``.

    Returns:
        The exit code up to now.
    """
    problems, _ = tried(report, arguments, {})
    said += problem_lines(report, problems)
    return PROBLEM if problems else GOOD


def read(arguments: argparse.Namespace, err: list[str]) -> Report | None:
    """Reads the config; None, and what is wrong in ``err``, if it cannot be read or named so."""
    name = arguments.config
    try:
        return examine(
            name,
            unknown=arguments.unknown,
            source_in_code=arguments.source_in_code,
            sampler_in_code="sampler" in names_of(arguments),
        )
    except OSError as error:
        if by_handler(error):
            raise
        err.append(line(f"threadloader: cannot read {name}: {error.strerror or error}"))
    except ConfigError as error:  # the name, not what stands in the file
        err.append(line(f"threadloader: {error}"))
    return None


@telling()
def tried(
    report: Report, arguments: argparse.Namespace, given: Mapping[str, Any]
) -> tuple[list[Problem], list[str]]:
    """Does what ``with Loader(...)`` does, as far as the problems of a config let it.

    ``given``, as `code_of` gives it, is tried in the place of what the config says. A part that the
    command line names and ``given`` lacks is not tried, and neither is the option it replaces.

    The source is opened whatever else is wrong; if it does not open, what needs none is tried;
    and right options are tried beside wrong ones: so all problems come at once. The source is
    opened once, and the loader is given what is open.

    Returns:
        All that is wrong, which is nothing only where there is a config; what to say about a batch.

    Raises:
        UsageError: as of `given_by`, for a source in code.
    """
    problems = list(report.problems)
    lines: list[str] = []
    source: Any = None
    close = opened = None
    config = report.config or _right_part(report)
    if config and not arguments.cache:  # to open a cache makes its folder
        config = dataclasses.replace(config, cache=None)
    try:
        if "source" in given:
            try:
                source = given_by(given["source"])  # not ours to close, as in a Loader
            except CodeError as error:
                problems.append(_of_code(error.__cause__ or error))
        elif report.source and not arguments.source_in_code:
            with _noting(problems, partial(from_source, report)):
                opened = stamp_of(config, report.base, report.source) if config else ""
                source = open_configured(report.source, report.base.path, report.root)
                close = getattr(source, "close", None)
        parts = _Parts(report.base, {**given, "source": source}, opened)
        if config:
            for part in names_of(arguments):  # files of an option that code replaces may be missing
                config = dataclasses.replace(config, **_REPLACED.get(part, {}))
            problems += [it for it in _kept_out(report, config, parts) if it not in problems]
        if report.config and not problems and arguments.batch:
            with _noting(problems, lambda it: located(report, it, at_fault(it, given), "a batch")):
                lines += first_batch(report.config, parts.loader)
    finally:
        if close is not None:
            with _noting(problems, partial(from_source, report)):
                close()
    return problems, lines


@contextlib.contextmanager
def _noting(
    problems: list[Problem], told: Callable[[BaseException], list[Problem]]
) -> Iterator[None]:
    """Notes what is told of whatever user code or a file raises: a command shows no traceback."""
    try:
        yield
    except BaseException as error:  # also the panics of libraries in Rust
        if ends(error):
            raise
        problems += told(error)


class _Parts(NamedTuple):
    """What a config is tried with; its relative paths start at ``base``.

    ``given`` has the parts in code, and the source in any case, None for none; ``opened`` is as of
    `based`: None for a source in code.
    """

    base: Base
    given: Mapping[str, Any]
    opened: str | None

    def loader(self, config: LoaderConfig) -> Loader:
        """The loader; where there is no source, one that needs none."""
        if self.given["source"] is not None:
            return based(Loader(config, **self.given), self.base, opened=self.opened)
        config, length = without_source(config, self.base)
        # The sampler in code would be asked for an order of what is not there.
        given = {**self.given, "source": range(length), "sampler": None}
        return based(Loader(config, **given), self.base)


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

    Entering ends at the first thing that is wrong. Then the option that names it goes back to its
    default, or the part in code that it lies in is left out, and the rest is tried, until that
    enters, or nothing is known to be at fault.
    """
    problems: list[Problem] = []
    defaults = LoaderConfig()
    while True:
        try:
            with parts.loader(config):
                return problems
        except BaseException as error:  # as in `_noting`
            if ends(error):
                raise
            wrong = _wrong(error, report, config, parts)
        problems += [it for it in wrong if it not in problems]
        places = {it.pointer for it in wrong}
        blamed = [part for part, it in parts.given.items() if it is not None and part in places]
        known = {_option(place.removeprefix(pointer(report.section))) for place in places}
        # The source may have failed at a sample that a sampler has asked for.
        known |= {"sampler"} if "source" in known else set()
        known |= set(_BOUNDED) if "root" in known else set()
        default = {option: getattr(defaults, option) for option in known.intersection(_TRIED)}
        if not blamed and default == {option: getattr(config, option) for option in default}:
            return problems
        config = dataclasses.replace(config, **default)
        parts = parts._replace(given={**parts.given, **dict.fromkeys(blamed)})


def _wrong(
    error: BaseException, report: Report, config: LoaderConfig, parts: _Parts
) -> list[Problem]:
    """The problems of an error that has kept a loader from entering, at what is at fault."""
    if wrong := _no_threads(error, config):
        return [report.locate(wrong)]
    if not isinstance(error, ConfigError):
        if parts.opened is None and parts.given["source"] is not None:
            # Nothing else raises such errors.
            return [_of_code(error)]
        if isinstance(error, SourceError):
            return from_source(report, error)
    return located(report, error, "", "a loader that enters")


def _of_code(error: BaseException) -> Problem:
    """What is told of a source in code that fails."""
    return Problem("source", "a source that opens", with_cause(error))


def _no_threads(error: BaseException, config: LoaderConfig) -> Problem | None:
    """What is told where the system starts no more threads; None for another error."""
    if not isinstance(error, RuntimeError) or str(error) != "can't start new thread":
        return None
    expected = "no more threads than the system starts"
    # Without its notes: that of the engine says the number again.
    advice = f"RuntimeError: {error}; {FEWER}"
    return Problem("/num_workers", expected, str(config.num_workers), advice)


def _option(place: str) -> str:
    """The option that a JSON pointer into a config leads to or into; "" for the config itself."""
    return place[1:].partition("/")[0]
