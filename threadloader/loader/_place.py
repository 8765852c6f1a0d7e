"""Where a run stands: one immutable value."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from ..engine import InlineStream, Stream
from ..jobs import BatchInfo
from ..state import Cursor
from ..stats import Tally
from ._schedule import Plan

if TYPE_CHECKING:
    from ._epochs import Epoch

__all__ = ["Place"]


class Place(NamedTuple):
    """Where a run stands. Replaced whole, so any thread may read it.

    Attributes:
        plan: which samples each epoch has.
        cursor: what was delivered.
        info: what the batch delivered last is.
        tally: the counts.
        live: the iterator that may ask.
        begun: the epoch that the last iterator began; -1 after a state was loaded.
        over: whether this shard has no further step in that epoch.
        length: positions of that epoch's order; None until its first result is taken.
        stream: the results; None where a new stream has to begin.
        taken: how many results were taken from it.
        end: the epoch before which the stream's jobs end.
        failed: the cursor behind a batch that was raised and not yet passed, and whether
            that was the last one of the epoch.
    """

    plan: Plan
    cursor: Cursor = Cursor()
    info: BatchInfo | None = None
    tally: Tally = Tally()
    live: weakref.ref[Epoch] | None = None
    begun: int = -1
    over: bool = False
    length: int | None = None
    stream: Stream | InlineStream | None = None
    taken: int = 0
    end: int | None = None
    failed: tuple[Cursor, bool] | None = None

    def passed(self) -> Place:
        """The place behind a failed batch; itself without one."""
        if self.failed is None:
            return self
        cursor, over = self.failed
        return self._replace(cursor=cursor, taken=self.taken + 1, over=over, failed=None)
