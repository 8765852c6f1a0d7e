"""The protocol of the engine as a model: all its states, and mistakes that are found in it.

The model is in model/; what is promised of it stands in model/_promises.py.
"""

import pytest
from model import Protocol, Size, Wrong, explore
from model._state import Consumer, Worker, put

SIZES = [
    (Size(1, 1, ()), 191),
    (Size(1, 1, (1,)), 2_682),
    (Size(1, 1, (1,), closers=2), 5_601),
    (Size(1, 1, (2,)), 5_845),
    (Size(1, 2, (1, 1)), 23_546),
    (Size(2, 1, (2,)), 28_864),
    (Size(2, 1, (2,), faults=2, kinds=frozenset({"part"})), 17_070),
    (Size(2, 1, (3,), kinds=frozenset({"part"})), 56_107),
    (Size(2, 1, (1, 1)), 6_239),
    (Size(3, 1, (1, 1, 1, 1, 1, 1)), 21_178),
    (Size(1, 1, (1,), light=True), 5_263),
    (Size(1, 2, (1, 1), light=True), 145_309),
    (Size(2, 1, (2,), light=True), 64_941),
    (Size(2, 2, (1, 1), faults=0, light=True), 107_579),
]


def told(size):
    parts = "".join(map(str, size.parts))
    return f"{size.workers} workers, depth {size.depth}, parts {parts}, faults {size.faults}" + (
        ", light" if size.light else ""
    )


@pytest.mark.parametrize(("size", "states"), SIZES, ids=[told(size) for size, _ in SIZES])
def test_every_promise_is_kept_in_every_state(size, states):
    """All of them are reached, each way on leads to an end, and in an end nobody is left."""
    assert states == explore(Protocol(size)).states


ORDERED = [
    Size(1, 1, (1,)),
    Size(2, 1, (1,)),
    Size(1, 1, (1,), light=True),
    Size(1, 2, (1, 1), faults=0, light=True),
]


@pytest.mark.parametrize("size", ORDERED, ids=told)
def test_the_orders_that_are_left_out_lead_to_no_other_end(size):
    """With every order of all steps there are more states, as few ends, and nothing is wrong."""
    some, every = explore(Protocol(size)), explore(Protocol(size), every=True)
    assert some.states < every.states
    assert some.ends == every.ends


class LostWakeUp(Protocol):
    """Whoever fills a slot wakes the consumer if it sleeps: it may be about to."""

    def consumer(self, s):
        if s.consumer.at == "dozes":
            yield ("sleeps",), s._replace(consumer=s.consumer._replace(at="asleep"))
        for label, after in super().consumer(s):
            if label == ("waits",):
                after = after._replace(consumer=after.consumer._replace(at="dozes"))
            yield label, after

    def wake(self, s, n):
        return super().wake(s, n) if s.consumer.at == "asleep" else s


class StopWakesNobody(Protocol):
    """A stop fills the slots, and whoever waits for one sleeps on."""

    def wake(self, s, n):
        return s if s.feeder.at == "wakes" else super().wake(s, n)


class LooksBeforeItSends(Protocol):
    """The flag is looked at before the slot is sent, which a stop then does not find."""

    def consumer(self, s):
        at, n, _ = s.consumer
        if at == "ask" and s.stopping:
            yield ("result", n, "ended"), s._replace(consumer=Consumer("over", n))
        elif at == "ask":
            yield ("looks",), s._replace(consumer=Consumer("sends", n))
        elif at == "sends" and s.sent < n + self.size.depth:
            yield self.send(s)
        elif at == "sends":
            yield ("sent",), s._replace(consumer=Consumer("look", n))
        else:
            yield from super().consumer(s)


class OneSentinelTooFew(Protocol):
    def sentinels(self, s):
        return len(s.workers) - 1


class PermitIsKept(Protocol):
    """No slot is sent for the one that was taken."""

    def send(self, s):
        return (("keeps",), s._replace(sent=s.sent + 1)) if s.got else super().send(s)


class OnePermitTooMany(Protocol):
    def permits(self, n):
        return super().permits(n) + 1


class TakesWhatIsReady(Protocol):
    """Whatever is filled is taken, and not what is next."""

    def consumer(self, s):
        yield from super().consumer(s)
        if s.consumer.at == "look":
            for n in range(s.consumer.slot + 1, s.sent):
                if s.slots[n].outcome:
                    yield self.take(s, n)


class StopsBeforeTheJoin(Protocol):
    """The feeder reports before the workers have ended."""

    def joined(self, s):
        return True


class ErrorEndsTheWorker(Protocol):
    """A part fails, the thread dies of it, and nobody is told."""

    def failed(self, worker):
        return Worker("gone")


class FillsTwice(Protocol):
    """The last worker does not look whether a stop has filled the slot."""

    def conclude(self, s, w, worker):
        slot = s.slots[worker.slot]._replace(outcome="")
        yield from super().conclude(s._replace(slots=put(s.slots, worker.slot, slot)), w, worker)


class GoesOnAfterAStop(Protocol):
    """A worker does not look at the flag between two parts."""

    def worker(self, s, w, worker):
        for label, after in super().worker(s, w, worker):
            if worker.at == "look":
                after = self.go(after, w, worker._replace(at="begin"))
            yield label, after


