"""Waits for workers that were told to end, and says which of them are stuck."""

from __future__ import annotations

from collections.abc import Sequence

from .._runtime import Runtime, Thread
from ._slots import Worker

__all__ = ["join"]

IDLE_SECONDS = 0.1
"""How long an idle worker may take to leave. Those at work have at least this long together, since
one may have given its last result, and be letting go of the job."""

LOOK_SECONDS = 0.1
"""Time from one look at a worker to the next. Chosen: as `Runtime.wait` does."""


def join(
    crew: Sequence[tuple[Worker, Thread]], seconds: float, bound: float, runtime: Runtime
) -> list[str]:
    """Join workers that were told to end; give what to say of those that are left behind.

    Args:
        crew: their facts and threads.
        seconds: how long to wait for those that are at work, all together.
        bound: how many seconds they will have had since they were told to end, as the text says it.
        runtime: where the clock and the stacks come from.
    """
    stuck = []
    left = max(seconds, IDLE_SECONDS)
    for worker, thread in crew:
        # An idle one needs a moment to leave, whatever the others took.
        least = 0.0 if worker.job is not None else IDLE_SECONDS
        left -= _wait(thread, max(left, least), runtime)
        if thread.is_alive():
            text = f"{thread.name} has not ended within {bound:g} s and is left behind; it is at "
            stuck.append(f"{text}{worker}\n{runtime.stack(thread.ident)}")
    return stuck


def _wait(thread: Thread, seconds: float, runtime: Runtime) -> float:
    """Wait for a thread to end; give the seconds that count.

    Each look counts with its planned length at most, whatever a clock says: while the whole
    process was stopped, no worker had that time.
    """
    left = seconds
    while True:
        began, look = runtime.monotonic(), min(left, LOOK_SECONDS)
        thread.join(look)
        if not thread.is_alive():
            return seconds - left + min(runtime.monotonic() - began, look)
        left -= look
        if left <= 0:
            return seconds
