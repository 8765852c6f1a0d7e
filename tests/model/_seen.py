"""What the engine does on a simulated schedule, told as steps of the protocol.

Each is noted at the moment at which the others could see it: under the lock, or between two
scheduling points. So slots, queues and what the threads share are replaced by their like, which
note what is done to them.
"""

import contextlib
from collections import deque
from unittest.mock import patch

import sim._engine
from sim._engine import Play
from sim._jobs import FINISH, OUT_OF_MEMORY, Watch

from threadloader.engine import ENDED, _engine, _shared, _slots, _stream

from ._state import LOOK, STOP


def kind(outcome):
    """Name what a slot was filled with, as the protocol does."""
    if outcome is ENDED:
        return "ended"
    if outcome.error is None:
        # The feeder's own error fills all slots; whoever takes one empties it for the others.
        return "feeder" if outcome.value is None else "value"
    if outcome.error.args == (OUT_OF_MEMORY,):
        return "feeder"
    part = outcome.error.args[1]
    return {None: "draw", FINISH: "finish"}.get(part, f"part {part}")


class SeenQueue:
    """A queue of slots: `on_put` and `on_get` note the number, or that it is a stop."""

    def __init__(self, queue, on_put, on_get):
        self._queue = queue
        self._on_put = on_put
        self._on_get = on_get

    def put(self, item):
        self._queue.put(item)
        self._note(self._on_put, item)

    def put_all(self, items):
        self._queue.put_all(items)
        for item in items:
            self._note(self._on_put, item)

    def take(self):
        return self._note(self._on_get, self._queue.take())

    def get(self):
        return self._note(self._on_get, self._queue.get())

    def get_nowait(self):
        return self._note(self._on_get, self._queue.get_nowait())

    def _note(self, note, item):
        note(getattr(item, "number", STOP if item is _shared.STOP else LOOK))
        return item


class SeenDeque(deque):
    """What was handed over; a worker appends and removes, the feeder takes."""

    def __init__(self, note, me):
        self._note, self._me = note, me
        super().__init__()

    def append(self, slot):
        super().append(slot)
        self._note("hand", number_of(self._me()), slot.number)

    def remove(self, slot):
        super().remove(slot)
        self._note("back", number_of(self._me()), slot.number)

    def popleft(self):
        slot = super().popleft()
        self._note("pick", slot.number)
        return slot


def number_of(thread):
    """Give a worker's number, or the name of another thread of ours."""
    name = thread.rpartition("-")[2]
    return int(name) if name.isdigit() else name


class SeenShared(_shared.Shared):
    def __init__(self, runtime, *args):
        self.note, self.me = runtime.note, runtime.me
        super().__init__(runtime, *args)
        self.inbox = SeenQueue(self.inbox, self._sent, self._fed)
        self.tickets = SeenQueue(self.tickets, self._dealt, self._got)
        self.handed = SeenDeque(self.note, self.me)

    @property
    def stopping(self):
        return self._stopping

    @stopping.setter
    def stopping(self, value):
        if value and not self._stopping:
            self.note("flag")
        self._stopping = value

    @property
    def asking(self):
        return self._asking

    @asking.setter
    def asking(self, value):
        if value or self._asking:  # not as it is made
            self.note("asks", value)
        self._asking = value

    def _sent(self, number):
        words = {STOP: ("tell",), LOOK: ("nudge",)}
        self.note(*words.get(number, ("send", number)))

    def _fed(self, number):
        self.note("feed", number)

    def _dealt(self, number):
        self.note("sentinel") if number == STOP else self.note("deal", number)

    def _got(self, number):
        worker = number_of(self.me())
        self.note("gone", worker) if number == STOP else self.note("get", worker, number)


