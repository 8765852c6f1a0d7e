"""The iterators: `Epoch` over the batches of one epoch, `Epochs` over the epochs of a run.

`Live` is what they have in common with `Batches`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import log
from ._skip_steps import MOST_EMPTY

if TYPE_CHECKING:
    import weakref

    from ._run import Run

__all__ = ["Epoch", "Epochs", "Live"]


class Live:
    """Base of what stands for threads and open files, and so cannot be copied."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled.

        Raises:
            TypeError: always, with what to do instead.
        """
        raise TypeError(
            f"{type(self).__name__!r} object is live: it can be neither copied nor pickled; copy "
            "or pickle the Loader, and enter that where it is wanted (with loader as batches: ...)"
        )


class Epoch(Live):
    """One pass over one epoch: an iterator of its batches."""

    __slots__ = ("__weakref__", "_ended", "_number", "_run")

    def __init__(self, run: Run, number: int) -> None:
        self._number = number
        self._run = run
        self._ended = False  # set to True, once, by the thread that has the turn

    @property
    def number(self) -> int:
        """Number of the epoch, from 0."""
        return self._number

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        """Give the next batch.

        Raises:
            StopIteration: the epoch is over; again on every further call.
            ClosedError: a newer iterator has taken its place, or the ``with`` was left.
            BusyError: another thread is inside `next`, or the calling thread is the loader's own.
            WorkerError: user code raised what would be taken for an end; or a thread of the
                loader's own has failed.
            StalledError: nothing moves, and the config asks for that; the next call waits on.
            ConfigError: a callable sampler gave what is no index of a sample.
            StateError: after a resume it gave fewer than were delivered already.
            OSError: the quarantine file cannot be written.
            Exception: whatever the source, transform or collate raised, with a note of
                sample, epoch and step. The next call goes on with the batch after it. What a
                sampler raised, with its epoch; the next call asks it again.
        """
        return self._run.next(self)

    def close(self) -> None:
        """End the iterator: no more batches of it are delivered, as of one that was asked and left.

        Then `load_state_dict` is allowed, and the next iterator begins the next epoch, also where
        this one was never asked.
        Harmless where the epoch is over, or a newer iterator has taken its place.

        Raises:
            BusyError: another thread is inside `next`, or the calling thread is the loader's own.
            ClosedError: the loader was closed while another thread is inside `next`.
        """
        self._run.end(self)


class Epochs(Live):
    """The epochs of a run, one after the other: an iterator of `Epoch`."""

    __slots__ = ("_delivered", "_empty", "_end", "_given", "_over", "_run", "_told")

    def __init__(self, run: Run, end: int | None) -> None:
        self._run = run
        self._end = end
        # The consumer's alone: how many batches were delivered before the last call, and how many
        # epochs in a row have had none.
        self._delivered, self._empty = -1, 0
        self._over = False  # goes to True, once, by the consumer
        # The epoch given last, which the consumer alone keeps alive: the consumer's, too.
        self._given: weakref.ref[Epoch] | None = None
        self._told = False  # whether the log says that another iterator ended one; likewise

    def __iter__(self) -> Epochs:
        return self

    def __next__(self) -> Epoch:
        """Begin the next epoch; what is left of the one before is not delivered.

        Raises:
            StopIteration: there is none; again on every further call.
            ClosedError, BusyError, WorkerError: as `iter` raises them.
        """
        self._tell_of_newer()
        if self._end is None:
            self._tell_of_none()
        epoch = None if self._over else self._run.begin(self._end, stop=True)
        if epoch is None:
            self._over = True
            raise StopIteration
        # No call behind `begin`: a Ctrl-C there would lose the epoch.
        self._given = self._run.results.place.live
        return epoch

    def _tell_of_newer(self) -> None:
        """Log, once, that another iterator ended the epoch given last: a loop over `batches`, say.

        Such a loop inside of that over the epochs would train on every second epoch alone.
        """
        given = None if self._given is None else self._given()
        live = self._run.place.live
        if given is None or given._ended or (live is not None and live() is given) or self._told:
            return
        self._told = True
        log(
            "warning",
            "epoch %d that epochs() gave was ended by a newer iterator, of an epoch of its own; "
            "inside such a loop write: for batch in epoch",
            given.number,
        )

    def _tell_of_none(self) -> None:
        """Log that epochs without an end give no batch any more: once for each row of such."""
        delivered = self._run.place.tally.batches
        self._empty = self._empty + 1 if delivered == self._delivered else 0
        self._delivered = delivered
        if self._empty == MOST_EMPTY:
            log(
                "warning",
                "epochs without an end, and none of the last %d gave a batch; see whether the "
                "sampler gives indices in every epoch, and whether all samples fail (on_error)",
                MOST_EMPTY,
            )
