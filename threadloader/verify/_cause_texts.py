"""Puts causes into words: what the cause is, what has shown it, what to do."""

from __future__ import annotations

from functools import partial

from ._probe import Repeat
from ._report import Cause
from ._stress import Stress

__all__ = [
    "CHANGED",
    "in_place",
    "locked",
    "not_repeatable",
    "order",
    "other_process",
    "other_thread",
    "process_differs",
    "reopened",
    "repeat",
    "reused",
    "unknown",
    "unsafe",
]

_RNG = {
    "source": "move what is random into the transform, which is given a generator by its "
    "parameter rng; source[i] gives the same sample whenever it is asked",
    "transform": "give it a parameter rng and draw from that: it is a numpy Generator that depends "
    "on seed, epoch and the sample's position alone; remove every seeding of global state",
    "collate": "draw in the transform, which is given a generator by its parameter rng; collate "
    "depends on its samples alone",
    "sampler": "draw each epoch from a generator of its own, numpy.random.default_rng((7, epoch)); "
    "remove every seeding of global state",
}

_ALONE = {
    "source": "make source[i] depend on i alone",
    "transform": "make it depend on its sample alone and, where it is random, on the generator "
    "that it is given if it has a parameter rng",
    "collate": "make it depend on its samples alone",
    "sampler": "make it depend on the epoch and the number of samples alone",
}

_OWN_MEMORY = {
    "source": "give a copy (.copy()), or make a new array for each sample: several of them are "
    "in use at the same time",
    "transform": "make a new array in each call: several samples are in use at the same time",
    "collate": "make new arrays for each batch: several batches are ready at the same time",
}

_SAFE = {
    "source": "give each thread its own with per_thread(open_it), or read by position (os.pread), "
    "or put a lock around the read",
    "transform": "keep nothing that it writes outside of the call, or keep it in a "
    "threading.local(), or put a lock around it",
    "collate": "keep nothing that it writes outside of the call, or put a lock around it",
    "sampler": "set inside of it what it needs: the thread that prepares calls it",
}


_PERHAPS = (
    "perhaps there is a generator without a seed, an array that was never filled (numpy.empty), a "
    "clock that was not stopped (numpy.datetime64('now'), datetime.now() in another module), where "
    "an object lies (its address, id(), or a hash() made of it), something kept where nobody has "
    "looked, or something outside of the program"
)


def repeat(part: str, name: str, found: Repeat) -> Cause:
    """Say why a part gives something else for the same call, or that it uses global state."""
    moved = " and ".join(found.moved)
    random = partial(Cause, part=part, kind="global-random", advice=_RNG[part])
    alone = partial(Cause, part=part, advice=_ALONE[part])
    evidence = []
    if found.differs:
        evidence.append(f"{name} gave something else at call {found.differs} of the same")
    if found.moved:
        evidence.append(f"the global state of {moved} had changed after the call")
    if not found.differs and not found.ahead:
        return random(
            says=f"the {part} uses the global random state of {moved}: what all threads and the "
            "rest of the program draw from, in whatever order they come",
            evidence=tuple(evidence),
        )
    same = f"it gave the same {found.calls} times"
    if found.by_state:
        return random(
            says=f"the {part} draws from the global random state of {moved}, which all threads "
            "share: its numbers come in whatever order the threads ask for them",
            evidence=(*evidence, f"with that put back before each call, {same}"),
        )
    if found.by_clock or found.ahead:
        ahead = f"with the clock {found.ahead} s ahead, {name} gave something else; else the same"
        shown = f"with the clock stopped, {same}" if found.by_clock else ahead
        says = f"the {part} depends on the time"
        return alone(kind="clock", says=says, evidence=(*evidence, shown))
    if found.places:
        names = ", ".join(found.places[:4])
        return alone(
            kind="own-state",
            says=f"the {part} keeps something from call to call ({names}): what it gives depends "
            "on how many calls there were before, and in which order",
            evidence=(*evidence, f"the calls changed {names}"),
        )
    return not_repeatable(part, *evidence, *_tried(found))