class ClaimsWithoutAGuard(Protocol):
    """What is claimed is read, and written in a second step."""

    def worker(self, s, w, worker):
        if worker.at == "claim" and not worker.last:
            read = worker._replace(part=s.slots[worker.slot].claimed, last=1)
            yield ("reads", w), self.go(s, w, read)
            return
        if worker.at == "claim":
            slot = s.slots[worker.slot]._replace(claimed=worker.part)
            s = s._replace(slots=put(s.slots, worker.slot, slot))
        yield from super().worker(s, w, worker)


class NeverAsks(Protocol):
    """The feeder does not tell that it will be in the iterator of jobs."""

    def asks(self, s):
        return s


class LooksBeforeItHandsOver(Protocol):
    """A worker looks whether the feeder asks for a job, and hands over its slot behind that."""

    def hand_over(self, s, w, worker):
        if worker.at == "hand":
            on = worker._replace(at="conclude" if s.asking else "may hand")
            yield ("looks",), self.go(s, w, on)
            return
        yield from super().hand_over(s, w, worker)

    def worker(self, s, w, worker):
        if worker.at == "may hand":
            for label, after in super().hand_over(s, w, worker._replace(at="hand")):
                yield label, self.go(after, w, worker._replace(at="nudge"))
        yield from super().worker(s, w, worker)


class NobodyIsTold(Protocol):
    """What is handed over lies there until the feeder gets another word."""

    def hand_over(self, s, w, worker):
        for label, after in super().hand_over(s, w, worker):
            yield label, after._replace(inbox=s.inbox) if worker.at == "nudge" else after


class GivesAllAway(Protocol):
    """A worker that has handed over its slot does not take it back."""

    def hand_over(self, s, w, worker):
        if worker.at == "back":
            yield ("passes", w), self.idle(s, w, worker)
            return
        yield from super().hand_over(s, w, worker)


DEADLOCK, UNLESS = "a deadlock", "the consumer waits for ever, unless"
HANDED = Size(1, 2, (1, 1), faults=0, light=True)
WAITS = "G3: slot 0 waits for the iterator of jobs"

MISTAKES = [
    (LostWakeUp, Size(1, 1, (1,)), UNLESS),
    (StopWakesNobody, Size(1, 1, (1,)), DEADLOCK),
    (LooksBeforeItSends, Size(1, 1, (1,)), DEADLOCK),
    (OneSentinelTooFew, Size(2, 1, (1,)), DEADLOCK),
    (PermitIsKept, Size(1, 1, (1, 1)), UNLESS),
    (OnePermitTooMany, Size(1, 1, (1, 1, 1)), "G2: "),
    (TakesWhatIsReady, Size(2, 2, (1, 1), faults=0), "G1: "),
    (StopsBeforeTheJoin, Size(1, 1, (1,)), "G6: "),
    (ErrorEndsTheWorker, Size(1, 1, (1,)), UNLESS),
    (FillsTwice, Size(1, 1, (1,)), "G3: slot 0 was filled twice"),
    (GoesOnAfterAStop, Size(1, 1, (2,)), "G5: "),
    (ClaimsWithoutAGuard, Size(2, 1, (2,), faults=0), "G3: a part of job 0 was begun twice"),
    (NeverAsks, HANDED, WAITS),
    (LooksBeforeItHandsOver, HANDED, WAITS),
    (NobodyIsTold, Size(1, 1, (1,), faults=0, light=True), UNLESS),
    (GivesAllAway, HANDED, (WAITS, UNLESS)),
]


@pytest.mark.parametrize("every", [True, False], ids=["every", "some"])
@pytest.mark.parametrize(("kind", "size", "says"), MISTAKES, ids=[m[0].__name__ for m in MISTAKES])
def test_a_mistake_in_the_protocol_is_found(kind, size, says, every):
    """With every order of all steps, and with those alone that make a difference."""
    with pytest.raises(Wrong) as found:
        explore(kind(size), every=every)
    assert str(found.value).startswith(says)


def test_what_is_wrong_is_told_with_the_steps_that_lead_there():
    with pytest.raises(Wrong) as found:
        explore(StopWakesNobody(Size(1, 1, (1,), faults=0)), every=True)
    steps = [line.strip() for line in str(found.value).splitlines() if line.startswith("  ")]
    assert "start" == steps[0]
    assert steps.index("waits") < steps.index("fill 0 ended") < steps.index("joined")


def test_a_way_without_end_is_found():
    """A worker that finds nothing to do and asks again leads nowhere, though an end stays near."""

    class Polls(Protocol):
        def worker(self, s, w, worker):
            yield from super().worker(s, w, worker)
            if worker.at == "idle" and not s.tickets:
                yield ("asks again", w), s

    with pytest.raises(Wrong, match="states from which some way goes round for ever"):
        explore(Polls(Size(1, 1, ())), every=True)


def test_too_many_states_are_told():
    with pytest.raises(RuntimeError, match="more than 100 states"):
        explore(Protocol(Size(1, 1, (1,))), most=100)
