"""A run in which one failure is planned, watched while it goes: everything that must hold.

Each other batch is exact and in its place, the failed one raised in its own with a note that
says where, and the state stands before it; what fails at the ends comes out there.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import points
from failing import SAMPLES, Plan, row
from oracle import expected_cursor, expected_epoch
from points import BATCH, EPOCHS, POINTS
from zoo import KEPT, WRAPPED, ZOO, kind

from threadloader import WorkerError
from threadloader.state import read

__all__ = ["Watched", "Wrong"]

ORDER_ATTEMPTS = 3
"""How often an order that fails is asked for again before the run is given up."""

SIZES = {"batch_size": BATCH, "shard_index": 0, "shard_count": 1}
RULES = {"remainder": "pad", "drop_last": False}
SHARD = {**SIZES, **RULES}


class Wrong(AssertionError):
    """Something that is promised does not hold."""


class _Body(Exception):
    """What the body of the `with` raises."""


class Watched:
    """A run of a case, watched while it goes."""

    def __init__(self, case: Any) -> None:
        self.case, self.point = case, POINTS[case.point]
        self.plan = Plan(case.hit, bool(case.always), ZOO[case.error])
        self.steps = expected_epoch(list(range(SAMPLES)), **SHARD)  # type: ignore[arg-type]
        self.delivered = self.failed = self.orders = 0
        self.folder = None
        if self.point.given in ("cache", "save"):
            self.folder = Path(tempfile.mkdtemp(prefix="points-"))
        try:
            with points.patched(case.point, self.plan):
                self.loader = points.loader(
                    case.point, self.plan, self.folder or Path(), case.workers, case.ahead
                )
                self.enter()
        finally:
            if self.folder is not None:
                shutil.rmtree(self.folder)

    def expect(self, kept: bool, text: str) -> None:
        if not kept:
            raise Wrong(text)

    def forget(self) -> None:
        """Let go of what was raised, as the loop of a user does that goes on."""
        for _, error in self.plan.raised:
            if self.case.error in KEPT:
                error.__traceback__ = error.__context__ = error.__cause__ = None
        self.plan.raised.clear()
        self.loader._runtime.over()  # type: ignore[attr-defined]
        del self.loader

    def is_raised(self, error: BaseException) -> bool:
        """Whether this is one of the planned exceptions."""
        return any(error is raised for _, raised in self.plan.raised)

    # The ways out.

    def enter(self) -> None:
        try:
            with self.loader as batches:
                self.consume(batches)
                if self.case.body:
                    raise _Body
            self.expect(
                self.point.out != "close" or not self.plan.raised, "the source's close is silent"
            )
        except _Body as error:
            self.expect(bool(self.case.body), "where does it come from?")
            self.expect(
                not self.plan.raised or self.noted(error), "the body's exception has no note"
            )
        except BaseException as error:
            if type(error) is Wrong:
                raise
            self.at_the_ends(error)
        if self.point.out == "enter" and self.plan.raised:
            self.again()

    def noted(self, error: BaseException) -> bool:
        return any("closing the source failed" in note for note in getattr(error, "__notes__", ()))

    def at_the_ends(self, error: BaseException) -> None:
        """What comes out of `__enter__` or `__exit__` is what was raised there."""
        known = self.is_raised(error) or (
            error.__cause__ is not None and self.is_raised(error.__cause__)
        )
        if not known:
            raise error  # of nobody's plan
        self.expect(
            self.point.out in ("enter", "close") or self.case.point == "factory",
            f"{type(error).__name__} came out of the ends",
        )
        self.expect(not self.case.body, "the body's exception is hidden")

    def again(self) -> None:
        """A loader that could not be entered can be entered when nothing fails any more."""
        self.plan.at = 0
        with self.loader as batches:
            self.consume(batches)
        self.expect(self.delivered == EPOCHS * len(self.steps), "entered again, it ends early")

    # The batches.

    def consume(self, batches: Any) -> None:
        for epoch in batches.epochs():
            for step in range(len(self.steps) + 1):
                if not self.one(batches, epoch, step):
                    break
                self.save(batches)
            if self.orders >= ORDER_ATTEMPTS:
                return
        self.stands(batches, EPOCHS, 0)
        if self.point.out == "batch" and self.plan.raised and not self.point.lost:
            self.expect(bool(self.failed) or self.case.point == "locate", "no batch has failed")

    def one(self, batches: Any, epoch: Any, step: int) -> bool:
        """Ask for a batch; give whether it was one, or failed, and not the epoch's end."""
        while True:
            try:
                batch = next(epoch)
            except StopIteration:
                self.expect(step == len(self.steps), f"epoch {epoch.number} ends at {step}")
                return False
            except BaseException as error:
                if type(error) is Wrong:
                    raise
                self.stands(batches, epoch.number, step)
                if self.in_the_order(error, epoch.number):
                    if self.orders >= ORDER_ATTEMPTS:
                        return False
                    continue
                self.in_a_batch(error, epoch.number, step)
                self.failed += 1
            else:
                self.is_batch(batch, batches.info, epoch.number, step)
                self.delivered += 1
                self.stands(batches, epoch.number, step + 1)
            return True

    def is_batch(self, batch: Any, info: Any, epoch: int, step: int) -> None:
        self.expect(step < len(self.steps), f"a batch behind epoch {epoch}")
        indices = self.steps[step][0]
        due = self.due(indices)
        self.expect(due is None, f"step {step}, epoch {epoch} has not failed")
        whole = np.array([row(index) for index in indices])
        self.expect(np.array_equal(batch, whole), f"step {step}, epoch {epoch}: another batch")
        found = info.epoch, info.step, info.indices.tolist()
        self.expect(found == (epoch, step, indices), f"{epoch}, {step}: the info is {found}")

    def due(self, indices: list[int]) -> BaseException | None:
        """Give what must come in the place of a batch, and take it off what was raised."""
        if self.point.lost or self.case.point in ("locate", "sampler"):
            return None
        return self.plan.due(indices)

    def in_a_batch(self, error: BaseException, epoch: int, step: int) -> None:
        """An exception in the place of a batch."""
        self.expect(step < len(self.steps), f"{type(error).__name__} behind epoch {epoch}")
        indices = self.steps[step][0]
        where = f"step {step}, epoch {epoch}"
        if self.case.point == "locate":
            self.located(error, indices, where)
            return
        due = self.due(indices)
        wraps = self.case.error in WRAPPED and type(error) is WorkerError
        found = error.__cause__ if wraps else error
        self.expect(found is not None and self.is_raised(found), f"{where}: {type(error)}")
        self.expect(due is None or due is found, f"{where}: not that of the lowest row")
        self.expect(
            due is not None or any(i is None for i, _ in self.plan.raised) or self.point.lost,
            f"{where}: nothing was raised for it",
        )
        self.expect(wraps == (self.case.error in WRAPPED), f"{where}: {type(error)} as it is")
        if wraps:
            text = str(error)
        else:
            notes = [note for note in error.__notes__ if note.startswith("threadloader: ")]
            self.expect(len(notes) == 1, f"{where}: the notes are {notes}")
            text = notes[0]
        self.expect(where in text, f"{where}: it says {text}")
        named = [index for index in indices if f"sample {index} (row" in text]
        if self.point.whole:
            self.expect(not named, f"{where}: it names a row: {text}")
        else:
            self.expect(len(named) == 1, f"{where}: it names no sample: {text}")
            index = next((i for i, raised in self.plan.raised if raised is found), None)
            if self.case.error not in KEPT and index is not None and index >= 0:
                self.expect(named == [index], f"{where}: {index} failed, it names {named}")

    def located(self, error: BaseException, indices: list[int], where: str) -> None:
        """A read failed, and then its source could not say where in its file that was."""
        bad = next(index for index in indices if index in (1, 4, 9))
        wraps = type(error) is WorkerError and type(error.__cause__) is LookupError
        self.expect(wraps or type(error) is LookupError, f"{where}: {type(error)}")
        text = str(error) if wraps else error.__notes__[0]
        self.expect(where in text or wraps, f"{where}: it says {text}")
        self.expect(wraps or f"sample {bad} (row" in text, f"{where}: it says {text}")

    def in_the_order(self, error: BaseException, epoch: int) -> bool:
        """An exception in the place of an epoch's order, which is asked for again."""
        if self.point.out != "order":
            return False
        wraps = type(error) is WorkerError and self.case.error != "worker"
        found = error.__cause__ if wraps else error
        self.expect(found is not None and self.is_raised(found), f"{type(error)} of nobody")
        self.orders += 1
        return True

    def stands(self, batches: Any, epoch: int, step: int) -> None:
        """The state is that before a step; the one before it may have failed."""
        state = batches.state_dict()
        position, over = expected_cursor(SAMPLES, step, **SHARD)  # type: ignore[arg-type]
        expected = (epoch + 1, 0) if over else (epoch, position)
        found = state["world"]["epoch"], state["world"]["position"]
        self.expect(found == expected, f"the state stands at {found}, and not at {expected}")
        counted = state["shard"]["batches"]
        self.expect(counted == self.delivered, f"{self.delivered} delivered, it says {counted}")

    def save(self, batches: Any) -> None:
        """A state that is saved is there whole; or the failure comes out, and the one before is."""
        if self.point.out != "save":
            return
        path = self.folder / "run.state"
        there = read(path) if path.exists() else None
        now = batches.state_dict()
        count = len(self.plan.raised)
        try:
            batches.save(path)
        except BaseException as error:
            if not self.is_raised(error):
                raise
            expected = now if self.case.point == "save-folder" else there
        else:
            # A temporary file that is gone, another one has tidied up: it is written anew.
            gone = issubclass(kind(self.case.error), FileNotFoundError)
            self.expect(count == len(self.plan.raised) or gone, "a failed save is silent")
            expected = now
        self.expect((read(path) if path.exists() else None) == expected, "another state is there")
        left = [name for name in os.listdir(self.folder) if name != "run.state"]
        self.expect(not left, f"a save has left {left}")