def not_repeatable(part: str, *evidence: str) -> Cause:
    """Say that a part gives something else for the same call, and that no reason was found."""
    return Cause(
        part=part,
        kind="not-repeatable",
        says=f"the {part} is not repeatable: it gives something else when the same is asked of it",
        evidence=evidence,
        advice=f"{_ALONE[part]}; {_PERHAPS}",
    )


def _tried(found: Repeat) -> tuple[str, ...]:
    """Say which experiments have not shown the reason: those that were made, and no others."""
    looked = "none of the variables that it names was seen to change"
    if not found.tried:
        return ("from some call on it always gave the same, so nothing could be tried", looked)
    put_back = "that put back before each call, or with " if found.moved else ""
    stopped = f"with {put_back}the clocks of time and datetime stopped"
    return (f"{stopped}, it still differed, or only failed", looked)


def reused(part: str, one: str, other: str) -> Cause:
    """Say that a part hands out memory that its next call overwrites."""
    return Cause(
        part=part,
        kind="reused-buffer",
        says=f"the {part} hands out the same memory again and again: what it gave before is "
        "overwritten by the next call, so rows, or whole batches, hold the wrong samples",
        evidence=(f"what {one} had given was something else after {other}",),
        advice=_OWN_MEMORY[part],
    )


def in_place(part: str, index: int) -> Cause:
    """Say that a part changes the samples that the source keeps."""
    return Cause(
        part=part,
        kind="in-place",
        says=f"the {part} changes its input in place, and the source hands out that same memory "
        "again: so a sample is changed once more in each epoch",
        evidence=(f"source[{index}] gave something else after the {part} had run on it",),
        advice=f"make a copy in the {part} before writing (x = x.copy()), or give copies in "
        "source[i]",
    )


CHANGED = Cause(
    part="source",
    kind="files-changed",
    says="the files of the source were written to while this ran",
    evidence=("path, size or time of change of one is another than at the beginning",),
    advice="run it again when nobody writes to them, or on a copy",
)


def reopened(what: str) -> Cause:
    """Say that a source is another one each time it is opened."""
    return Cause(
        part="source",
        kind="reopened",
        says="the source is another one each time it is opened, so a resumed run reads other data",
        evidence=(f"opened a second time, {what}",),
        advice="make what opens it depend on nothing that changes: seed what is drawn there, sort "
        "what is listed there, read files that nobody writes",
    )


def other_thread(part: str, name: str, error: str) -> Cause:
    """Say that a part gives something else in another thread, or raises there."""
    says = "gives something else in another thread"
    shown = "gave one thing in the main thread and another one in a new thread"
    advice = "set inside of it what it needs: threads begin without the contextvars and the "
    advice += "numpy.errstate of the main one, and with empty threading.local objects"
    if error:
        says = "fails in another thread than the one that made it"
        shown, advice = f"raised {error} in a new thread", _SAFE[part]
    return Cause(
        part=part,
        kind="other-thread",
        says=f"the {part} {says}",
        evidence=(f"{name} {shown}",),
        advice=advice,
    )


def process_differs(what: str) -> Cause:
    """Say that another process gives something else; no part is known to be at fault."""
    says = "another process gives something else"
    advice = "leave out what each process has of its own: hash() of text, the order of a set, "
    advice += "what is drawn without a seed and kept, id()"
    return Cause(part="", kind="other-process", says=says, evidence=(what,), advice=advice)


