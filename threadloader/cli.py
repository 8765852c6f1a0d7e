"""The commands: ``threadloader check``, ``bench``, ``order`` and ``verify``."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from . import bench, lookup, verify
from .config import LoaderConfig, Report, examine
from .errors import CollateError, ConfigError, LoaderError, Problem, SourceError
from .loader import Loader, based, without_source
from .loader import open_configured as open_source

__all__ = ["main"]

_GOOD, _PROBLEM, _USAGE, _INTERRUPTED = 0, 1, 2, 130

_CHECK = """\
Says whether `with Loader(FILE)` would enter, and if not, everything that is wrong,
one problem a line:

  FILE:LINE:COLUMN: POINTER: expected ..., got ...; what to do

The source is opened, the shard is taken from the environment where the config says
"auto", and the threads are started once; no batch is built. With --source-in-code the
source is left out: the lists that sampler and exclude name are read, but not held against
its length; a sampler by a field of its samples, and a cache in a folder, are not tried.

Exit code: 0 good; 1 a problem with the config or with what it names; 2 bad usage, or a
file that the system cannot read.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command ``threadloader``.

    Args:
        argv: the arguments; by default those of the process.

    Returns:
        The exit code: 0 good, 1 a problem with the config or what it names, 2 bad
        usage or a file that the system cannot read, 130 interrupted by Ctrl-C.
    """
    out: list[str] = []
    err: list[str] = []
    try:
        arguments = _parser().parse_args(argv)
        code = int(arguments.command(arguments, out, err))
    except SystemExit as leaving:  # argparse has printed its help, or what is wrong
        code = int(leaving.code or 0)
    except KeyboardInterrupt:
        code, out, err = _INTERRUPTED, [], ["threadloader: interrupted"]
    if not _print(out, sys.stdout):
        code, err = _USAGE, [*err, "threadloader: the output cannot be written"]
    _print(err, sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="threadloader", description="Feeds training loops from threads."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check",
        help="say whether a config is good",
        description=_CHECK,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.set_defaults(command=_check)
    check.add_argument("config", metavar="FILE", help="the config; FILE#/training for a section")
    check.add_argument(
        "--unknown",
        choices=["error", "ignore"],
        default="error",
        help='"ignore" lets through keys of the section that are not options, '
        "unless they are one edit away from one (default: error)",
    )
    sources = check.add_mutually_exclusive_group()
    sources.add_argument(
        "--source-in-code", action="store_true", help="the source is given in code: do not open it"
    )
    sources.add_argument(
        "--batch", action="store_true", help="also build one batch and print its shapes and dtypes"
    )
    check.add_argument(
        "--effective",
        action="store_true",
        help="print the whole config as JSON, with its defaults filled in, and all else to stderr",
    )
    measure = commands.add_parser("bench", help="measure a config with several numbers of workers")
    measure.set_defaults(command=_bench)
    bench.add_arguments(measure)
    order = commands.add_parser("order", help="say which samples come when, without a run")
    order.set_defaults(command=_order)
    lookup.add_arguments(order)
    verify.add_command(commands, _examined, _line)
    return parser


def _order(arguments: argparse.Namespace, out: list[str], err: list[str]) -> int:
    """Runs ``order``; what it prints is put into ``out`` and ``err``."""
    arguments.source_in_code = arguments.samples is not None
    report = _read(arguments, err)
    if report is None:
        return _USAGE
    problems = list(report.problems)
    source: Any = None
    try:
        if report.config is None:
            return _PROBLEM
        if arguments.samples is not None:
            source = range(arguments.samples)
        else:
            source = open_source(report.source or {}, report.base, report.root)
        out += lookup.look_up(arguments, report.config, report.base, source).split("\n")
    except Exception as error:  # noqa: BLE001 - a command shows no traceback
        if source is None:
            problems += _from_source(report, error)
        else:
            problems += _located(report, error, "", "an order of the samples")
        return _PROBLEM
    finally:
        err += _told(report, problems)
        if hasattr(source, "close"):
            source.close()
    return _GOOD


def _check(arguments: argparse.Namespace, out: list[str], err: list[str]) -> int:
    """Runs ``check``; what it prints is put into ``out`` and ``err``."""
    said = err if arguments.effective else out
    report, code, lines = _examined(arguments, said, err)
    if report is None or report.config is None or code:
        return code
    said += [_line(f"{arguments.config}: OK"), *map(_line, lines)]
    if arguments.effective:
        out.append(json.dumps(report.config.as_dict(), indent=2))
    return _GOOD


def _bench(arguments: argparse.Namespace, out: list[str], err: list[str]) -> int:
    """Runs ``bench``; what it prints is put into ``out`` and ``err``, its progress at once."""
    try:
        plan = bench.plan_of(arguments)
    except ConfigError as error:
        err += [_line(f"threadloader bench: {problem}") for problem in error.problems]
        return _USAGE
    if arguments.svg and not _can_write(Path(arguments.svg)):  # said before it takes its time
        err.append(_line(f"threadloader bench: cannot write {arguments.svg}"))
        return _USAGE
    arguments.source_in_code, arguments.batch = bool(arguments.source), False
    said = err if arguments.json else out
    report, code, _ = _examined(arguments, said, err)
    if report is None or code:
        return code
    shown = bench.progress(sys.stderr, plan.runs, json=arguments.json)
    try:
        found = bench.run(
            arguments.config,
            plan,
            unknown=arguments.unknown,
            source=arguments.source or "",
            transform=arguments.transform or "",
            shown=shown,
        )
    except (LoaderError, OSError) as error:
        err.append(_line(f"threadloader bench: {error}"))
        return _USAGE if getattr(error, "usage", False) else _PROBLEM
    out += [json.dumps(found.as_dict(), indent=2)] if arguments.json else str(found).split("\n")
    if arguments.svg:
        try:
            Path(arguments.svg).write_text(bench.picture(found), encoding="utf-8")
        except OSError as error:
            err.append(_line(f"threadloader bench: cannot write {arguments.svg}: {error.strerror}"))
            return _USAGE
    return _GOOD


def _can_write(path: Path) -> bool:
    return os.access(path.parent, os.W_OK) and not path.is_dir()


def _examined(
    arguments: argparse.Namespace, said: list[str], err: list[str]
) -> tuple[Report | None, int, list[str]]:
    """Reads a config and tries it out; what is wrong is put into ``said`` or ``err``.

    Returns:
        The report, unless there is none; the exit code up to now; what to say about a batch.
    """
    report = _read(arguments, err)
    if report is None:
        return None, _USAGE, []
    problems, lines = _try_out(report, arguments)
    said += _told(report, problems)
    return report, _PROBLEM if problems or report.config is None else _GOOD, lines


def _read(arguments: argparse.Namespace, err: list[str]) -> Report | None:
    """Reads the config; None, and what is wrong in ``err``, when the system cannot read it."""
    name = arguments.config
    try:
        return examine(name, unknown=arguments.unknown, source_in_code=arguments.source_in_code)
    except OSError as error:
        err.append(_line(f"threadloader: cannot read {name}: {error.strerror or error}"))
    except ConfigError as error:  # the name, not what stands in the file
        err.append(_line(f"threadloader: {error}"))
    return None


def _try_out(report: Report, arguments: argparse.Namespace) -> tuple[list[Problem], list[str]]:
    """Does what ``with Loader(...)`` does, as far as the problems of the config let it.

    The source is opened whatever is wrong elsewhere, so that all problems come at once;
    it is opened once, and the loader is given what is open.

    Returns:
        All problems, in the order of the document; and what to say about a batch.
    """
    problems = list(report.problems)
    lines: list[str] = []
    source: Any = range(0)  # in place of the one in code
    close = None
    try:
        if report.source and not arguments.source_in_code:
            try:
                source = open_source(report.source, report.base, report.root)
                close = getattr(source, "close", None)
            except Exception as error:  # noqa: BLE001 - whatever a file does to its reader
                problems += _from_source(report, error)
        if report.config and not problems:
            try:
                config = report.config
                if arguments.source_in_code:
                    config, length = without_source(config, report.base)
                    source = range(length)
                with based(Loader(config, source=source), report.base):
                    pass
            except Exception as error:  # noqa: BLE001 - a command shows no traceback
                problems += _located(report, error, "", "a loader that enters")
        if report.config and not problems and arguments.batch:
            try:
                lines += _first_batch(report.config, report.base, source)
            except Exception as error:  # noqa: BLE001 - the same
                pointer = "/collate" if isinstance(error, CollateError) else "/source"
                problems += _located(report, error, pointer, "a batch")
    finally:
        if close:
            close()
    return sorted(problems, key=lambda problem: (problem.line, problem.column)), lines


def _first_batch(config: LoaderConfig, base: Path, source: Any) -> Iterator[str]:
    loader = Loader(dataclasses.replace(config, num_workers=0), source=source)
    with based(loader, base) as batches:
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


def _told(report: Report, problems: list[Problem]) -> list[str]:
    """Problems as lines: the file, and in it the place."""
    return [_line(f"{report.file}:{'' if it.line else ' '}{it}") for it in problems]


def _from_source(report: Report, error: Exception) -> list[Problem]:
    """What kept the source from opening, at the option that names the file."""
    if not isinstance(error, SourceError):
        return _located(report, error, "/source", "a source that opens")
    pointer, named = "/source" + error.option, (report.source or {}).get("path", ())
    if error.option:
        named = []
    for number, path in enumerate(named if isinstance(named, list) else [named]):
        if error.path in (path, str(report.base / path)):
            pointer = "/source/path" if path is named else f"/source/path/{number}"
    # The sources say what they expected and what came; said once is enough.
    told = re.fullmatch("expected (.+?),? (?:got|found):? (.+)", error.message, re.DOTALL)
    expected, got = told.groups() if told else ("a source that opens", error.message)
    place = ", ".join(part for part in (error.path, error.place) if part)
    return [report.locate(Problem(pointer, expected, got, place and f"see {place}"))]


def _located(report: Report, error: Exception, pointer: str, expected: str) -> list[Problem]:
    """The problems of an error of the loader, in the whole document."""
    if isinstance(error, ConfigError):
        return [report.locate(problem) for problem in error.problems]
    told = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return [report.locate(Problem(pointer, expected, told))]


def _line(text: str) -> str:
    """One line that is safe for a terminal, whatever file names and data it quotes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _print(lines: list[str], stream: TextIO | None) -> bool:
    """Prints lines; a reader that has gone is none of our business.

    Returns:
        Whether they could be written, or nobody wants them.
    """
    if stream is None:  # a Windows program without a console
        return True
    try:
        for line in lines:
            encoding = getattr(stream, "encoding", None) or "utf-8"
            stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except OSError as error:
        # What is left in the buffer would fail once more when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return error.errno in (errno.EPIPE, errno.EINVAL)  # Windows says EINVAL
    return True
