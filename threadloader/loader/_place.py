"""Where a run stands: a value that is replaced whole, and a count in it."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine import InlineStream, Stream
from ..jobs import BatchInfo, BatchJob, GroupJob, NoBatch
from ..state import Cursor
from ..stats import Tally
from ._schedule import Plan

if TYPE_CHECKING:
    from ._epochs import Epoch

__all__ = ["Delivery", "Place"]


class Delivery:
    """The batches of one job, in the consumer's hands.

    Attributes:
        job: what they are.
        batches: the batches; None where one was delivered.
        size: how many there are.
        ready: how many further batches were ready when these were taken.
        awaited: whether these were not, so that the first one was waited for.
        marks: the running fingerprint behind each; empty unless it is wanted.
        served: how many of them were delivered, or passed. Written by who has the turn, by
            one store, and by that alone a batch is delivered; anybody may read it.
        lost: whether there was an exception in the place of the one batch.
        here: whether the thread that asked for them has prepared them.
    """

    __slots__ = ("awaited", "batches", "here", "job", "lost", "marks", "ready", "served", "size")

    def __init__(
        self,
        job: BatchJob | GroupJob | NoBatch,
        batches: list[Any],
        ready: int = 0,
        marks: list[str] | None = None,
        *,
        awaited: bool = False,
        lost: bool = False,
        here: bool = False,
    ) -> None:
        self.job = job
        self.batches = batches
        self.size = job.span.size
        self.ready = ready
        self.awaited = awaited
        self.marks = marks or []
        self.served = 0
        self.lost = lost
        self.here = here

    def info(self, number: int) -> BatchInfo:
        """Say what one of the batches is."""
        info = self.job.info(number)  # type: ignore[union-attr]  # NoBatch has none to ask for
        return replace(info, fingerprint=self.marks[number]) if self.marks else info


class Place(NamedTuple):
    """Where a run stands. Replaced whole, so any thread may read it.

    What `Delivery.served` counts comes on top of what stands here: so a batch that is
    delivered from a group costs one store, and what follows from it is worked out when
    somebody asks.

    Attributes:
        plan: which samples each epoch has.
        start: what was delivered before the present job's batches.
        shown: what the last batch before those is.
        counted: the counts, those of the present job's batches apart.
        delivery: the present job's batches.
        live: the iterator that may ask.
        begun: the epoch that the last iterator began; -1 after a state was loaded.
        stream: the results; None where a new stream has to begin.
        taken: how many results were taken from it.
        end: the epoch before which the stream's jobs end.
        done: without a delivery: whether this shard has no further step in the epoch.
        known: without a delivery: positions of the epoch's order, if they are known.
    """

    plan: Plan
    start: Cursor = Cursor()
    shown: BatchInfo | None = None
    counted: Tally = Tally()
    delivery: Delivery | None = None
    live: weakref.ref[Epoch] | None = None
    begun: int = -1
    stream: Stream | InlineStream | None = None
    taken: int = 0
    end: int | None = None
    done: bool = False
    known: int | None = None

    def settled(self) -> Place:
        """The same place, with all that was worked out from the delivery written down."""
        return self._replace(
            start=self.cursor,
            shown=self.info,
            counted=self.tally,
            delivery=None,
            done=self.over,
            known=self.length,
        )

    @property
    def cursor(self) -> Cursor:
        """What was delivered up to now."""
        start, delivery = self.start, self.delivery
        if delivery is None or not (served := delivery.served):
            return start
        after = delivery.job.span.after(served)
        batches, samples = start.batches, start.samples
        fingerprint = delivery.marks[served - 1] if delivery.marks else start.fingerprint
        if not delivery.lost:
            batches += served
            samples += delivery.job.samples(served)  # type: ignore[union-attr]  # as in info
        return Cursor(*after, batches, samples, start.skips, fingerprint)

    @property
    def info(self) -> BatchInfo | None:
        """What the batch delivered last is."""
        delivery = self.delivery
        if delivery is None or delivery.lost or not (served := delivery.served):
            return self.shown
        return delivery.info(served - 1)

    @property
    def tally(self) -> Tally:
        """The counts up to now."""
        delivery = self.delivery
        if delivery is None or delivery.lost or not (served := delivery.served):
            return self.counted
        samples = delivery.job.samples(served)  # type: ignore[union-attr]  # as in info
        # At each call those were ready that had not been delivered before.
        ready = served * (delivery.size + delivery.ready) - served * (served - 1) // 2
        if delivery.awaited:
            ready -= delivery.size
        return self.counted.plus(served, samples, ready, served if delivery.here else 0)

    @property
    def over(self) -> bool:
        """Whether this shard has no further step in the epoch that was begun."""
        delivery = self.delivery
        if delivery is None:
            return self.done
        # A lost batch counts as over: whoever asks goes on behind it.
        return delivery.job.span.last and (delivery.lost or delivery.served == delivery.size)

    @property
    def length(self) -> int | None:
        """Positions of that epoch's order; None until its first result is taken."""
        return self.known if self.delivery is None else self.delivery.job.span.length