class SeenSlot(_slots.Slot):
    __slots__ = ()

    def note(self, what, *more):
        runtime = self._runtime
        runtime.note(what, number_of(runtime.me()), self.number, *more)

    @property
    def outcome(self):
        return _slots.Slot.outcome.__get__(self)

    @outcome.setter
    def outcome(self, outcome):
        _slots.Slot.outcome.__set__(self, outcome)
        if outcome is not None:
            self._runtime.fillers[self.number] = self._runtime.me()
            self._runtime.note("fill", self.number, kind(outcome))

    @property
    def _claimed(self):
        return _slots.Slot._claimed.__get__(self)

    @_claimed.setter
    def _claimed(self, last):
        _slots.Slot._claimed.__set__(self, last)
        if last:
            self.note("claim", last)

    def fill(self, outcome):
        super().fill(outcome)
        runtime = self._runtime
        if runtime.fillers.get(self.number) == runtime.me():
            del runtime.fillers[self.number]
            runtime.note("wake", self.number)

    def unwanted(self, worker):
        stopped = super().unwanted(worker)
        self.note("look", stopped)
        return stopped

    @property
    def _failed(self):
        failed = _slots.Slot._failed.__get__(self)
        part = self._runtime.failing.get(self._runtime.me())
        if failed is not None and part is not None and part >= failed[0]:
            self._fails()  # and it is not written down
        return failed

    @_failed.setter
    def _failed(self, failed):
        _slots.Slot._failed.__set__(self, failed)
        if failed is not None:
            self._fails()

    def _fails(self):
        """Note it under the guard: behind it others may look, or the slot is filled."""
        part = self._runtime.failing.pop(self._runtime.me(), None)
        if part is not None:  # else it is noted, and a planted bug writes it down all the same
            self.note("fail", part if part >= 0 else None)

    def fail(self, worker, error):
        self._runtime.failing[self._runtime.me()] = -1 if worker.part is None else worker.part
        super().fail(worker, error)

    def leave(self, worker, seconds):
        last = super().leave(worker, seconds)
        self.note("leave")
        return last


class SeenEngine(_engine.Engine):
    def stop(self):
        ended = super().stop()
        if ended:
            self._runtime.note("closed")
        return ended


class SeenStream(_stream.Stream):
    def result(self, number):
        outcome = super().result(number)
        self._shared.note("result", number, kind(outcome))
        return outcome


class SeenWatch(Watch):
    def _job(self, number, size):
        self.sim.note("draw", number)
        return super()._job(number, size)

    def begin(self, number, part):
        self.sim.note("begin", number_of(self.sim.me()), number, part)
        super().begin(number, part)

    def finish(self, number, results):
        self.sim.note("finish", number_of(self.sim.me()), number)
        super().finish(number, results)


class SeenPlay(Play):
    def watch(self, plan=None, inside=None):
        watch = SeenWatch(self.sim, plan or self.plan, self.depth, self.usable, inside)
        self._watches.append(watch)
        return watch


class Seen:
    """A scenario that notes what is done, as a program of the simulation.

    Attributes:
        events: labels of the protocol's steps, in their order; of the last run.
    """

    def __init__(self, scenario):
        self.scenario = scenario
        self.every, self.traced = scenario.every, scenario.traced
        self.events = []

    def __str__(self):
        return str(self.scenario)

    def __call__(self, runtime):
        self.events = []
        runtime.fillers = {}  # by number: who has filled a slot, and wakes the consumer next
        runtime.failing = {}  # by worker: the part that has failed, until that is noted
        runtime.note = lambda *label: self.events.append(label)
        self.scenario(runtime, SeenPlay)


@contextlib.contextmanager
def watched():
    """Let engines be made of what notes what is done to it, on a runtime with a `note`."""
    with (
        patch.object(sim._engine, "Engine", SeenEngine),
        patch.object(_stream, "Slot", SeenSlot),
        patch.object(_engine, "Shared", SeenShared),
        patch.object(_engine, "Stream", SeenStream),
        patch.object(SeenShared, "_stopping", False, create=True),
        patch.object(SeenShared, "_asking", False, create=True),
    ):
        yield
