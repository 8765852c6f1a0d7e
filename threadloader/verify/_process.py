"""Looks whether another process gives the same: asks one, and says what the difference means.

Each process hashes str in its own way, which decides the order of a set of them, and keeps what it
has once drawn or read. No run in a single process can show that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._children import answer_in, child_command, child_environment, last_words
from ..errors import by_handler, from_signal
from . import _cause_texts
from ._case import Case
from ._parts import results
from ._plan import Leg, Run
from ._record import Tape, told
from ._report import Cause, Difference

__all__ = ["LostError", "Process", "other_run"]


class LostError(Exception):
    """The other process ended without an answer."""


def other_run(tape: Tape, depth: int) -> Run:
    """Give a run that is resumed in another process; without a state, it is all made there."""
    place, state = tape.resumable or ((0, 0), "")
    legs = (Leg(0, depth, place), Leg(0, depth)) if state else (Leg(0, depth),)
    return Run(legs, begins=(place, state))


class Process:
    """Other processes, with the same config and code.

    They import the code by MODULE:FUNCTION, which `names` has for each part.
    """

    def __init__(self, case: Case, base: Path, names: Mapping[str, str]) -> None:
        self._case = case
        self._spec = {"config": case.config.as_dict(), "base": str(base), "names": dict(names)}

    def compared(self, run: Run, tape: Tape) -> tuple[Difference | None, list[int]]:
        """Have a run made in another process, and give what `_difference.compared` gives.

        Raises:
            LostError: the process ended without an answer.
        """
        assert run.begins is not None
        marks = [
            (*place, content.hex(), dealt.hex(), error, step, tape.errors.get(place, ""))
            for place, (content, dealt, error, step) in tape.marks.items()
            if place >= run.begins[0]
        ]
        given = {"marks": marks, "begins": run.begins}
        given |= {name: getattr(tape, name) for name in ("epochs", "whole", "steps")}
        answer = self._ask({"tape": given}, _seeds()[0])
        if "error" in answer:
            return Difference(run=str(run), kind="run", what=answer["error"]), []
        if answer["difference"] is None:
            return None, []
        plain = answer["difference"] | {"run": str(run)}
        plain |= {name: tuple(plain[name]) for name in ("rows", "indices", "fields")}
        found = Difference(**plain)
        if found.kind == "content":  # the other process has no values of the first run to name
            found = dataclasses.replace(found, what="another process gives something else")
        return found, answer["indices"]

    def cause(self, indices: Sequence[int]) -> Cause:
        """Find, by these samples, which part gives something else in another process."""
        one, other = _seeds()
        there = []
        try:
            here = results(self._case, indices)
            # Two processes that hash str alike, and one that hashes them in another way.
            for seed in (one, one, other):
                answer = self._ask({"indices": list(indices)}, seed)
                if "error" in answer:
                    return _cause_texts.process_differs(answer["error"])
                there.append(answer["results"])
            again = results(self._case, indices)
        except LostError as error:
            return _cause_texts.process_differs(str(error))
        except Exception as error:  # the difference is told all the same
            if from_signal(error):
                raise
            return _cause_texts.process_differs(f"the experiments themselves failed: {told(error)}")
        first, second, third = there
        for part, calls in here.items():
            for name in calls:
                if again[part].get(name) != calls[name]:  # as with a clock that cannot be moved
                    shown = f"{name} gave something else when it was asked again here, too"
                    return _cause_texts.not_repeatable(part, shown)
            names = [it for found in there for it in calls if found[part].get(it) != calls[it]]
            if names:
                alike, hashed = first[part] == second[part], first[part] != third[part]
                return _cause_texts.other_process(part, names[0], alike=alike, hashed=hashed)
        return _cause_texts.process_differs(
            "no call of one part by itself gave something else there"
        )

    def _ask(self, what: Mapping[str, Any], seed: str) -> dict[str, Any]:
        """Start a process, ask `_child.answer` there, and give what it says.

        Args:
            what: what that takes besides the config and code: a tape, or indices.
            seed: decides how the process hashes str.

        Raises:
            LostError: it ended without an answer.
        """
        # Files, since a pipe ends only when every process has closed it: processes that user code
        # has started there hold it, too.
        with contextlib.ExitStack() as files:
            try:
                out, noise = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
                child = subprocess.Popen(
                    child_command("threadloader.verify._child"),
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=noise,
                    env=child_environment(PYTHONHASHSEED=seed),
                )
            except OSError as error:
                if by_handler(error):
                    raise
                raise LostError(f"it could not be started: {error}") from error
            ended = _answered(child, json.dumps(self._spec | dict(what)).encode() + b"\n")
            out.seek(0)
            answered = answer_in(out.read())
            if not answered:
                raise LostError(last_words(ended, noise))
        answer: dict[str, Any] = json.loads(answered)
        return answer


def _answered(child: subprocess.Popen[bytes], question: bytes) -> int:
    """Ask a process, wait for its end, give its exit code. An interrupt ends it, too."""
    assert child.stdin is not None
    with child:
        try:
            with contextlib.suppress(OSError):  # it has ended already; what it said tells why
                child.stdin.write(question)
                child.stdin.flush()
            return child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            # Not before: when its stdin ends, the child takes this process for ended.
            with contextlib.suppress(OSError):
                child.stdin.close()


def _seeds() -> list[str]:
    """Give two ways to hash str, as PYTHONHASHSEED; neither is this process's."""
    return [seed for seed in ("1", "2", "3") if seed != os.environ.get("PYTHONHASHSEED")][:2]
