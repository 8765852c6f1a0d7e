"""The interpreter's switch interval, shortened while a loader asks for it.

A thread that wants the GIL waits for up to the switch interval, 5 ms by default, until the
one that holds it must let go. With a training loop in pure Python every read of a worker
comes back into that wait. The interval belongs to the process: so it is changed only where
a config asks for it, the shortest of several loaders holds, and it is put back at the end.
"""

from __future__ import annotations

import math
import os
import sys
import threading

__all__ = ["AUTO_SECONDS", "restore", "shorten"]

AUTO_SECONDS = 0.0005
"""What ``"auto"`` sets. With 4 workers on reads of 1 ms beside a Python step of 8 ms, two cores,
CPython 3.11, steps a second against no loading were 0.61 at 5 ms, 0.79 at 1 ms, 0.91 at 0.5 ms
and 0.85 at 0.2 ms: below, switching itself takes more from the loop than it gives."""

# Guards the rest. It may be taken again: a garbage collection in these lines may end a loader.
_guard = threading.RLock()
_wanted: dict[object, float] = {}
_before = 0.0  # what was set when the first loader asked
_ours: tuple[float, ...] = ()  # what we have set since; inside `_apply` the old and the new one


def shorten(owner: object, seconds: float) -> bool:
    """Shorten the interval for a loader.

    Args:
        owner: who asks, for `restore`.
        seconds: the interval; one that is longer than what is set changes nothing.

    Returns:
        Whether that is shorter than what was set before any loader asked, and is heeded.
    """
    global _before, _ours  # noqa: PLW0603 - the interval is the process's as well
    with _guard:
        if not _wanted:
            _before = sys.getswitchinterval()
            _ours = (_before,)
        _wanted[owner] = seconds
        _apply()
        return seconds < _before and _is_ours()


def restore(owner: object) -> None:
    """Take back what a loader asked for; harmless if it did not."""
    with _guard:
        if owner in _wanted:
            # The entry goes when the interval is back: if interrupted, this can be done again.
            _wanted[owner] = math.inf
            _apply()
            _wanted.pop(owner, None)


def _apply() -> None:
    global _ours  # noqa: PLW0603
    # Somebody else's later choice is left alone.
    while _is_ours():
        shortest = min([_before, *_wanted.values()])
        # Both are ours: an interrupt after the call must not make the new one somebody else's.
        _ours = sys.getswitchinterval(), shortest
        sys.setswitchinterval(shortest)
        _ours = (sys.getswitchinterval(),)
        if shortest == min([_before, *_wanted.values()]):  # else a loader ended in between
            return


def _is_ours() -> bool:
    """Whether what is set is what we have set; the interpreter keeps whole microseconds."""
    now = sys.getswitchinterval()
    # A list: `any` would leave a generator unfinished, whose closing swallows a Ctrl-C.
    return bool([ours for ours in _ours if abs(now - ours) < 1e-6])


def _in_child() -> None:
    """Put the interval back in a forked child, which has none of the threads it was shortened for.

    Nor has it the thread that may have held the guard.
    """
    global _guard, _ours  # noqa: PLW0603
    _guard = threading.RLock()
    if _wanted and _is_ours():
        sys.setswitchinterval(_before)
    _wanted.clear()
    _ours = ()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_in_child)
