"""Where a run stands: a `Place`, replaced whole, with the count of a `Delivery` in it."""

import weakref
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..engine import InlineStream, Stream
from ..jobs import AnyJob, BatchJob
from ..state import Cursor
from ..stats import Tally
from ._schedule import Plan

if TYPE_CHECKING:
    from ..jobs import BatchInfo
    from ._epochs import Epoch

__all__ = ["Delivery", "Onward", "Place", "Shown"]


class Onward(NamedTuple):
    """The batches that were delivered after a delivery, each of a job of its own.

    Nothing of them is kept but the last job, and what they add up to.

    Attributes:
        batches: how many they are.
        samples: their samples, without padding.
        ready_sum: how many batches were ready at each, that one included, added up.
        waited: seconds that were waited for them.
        job: that of the last one.
    """

    batches: int
    samples: int
    ready_sum: int
    waited: float
    job: BatchJob


class Delivery:
    """The batches of one job, in the consumer's hands.

    Attributes:
        job: the job that made them.
        batches: the batches; None where one was delivered, or is not made yet.
        size: how many there are.
        piece: how many of them are made together.
        made: how many of them are made. This and `waited` are written by who has the turn.
        waited: seconds that were spent waiting for those that were made later.
        ready: how many further batches were ready when these were taken.
        awaited: whether the first of these was waited for, since it was not ready.
        marks: the running fingerprint after each; empty unless it is wanted.
        served: how many of them were delivered, or passed over. The first is delivered by the store
            of the place that has this delivery, each later one by the one store that writes this,
            and by nothing else; any thread may read it.
        lost: whether the one batch failed, and an exception was raised in its place.
        passed: whether all samples of the one batch were left out, so that it is passed over.
        here: whether the thread that asked for them has prepared them in place of workers.
        onward: later batches, which lay ready and were delivered after these; None where there are
            none. Written by one store as `served` is, and only when all of these were served.
    """

    __slots__ = (
        "awaited",
        "batches",
        "here",
        "job",
        "lost",
        "made",
        "marks",
        "onward",
        "passed",
        "piece",
        "ready",
        "served",
        "size",
        "waited",
    )

    def __init__(
        self,
        job: AnyJob,
        batches: list[Any],
        ready: int = 0,
        marks: list[str] | None = None,
        *,
        awaited: bool = False,
        lost: bool = False,
        here: bool = False,
    ) -> None:
        self.job = job
        self.size = job.span.size
        self.piece = self.made = len(batches)
        self.batches = batches + [None] * (self.size - self.made)
        self.waited = 0.0
        self.ready = ready
        self.awaited = awaited
        self.marks = marks or []
        self.served = 0
        self.lost = lost
        self.passed = not batches and self.size > 0
        self.here = here
        self.onward: Onward | None = None

    def ready_sum(self, served: int) -> int:
        """Add up how many batches lay ready at each call of those that delivered the first ones.

        At each there were `ready` of other jobs. Of this one, call c of a piece of p batches found
        p - c, but for its first call, c = 0: that has waited for the piece, and found none. Only
        a job that nobody has waited for (it has one piece then) had all of its batches ready there.
        """
        pieces, more = divmod(served, self.piece)
        # The whole pieces, 1 + ... + (p - 1) each; then the first `more` calls of one of `last`.
        last = min(self.piece, self.size - pieces * self.piece)
        within = pieces * (self.piece * (self.piece - 1) // 2)
        within += max(more - 1, 0) * last - more * (more - 1) // 2
        return within + served * self.ready + (0 if self.awaited else self.size)


class LeftOut(NamedTuple):
    """Indices left out of a batch that was passed over, and those of the ones before it.

    A linked list: one tuple would be copied for each of many such batches in a row.
    """

    before: "LeftOut | None"
    indices: tuple[int, ...]

    def all(self) -> tuple[int, ...]:
        """Give the indices, oldest first."""
        parts, link = [], cast("LeftOut | None", self)
        while link is not None:
            parts.append(link.indices)
            link = link.before
        return tuple(chain.from_iterable(reversed(parts)))


class Shown(NamedTuple):
    """A batch that was delivered, as what `info` is made of when somebody asks.

    Attributes:
        job: its job.
        number: which of the job's batches it is.
        mark: the running fingerprint after it; "" without.
        left_out: indices left out of batches before it that were passed over.
    """

    job: AnyJob
    number: int
    mark: str
    left_out: "LeftOut | None" = None


class Place(NamedTuple):
    """Where a run stands. Replaced whole, so any thread may read it.

    The batches that `Delivery.served` and `Delivery.onward` count are delivered, but not in what
    stands here: so a batch which lies ready costs one store. `settled` gives the place with them.

    Attributes:
        plan: which samples each epoch has.
        cursor: what was delivered before the present job's batches.
        shown: the last batch before those.
        tally: the counts without those batches.
        delivery: the present job's batches; None in a settled place.
        live: the iterator that may ask.
        begun: the epoch that the last iterator began; -1 before the first one, and after a state
            was loaded.
        stream: the results; None where a new stream has to begin.
        taken: how many results were taken from it.
        end: the epoch before which the stream's jobs end.
        over: in a settled place: whether this shard has no further step in the epoch `begun`.
        length: in a settled place: positions of that epoch's order; None until its first
            result is taken. Once the run is over, of its last epoch.
        left_out: what was left out of batches that were passed over since the last one shown.
        unasked: whether the last iterator, one that `iter` gave and not `epochs`, goes on with an
            epoch that was interrupted, and nothing was asked of it yet.
    """

    plan: Plan
    cursor: Cursor = Cursor()
    shown: Shown | None = None
    tally: Tally = Tally()
    delivery: Delivery | None = None
    live: "weakref.ref[Epoch] | None" = None
    begun: int = -1
    stream: Stream | InlineStream | None = None
    taken: int = 0
    end: int | None = None
    over: bool = False
    length: int | None = None
    left_out: LeftOut | None = None
    unasked: bool = False

    @property
    def is_live(self) -> bool:
        """Whether an iterator may ask."""
        return self.live is not None and self.live() is not None

    @property
    def info(self) -> "BatchInfo | None":
        """In a settled place: what the batch delivered last is; None before the first."""
        if self.shown is None:
            return None
        job, number, mark, left_out = self.shown
        info = job.info(number)
        if not mark and left_out is None:
            return info
        from dataclasses import replace

        skipped = info.skipped if left_out is None else left_out.all() + info.skipped
        return replace(info, fingerprint=mark, skipped=skipped)

    def settled(self) -> "Place":
        """Give this place, as of one moment, with what was delivered counted in and no delivery."""
        delivery = self.delivery
        if delivery is None:
            return self
        # Each is read once, since the consumer may go on while another thread looks; `onward`
        # first: it is written when all is served, so whoever sees it sees that, too.
        onward = delivery.onward
        served = delivery.served
        job = delivery.job if onward is None else onward.job
        cursor, shown, tally, span = self.cursor, self.shown, self.tally, job.span
        left_out, taken = self.left_out, self.taken
        if served:
            batches = samples = skipped = 0
            mark = cursor.fingerprint
            if not delivery.lost:
                failed = tuple(failure.index for failure in job.failures)
                skipped = len(failed)
                if delivery.passed:
                    left_out = LeftOut(left_out, failed)
                else:
                    batches, samples = served, delivery.job.samples(served)
                    ready, waited = delivery.ready_sum(served), delivery.waited
                    if onward is not None:
                        batches += onward.batches
                        samples += onward.samples
                        ready += onward.ready_sum
                        waited += onward.waited
                        taken += onward.batches
                    # Without marks, the one that a state brought is not that of all batches now.
                    mark = delivery.marks[served - 1] if delivery.marks else ""
                    shown = Shown(job, served - 1, mark, left_out if batches == 1 else None)
                    left_out = None
                    here = batches if delivery.here else 0
                    tally = tally.plus(batches, samples, ready, here, waited)
            # The retries of a lost batch were counted when its exception was raised.
            retried = 0 if delivery.lost else job.retried
            if skipped or retried:
                tally = tally.tried(skipped, retried)
            cursor = Cursor(
                *span.after(served),
                cursor.batches + batches,
                cursor.samples + samples,
                cursor.skipped_steps,
                mark,
                cursor.skipped + skipped,
            )
        return Place(
            self.plan,
            cursor,
            shown,
            tally,
            None,
            self.live,
            self.begun,
            self.stream,
            taken,
            self.end,
            # A lost batch counts as over: whoever asks goes on after it.
            span.last and (delivery.lost or served == delivery.size),
            span.length,
            left_out,
        )

    def next_cursor(self) -> Cursor:
        """Where the next iterator begins: after the epoch that was begun, over or not.

        A caller who only looks whether there is an iterator, as Lightning does, has not gone on
        with an interrupted epoch: the next iterator begins there again.
        """
        cursor = self.cursor
        if cursor.epoch == self.begun and not self.unasked:
            cursor = cursor._replace(epoch=cursor.epoch + 1, position=0, step=0)
        return cursor

    def counted(self, end: int | None) -> int:
        """The epoch that `len` counts: the live one, or else the next; after the run its last.

        Args:
            end: the run's last epoch is the one before it; a loop that went further moves it.
        """
        if self.is_live:
            return self.begun
        epoch = self.next_cursor().epoch
        return epoch if end is None else min(epoch, max(end - 1, (self.end or 0) - 1, self.begun))
