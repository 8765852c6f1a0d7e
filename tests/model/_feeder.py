"""The feeder of the protocol: starts the workers, deals jobs, ends all."""

from ._state import LOOK, STOP, Feeder, Slot, Worker, put


class Feeding:
    """The steps of the feeder."""

    def feeder(self, s):
        at, n, puts, kind, _ = s.feeder
        if at == "start":
            yield from self.start(s)
        elif at == "get":
            if s.inbox:
                yield self.receive(s, Feeder("look", s.inbox[0]), Feeder("end", kind="ended"))
        elif at == "look":  # the word to end lies behind the slots that were sent before it
            on = Feeder("fill", n, kind="ended") if s.stopping else Feeder("ask", n)
            yield ("looks",), s._replace(feeder=on)
        elif at == "ask":
            yield ("asks", True), self.asks(s)._replace(feeder=Feeder("handed", n))
        elif at == "draw":
            yield from self.draw(s, n)
        elif at == "asked":
            on = Feeder("fill", n, kind=kind) if kind else Feeder("put", n, puts)
            yield ("asks", False), s._replace(asking=False, feeder=on)
        elif at == "put":
            on = Feeder("put", n, puts - 1) if puts > 1 else Feeder("get")
            yield ("deal", n), s._replace(tickets=(*s.tickets, n), feeder=on)
            yield from self.fault(s, "feeder", s._replace(feeder=Feeder("end", kind="feeder")))
        elif at == "fill":
            yield ("fill", n, kind), self.fill(s, n, kind)._replace(feeder=Feeder("wake", n))
        elif at == "wake":
            yield ("wake", n), self.wake(s, n)._replace(feeder=Feeder("get"))
        elif at in ("handed", "reads", "concludes", "finishes", "fills it", "wakes it"):
            yield from self.finishing(s, *s.feeder)
        else:
            yield from self.ending(s, *s.feeder)

    def asks(self, s):
        return s._replace(asking=True)

    def receive(self, s, on, on_stop, on_look=None):
        item, rest = s.inbox[0], s.inbox[1:]
        if item in (STOP, LOOK):
            on = on_stop if item == STOP else on_look or Feeder("handed")
            return ("feed", item), s._replace(inbox=rest, feeder=on)
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
            yield ("looks",), s._replace(feeder=Feeder("asked", n, kind="ended"))
            return
        dry = s._replace(dry=True, feeder=Feeder("asked", n, kind="draw"))
        yield from self.fault(s, "draw", dry)
        parts = self.size.parts[n]
        for claim in range(1, parts + 1):  # as costs tell: any
            hands = min(self.size.workers, -(-parts // claim))
            for by_feeder in (False, True)[: 1 + self.size.light]:  # as costs tell, too
                slot = Slot(claim, hands=hands, singly=hands == parts, parts="-" * parts)
                slot = slot._replace(by_feeder=by_feeder)
                slots, on = put(s.slots, n, slot), Feeder("asked", n, hands)
                yield ("draw", n), s._replace(slots=slots, drawn=s.drawn + 1, feeder=on)

    def finishing(self, s, at, n, puts, kind, job):
        """The feeder as who finishes jobs; then it draws for slot n, or gets the next word."""
        if at == "handed":
            if s.handed:
                job, rest = s.handed[0], s.handed[1:]
                yield ("pick", job), s._replace(handed=rest, feeder=Feeder("reads", n, job=job))
            else:
                on = Feeder("get") if n == STOP else Feeder("draw", n)
                yield ("looks",), s._replace(feeder=on)
        elif at == "reads":
            if s.slots[job].outcome or self.filling(s, job):  # it has no job left
                yield ("passes", "feeder"), s._replace(feeder=Feeder("handed", n))
            yield ("looks",), s._replace(feeder=Feeder("concludes", n, job=job))
        elif at == "concludes":
            on = ("fills it", "ended") if s.stopping else ("finishes", "")
            on = Feeder(on[0], n, kind=on[1], job=job)
            yield ("look", "feeder", job, s.stopping), s._replace(feeder=on)
        elif at == "finishes":
            on = Feeder("fills it", n, kind="value", job=job)
            yield ("finish", "feeder", job), s._replace(feeder=on)
            failed = s._replace(feeder=on._replace(kind="finish"))
            for _, after in self.fault(s, "finish", failed):
                yield ("finish", "feeder", job), after
        elif at == "fills it":
            if s.slots[job].outcome:
                yield ("passes", "feeder"), s._replace(feeder=Feeder("handed", n))
            else:
                filled = self.fill(s, job, kind)
                yield ("fill", job, kind), filled._replace(feeder=Feeder("wakes it", n, job=job))
        else:
            yield ("wake", job), self.wake(s, job)._replace(feeder=Feeder("handed", n))
        if at in ("reads", "concludes", "fills it"):
            yield from self.fault(s, "feeder", s._replace(feeder=Feeder("end", kind="feeder")))

    def ending(self, s, at, n, puts, kind, job):
        """The feeder at its end; `job` is a slot that the consumer waits for, or is about to."""
        if at == "end":
            label = ("ends",) if s.stopping else ("flag",)
            yield label, s._replace(stopping=True, feeder=Feeder("shuts", kind=kind))
        elif at == "shuts":
            yield ("asks", True), s._replace(asking=True, feeder=Feeder("forgets", kind=kind))
        elif at == "forgets":
            if s.handed:  # each is among the slots that are filled below
                yield ("pick", s.handed[0]), s._replace(handed=s.handed[1:])
            else:
                yield ("looks",), s._replace(feeder=Feeder("drain", kind=kind))
        elif at == "drain":
            if s.inbox:
                yield self.receive(s, s.feeder, s.feeder, s.feeder)
            else:
                on = Feeder("fills", self.unfilled(s, 0), kind=kind)
                yield ("drained",), s._replace(feeder=on)
        elif at == "fills":
            if job == STOP and self.sent_late(s):
                on = s.feeder._replace(job=s.consumer.slot)
                yield ("looks",), s._replace(feeder=on)
            if n >= s.received and job == STOP:
                on = Feeder("sentinels", puts=self.sentinels(s))
                yield ("filled",), s._replace(feeder=on)
            elif n >= s.received:
                on = Feeder("wakes", job, kind=kind)
                yield ("fill", job, kind), self.fill(s, job, kind)._replace(feeder=on)
            elif s.slots[n].outcome:  # a worker was faster
                yield ("passes", n), s._replace(feeder=s.feeder._replace(slot=n + 1))
            else:
                on = Feeder("wakes", n, kind=kind, job=job)
                yield ("fill", n, kind), self.fill(s, n, kind)._replace(feeder=on)
        elif at == "wakes":
            on = Feeder("fills", self.unfilled(s, n + 1), kind=kind, job=job)
            yield ("wake", n), self.wake(s, n)._replace(feeder=on)
        elif at == "sentinels":
            if puts:
                on = Feeder("sentinels", puts=puts - 1)
                yield ("sentinel",), s._replace(tickets=(*s.tickets, STOP), feeder=on)
            elif self.joined(s):
                yield ("joined",), s._replace(feeder=Feeder("gone"))

    def sent_late(self, s):
        """Whether the feeder may see a slot waited for that was sent behind its last look."""
        at, n, _ = s.consumer
        late = at in ("ask", "look", "asleep") and s.received <= n < s.sent
        return late and not s.slots[n].outcome

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
