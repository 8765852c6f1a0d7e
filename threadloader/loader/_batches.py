"""`Batches`: a run of batches, epoch after epoch, in the consumer's hands.

Everything here but `stats`, `state_dict` and `close` is run by one thread at a time, the
one that has the *turn*. An interrupt may land between any two bytecodes that make a call;
so what a delivery changes is worked out first and then stored in a row of plain stores
with no call between or behind them: it happens as a whole or not at all.

This file is longer than others, since it is one state machine: what `next`, `iter` and
`load_state_dict` do to the same dozen attributes has to be read together.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from .._runtime import Runtime
from ..config import LoaderConfig
from ..engine import ENDED, Engine, Inline, Outcome, Stream
from ..errors import (
    BusyError,
    ClosedError,
    ConfigError,
    Problem,
    StateError,
)
from ..jobs import BatchInfo, BatchJob, Recipe
from ..order import VERSION, Deal
from ..sources import fingerprint
from ..state import Cursor, dump, load
from ..stats import Meter, Stats, Tally
from ._epochs import Epoch, Epochs
from ._failure import explained
from ._schedule import behind, jobs

__all__ = ["Batches"]


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
        close_source: Callable[[], None] | None,
        runtime: Runtime,
        not_pinned: str = "",
    ) -> None:
        self._config = config
        self._recipe = recipe
        self._deal = deal
        self._length = length
        self._runtime = runtime
        self._engine: Engine | Inline = (
            Engine(config.num_workers, config.close_timeout, runtime)
            if config.num_workers
            else Inline()
        )
        self._close_source = close_source
        self._closed = False
        # Taken by trying, given back by putting a new one in its place: a store, which no
        # interrupt can follow into the delivery before it. Its own thread may take it again,
        # so an interrupt behind the taking shuts nobody out for good.
        self._turn = runtime.turn()
        # All below belong to whoever has the turn. `_cursor` and the meter's tally are
        # immutable and replaced whole, so any thread may read them.
        self._cursor = Cursor()
        self._meter = Meter(config.prefetch_batches if config.num_workers else 0, not_pinned)
        self._info: BatchInfo | None = None
        self._live: weakref.ref[Epoch] | None = None
        self._begun = -1  # the epoch that the last iterator began, if the cursor is in it
        self._left = 0  # steps that are left of it
        self._stream: Stream | Inline | None = None
        self._taken = 0  # results taken from the stream
        self._end: int | None = None  # the epoch before which the stream's jobs end
        self._failed: Cursor | None = None  # where the run stands behind a failed batch
        self._run: dict[str, Any] = {}  # what the run is, for states; made when first needed

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
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 0):
            raise ConfigError(Problem("epochs(n)", "an integer >= 0 or None", repr(n)))
        return Epochs(self, self._config.num_epochs if n is None else n)

    @property
    def info(self) -> BatchInfo | None:
        """What the batch delivered last is; None before the first."""
        return self._info

    def stats(self) -> Stats:
        """Give the numbers of the run up to now; after the ``with``, up to its end."""
        return self._meter.stats(self._runtime.monotonic())

    def state_dict(self) -> dict[str, Any]:
        """Give the state: what was delivered up to now, as plain JSON values.

        After an exception it stands before the failed batch until `next` is called again.
        """
        return dump(self._cursor, self._identity(), self._world(), self._deal.shard_index)

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
            self._check_open()
            if self._live is not None and self._live() is not None:
                raise BusyError(
                    "load_state_dict while an iterator is live: load before the loop, "
                    "or let the iterator end first"
                )
            shard = self._deal.shard_index
            cursor = load(state, self._identity(), self._world(), shard)
            if cursor.position > self._length:
                raise StateError(
                    f"the state is damaged: world.position: expected at most {self._length}, "
                    f"the length of the source, got {cursor.position}"
                )
            stream = self._stream
            self._cursor, self._begun, self._failed = cursor, -1, None
            self._live = self._stream = None
            if stream is not None:
                stream.cancel()
        finally:
            self._turn = fresh

    def close(self) -> None:
        """End the threads and close the source, if it is ours. Leaving the ``with`` does it.

        Harmless a second time and in any thread; an iterator that waits in another thread
        raises `ClosedError`.
        """
        self._closed = True
        if self._meter.ended is None:
            self._meter.ended = self._runtime.monotonic()
        try:
            self._engine.stop()
            # Whoever is inside `next` still uses the line, and will find the engine stopped.
            if self._turn.acquire(blocking=False):
                if self._stream is not None:
                    self._stream.cancel()
                self._turn.release()
        finally:
            close, self._close_source = self._close_source, None
            if close is not None:
                close()

    def _take_turn(self) -> Any:
        """Take the turn; give the lock to put in its place when leaving."""
        fresh = self._runtime.turn()
        if not self._turn.acquire(blocking=False):
            raise BusyError(
                "another thread is using these batches; they serve one at a time: "
                "put a lock around next(), or give each thread a Loader with its own shard"
            )
        return fresh

    def _check_open(self) -> None:
        if self._closed or not self._engine.usable:
            raise ClosedError(
                "the batches are closed: the `with Loader(...)` block was left, or the process "
                "is a fork of the one that entered it; iterate inside the block"
            )

    def _identity(self) -> dict[str, Any]:
        """What the run is: what must be the same for a state to fit."""
        if not self._run:
            self._run = {
                "source": fingerprint(self._recipe.source),
                "seed": self._config.seed,
                "shuffle": self._config.shuffle,
                "order": VERSION,
            }
        return self._run

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
            self._check_open()
            cursor, ahead = self._cursor, self._failed is not None
            if cursor.epoch == self._begun:
                cursor = cursor._replace(epoch=cursor.epoch + 1, position=0, step=0)
            if stop and end is not None and cursor.epoch >= end:
                return None
            before = self._stream
            if (
                before is not None
                and self._left == ahead  # all of the last epoch is taken, but for a failed batch
                and cursor.epoch == self._begun + 1
                and (end is None or cursor.epoch < end)
                and end == self._end
            ):
                stream, taken = before, self._taken + ahead
            else:
                stream, taken = self._open_stream(cursor, end), 0
            epoch = Epoch(self, cursor.epoch)
            live = weakref.ref(epoch)
            left = self._deal.steps(self._length, cursor.position)
            if left:
                stream.prefetch(taken)
            self._cursor, self._begun, self._left = cursor, cursor.epoch, left
            self._stream, self._taken, self._end = stream, taken, end
            self._live, self._failed = live, None
            # Only now: a cancelled stream that an interrupt left in its place would be waited for.
            if before is not None and before is not stream:
                before.cancel()
            return epoch
        finally:
            self._turn = fresh

    def _open_stream(self, cursor: Cursor, end: int | None) -> Stream | Inline:
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
            self._check_open()
            if self._live is None or self._live() is not epoch:
                raise ClosedError(
                    "this iterator was ended by a newer one; "
                    "use the newest that iter(batches) or epochs() gave"
                )
            if self._failed is not None:
                behind, taken, left = self._failed, self._taken + 1, self._left - 1
                self._cursor, self._taken, self._left, self._failed = behind, taken, left, None
            if not self._left:
                self._end_epoch(epoch, called)
            ready, outcome = self._outcome()
            now = self._runtime.monotonic()
            if outcome.error is not None:
                self._raise(outcome, outcome.error, self._meter.waited(called, now, failed=1))
            job: BatchJob = outcome.job
            batch, info, taken, left = outcome.value, job.info, self._taken + 1, self._left - 1
            tally = self._meter.delivered(called, now, job.samples, ready)
            cursor = self._behind(job.after, job.samples)
            # Stores only from here to the return.
            outcome.value = None
            self._cursor, self._info, self._taken, self._left = cursor, info, taken, left
            self._meter.tally = tally
            return batch
        finally:
            self._turn = fresh

    def _end_epoch(self, epoch: Epoch, called: float) -> NoReturn:
        cursor = self._cursor
        # A shard that had a step less than others gets to the next epoch only here.
        if cursor.epoch == epoch.number:
            cursor = cursor._replace(epoch=epoch.number + 1, position=0, step=0)
        tally = self._meter.waited(called, self._runtime.monotonic())
        self._cursor, self._live, self._meter.tally = cursor, None, tally
        epoch._ended = True
        raise StopIteration

    def _outcome(self) -> tuple[int, Outcome]:
        """Count the batches that are ready, and wait for the next outcome."""
        stream = self._stream
        if stream is not None:
            ready = stream.ready(self._taken)
            outcome = stream.result(self._taken)
            if outcome is not ENDED:
                return ready, outcome
        self._check_open()
        # An interrupt or an error inside the iterator of jobs has ended it early: go on from
        # here with a new one.
        stream = self._open_stream(self._cursor, self._end)
        self._stream, self._taken = stream, 0
        outcome = stream.result(0)
        if outcome is ENDED:
            self._check_open()
            raise RuntimeError("the order ended before its epoch did")
        return 0, outcome

    def _behind(self, after: tuple[int, int, int] | None, samples: int | None) -> Cursor:
        """Where the run stands behind the next batch; `samples` is None if it failed."""
        cursor = self._cursor
        if after is None:  # the iterator of jobs failed, and there is no job to say it
            after = behind(self._deal, self._length, cursor, 1)
        if samples is None:
            return Cursor(*after, cursor.batches, cursor.samples)
        return Cursor(*after, cursor.batches + 1, cursor.samples + samples)

    def _raise(self, outcome: Outcome, error: BaseException, tally: Tally) -> NoReturn:
        failed = self._behind(None if outcome.job is None else outcome.job.after, None)
        error = explained(outcome, error)
        try:
            # Stores only up to the raise. Neither the outcome nor this frame may keep the
            # error: its traceback leads back to both.
            outcome.error = None
            self._failed, self._meter.tally = failed, tally
            raise error
        finally:
            del error
