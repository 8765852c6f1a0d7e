"""Takes turns: every loader at every case, each run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import loaders, works
from ._machine import commit
from ._plan import Plan
from ._process import in_process
from ._protocol import Case
from ._results import CaseResult, Results, WorkResult, row_of

__all__ = ["Runner", "Seat", "run"]

Runner = Callable[[str, dict[str, Any], float, Mapping[str, str]], dict[str, Any]]
"""What makes one run: `in_process`; tests put a function in its place."""


@dataclass(frozen=True)
class Seat:
    """A loader and the interpreter that it runs in; the loader "limit" is the limit."""

    loader: str
    python: str


def run(
    plan: Plan,
    *,
    runner: Runner = in_process,
    tell: Callable[[str], object] = lambda line: None,
    done: Callable[[Results], object] = lambda results: None,
) -> Results:
    """Measure what a plan says.

    Args:
        plan: what, with whom, how often.
        runner: makes one run.
        tell: is told each run that begins, and who was asked for by name and is not there.
        done: is given the results after each kind of work, so that a long measurement that is
            interrupted has not been for nothing.

    Returns:
        What was found.

    Raises:
        RuntimeError: an interpreter is none, or cannot say what a work's cases are; or no loader
            is installed.
    """
    seats, machines, versions = _seats(plan, runner)
    missing = [name for name in plan.loaders if name not in versions]
    if plan.named and missing:
        tell(f"not installed, and left out: {', '.join(missing)}")
    titles = {name: loaders.loader(name).TITLE for name in plan.loaders}
    results = Results(commit(), plan.as_dict(), machines, titles, versions)
    pythons = dict(zip(plan.pythons, (one["python"] for one in machines), strict=True))
    kinds = {name: works.work(name) for name in plan.works}
    made = {
        python: _cases(plan, runner, python)
        for python in dict.fromkeys(seat.python for seat in seats)
    }
    cases = next(iter(made.values()))  # of the first interpreter, whose options are told
    asked = {name: _asked(plan, kind, seats) for name, kind in kinds.items()}
    total = plan.repeats * sum(len(cases[name]) * len(asked[name]) for name in kinds)
    before = 0
    for name, kind in kinds.items():
        found = WorkResult(name, kind.SHORT, kind.TITLE, kind.LIMIT, list(kind.METRICS), [])
        for number, case in enumerate(cases[name]):
            of = {python: theirs[name][number] for python, theirs in made.items()}

            def make(
                seat: Seat, turn: int, place: int, name: str = name, of: dict[str, Case] = of
            ) -> dict[str, Any]:
                case = of[seat.python]
                tell(f"{place} of {total}: {name}, {case.name}: {seat.loader}, turn {turn + 1}")
                return _one(plan, runner, name, case, seat)

            answers = _turns(asked[name], plan.repeats, make, before)
            before += plan.repeats * len(asked[name])
            rows = [
                row_of(
                    seat.loader,
                    pythons[seat.python],
                    answers[seat],
                    answers[Seat("limit", seat.python)],
                    kind.METRICS,
                )
                for seat in answers
            ]
            found.cases.append(CaseResult(case.name, case.options, rows))
        results.works.append(found)
        done(results)
    return results


def _seats(plan: Plan, runner: Runner) -> tuple[list[Seat], list[dict[str, Any]], dict[str, str]]:
    """Find the first interpreter that has each loader."""
    asked = {name: loaders.loader(name) for name in plan.loaders}
    modules = {name: [one.PACKAGE, one.MODULE] for name, one in asked.items()}
    seats: list[Seat] = []
    machines: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for python in plan.pythons:
        answer = runner(python, {"installed": modules}, plan.timeout, {})
        if "machine" not in answer:
            raise RuntimeError(
                f"{python}: expected a Python interpreter with numpy: {next(iter(answer.values()))}"
            )
        machines.append(_told_apart(answer["machine"], machines))
        here = [
            name
            for name, version in answer["versions"].items()
            if version is not None and name not in versions
        ]
        versions |= {name: answer["versions"][name] for name in here}
        if here:
            seats += [Seat("limit", python), *(Seat(name, python) for name in here)]
    if not seats:
        raise RuntimeError(
            f"--loaders: expected one that is installed, found none of {', '.join(plan.loaders)};"
            " benchmarks/requirements.txt has the lines that install them"
        )
    return seats, machines, versions


def _told_apart(machine: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    """Give an interpreter a name of its own: "CPython 3.13.0 (2)" is the second one of these."""
    name, named = machine["python"], {other["python"] for other in others}
    for number in range(2, len(others) + 2):
        if machine["python"] in named:
            machine = {**machine, "python": f"{name} ({number})"}
    return machine


def _cases(plan: Plan, runner: Runner, python: str) -> dict[str, list[Case]]:
    """Have the cases made where the runs are made, by each interpreter for itself.

    Not here: numpy may have more threads here, with which more products make up a step. And one
    Python takes longer than another for as many rounds of a loop.
    """
    answer = runner(python, {"cases": list(plan.works), "quick": plan.quick}, plan.timeout, {})
    if "cases" not in answer:
        raise RuntimeError(f"{python}: expected the sizes of steps: {next(iter(answer.values()))}")
    return {name: [Case(**case) for case in cases] for name, cases in answer["cases"].items()}


def _asked(plan: Plan, kind: Any, seats: list[Seat]) -> list[Seat]:
    """Choose who takes part in a work: all, or those that it names, and the limit beside them."""
    only = None if plan.named else getattr(kind, "LOADERS", None)
    if only is None:
        return seats
    asked = [seat for seat in seats if seat.loader in only]
    limits = [Seat("limit", python) for python in dict.fromkeys(seat.python for seat in asked)]
    return limits + asked


def _turns(
    seats: list[Seat],
    repeats: int,
    make: Callable[[Seat, int, int], dict[str, Any]],
    before: int,
) -> dict[Seat, list[dict[str, Any]]]:
    """Let all take turns, every second turn backwards; who fails is not asked again.

    What drifts, as a processor's heat, so hits all alike.
    """
    answers: dict[Seat, list[dict[str, Any]]] = {seat: [] for seat in seats}
    for turn in range(repeats):
        for place, seat in enumerate(seats[:: -1 if turn % 2 else 1], 1):
            if all("numbers" in answer for answer in answers[seat]):
                answers[seat].append(make(seat, turn, before + turn * len(seats) + place))
    return answers


def _one(plan: Plan, runner: Runner, name: str, case: Case, seat: Seat) -> dict[str, Any]:
    spec = {"work": name, "options": case.options, "loader": seat.loader, "seconds": plan.seconds}
    if seat.loader == "limit":
        return runner(seat.python, {**spec, "package": "", "module": ""}, plan.timeout, {})
    loader = loaders.loader(seat.loader)
    return runner(
        seat.python,
        {**spec, "package": loader.PACKAGE, "module": loader.MODULE},
        plan.timeout,
        getattr(loader, "ENVIRONMENT", {}),
    )
