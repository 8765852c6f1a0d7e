"""Whether the protocol could have done what was seen: a trace of the code is followed in it."""

from ._promises import over
from ._protocol import Protocol

UNSEEN = frozenset(
    {
        *("start", "started", "begins", "looks", "waits", "takes", "asks on"),
        *("fault", "passes", "finds none", "ends", "drained", "filled", "joined"),
    }
)
"""Steps of the protocol that no trace tells: any number of them may lie between two events."""


class Refused(AssertionError):
    """The protocol cannot do what was seen."""


def follow(size, events, ended=True):
    """Follow events through the protocol, in all states that it could be in.

    Args:
        size: of the `Protocol`, with as many faults and closers as there could be.
        events: labels of steps, in the order in which the steps were done.
        ended: whether no thread is left behind the last of them.

    Returns:
        How many states the protocol could be in at once, at most.

    Raises:
        Refused: at the first event that it cannot do.
    """
    protocol = Protocol(size)
    states, most = reached(protocol, [protocol.first()]), 1
    for number, event in enumerate(events):
        after = [s for steps in states.values() for label, s in steps if label == event]
        if not after:
            raise refused(events[: number + 1], states)
        states = reached(protocol, after)
        most = max(most, len(states))
    if ended and not any(map(over, states)):
        raise refused([*events, ("all threads have ended",)], states)
    return most


def reached(protocol, states):
    """Give all that is reached by steps that are not seen, with the steps on from there."""
    found, waiting = {}, list(states)
    while waiting:
        state = waiting.pop()
        if state not in found:
            found[state] = steps = protocol.steps(state)
            waiting += [after for label, after in steps if label[0] in UNSEEN]
    return found


def refused(events, states):
    """Give the error: what was seen, and what could have come instead of the last event."""
    could = {label for steps in states.values() for label, _ in steps if label[0] not in UNSEEN}
    lines = ["  " + " ".join(map(str, event)) for event in events]
    lines[-1] += "   <- the protocol cannot do this; it could do"
    lines += sorted("     " + " ".join(map(str, label)) for label in could)
    return Refused("\n".join(["a trace is refused:", *lines]))
