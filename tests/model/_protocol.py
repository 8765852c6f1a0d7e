"""The engine's protocol as a state machine, written from its guarantees and its design.

Each thread does one *step* at a time. A step is told by a label, a tuple whose first word says
what is done. What changes nothing that another thread could see goes with the step behind it.

Not in it: a bound in bytes (G12), `cancel` and `wind_down`, the watch, interrupts, and time. A
join waits as long as it takes, and passes over a worker that is stuck: so the bound of a stop
is seen without a clock.
"""

from ._feeder import Feeding
from ._state import STOP, Consumer, Feeder, Slot, State, put
from ._worker import Working


class Protocol(Feeding, Working):
    """The state machine of one `Size`. A mistake is planted by replacing a method."""

    def __init__(self, size):
        self.size = size
        self.jobs = len(size.parts)

    def first(self):
        """Give the state in which the feeder runs, and no worker yet."""
        size = self.size
        return State(
            Consumer(),
            Feeder(),
            (),
            ("out",) * size.closers,
            (Slot(),) * (self.jobs + size.behind + size.depth + 2),
            faults=size.faults,
        )

    def steps(self, state):
        """List (label, next state) of all that can be done."""
        found = [*self.consumer(state), *self.feeder(state)]
        for number, worker in enumerate(state.workers):
            found += self.worker(state, number, worker)
        for number, at in enumerate(state.closers):
            found += self.closer(state, number, at)
        return found

    # The consumer. Slots are sent before it looks at the flag: a stop behind the look finds them.

    def consumer(self, s):
        at, n, kind = s.consumer
        if at == "starting":
            if s.started:
                on = Consumer("ask" if s.started == "yes" else "over")
                yield ("begins",), s._replace(consumer=on)
        elif at == "ask":
            if s.sent < n + self.size.depth:
                yield self.send(s)
            elif s.stopping:
                yield ("result", n, "ended"), s._replace(consumer=Consumer("over", n))
            else:
                yield ("looks",), s._replace(consumer=Consumer("look", n))
        elif at == "look":
            if s.slots[n].outcome:
                yield self.take(s, n)
            else:
                yield ("waits",), s._replace(consumer=Consumer("asleep", n))
        elif at == "asleep":
            if s.slots[n].woken:
                yield self.take(s, n)
        elif at == "took":
            if s.sent < self.permits(n):
                yield self.send(s)
            else:
                on = Consumer("over", n) if kind == "ended" else Consumer("ask", n + 1)
                yield ("result", n, kind), s._replace(consumer=on)
        if self.size.behind:
            yield from self.again(s, at, n)

    def again(self, s, at, n):
        """What the consumer may ask for besides: the same once more, and what is behind the end."""
        if at == "over" and s.started == "yes":
            yield ("result", n, "ended"), s
            if n < self.jobs + self.size.behind:
                yield ("asks on",), s._replace(consumer=Consumer("ask", n + 1))
        elif at == "ask" and s.stopping and n:
            yield ("result", n - 1, "ended"), s

    def send(self, s):
        return ("send", s.sent), s._replace(inbox=(*s.inbox, s.sent), sent=s.sent + 1)

    def take(self, s, n):
        kind = s.slots[n].outcome
        got = s.got if kind == "ended" else (*s.got, n)
        return ("takes", n), s._replace(consumer=Consumer("took", n, kind), got=got)

    def permits(self, n):
        """How many slots have been sent when result n is given."""
        return n + 1 + self.size.depth

    # A slot is filled once; whoever fills it wakes the consumer in a second step.

    def fill(self, s, n, kind):
        slot = s.slots[n]._replace(outcome=kind, failed=None)
        return s._replace(slots=put(s.slots, n, slot))

    def wake(self, s, n):
        slot = s.slots[n]
        return s._replace(slots=put(s.slots, n, slot._replace(woken=slot.woken + 1)))

    def fault(self, s, kind, after):
        """Give the state after a fault, if there may be one."""
        if s.faults and kind in self.size.kinds:
            yield ("fault", kind), after._replace(faults=s.faults - 1)

    # Whoever closes: sets the flag, tells the feeder, waits for it.

    def closer(self, s, c, at):
        if at == "out" and not s.stopping:
            yield ("flag",), self.stand(s, c, "tell")._replace(stopping=True)
        elif at in ("out", "tell"):
            told = s._replace(inbox=(*s.inbox, STOP))
            yield ("tell",), self.stand(told, c, "waits")
        elif at == "waits" and self.ended(s):
            yield ("closed",), self.stand(s, c, "closed")

    def stand(self, s, c, at):
        return s._replace(closers=tuple(sorted(put(s.closers, c, at))))

    def ended(self, s):
        """Whether a stop may return."""
        return s.feeder.at == "gone"