def other_process(part: str, call: str, *, alike: bool, hashed: bool) -> Cause:
    """Say that a part gives something else in another process.

    Args:
        part: the part.
        call: the name of a call that does.
        alike: whether two other processes that hash str alike gave the same as each other.
        hashed: whether a third, which hashes str in another way, gave something else than those.
    """
    if not alike:
        says = f"the {part} depends on what each process draws, or has, for itself"
        evidence = f"{call} gave something else in another process, and yet another in a second"
        advice = "seed what is drawn once and kept, as when a module is imported or under "
        advice += "functools.cache; leave out what each process has of its own, such as id()"
    elif hashed:
        says = f"the {part} depends on how str are hashed, which differs from process to process: "
        says += "on hash(), or on the order of a set"
        evidence = f"{call} gave something else in another process, the same in a second one with "
        evidence += "the same PYTHONHASHSEED, and yet another with another one"
        advice = "sorted(...) of a set before its order counts; zlib.crc32 or hashlib in place of "
        advice += "hash()"
    else:
        says = f"the {part} depends on something that the process has kept from before"
        evidence = f"{call} gave something else in another process, and that in each of three"
        advice = f"{_ALONE[part]}; not on what earlier calls have left, nor on the order of a set"
    return Cause(part=part, kind="other-process", says=says, evidence=(evidence,), advice=advice)


def unsafe(part: str, free: Stress, locked: Stress, moved: tuple[str, ...]) -> Cause:
    """Say that a part gives something wrong when several threads call it at once."""
    many = f"{free.wrong:,} of {free.calls:,} calls gave something else than in one thread"
    evidence = [
        f"alone, called in {free.threads} threads at once, {many}",
        f"with a lock around it, {locked.wrong:,} of {locked.calls:,}",
    ]
    if moved:
        evidence.append(f"the global state of {' and '.join(moved)} had changed after a call")
        kind, advice = "global-random", _RNG[part]
        says = f"uses the global random state of {' and '.join(moved)}, which another thread "
        says += "changes in between"
    elif locked.wrong:
        kind, advice = "other-thread", _ALONE[part]
        says = "gives something else in other threads, also one at a time"
    else:
        kind, advice = "not-thread-safe", _SAFE[part]
        says = "is not safe for several threads at once"
    return Cause(
        part=part, kind=kind, says=f"the {part} {says}", evidence=tuple(evidence), advice=advice
    )


def locked(parts: tuple[str, ...], differed: int, runs: int) -> Cause:
    """Say that no run differs with a lock around a part, or with one lock around several.

    Without a lock, `differed` of as many `runs` differed.
    """
    names = " and ".join(f"the {part}" for part in parts)
    if len(parts) == 1:
        part, is_not, advice = parts[0], "is not", _SAFE[parts[0]]
    else:
        part, is_not = "", "share something that is not"
        advice = "look for what they both use, such as a file, a connection or a buffer; give each "
        advice += "thread its own"
    shown = f"{differed} of {runs} runs with 8 workers differed; "
    shown += f"with a lock around {names}, 0 of {runs}"
    return Cause(
        part=part,
        kind="not-thread-safe",
        says=f"{names} {is_not} safe for several threads at once",
        evidence=(shown,),
        advice=advice,
    )


def order(*, in_code: bool) -> Cause:
    """Say that the order differs for no reason that was seen; `in_code`: by a sampler in code."""
    says = "other samples came, or in another order. The source's length and the seed decide "
    says += "that, and nothing of yours besides: it may be a fault of threadloader"
    advice = "if the source's length is always the same, please report it, with the config"
    if in_code:
        says = "other samples came, or in another order, which the sampler decides; asked for "
        says += "epochs 0 and 1 alone, it always gave the same"
        advice = _ALONE["sampler"]
    part = "sampler" if in_code else ""
    return Cause(part=part, kind="unknown", says=says, evidence=(), advice=advice)


def unknown(tried: tuple[str, ...]) -> Cause:
    """Say that no cause was found, and what was tried."""
    return Cause(
        part="",
        kind="unknown",
        says="not found",
        evidence=tried,
        advice="run it again with more --batches; look at what source, transform and collate share "
        "with each other or with the rest of the program, and whether one depends on where an "
        "object lies (its address, id())",
    )
