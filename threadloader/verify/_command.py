"""``threadloader verify``: its arguments, and how it ends."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from .._command_line import UsageError, add_code, code_of, integer, names_of, new_command
from .._dry_run import examined, read
from .._messages import GOOD, PROBLEM, USAGE, line
from ..errors import ConfigError, LoaderError, WorkerError, ends
from ._plan import EPOCHS, Plan
from ._progress import Progress
from ._record import told
from ._run import run

__all__ = ["add_command"]

DESCRIPTION = """\
Proves on your own data that the config gives the same batches whatever the
threads do.

The config is run without workers and then with 1, 2 and 8, with several
prefetch depths, and with runs that are stopped, saved as JSON and resumed, one
of them in another process. Every batch is compared with that of the run
without workers: content, dataset indices, padding. If one differs, it says
which, and looks for the cause by experiments on the source, the transform, the
collate and the sampler.

Exit code: 0 all the same; 1 a difference, a fault (UNSAFE), samples that fail,
or a problem with the config or with what it names; 2 bad usage, or a file that
the system cannot read.
"""


def add_command(commands: Any) -> None:
    """Add ``verify`` to the commands, which `argparse` calls subparsers."""
    says = "prove that a config gives the same batches whatever the threads do"
    parser = new_command(commands, "verify", says, DESCRIPTION)
    parser.set_defaults(command=_verify, batch=False, cache=False)  # no run uses the cache
    parser.add_argument(
        "--epochs",
        type=integer,
        metavar="N",
        help=f"epochs of each run (default: {EPOCHS}, or 1 where num_epochs of the config is 1)",
    )
    parser.add_argument(
        "--batches",
        type=integer,
        metavar="N",
        help="compare at most N batches of each epoch (default: as many as the run without "
        "workers makes in a few seconds)",
    )
    add_code(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _verify(arguments: argparse.Namespace, out: list[str], err: list[str]) -> int:
    """Run the command; what it prints is put into ``out`` and ``err``, its progress at once."""
    try:
        plan = Plan(epochs=arguments.epochs, batches=arguments.batches)
    except ConfigError as error:
        err += [line(f"threadloader verify: {problem}") for problem in error.problems]
        return USAGE
    arguments.source_in_code = bool(arguments.source)
    report = read(arguments, err)
    if report is None:
        return USAGE
    code = examined(report, arguments, err if arguments.json else out)
    if report.config is None or code:
        return code
    try:
        with code_of(arguments) as given:
            found = run(
                report.config,  # what was read: a pipe is not read again
                plan,
                base=report.base.path,
                name=arguments.config,
                names=names_of(arguments),
                shown=Progress(sys.stderr, json=arguments.json),
                **given,
            )
    except BaseException as error:  # a command shows no traceback
        if ends(error):
            raise
        # Our own error's message stands for itself, but not a WorkerError's, nor one with notes.
        ours = isinstance(error, LoaderError) and not isinstance(error, WorkerError)
        said = error if ours and not getattr(error, "__notes__", ()) else told(error)
        err.append(line(f"threadloader verify: {said}"))
        return USAGE if isinstance(error, UsageError) else PROBLEM
    if arguments.json:
        out.append(json.dumps(found.as_dict(), indent=2))
    else:
        out += map(line, str(found).split("\n"))
    return GOOD if found.result == "same" else PROBLEM
