"""A run: what `iter` and `next` do to where it stands.

One thread at a time may ask, the one that has the *turn*. Where the run stands is one
immutable `Place`, worked out first and then put in place by a single store with no call
between it and the return: an interrupt, which lands where a call begins or ends or a loop jumps
back, comes before all of it or after all of it. (Longer than other files: the methods that begin an
epoch, deliver a batch or end either rely on the place that the others leave behind.)
"""

from __future__ import annotations

import gc
import weakref
from _thread import get_ident
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NoReturn

from .. import _runtime
from .._runtime import Runtime
from ..engine import Outcome, here
from ..errors import BusyError, ClosedError, by_handler
from ..jobs import AnyJob, SeriesJob, UncutError
from ..state import Cursor
from ..stats import Tally
from ._choice import LATE_SECONDS
from ._epochs import Epoch
from ._failure import explained
from ._place import Delivery, Place
from ._results import Results
from ._schedule import Plan
from ._skipping import Skipping
from ._supply import Supply
from ._turn import Turn

__all__ = ["Run"]


class Run:
    """Writes where a run stands.

    Args:
        supply: opens streams of results.
        skipping: what is done about samples that fail.
        runtime: where locks and the clock come from.
        plan: which samples each epoch has.

    Attributes:
        forks: what `_runtime.forks` was when it was made.
        turn: who may ask.
        results: where the run stands, and what it goes on with.
        looping: the thread that was the last to ask for a batch; 0: none.
        since: when the present wait of `next` for a batch began; None while there is none. Written
            by the thread that has the turn, and cleared before the wait is added to the tally: so
            whoever reads the tally first, and then `since`, counts no wait twice.
    """

    def __init__(self, supply: Supply, skipping: Skipping, runtime: Runtime, plan: Plan) -> None:
        self._supply = supply
        self._skipping = skipping
        self._now = runtime.monotonic
        self._answers_imported = False  # set by the thread that has the turn
        # The loader's own threads have this in `here.shared`; without workers, no thread has it.
        self._mark = supply.engine.mark
        # A forked child has none of the threads; whether that ends the run, `check_open` says.
        self.forks = _runtime.forks
        self.turn = Turn(runtime.turn, supply)
        self.results = Results(supply, skipping, Place(plan))
        self.looping = 0
        self.since: float | None = None

    @property
    def place(self) -> Place:
        """Where it stands now, with all that was delivered written down."""
        return self.results.place.settled()

    def begin(self, end: int | None, *, stop: bool = False) -> Epoch | None:
        """Begin an epoch.

        Args:
            end: epochs from this one on are not prepared ahead.
            stop: do not begin such an epoch either, and give None.
        """
        turn = self.turn
        fresh = turn.take()
        try:
            turn.inside = True
            self._supply.check_open()
            place = self.place
            cursor, before = place.next_cursor(), place.stream
            if stop and end is not None and cursor.epoch >= end:
                return None
            if (
                before is not None
                and not before.cancelled
                and (place.unasked or (place.over and cursor.epoch == place.begun + 1))
                and end == place.end
                and (end is None or cursor.epoch < end)
            ):
                stream, taken = before, place.taken
            else:
                # The old stream first: its slots that wait for room in `max_bytes` would hold
                # back those of the new one, and nobody would look at them again.
                if before is not None:
                    before.cancel()
                stream, taken = self._supply.open(place.plan, cursor, end), 0
            epoch = Epoch(self, cursor.epoch)
            following = Place(
                place.plan,
                cursor,
                place.shown,
                place.tally,
                live=weakref.ref(epoch),
                begun=cursor.epoch,
                stream=stream,
                taken=taken,
                end=end,
                left_out=place.left_out,
                unasked=cursor.position > 0 and not stop,
            )
            try:
                stream.prefetch(taken)
                self._supply.forget()  # what the loop did between two epochs belongs to no batch
            except BaseException:
                if stream is not before:  # nobody will take from it
                    stream.cancel()
                raise
            place.plan.begun = cursor.epoch
            self.results.place = following
            return epoch
        finally:
            turn.inside, turn.lock = False, fresh

    def load(self, read: Callable[[], tuple[Plan, Cursor]]) -> None:
        """Go on elsewhere, while no iterator is live.

        Args:
            read: gives the plan and the cursor to go on with.

        Raises:
            BusyError: an iterator is live.
            Exception: whatever `read` raises.
        """
        if self.results.place.is_live:
            # The iterator may be unused and not freed yet: garbage in a cycle, or, without the GIL,
            # held by an exception that the worker which raised it has still to free. Collected
            # before the turn is taken, since finalizers run.
            gc.collect()
        turn = self.turn
        fresh = turn.take()
        try:
            turn.inside = True
            self._supply.check_open()
            place = self.place
            if place.is_live:
                raise BusyError(
                    "load_state_dict while an iterator is live: load before the loop, or let the "
                    "iterator end first, or call its close(); if it has no name, take the state "
                    "first and end it by iter(batches).close()"
                )
            plan, cursor = read()
            if place.stream is not None:
                place.stream.cancel()
            self.results.place = Place(plan, cursor, place.shown, place.tally)
        finally:
            turn.inside, turn.lock = False, fresh

    def end(self, epoch: Epoch) -> None:
        """End an iterator, as `Epoch.close` has it."""
        if _runtime is None:  # the program's end has done it; Python has emptied the modules since
            return
        turn = self.turn
        fresh = turn.take()
        try:
            turn.inside = True
            place = self.results.place
            if place.live is not None and place.live() is epoch:
                following = place.settled()._replace(live=None, unasked=False)
                epoch._ended = True
                self.results.place = following
        finally:
            turn.inside, turn.lock = False, fresh

    def forget(self) -> bool:
        """After the end, forget what was prepared, unless a thread is at work; say if none is."""
        # The lock as it is now: a signal handler that asks meanwhile is refused, and replaces it.
        turn, lock = self.turn, self.turn.lock
        # A thread inside `next` still uses the line of slots: it calls `_let_go` itself on its way
        # out, or the next close does.
        if not lock.acquire(blocking=False):
            return False
        idle = not turn.inside
        if idle:
            self._let_go()
        lock.release()
        return idle

    def _let_go(self) -> None:
        """Forget what was prepared, where nobody will ask for it any more."""
        stream = self.results.place.stream
        if stream is not None and not stream.cancelled:
            stream.cancel()
        self.results.place = self.place

    def asked_length(self, end: int | None) -> int:
        """Wait until the order of the epoch that `__len__` counts is there, and give its length.

        The length comes with the first result of that epoch, which is not taken.
        """
        turn = self.turn
        fresh = turn.take()
        try:
            turn.inside = True
            self._supply.check_open()
            return self._length_of_epoch(end)
        finally:
            try:
                if self._supply.closed:  # meanwhile: as in `_next_job`
                    self._let_go()
            finally:
                turn.inside, turn.lock = False, fresh

    def _length_of_epoch(self, end: int | None) -> int:
        place = self.place
        epoch = place.counted(end)
        if place.is_live and place.length is not None:  # another thread has got there since
            return place.length
        if place.is_live:
            place, _, outcome = self.results.next(place)
        else:
            place, outcome = self.results.coming(place, end)
        if outcome.job is None and outcome.error is not None:
            self._raise(place, place.tally, outcome, outcome.error, epoch)
        length = place.length if outcome.job is None else outcome.job.span.length
        if length is None:  # the wait ended with the `with`
            self._supply.check_open()
        return length or 0

    def next(self, epoch: Epoch) -> Any:
        """Deliver the next batch of an epoch, as `Epoch.__next__` has it."""
        # Most calls take what lies ready in a group, and go through these lines alone.
        if epoch._ended:
            raise StopIteration
        if here.shared is self._mark:  # as in `Turn.take`, without calls
            self._supply.check_open()
        turn = self.turn
        fresh = turn.new()
        if not turn.lock.acquire(False) or turn.inside:
            turn.refuse()
        try:
            turn.inside, self.looping = True, get_ident()
            if self._supply.closed or self.forks != _runtime.forks:
                if self._supply.closed:  # while this thread was inside, as in `_next_job`
                    self._let_go()
                self._supply.check_open()
            place = self.results.place
            live = place.live
            if live is None or live() is not epoch:
                if epoch._ended:  # another thread has come to its end since we looked
                    raise StopIteration
                raise ClosedError(
                    "this iterator was ended by a newer one; "
                    "use the newest that iter(batches) or epochs() gave"
                )
            delivery = place.delivery
            if delivery is not None:
                if delivery.lost:
                    delivery.served = 1
                served = delivery.served
                if served < delivery.made or self._more(place, delivery):
                    batch = delivery.batches[served]
                    # Stores only from here to the return.
                    delivery.batches[served] = None
                    delivery.served = served + 1
                    return batch
                if not self._answers_imported:  # so the second batch waits for it, no epoch's end
                    self._import_answers()
                # Where threads make the batches, `_more` has not replaced the place.
                following = self.results.onward(place, delivery)
                if following is not None:
                    outcome, onward = following
                    batch = outcome.value[0]
                    # Stores only from here to the return.
                    outcome.value = None
                    delivery.onward = onward
                    return batch
            self._supply.check_open()
            return self._next_job(self.results.place, epoch)
        finally:
            turn.inside, turn.lock = False, fresh

    def _more(self, place: Place, delivery: Delivery) -> bool:
        """Make the next batches of a job, if it has some that are not made yet.

        Returns:
            Whether they are there now. Not if making them failed: the place is then replaced by one
            whose first result is the failure, or, of a group, whose stream makes them one by one.
        """
        made = delivery.made
        if made == delivery.size:
            return False
        if delivery.here:
            late = delivery.waited > LATE_SECONDS and self._supply.late(delivery)
            if late or self._supply.misplaced(place.stream):
                self.results.reopen(place.settled(), 0)
                return False
        # Only a group or a series leaves batches for later, and only where this thread runs it.
        job: Any = delivery.job
        stream: Any = place.stream
        outcome: Outcome | None = None
        error: BaseException | None = None
        uncut = False
        called = self.since = self._now()
        try:
            if not job.plain:
                outcome = stream.beside(job.single(made))
                batches = None if outcome is None else outcome.value or []
            else:
                batches, error = stream.run_caught(job.more, made)
                uncut = type(error) is UncutError
                if error is not None and isinstance(job, SeriesJob):
                    single = job.single(made)
                    single.at = job.at
                    stream.run(single.failed, job.part)
                    outcome = Outcome(single, None, error, job.part)
            now = self._now()
        except BaseException:
            self.since = None  # first: the next line may be interrupted, too
            delivery.waited += self._now() - called
            raise
        finally:
            del error  # its traceback leads to this frame
        self.since = None
        delivery.waited += now - called
        if batches is None:  # the with was left meanwhile
            return False
        if not batches:
            place = place.settled()
            if outcome is None:
                left = min(delivery.piece, delivery.size - made)
                self.results.reopen(self.results.apart(place, uncut=uncut), left)
            else:
                self.results.fail_one(place, job, made, outcome.job, outcome)
            return False
        delivery.batches[made : made + len(batches)] = batches
        delivery.made = made + len(batches)
        return True

    def _import_answers(self) -> None:
        """Import the classes of what `info` and `stats` give.

        Later it may be too late: a signal's handler may ask in the middle of that import, for which
        it cannot wait, or no file can be opened any more.
        """
        try:
            from ..jobs import BatchInfo  # noqa: F401
            from ..stats import Stats  # noqa: F401
        except (OSError, ImportError) as error:  # batches are delivered without them
            if by_handler(error):
                raise
        self._answers_imported = True
        self._supply.forget()  # the time of the import is not the loop's

    def _next_job(self, place: Place, epoch: Epoch) -> Any:
        """Deliver the first batch of the next job of which something is left."""
        if not self._answers_imported and place.tally.started is not None:  # not the first batch
            self._import_answers()
        called = self._now()
        before = 0.0 if place.delivery is None else place.delivery.waited
        place = place.settled()
        if place.unasked or place.tally.started is None:  # from now on the time counts
            place = place._replace(tally=place.tally.waited(called, called), unasked=False)
            self.results.place = place
        self.since = called
        try:
            return self._next_of(place, epoch, called, before)
        except BaseException:
            since, self.since = self.since, None  # first: what follows may be interrupted, too
            if since is not None:  # else the wait is in the tally already
                self._cut_short(since)
            if self._supply.closed:  # meanwhile: `forget` has left that to this thread
                self._let_go()
            raise

    def _cut_short(self, since: float) -> None:
        """Write down a wait that was cut short: by a Ctrl-C, say, before anything came of it."""
        self._supply.forget()  # something else than batches came between
        # The place may have been replaced, by one whose stream begins anew.
        place = self.place
        self.results.place = place._replace(tally=place.tally.waited(since, self._now()))

    def _next_of(self, place: Place, epoch: Epoch, called: float, before: float) -> Any:
        """Do what `_next_job` does, from a settled place on.

        Args:
            place: the place.
            epoch: the epoch that the batch is of.
            called: when the wait for it began.
            before: seconds spent waiting for the later batches of the job before, after its first
                was delivered.
        """
        while True:
            if place.over:
                self._supply.rest(called, before)
                self._end_epoch(place, epoch, called)
            place, ready, outcome = self.results.next(place)
            if outcome.job is not None and outcome.job.failures:
                place, outcome = self.results.left_out(place, outcome)
            # Where a sampler failed there is no job, and so no batch that has failed.
            now = self._now()
            failed = int(outcome.error is not None and outcome.job is not None)
            tally = place.tally.waited(called, now, failed)
            if outcome.error is not None:
                self._raise(place, tally, outcome, outcome.error, epoch.number)
            self._supply.note(place.stream, outcome, tally, called, now, before)
            job: AnyJob = outcome.job
            batches, size, cursor = outcome.value, job.span.size, place.cursor
            delivery = Delivery(
                job,
                batches,
                max(0, ready - 1) * size,  # as if the other jobs were as large as this one
                _marks(cursor.fingerprint, job.digests) if job.digests else None,
                awaited=not ready,
                here=self._supply.prepared_here(place.stream),
            )
            following = Place(
                place.plan,
                cursor,
                place.shown,
                tally,
                delivery,
                place.live,
                place.begun,
                place.stream,
                place.taken + 1,
                place.end,
                left_out=place.left_out,
            )
            if not size:
                self._end_epoch(following, epoch, now)
            if not delivery.passed:
                break
            delivery.served = 1
            place = following.settled()
            # Stores; an interrupt after them finds the batch passed over.
            called = self.since = now
            self.results.place, before = place, 0.0
        batch = delivery.batches[0]
        # Stores only from here to the return.
        outcome.value = delivery.batches[0] = None
        delivery.served = 1
        self.since = None
        self.results.place = following
        return batch

    def _end_epoch(self, place: Place, epoch: Epoch, called: float) -> NoReturn:
        """End an epoch; what was waited since `called` is not in the tally yet."""
        place, now = place.settled(), self._now()
        cursor = place.cursor
        # A shard that had a step less than others gets to the next epoch only here.
        if cursor.epoch == epoch.number:
            cursor = cursor._replace(epoch=epoch.number + 1, position=0, step=0)
        following = place._replace(
            cursor=cursor, tally=place.tally.waited(called, now), live=None, over=True
        )
        epoch._ended = True
        self.since = None
        self.results.place = following
        raise StopIteration

    def _raise(
        self, place: Place, tally: Tally, outcome: Outcome, error: BaseException, epoch: int
    ) -> NoReturn:
        """Raise what an outcome of an epoch failed with; the next `next` goes on after it.

        Until then the run stands before it. `tally` has counted the wait for it.
        """
        if outcome.job is None and self._supply.engine.failed is not None:
            self._supply.check_open()  # it is not the order that has failed, but a thread of ours
        self._supply.forget()  # nobody knows how much of the time was for what has failed
        retried = 0 if outcome.job is None else outcome.job.retried
        place = place.settled()._replace(tally=tally.tried(0, retried))
        if outcome.job is None:
            # The order of the samples failed, so nothing says what comes next: it is asked
            # again, from the same place.
            following = place._replace(stream=None)
        else:
            lost = Delivery(outcome.job, [None], lost=True)
            following = place._replace(delivery=lost, taken=place.taken + 1)
        # A sample whose retries a close cut short was not tried to the end, whatever the budget.
        tried = issubclass(type(error), Exception) and not issubclass(type(error), ClosedError)
        # Else the budget does not matter: the collate has failed, or several rows together.
        of_row = outcome.part is not None and outcome.job.row_of(outcome.part) is not None
        more = ""
        if tried and of_row:
            more = self._skipping.why_raised(place.cursor.skipped, spent=outcome.job.strict)
        error = explained(outcome, error, epoch, more)
        try:
            # Stores only up to the raise. Neither the outcome nor this frame may keep the
            # error: its traceback leads back to both.
            outcome.error = outcome.job = None
            self.since = None
            self.results.place = following
            raise error
        finally:
            del error


def _marks(previous: str, digests: list[bytes]) -> list[str]:
    """Give the running fingerprint after each of some batches."""
    from ..fingerprint import chained  # imported by now, since it was asked for

    return list(accumulate(digests, chained, initial=previous))[1:]
