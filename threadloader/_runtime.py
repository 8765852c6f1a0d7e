"""Threads, queues, locks and clocks: the one seam that tests replace.

All that the engine's threads do with each other goes through a `Runtime`, so that a test
can put a simulated one in its place and choose every interleaving. (What is logged about a stuck
thread is written by a real one in any case, that of `RUNTIME`.)
"""

from __future__ import annotations

import _thread
import atexit
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Protocol

import numpy as np

from .errors import by_handler

__all__ = ["RUNTIME", "Lock", "Runtime", "Thread", "Tickets"]

SIGNAL_SECONDS = 0.1
"""How often a wait looks for a signal that did not end it. Chosen: soon enough for whoever
presses Ctrl-C, and ten times a second cost nothing that can be measured."""

DEBUGGERS = (
    *("bdb.", "debugpy.", "pdb.", "pudb.", "pydevd."),
    *("IPython.core.debugger.", "IPython.terminal."),
)
"""Debuggers, by module or package, each with a dot behind it: while somebody looks at a thread in a
debugger, the debugger's functions stand in the thread's stack."""

HAVE_MODES = {"cupy", "jax", "mlx", "paddle", "sklearn", "tensorflow", "torch"}
"""Packages with settings that belong to a thread, and not to its context: devices, precision,
whether gradients are wanted. A worker has the defaults, whatever the loop has set."""

OWN_ERRSTATE = np.__version__.startswith("1.")
"""Whether `numpy.errstate` belongs to the thread; from 2.0 on it is the context's."""

