"""What is counted while a run goes on."""

from _thread import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ._stats import Stats

__all__ = ["Tally", "Told"]


class Tally(NamedTuple):
    """What is counted in a run. Its methods give the next one; it is replaced whole.

    Attributes:
        started: when the first `next` was called, by the clock, in seconds; None before.
        failed: batches that failed.
        ready_sum: how many batches were ready at each, added up.

    The others are as in `Stats`.
    """

    started: float | None = None
    first_batch_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    batches: int = 0
    samples: int = 0
    failed: int = 0
    ready_sum: int = 0
    prepared_here: int = 0
    skipped: int = 0
    retried: int = 0

    def waited(self, called: float, now: float, failed: int = 0) -> "Tally":
        """Count a `next`: when it was called, and when it had what it waited for.

        What comes before the first batch, errors too, belongs to the time of the first.
        """
        # Written out, as in `plus`: _replace takes five times as long, and this is every `next`.
        began, first, wait, batches, samples, failures, *rest = self
        started = called if began is None else began
        if batches:
            wait += now - called
        else:
            first = now - started
        return Tally(started, first, wait, batches, samples, failures + failed, *rest)

    def plus(
        self, batches: int, samples: int, ready: int, here: int = 0, waited: float = 0.0
    ) -> "Tally":
        """Count batches.

        Args:
            batches: how many.
            samples: their samples, without padding.
            ready: how many were ready at each, added up.
            here: how many the consumer has prepared itself.
            waited: seconds that were waited for them beyond what `waited` has counted.
        """
        started, first, wait, before, counted, failed, ready_sum, prepared, *rest = self
        return Tally(
            started,
            first,
            wait + waited,
            before + batches,
            counted + samples,
            failed,
            ready_sum + ready,
            prepared + here,
            *rest,
        )

    def tried(self, skipped: int, retried: int) -> "Tally":
        """Count samples that failed: those left out, and how often one was tried again."""
        return self._replace(skipped=self.skipped + skipped, retried=self.retried + retried)

    def stats(self, now: float, **known: Any) -> "Stats":
        """Give the snapshot at the time `now`; `known` has further attributes of `Stats`."""
        from ._stats import Stats  # imported when it is asked for

        counted = self._asdict()
        started = counted.pop("started")
        elapsed = 0.0 if started is None else max(0.0, now - started)
        if not self.batches:
            counted["first_batch_seconds"] = 0.0
        return Stats(**counted, elapsed_seconds=elapsed, **known)


class Told:
    """The most that was told of a number that grows: what was told once is never taken back.

    It has no lock, which a fork could leave held. Any thread may ask.
    """

    def __init__(self) -> None:
        self._most: dict[int, float] = {}  # by thread; each thread writes its own entry

    def most(self, number: float) -> float:
        """Give the most of a number and of all that was told before."""
        told, me = self._most, get_ident()
        told.setdefault(me, 0.0)
        number = max(number, *told.copy().values())
        if number > told[me]:  # no call from here to the store: a signal's handler may tell more
            told[me] = number
        return told[me]
