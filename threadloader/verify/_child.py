"""The other process: compares a run with the first run's tape, or makes single calls of the parts.

It reads on stdin what to do, and writes to stdout what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._children import answered
from .._command_line import named
from .._exit import leave
from ..config import LoaderConfig
from ._case import Case
from ._difference import compared
from ._parts import results
from ._plan import Leg, Run
from ._record import Mark, Tape, told

__all__ = ["answer", "main"]


def main() -> None:
    """Do what stdin says, and print one line of JSON: what came of it, or an error."""
    answered(answer, lambda error: {"error": told(error)})
    leave()


def answer(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Do what is asked for.

    Args:
        spec: ``config`` (every option), ``base`` (the folder that its paths are relative to),
            ``names`` (of the code that the command line names), and either ``tape``, as
            `_process` writes it, or ``indices`` of the dataset.

    Returns:
        For a tape ``difference``, the first one or None, and ``indices``, those of its batch. For
        indices ``results``, the digest of each call of each part.

    Raises:
        CodeError, UsageError: as of `named`.
        VerifyError: a batch holds something that cannot be compared.
        Exception: for indices, the source does not open; for a tape, that is the difference.
    """
    code = {name: named(f"--{name}", it) for name, it in spec["names"].items()}
    case = Case(LoaderConfig(**spec["config"]), Path(spec["base"]), **code)
    try:
        if "indices" in spec:
            return {"results": results(case, spec["indices"])}
        given = spec["tape"]
        tape = Tape(given["epochs"])
        tape.whole, tape.steps = given["whole"], given["steps"]
        for epoch, number, content, dealt, error, step, what in given["marks"]:
            mark = Mark(bytes.fromhex(content), bytes.fromhex(dealt), error, step)
            tape.marks[epoch, number] = mark
            if what:
                tape.errors[epoch, number] = what
        (epoch, number), state = given["begins"]
        run = Run((Leg(0, case.config.prefetch_batches),), begins=((epoch, number), state))
        found, around = compared(case, run, tape)
        return {"difference": None if found is None else asdict(found), "indices": around}
    finally:
        case.close()
