"""Looks for what makes batches differ: by experiments on the parts, one after the other.

First each part alone, in one thread: is it repeatable, does it hand out memory that it writes
again (`_probe`), does it change what it is given; and is the source the same when opened again?
Then in another thread, in several at once, and in whole runs with a lock around it (`_stress`).
What an experiment has shown to make a difference is a cause; what does not make one here, and may
elsewhere, is a danger.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..errors import from_signal
from ..sources import fingerprint
from . import _cause_texts
from ._case import PARTS, Case
from ._parts import KEY, again, parts_of
from ._probe import CALLS, elsewhere, overwritten, repeated
from ._record import Tape, told
from ._report import Cause, Difference
from ._result import RAISED, result
from ._stress import differs, stressed

__all__ = ["causes", "faults"]

SAMPLES = 8
"""How many samples are looked at, those that differ first."""

GLANCE = 3
"""How many samples are looked at where no run differs, and how often each call is made."""

GLANCE_SECONDS = 0.3
"""How long each part given in code is called in several threads, where no run differs."""

TRIES = 3
"""How many hurried runs are made without a lock, and with each; each takes a second or less."""

ALONE_SECONDS = 1.1
"""How long a part is called in one thread before other threads are blamed for its differences:
long enough for a clock of whole seconds to move."""

STRESS_SECONDS = 1.0
"""How long each part given in code is called in several threads, where a run differs."""


class Glance(NamedTuple):
    """What came of looking for faults that no run has shown.

    Attributes:
        causes: faults all the same, since every run has them.
        dangers: what may make a difference elsewhere.
        failed: why it could not be done; "" where it was.
    """

    causes: tuple[Cause, ...] = ()
    dangers: tuple[Cause, ...] = ()
    failed: str = ""


class Found(NamedTuple):
    """What looking at the parts in one thread gave.

    Attributes:
        causes: what makes a difference.
        dangers: what may make one.
        moved: the global random states that each part changes, by its name.
    """

    causes: list[Cause]
    dangers: list[Cause]
    moved: dict[str, tuple[str, ...]]


def faults(case: Case, indices: Sequence[int], calls: int = GLANCE) -> Glance:
    """Look for faults that made no run differ, by some calls of each part, also in threads."""
    indices = list(dict.fromkeys(indices))[:SAMPLES]
    try:
        found = _alone(case, indices[:GLANCE], calls)
        rare = [] if found.causes else _in_threads(case, indices, found.moved, GLANCE_SECONDS)
        return Glance((*found.causes, *rare), tuple(found.dangers))
    except Exception as error:  # what the runs have shown is told all the same
        if from_signal(error):
            raise
        return Glance(failed=f"each part alone, and in several threads at once: {told(error)}")


def causes(
    case: Case,
    tape: Tape,
    difference: Difference,
    indices: Sequence[int],
    *,
    depth: int,
    alone: bool,
    tell: Callable[[str], None],
) -> tuple[Cause, ...]:
    """Find what makes batches differ, by the samples at `indices`, those that differ first.

    `alone` is whether batches differ without workers as well.

    Returns:
        The causes; one of kind "unknown" where nothing was shown. Dangers may follow it.
    """
    indices = list(dict.fromkeys(indices))[:SAMPLES]
    try:
        # Where on_error leaves samples out, the failures decide which samples come.
        if difference.kind == "order" and not _leaves_out(case):
            found = _alone(case, [], CALLS)  # without samples, the sampler alone is called
            shown = found.causes or _reopened(case, indices) or [*_in_threads(case, [], {}, 0)]
            return tuple(shown or [_cause_texts.order(in_code=callable(case.sampler))])
        tell("each part alone")
        found = _alone(case, indices, CALLS)
        shown = [*found.causes, *([] if found.causes else _reopened(case, indices))]
        if not shown:
            tell("each part in several threads at once")
            shown = list(_in_threads(case, indices, found.moved, STRESS_SECONDS))
            if alone:  # threads may have their part in it, but it differs without them as well
                shown = list(map(_also_alone, shown))
        if not shown:
            tell("whole runs, with a lock around each part")
            shown = [_locked(case, tape, depth), *found.dangers]
    except Exception as error:  # the difference is told all the same
        if from_signal(error):
            raise
        return (_cause_texts.unknown((f"the experiments themselves failed: {told(error)}",)),)
    return tuple(shown)


def _also_alone(cause: Cause) -> Cause:
    """Give a cause that does not blame threads, since batches differ without them as well."""
    if cause.kind not in ("not-thread-safe", "other-thread"):
        return cause
    without = "but num_workers 0 a second time differed as well, where there are no threads"
    return _cause_texts.not_repeatable(cause.part, *cause.evidence, without)


def _leaves_out(case: Case) -> bool:
    policy = case.config.on_error
    return isinstance(policy, Mapping) and policy["skip"] is not None


def _alone(case: Case, indices: list[int], most: int) -> Found:
    """Look for causes and dangers in each part by itself, in one thread."""
    found = Found([], [], {})
    with case.source() as source:
        for part in parts_of(case, source, indices):
            repeats = {name: repeated(it, part.function, most) for name, it in part.calls.items()}
            found.moved[part.name] = next((it.moved for it in repeats.values() if it.moved), ())
            differing = (it for it in repeats.items() if it[1].differs or it[1].ahead)
            if unsteady := next(differing, None):
                found.causes.append(_cause_texts.repeat(part.name, *unsteady))
            elif moving := next((it for it in repeats.items() if it[1].moved), None):
                found.dangers.append(_cause_texts.repeat(part.name, *moving))
            for (one, first), (other, second) in itertools.pairwise(part.calls.items()):
                if overwritten(first, second):
                    found.causes.append(_cause_texts.reused(part.name, one, other))
                    break
        if not found.causes:
            for cause, shown in _in_place(case, source, indices):
                (found.causes if shown else found.dangers).append(cause)
    return found


def _in_place(case: Case, source: Any, indices: list[int]) -> Iterator[tuple[Cause, bool]]:
    """Look whether a part changes its input, so that the source gives other samples afterwards.

    Yields:
        The cause, and whether the part's own result is then another one; else it is a danger.
    """
    read = partial(again, case.retries, case.reader(source))
    transform = case.bound_transform()

    def changed_by(part: str, change: Callable[[int], Any]) -> Iterator[tuple[Cause, bool]]:
        for index in indices:
            before = result(partial(read, index))
            given = result(partial(change, index))
            if result(partial(read, index)) != before:
                yield _cause_texts.in_place(part, index), result(partial(change, index)) != given
                return

    def transformed(index: int) -> Any:
        if transform is None:
            return read(index)
        return again(case.retries, lambda: transform(read(index), KEY, index))

    blamed = []
    if case.transform is not None:
        yield from (blamed := list(changed_by("transform", transformed)))
    collate = case.collate
    if collate is not None and not blamed:  # the transform runs before it, and has changed them
        yield from changed_by("collate", lambda index: collate([transformed(index)]))


def _reopened(case: Case, indices: list[int]) -> list[Cause]:
    """Look whether the source holds something else when it is opened a second time."""
    openings = []
    for _ in range(2):
        with case.source() as source:
            read = partial(again, case.retries, case.reader(source))
            marks = {f"source[{index}]": result(partial(read, index)) for index in indices}
            openings.append({"its length": len(source), "its fingerprint": fingerprint(source)})
            openings[-1] |= marks
    one, other = openings
    names = [name for name in one if one[name] != other[name]]
    return [_cause_texts.reopened(f"{names[0]} was another one")] if names else []


def _in_threads(
    case: Case, indices: list[int], moved: dict[str, tuple[str, ...]], seconds: float
) -> Iterator[Cause]:
    """Try each part that is given in code in another thread, and in several threads at once."""
    with case.source() as source:
        for part in parts_of(case, source, indices):
            if part.name == "source" and not case.source_in_code:
                continue
            threads = ((name, *elsewhere(call)) for name, call in part.calls.items())
            other = next((it for it in threads if it[1] != it[2]), None)
            if other is not None:
                name, _, there = other
                # If it differs in this thread as well, the other thread is not the reason.
                here = repeated(part.calls[name], part.function, seconds=ALONE_SECONDS)
                if here.differs or here.ahead:
                    yield _cause_texts.repeat(part.name, name, here)
                    continue
                error = there.removeprefix(RAISED) if there.startswith(RAISED) else b""
                yield _cause_texts.other_thread(part.name, name, error.decode())
                continue
            calls = list(part.calls.values()) if part.name in PARTS else []
            free = stressed(calls, seconds) if calls else None
            if free is not None and free.wrong:
                alone = stressed(calls, max(seconds, ALONE_SECONDS), count=1)
                if alone.wrong:  # as with a clock that no experiment can move
                    yield _cause_texts.not_repeatable(
                        part.name,
                        f"called in one thread, {alone.wrong:,} of {alone.calls:,} calls gave "
                        "something else than before",
                    )
                    continue
                locked = stressed(calls, seconds, lock=True)
                yield _cause_texts.unsafe(part.name, free, locked, moved.get(part.name, ()))


def _locked(case: Case, tape: Tape, depth: int) -> Cause:
    """Look whether whole runs still differ with a lock around one part, or around all."""
    given = {"source": True, "transform": case.transform, "collate": case.collate}
    parts = tuple(name for name in PARTS if given[name] is not None)

    def count(*guarded: str) -> int:
        return sum(differs(case, tape, depth, guarded) for _ in range(TRIES))

    free = count()
    tried = [f"{free} of {TRIES} further runs with 8 workers differed"]
    if free:
        for guarded in dict.fromkeys([*((name,) for name in parts), parts]):
            locked = count(*guarded)
            if not locked:
                return _cause_texts.locked(guarded, free, TRIES)
            tried.append(f"with a lock around {' and '.join(guarded)}, {locked} of {TRIES}")
    return _cause_texts.unknown(tuple(tried))
