"""``threadloader bench``: its arguments, and how it ends."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import stat
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from .._command_line import add_code, integer, names_of, new_command, number
from .._dry_run import examined, read
from .._messages import GOOD, PROBLEM, USAGE, in_words, line
from ..adapters import torch_loader
from ..errors import ConfigError, LoaderError, by_handler, from_signal
from ._picture import BEGINS, picture
from ._plan import CODE, STEPS, Plan
from ._progress import progress
from ._run import run

__all__ = ["add_command"]

DESCRIPTION = """\
Runs epochs of a config with several numbers of workers, reports the result of
each, and says which one it would choose and why.

Each run is a process of its own, one after the other; the config's num_workers
and num_epochs are replaced, the budget of its on_error is lifted, everything
else stays. Without --step-ms nothing is done with a batch: then samples/s is
what loading alone can reach, and the data wait means nothing.

Exit code: 0 measured; 1 a problem with the config, with what it names, or in a
run; 2 bad usage, a file that the system cannot read or write, or a package
that --compare asks for and that is missing.
"""


def add_command(commands: Any) -> None:
    """Add ``bench`` to the commands, which `argparse` calls subparsers."""
    says = "measure a config with several numbers of workers"
    parser = new_command(commands, "bench", says, DESCRIPTION)
    parser.set_defaults(command=_bench, batch=False, cache=True)  # the runs use the cache
    add, usual = parser.add_argument, Plan()
    add(
        "--workers",
        type=_integers,
        default=usual.workers,
        metavar="N,N,...",
        help=f"the numbers of workers to try (default: {','.join(map(str, usual.workers))})",
    )
    add(
        "--step-ms",
        type=number,
        default=usual.step_ms,
        metavar="MS",
        help="how long your training step takes, in milliseconds (default: 0, no step)",
    )
    add(
        "--step",
        choices=STEPS,
        default=usual.step,
        help="what stands in for it: sleep, like waiting for an accelerator (default); gil, Python "
        "code; numpy, matrix products",
    )
    add(
        "--seconds",
        type=number,
        metavar="S",
        help=f"how long to measure each run (default: {usual.seconds:g}, or no bound with"
        " --batches)",
    )
    add(
        "--batches",
        type=integer,
        metavar="N",
        help="how many batches a run lasts, the first one included, whatever time they take; with "
        "--seconds whichever is reached first",
    )
    add(
        "--repeat",
        type=integer,
        default=usual.repeat,
        metavar="N",
        help=f"runs of each setting, taken in turns; medians are shown (default: {usual.repeat})",
    )
    add_code(parser, *CODE)
    add(
        "--compare",
        choices=["torch"],
        default=usual.compare,
        help="also run the same source under PyTorch's DataLoader, with as many processes",
    )
    add("--json", action="store_true", help="print JSON instead of the table")
    add("--svg", metavar="FILE", help="also draw a picture into this file")


def _integers(text: str) -> tuple[int, ...]:
    """Read ``0,2,16``."""
    try:
        return tuple(integer(part.strip()) for part in text.split(","))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected integers with commas between them, such as 0,2,16, got {text!r}"
        ) from None


def _bench(arguments: argparse.Namespace, out: list[str], err: list[str]) -> int:
    """Run the command; what it prints is put into ``out`` and ``err``, its progress at once."""

    def refuse(told: object, code: int = USAGE) -> int:
        err.append(line(f"threadloader bench: {told}"))
        return code

    try:
        plan = Plan(**{it.name: getattr(arguments, it.name) for it in fields(Plan)})
    except ConfigError as error:
        for problem in error.problems:
            refuse(problem)
        return USAGE
    if arguments.svg == "":  # as from a variable of the shell that is not set
        return refuse("--svg: expected the name of a file, got ''")
    # Before the runs, which take long.
    if arguments.svg and (refused := _refused(Path(arguments.svg))):
        return refuse(f"cannot write {arguments.svg}: {refused}")
    arguments.source_in_code = bool(arguments.source)
    report = read(arguments, err)
    if report is None:
        return USAGE
    code = examined(report, arguments, err if arguments.json else out)
    if report.config is None or code:
        return code
    # Else torch's first process would find that out, after one of ours has run.
    if plan.compare and (broken := _broken_torch()):
        return refuse(broken)
    shown = progress(sys.stderr, plan.runs, json=arguments.json)
    try:
        found = run(
            report.config,  # what was read: a pipe is not read again
            plan,
            base=report.base.path,
            name=arguments.config,
            **names_of(arguments),
            shown=shown,
        )
    except (LoaderError, OSError) as error:
        if by_handler(error):
            raise
        return refuse(error, USAGE if getattr(error, "usage", False) else PROBLEM)
    if arguments.json:
        out.append(json.dumps(found.as_dict(), indent=2))
    else:
        out += map(line, str(found).split("\n"))
    if arguments.svg:
        try:
            _write(Path(arguments.svg), picture(found))
        except OSError as error:
            if by_handler(error):
                raise
            return refuse(f"cannot write {arguments.svg}: {error.strerror}")
    return GOOD


def _refused(path: Path) -> str:
    """Say why a file cannot be written; "" if it can."""
    try:
        folder = Path(os.path.realpath(path)).parent  # for a link, the one that it leads to
        return _kept_from(path, folder)
    # A name that is too long, or that no file can have; or the current folder is gone.
    except (OSError, ValueError) as error:
        if by_handler(error):
            raise
        return str(getattr(error, "strerror", None) or error)


def _kept_from(path: Path, folder: Path) -> str:
    """Say what keeps a file in a folder from being written; "" if nothing does."""
    asked = [path, folder]
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return os.strerror(errno.EISDIR)
        if not stat.S_ISREG(mode):  # a FIFO would wait for its reader when all is measured
            return "expected a regular file or a new name, got a pipe, a socket or a device"
        with path.open("rb") as file:  # not a config, or data that nobody has a copy of
            if (start := file.read(len(BEGINS))) and start != BEGINS.encode():
                return "expected a new name, or a picture that bench has drawn, got another file"
    except FileNotFoundError as error:
        if by_handler(error):
            raise
        asked = [folder]
        if not folder.is_dir():
            return os.strerror(errno.ENOENT)
    if all(os.access(each, os.W_OK) for each in asked):
        return ""
    fixed = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if fixed else errno.EACCES)


def _write(path: Path, text: str) -> None:
    """Write a file whole, or leave what is there: what is written takes its place at the end."""
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".bench-{os.urandom(8).hex()}.tmp")
    try:
        with beside.open("x", encoding="utf-8") as file:  # never what somebody has put there
            file.write(text)
        if place.exists():
            shutil.copymode(place, beside)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def _broken_torch() -> str:
    """Say why the torch that is there cannot be imported; "" if it can, or if there is none."""
    if not torch_loader.is_installed():
        return ""  # `run` says so
    try:
        torch_loader.import_torch()
    except Exception as error:  # a broken installation raises what it likes
        if from_signal(error):
            raise
        return (
            f"--compare torch: expected a torch that can be imported, got {in_words(error)}; "
            f"write: {torch_loader.INSTALL}"
        )
    return ""
