"""``tools/bench --suite``: the command."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ._picture import picture
from ._plan import parser, plan_of
from ._results import Results
from ._run import run
from ._table import table

__all__ = ["main"]


def main(arguments: Sequence[str], printed: Callable[[str], int]) -> int:
    """Measure, print the table, and write what was asked for.

    Args:
        arguments: of the command.
        printed: prints a text; gives 0, or the exit code where it cannot be written.

    Returns:
        The exit code: 0 measured; 1 threadloader or the limit failed or took too long; 2 bad
        usage, nothing that could be run, or a file or table that cannot be written.
    """
    asked = parser().parse_args(arguments)
    try:
        plan = plan_of(asked)
        _must_be_writable(asked.json, asked.svg)  # better now than after an hour
    except ValueError as error:
        print(f"tools/bench --suite: {error}", file=sys.stderr)
        return 2

    unwritten: set[str] = set()

    def written(results: Results) -> None:
        for option, name, made in (("--json", asked.json, _json), ("--svg", asked.svg, picture)):
            text = made(results) if name else ""
            if not text:
                continue
            try:
                Path(name).write_text(text, encoding="utf-8")
                unwritten.discard(option)
            except OSError as error:  # the disk is full, which is no reason to measure no more
                if option not in unwritten:
                    why = error.strerror or error
                    _tell(f"tools/bench --suite: {option}: cannot write {name}: {why}")
                unwritten.add(option)

    try:
        results = run(plan, tell=_tell, done=written)
    except (RuntimeError, OSError) as error:
        print(f"tools/bench --suite: {error}", file=sys.stderr)
        return 2
    code = printed(table(results))
    if asked.svg and not picture(results):
        kinds = ", ".join(work.name for work in results.works)
        _tell(f"tools/bench --suite: --svg: nothing of {kinds} to draw: {asked.svg} is not written")
    if unwritten or code:
        return code or 2
    rows = [row for work in results.works for case in work.cases for row in case.rows]
    if all(row.status == "cannot" for row in rows):  # the table says what each of them expects
        return 2
    ours = [row.status for row in rows if row.loader in ("threadloader", "limit")]
    return int("failed" in ours or "timeout" in ours)


def _json(results: Results) -> str:
    return json.dumps(results.as_dict(), indent=1) + "\n"


def _must_be_writable(numbers: str | None, drawn: str | None) -> None:
    """Refuse files that cannot be written; they are not made yet, for all may still fail."""
    for option, name in (("--json", numbers), ("--svg", drawn)):
        if name == "":  # as of a variable of the shell that is not set
            raise ValueError(f"{option}: expected the name of a file, got ''")
        if name and not _can_write(Path(name)):
            raise ValueError(f"{option}: cannot write {name}, or it is no regular file")
    if numbers and drawn and os.path.realpath(numbers) == os.path.realpath(drawn):
        raise ValueError(f"--svg: expected another file than --json, got {drawn}")


def _can_write(path: Path) -> bool:
    # As `threadloader bench` asks; the suite imports nothing of what it measures.
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return os.access(path.parent, os.W_OK)
    except (OSError, ValueError):  # a name that is too long, or that no file can have
        return False
    # A FIFO would wait for its reader when all is measured.
    return os.access(path, os.W_OK) and stat.S_ISREG(mode)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
