"""What a state of the protocol holds: plain tuples, so that it can be kept and compared."""

from typing import NamedTuple

STOP = -1
"""The word that means stop, in both queues."""

LOOK = -2
"""The word that has the feeder look at what was handed over."""

FAULTS = frozenset({"start", "draw", "part", "finish", "worker", "feeder", "stuck"})
"""What may go wrong: a thread that does not start, the iterator of jobs, a part, a job's finish,
the lines of a worker itself, those of the feeder, and a part that never returns."""

DRAINED = ("fills", "wakes", "sentinels", "gone")
"""Where the feeder takes nothing from its inbox any more."""


class Size(NamedTuple):
    """How large a protocol is.

    Attributes:
        workers, depth: of the engine and its stream.
        parts: how many parts each job has.
        faults: how often something may go wrong.
        closers: threads that stop the engine, each whenever it likes.
        kinds: which faults there may be.
        behind: how many results the consumer asks for behind the one that was the end.
        light: whether the feeder may finish jobs.
    """

    workers: int
    depth: int
    parts: tuple[int, ...]
    faults: int = 1
    closers: int = 1
    kinds: frozenset[str] = FAULTS
    behind: int = 0
    light: bool = False


class Slot(NamedTuple):
    """A job's place in the line.

    Attributes:
        claim: parts that a claim takes; claimed: parts that were claimed.
        hands: workers that may come to it, or are at it.
        singly: whether each of them is to do one part, and there is one for each part.
        by_feeder: whether the feeder may finish the job.
        parts: a letter for each, "-", or begun, done or failed; "!" if it was begun twice.
        failed: the lowest part that failed and was told; None: none.
        outcome: what it was filled with: "value", "ended", "part 0", or the kind of a fault.
        woken: how often the lock was released that the consumer waits for.
    """

    claim: int = 0
    claimed: int = 0
    hands: int = 0
    singly: bool = False
    by_feeder: bool = False
    parts: str = ""
    failed: int | None = None
    outcome: str = ""
    woken: int = 0


class Worker(NamedTuple):
    """Where a worker stands: at a part of those up to `last`, of the job of a slot.

    Attributes:
        late: how many parts it has begun after the stop.
        kind: what it is about to fill the slot with.
    """

    at: str = "idle"
    slot: int = STOP
    part: int = 0
    last: int = 0
    late: int = 0
    kind: str = ""


class Feeder(NamedTuple):
    """Where the feeder stands: at a slot, with so many puts to go.

    Attributes:
        kind: what it is about to fill with.
        job: the slot that it finishes the job of, where a worker has handed it over; at its end
            one that it fills besides.
    """

    at: str = "start"
    slot: int = STOP
    puts: int = 0
    kind: str = ""
    job: int = STOP


class Consumer(NamedTuple):
    """Where the consumer stands: at a result, whose outcome, once taken, is `kind`."""

    at: str = "starting"
    slot: int = 0
    kind: str = ""


class _State(NamedTuple):
    """Everything at one moment.

    Attributes:
        sent: slots that the consumer has sent; received: those that came to the feeder.
        got: numbers of the results that the consumer has taken, as it took them.
        drawn: jobs that were drawn; dry: whether there are none any more after a fault.
        started: "yes", or that a thread did not start; "": not yet known.
        closers: where each stands.
        faults: how many more there may be.
        handed: slots that were handed over to the feeder, and that it has not taken out.
        asking: whether it takes none, as it asks for a job or ends.
    """

    consumer: Consumer
    feeder: Feeder
    workers: tuple[Worker, ...]
    closers: tuple[str, ...]
    slots: tuple[Slot, ...]
    inbox: tuple[int, ...] = ()
    tickets: tuple[int, ...] = ()
    sent: int = 0
    received: int = 0
    got: tuple[int, ...] = ()
    drawn: int = 0
    dry: bool = False
    started: str = ""
    stopping: bool = False
    faults: int = 0
    handed: tuple[int, ...] = ()
    asking: bool = False


PLACES = {name: place for place, name in enumerate(_State._fields)}


class State(_State):
    __doc__ = _State.__doc__
    __slots__ = ()

    def _replace(self, **changes):
        # As that of a named tuple, and twice as fast: most of the time goes into it.
        items = list(self)
        for name, item in changes.items():
            items[PLACES[name]] = item
        return tuple.__new__(State, items)


def put(items, at, item):
    """Give a tuple with one item replaced."""
    return (*items[:at], item, *items[at + 1 :])
