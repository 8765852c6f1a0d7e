"""Makes the batches of a run one by one, and writes down what the first run gave."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

from .._command_line import CodeError
from .._messages import with_cause
from ..errors import LoaderError, ends
from ..fingerprint import chained, digest
from ..jobs import BatchInfo
from ..loader import NO_BATCH, Batches
from ..sizes import nbytes
from ._case import Case, passing_over
from ._plan import Leg, Run

__all__ = ["Item", "Mark", "Tape", "VerifyError", "follow", "made", "record", "told"]

BUDGET_SECONDS = 3.0
"""How long the first run may take where no number of batches is asked for. There are about
nine runs, so a dataset of any size takes some tens of seconds."""

KEPT_BYTES = 64 << 20
"""How many bytes of the first run's batches are kept, to say what differs. Others are made anew."""

FIRST = 16
"""How many of the first dataset indices are noted, to look at where no batch is to be named."""


class VerifyError(LoaderError, RuntimeError):
    """The config gives nothing that could be compared."""


class Mark(NamedTuple):
    """What two runs must have in common at one place.

    Attributes:
        content: the digest of the batch; b"" where it could not be made.
        dealt: the digest of its epoch, its step, its dataset indices and of what is padding.
            Samples left out are not among the indices, and `info.skipped` is not compared: after
            a resume it may list fewer.
        error: what was raised in its place, without what differs from run to run.
        step: its step, which counts the batches that were passed over, too.
    """

    content: bytes
    dealt: bytes
    error: str
    step: int


class Item(NamedTuple):
    """One batch of a run, or what was raised in its place.

    Attributes:
        place: its epoch, and its number among those that come in it.
        mark: what must be the same in all runs.
        batch: the batch.
        info: what the loader says of it.
        error: what was raised, in words; "" for a batch.
        before: the state before it, as JSON.
    """

    place: tuple[int, int]
    mark: Mark
    batch: Any
    info: BatchInfo | None
    error: str
    before: str


def told(error: BaseException) -> str:
    """Say what was raised, with its notes and, where it only wraps another exception, that one."""
    if isinstance(error, CodeError):  # its message says both
        return str(error)
    return with_cause(error)


def follow(
    case: Case, run: Run, tape: Tape, guarded: Iterable[str] = ()
) -> Generator[Item, None, None]:
    """Make the batches of a run, as many as a tape has, leg by leg.

    Each leg goes on with the state of the one before; the guarded parts have a lock around them.

    Raises:
        VerifyError: a batch holds something that cannot be compared.
        Exception: the source does not open, or a state is refused.
    """
    first, state = run.begins or ((0, 0), "")
    last: Item | None = None
    for leg in run.legs:
        # After a batch that failed the state stands before it: it comes once more.
        again = last if last is not None and last.error else None
        with case.batches(leg, guarded) as batches:
            if state:
                batches.load_state_dict(json.loads(state))
            for item in _leg(batches, leg, again.place if again else first, tape.epochs, tape.more):
                if again is None or (again.place, again.mark) != (item.place, item.mark):
                    yield item
                last, again = item, None
            state = json.dumps(batches.state_dict())
        first = leg.until or first


def _leg(
    batches: Batches,
    leg: Leg,
    first: tuple[int, int],
    epochs: int,
    more: Callable[[int, int], bool],
) -> Generator[Item, None, None]:
    for epoch in batches.epochs(epochs):
        number = first[1] if epoch.number == first[0] else 0
        # One batch more than there should be is let through: it is a difference.
        while more(epoch.number, number) and number <= len(batches):
            place = (epoch.number, number)
            if leg.until == place:
                return
            before = json.dumps(batches.state_dict())
            try:
                batch = next(epoch)
            except StopIteration:
                break
            except BaseException as error:  # whatever the data does to its reader
                if ends(error):
                    raise
                mark = _failed(error, batches.state_dict()["world"]["step"])
                yield Item(place, mark, None, None, told(error), before)
            else:
                yield made(place, batch, batches.info, before)
            number += 1


