"""Steps that may come first: no other thread's step matters to them, or they to it.

Where a thread can do nothing but such steps, it makes no difference when it does them, so all
orders but one are left out (P. Godefroid, "Partial-order methods for the verification of
concurrent systems", 1996; the sets are persistent, and no way is endless). What is promised is
not hidden either: of what it is about, such steps do that which makes it worse (a job is drawn,
a part begun, a stop returns), never what makes it better (a result is taken, a thread ends).

Faults that may still come are a thing that all threads share: no step is eager in whose place one
may come.
"""

from ._state import DRAINED, STOP


def eager(protocol, s):
    """Give the steps of one thread that may come first; None: there is no such thread."""
    free = not s.faults
    if consumer(protocol, s):
        return list(protocol.consumer(s))
    if feeder(protocol, s, free):
        return list(protocol.feeder(s))
    for w, worker in enumerate(s.workers):
        if alone(s, worker, free):
            return list(protocol.worker(s, w, worker))
    for c, at in enumerate(s.closers):
        if (at == "waits" and protocol.ended(s)) or (at == "tell" and s.feeder.at in DRAINED):
            return list(protocol.closer(s, c, at))
    return None


def consumer(protocol, s):
    """Whether it gives out what it has taken, or sends what nobody takes, or sees a stop."""
    at, n, _ = s.consumer
    if at == "took":
        return s.sent >= protocol.permits(n) or s.feeder.at in DRAINED
    if at == "ask":
        sent = s.sent >= n + protocol.size.depth
        return s.stopping if sent else s.feeder.at in DRAINED
    return at == "starting" and s.started != ""


def feeder(protocol, s, free):
    """Whether it receives, sees a stop, draws, deals, finishes, starts or wakes.

    It alone takes from the inbox and puts on the tickets, and a put and a get from what is not
    empty can be done in any order.
    """
    at, n, puts, _, job = s.feeder
    if at in ("get", "drain"):
        return bool(s.inbox)
    if at in ("wake", "wakes", "wakes it"):
        return True
    if at in ("start", "put", "finishes"):
        return free
    if at == "look":
        return s.stopping  # a stop stays
    if at in ("ask", "handed", "asked", "shuts", "forgets"):
        return not protocol.size.light  # nobody hands anything over
    if at == "draw":
        # Nobody knows what it draws before that is dealt; but what is handed over may lie there.
        return free and not s.dry and n < protocol.jobs and not protocol.size.light
    if at == "fills":
        return n >= s.received and job == STOP
    return (at == "sentinels" and puts > 0) or (at == "end" and s.stopping)


def alone(s, worker, free):
    """Whether nobody else touches what a worker's next steps read, or writes what stays so."""
    at = worker.at
    if at in ("look", "begin"):
        return s.stopping  # a stop stays
    if at == "wake":
        return True
    if not free or at in ("idle", "gone", "stuck"):
        return False
    slot = s.slots[worker.slot]
    if at == "finish":
        return True
    if at == "fill":
        return bool(slot.outcome)
    if at == "conclude":
        return s.stopping and slot.failed is None and not worker.kind
    if at == "run" and worker.part + 1 < worker.last:
        return s.stopping
    # The last one at its slot, where nothing failed: a fill changes nothing for it.
    return slot.hands == 1 and (at == "leave" or (at == "run" and slot.failed is None))
