"""Experiments on one call in one thread: is it repeatable, and if not, what does it depend on?"""

from __future__ import annotations

import contextvars
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import ends
from ..fingerprint import digest
from ._clock import clock_ahead, stopped_clock
from ._inner_state import changed, held
from ._result import RAISED, Call, result, seen

__all__ = ["CALLS", "Repeat", "elsewhere", "overwritten", "repeated"]

CALLS = 32
"""How often a call is repeated to see it differ. Chosen: where one result in ten does, it
is seen in 97% of cases."""

SECONDS = 0.5
"""How much longer than its least time `repeated` may wait for a result that differs."""

TICK_SECONDS = 0.03
"""The least time of `repeated`: in it every clock moves that does not count whole seconds; the
coarsest does by 16 ms."""

AHEAD_SECONDS, FAR_AHEAD_SECONDS = 1.5, 61.5
"""How far ahead the clock is moved, to see a dependence on whole seconds and, where a run differs,
on minutes. Chosen: no more, since code that notes a deadline meanwhile may wait for that long."""

MANY = 3000
"""How many calls are enough, at most, to see that results do not differ."""

FEW, SLOW_SECONDS = 12, 0.02
"""For that FEW calls may be enough, and not CALLS, where one takes longer than SLOW_SECONDS."""

SIZES, ALIKE = range(16, 512, 2 * np.dtype(np.intp).itemsize), 7
"""Before each call, small objects of these sizes are freed, so that what the call makes lands at
other addresses. SIZES: bytes, all to which CPython's allocator rounds; ALIKE: how many of each, and
how many such sets are made at once. Chosen: CPython keeps 80 freed objects of some types for reuse,
and with an odd number addresses differ in more of their bits."""


class Repeat(NamedTuple):
    """What came of repeating a call.

    Attributes:
        differs: at which call, from 2 on, it gave something else; 0: it always gave the same.
        calls: how many were made, the last time.
        moved: the global random states that the calls changed.
        tried: whether it was tried with these states put back, and with the clock stopped; not
            where by then it always gave the same by itself.
        by_state: whether it always gives the same with these states put back before each call.
        by_clock: whether it always gives the same with the clock stopped.
        ahead: by how many seconds the clock was ahead when the result was another one, every
            time, while without that it stayed the same; 0 if that was not seen.
        places: names of what the function itself keeps and the calls changed.
    """

    differs: int
    calls: int
    moved: tuple[str, ...]
    tried: bool = False
    by_state: bool = False
    by_clock: bool = False
    ahead: float = 0
    places: tuple[str, ...] = ()


def _small() -> list[Any]:
    """Make objects of each small size, and of the types that CPython keeps for reuse when freed."""
    return [
        [
            [bytes(size) for size in SIZES],
            [(None,) * size for size in range(1, 20)],
            (object(), {"": number}, float(number)),
        ]
        for number in range(ALIKE)
    ]


def repeated(call: Call, function: Any, most: int = CALLS, seconds: float = TICK_SECONDS) -> Repeat:
    """Repeat a call until it gives something else; then find out what it depends on.

    The global random states are left as they were.

    Args:
        call: the call.
        function: what it calls in the end: what that keeps is looked at.
        most: how often it is called.
        seconds: for how long at least, unless `most` is less than by default.
    """
    before = _states()
    try:
        # Earlier calls may have left the states as this one seeds them: it would move nothing.
        _stir()
        stirred = _states()
        kept, began = held(function), time.monotonic()
        trial = _Trial(call, function, full=most >= CALLS)
        first, differs, calls = trial.anew(), 0, 1
        other = first
        moved = _moved(stirred, _states())
        least = began + (seconds if trial.full else 0)
        while not differs and (calls < most or time.monotonic() < least):
            if time.monotonic() > began + seconds + SECONDS:
                break
            calls += 1
            other = trial.anew()
            differs = calls if other != first else 0
        places = tuple(changed(kept, held(function)))
        # So often that the same result is no chance, even if only two are possible.
        quick = time.monotonic() - began < calls * SLOW_SECONDS
        trial.again = max(min(3 * calls, MANY), CALLS if quick else FEW)
        if not differs:
            return Repeat(0, calls, moved, ahead=trial.ahead(first), places=places)
        # A call that is steady by itself by now, as after a first one, tells nothing of the causes.
        tried = not trial.steady(lambda: None, time.monotonic() + TICK_SECONDS)
        by_state = tried and bool(moved) and trial.steady(lambda: _put_back(before))
        by_clock = tried and not by_state and trial.steady_by_clock((first, other))
        late = 0 if tried else trial.ahead(trial.anew())
        return Repeat(differs, trial.again, moved, tried, by_state, by_clock, late, places)
    finally:
        _put_back(before)


