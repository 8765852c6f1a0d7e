"""`Batches`: a run of batches, epoch after epoch, in the consumer's hands.

One thread at a time may ask, the one that has the *turn*. Where the run stands is one
immutable `Place`, worked out first and then put in place by a single store with no call
between it and the return: an interrupt, which can only land where a call begins or ends,
comes before all of it or after all of it.

This file is longer than others, since it is one state machine: what `next`, `iter` and
`load_state_dict` do to the place has to be read together.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Collection, Mapping
from itertools import accumulate
from os import PathLike, getpid
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .._runtime import Runtime
from ..config import LoaderConfig
from ..engine import ENDED, Outcome, attempt, from_signal
from ..errors import (
    BusyError,
    ClosedError,
    ConfigError,
    Problem,
    StalledError,
    StateError,
)
from ..jobs import BatchJob, GroupJob, NoBatch, Recipe, SeriesJob
from ..order import Deal
from ..state import dump, load
from ..stats import Tally
from ._arguments import count_of
from ._epochs import Epoch, Epochs
from ._failure import explained
from ._place import Delivery, Place
from ._sampling import Samplings
from ._schedule import NoStepsError, Plan, skipped
from ._skipping import Skipping
from ._supply import Supply

if TYPE_CHECKING:
    from ..engine import InlineStream, Stream
    from ..jobs import BatchInfo
    from ..stats import Stats

__all__ = ["Batches"]

_ITS_OWN = (
    "a source, sampler, transform, collate or signal handler uses its own loader while that is at "
    "work; give it a Loader of its own"
)


class Batches:
    """The batches of a run. Made by entering a `Loader`; iterating it gives one epoch.

    The next epoch's first batches are prepared while this one's last are consumed, up to
    the config's `num_epochs`.

    >>> import numpy as np
    >>> from threadloader import Loader
    >>> with Loader({"batch_size": 2, "seed": 7}, source=np.arange(4)) as batches:
    ...     for epoch in batches.epochs(2):
    ...         print(epoch.number, len(batches), sorted(np.concatenate(list(epoch)).tolist()))
    0 2 [0, 1, 2, 3]
    1 2 [0, 1, 2, 3]
    """

    def __init__(
        self,
        config: LoaderConfig,
        recipe: Recipe,
        deal: Deal,
        samplings: Samplings,
        identity: dict[str, Any],
        close_source: Callable[[], None] | None,
        skipping: Skipping,
        runtime: Runtime,
        not_pinned: str = "",
        cache_stats: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._config = config
        self._recipe = recipe
        self._deal = deal
        self._samplings = samplings
        self._identity = identity
        self._skipping = skipping
        self._runtime = runtime
        self._not_pinned = not_pinned
        self._cache_stats = cache_stats
        asked = samplings.now.sampler.length is None  # it is a callable
        self._supply = Supply(config, recipe, deal, runtime, asked=asked)
        # How to close the source, if it is ours; None once that is done, by the one thread that
        # has the lock.
        self._close_source = close_source
        self._closing = runtime.turn()
        self._closed_at: float | None = None
        self._pid = getpid()
        self._saved = False  # goes to True with the first `save`, whoever calls it
        # The turn. It is taken by trying and given back by putting a new lock in its place:
        # a store, since a call to release it could be interrupted behind the delivery. Its
        # own thread may take it again, so an interrupt right behind the taking does not shut
        # that thread out (another one must wait until it has called once more). `_inside`
        # says that somebody is at work under it, so that nobody is let in twice.
        self._new_turn = runtime.turn
        self._turn = runtime.turn()
        self._inside = False
        self._place = Place(Plan(samplings.now))  # written by who has the turn

    def _start(self) -> None:
        self._supply.start()

    def __len__(self) -> int:
        """Count the steps of a whole epoch on this shard.

        Of the epoch that is live, or of the one that comes next. Where a callable sampler
        gives each epoch a length of its own, this waits until it was asked for that one.

        Raises:
            ClosedError: it has to wait, and the ``with`` was left.
            BusyError: it has to wait, and another thread does, or the loader's own code asks.
            Exception: whatever the sampler raises; asked again, it is asked again.
        """
        place = self._place.settled()
        live = place.live is not None and place.live() is not None
        epoch = place.begun if live else place.next_cursor().epoch
        length = place.plan.of(epoch).sampler.length
        if length is None:
            length = place.length if live and place.length is not None else self._asked_length()
        return self._deal.steps(length)

    def __iter__(self) -> Epoch:
        """Begin the next epoch; after `load_state_dict`, go on with the interrupted one.

        A live iterator is ended: its remaining batches are not delivered.

        Raises:
            ClosedError: the ``with`` was left.
            BusyError: another thread is inside `next`, or this is one of the loader's own.
        """
        return cast("Epoch", self._begin(self._config.num_epochs))  # None only with `stop`

    def epochs(self, n: int | None = None) -> Epochs:
        """Give the epochs of the run, up to the n-th.

        A resumed run goes on counting: it finishes the same n epochs, and begins with what
        is left of the one it was in.

        Args:
            n: how many epochs the run has; by default `num_epochs` of the config, and
                without that it never ends.

        Raises:
            ConfigError: n is not an integer >= 0.
        """
        end = self._config.num_epochs
        if n is not None:
            end = count_of("epochs(n)", n, "an integer >= 0 or None")
        return Epochs(self, end)

    @property
    def info(self) -> BatchInfo | None:
        """What the batch delivered last is; None before the first."""
        return self._place.settled().info

    def stats(self) -> Stats:
        """Give the numbers of the run up to now; after the ``with``, up to its end."""
        now = self._runtime.monotonic() if self._closed_at is None else self._closed_at
        place = self._place.settled()
        return place.tally.stats(
            now,
            prefetch_batches=self._supply.ahead,
            peak_bytes=self._supply.engine.peak_bytes,
            gil_delay_seconds=self._supply.engine.gil_delay,
            switch_interval_shortened=self._supply.shortened,
            not_pinned=self._not_pinned,
            fingerprint=place.cursor.fingerprint,
            **self._cache_stats(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Give the state: what was delivered up to now, as plain JSON values.

        After an exception it stands before the failed batch until `next` is called again.
        """
        place = self._place.settled()
        # An epoch that was not begun has what the config says when it is.
        begun = place.cursor.position > 0
        sampling = place.plan.of(place.cursor.epoch) if begun else place.plan.now
        shard = self._deal.shard_index
        return dump(place.cursor, self._identity, self._world(), shard, sampling.excluded)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, for `resume`. It is there whole, or not at all.

        When this returns, it is on the disk; whoever is killed in the middle leaves the
        file that was there before. Each shard saves to a file of its own, or one of them for
        all: counts of a shard are kept only for the shard that saved them.

        Args:
            path: the file; it is replaced if it is there.

        Raises:
            OSError: the system cannot write it.
        """
        from ..state import write  # imported when it is asked for

        write(self.state_dict(), path, tidy=not self._saved)
        self._saved = True

    def load_state_dict(
        self, state: Mapping[str, Any] | str | PathLike[str], allow: Collection[str] = ()
    ) -> None:
        """Go on where a state stands: the next iterator begins there. Nothing is read.

        Args:
            state: what `state_dict` gave, perhaps through JSON, or the path of a file that
                `save` wrote. Another batch size or number of shards is fine: the positions
                that remain are dealt anew.
            allow: fields of the state that may differ from this run, as in ``("source",)``;
                `StateError.fields` has their names.

        Raises:
            StateError: it is damaged, or of another run; the differing fields are named.
            BusyError: an iterator is live.
            ClosedError: the ``with`` was left.
            OSError: the file cannot be read.
        """
        if isinstance(state, (str, PathLike)):
            from ..state import read  # imported when it is asked for

            state = read(state)
        live = self._place.live
        if live is not None and live() is not None:
            # It may be that nobody refers to it: garbage in a cycle, or, without the GIL, held by
            # an exception that waits to be freed by the worker that raised it. Before the turn
            # is taken, since finalizers run.
            gc.collect()
        fresh = self._take_turn()
        try:
            self._inside = True
            self._check_open()
            place = self._place.settled()
            if place.live is not None and place.live() is not None:
                raise BusyError(
                    "load_state_dict while an iterator is live: load before the loop, "
                    "or let the iterator end first"
                )
            shard = self._deal.shard_index
            cursor, excluded = load(state, self._identity, self._world(), shard, allow)
            plan = self._samplings.plan(cursor.epoch, cursor.position, excluded)
            length = plan.of(cursor.epoch).sampler.length
            if length is not None and cursor.position > length:
                raise StateError(
                    f"the state does not fit: world.position: expected at most {length}, "
                    f"the length of the epoch, got {cursor.position}"
                )
            if place.stream is not None:
                place.stream.cancel()
            self._place = Place(plan, cursor, place.shown, place.tally)
        finally:
            self._inside, self._turn = False, fresh

    def _skip(self, steps: int) -> None:
        """Leave out steps; before anything is begun."""
        place = self._place
        try:
            cursor = skipped(self._deal, place.plan, place.cursor, steps)
        except NoStepsError as error:
            raise ConfigError(Problem("skip_steps", "steps to leave out", str(error))) from error
        self._place = place._replace(cursor=cursor)

    def close(self) -> None:
        """End the threads and close the source, if it is ours. Leaving the ``with`` does it.

        Harmless a second time and in any thread; an iterator that waits in another thread
        raises `ClosedError`. In a worker, or while a job runs in another thread without
        workers, it only tells the others to end: a later call does the rest.
        """
        self._close()

    def _close(self) -> bool:
        """Do what `close` does; say whether nothing is left for a later call."""
        if self._closed_at is None:
            self._closed_at = self._runtime.monotonic()
        if not self._supply.stop():
            # Called from a job of this run, this leaves the rest to the end of the `with`. Else
            # that has come, and the job that another thread is at work on ends by itself.
            return not (self._supply.inside() or self._asking_here())
        # Whoever is inside `next` still uses the line, and will find the engine stopped.
        if self._turn.acquire(blocking=False):  # pragma: no branch - else as the comment says
            stream = self._place.stream
            if stream is not None and not self._inside:
                stream.cancel()
            if not self._inside:  # batches that nobody will ask for any more
                self._place = self._place.settled()
            self._turn.release()
        self._recipe.free()
        if not self._closing.acquire(blocking=False):
            return True  # another thread is at it
        try:
            if self._close_source is not None:
                self._close_source()
            self._close_source = None
            return True
        except BaseException as problem:
            # Interrupted, it may not even have begun; a second time it does what is left.
            if not from_signal(problem):
                self._close_source = None
            raise
        finally:
            self._closing.release()

    def _take_turn(self) -> Any:
        """Take the turn.

        Returns:
            The lock to put in its place when leaving.

        Raises:
            BusyError: somebody else has it, or this thread, further up; or this is one of the
                loader's own threads.
        """
        if self._supply.inside():  # refused before it has the turn, which would keep the loop out
            self._check_open()
        fresh = self._new_turn()
        if not self._turn.acquire(blocking=False) or self._inside:
            self._refuse()
        return fresh

    def _refuse(self) -> NoReturn:
        self._check_open()  # in a forked child whoever had the turn is not there
        if self._asking_here():
            raise BusyError(_ITS_OWN)
        raise BusyError(
            "another thread is using these batches; they serve one at a time: "
            "put a lock around next(), or give each thread a Loader with its own shard"
        )

    def _asking_here(self) -> bool:
        """Tell whether this thread is at work under the turn, further up."""
        if not self._inside or not self._turn.acquire(blocking=False):
            return False
        self._turn.release()
        return True

    def _check_open(self) -> None:
        if self._closed_at is not None or not self._supply.engine.usable:
            raise ClosedError(
                "the batches are closed: the `with Loader(...)` block was left, or the process "
                "is a fork of the one that entered it; iterate inside the block"
            )
        if self._supply.inside():  # it would wait for itself
            raise BusyError(_ITS_OWN)

    def _world(self) -> dict[str, int]:
        return {"batch_size": self._deal.batch_size, "shard_count": self._deal.shard_count}

    def _begin(self, end: int | None, *, stop: bool = False) -> Epoch | None:
        """Begin an epoch.

        Args:
            end: epochs from this one on are not prepared ahead.
            stop: do not begin such an epoch either, and give None.
        """
        fresh = self._take_turn()
        try:
            self._inside = True
            self._check_open()
            place = self._place.settled()
            cursor, before = place.next_cursor(), place.stream
            if stop and end is not None and cursor.epoch >= end:
                return None
            if (
                before is not None
                and not before.cancelled
                and place.over
                and cursor.epoch == place.begun + 1
                and end == place.end
                and (end is None or cursor.epoch < end)
            ):
                stream, taken = before, place.taken
            else:
                # First: slots of the one before that wait for room in `max_bytes` would hold
                # back those of the next, and nobody would look at them again.
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
                passed=place.passed,
            )
            try:
                stream.prefetch(taken)
                self._supply.forget()  # what was done between two epochs is no batch
            except BaseException:
                if stream is not before:  # nobody will take from it
                    stream.cancel()
                raise
            place.plan.begun = cursor.epoch
            self._place = following
            return epoch
        finally:
            self._inside, self._turn = False, fresh

    def _asked_length(self) -> int:
        """Wait until the epoch that `__len__` counts was asked for, and give its length.

        It comes with the first result of that epoch, which stays where it is.
        """
        fresh = self._take_turn()
        try:
            self._inside = True
            self._check_open()
            place = self._place.settled()
            live = place.live is not None and place.live() is not None
            place, _, outcome = self._outcome(place) if live else self._coming(place)
            if outcome.job is None and outcome.error is not None:
                self._raise(place, place.tally, outcome, outcome.error)
            length = place.length if outcome.job is None else outcome.job.span.length
            return length or 0
        finally:
            self._inside, self._turn = False, fresh

    def _coming(self, place: Place) -> tuple[Place, int, Outcome]:
        """Wait for the first outcome of the epoch that comes next, while none is live.

        Returns:
            As `_outcome`; it is `ENDED` behind the last epoch of the run.
        """
        cursor, end = place.next_cursor(), self._config.num_epochs
        outcome, stream = ENDED, place.stream
        if place.over and stream is not None:
            outcome = stream.result(place.taken)
            if outcome is ENDED:
                self._check_open()
        # The stream may end sooner than the run: at the end of `epochs(n)`.
        goes_on = outcome is ENDED and (end is None or cursor.epoch < end)
        if not place.over or stream is None or stream.cancelled or goes_on:
            if stream is not None:
                stream.cancel()
            stream = self._supply.open(place.plan, cursor, end)
            # As if the epoch before had ended here, for the iterator that comes: it takes
            # this stream. What was delivered stays as it is.
            place = self._place = place._replace(
                begun=cursor.epoch - 1, over=True, stream=stream, taken=0, end=end
            )
            outcome = stream.result(0)
        return place, 0, outcome

    def _next(self, epoch: Epoch) -> Any:
        # Most calls take what lies ready in a group, and go through these lines alone.
        if epoch._ended:
            raise StopIteration
        if self._supply.inside():  # as in `_take_turn`
            self._check_open()
        fresh = self._new_turn()
        if not self._turn.acquire(False) or self._inside:
            self._refuse()
        try:
            self._inside = True
            if self._closed_at is not None or self._pid != getpid():
                self._check_open()
            place = self._place
            if place.live is None or place.live() is not epoch:
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
                # `_more` has not replaced the place where threads make the batches.
                following = self._supply.onward(place, delivery)
                if following is not None:
                    outcome, onward = following
                    batch = outcome.value[0]
                    # Stores only from here to the return.
                    outcome.value = None
                    delivery.onward = onward
                    return batch
            self._check_open()
            return self._next_job(self._place, epoch)
        finally:
            self._inside, self._turn = False, fresh

    def _more(self, place: Place, delivery: Delivery) -> bool:
        """Have the next batches of a job made, if there are some that are not made yet.

        Returns:
            Whether they are there. Not where making them failed: then the place is replaced by one
            whose first result is that, or, of a group, from which they are made one by one.
        """
        made = delivery.made
        if made == delivery.size:
            return False
        # Only such jobs leave some for later, and only where this thread runs them.
        job: Any = delivery.job
        stream: Any = place.stream
        outcome: Outcome | None = None
        called = self._runtime.monotonic()
        if isinstance(job, SeriesJob):
            outcome = stream.beside(job.single(made))
            batches = None if outcome is None else outcome.value or []
        else:
            batches = stream.run(_more_of, job, made)
        delivery.waited += self._runtime.monotonic() - called
        if batches is None:  # the with was left meanwhile
            return False
        if not batches:
            place = place.settled()
            if outcome is None:
                self._reopen(place, min(delivery.piece, delivery.size - made))
            else:
                self._fail_one(place, job, made, outcome.job, outcome)
            return False
        delivery.batches[made : made + len(batches)] = batches
        delivery.made = made + len(batches)
        return True

    def _next_job(self, place: Place, epoch: Epoch) -> Any:
        """Deliver the first batch of the next job of which something is left."""
        called = self._runtime.monotonic()
        before = 0.0 if place.delivery is None else place.delivery.waited
        place = place.settled()
        while True:
            if place.over:
                self._end_epoch(place, epoch, called)
            try:
                place, ready, outcome = self._outcome(place)
                if outcome.job is not None and outcome.job.failures:
                    place, outcome = self._left_out(place, outcome)
            except StalledError:
                # The place may have been replaced, by one whose stream begins anew.
                place, now = self._place.settled(), self._runtime.monotonic()
                self._place = place._replace(tally=place.tally.waited(called, now))
                raise
            now, failed = self._runtime.monotonic(), int(outcome.error is not None)
            tally = place.tally.waited(called, now, failed)
            if outcome.error is not None:
                self._raise(place, tally, outcome, outcome.error)
            self._supply.note(place.stream, outcome, tally, called, now, before)
            job: BatchJob | GroupJob | SeriesJob | NoBatch = outcome.job
            batches, size, cursor = outcome.value, job.span.size, place.cursor
            delivery = Delivery(
                job,
                batches,
                max(0, ready - 1) * size,  # as if the other jobs were as large as this one
                _marks(cursor.fingerprint, job.digests) if self._recipe.digest else None,
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
                passed=place.passed,
            )
            if not size:
                self._end_epoch(following, epoch, now)
            if not delivery.passed:
                break
            # A store; an interrupt behind it finds the batch passed over.
            delivery.served = 1
            place = self._place = following.settled()
            called, before = now, 0.0
        batch = delivery.batches[0]
        # Stores only from here to the return.
        outcome.value = delivery.batches[0] = None
        delivery.served = 1
        self._place = following
        return batch

    def _end_epoch(self, place: Place, epoch: Epoch, counted: float) -> NoReturn:
        """End an epoch; `counted` is when the waiting began that the tally does not have yet."""
        place, now = place.settled(), self._runtime.monotonic()
        cursor = place.cursor
        # A shard that had a step less than others gets to the next epoch only here.
        if cursor.epoch == epoch.number:
            cursor = cursor._replace(epoch=epoch.number + 1, position=0, step=0)
        following = place._replace(
            cursor=cursor, tally=place.tally.waited(counted, now), live=None, over=True
        )
        epoch._ended = True
        self._place = following
        raise StopIteration

    def _outcome(self, place: Place) -> tuple[Place, int, Outcome]:
        """Wait for the next outcome.

        Returns:
            The place, with another stream if a new one had to begin; how many batches were
            ready; the outcome.
        """
        if place.stream is not None:
            ready = place.stream.ready(place.taken)
            outcome = place.stream.result(place.taken)
            if outcome is not ENDED and not _failed_together(outcome):
                return place, ready, outcome
        self._check_open()
        # An interrupt or an error inside the iterator of jobs has ended it early, or a group
        # failed: go on from here with a new one, and make a group's batches one by one.
        if place.stream is None or outcome is ENDED:
            place, outcome = self._anew(place, 0)
        elif isinstance(outcome.job, GroupJob):
            place, outcome = self._anew(place, outcome.job.together)
        else:  # of a series the first batch failed, and with an error of its own
            place, outcome = self._fail_one(place, outcome.job, 0, outcome.job.first, outcome)
        return place, 0, outcome

    def _fail_one(
        self, place: Place, series: SeriesJob, number: int, job: BatchJob, outcome: Outcome
    ) -> tuple[Place, Outcome]:
        """Go on with what one batch of a series has failed with, and then with the rest of it.

        Nothing is drawn from the stream up to the one store: an interrupt finds the place from
        before, with all that the stream has, or the one that follows.

        Args:
            place: where the run stands, before that batch.
            series: the series.
            number: which of its batches it is.
            job: the job of that.
            outcome: what it came to.

        Returns:
            The place, whose stream begins with the failure; and that, as an outcome of `job`.
        """
        job = series.placed(job, number)
        failed = Outcome(job, None, outcome.error, outcome.part, outcome.seconds)
        before = cast("InlineStream", place.stream)
        stream = before.going_on(failed, series.rest(number + 1))
        self._place = place._replace(stream=stream, taken=0)
        # The frames of its traceback know the place from before, and so this.
        outcome.error = None
        return self._place, failed

    def _left_out(self, place: Place, outcome: Outcome) -> tuple[Place, Outcome]:
        """Write down what was left out of a batch; above the budget, have it made strictly.

        Returns:
            The place, and the outcome to go on with: above the budget an error, unless the
            samples that failed have come to be good.
        """
        failures = outcome.job.failures
        if place.cursor.skipped + len(failures) > self._skipping.budget:
            return self._anew(place, 1, strict=True)
        if outcome.error is None:  # else nothing is delivered that they were left out of
            self._skipping.note(failures)
        return place, outcome

    def _anew(self, place: Place, singly: int, *, strict: bool = False) -> tuple[Place, Outcome]:
        """Go on with a new stream from where the run stands, and wait for its first outcome.

        Args:
            place: where that is; it is replaced before anything is waited for.
            singly: as many batches are made one by one, and none in a group.
            strict: a sample of the first batch that fails is raised and not left out.
        """
        place = self._reopen(place, singly, strict=strict)
        outcome = cast("Stream", place.stream).result(0)
        if outcome is ENDED:  # pragma: no cover - another thread closes meanwhile
            self._check_open()
            raise RuntimeError("the order ended before its epoch did")
        return place, outcome

    def _reopen(self, place: Place, singly: int, *, strict: bool = False) -> Place:
        """Put a new stream in place, as `_anew`, and give the place; wait for nothing."""
        if place.stream is not None:
            place.stream.cancel()
        stream = self._supply.open(place.plan, place.cursor, place.end, singly, strict=strict)
        self._place = place._replace(stream=stream, taken=0)
        return self._place

    def _raise(
        self, place: Place, counted: Tally, outcome: Outcome, error: BaseException
    ) -> NoReturn:
        place = place.settled()._replace(tally=counted)
        if outcome.job is None:
            # The order of the samples failed, so nothing says what comes next: it is asked
            # again, from the same place.
            following = place._replace(stream=None)
        else:
            lost = Delivery(outcome.job, [None], lost=True)
            following = place._replace(delivery=lost, taken=place.taken + 1)
        # What a close cut short was tried no further, whatever the budget.
        of_sample = outcome.part is not None and not issubclass(type(error), ClosedError)
        more = self._skipping.told(place.cursor.skipped) if of_sample else ""
        error = explained(outcome, error, more)
        try:
            # Stores only up to the raise. Neither the outcome nor this frame may keep the
            # error: its traceback leads back to both.
            outcome.error = outcome.job = None
            self._place = following
            raise error
        finally:
            del error


def _failed_together(outcome: Outcome) -> bool:
    """Tell whether several batches failed, of which some may be good."""
    return outcome.error is not None and isinstance(outcome.job, (GroupJob, SeriesJob))


def _more_of(job: GroupJob, first: int) -> list[Any]:
    """Give further batches of a job; none where making them failed."""
    batches, error = attempt(job.more, first)
    failed = error is not None
    del error  # its traceback leads to this frame
    return [] if failed else cast("list[Any]", batches)


def _marks(previous: str, digests: list[bytes]) -> list[str]:
    """Give the running fingerprint behind each of some batches."""
    from ..fingerprint import chained  # imported by now, since it was asked for

    return list(accumulate(digests, chained, initial=previous))[1:]