def made(place: tuple[int, int], batch: Any, info: BatchInfo | None, before: str) -> Item:
    """Give a batch that was delivered, and the state before it, as an item.

    Raises:
        VerifyError: its content cannot be compared.
    """
    assert info is not None  # the loader has just delivered it
    try:
        content = digest(batch)
    except TypeError as error:
        raise VerifyError(
            f"epoch {place[0]}, step {info.step}: cannot be compared: {error}"
        ) from error
    dealt = digest((info.epoch, info.step, info.indices, info.valid))
    return Item(place, Mark(content, dealt, "", info.step), batch, info, "", before)


def _failed(error: BaseException, step: int) -> Mark:
    """Mark an error by its type and the loader's notes; its message may name a thread, say."""
    notes = [note for note in getattr(error, "__notes__", []) if note.startswith("threadloader")]
    text = "; ".join([type(error).__name__, *notes])
    return Mark(b"", b"", re.sub("0x[0-9a-fA-F]+", "0x", text), step)


class Tape:
    """What the first run gave.

    Attributes:
        epochs: how many epochs each run has.
        marks: what every run must give, by place, in order.
        errors: what was raised, by place.
        steps: how many batches of an epoch are compared: as many as came in the first.
        whole: whether epochs are compared to their end. An epoch may have fewer batches than it
            should: those of which all samples are left out do not come.
        of_epoch: how many batches an epoch has on this shard.
        samples: rows that are not padding.
        fingerprint: the running fingerprint of the batches.
        batch_bytes: bytes of the largest batch.
        indices: the first dataset indices that came.
        resumable: the place after the first batch that did not fail, and the state there, as
            JSON; None where there is none.
        kept: the first batches, as far as there is room for them, by place.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.marks: dict[tuple[int, int], Mark] = {}
        self.errors: dict[tuple[int, int], str] = {}
        self.steps = 0
        self.whole = True
        self.of_epoch = 0
        self.samples = 0
        self.fingerprint = ""
        self.batch_bytes = 0
        self.indices: list[int] = []
        self.resumable: tuple[tuple[int, int], str] | None = None
        self.kept: dict[tuple[int, int], Any] = {}
        self._room = KEPT_BYTES

    def more(self, epoch: int, number: int) -> bool:
        """Whether there is a batch to compare with, or an end of the epoch to be seen."""
        return self.whole or number < self.steps

    def add(self, item: Item) -> None:
        """Write down a batch."""
        last = next(reversed(self.marks), None)
        if self.resumable is None and last is not None and last not in self.errors:
            self.resumable = (item.place, item.before)
        self.marks[item.place] = item.mark
        if item.info is None:
            self.errors[item.place] = item.error
            return
        self.samples += int(item.info.valid.sum())
        if len(self.indices) < FIRST:
            self.indices += item.info.indices[:FIRST].tolist()
        self.fingerprint = chained(self.fingerprint, item.mark.content)
        size = nbytes(item.batch)
        self.batch_bytes = max(size, self.batch_bytes)
        if size <= self._room:
            # A copy: the memory of the batch may be written again.
            with passing_over():
                self.kept[item.place] = copy.deepcopy(item.batch)
                self._room -= size


def record(case: Case, epochs: int, most: int | None, tick: Callable[[], None]) -> Tape:
    """Make the first run, without workers, and write it down; `tick` is called for each batch.

    An epoch has at most `most` batches; None: as many as there is time for.

    Raises:
        VerifyError: it has no batch, or one that cannot be compared.
        Exception: the source does not open.
    """
    tape = Tape(epochs)
    leg = Leg(0, case.config.prefetch_batches)
    with case.batches(leg) as batches:
        deadline = time.monotonic() + BUDGET_SECONDS / epochs

        def more(epoch: int, number: int) -> bool:
            if epoch:  # the first one has decided it
                return tape.more(epoch, number)
            timely = number < 2 or time.monotonic() < deadline
            another = timely if most is None else number < most
            # The last answer counts. No more after an epoch's last batch cuts nothing off.
            tape.whole = another or number >= tape.of_epoch
            return another

        tape.of_epoch = len(batches)
        for item in _leg(batches, leg, (0, 0), epochs, more):
            if not item.place[0]:
                tape.steps = item.place[1] + 1
            tape.add(item)
            tick()
    if not tape.marks:
        raise VerifyError(f"expected a batch, got none: {NO_BATCH}")
    return tape
