"""All states of a protocol, breadth first, each held against what is promised."""

from array import array

import numpy as np

from ._eager import eager
from ._promises import wrong, wrong_at_rest
from ._state import DRAINED, Consumer, Slot, State

TAKEN = Slot(outcome="taken")
OVER = Consumer("over")
ENDED = ("sentinels", "gone")


class Wrong(AssertionError):
    """A state in which a promise is broken, with the steps that lead there."""


class Explored:
    """What was explored: numbers of states, of steps between them, of ends, and the depth."""

    def __init__(self):
        self.states = 1
        self.steps = 0
        self.ends = 0
        self.longest = 0


def reduced(s):
    """Give the state that stands for all that differ in nothing which matters any more.

    Which worker is which; what the parts of a slot came to that is filled and
    that no worker comes to again (it has been looked at by then); what the consumer has done
    when it is over; what comes to the feeder when it takes nothing any more.
    """
    consumer, feeder, workers, closers, slots, inbox, tickets, *rest = s
    sent, received, got, drawn, dry, started, stopping, faults, handed, asking = rest
    held = {*tickets, *[worker.slot for worker in workers], feeder.slot, feeder.job, *handed}
    taken = len(got)
    if feeder.at in DRAINED:
        inbox = ()  # nobody takes from it again
    if consumer.at == "over":
        consumer, sent, got, drawn = OVER, 0, (), 0
        if feeder.at in ENDED:
            received, taken = 0, len(slots)
    slots = tuple(
        [
            slot
            if n in held or not (n < taken or slot.outcome)
            else TAKEN
            if n < taken
            else Slot(outcome=slot.outcome, woken=slot.woken)
            for n, slot in enumerate(slots)
        ]
    )
    workers = tuple(sorted(workers))
    return State(
        consumer, feeder, workers, closers, slots, inbox, tickets,
        sent, received, got, drawn, dry, started, stopping, faults, handed, asking,
    )  # fmt: skip


class Table:
    """A number for each state; what states have in common is kept once."""

    def __init__(self):
        self._parts = [{} for _ in range(4)]
        self.numbers = {}

    def key(self, s):
        key = 0
        split = s.workers, s.slots, s[:2] + s[5:7], s[3:4] + s[7:]
        for part, known in zip(split, self._parts, strict=True):
            key = key << 24 | known.setdefault(part, len(known))
        return key


def explore(protocol, every=False, most=10_000_000):
    """Explore all states of a protocol.

    In each nothing is `wrong`, nobody waits for what never comes, and every way on comes to an
    end in which all have ended.

    Args:
        protocol: a `Protocol`.
        every: whether all orders of steps are tried; otherwise those of `eager` come first.
        most: states after which to give up.

    Returns:
        `Explored`.

    Raises:
        Wrong: something is not so.
        RuntimeError: there are more states than `most`.
    """
    table, explored = Table(), Explored()
    first = reduced(protocol.first())
    table.numbers[table.key(first)] = 0
    before, sources, targets = array("l", [-1]), array("l"), array("l")
    frontier, number = [first], 0
    while frontier:
        following = []
        for state in frontier:
            first = None if every else eager(protocol, state)
            steps = first or protocol.steps(state)
            told = wrong(protocol, state) or (not first and wrong_at_rest(state, len(steps)))
            if told:
                raise Wrong(f"{told}\n{path(protocol, table, before, number)}\n{state}")
            for _, after in steps:
                after = reduced(after)
                known = table.numbers.setdefault(table.key(after), explored.states)
                if known == explored.states:
                    explored.states += 1
                    before.append(number)
                    following.append(after)
                sources.append(number)
                targets.append(known)
            explored.ends += not steps
            number += 1
        explored.longest += bool(following)
        if explored.states > most:
            raise RuntimeError(f"more than {most:,} states")
        frontier = following
    explored.steps = len(sources)
    if left := endless(explored.states, sources, targets):
        raise Wrong(f"{left} states from which some way goes round for ever")
    return explored


def endless(states, sources, targets):
    """Count the states from which a way goes on without end: those that lead into a circle."""
    sources, targets = np.array(sources), np.array(targets)
    # Take away what is at its end, then what leads to that alone, and so on.
    order = np.argsort(targets, kind="stable")
    before = sources[order].tolist()
    starts = np.searchsorted(targets[order], np.arange(states + 1)).tolist()
    ways = np.bincount(sources, minlength=states).tolist()
    done = [state for state in range(states) if not ways[state]]
    for state in done:
        for other in before[starts[state] : starts[state + 1]]:
            ways[other] -= 1
            if not ways[other]:
                done.append(other)
    return states - len(done)


def path(protocol, table, before, number):
    """Tell the steps that lead to a state, one a line."""
    numbers = [number]
    while before[numbers[-1]] >= 0:
        numbers.append(before[numbers[-1]])
    state, lines = reduced(protocol.first()), []
    for wanted in reversed(numbers[:-1]):
        for label, after in protocol.steps(state):
            after = reduced(after)
            if table.numbers.get(table.key(after)) == wanted:
                lines.append("  " + " ".join(map(str, label)))
                state = after
                break
    return "\n".join(lines)
