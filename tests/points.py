"""Points at which a loader's surroundings can fail, and loaders that go through one of them.

`failing` has what fails there; `POINTS` names the points.
"""

import builtins
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from failing import Batched, Closing, File, Grouped, Into, Pieced, Plan, Source, Taking, Threads

from threadloader import Loader, per_thread
from threadloader._runtime import Runtime
from threadloader.cache import _segments

__all__ = ["BATCH", "EPOCHS", "POINTS", "Point", "loader", "patched"]

BATCH, EPOCHS = 3, 2


class _Loader(Loader):
    def __init__(self, runtime: Runtime, *args: Any, **options: Any) -> None:
        self._runtime = runtime
        super().__init__(*args, **options)


@dataclass(frozen=True)
class Point:
    """A place that can fail.

    Attributes:
        out: where its failure comes out: "batch" in the place of a batch, "order" in the place
            of an epoch's first, "enter", "save", or "close" (of the source).
        source: the class of the source.
        given: options of the loader that lead to the point: named by what they are given for.
        workers: numbers of workers with which it can be reached.
        lost: whether some of its failures do not come out, and are to harm nothing.
        whole: whether it is passed for a batch as a whole, and not for a sample.
    """

    out: str
    source: type[Source] = Source
    given: str = ""
    workers: tuple[int, ...] = (0, 1, 3)
    lost: bool = False
    whole: bool = False


POINTS = {
    "read": Point("batch"),
    "getitems": Point("batch", Batched, whole=True),
    "take": Point("batch", Taking, whole=True),
    "take_into": Point("batch", Into, whole=True),
    "group": Point("batch", Grouped, lost=True, whole=True),
    "piece": Point("batch", Pieced, lost=True, whole=True),
    "transform": Point("batch", given="transform"),
    "transform-rng": Point("batch", given="rng"),
    "transform-batched": Point("batch", Batched, given="transform"),
    "collate": Point("batch", given="collate", whole=True),
    "pin": Point("batch", given="pin", whole=True),
    "locate": Point("batch"),
    "factory": Point("batch", Closing, given="factory"),
    "cache-open": Point("batch", given="cache", lost=True),
    "cache-write": Point("batch", given="cache", lost=True),
    "sampler": Point("order", given="sampler"),
    "length": Point("enter"),
    "fingerprint": Point("enter"),
    "start": Point("enter", workers=(1, 3)),
    "launch": Point("enter", workers=(1, 3)),
    "close": Point("close", Closing, given="factory"),
    "save-open": Point("save", given="save", workers=(0, 2)),
    "save-write": Point("save", given="save", workers=(0, 2)),
    "save-flush": Point("save", given="save", workers=(0, 2)),
    "save-fsync": Point("save", given="save", workers=(0, 2)),
    "save-rename": Point("save", given="save", workers=(0, 2)),
    "save-folder": Point("save", given="save", workers=(0, 2)),
}

if not hasattr(os, "O_DIRECTORY"):  # folders cannot be flushed here
    del POINTS["save-folder"]


def loader(name: str, plan: Plan, folder: Path, workers: int, ahead: int) -> Loader:
    """Give a loader that passes a point, to be entered inside `patched`.

    Args:
        name: of `POINTS`.
        plan: what fails there.
        folder: an empty one, for what is written.
        workers: threads.
        ahead: batches that are prepared ahead.
    """
    point = POINTS[name]
    config: dict[str, Any] = {
        "batch_size": BATCH,
        "shuffle": False,
        "num_workers": workers,
        "prefetch_batches": ahead,
        "num_epochs": EPOCHS,
    }
    options: dict[str, Any] = {}
    source: Any = point.source(plan, name)
    if point.given == "transform":
        options["transform"] = lambda sample: (plan.hit(int(sample[0])), sample)[1]
    elif point.given == "rng":
        options["transform"] = lambda sample, rng: (plan.hit(int(sample[0])), sample)[1]
    elif point.given == "collate":
        options["collate"] = lambda rows: (plan.hit(int(rows[0][0])), np.array(rows))[1]
    elif point.given == "sampler":
        options["sampler"] = lambda epoch, n: (plan.hit(), np.arange(n))[1]
    elif point.given == "factory":

        def make() -> Source:
            made = point.source(plan, name)
            made.pass_by("factory")
            return made

        source = per_thread(make)
    elif point.given == "cache":
        config["cache"] = {"folder": str(folder / "cache"), "max_bytes": None}
    elif point.given == "pin":
        config["pin_memory"] = True
    return _Loader(Threads(plan, name), config, source, **options)


@contextlib.contextmanager
def patched(name: str, plan: Plan) -> Iterator[None]:
    """Put the point into what the library calls, where that is not given to it."""
    before = []
    try:
        for place, attribute, value in _patches(name, plan):
            before.append((place, attribute, getattr(place, attribute)))
            setattr(place, attribute, value)
        yield
    finally:
        for place, attribute, value in before:
            setattr(place, attribute, value)


def _patches(name: str, plan: Plan) -> Iterator[tuple[Any, str, Any]]:
    given = POINTS[name].given
    if given == "pin":
        from threadloader.adapters import torch_pin

        def pin(batch: Any) -> Any:
            plan.hit(int(batch[0, 0]))
            return batch

        yield torch_pin, "pinning", lambda option: (torch_pin.Pinning(pin, np.empty), "")
    if given == "cache":
        # What names no sample: it is known by the record's own index at best.
        if name == "cache-open":
            begin = _segments.Writer.__init__

            def opened(self: Any, *args: Any) -> None:
                plan.hit()
                begin(self, *args)

            yield _segments.Writer, "__init__", opened
        else:
            write = _segments._write_all

            def written(file: Any, data: Any) -> None:
                plan.hit()
                write(file, data)

            yield _segments, "_write_all", written
    if given == "save":
        yield from _saving(name, plan)


def _saving(name: str, plan: Plan) -> Iterator[tuple[Any, str, Any]]:
    step = name.removeprefix("save-")

    def pass_by(here: str) -> None:
        if step == here:
            plan.hit()

    open_file, replace, open_folder = open, os.replace, os.open
    folders: set[int] = set()

    def opened(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if mode != "xb":
            return open_file(path, mode, *args, **options)
        pass_by("open")
        return File(open_file(path, mode), pass_by)

    def replaced(path: Any, target: Any) -> Any:
        pass_by("rename")
        return replace(path, target)

    def folder_opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
        number = open_folder(path, flags, *args, **options)
        if flags & getattr(os, "O_DIRECTORY", 0):
            folders.add(number)
        return number

    def flushed(number: int) -> None:  # the disk is waited for in no test of this kind
        there = number in folders
        folders.discard(number)
        pass_by("folder" if there else "fsync")

    yield builtins, "open", opened
    yield os, "replace", replaced
    yield os, "open", folder_opened
    yield os, "fsync", flushed
