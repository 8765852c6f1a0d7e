"""The commands: ``threadloader check``, ``bench``, ``order`` and ``verify``."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from . import __version__, bench, lookup, verify
from ._command_line import CodeError, UsageError, add_code, code_of, new_command
from ._dry_run import read, tried
from ._exit import leave
from ._messages import GOOD, PROBLEM, USAGE, line, problem_lines
from ._stdout import answering, lead_nowhere
from .config import in_order
from .errors import Problem, from_signal

__all__ = ["main", "program"]

_INTERRUPTED = 130

_CHECK = """\
Says whether `with Loader(FILE)` would enter, and if not, everything that is
wrong, one problem a line:

  FILE:LINE:COLUMN: POINTER: expected ..., got ...; what to do

The source is opened, the shard is taken from the environment where the config
says "auto", and the threads are started once; no batch is built. With
--source-in-code the source is left out: the lists that sampler and exclude
name are read, but not compared with its length; a sampler by a field of its
samples, and a cache in a folder, are not tried. The same holds if the source
cannot be opened. --batch skips samples as on_error allows, and reports how
many. --source, --transform, --collate and --sampler import what your program
gives in code, and try it in the place of what the config says.

--json prints one object: "config" as it was named, "good", true or false,
"problems", each with pointer, expected, got, hint, line and column, and
"batch", the lines that --batch prints.

Exit code: 0 good; 1 a problem with the config or with what it names, or code
that fails; 2 bad usage, or a file that the system cannot read.
"""


def program(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs as `main` does and ends the process, without waiting for what user code left behind."""
    with answering() as stdout:  # to the end: the exit functions of user code print as well
        leave(_run(argv, stdout))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command ``threadloader``.

    Args:
        argv: the arguments; by default those of the process.

    Returns:
        The exit code: 0 good, 1 a problem with the config or what it names, 2 bad
        usage or a file that the system cannot read, 130 interrupted by Ctrl-C.
    """
    with answering() as stdout:
        return _run(argv, stdout)


def _run(argv: Sequence[str] | None, stdout: TextIO | None) -> int:
    out: list[str] = []
    err: list[str] = []
    try:
        try:
            with contextlib.redirect_stdout(io.StringIO()) as told:  # the help is an answer, too
                arguments = _parser().parse_args(argv)
        except SystemExit as leaving:  # argparse has printed its help, or what is wrong
            code = int(leaving.code or 0)
            out += told.getvalue().splitlines()
        else:
            code = int(arguments.command(arguments, out, err))
        if not _print(out, stdout):
            code, err = USAGE, [*err, "threadloader: the output cannot be written"]
        _print(err, sys.stderr)
    except KeyboardInterrupt:
        code = _INTERRUPTED
        _print(["threadloader: interrupted"], sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="threadloader", description="Feeds training loops from threads."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    check = new_command(commands, "check", "say whether a config is good", _CHECK, "FILE")
    check.set_defaults(command=_check, cache=True)
    sources = check.add_mutually_exclusive_group()
    sources.add_argument(
        "--source-in-code", action="store_true", help="the source is given in code: do not open it"
    )
    sources.add_argument(
        "--batch", action="store_true", help="also build one batch and print its shapes and dtypes"
    )
    add_code(check)
    printed = check.add_mutually_exclusive_group()
    printed.add_argument("--json", action="store_true", help="print JSON instead of lines")
    printed.add_argument(
        "--effective",
        action="store_true",
        help="print the whole config as JSON, with its defaults filled in, and all else to stderr",
    )
    bench.add_command(commands)
    lookup.add_command(commands)
    verify.add_command(commands)
    return parser


def _check(arguments: argparse.Namespace, out: list[str], err: list[str]) -> int:
    """Runs ``check``; what it prints is put into ``out`` and ``err``."""
    said = err if arguments.effective else out
    if arguments.source and arguments.source_in_code:
        err.append("threadloader check: --source: not allowed with --source-in-code")
        return USAGE
    arguments.source_in_code |= bool(arguments.source)
    report = read(arguments, err)  # before code is imported, which may go to another folder
    if report is None:
        return USAGE
    problems: list[Problem] = []
    lines: list[str] = []
    try:
        with code_of(arguments) as given:
            problems, lines = tried(report, arguments, given)
    except (CodeError, UsageError) as error:
        err.append(line(f"threadloader check: {error}"))
        if isinstance(error, UsageError):
            return USAGE
        if not arguments.json:
            said += problem_lines(report, list(report.problems))
            return PROBLEM
        problems = [*report.problems, Problem("", "code that can be imported", str(error))]
    if arguments.json:
        out.append(_answer(arguments.config, problems, lines))
        return PROBLEM if problems else GOOD
    said += problem_lines(report, problems)
    if report.config is None or problems:
        return PROBLEM
    said += [line(f"{arguments.config}: OK"), *map(line, lines)]
    if arguments.effective:
        out.append(json.dumps(report.config.as_dict(), indent=2))
    return GOOD


def _answer(name: str, problems: list[Problem], lines: list[str]) -> str:
    """What ``check --json`` prints of a config."""
    answer = {"config": name, "good": not problems}
    told = [problem._asdict() for problem in sorted(problems, key=in_order)]
    return json.dumps({**answer, "problems": told, "batch": lines}, indent=2)


def _print(lines: list[str], stream: TextIO | None) -> bool:
    """Prints lines; a reader that has gone is none of our business.

    Returns:
        Whether they could be written, or nobody wants them.

    Raises:
        KeyboardInterrupt: Ctrl-C came, perhaps while a pager let it wait.
    """
    # User code may have closed it, or put a stream in its place that has no more than is used
    # below; it is None in a Windows program without console.
    if stream is None or getattr(stream, "closed", False):
        return True
    try:
        for text in lines:
            encoding = getattr(stream, "encoding", None) or "utf-8"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except (OSError, KeyboardInterrupt) as error:
        if not isinstance(error, KeyboardInterrupt) and from_signal(error):
            raise
        # What is left in the buffer would fail, or wait, once more when Python ends.
        with contextlib.suppress(OSError):  # there may be no such device
            lead_nowhere(stream.fileno())
        if isinstance(error, KeyboardInterrupt):
            raise
        return error.errno in (errno.EPIPE, errno.EINVAL)  # Windows says EINVAL
    return True
