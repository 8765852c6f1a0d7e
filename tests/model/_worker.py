"""A worker of the protocol: takes slots, claims parts, fills what it is the last to leave."""

from ._state import LOOK, STOP, Worker, put


class Working:
    """The steps of a worker."""

    def worker(self, s, w, worker):
        at, n = worker.at, worker.slot
        if at == "idle":
            if s.tickets:
                item, rest = s.tickets[0], s._replace(tickets=s.tickets[1:])
                if item == STOP:
                    yield ("gone", w), self.go(rest, w, Worker("gone"))
                else:
                    on = Worker("claim", item, late=worker.late)
                    yield ("get", w, item), self.go(rest, w, on)
        elif at in ("claim", "run"):
            if at == "claim" and (s.slots[n].outcome or self.filling(s, n)):  # it has no job left
                yield ("passes", w), self.idle(s, w, worker)
            yield from self.claim(s, w, worker)
        elif at == "look":
            on = worker._replace(at="leave" if s.stopping else "begin")
            yield ("look", w, n, s.stopping), self.go(s, w, on)
        elif at == "begin":
            letter = "b" if s.slots[n].parts[worker.part] == "-" else "!"
            on = worker._replace(at="run", late=worker.late + s.stopping)
            yield ("begin", w, n, worker.part), self.go(self.mark(s, worker, letter), w, on)
        elif at == "leave":
            yield self.leave(s, w, worker)
        elif at in ("conclude", "finish", "fill", "wake"):
            yield from self.conclude(s, w, worker)
        elif at in ("left", "hand", "handed", "nudge", "back"):
            yield from self.hand_over(s, w, worker)
        if at in ("claim", "leave", "conclude", "fill", "hand", "handed", "nudge", "back"):
            broken = self.go(s, w, worker._replace(at="fill", kind="worker"))
            yield from self.fault(s, "worker", broken)

    def filling(self, s, n):
        """Whether somebody may be filling a slot: its job and failure are forgotten first."""
        by_worker = any(worker.at == "fill" and worker.slot == n for worker in s.workers)
        by_feeder = s.feeder.at == "fills it" and s.feeder.job == n
        return by_worker or by_feeder or (s.feeder.at == "fills" and s.feeder.slot == n)

    def go(self, s, w, worker):
        return s._replace(workers=put(s.workers, w, worker))

    def idle(self, s, w, worker):
        return self.go(s, w, Worker(late=worker.late))

    def mark(self, s, worker, letter):
        slot = s.slots[worker.slot]
        parts = slot.parts[: worker.part] + letter + slot.parts[worker.part + 1 :]
        return s._replace(slots=put(s.slots, worker.slot, slot._replace(parts=parts)))

    def claim(self, s, w, worker):
        n = worker.slot
        if worker.at == "run":
            yield from self.failing(s, w, worker)
            s = self.mark(s, worker, "d")
            if worker.part + 1 < worker.last:
                yield from self.worker(s, w, worker._replace(at="look", part=worker.part + 1))
                return
        slot = s.slots[n]
        if worker.at == "run" and slot.singly:  # it asks for no more
            yield ("finds none", w), self.go(s, w, worker._replace(at="leave"))
            return
        if slot.failed is not None or slot.claimed == len(slot.parts):
            # Told before it leaves: a stop may come between, and make the failure forgotten.
            yield ("finds none", w), self.go(s, w, worker._replace(at="leave"))
            return
        last = min(slot.claimed + slot.claim, len(slot.parts))
        on = Worker("look", n, slot.claimed, last, worker.late)
        slots = put(s.slots, n, slot._replace(claimed=last))
        yield ("claim", w, n, last), self.go(s._replace(slots=slots), w, on)

    def failing(self, s, w, worker):
        """What else may come of a part that runs."""
        n, part = worker.slot, worker.part
        yield from self.fault(s, "stuck", self.go(s, w, worker._replace(at="stuck")))
        if s.faults and "part" in self.size.kinds:
            after = self.mark(s, worker, "f")
            slot = after.slots[n]
            if slot.failed is None or part < slot.failed:
                after = after._replace(slots=put(after.slots, n, slot._replace(failed=part)))
            after = after._replace(faults=s.faults - 1)
            yield ("fail", w, n, part), self.go(after, w, self.failed(worker))

    def failed(self, worker):
        """Where a worker goes on whose part has failed."""
        return worker._replace(at="leave")

    def leave(self, s, w, worker):
        slot = s.slots[worker.slot]
        slot = slot._replace(hands=slot.hands - 1)
        s = s._replace(slots=put(s.slots, worker.slot, slot))
        kind = "" if slot.failed is None else f"part {slot.failed}"
        on = "left" if slot.by_feeder else "conclude"
        last = self.go(s, w, worker._replace(at=on, kind=kind))
        return ("leave", w, worker.slot), self.idle(s, w, worker) if slot.hands else last

    def hand_over(self, s, w, worker):
        """The last worker as it leaves the finish to the feeder, if all is well."""
        at, n = worker.at, worker.slot
        if at == "left":
            if s.slots[n].failed is None or self.filling(s, n):
                on = worker._replace(at="conclude" if s.stopping else "hand")
                yield ("look", w, n, s.stopping), self.go(s, w, on)
            if worker.kind:
                yield ("looks",), self.go(s, w, worker._replace(at="conclude"))
        elif at == "hand":
            on = worker._replace(at="handed")
            yield ("hand", w, n), self.go(s._replace(handed=(*s.handed, n)), w, on)
        elif at == "handed":
            on = worker._replace(at="back" if s.asking else "nudge")
            yield ("looks",), self.go(s, w, on)
        elif at == "nudge":
            yield ("nudge",), self.idle(s._replace(inbox=(*s.inbox, LOOK)), w, worker)
        elif n in s.handed:
            rest = tuple(other for other in s.handed if other != n)
            after = s._replace(handed=rest)
            yield ("back", w, n), self.go(after, w, worker._replace(at="conclude"))
        else:  # the feeder has it
            yield ("passes", w), self.idle(s, w, worker)

    def conclude(self, s, w, worker):
        n, slot = worker.slot, s.slots[worker.slot]
        if worker.at == "finish":
            on = worker._replace(at="fill", kind="value")
            yield ("finish", w, n), self.go(s, w, on)
            for _, after in self.fault(s, "finish", self.go(s, w, on._replace(kind="finish"))):
                yield ("finish", w, n), after
        elif worker.at == "wake":
            yield ("wake", n), self.idle(self.wake(s, n), w, worker)
        forgotten = slot.failed is None or self.filling(s, n)
        if worker.at == "conclude" and forgotten:
            on = ("fill", "ended") if s.stopping else ("finish", "")
            on = worker._replace(at=on[0], kind=on[1])
            yield ("look", w, n, s.stopping), self.go(s, w, on)
        # Behind a stop what has failed is not told: a part below it may not have begun.
        if worker.at == "conclude" and worker.kind and s.stopping and not slot.outcome:
            after = self.fill(s, n, "ended")
            yield ("fill", n, "ended"), self.go(after, w, worker._replace(at="wake"))
        if worker.at in ("conclude", "fill") and worker.kind:
            if slot.outcome:  # a stop was faster, or a worker that broke
                yield ("passes", w), self.idle(s, w, worker)
            else:
                filled = self.fill(s, n, worker.kind)
                yield ("fill", n, worker.kind), self.go(filled, w, worker._replace(at="wake"))
