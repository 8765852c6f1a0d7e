"""``threadloader verify``: its arguments, and how it ends."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from .._named import UsageError, named
from ..errors import ConfigError, LoaderError
from ._follow import told
from ._plan import add_arguments, plan_of
from ._progress import Progress
from ._run import run

__all__ = ["add_command"]

GOOD, PROBLEM, USAGE = 0, 1, 2

Lines = list[str]
Examine = Callable[[argparse.Namespace, Lines, Lines], tuple[Any, int, Any]]
"""Reads the config and tries it out: (arguments, what is said, errors) -> (report, code, ...)."""


def add_command(commands: Any, examine: Examine, line: Callable[[str], str]) -> None:
    """Add ``verify`` to the commands.

    Args:
        commands: what `argparse` calls the subparsers.
        examine: reads a config and tries it out, as the other commands do.
        line: makes one line of a text that is safe for a terminal.
    """
    parser = commands.add_parser(
        "verify", help="prove that a config gives the same batches whatever the threads do"
    )
    add_arguments(parser)
    parser.set_defaults(command=partial(_verify, examine, line))


def _verify(
    examine: Examine,
    line: Callable[[str], str],
    arguments: argparse.Namespace,
    out: Lines,
    err: Lines,
) -> int:
    """Run the command; what it prints is put into ``out`` and ``err``, its progress at once."""
    try:
        plan = plan_of(arguments)
    except ConfigError as error:
        err += [line(f"threadloader verify: {problem}") for problem in error.problems]
        return USAGE
    arguments.source_in_code, arguments.batch = bool(arguments.source), False
    report, code, _ = examine(arguments, err if arguments.json else out, err)
    if report is None or code:
        return code
    try:
        # What the user's code prints is no part of the answer.
        with contextlib.redirect_stdout(sys.stderr), _current_folder():
            code_given = {
                name: named(f"--{name}", getattr(arguments, name))
                for name in ("source", "transform", "collate")
                if getattr(arguments, name)
            }
            found = run(
                arguments.config,
                plan,
                unknown=arguments.unknown,
                shown=Progress(sys.stderr, json=arguments.json),
                **code_given,
            )
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a command shows no traceback
        expected = isinstance(error, (LoaderError, OSError))
        err.append(line(f"threadloader verify: {error if expected else told(error)}"))
        return USAGE if isinstance(error, UsageError) else PROBLEM
    if arguments.json:
        out.append(json.dumps(found.as_dict(), indent=2))
    else:
        out += map(line, str(found).split("\n"))
    return GOOD if found.result == "same" else PROBLEM


@contextlib.contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules of the current folder be imported."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
