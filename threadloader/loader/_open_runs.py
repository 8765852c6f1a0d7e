"""All live runs, and what a fork or the interpreter's end does to them.

In a forked child there are none of the threads that were at work in a run: a lock that one held
is held for ever, and what it would have done after its work is never done. When the interpreter
ends, what was left open is closed.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING

from .. import _runtime
from ..errors import from_signal
from ..sources import close_all
from ._turn import is_free

if TYPE_CHECKING:
    from ._batches import Batches

__all__ = ["follow"]

PATIENCE_SECONDS = 0.5
"""How long the program's end waits for daemon threads, all together. Chosen: a traceback is printed
in some milliseconds."""

_runs: dict[weakref.ref[Batches], bool] = {}
"""The runs that there are, and whether the program's end has come to each. Without a lock: each use
is one operation of a dict. And not a WeakSet, whose callbacks are Python code and would swallow a
Ctrl-C that lands in them."""


def follow(batches: Batches) -> None:
    """Look after a run, here and in forked children, for as long as somebody holds it."""
    # zarr, for one, stops the thread that reads for all others when the program ends.
    batches._runtime.first_at_exit(_close_all)
    _runs[weakref.ref(batches, _runs.pop)] = False


def _held() -> list[Batches]:
    return [batches for there in _runs.copy() if (batches := there()) is not None]


@atexit.register  # besides `follow`: what an exit function opens is too late for that
def _close_all() -> None:
    """Close what was left open, before the interpreter goes down under threads and files.

    Called twice, it waits for nothing the second time. Not in a forked child: what is open there is
    its parent's.
    """
    ours = [batches for batches in _held() if batches._run.forks == _runtime.forks]
    left_open = [it for it in ours if not it._ended and not _runs.get(weakref.ref(it))]
    looping = {it._run.looping for it in left_open if it._run.results.place.is_live}
    # All are told before any is waited for, so that one bound is enough for them together.
    for batches in left_open:
        for engine in (batches._supply.engine, *batches._supply.inline):
            engine.tell()
    try:
        close_all([partial(_close, batches) for batches in left_open])
    finally:
        _await_loops(looping)


def _close(batches: Batches) -> None:
    """Close a run, once: what is stuck is not waited for again. An interrupt does not count."""
    try:
        batches.close()
    except BaseException as error:
        if from_signal(error):
            raise
        _runs[weakref.ref(batches)] = True
        raise
    _runs[weakref.ref(batches)] = True


def _await_loops(idents: set[int]) -> None:
    """Wait for daemon threads that were in a loop over batches, up to a bound.

    They may get a `ClosedError` now, which `threading` prints. A thread that prints while the
    interpreter goes down may hold the lock of stderr for ever, and Python aborts the program.
    """
    end, others = time.monotonic() + PATIENCE_SECONDS, idents - {threading.get_ident()}
    for thread in threading.enumerate():
        # What `threading` has not started cannot be waited for; nor can this very thread.
        foreign = isinstance(thread, threading._DummyThread)
        if thread.daemon and thread.ident in others and not foreign:
            # Not a `join` of the user's own class, which may wait for ever.
            threading.Thread.join(thread, max(0.0, end - time.monotonic()))


def _forked() -> None:
    """Free all runs in a forked child of what other threads were doing, before anything else."""
    for batches in _held():
        _leave_behind(batches)


def _leave_behind(batches: Batches) -> None:
    """Drop what other threads were doing; the thread that has forked goes on with its own work."""
    run, supply = batches._run, batches._supply
    if run.turn.forked():
        run.since = None  # nobody waits any more
        supply.forked()
        stream = run.results.place.stream
        if stream is not None:  # a job that is half made may have a lock that is held for ever
            stream.cancel()
    if not is_free(batches._closing):
        batches._closing, batches._at_source = batches._runtime.turn(), False
    if not is_free(batches._saving):
        batches._saving = batches._runtime.turn()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_forked)
