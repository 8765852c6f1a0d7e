"""One failure planned at one point of a run: the cases, and what must be left of them.

A `Case` names the point, the hit, the exception, and the size of the run. `run` has it
`watched`, and then looks at what is left: no thread, file, object of ours or cycle.
"""

import contextlib
import functools
import gc
import logging
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from points import POINTS
from watched import Watched, Wrong
from zoo import CYCLIC, ZOO, Payload, kind

__all__ = ["Case", "Wrong", "cases", "drawn", "hits", "run", "sure", "undisturbed"]


@dataclass(frozen=True)
class Case:
    """One planned failure.

    Attributes:
        point: of `points.POINTS`.
        hit: which hit fails, from 1.
        always: 1 if all later ones fail as well.
        error: of `zoo.ZOO`.
        workers, ahead: of the config.
        body: 1 if the body of the `with` raises in the end.
    """

    point: str
    hit: int = 1
    always: int = 0
    error: str = "plain"
    workers: int = 0
    ahead: int = 2
    body: int = 0

    def __str__(self) -> str:
        return " ".join(f"{each.name}={getattr(self, each.name)}" for each in fields(self))

    @classmethod
    def read(cls, text: str) -> "Case":
        """Give the case of a text that `str` gave.

        Raises:
            ValueError: it is none.
        """
        told = dict(word.partition("=")[::2] for word in text.split())
        try:
            kinds = {each.name: each.type for each in fields(cls)}
            given = {name: kinds[name](value) for name, value in told.items()}  # type: ignore[operator]
            case = cls(**given)
            if not (case.point in POINTS and case.error in ZOO):
                raise KeyError(case.point, case.error)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"expected a case as a failure tells it, got {text!r}") from error
        return case


@functools.cache
def hits(point: str, workers: int) -> int:
    """Count how often a run in which nothing fails passes a point."""
    return Watched(Case(point, hit=0, workers=workers)).plan.hits


def cases(point: str) -> Iterator[Case]:
    """Give each exception of the zoo, once and from then on, at every number of workers.

    The hit goes on from case to case, so that every hit of a run without failures fails.
    """
    for workers in POINTS[point].workers:
        most = hits(point, workers)
        for always in (0, 1):
            for number, error in enumerate(ZOO):
                if possible(point, error):
                    ahead = 1 + number // most % 2
                    yield Case(point, 1 + number % most, always, error, workers, ahead)
                    if POINTS[point].out == "close":
                        yield Case(point, 1 + number % most, always, error, workers, ahead, 1)


def drawn(rng: random.Random) -> Case:
    """Draw a case from a `random.Random`."""
    while True:
        point, error = rng.choice(list(POINTS)), rng.choice(list(ZOO))
        if possible(point, error):
            break
    workers = rng.randint(min(POINTS[point].workers), 5)
    hit = rng.randint(1, hits(point, workers))
    body = rng.randint(0, 1) if POINTS[point].out == "close" else 0
    return Case(point, hit, rng.randint(0, 1), error, workers, rng.randint(1, 4), body)


def possible(point: str, error: str) -> bool:
    """Tell whether a point can raise an exception.

    A bare thread is one call into C: what comes out of that and is no `Exception` is a Ctrl-C
    behind the call, when the thread is running already.
    """
    if POINTS[point].given in ("cache", "save"):
        return error != "unasked"  # what the system raises is no class of somebody's
    return point != "launch" or issubclass(kind(error), Exception)


def sure(case: Case) -> bool:
    """Tell whether its point is passed: how many threads open something is theirs to say."""
    return POINTS[case.point].given != "factory" or case.workers < 2


def run(case: Case) -> int:
    """Run a case; give how many failures were raised.

    Raises:
        Wrong: something that is promised does not hold.
    """
    threads, files = set(threading.enumerate()), open_files()
    try:
        one = Watched(case)
        raised = len(one.plan.raised)
        one.expect(raised > 0 or not sure(case), "the point was not passed so often")
        one.forget()
        del one
        _nothing_left(case, threads, files)
    except Wrong as wrong:
        wrong.add_note(f"the case: {case}")
        raise
    return raised


def _nothing_left(case: Case, threads: set[threading.Thread], files: set[str]) -> None:
    left: Any = set(threading.enumerate()) - threads
    if left:
        raise Wrong(f"threads are left: {left}")
    found = gc.collect()
    if found and case.error not in CYCLIC:
        raise Wrong(f"{found} objects were in cycles")
    left = [type(each).__qualname__ for each in gc.get_objects() if _ours(type(each))]
    if left:
        raise Wrong(f"objects are left: {left}")
    if open_files() != files:
        raise Wrong(f"files are left open: {open_files() ^ files}")


def _ours(each: type) -> bool:
    return each is Payload or str(each.__module__).startswith(("threadloader.", "failing"))


def open_files() -> set[str]:
    """Name the files that this process holds open, where the system can say so."""
    if not os.path.isdir("/proc/self/fd"):
        return set()
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return {name for name in found if not name.endswith("/fd")}


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let garbage be collected between two cases only, and only that of the case be looked at."""
    for point in POINTS:  # what is made once, and kept
        Watched(Case(point, hit=0, workers=1))
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    gc.freeze()
    log = logging.getLogger("threadloader")
    before, log.disabled = log.disabled, True  # what a cache says of a disk that fails
    try:
        yield
    finally:
        log.disabled = before
        gc.unfreeze()
        if collecting:
            gc.enable()
