"""Makes the runs of a measurement, each setting in turns, and puts together what came of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .._children import current_folder
from ..adapters import torch_loader
from ..config import LoaderConfig, bytes_of, examine
from ..errors import ConfigError, Problem
from ..loader import NO_BATCH
from ._choice import cached, choose, compared, findings
from ._plan import Plan
from ._process import BenchError, in_process
from ._progress import Progress
from ._report import Report, row_of, system
from ._steps import amount

__all__ = ["run"]

MOST_SKIPPED = 2**53 - 1
"""The largest budget that the schema allows. A run often has more epochs than the user's, for which
the budget is meant."""

# What `_child` does in a process of its own; tests put a function in its place.
Runner = Callable[[dict[str, Any]], dict[str, Any]]


def run(
    config: str | os.PathLike[str] | Mapping[str, Any] | LoaderConfig,
    plan: Plan | None = None,
    *,
    unknown: str = "error",
    source: str = "",
    transform: str = "",
    collate: str = "",
    base: Path | None = None,
    name: str = "",
    shown: Progress | None = None,
    runner: Runner = in_process,
) -> Report:
    """Measure a config with several numbers of workers.

    Args:
        config: as `Loader` takes it. Its `num_workers` and `num_epochs` are replaced, and a
            budget of `on_error` lifted.
        plan: what is measured, and for how long.
        unknown: as for `Loader`.
        source: "module:function", called without arguments in each run for the source; "" for
            that of the config.
        transform: "module:function", the transform; "" for that of the config.
        collate: "module:function", the collate; "" for that of the config.
        base: the folder that relative paths in the config are relative to; None: that of its
            file, and without a file the current one.
        name: what the report calls the config; "": its file, if it is one.
        shown: is told how far it has got.
        runner: makes one run.

    Returns:
        What was found.

    Raises:
        ConfigError: the config or the plan is wrong.
        OSError: the config file cannot be read.
        BenchError: a run failed, an epoch has no batch, or torch is to be compared with and
            is not there, or would not be given the config's sampler or exclude.
    """
    plan, shown = Plan() if plan is None else plan, shown or Progress()
    if not isinstance(plan, Plan):
        raise ConfigError(Problem("plan", "a bench.Plan", type(plan).__name__))
    read = examine(config, unknown=unknown, source_in_code=bool(source))
    options = read.checked()
    _refuse(plan, options)
    spec = {
        "base": str(read.base.path if base is None else base),
        "folder": current_folder(),
        "source": source,
        "transform": transform,
        "collate": collate,
        "step": plan.step,
        "size": amount(plan.step, plan.step_ms),
        "seconds": plan.seconds,
        "batches": plan.batches,
    }
    settings = [(loader, workers) for workers in plan.workers for loader in plan.loaders]
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {setting: [] for setting in settings}
    number = 0
    try:
        for turn in range(plan.repeat):
            # Every second turn backwards: a drift, as of a processor's heat, hits all alike.
            for loader, workers in settings[:: -1 if turn % 2 else 1]:
                number += 1
                setting = f"{'PyTorch ' if loader == 'torch' else ''}num_workers {workers}"
                shown.begin(number, setting)
                replaced = _endless(options) | {"num_workers": workers}
                asked = {**spec, "loader": loader, "config": replaced}
                runs[loader, workers].append(_numbers(runner, asked, setting, options.on_error))
    finally:
        shown.close()
    name = name or ("" if isinstance(config, (Mapping, LoaderConfig)) else os.fspath(config))
    return _report(name, plan, options, runs)


def _endless(options: LoaderConfig) -> dict[str, Any]:
    """Give the options of a run that goes on for as many epochs as its time lets it."""
    endless = options.as_dict() | {"num_epochs": None}
    on_error = endless["on_error"]
    if on_error != "raise" and on_error["skip"]:  # 0 permits no failure, however long the run
        endless["on_error"] = {**on_error, "skip": MOST_SKIPPED}
    return endless


def _refuse(plan: Plan, options: LoaderConfig) -> None:
    """Refuse a comparison with torch that cannot be made.

    Raises:
        BenchError: torch is not there, or the config has a sampler or exclude.
    """
    if plan.compare and not torch_loader.is_installed():
        raise BenchError(
            f"--compare torch: expected torch, found none; write: {torch_loader.INSTALL}",
            usage=True,
        )
    if plan.compare and (options.sampler is not None or options.exclude is not None):
        raise BenchError(
            "--compare torch: expected a config without sampler and exclude, which the loader of "
            "torch would not be given, got one; measure it without --compare",
            usage=True,
        )


def _numbers(runner: Runner, asked: dict[str, Any], setting: str, on_error: Any) -> dict[str, Any]:
    """Make one run, in which there must be a sample; `setting` is what errors call it.

    Raises:
        BenchError: it failed, or had no batch, or none with a sample.
    """
    try:
        numbers = runner(asked)
    except BenchError as error:
        if error.usage:
            raise
        # With torch a sample that fails ends the run; with ours, on_error may let it pass.
        bare = asked["loader"] == "torch" and on_error != "raise"
        why = " (on_error is not given to torch)" if bare else ""
        if '"num_workers" asks for' in str(error):  # a thread that could not start was the loader's
            why += "; --workers says which numbers are tried"
        raise BenchError(f"{setting}: {error}{why}") from None
    if numbers.get("batches") and not numbers["samples"]:
        raise BenchError(
            f"{setting}: expected samples, got padding alone: this shard has none in the"
            f" {numbers['batches']} batches that were measured; measure another shard"
        )
    if not numbers["samples"]:
        raise BenchError(f"{setting}: expected a batch, got none: {NO_BATCH}")
    return numbers


def _report(
    name: str, plan: Plan, options: LoaderConfig, runs: dict[tuple[str, int], list[dict[str, Any]]]
) -> Report:
    """Put the numbers of all runs together."""
    has_step = plan.step_ms > 0
    rows = tuple(
        row_of(loader, workers, runs[loader, workers], has_step=has_step)
        for loader in plan.loaders
        for workers in plan.workers
    )
    ours = [row for row in rows if row.loader == "threadloader"]
    theirs = [row for row in rows if row.loader != "threadloader"]
    versions = [made[0]["version"] for (loader, _), made in runs.items() if loader == "torch"]
    machine = system(versions[0] if versions else None)
    told = findings(
        ours,
        step_seconds=plan.step_ms / 1000,
        cores=machine["cores"],
        gil=machine["gil"],
        bounded=options.max_bytes is not None,
    )
    if any(row.peak_bytes is None for row in rows):
        told.append("This system does not tell the peak memory of a process, or not for all of it.")
    return Report(
        config=name,
        plan=plan,
        system=machine,
        data={
            "batch_size": options.batch_size,
            "prefetch_batches": options.prefetch_batches,
            "max_bytes": None if options.max_bytes is None else bytes_of(options.max_bytes),
            "steps": next(iter(runs.values()))[0]["steps_of_epoch"],
        },
        rows=rows,
        choice=choose(ours),
        # Torch is given no cache: there is nothing to compare cached rates with.
        findings=(*told, *([compared(ours, theirs)] if theirs and not cached(ours) else [])),
    )
