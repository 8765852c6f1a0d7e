"""Experiments with threads: is one part alone safe for several at once, and does a lock help?"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections.abc import Collection, Sequence
from queue import SimpleQueue
from typing import NamedTuple

from ._case import Case, hurried
from ._plan import Leg, Run
from ._record import Tape, follow
from ._result import Call, result

__all__ = ["Stress", "differs", "stressed"]

THREADS = 8

SECONDS = 1.0
"""How long one run may be compared."""

ENOUGH = 20
"""How many wrong results are enough: then a thread stops all."""


class Stress(NamedTuple):
    """What came of making calls in several threads at once.

    Attributes:
        calls: how many were made.
        wrong: how many of them gave something else than in one thread.
        threads: in how many threads.
    """

    calls: int
    wrong: int
    threads: int = THREADS


def stressed(
    calls: Sequence[Call], seconds: float, *, lock: bool = False, count: int = THREADS
) -> Stress:
    """Make calls in threads that take turns as often as they can, for so many seconds at most.

    All calls are of one part, with another sample each, and give the same in one thread. With
    `lock` one is made at a time. Where the system starts fewer than `count` threads, two suffice.
    """
    expected = [result(call) for call in calls]
    guard = threading.Lock() if lock else contextlib.nullcontext()
    counts: list[tuple[int, int]] = []
    # No Event: a Ctrl-C inside of one may leave its lock held, and setting it would wait for ever.
    begin: SimpleQueue[None] = SimpleQueue()
    stop: list[bool] = []
    deadline = time.monotonic() + seconds

    def work(number: int) -> None:
        made = wrong = 0
        begin.get()
        while not stop and time.monotonic() < deadline:
            # Neighbours are at different samples: the same one would hide a mix-up.
            at = (number + made) % len(calls)
            with guard:
                got = result(calls[at])
            made += 1
            wrong += got != expected[at]
            if wrong >= ENOUGH:
                stop.append(True)
        counts.append((made, wrong))

    # Daemons: a call that never returns must not keep the command from ending after a Ctrl-C.
    threads = [
        threading.Thread(target=contextvars.Context().run, args=(work, number), daemon=True)
        for number in range(count)
    ]
    with hurried():
        try:
            started = _started(threads)
            for _ in started:
                begin.put(None)
            for thread in started:
                thread.join()
        except BaseException:
            stop.append(True)
            for _ in threads:
                begin.put(None)
            raise
    wrong = sum(wrong for _, wrong in counts)
    return Stress(sum(made for made, _ in counts), wrong, len(started))


def _started(threads: list[threading.Thread]) -> list[threading.Thread]:
    """Start threads, two at least; give those that the system has started."""
    for number, thread in enumerate(threads):
        try:
            thread.start()
        except RuntimeError as error:
            if number < 2 or error.args != ("can't start new thread",):
                raise
            return threads[:number]
    return threads


def differs(case: Case, tape: Tape, depth: int, guarded: Collection[str]) -> bool:
    """Whether a hurried run with 8 workers differs from the first one, as far as time allows."""
    deadline = time.monotonic() + SECONDS
    run = Run((Leg(THREADS, depth, hurried=True),))
    with contextlib.closing(follow(case, run, tape, guarded)) as items:
        for item in items:
            if item.mark != tape.marks.get(item.place):
                return True
            if time.monotonic() > deadline:
                return False
    return False