ERRSTATE = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""The `numpy.errstate` that a thread begins with, where it belongs to the thread."""


forks = 0
"""How many forks lie between the process that imported this and the present one. Looking here takes
a tenth of the time of asking the system which process this is."""


def _forked() -> None:
    global forks  # noqa: PLW0603 (its process has but this one thread)
    forks += 1


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_forked)


_first: Callable[[], object] = object
"""What `Runtime.first_at_exit` registered last. Whoever enters a `Loader` may replace it; where two
threads do at once, one more stays registered, which finds nothing to do."""

_imported = 0
"""How many modules there were then."""


class Lock(Protocol):
    """A raw lock, as `_thread.allocate_lock` makes it.

    Written in C: an interrupt never leaves it half taken, and its ``with`` is entered and
    left as a whole, though not on CPython 3.14 (its issue 148874).
    """

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


class Thread(Protocol):
    """What the engine uses of a `threading.Thread`."""

    name: str

    @property
    def ident(self) -> int | None: ...
    def start(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class Tickets(queue.Queue[Any]):
    """A `queue.Queue` without a bound, with short forms of what is done for each part of a batch.

    Where 128 workers wait for storage, `put` and `get` were a third of all Python that runs for
    a sample. Nobody calls `join` of the queue, so these do not count unfinished tasks.
    """

    def put_all(self, items: list[Any]) -> None:
        """Put several at once, and wake as many of those that wait."""
        with self.mutex:
            self.queue.extend(items)
            self.not_empty.notify(len(items))

    def take(self) -> Any:
        """Give the oldest, waiting for it."""
        with self.mutex:
            while not self.queue:
                self.not_empty.wait()
            return self.queue.popleft()


class Runtime:
    """The standard library's threads, queues, locks and clock."""

    lock = staticmethod(_thread.allocate_lock)
    """Make a raw lock, not held. Each batch needs some: so this is the function itself in C."""

    turn = staticmethod(_thread.RLock)
    """Make a lock that its holder may take again. In C as well: each `next` needs one."""

    def simple_queue(self) -> queue.SimpleQueue[Any]:
        """Make a queue in C: no interrupt can break it, and finalizers may put on it."""
        return queue.SimpleQueue()

    def queue(self) -> Tickets:
        """Make a queue in Python: never to be touched by a thread that signals can hit."""
        return Tickets()

    def thread(self, target: Callable[..., None], args: tuple[Any, ...], name: str) -> Thread:
        """Make a thread, not yet started.

        A daemon for one case alone: user code that never returns must not keep the
        interpreter from ending. All others are joined before it does.
        """
        return threading.Thread(target=target, args=args, name=name, daemon=True)

    launch = staticmethod(_thread.start_new_thread)
    """Run a function in a short-lived bare thread: ``launch(function, args)``.

    `threading.Thread.start` waits on a `Condition`; an interrupt inside would leave its lock
    held and the new thread stuck on it. Where signals can land, starting a thread is
    therefore left to a bare one. This is the C function itself: no interrupt comes between
    the call and its effect. What it runs must be ours, and short: a bare thread is in no
    list of threads.
    """

    def wait(self, lock: Lock, timeout: float | None = None) -> bool:
        """Wait until a held lock is free, and leave it free, unless an interrupt comes at the end.

        Args:
            lock: a lock that another thread holds and will release.
            timeout: seconds to wait at most; None: without end.

        Returns:
            Whether it came free in time. Not in a child that a signal's handler forks meanwhile:
            the other thread is not there.
        """
        before = forks
        # Not one long wait: on Windows no Ctrl-C ends it, and elsewhere no signal that came after
        # the interpreter's last look for signals, or in another thread.
        left = float("inf") if timeout is None else max(timeout, 0)
        while not lock.acquire(timeout=min(left, SIGNAL_SECONDS)):
            left -= SIGNAL_SECONDS
            if left <= 0 or forks != before:
                return False
        lock.release()
        return True

    monotonic = staticmethod(time.perf_counter)
    """Give seconds on a clock that never goes back; its zero means nothing."""

    lap = staticmethod(time.perf_counter)
    """The same clock, for what is only measured: a simulated runtime lets no other thread run."""

    processor_time = staticmethod(getattr(time, "thread_time", float))
    """Give the seconds for which a processor has run this thread; 0.0 where no system tells."""

    def gil_delay(self) -> float:
        """Let go of the GIL and give the seconds until it came back."""
        began = time.perf_counter()
        time.sleep(0)
        return time.perf_counter() - began

    def unlike_worker(self) -> bool:
        """Tell whether user code may find something in this thread that it finds in no worker.

        That is a running event loop, inside of which no other can be run; or a package's setting,
        of which it is known only that it belongs to the thread.
        """
        if not sys.modules.keys().isdisjoint(HAVE_MODES):
            return True
        # No loop runs before this module is imported, nor while another thread is importing it.
        running = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
        if running is not None and running() is not None:
            return True
        in_trio = getattr(sys.modules.get("trio.lowlevel"), "in_trio_run", None)
        if in_trio is not None and in_trio():
            return True
        return OWN_ERRSTATE and np.geterr() != ERRSTATE

    def first_at_exit(self, function: Callable[[], object]) -> None:
        """Have a function called at the program's end before what others have registered by now.

        Exit functions run in the reverse order of their registration. Python keeps the place of one
        that was taken back: so this registers anew only where something was imported since.
        """
        global _first, _imported
        if (imported := len(sys.modules)) != _imported:
            # In this order: at any moment, and after an interrupt at any, there is one.
            atexit.register(again := partial(function))
            _imported, before, _first = imported, _first, again
            atexit.unregister(before)

    def threads_replaced(self) -> bool:
        """Tell whether gevent has put greenlets or queues of its own in place of Python's."""
        is_patched = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
        return is_patched is not None and (is_patched("threading") or is_patched("queue"))

    def lives(self, thread: Thread) -> bool:
        """Tell whether a thread that was started still runs.

        Not by `is_alive`: on CPython 3.11 and 3.12 that, too, marks a live thread as dead if it is
        interrupted. (A thread that the system gives the same number to hides that one has ended.)
        """
        return thread.ident in sys._current_frames()

    def in_debugger(self, thread: Thread) -> bool:
        """Tell whether a thread is held by a debugger."""
        frame = sys._current_frames().get(thread.ident or 0)
        while frame is not None:
            if f"{frame.f_globals.get('__name__')}.".startswith(DEBUGGERS):
                return True
            frame = frame.f_back
        return False

    def stack(self, ident: int | None) -> str:
        """Give the Python stack of the running thread of this number, innermost call last."""
        frame = sys._current_frames().get(ident or 0)
        if frame is None:
            return "(no Python frame)\n"
        try:
            import traceback  # imported when it is asked for
        except (OSError, ImportError) as error:
            if by_handler(error):
                raise
            return _plain(frame)  # no file can be opened any more, or Python's own are gone
        return "".join(traceback.format_stack(frame))


def _plain(frame: FrameType) -> str:
    """Give a stack as `traceback` does, without the lines of code, and importing nothing."""
    lines: list[str] = []
    at: FrameType | None = frame
    while at is not None:
        code = at.f_code
        lines.append(f'  File "{code.co_filename}", line {at.f_lineno}, in {code.co_name}\n')
        at = at.f_back
    return "".join(reversed(lines))


RUNTIME = Runtime()
"""The one that is used where no test has put another."""
