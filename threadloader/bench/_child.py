"""The process of one run: it reads on stdin what to run, and writes to stdout what came of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .._children import answered
from .._command_line import CodeError, UsageError, given_by, named
from .._exit import leave
from .._messages import with_cause
from ..adapters import torch_loader
from ..collate import make_collate
from ..config import LoaderConfig
from ..loader import Loader, based, deal_of, fills_of, open_configured, transform_of, unlisted
from ..sources import PerThread, as_source
from ..transforms import bind
from ._measure import Memory, Timing, storage_bytes, take_time
from ._plan import CODE
from ._process import BenchError
from ._steps import make_step

__all__ = ["main", "run"]


def main() -> None:
    """Run what stdin says, and print one line of JSON: what came of it, or an error."""
    answered(run, _told)
    leave()


def _told(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    if issubclass(kind, (BenchError, CodeError, UsageError)):
        return {"error": str(error), "usage": issubclass(kind, UsageError)}
    return {"error": with_cause(error)}


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Measure one run.

    Args:
        spec: ``loader``, ``config`` (every option), ``base`` (the folder that its paths are
            relative to), ``folder`` (the current one, for modules), ``source``, ``transform`` and
            ``collate`` ("module:function" or ""), ``step``, ``size``, ``seconds``, ``batches``.

    Returns:
        The numbers of a run as `_report.Run` has them; ``samples``, 0, alone for no batch.
    """
    names = {part: spec[part] for part in CODE if spec[part]}
    if names:  # else no module of that folder may be imported
        sys.path.insert(0, spec["folder"])
    given = {part: named(f"--{part}", name) for part, name in names.items()}
    step = make_step(spec["step"], spec["size"])
    bounds = {"step": step, "seconds": spec["seconds"], "batches": spec["batches"]}
    measure = _torch if spec["loader"] == "torch" else _ours
    return measure(spec, given, bounds)


def _ours(spec: dict[str, Any], given: dict[str, Any], bounds: dict[str, Any]) -> dict[str, Any]:
    config = LoaderConfig(**spec["config"])
    if config.pin_memory:
        with contextlib.suppress(Exception):
            torch_loader.import_torch()  # before: torch's own memory is not the loader's
    memory, stored = Memory(), storage_bytes()
    source = given_by(given["source"]) if "source" in given else None
    try:
        loader = Loader(unlisted(config), **{**given, "source": source})
        with based(loader, Path(spec["base"])) as batches:
            marks: list[Any] = []
            timing = take_time(
                lambda: iter(batches), after_first=lambda: marks.append(batches.stats()), **bounds
            )
            peak, steps = memory.bytes_above_start(), len(batches)
            if timing is None:
                return {"samples": 0}
            part = batches.stats().since(marks[0])
            ready = part.batches_ready if config.num_workers else None
            numbers = _numbers(timing, part.samples, steps, ready, peak, stored)
            return numbers | {"cache_hits": part.cache_hits, "cache_misses": part.cache_misses}
    finally:
        close = getattr(source, "close", None)
        if callable(close):
            with contextlib.suppress(Exception):
                close()


def _torch(spec: dict[str, Any], given: dict[str, Any], bounds: dict[str, Any]) -> dict[str, Any]:
    torch_loader.import_torch()
    memory, stored = Memory(), storage_bytes()
    config = LoaderConfig(**spec["config"])
    if "source" in given:
        opener: Callable[[], Any] = partial(_opened, given["source"])
    else:
        assert config.source is not None
        opener = partial(open_configured, config.source, Path(spec["base"]), config.root)
    transform, own = given.get("transform"), "collate" in given
    deal, bound = deal_of(config), bind(transform_of(config, transform))
    loader = torch_loader.TorchLoader(
        opener,
        batch_size=config.batch_size,
        shuffle=config.shuffle,
        seed=config.seed,
        drop_last=config.drop_last,
        shard=(deal.shard_index, deal.shard_count),
        collate=given["collate"] if own else make_collate(config.collate, fills_of(bound)),
        whole=config.collate["type"] == "stack" and not own,
        transform=None if bound is None else _Transform(config, transform),
        num_workers=config.num_workers,
        pin_memory=bool(config.pin_memory),
        reopen=_has_connections,
    )
    with loader:
        timing = take_time(loader.begin, count=lambda batch: int(batch[0]), **bounds)
        if timing is None:
            return {"samples": 0}
        peak = memory.with_children() if config.num_workers else memory.bytes_above_start()
        numbers = _numbers(timing, timing.samples, len(loader), None, peak, stored)
        if config.num_workers:  # this process's counts do not have what its workers do
            numbers |= {"cpu_seconds": None, "storage_bytes": None}
        return numbers | {"version": loader.version}


def _opened(given: Callable[[], Any]) -> Any:
    return as_source(given_by(given))


def _has_connections(source: Any) -> bool:
    """Whether a forked process must not use what this one has opened."""
    return isinstance(source, PerThread) or type(source).__module__.endswith(".sqlite")


class _Transform:
    """A config's transform, or the one in its place, for a loader without epochs and positions.

    It is called with the seed as its key and the index as the position.
    """

    def __init__(self, config: LoaderConfig, given: Any) -> None:
        self._config = config
        self._given = given
        self._bound: Any = None

    def __call__(self, sample: Any, index: int) -> Any:
        if self._bound is None:
            # Made as the loader makes it, in each process: the bound one cannot be pickled.
            self._bound = bind(transform_of(self._config, self._given))
        return self._bound(sample, self._config.seed, index)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_bound": None}


def _numbers(
    timing: Timing,
    samples: int,
    steps: int,
    ready: float | None,
    peak: int | None,
    stored: int | None,
) -> dict[str, Any]:
    now = storage_bytes()
    return {
        "samples": samples,
        "steps_of_epoch": steps,
        "batches": timing.batches,
        "first_batch_seconds": timing.first_batch,
        "seconds": timing.measured,
        "wait_seconds": timing.wait,
        "step_seconds": timing.step,
        "cpu_seconds": timing.cpu,
        "epoch_gap_seconds": timing.epoch_gaps,
        "batches_ready": ready,
        "peak_bytes": peak,
        "storage_bytes": None if now is None or stored is None else now - stored,
        "cache_hits": 0,  # torch is given no cache
        "cache_misses": 0,
    }
