"""What is swept: small runs of a loader, each of which is interrupted at one of its lines.

Whoever loops with `for` and enters with `with` has what they gave in hand at once: CPython looks
for signals behind a call, and neither is one. So these runs do that, and what they were given
is all that the loader counts as delivered. (``epoch = iter(batches)`` is a call: an interrupt
behind it, and before the assignment, loses the iterator. The next `iter` goes on.)
"""

# ruff: noqa: B020 - a store in an attribute is what a loop here is for, and the box is another object

import gc
import logging
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from conftest import open_files
from sweep import Interrupt, Sweep

from threadloader import ClosedError, Loader

__all__ = ["KINDS", "closed", "closing_again", "collected", "dropped", "going_on", "twice"]

log = logging.getLogger("threadloader")

STEPS, EPOCHS = 4, 2


class Rows:
    """Four samples, read one by one."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> Any:
        return np.array([index])


class Groups(Rows):
    """The same for a loader that makes several batches at once."""

    sample_bytes = 8

    def take(self, indices: Any) -> Any:
        return indices[:, np.newaxis].copy()


class Kept(Rows):
    """The same, of which samples are kept in a folder."""

    def fingerprint(self) -> str:
        return "four rows"


KINDS = {
    "here": (Rows, 0),
    "two workers": (Rows, 2),
    "groups here": (Groups, 0),
    "groups": (Groups, 1),
    "kept": (Kept, 0),
}
"""(source, workers) of the runs, by name."""


@dataclass
class Box:
    """Where a run puts what it is given: a store, behind which no signal is looked for."""

    batches: Any = None
    epoch: Any = None


class Run:
    """One run of a kind, and what it must come to.

    Attributes:
        got: rows of the batches that were given, the last one first.
        folder: where samples are kept, if they are.
    """

    folder: str | None = None

    def __init__(self, kind: str) -> None:
        source, workers = KINDS[kind]
        config = {
            "batch_size": 1,
            "shuffle": False,
            "num_workers": workers,
            "prefetch_batches": 2,
            "num_epochs": EPOCHS,
        }
        if source is Kept:
            self.folder = tempfile.mkdtemp(prefix="swept-")
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
            config["cache"] = {"folder": self.folder}
        self.loader = Loader(config, source())
        self.got: list[Any] = []
        self.box = Box()

    def whole(self) -> None:
        """Enter, iterate, look at the state, leave."""
        box, got = self.box, self.got
        with self.loader as box.batches:
            for box.epoch in box.batches.epochs():
                for got[0:0] in box.epoch:
                    box.batches.state_dict()

    def rest(self) -> None:
        """Iterate, from where the run stands to its end."""
        box, got = self.box, self.got
        if box.epoch is not None:
            for got[0:0] in box.epoch:
                box.batches.state_dict()
        for box.epoch in box.batches.epochs():
            for got[0:0] in box.epoch:
                box.batches.state_dict()

    def open_files(self) -> list[str]:
        """Name the files of its folder that are open."""
        folder = self.folder
        return [] if folder is None else [it for it in open_files() if it.startswith(folder)]

    def look(self, complete: bool) -> None:
        """Compare what was given with what is due, and with what the loader says."""
        found = [int(row[0]) for row in reversed(self.got)]
        due = [*range(STEPS)] * EPOCHS
        assert due[: None if complete else len(found)] == found
        if self.box.batches is not None:
            assert len(found) == self.box.batches.state_dict()["shard"]["batches"]


def closed(
    kind: str, at: int, raises: type[BaseException] = KeyboardInterrupt, *, opcodes: bool = False
) -> Sweep:
    """Interrupt a whole run; it is left then."""
    run = Run(kind)
    with Interrupt(raises) as interrupt:
        sweep = Sweep(at, interrupt, opcodes=opcodes)
        try:
            with sweep:
                run.whole()
        except raises as error:
            interrupt.came_as(error)
        finally:
            sys.settrace(None)
    # The interrupt may come at the first line of __exit__, before it has done anything.
    run.loader.__exit__(None, None, None)
    assert not run.open_files(), sweep.where
    run.look(complete=not interrupt.heard)
    interrupt.look()
    return sweep


def going_on(
    kind: str, at: int, raises: type[BaseException] = KeyboardInterrupt, *, opcodes: bool = False
) -> Sweep:
    """Interrupt a run inside the `with`; it goes on."""
    run = Run(kind)
    with Interrupt(raises) as interrupt, run.loader as run.box.batches:
        sweep = Sweep(at, interrupt, opcodes=opcodes)
        for _ in range(2):
            try:
                with sweep:
                    run.rest()
                break
            except raises as error:
                interrupt.came_as(error)
    run.look(complete=True)
    interrupt.look()
    return sweep


def twice(
    kind: str, at: int, raises: type[BaseException] = KeyboardInterrupt, *, opcodes: bool = False
) -> Sweep:
    """Interrupt a run, in its second epoch; and once more while that closes it."""
    run = Run(kind)
    with Interrupt(raises) as interrupt:
        sweep = Sweep(at, interrupt, opcodes=opcodes)
        try:
            try:
                with run.loader as run.box.batches:
                    for run.box.epoch in run.box.batches.epochs():
                        for run.got[0:0] in run.box.epoch:
                            if len(run.got) > STEPS:
                                sweep.__enter__()
                                raise raises
            except raises as error:
                interrupt.came_as(error)
            sweep.__exit__()  # a call: behind the last line of all it is heard here
        except raises as error:
            interrupt.came_as(error)
    run.loader.__exit__(None, None, None)
    assert not run.open_files(), sweep.where
    run.look(complete=False)
    interrupt.look()
    return sweep


def closing_again(kind: str, first: int, then: int) -> tuple[Sweep, Sweep]:
    """Interrupt `__exit__`, and once more when it is called again to finish that."""
    run = Run(kind)
    with Interrupt() as interrupt:
        run.box.batches = run.loader.__enter__()
        for run.box.epoch in run.box.batches:
            break
        sweeps = Sweep(first, interrupt), Sweep(then, interrupt)
        for sweep in sweeps:
            try:
                with sweep:
                    run.loader.__exit__(None, None, None)
            except KeyboardInterrupt as error:
                interrupt.came_as(error)
    run.loader.__exit__(None, None, None)
    interrupt.look()
    return sweeps


class Garbage:
    """In a cycle; what ends it does something."""

    def __init__(self, end: Callable[[], Any]) -> None:
        self.me, self.end = self, end

    def __del__(self) -> None:
        self.end()


def collected(kind: str, at: int, *, opcodes: bool = False) -> Sweep:
    """Collect garbage in a whole run, that closes its batches, logs and allocates."""
    run, box = Run(kind), Box()

    def end() -> None:
        box.epoch = [bytearray(1000) for _ in range(10)]
        log.debug("collected")
        if run.box.batches is not None:
            run.box.batches.close()

    def act(frame: FrameType) -> None:
        Garbage(end)
        gc.collect()
        assert box.epoch

    sweep = Sweep(at, act, opcodes=opcodes)
    ended = False
    try:
        with sweep:
            run.whole()
    except ClosedError:
        ended = True
    run.loader.__exit__(None, None, None)
    assert not run.open_files(), sweep.where
    run.look(complete=not ended)
    return sweep


def dropped(kind: str, at: int) -> Sweep:
    """Collect another loader in a run, which is open and forgotten."""
    run, threads = Run(kind), set(threading.enumerate())
    other = Run("two workers")

    def act(frame: FrameType) -> None:
        nonlocal other
        batches = other.loader.__enter__()
        next(iter(batches))
        Garbage(batches.state_dict)  # a method of what it keeps, which is no cause to fail
        del batches, other
        gc.collect()

    sweep = Sweep(at, act)
    with sweep:
        run.whole()
    run.look(complete=True)
    if sweep.where:
        for thread in set(threading.enumerate()) - threads:
            thread.join()
    return sweep
