"""`Batches`: a run of batches, epoch after epoch, in the consumer's hands.

One thread at a time may ask, the one that has the *turn*. Where the run stands is one
immutable `_Place`, worked out first and then put in place by a single store with no call
between it and the return: an interrupt, which can only land where a call begins or ends,
comes before all of it or after all of it.

This file is longer than others, since it is one state machine: what `next`, `iter` and
`load_state_dict` do to the place has to be read together.
"""

from __future__ import annotations

import queue
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from .._runtime import Runtime
from ..config import LoaderConfig
from ..engine import ENDED, Engine, Inline, InlineStream, Outcome, Stream
from ..errors import (
    BusyError,
    ClosedError,
    ConfigError,
    Problem,
    StateError,
)
from ..jobs import BatchInfo, BatchJob, Recipe
from ..order import Deal
from ..state import Cursor, dump, load
from ..stats import Stats, Tally
from ._epochs import Epoch, Epochs
from ._failure import explained
from ._schedule import behind, jobs

__all__ = ["Batches"]


class _Place(NamedTuple):
    """Where a run stands. Replaced whole, so any thread may read it.

    Attributes:
        cursor: what was delivered.
        info: what the batch delivered last is.
        tally: the counts.
        live: the iterator that may ask.
        begun: the epoch that the last iterator began; -1 after a state was loaded.
        left: steps of that epoch whose results are not yet taken.
        stream: the results.
        taken: how many results were taken from it.
        end: the epoch before which the stream's jobs end.
        failed: the cursor behind a batch that was raised and not yet passed.
    """

    cursor: Cursor = Cursor()
    info: BatchInfo | None = None
    tally: Tally = Tally()
    live: weakref.ref[Epoch] | None = None
    begun: int = -1
    left: int = 0
    stream: Stream | InlineStream | None = None
    taken: int = 0
    end: int | None = None
    failed: Cursor | None = None

    def passed(self) -> _Place:
        """The place behind a failed batch; itself without one."""
        if self.failed is None:
            return self
        return self._replace(
            cursor=self.failed, taken=self.taken + 1, left=self.left - 1, failed=None
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
        length: int,
        identity: dict[str, Any],
        close_source: Callable[[], None] | None,
        runtime: Runtime,
        not_pinned: str = "",
    ) -> None:
        self._config = config
        self._recipe = recipe
        self._deal = deal
        self._length = length
        self._identity = identity
        self._runtime = runtime
        self._not_pinned = not_pinned
        self._engine: Engine | Inline = (
            Engine(config.num_workers, config.close_timeout, runtime)
            if config.num_workers
            else Inline()
        )
        # How to close the source, if it is ours: taken out by whoever does it, once.
        self._closing = runtime.simple_queue()
        if close_source is not None:
            self._closing.put(close_source)
        self._closed_at: float | None = None
        # The turn. It is taken by trying and given back by putting a new lock in its place:
        # a store, since a call to release it could be interrupted behind the delivery. Its
        # own thread may take it again, so an interrupt right behind the taking does not shut
        # that thread out (another one must wait until it has called once more). `_inside`
        # says that somebody is at work under it, so that nobody is let in twice.
        self._turn = runtime.turn()
        self._inside = False
        self._place = _Place()  # written by who has the turn

    def _start(self) -> None:
        self._engine.start()

    def __len__(self) -> int:
        """Count the steps of a whole epoch on this shard."""
        return self._deal.steps(self._length)

    def __iter__(self) -> Epoch:
        """Begin the next epoch; after `load_state_dict`, go on with the interrupted one.

        A live iterator is ended: its remaining batches are not delivered.

        Raises:
            ClosedError: the ``with`` was left.
            BusyError: another thread is inside `next`.
        """
        epoch = self._begin(self._config.num_epochs)
        if epoch is None:  # only with `stop`
            raise StopIteration
        return epoch

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
            end = getattr(n, "__index__", lambda: -1)()  # numpy's integers too
            if isinstance(n, bool) or end < 0:
                raise ConfigError(Problem("epochs(n)", "an integer >= 0 or None", repr(n)))
        return Epochs(self, end)

    @property
    def info(self) -> BatchInfo | None:
        """What the batch delivered last is; None before the first."""
        return self._place.info

    def stats(self) -> Stats:
        """Give the numbers of the run up to now; after the ``with``, up to its end."""
        now = self._runtime.monotonic() if self._closed_at is None else self._closed_at
        ahead = self._config.prefetch_batches if self._config.num_workers else 0
        return self._place.tally.stats(now, ahead, self._not_pinned)

    def state_dict(self) -> dict[str, Any]:
        """Give the state: what was delivered up to now, as plain JSON values.

        After an exception it stands before the failed batch until `next` is called again.
        """
        return dump(self._place.cursor, self._identity, self._world(), self._deal.shard_index)

    def load_state_dict(self, state: Any) -> None:
        """Go on where a state stands: the next iterator begins there. Nothing is read.

        Args:
            state: what `state_dict` gave, perhaps through JSON. Another batch size or number
                of shards is fine: the positions that remain are dealt anew.

        Raises:
            StateError: it is damaged, or of another run; the differing fields are named.
            BusyError: an iterator is live.
            ClosedError: the ``with`` was left.
        """
        fresh = self._take_turn()
        try:
            self._inside = True
            self._check_open()
            place = self._place
            if place.live is not None and place.live() is not None:
                raise BusyError(
                    "load_state_dict while an iterator is live: load before the loop, "
                    "or let the iterator end first"
                )
            cursor = load(state, self._identity, self._world(), self._deal.shard_index)
            if cursor.position > self._length:
                raise StateError(
                    f"the state is damaged: world.position: expected at most {self._length}, "
                    f"the length of the source, got {cursor.position}"
                )
            if place.stream is not None:
                place.stream.cancel()
            self._place = _Place(cursor=cursor, info=place.info, tally=place.tally)
        finally:
            self._inside, self._turn = False, fresh

    def close(self) -> None:
        """End the threads and close the source, if it is ours. Leaving the ``with`` does it.

        Harmless a second time and in any thread; an iterator that waits in another thread
        raises `ClosedError`. In a worker, or while a job runs in another thread without
        workers, it only tells the others to end: a later call does the rest.
        """
        if self._closed_at is None:
            self._closed_at = self._runtime.monotonic()
        if not self._engine.stop():
            return
        # Whoever is inside `next` still uses the line, and will find the engine stopped.
        if self._turn.acquire(blocking=False):
            stream = self._place.stream
            if stream is not None and not self._inside:
                stream.cancel()
            self._turn.release()
        try:
            close = self._closing.get_nowait()
        except queue.Empty:
            return
        close()

    def _take_turn(self) -> Any:
        """Take the turn.

        Returns:
            The lock to put in its place when leaving.

        Raises:
            BusyError: somebody else has it, or this thread, further up.
        """
        fresh = self._runtime.turn()
        if not self._turn.acquire(blocking=False):
            self._check_open()  # in a forked child whoever had it is not there
            raise BusyError(
                "another thread is using these batches; they serve one at a time: "
                "put a lock around next(), or give each thread a Loader with its own shard"
            )
        if self._inside:
            raise BusyError(
                "a source, transform, collate or signal handler asks its own loader for a batch "
                "while that is at work on one; give it a Loader of its own"
            )
        return fresh

    def _check_open(self) -> None:
        if self._closed_at is not None or not self._engine.usable:
            raise ClosedError(
                "the batches are closed: the `with Loader(...)` block was left, or the process "
                "is a fork of the one that entered it; iterate inside the block"
            )

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
            place = self._place.passed()
            cursor, before = self._place.cursor, place.stream
            if cursor.epoch == place.begun:
                cursor = cursor._replace(epoch=cursor.epoch + 1, position=0, step=0)
            if stop and end is not None and cursor.epoch >= end:
                return None
            if (
                before is not None
                and not before.cancelled
                and place.left == 0
                and cursor.epoch == place.begun + 1
                and end == place.end
                and (end is None or cursor.epoch < end)
            ):
                stream, taken = before, place.taken
            else:
                stream, taken = self._open_stream(cursor, end), 0
            epoch = Epoch(self, cursor.epoch)
            left = self._deal.steps(self._length, cursor.position)
            following = _Place(
                cursor,
                place.info,
                place.tally,
                weakref.ref(epoch),
                cursor.epoch,
                left,
                stream,
                taken,
                end,
            )
            if left:
                stream.prefetch(taken)
            if before is not None and before is not stream:
                before.cancel()
            self._place = following
            return epoch
        finally:
            self._inside, self._turn = False, fresh

    def _open_stream(self, cursor: Cursor, end: int | None) -> Stream | InlineStream:
        if end is not None:
            end = max(end, cursor.epoch + 1)
        upcoming = jobs(self._recipe, self._deal, self._length, self._config, cursor, end)
        return self._engine.stream(upcoming, self._config.prefetch_batches)

    def _next(self, epoch: Epoch) -> Any:
        called = self._runtime.monotonic()
        if epoch._ended:
            raise StopIteration
        fresh = self._take_turn()
        try:
            self._inside = True
            self._check_open()
            place = self._place
            if place.live is None or place.live() is not epoch:
                raise ClosedError(
                    "this iterator was ended by a newer one; "
                    "use the newest that iter(batches) or epochs() gave"
                )
            if place.failed is not None:
                place = self._place = place.passed()
            if not place.left:
                self._end_epoch(epoch, called)
            place, ready, outcome = self._outcome(place)
            now = self._runtime.monotonic()
            if outcome.error is not None:
                self._raise(place, outcome, outcome.error, place.tally.waited(called, now, 1))
            job: BatchJob = outcome.job
            batch = outcome.value
            following = _Place(
                self._behind(place.cursor, job.after, job.samples),
                job.info,
                place.tally.delivered(called, now, job.samples, ready),
                place.live,
                place.begun,
                place.left - 1,
                place.stream,
                place.taken + 1,
                place.end,
            )
            # Stores only from here to the return.
            outcome.value = None
            self._place = following
            return batch
        finally:
            self._inside, self._turn = False, fresh

    def _end_epoch(self, epoch: Epoch, called: float) -> NoReturn:
        place = self._place
        cursor = place.cursor
        # A shard that had a step less than others gets to the next epoch only here.
        if cursor.epoch == epoch.number:
            cursor = cursor._replace(epoch=epoch.number + 1, position=0, step=0)
        tally = place.tally.waited(called, self._runtime.monotonic())
        following = place._replace(cursor=cursor, live=None, tally=tally)
        epoch._ended = True
        self._place = following
        raise StopIteration

    def _outcome(self, place: _Place) -> tuple[_Place, int, Outcome]:
        """Wait for the next outcome.

        Returns:
            The place, with another stream if a new one had to begin; how many batches were
            ready; the outcome.
        """
        if place.stream is not None:
            ready = place.stream.ready(place.taken)
            outcome = place.stream.result(place.taken)
            if outcome is not ENDED:
                return place, ready, outcome
        self._check_open()
        # An interrupt or an error inside the iterator of jobs has ended it early: go on from
        # here with a new one.
        stream = self._open_stream(place.cursor, place.end)
        place = self._place = place._replace(stream=stream, taken=0)
        outcome = stream.result(0)
        if outcome is ENDED:
            self._check_open()
            raise RuntimeError("the order ended before its epoch did")
        return place, 0, outcome

    def _behind(
        self, cursor: Cursor, after: tuple[int, int, int] | None, samples: int | None
    ) -> Cursor:
        """Give the cursor behind the next batch; `samples` is None if that failed."""
        if after is None:  # the iterator of jobs failed, and there is no job to say it
            after = behind(self._deal, self._length, cursor, 1)
        if samples is None:
            return Cursor(*after, cursor.batches, cursor.samples)
        return Cursor(*after, cursor.batches + 1, cursor.samples + samples)

    def _raise(
        self, place: _Place, outcome: Outcome, error: BaseException, tally: Tally
    ) -> NoReturn:
        job: BatchJob | None = outcome.job
        failed = self._behind(place.cursor, None if job is None else job.after, None)
        following = place._replace(failed=failed, tally=tally)
        error = explained(outcome, error)
        try:
            # Stores only up to the raise. Neither the outcome nor this frame may keep the
            # error: its traceback leads back to both.
            outcome.error = outcome.job = None
            self._place = following
            raise error
        finally:
            del error
