"""Puts it together: the first run, those that are compared with it, and the search for a cause."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from .._command_line import UsageError, named
from ..config import LoaderConfig, examine
from ..errors import ConfigError, Problem
from ..loader import deal_of
from ._case import CODE, Case
from ._cause_texts import CHANGED
from ._causes import Glance, causes, faults
from ._difference import ShortError, compared
from ._plan import DEEP, Plan, runs
from ._probe import CALLS
from ._process import LostError, Process, other_run
from ._progress import Progress
from ._record import FIRST, Tape, record
from ._report import Cause, Difference, Failure, Report

__all__ = ["run"]

AHEAD_BYTES = 1 << 30
"""The memory that the deepest prefetch may take; where batches are larger, it is less deep."""


def run(
    config: str | os.PathLike[str] | Mapping[str, Any] | LoaderConfig,
    plan: Plan | None = None,
    *,
    unknown: Literal["error", "ignore"] = "error",
    source: Callable[[], Any] | None = None,
    transform: Callable[..., Any] | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    sampler: Any = None,
    names: Mapping[str, str] | None = None,
    base: Path | None = None,
    name: str = "",
    shown: Progress | None = None,
) -> Report:
    """Compare runs of a config with the one without workers, and look for what makes them differ.

    Args:
        config: as `Loader` takes it. Workers, prefetch and number of epochs are replaced.
        plan: how much is compared.
        unknown: as for `Loader`.
        source: called without arguments, anew for each run, for the source that takes the
            place of the config's.
        transform: as for `Loader`.
        collate: as for `Loader`.
        sampler: as for `Loader`.
        names: from "source", "transform", "collate" and "sampler", those that are given, to the
            ``"module:function"`` by which another process finds them; then one run more goes on in
            another process. None: there is no such run. They are imported here, too.
        base: the folder that relative paths in the config are relative to; None: that of its
            file, and without a file the current one.
        name: what the report calls the config; "": its file, if it is one.
        shown: is told how far it has got.

    Returns:
        What was found.

    Raises:
        ConfigError: the config or the plan is wrong, or ``source`` or ``names`` is.
        OSError: the config file cannot be read.
        LoaderError: the function ``source`` raised an exception, or the import of what is in
            ``names``, which is the cause.
        VerifyError: there is no batch, or one that cannot be compared.
        Exception: whatever opening the source of the config, or the sampler, raises.

    >>> from threadloader import verify
    >>> report = verify.run({"batch_size": 4}, source=lambda: list(range(30)))
    >>> report.result, report.batches, report.samples
    ('same', 16, 60)
    """
    plan, shown = Plan() if plan is None else plan, shown or Progress()
    if not isinstance(plan, Plan):
        raise ConfigError(Problem("plan", "a verify.Plan", type(plan).__name__))
    parts = (source, transform, collate, sampler)
    given = {part: it for part, it in zip(CODE, parts, strict=True) if it is not None}
    _refuse(given, names)
    read = examine(
        config,
        unknown=unknown,
        source_in_code=source is not None,
        sampler_in_code=sampler is not None,
    )
    options, base = read.checked(), read.base.path if base is None else base
    case = Case(options, base, **given)
    if not name and not isinstance(config, (Mapping, LoaderConfig)):
        name = os.fspath(config)
    process = None if names is None else Process(case, base, names)
    try:
        return _report(case, plan, name, process, shown)
    finally:
        shown.close()
        case.close()


def _refuse(given: Mapping[str, Any], names: Mapping[str, str] | None) -> None:
    """Refuse code that cannot be called, or that another process would not find by `names`."""
    if names is not None and not isinstance(names, Mapping):
        expected = 'a mapping, as {"source": "module:function"}'
        raise ConfigError(Problem("names", expected, type(names).__name__))
    problems = []
    if "source" in given and not callable(given["source"]):
        got = type(given["source"]).__name__
        hint = "write: source=lambda: ..."
        problems.append(Problem("source", "a function that opens it", got, hint))
    if names is not None and set(names) != set(given):
        expected = f"a name of each part that is given in code, {list(given)}"
        problems.append(Problem("names", expected, repr(list(names))))
    for part, name in (names or {}).items():
        if not isinstance(name, str) or name.startswith("__main__:"):  # another program there
            expected = '"module:function" by which another process finds it'
            problems.append(Problem(f"names[{part!r}]", expected, repr(name)))
    if problems:
        raise ConfigError(problems)
    for part, name in (names or {}).items():
        try:
            named(f"names[{part!r}]", name)
        except UsageError as error:
            raise ConfigError(str(error)) from error


def _report(case: Case, plan: Plan, name: str, process: Process | None, shown: Progress) -> Report:
    began = time.monotonic()
    config, epochs = case.config, plan.epochs_of(case.config)
    own = (config.num_workers, config.prefetch_batches)
    expected = 1 + len(runs(own, DEEP, epochs=epochs, steps=2, whole=True, seed=0))
    expected += process is not None
    shown.begin(1, expected, "num_workers 0")
    before = case.stamp()
    tape = record(case, epochs, plan.batches, shown.tick)
    deep = max(1, min(DEEP, AHEAD_BYTES // max(1, tape.batch_bytes)))
    tried = runs(own, deep, epochs=epochs, steps=tape.steps, whole=tape.whole, seed=config.seed)
    others = () if process is None else (other_run(tape, own[1]),)
    left = _left_out(case, tape, deep)
    outcomes, first, indices, elsewhere = [], None, tape.indices or _failed(tape), False
    for number, run in enumerate((*tried, *others), 2):
        there = run.begins is not None
        shown.begin(expected if there else number, expected, str(run))
        try:
            if process is not None and there:
                difference, around = process.compared(run, tape)
            else:
                difference, around = compared(case, run, tape)
        except (ShortError, LostError) as error:
            left.append(f"{'another process' if there else run}: {error}")
            continue
        outcomes.append((run, difference is None))
        if difference is not None and first is None:
            first, indices, elsewhere = difference, [*around, *indices], there

    def search(difference: Difference) -> tuple[Cause, ...]:
        def tell(what: str) -> None:
            shown.begin(expected, expected, f"looking for the cause: {what}")

        alone = any(run.again and not it for run, it in outcomes)
        return causes(case, tape, difference, indices, depth=deep, alone=alone, tell=tell)

    if first is None:
        glance = faults(case, indices)
    elif case.stamp() != before:  # experiments on changed files say nothing of the runs
        glance = Glance((CHANGED,))
    elif process is not None and elsewhere:
        # First what this process shows as well, such as that each run draws something else.
        glance = faults(case, indices, CALLS)
        glance = Glance(glance.causes or (process.cause(indices),), failed=glance.failed)
    else:
        glance = Glance(search(first))
    left += [glance.failed] if glance.failed else []
    return Report(
        config=name,
        epochs=epochs,
        steps=tape.steps,
        of_epoch=tape.of_epoch,
        batches=len(tape.marks),
        samples=tape.samples,
        seconds=time.monotonic() - began,
        fingerprint=tape.fingerprint,
        runs=tuple(outcomes),
        not_compared=tuple(left),
        difference=first,
        causes=glance.causes,
        dangers=glance.dangers,
        failures=tuple(
            Failure(place[0], tape.marks[place].step, error) for place, error in tape.errors.items()
        ),
    )


def _failed(tape: Tape) -> list[int]:
    """Give the samples that the loader names in its errors, to look at where no batch came.

    Not those in the user's own messages: they may be left out, or of another source.
    """
    wrapped, noted = r"WorkerError: .*? was", r".*; threadloader:"  # the last note is the loader's
    # The note first: a WorkerError may be the user's own, as of a loader in a transform.
    ours = rf"(?s)(?:{noted}|{wrapped}) raised for (?:sample|[^()]*\(samples) "
    texts = (re.match(ours + r"(\d{1,19}(?:, \d{1,19})*)", it) for it in tape.errors.values())
    named = [index for found in texts if found for index in found[1].split(", ")]
    return list(map(int, named))[:FIRST]


def _left_out(case: Case, tape: Tape, deep: int) -> list[str]:
    """Say what was not compared."""
    found = []
    if not tape.whole:
        found.append(
            f"{tape.of_epoch - tape.steps:,} of the {tape.of_epoch:,} batches of each epoch, "
            "and a resume at an epoch's end; --batches N compares more"
        )
    if tape.epochs == 1:
        found.append("what only a second epoch shows; --epochs 2 compares that")
    if deep < DEEP:
        found.append(f"a prefetch of more than {deep} batches: they are large")
    if deal_of(case.config).shard_count > 1:
        found.append("the batches of other shards")
    return found
