"""``tools/bench --suite``: the command."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ._picture import BEGINS, picture
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
        _tell(f"tools/bench --suite: {error}")
        return 2

    unwritten: set[str] = set()

    def written(results: Results) -> None:
        for option, name, made in (("--json", asked.json, _json), ("--svg", asked.svg, picture)):
            text = made(results) if name else ""
            if not text:
                continue
            try:
                _replace(Path(os.path.realpath(name)), text)
                unwritten.discard(option)
            except OSError as error:  # the disk is full, which is no reason to measure no more
                if option not in unwritten:
                    why = error.strerror or error
                    _tell(f"tools/bench --suite: {option}: cannot write {name}: {why}")
                unwritten.add(option)

    try:
        results = run(plan, tell=_tell, done=written)
    except (RuntimeError, OSError) as error:
        _tell(f"tools/bench --suite: {error}")
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


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole, or leave what was there, as when the disk is full."""
    made = path.with_name(f".{path.name}-{os.urandom(8).hex()}.tmp")
    made.touch(exist_ok=False)  # never what somebody has put there
    try:
        made.write_text(text, encoding="utf-8")
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


def _json(results: Results) -> str:
    return json.dumps(results.as_dict(), indent=1) + "\n"


def _must_be_writable(numbers: str | None, drawn: str | None) -> None:
    """Refuse files that cannot be written; they are not made yet, for all may still fail."""
    for option, name, begins in (("--json", numbers, '{\n "format"'), ("--svg", drawn, BEGINS)):
        if name == "":  # as of a variable of the shell that is not set
            raise ValueError(f"{option}: expected the name of a file, got ''")
        if name and not _can_write(Path(os.path.realpath(name))):
            raise ValueError(f"{option}: cannot write {name}, or it is no regular file")
        if name and not _is_ours(Path(name), begins):
            raise ValueError(f"{option}: expected a new name, or a file of the suite, got {name}")
    if numbers and drawn and os.path.realpath(numbers) == os.path.realpath(drawn):
        raise ValueError(f"--svg: expected another file than --json, got {drawn}")


def _is_ours(path: Path, begins: str) -> bool:
    """Tell whether a file is none yet, or empty, or begins as what is put into its place."""
    try:
        with path.open("rb") as file:  # not a config, or data that nobody has a copy of
            return file.read(len(begins)) in (b"", begins.encode())
    except FileNotFoundError:
        return True
    except OSError:  # nobody can tell
        return False


def _can_write(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError):  # a name that is too long, or that no file can have
        return False
    # A FIFO would wait for its reader when all is measured.
    # A new file takes the place of the old one, in its folder.
    return stat.S_ISREG(mode) and os.access(path.parent, os.W_OK)


def _tell(line: str) -> None:
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):  # nobody reads what is told: no reason to measure no more
        print(line, file=sys.stderr, flush=True)
