"""What is measured: `Plan`, and the command line that says so."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import loaders, works

__all__ = ["Plan", "parser", "plan_of"]

_MOST = 86400
"""The seconds of a day, also for repeats. Chosen: JSON has no infinity, and no system waits for
ever when it is told for how long."""


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        works: names of works.
        loaders: names of loaders; those that are not installed are left out.
        named: whether the loaders were asked for by name.
        repeats: runs of each loader at each case.
        seconds: how long a run is timed, at least, where its work has no length of its own.
        timeout: seconds after which a run is ended and counts as hanging.
        quick: whether everything is tiny, to see that it works.
        pythons: interpreters; a loader runs in the first one that has it.
    """

    works: tuple[str, ...] = works.NAMES
    loaders: tuple[str, ...] = loaders.NAMES
    named: bool = False
    repeats: int = 5
    seconds: float = 1.5
    timeout: float = 120.0
    quick: bool = False
    pythons: tuple[str, ...] = (sys.executable,)

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON values, without paths of this machine."""
        plan = asdict(self)
        del plan["pythons"], plan["named"]
        return plan


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line."""
    found = argparse.ArgumentParser(
        "tools/bench --suite",
        description="Measures threadloader beside other loaders at every kind of work, each beside"
        " the limit of the same run. Those that are not installed are left out; docs/benchmarks.md"
        " tells what is measured and how.",
    )
    known = f"of {', '.join(works.NAMES)}; and {', '.join(works.BESIDE)}, by name alone"
    found.add_argument("--only", metavar="WORK,...", help=known)
    found.add_argument("--loaders", metavar="NAME,...", help=f"of {', '.join(loaders.NAMES)}")
    found.add_argument("--repeats", type=int, metavar="N", help="runs of each (5)")
    found.add_argument("--seconds", type=float, metavar="S", help="timed in each run (1.5)")
    found.add_argument("--timeout", type=float, metavar="S", default=120.0, help="of a run (120)")
    found.add_argument("--quick", action="store_true", help="tiny sizes: see that it works")
    found.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="PYTHON",
        help="another interpreter, for loaders that this one has not; may be given again",
    )
    found.add_argument("--json", metavar="FILE", help="write all numbers")
    found.add_argument("--svg", metavar="FILE", help="draw a picture")
    return found


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Give the plan of a command line.

    Raises:
        ValueError: something has no meaning; the message says what to write.
    """
    quick = arguments.quick
    for option in ("repeats", "seconds", "timeout"):
        value = getattr(arguments, option)
        if value is not None and not 0 < value <= _MOST:
            raise ValueError(f"--{option}: expected a number above 0, up to {_MOST}, got {value:g}")
    if "" in arguments.also:
        raise ValueError("--also: expected a Python interpreter, got ''")
    return Plan(
        works=_names("--only", arguments.only, works.NAMES, works.BESIDE),
        loaders=_names("--loaders", arguments.loaders, loaders.NAMES),
        named=arguments.loaders is not None,
        repeats=arguments.repeats or (1 if quick else 5),
        seconds=arguments.seconds or (0.02 if quick else 1.5),
        timeout=arguments.timeout,
        quick=quick,
        pythons=(sys.executable, *map(_where, arguments.also)),
    )


def _where(python: str) -> str:
    """Give an interpreter as it is found from any folder; a mere name is looked up in the PATH."""
    return os.path.abspath(python) if os.path.dirname(python) else python  # noqa: PTH100, PTH120


def _names(
    option: str, text: str | None, usual: Sequence[str], beside: Sequence[str] = ()
) -> tuple[str, ...]:
    if text is None:
        return tuple(usual)
    asked = text.replace("-", "_").split(",")
    for name in asked:
        if name not in (*usual, *beside):
            raise ValueError(
                f"{option}: expected names of {', '.join((*usual, *beside))}, got {name!r}"
            )
    return tuple(name for name in (*usual, *beside) if name in asked)
