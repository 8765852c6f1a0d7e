"""What must hold in every state of the protocol, and which states may be the last."""

__all__ = ["is_end", "wrong", "wrong_at_rest"]


def wrong(protocol, s):
    """Say what is wrong in a state; None: nothing."""
    depth, got = protocol.size.depth, s.got
    if got != tuple(range(len(got))):
        return f"G1: the results came in the order {got}"
    taken = s.consumer.slot + (s.consumer.at == "took")
    if s.drawn - taken > depth:
        return f"G2: {s.drawn} jobs are begun and {taken} taken, depth {depth}"
    if any(worker.late > 1 for worker in s.workers):
        return "G5: a worker has begun two parts after the stop"
    for n, slot in enumerate(s.slots):
        if "!" in slot.parts:
            return f"G3: a part of job {n} was begun twice"
        if slot.woken > 1:
            return f"G3: slot {n} was filled twice"
        looked_at = not slot.parts and slot.outcome != "ended"  # and its parts forgotten since
        if slot.outcome and not looked_at and not fits(protocol, s, n, slot):
            return (
                f"G3, G7: slot {n} was filled with {slot.outcome!r}, its parts are {slot.parts!r}"
            )
    if s.feeder.at == "draw":
        # Who hands it over may be about to take it back, or has failed itself and fills it.
        at_it = {it.slot for it in s.workers if it.at in ("handed", "back", "fill")}
        for n in s.handed:
            if n not in at_it and not s.slots[n].outcome:
                return f"G3: slot {n} waits for the iterator of jobs"
    if "closed" in s.closers and not over(s):
        return "G6: a stop has returned, and threads are left"
    return None


def fits(protocol, s, n, slot):
    """Whether what a slot was filled with is what its job came to."""
    kind, parts = slot.outcome, slot.parts
    if kind == "ended":
        return s.stopping or n >= protocol.jobs or (s.dry and n > s.drawn)
    if kind in ("value", "finish"):
        return set(parts) == {"d"}
    if kind.startswith("part"):
        failed = int(kind.split()[1])
        below = set(parts[:failed])
        return parts[failed] == "f" and below <= ({"d", "-"} if s.stopping else {"d"})
    return True  # the error of whoever failed itself, in the place where it did


def over(s):
    """Whether no thread of the engine is left but one that is stuck."""
    return s.feeder.at == "gone" and all(worker.at in ("gone", "stuck") for worker in s.workers)


def is_end(s):
    """Whether everybody has come to the end."""
    return s.consumer.at == "over" and over(s) and set(s.closers) <= {"closed"}


def wrong_at_rest(s, steps):
    """Say who waits for what never comes, where so many steps can be done; None: nobody."""
    if not steps:
        return None if is_end(s) else "a deadlock: everybody waits, for ever"
    closes = steps == s.closers.count("out") and s.feeder.at == "get"
    if closes and s.consumer.at != "over" and all(w.at != "stuck" for w in s.workers):
        return "the consumer waits for ever, unless somebody closes"
    return None
