"""The engine's life: started once, stopped once, and stopped when it is forgotten."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Iterator

from .. import _runtime
from .._runtime import Runtime, Thread
from ._slots import Job
from ._stream import Stream
from ._threads import STOP, Shared, abandon, feed, inside, launch

__all__ = ["Engine"]

log = logging.getLogger("threadloader")

GRACE_SECONDS = 0.2
"""How much longer than its bound `stop` waits for the feeder's own report."""


class Engine:
    """Worker threads and their feeder: made, started once, stopped once.

    Args:
        num_workers: threads that run jobs, at least 1.
        close_timeout: bound of `stop`, in seconds.
        runtime: where threads, queues, locks and clock come from.
    """

    def __init__(
        self, num_workers: int, close_timeout: float, runtime: Runtime = _runtime.RUNTIME
    ) -> None:
        self._runtime = runtime
        self._shared = Shared(runtime, num_workers, close_timeout)
        self._feeder: Thread | None = None
        self._launched = False
        self._pid = os.getpid()
        # Ends the threads of an engine that was dropped without a stop.
        self._finalizer = weakref.finalize(self, abandon, self._shared)
        self._finalizer.atexit = False

    def start(self) -> None:
        """Start the threads: all of them, or none.

        Raises:
            RuntimeError: the system starts no more threads.
        """
        shared = self._shared
        feeder = self._feeder = self._runtime.thread(feed, (shared,), "threadloader-feeder")
        _running.add(self)
        # Before, so that a stop after an interrupt right behind the launch waits for it.
        self._launched = True
        try:
            self._runtime.launch(lambda: launch(feeder, shared))
        except RuntimeError:
            self._launched = False
            raise
        outcome = shared.started.wait()
        if outcome is None or outcome.error is None:
            return
        # The error's traceback leads here: neither the outcome nor this frame may keep it.
        error, outcome.error = outcome.error, None
        try:
            raise error
        finally:
            del error

    def stream(self, jobs: Iterator[Job], depth: int) -> Stream:
        """Give the results of some jobs. A stream that went before must be cancelled first."""
        return Stream(self._shared, jobs, depth)

    @property
    def usable(self) -> bool:
        """False once stopped, and in a forked child, which has none of the threads."""
        return not self._shared.stopping and self._pid == os.getpid()

    def stop(self) -> None:
        """End the threads. Harmless a second time, in any thread, and in a forked child.

        1. Tell the workers to begin nothing more.
        2. Tell the feeder: it wakes whoever waits, sends each worker a sentinel, joins the
           workers with a bound, logs those that are stuck, and reports.
        3. Wait for its report, with a bound; but not in one of these threads.
        4. Join the feeder, which has nothing left to do.
        """
        if self._pid != os.getpid():
            return
        shared = self._shared
        shared.stopping = True
        shared.inbox.put(STOP)
        self._finalizer.detach()
        _running.discard(self)
        feeder = self._feeder
        if feeder is None or not self._launched or inside(shared):
            return
        if shared.end.wait(shared.close_timeout + GRACE_SECONDS) is None:
            log.error(
                "the feeder has not ended within %g s; it is at\n%s",
                shared.close_timeout,
                self._runtime.stack(feeder),
            )
        elif feeder.ident is not None:
            feeder.join(GRACE_SECONDS)


class _Running:
    """Engines that are running, for the exit hook.

    By id and not in a WeakSet: the callback by which a dead one leaves that is Python code,
    and would swallow a Ctrl-C that lands in it.
    """

    def __init__(self) -> None:
        self._engines: dict[int, weakref.ref[Engine]] = {}
        # Guards _engines; a raw lock, since the consumer takes it.
        self._guard = _runtime.RUNTIME.lock()

    def add(self, engine: Engine) -> None:
        with self._guard:
            for dead in [number for number, there in self._engines.items() if there() is None]:
                del self._engines[dead]
            self._engines[id(engine)] = weakref.ref(engine)

    def discard(self, engine: Engine) -> None:
        with self._guard:
            self._engines.pop(id(engine), None)

    def stop(self) -> None:
        """Stop what was left open, before the interpreter goes down under running threads."""
        with self._guard:
            engines = [there() for there in self._engines.values()]
        for engine in engines:
            if engine is not None:
                engine.stop()


_running = _Running()
atexit.register(_running.stop)
if hasattr(os, "register_at_fork"):
    # In a forked child no engine runs, and the guard may have been held at the fork.
    os.register_at_fork(after_in_child=_running.__init__)  # type: ignore[misc]
