"""`Batches`: a run of batches, epoch after epoch, in the consumer's hands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from .._runtime import Runtime
from ..config import LoaderConfig
from ..errors import from_signal, log
from ..jobs import Recipe
from ..order import Deal
from ..state import Cursor, dump, load
from ..stats import Told
from ._arguments import count_of
from ._epochs import Epoch, Epochs, Live
from ._open_runs import follow
from ._run import Run
from ._sampling import NO_BATCH, Samplings
from ._schedule import Plan
from ._skip_steps import after_steps
from ._skipping import Skipping
from ._supply import Supply

if TYPE_CHECKING:
    from ..jobs import BatchInfo
    from ..stats import Stats

__all__ = ["Batches"]


class Batches(Live):
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
        not_pinned: str,
        cache_stats: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._config, self._recipe, self._deal = config, recipe, deal
        self._samplings, self._identity, self._runtime = samplings, identity, runtime
        self._not_pinned, self._cache_stats = not_pinned, cache_stats
        length = samplings.now.sampler.length
        steps = None if length is None else deal.steps(length)  # else it is a callable
        self._has_none = steps == 0  # no step in any epoch but one that a state has begun
        self._supply = Supply(config, recipe, deal, runtime, steps)
        # Closes the source, if it is ours; None once that is done, by the holder of `_closing`.
        self._close_source, self._closing = close_source, runtime.turn()
        self._at_source, self._cuts = False, 0  # whether it is at that, how often cut; likewise
        self._closed_at: float | None = None  # written by the thread that closes first
        self._ended = False  # whether nothing is left for a close; by a thread that closes
        self._waited = Told()  # the most seconds of waiting that any call of `stats` has told
        self._counted_to = Told()  # likewise the latest time up to which one has counted
        from ..state import read, save  # now: hours later, maybe no file can be opened

        # Threads that save take turns: else the older of two states might be written last.
        self._read, self._write, self._saving = read, save, runtime.turn()
        self._saved = False  # goes to True with the first `save`; written under that lock
        self._run = Run(self._supply, skipping, runtime, Plan(samplings.now))
        follow(self)

    def __len__(self) -> int:
        """Count the steps of a whole epoch on this shard.

        Counts the live epoch, or else the next; after the last of `num_epochs`, or of a loop that
        went further, that one. With a callable sampler it waits until that was asked for the epoch.

        Raises:
            ClosedError: it has to wait, and the ``with`` was left.
            BusyError: it has to wait; another thread is inside `next`, or this is the loader's own.
            StalledError: it waits in vain, and the config asks for that.
            Exception: what the sampler raises, or a ConfigError of what it gives; asked again.
        """
        place, end = self._run.place, self._config.num_epochs
        length = place.plan.of(place.counted(end)).sampler.length
        if length is None and place.is_live:
            length = place.length
        if length is None:
            length = self._run.asked_length(end)
        return self._deal.steps(length)

    def __iter__(self) -> Epoch:
        """Begin the next epoch; after `load_state_dict`, go on with the interrupted one.

        A live iterator is ended: its remaining batches are not delivered.

        Raises:
            ClosedError: the ``with`` was left.
            BusyError: another thread is inside `next`, or the calling thread is the loader's own.
            WorkerError: a thread of the loader's own has failed.
        """
        return cast("Epoch", self._run.begin(self._config.num_epochs))  # None only with `stop`

    def epochs(self, n: int | None = None) -> Epochs:
        """Give the epochs of the run, up to the n-th.

        A resumed run goes on counting: it finishes the same n epochs, and begins with what
        is left of the one it was in.

        Args:
            n: how many epochs the run has; without it, `num_epochs` of the config decides;
                without either, it never ends.

        Raises:
            ConfigError: n is not an integer >= 0.
        """
        end = self._config.num_epochs
        if n is not None:
            end = count_of("epochs(n)", n, "an integer >= 0 or None")
        if end is None and self._has_none:
            after = " behind the one that was begun" if len(self) else ""
            log("warning", "epochs without an end, and without a batch%s: %s", after, NO_BATCH)
        return Epochs(self._run, end)

    @property
    def info(self) -> BatchInfo | Any:  # `Any` for None: a checker has no loop ask for that
        """What the last delivered batch is; None before the first."""
        return self._run.place.info

    def stats(self) -> Stats:
        """Give the numbers of the run so far; after the ``with``, up to its end."""
        # Read first, the rest in this order (see `Run.since`), and the clock again last.
        told, asked = self._waited.most(0.0), self._runtime.monotonic()
        tally, since, closed = (place := self._run.place).tally, self._run.since, self._closed_at
        if since is not None and tally.started is None:  # the first `next` began in between
            tally = (place := self._run.place).tally
        # A close reads the clock a moment before it writes `_closed_at`; another thread may have
        # told of a later time in between.
        now = self._counted_to.most(self._runtime.monotonic() if closed is None else closed)
        if since is not None:  # such a wait may have ended before `now`
            tally = tally.waited(min(since, asked, now), min(asked, now))
        # Just before the loop adds a wait to the tally, this counts a little too much, and between
        # the clearing of `since` and the adding too little: so what was told is never taken back.
        waited = tally.data_wait_seconds
        if closed is not None and tally.started is not None:
            # Without workers a batch is made to its end, and waited for, after the close.
            waited = min(waited, max(0.0, now - tally.started - tally.first_batch_seconds))
        self._waited.most(waited := max(told, waited))
        return tally._replace(data_wait_seconds=waited).stats(
            now,
            prefetch_batches=self._supply.ahead,
            peak_bytes=self._supply.engine.peak_bytes,
            gil_delay_seconds=self._supply.engine.gil_delay,
            switch_interval_shortened=self._supply.shortened,
            not_pinned=self._not_pinned,
            fingerprint=place.cursor.fingerprint if self._config.fingerprint else "",
            **self._cache_stats(),
        )

    def state_dict(self) -> dict[str, Any]:
        """Give the state: what was delivered so far, as plain JSON values.

        After an exception it stands before the failed batch until `next` is called again.
        """
        place = self._run.place
        # An epoch that was not begun will leave out what the config says when it begins.
        sampling = place.plan.of(place.cursor.epoch) if place.cursor.position else place.plan.now
        shard = self._deal.shard_index
        return dump(place.cursor, self._identity, self._world(), shard, sampling.excluded)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, for `resume`; replace the file as a whole or not at all.

        When this returns, it is on the disk; a process killed meanwhile leaves the old file or
        the new one. Either each shard saves its own file, or one shard saves for all; per-shard
        counts are restored on the shard that saved, in a world of the same shape.

        Args:
            path: the file; it is replaced if it exists.

        Raises:
            OSError: the system cannot write it, or what stands there is not a regular file.
            ConfigError: no file can have this name.
        """
        with self._saving:
            self._write(self.state_dict, path, tidy=not self._saved)
            self._saved = True

    def load_state_dict(
        self, state: Mapping[str, Any] | str | PathLike[str], allow: Collection[str] = ()
    ) -> None:
        """Go to where a state stands: the next iterator begins there. No data is read.

        Args:
            state: what `state_dict` gave, perhaps through JSON, or the path of a file that
                `save` wrote. Another batch size or number of shards is fine: the remaining
                positions are dealt anew.
            allow: fields of the state that may differ from this run, as in ``("source",)``;
                `StateError.fields` has their names.

        Raises:
            StateError: it is damaged, or of another run; it names the differing fields.
            BusyError: an iterator is live.
            ClosedError: the ``with`` was left.
            OSError: the file cannot be read.
            ConfigError: no file can have this name, or `allow` names no field.
        """
        if isinstance(state, (str, PathLike)):
            state = self._read(state)
        shard = self._deal.shard_index

        def where() -> tuple[Plan, Cursor]:
            cursor, excluded = load(state, self._identity, self._world(), shard, allow)
            return self._samplings.plan(cursor, excluded), cursor

        self._run.load(where)

    def _skip(self, steps: int) -> None:
        """Leave out steps; before anything is begun."""
        place, end = self._run.place, self._config.num_epochs
        cursor = after_steps(self._deal, place.plan, place.cursor, steps, end)
        self._run.results.place = place._replace(cursor=cursor)

    def close(self) -> None:
        """End the threads and close the source, if it is ours. Leaving the ``with`` does it.

        May be called again and from any thread; an iterator waiting in another thread raises
        `ClosedError`. From a worker it only tells the threads to end, and a later call finishes.
        If another thread closes the source, this call waits for that, up to ``close_timeout``; if
        one makes a batch without workers, up to that from the first such call on. If the calling
        thread does so itself, further up its stack, the close finishes after that batch.

        Raises:
            Exception: whatever the source raises while it is closed.
        """
        self._close()

    def _close(self) -> bool:
        """Do what `close` does; False if it was only begun, and must be finished as it says."""
        # At the program's end Python may have emptied the modules by now: nothing can be called.
        if self._ended or from_signal is None:
            return True
        if self._closed_at is None:
            self._closed_at = self._runtime.monotonic()
        if not self._supply.stop(self._close):
            # Somebody is at work on a job. A worker leaves the rest to the end of the `with`;
            # without workers, whoever is at work comes here after the job, and others wait.
            if self._supply.inside() or self._run.turn.is_mine():
                return False
            self._supply.wait()
            return True
        forgotten = self._run.forget()  # else a later close has to: `next` may not be called again
        self._recipe.free()
        if self._close_source is None:
            self._ended = forgotten
            return True
        if self._closing.acquire(blocking=False):
            try:
                if not self._at_source:  # else a signal's handler, or a finalizer, closes inside
                    self._close_once()
                    self._ended = forgotten
            finally:
                self._closing.release()
        else:  # another thread is closing the source
            self._runtime.wait(self._closing, self._config.close_timeout)
        return True

    def _close_once(self) -> None:
        try:
            self._at_source = True
            # Looked at again: a handler may have closed it on the way from there to here.
            if self._close_source is not None:
                self._close_source()
            self._close_source = None
        except BaseException as problem:
            # A close that was cut short, by an interrupt or for want of memory or stack, may not
            # even have begun: another call does what is left. After a third interrupt none does.
            short = issubclass(type(problem), (MemoryError, RecursionError))
            self._cuts += not short
            if not short and (self._cuts > 2 or not from_signal(problem)):
                self._close_source = None
            raise
        finally:
            self._at_source = False

    def _world(self) -> dict[str, int]:
        return {"batch_size": self._deal.batch_size, "shard_count": self._deal.shard_count}
