"""The engine's life: started once, stopped once, and stopped when it is forgotten."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable, Iterator

from .. import _runtime
from .._runtime import Runtime, Thread
from ..errors import ClosedError, ConfigError, Problem, from_signal
from ._feeder import end_without_feeder, feed, start_feeder
from ._joining import join
from ._log_thread import SAY_SECONDS, say
from ._outcome import ENDED, Job, Outcome
from ._ownership import forked, here
from ._shared import HELD_SECONDS, STOP, Shared
from ._stream import Stream
from ._watch import Watch

__all__ = ["FEWER", "Engine"]

FEWER = "give fewer (0 needs none)"
"""What to do where the system starts no more threads."""
if sys.platform != "win32":
    FEWER += ", or raise what bounds them: ulimit -u, a container's limit of pids, or ulimit -v, "
    FEWER += "since each has a stack of ulimit -s"

GRACE_SECONDS = 0.2
"""How much longer than its bound `stop` waits for the feeder's own report."""

START_SECONDS = 60.0
"""How long all threads together may take to start. Chosen: 128 take 0.01 to 0.2 seconds. A new
thread that finds no memory for its first line dies, and whoever starts it waits for ever."""


class Engine:
    """Worker threads and their feeder: made, started once, stopped once.

    Args:
        num_workers: threads that run jobs, at least 1.
        close_timeout: bound of `stop`, in seconds.
        runtime: where threads, queues, locks and clock come from.
        stall_seconds: how long nothing may move while the consumer waits; infinite for ever. None
            for no watch, which would not even miss a thread that has died.
        max_bytes: bound of the results that wait for the consumer; None for none.
        stall_raises: whether the consumer gets a `StalledError` then, and not only a log.

    Attributes:
        mark: what `here.shared` is in its threads, and in one that logs for its stop.
    """

    def __init__(
        self,
        num_workers: int,
        close_timeout: float,
        runtime: Runtime = _runtime.RUNTIME,
        *,
        stall_seconds: float | None = None,
        stall_raises: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        self._runtime = runtime
        self._shared = self.mark = Shared(runtime, num_workers, close_timeout, max_bytes)
        self._feeder: Thread | None = None
        self._stall = stall_seconds, stall_raises
        self._watch: Watch | None = None
        # Ends the threads of an engine that was dropped without a stop.
        self._finalizer = weakref.finalize(self, _abandon, self._shared)
        self._finalizer.atexit = False

    def start(self) -> None:
        """Start the threads: all of them, or an error, after which a stop ends those there are.

        Raises:
            ConfigError: gevent has replaced what they are made of.
            RuntimeError: the system starts no more threads, or one does not come to life.
            ClosedError: it was stopped before, or the interpreter shuts down.
        """
        shared = self._shared
        if shared.stopping:  # nobody would wait for threads that start now
            raise ClosedError("the Loader was closed while it was being entered")
        # Greenlets would wait for one another, in vain and for ever.
        if self._runtime.threads_replaced():
            raise ConfigError(
                Problem(
                    "/num_workers",
                    "0 where gevent has patched Python's threads or queues",
                    f"{shared.num_workers}",
                    "or patch neither: monkey.patch_all(thread=False, queue=False)",
                )
            )
        feeder = self._runtime.thread(feed, (shared,), "threadloader-feeder")
        seconds, raises = self._stall
        if seconds is not None:
            self._watch = Watch(shared, feeder, seconds, raises=raises)
        _running[id(shared)] = weakref.ref(self)
        # Stored first, so that a stop waits for it even if an interrupt comes right after launch.
        self._feeder = feeder
        try:
            self._runtime.launch(start_feeder, (feeder, shared))
        except Exception as failed:  # noqa: BLE001 (raised again)
            # What a signal handler raises comes after the launch.
            self._feeder = feeder if from_signal(failed) else None
            # Not in a variable, which would make a cycle of the error and this frame.
            raise _refused(failed, shared.num_workers)  # noqa: B904 (it is that one, or its context)
        outcome = shared.started.wait(START_SECONDS)
        if outcome is None:
            if forked(shared):  # meanwhile, by a signal's handler
                raise ClosedError("the process was forked while the Loader was being entered")
            asks = f'"num_workers" asks for {shared.num_workers} threads'
            late = f"they have not started within {START_SECONDS:g} s, as where memory is short"
            raise RuntimeError(f"{asks}, and {late}; {FEWER}")
        if outcome.error is None:
            return
        # The error's traceback leads here: neither the outcome nor this frame may keep it.
        error, outcome.error = _refused(outcome.error, shared.num_workers), None
        try:
            raise error
        finally:
            del error

    def stream(self, jobs: Iterator[Job], depth: int) -> Stream:
        """Give the results of some jobs. A stream that went before must be cancelled first."""
        return Stream(self._shared, jobs, depth, self._watch)

    @property
    def usable(self) -> bool:
        """False once stopped, and in a forked child, which has none of the threads."""
        return not (self._shared.stopping or forked(self._shared))

    @property
    def failed(self) -> Outcome | None:
        """What one of its threads has raised outside of a job, which has ended it; or None."""
        return self._shared.failed

    @property
    def gil_delay(self) -> float:
        """Seconds for which the loop keeps the GIL from a worker, as measured now and then."""
        return self._shared.gil_delay

    @property
    def gil_held(self) -> bool:
        """Whether that delay is so long that the consumer must be holding the GIL."""
        return self._shared.gil_delay > HELD_SECONDS

    @property
    def processors(self) -> float:
        """How many processors ran the workers lately, all together, judged by the first of them."""
        return self._shared.running * self._shared.num_workers

    @property
    def peak_bytes(self) -> int:
        """The most bytes of results that were ready at once; 0 where they are not bounded."""
        return self._shared.peak_bytes

    def tell(self) -> None:
        """Tell the threads to end, and wait for nothing."""
        if not forked(self._shared):
            self._shared.stopping = True
            self._shared.inbox.put(STOP)

    def end_with(self, behind: Callable[[], object]) -> None:
        """Have the feeder call this when all threads have ended; from one of them, before a stop.

        A thread cannot wait for itself, and nobody else may stop the engine after it; if somebody
        does before the feeder has come to it, it is theirs. What it raises then is told by
        `threading.excepthook`.
        """
        self._shared.behind = behind

    def stop(self) -> bool:
        """End the threads. Harmless a second time, in any thread, and in a forked child.

        1. Tell the workers to begin nothing more.
        2. Tell the feeder: it wakes whoever waits, sends each worker a sentinel, joins the
           workers with a bound, logs those that are stuck, and reports.
        3. Wait for its report, with a bound; but not in one of these threads. Where none comes, as
           the iterator of jobs hangs, do in its place what step 2 says.
        4. Join the feeder, which has nothing left to do.

        Returns:
            Whether they have ended, or have been given up; False in one of these threads.
        """
        shared, feeder = self._shared, self._feeder
        self.tell()
        self._finalizer.detach()
        _running.pop(id(shared), None)
        if feeder is None or forked(shared):
            return True
        if here.shared is shared:
            return False
        shared.behind = None  # whoever stops it here does that, and gets its errors
        ended = shared.end.wait(shared.close_timeout + GRACE_SECONDS)
        if ended is None and shared.saying:  # the log has a bound of its own
            ended = shared.end.wait(SAY_SECONDS)
        if ended is None and forked(shared):  # meanwhile, as in `start`
            return True
        if ended is None:
            at = f"at {shared.finished_by_feeder()}".rstrip()
            text = f"the feeder has not ended within {shared.close_timeout:g} s; it is {at}\n"
            text += self._runtime.stack(feeder.ident)
            try:
                # In the feeder's place; in a bare thread, where no signal can interrupt the queue.
                self._runtime.launch(end_without_feeder, (shared,))
            except RuntimeError as error:  # no thread begins while the interpreter shuts down
                if from_signal(error):
                    raise
                end_without_feeder(shared)
            stuck = join(shared.crew, 0.0, shared.close_timeout, self._runtime)
            shared.crew = ()  # before the fill: another thread's stop is not to join them again
            shared.end.fill(ENDED)  # a second stop waits no more
            say(shared, "error", [text, *stuck])
        elif feeder.ident is not None and here.ended is not shared:  # else this is the feeder
            feeder.join(GRACE_SECONDS)
            if shared.crew:  # left by a feeder that has failed at its end
                bound = shared.close_timeout
                if stuck := join(shared.crew, bound, bound, self._runtime):
                    say(shared, "error", stuck)
        shared.crew = ()  # its facts lead back to what holds them (G10)
        return True


def _refused(error: BaseException, num_workers: int) -> BaseException:
    """Give what to raise where the system has refused a thread, with a note of what asks for it."""
    at_shutdown = ("can't create new thread at interpreter shutdown",)  # CPython >= 3.12
    if issubclass(type(error), RuntimeError) and error.args == at_shutdown:
        return ClosedError("a Loader cannot be entered while the interpreter shuts down")
    if type(error) is RuntimeError and error.args == ("can't start new thread",):
        error.add_note(
            f'threadloader: "num_workers" asks for {num_workers} threads, besides one that feeds '
            f"them and one that starts them, which are more than the system starts; {FEWER}"
        )
    return error


_running: dict[int, weakref.ref[Engine]] = {}
"""Engines that are running, for the exit hook. Without a lock: each use is one operation of
a dict, since a signal handler or a finalizer may close a loader between any two. And not
a WeakSet, whose callbacks are Python code and would swallow a Ctrl-C that lands in them."""


def _abandon(shared: Shared) -> None:
    """The finalizer of an engine that was dropped: it waits for nothing."""
    _running.pop(id(shared), None)
    shared.stopping = shared.abandoned = True
    shared.inbox.put(STOP)


@atexit.register
def _stop_all() -> None:
    """Stop what was left open, before the interpreter goes down under running threads."""
    engines = [engine for there in _running.copy().values() if (engine := there()) is not None]
    # All are told before any is waited for, so that one bound is enough for them together.
    for engine in engines:
        engine.tell()
    for engine in engines:
        engine.stop()
