"""`Results`: takes the outcomes of a stream in order, and opens a new stream after a failure.

Each stream of results is opened, followed and given up here. The `Place` that follows is stored
before anything is waited for: an interrupt finds either the place from before, with all that its
stream has, or the one that follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..engine import ENDED, Outcome, Stream
from ..jobs import BatchJob, GroupJob, SeriesJob, UncutError
from ._place import Delivery, Onward, Place
from ._schedule import counting
from ._skipping import Skipping
from ._supply import Supply

if TYPE_CHECKING:
    from ..engine import InlineStream

__all__ = ["Results"]


class Results:
    """A run's results, in order. Used by the one thread that has the turn.

    Args:
        supply: opens streams.
        skipping: says how many samples may be left out, and lists them.
        place: where the run begins.

    Attributes:
        place: where the run stands. Replaced whole, by one store of the thread that has the turn;
            any thread may read it.
    """

    def __init__(self, supply: Supply, skipping: Skipping, place: Place) -> None:
        self._supply = supply
        self._skipping = skipping
        self.place = place

    def next(self, place: Place) -> tuple[Place, int, Outcome]:
        """Wait for the next outcome.

        Returns:
            The place, with another stream if a new one had to begin; how many results were
            ready; the outcome.
        """
        if self._supply.misplaced(place.stream):
            place = self.reopen(place, 0)
        if place.stream is not None:
            ready = place.stream.ready(place.taken)
            outcome = place.stream.result(place.taken)
            if outcome is not ENDED and not _failed_together(outcome):
                return place, ready, outcome
        self._supply.check_open()
        # An interrupt or an error inside the iterator of jobs has ended it early, or a group
        # failed: go on from here with a new one, and make a group's batches one by one.
        if place.stream is None or outcome is ENDED:
            place, outcome = self._anew(place, 0)
        elif isinstance(outcome.job, GroupJob):
            place = self.apart(place, uncut=type(outcome.error) is UncutError)
            place, outcome = self._anew(place, outcome.job.piece)
        else:  # the first batch of a series failed, with an error of its own
            place, outcome = self.fail_one(place, outcome.job, 0, outcome.job.first, outcome)
        return place, 0, outcome

    def onward(self, place: Place, delivery: Delivery) -> tuple[Outcome, Onward] | None:
        """Take the batch that lies ready after a delivery, if its job is like that of the last.

        The short way to a batch from the threads: to work out a place after each batch takes longer
        than to take it, so that is put off until somebody asks, or another kind of outcome comes.

        Args:
            place: where the run stood before the delivery.
            delivery: all of it was delivered.

        Returns:
            The outcome, and the sums of the batches taken since the delivery, with this one; None
            where it has to be taken in the usual way.
        """
        supply, onward, stream = self._supply, delivery.onward, place.stream
        job = delivery.job if onward is None else onward.job
        if not isinstance(stream, Stream) or not isinstance(job, BatchJob) or job.span.last:
            return None
        if delivery.lost or not supply.adds_up or supply.may_shorten:
            return None
        batches, samples, counted, waited, _ = onward or (0, 0, 0, 0.0, job)
        ready = stream.ready(place.taken + batches)
        if not ready:
            return None
        called = supply.now()
        outcome = stream.result(place.taken + batches)
        if outcome.error is not None or not isinstance(outcome.job, BatchJob):
            return None
        now, job = supply.now(), outcome.job
        supply.note(stream, outcome, place.tally, called, now, 0.0)
        samples, waited = samples + job.samples(1), waited + now - called
        return outcome, Onward(batches + 1, samples, counted + ready, waited, job)

    def coming(self, place: Place, end: int | None) -> tuple[Place, Outcome]:
        """Wait for the first outcome of the epoch that comes next, while none is live.

        When the run is over, only the length of its last epoch is found.

        Returns:
            The place, and the outcome; that is `ENDED` if the length was known already.
        """
        cursor, epoch = place.next_cursor(), place.counted(end)
        if epoch < cursor.epoch:
            return self._length_of_last(place, epoch)
        outcome, stream = ENDED, place.stream
        if place.over and stream is not None and not self._supply.misplaced(stream):
            outcome = stream.result(place.taken)
            if outcome is ENDED:
                self._supply.check_open()
        # The stream may end sooner than the run: at the end of `epochs(n)`.
        if outcome is ENDED:
            if stream is not None:
                stream.cancel()
            if end is not None and place.end is not None:  # a loop that went further
                end = max(end, place.end)
            stream = self._supply.open(place.plan, cursor, end)
            # The place says that the epoch before has ended here, so that the next iterator takes
            # this stream. What was delivered stays as it is.
            place = self.place = place._replace(
                begun=cursor.epoch - 1, over=True, stream=stream, taken=0, end=end
            )
            outcome = stream.result(0)
        return place, outcome

    def _length_of_last(self, place: Place, epoch: int) -> tuple[Place, Outcome]:
        """Wait for the length of the run's last epoch, of which nothing is prepared any more."""
        if place.length is not None:
            return place, ENDED
        if place.stream is not None:  # as in `Run.begin`
            place.stream.cancel()
        outcome = self._supply.engine.stream(counting(place.plan, epoch), 1).result(0)
        if outcome is ENDED:
            self._supply.check_open()
        if outcome.error is None:
            place = self.place = place._replace(length=outcome.job.span.length)
        return place, outcome

    def left_out(self, place: Place, outcome: Outcome) -> tuple[Place, Outcome]:
        """Write down what was left out of a batch; above the budget, have it made anew, strictly.

        Returns:
            The place, and the outcome to go on with: above the budget an error, unless the
            samples that failed are good this time.
        """
        failures = outcome.job.failures
        if place.cursor.skipped + len(failures) > self._skipping.budget:
            place = place._replace(tally=place.tally.tried(0, outcome.job.retried))
            return self._anew(place, 1, strict=True)
        if outcome.error is None:  # else the batch that they were left out of is not delivered
            self._skipping.note(failures)
        return place, outcome

    def fail_one(
        self, place: Place, series: SeriesJob, number: int, job: BatchJob, outcome: Outcome
    ) -> tuple[Place, Outcome]:
        """Go on with the error of one batch of a series, and then with the rest of the series.

        Nothing is drawn from the stream up to the one store: an interrupt finds the place from
        before, with all that the stream has, or the one that follows.

        Args:
            place: where the run stands, before that batch.
            series: the series.
            number: which of its batches it is.
            job: the job of that batch.
            outcome: what that came to.

        Returns:
            The place, whose stream begins with the failure; and the failed outcome, of `job`.
        """
        job.span = series.span.one(number)
        failed = Outcome(job, None, outcome.error, outcome.part, outcome.seconds)
        before = cast("InlineStream", place.stream)
        stream = before.going_on(failed, series.rest(number + 1))
        self.place = place._replace(stream=stream, taken=0)
        # Frames of the error's traceback hold the place from before, and so this outcome.
        outcome.error = None
        return self.place, failed

    def apart(self, place: Place, *, uncut: bool) -> Place:
        """Write down that batches which could not be made together have to be made one by one.

        `uncut` says that they were made together, and could not be cut.
        """
        if uncut:  # no sample has failed, and the next groups could not be cut either
            self._supply.no_groups("what the source's take gives cannot be cut")
            return place
        # One by one all may be good, where storage fails now and then: only this count shows it.
        return place._replace(tally=place.tally.tried(0, 1))

    def _anew(self, place: Place, singly: int, *, strict: bool = False) -> tuple[Place, Outcome]:
        """Go on with a new stream from where the run stands, and wait for its first outcome.

        Args:
            place: where that is; it is replaced before anything is waited for.
            singly: as many batches are made one by one, and none in a group.
            strict: a failing sample of the first batch is raised and not left out.
        """
        place = self.reopen(place, singly, strict=strict)
        outcome = cast("Stream | InlineStream", place.stream).result(0)
        if outcome is ENDED:  # pragma: no cover - another thread closes meanwhile
            self._supply.check_open()
            raise RuntimeError("the order ended before its epoch did")
        return place, outcome

    def reopen(self, place: Place, singly: int, *, strict: bool = False) -> Place:
        """Put a new stream in place, as `_anew`, and give the place; wait for nothing."""
        if place.stream is not None:
            place.stream.cancel()
        self._supply.forget()  # batches of the last job come again
        stream = self._supply.open(place.plan, place.cursor, place.end, singly, strict=strict)
        self.place = place._replace(stream=stream, taken=0)
        return self.place


def _failed_together(outcome: Outcome) -> bool:
    """Tell whether a job of several batches failed, some of which may be good."""
    return outcome.error is not None and isinstance(outcome.job, (GroupJob, SeriesJob))
