"""The feeder of the protocol: starts the workers, deals jobs, ends all."""

from ._state import STOP, Feeder, Slot, Worker, put


class Feeding:
    """The steps of the feeder."""

    def feeder(self, s):
        at, n, puts, kind = s.feeder
        if at == "start":
            yield from self.start(s)
        elif at == "get":
            if s.inbox:
                yield self.receive(s, Feeder("look", s.inbox[0]), Feeder("end", kind="ended"))
        elif at == "look":  # the word to end lies behind the slots that were sent before it
            on = Feeder("fill", n, kind="ended") if s.stopping else Feeder("draw", n)
            yield ("looks",), s._replace(feeder=on)
        elif at == "draw":
            yield from self.draw(s, n)
        elif at == "put":
            on = Feeder("put", n, puts - 1) if puts > 1 else Feeder("get")
            yield ("deal", n), s._replace(tickets=(*s.tickets, n), feeder=on)
            yield from self.fault(s, "feeder", s._replace(feeder=Feeder("end", kind="feeder")))
        elif at == "fill":
            yield ("fill", n, kind), self.fill(s, n, kind)._replace(feeder=Feeder("wake", n))
        elif at == "wake":
            yield ("wake", n), self.wake(s, n)._replace(feeder=Feeder("get"))
        else:
            yield from self.ending(s, at, n, puts, kind)

    def receive(self, s, on, on_stop):
        item, rest = s.inbox[0], s.inbox[1:]
        if item == STOP:
            return ("feed", STOP), s._replace(inbox=rest, feeder=on_stop)
        return ("feed", item), s._replace(inbox=rest, feeder=on, received=item + 1)

    def start(self, s):
        if len(s.workers) < self.size.workers:
            yield ("start",), s._replace(workers=(*s.workers, Worker()))
            none = Feeder("end", kind="ended")
            yield from self.fault(s, "start", s._replace(started="fault", feeder=none))
        else:
            yield ("started",), s._replace(started="yes", feeder=Feeder("get"))

    def draw(self, s, n):
        if s.dry or n >= self.jobs:
            yield ("fill", n, "ended"), self.fill(s, n, "ended")._replace(feeder=Feeder("wake", n))
            return
        dry = s._replace(dry=True, feeder=Feeder("fill", n, kind="draw"))
        yield from self.fault(s, "draw", dry)
        parts = self.size.parts[n]
        for claim in range(1, parts + 1):  # as costs tell: any
            hands = min(self.size.workers, -(-parts // claim))
            slot = Slot(claim, hands=hands, singly=hands == parts, parts="-" * parts)
            slots = put(s.slots, n, slot)
            on = Feeder("put", n, hands)
            yield ("draw", n), s._replace(slots=slots, drawn=s.drawn + 1, feeder=on)

    def ending(self, s, at, n, puts, kind):
        if at == "end":
            label = ("ends",) if s.stopping else ("flag",)
            yield label, s._replace(stopping=True, feeder=Feeder("drain", kind=kind))
        elif at == "drain":
            if s.inbox:
                yield self.receive(s, s.feeder, s.feeder)
            else:
                on = Feeder("fills", self.unfilled(s, 0), kind=kind)
                yield ("drained",), s._replace(feeder=on)
        elif at == "fills":
            if n >= s.received:
                on = Feeder("sentinels", puts=self.sentinels(s))
                yield ("filled",), s._replace(feeder=on)
            elif s.slots[n].outcome:  # a worker was faster
                yield ("passes", n), s._replace(feeder=s.feeder._replace(slot=n + 1))
            else:
                on = Feeder("wakes", n, kind=kind)
                yield ("fill", n, kind), self.fill(s, n, kind)._replace(feeder=on)
        elif at == "wakes":
            on = Feeder("fills", self.unfilled(s, n + 1), kind=kind)
            yield ("wake", n), self.wake(s, n)._replace(feeder=on)
        elif at == "sentinels":
            if puts:
                on = Feeder("sentinels", puts=puts - 1)
                yield ("sentinel",), s._replace(tickets=(*s.tickets, STOP), feeder=on)
            elif self.joined(s):
                yield ("joined",), s._replace(feeder=Feeder("gone"))

    def unfilled(self, s, n):
        while n < s.received and s.slots[n].outcome:
            n += 1
        return n

    def sentinels(self, s):
        """How many words that it is over are put on the queue of the workers."""
        return len(s.workers)

    def joined(self, s):
        """Whether the feeder need not wait for a worker any more."""
        return all(worker.at in ("gone", "stuck") for worker in s.workers)