class _Trial:
    """A call, made again and again under conditions, and what it calls in the end.

    Attributes:
        full: whether it is called as often as by default.
        again: how many calls are enough to see that results do not differ.
    """

    def __init__(self, call: Call, function: Any, *, full: bool) -> None:
        self.full = full
        self.again = CALLS
        self._call = call
        self._function = function
        self._small: list[list[Any]] = []

    def anew(self) -> bytes:
        """Make the call, and give the digest of what it gives."""
        # Else a sample lies where the last one lay, and what depends on its address looks steady.
        if not self._small:
            self._small.extend(_small() for _ in range(ALIKE))
        self._small.pop()
        return result(self._call)

    def ahead(self, usual: bytes) -> float:
        """Give how many seconds ahead the clock was when the result was not the usual; 0: never."""
        by = FAR_AHEAD_SECONDS if self.full else AHEAD_SECONDS

        def later() -> bytes:
            with clock_ahead(self._function, by):
                return self.anew()

        if later() == usual:
            return 0
        with stopped_clock(self._function):  # else its next second might begin in between
            both = self.anew(), later()
            depends = both[0] != both[1] and not any(it.startswith(RAISED) for it in both)
            rounds = range(min(self.again, CALLS) // 2)
            return by if depends and all((self.anew(), later()) == both for _ in rounds) else 0

    def steady(self, prepare: Callable[[], object], end: float = 0) -> bool:
        """Say whether the call always gives the same, where `prepare` is called before each.

        It is made until `end` at least, on the monotonic clock.
        """
        prepare()
        first, made = self.anew(), 1
        while made < self.again or time.monotonic() < end:
            prepare()
            made += 1
            if self.anew() != first:
                return False
        return True

    def steady_by_clock(self, usual: tuple[bytes, ...]) -> bool:
        """Say whether the call always gives the same while the clock is stopped.

        `usual` are results where it is not.
        """
        with stopped_clock(self._function):
            # What fails only there, as by dividing by the time that has passed, shows nothing.
            given = self.anew()
            return (given in usual or not given.startswith(RAISED)) and self.steady(lambda: None)


def overwritten(first: Call, second: Call) -> bool:
    """Whether what one call has given changes by another call, of another result."""
    try:
        given = first()
        before = seen(given)
        second()
    except BaseException as error:  # of what fails, also by SystemExit, nothing is told
        if ends(error):
            raise
        return False
    return before != seen(given)


def elsewhere(call: Call) -> tuple[bytes, bytes]:
    """Give the result of a call in this thread, and in another one."""
    found: list[bytes] = []
    # A thread has a context of its own (contextvars, numpy.errstate, threading.local). Here it is
    # empty, as in the loader's threads, also where Python would hand on that of the starting one.
    # A daemon: a call that never returns must not keep the command from ending after a Ctrl-C.
    empty = contextvars.Context()
    thread = threading.Thread(target=lambda: found.append(empty.run(result, call)), daemon=True)
    here = result(call)
    thread.start()
    thread.join()
    return here, found[0]


def _states() -> dict[str, Any]:
    """Give the global random states."""
    states = {
        "the module random": random.getstate(),
        "numpy.random": np.random.get_state(),  # noqa: NPY002 - it is the old, global one
    }
    torch = sys.modules.get("torch")  # it is looked at where the user has imported it
    if torch is not None and hasattr(torch, "get_rng_state"):
        states["torch"] = torch.get_rng_state()
    return states


def _stir() -> None:
    """Draw from each global random state, so that it is not as seeding leaves it."""
    random.getrandbits(32)
    np.random.bytes(4)  # noqa: NPY002 - as above
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        torch.rand((), device="cpu")


def _put_back(states: dict[str, Any]) -> None:
    random.setstate(states["the module random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002 - as above
    if "torch" in states:
        sys.modules["torch"].set_rng_state(states["torch"])


def _moved(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in before if digest(before[name]) != digest(after[name]))
