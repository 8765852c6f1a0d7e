"""Logs in a thread of its own, with a bound: the thread told of may be stuck in the log itself.

And warns of a loader that was dropped without being closed.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Literal

from .._runtime import RUNTIME
from ..errors import log
from ._outcome import attempt, caught
from ._ownership import here

__all__ = ["SAY_SECONDS", "say", "warn_of_dropped"]

SAY_SECONDS = 1.0
"""How long `say` waits for the log. Chosen: a log that works needs some milliseconds, and the
second that a stuck one costs is short beside the bound of a stop."""


def say(shared: object, how: Literal["error", "warning"], texts: Sequence[str]) -> None:
    """Log something, wait for it with a bound, and raise nothing that logging raises (G6, G11).

    The stuck thread may hold the lock of a handler for good, and a log may be closed. So another
    thread writes: if it gets stuck, too, it is left behind, and what logging raises ends it, which
    `threading.excepthook` reports.

    Args:
        shared: the `Shared` of the engine whose stop waits for this log; None if none does. The
            thread that writes counts as one of that engine's: otherwise a handler in it that closes
            the loader would wait for itself.
        how: the method of the log.
        texts: what is said, each a record.
    """
    written = RUNTIME.lock()
    written.acquire()

    # Not the method itself: a record names the module that calls it, which would be contextlib.
    def record(text: str) -> None:
        log(how, "%s", text)

    def write() -> None:
        before = here.shared
        try:
            here.shared = shared
            with ExitStack() as each:  # each text is logged, even if logging another one raises
                for text in reversed(texts):
                    each.callback(record, text)
        finally:
            here.shared = before
            written.release()

    thread = RUNTIME.thread(write, (), "threadloader-log")

    def begin(call: Callable[..., tuple[Any, BaseException | None]]) -> None:
        # No thread starts when the interpreter ends. There `logging.shutdown` waits for the locks
        # of all handlers anyway, so that nothing is lost by writing in this thread.
        if call(thread.start)[1] is not None:
            call(write)

    # No signal lands in a bare thread; and asking there whether one did (`attempt`) would enter the
    # thread into the list of `threading` for good.
    if attempt(RUNTIME.launch, begin, (caught,))[1] is not None:
        begin(attempt)
    if RUNTIME.wait(written, SAY_SECONDS) and thread.ident is not None:
        thread.join(SAY_SECONDS)


def warn_of_dropped() -> None:
    """Warn of a loader that was dropped without being closed, as Python does of a file.

    As there, it comes from where an object ends: if warnings are errors, what it raises goes to
    `sys.unraisablehook`, and ends no thread.
    """
    ending: set[None] = set()
    watch = weakref.ref(ending, _warn)
    del ending, watch  # in this order: the end of the first one calls `_warn`


def _warn(_ended: object) -> None:
    text = "a loader was dropped without being closed; use `with Loader(...) as batches:` or call "
    warnings.warn(text + "`batches.close()`", ResourceWarning, stacklevel=1)
