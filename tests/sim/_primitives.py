"""The simulated runtime: locks, queues, threads and a clock, each call a scheduling point.

They do what those of the standard library do, as far as `threadloader._runtime.Runtime`
offers it; tests/test_simulator.py compares the two. One task runs at a time, so an operation
that has passed its scheduling point is done in plain Python, undisturbed.
"""

import queue
from collections import deque

from threadloader._runtime import Runtime

from ._failures import Violated
from ._scheduler import never

FOREVER = -1
"""The timeout of a lock that stands for none."""


class SimLock:
    """`_thread.allocate_lock`.

    Attributes:
        owner: the task that has taken it; anybody may release it all the same.
    """

    kind = "lock"

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self.name = scheduler.label(self.kind)
        self.owner = None

    def _free(self):
        return self.owner is None

    def _can_take(self):
        """Give the condition on which the running task may take it; None: it may."""
        return self._free

    def acquire(self, blocking=True, timeout=FOREVER):
        if not blocking and timeout != FOREVER:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if timeout < 0 and timeout != FOREVER:
            raise ValueError("timeout value must be a non-negative number")
        scheduler = self._scheduler
        if blocking and timeout == FOREVER:
            scheduler.pause("acquire", self.name, self._can_take())
        else:
            limit = scheduler.now + (timeout if blocking else 0)
            if not scheduler.pause("try to acquire", self.name, self._can_take(), limit):
                return False
        self._take(scheduler.current)
        return True

    def _take(self, task):
        self.owner = task
        task.held.append(self)

    def release(self):
        self._scheduler.pause("release", self.name)
        if self.owner is None:
            raise RuntimeError("release unlocked lock")
        self._give()

    def _give(self):
        self.owner.held.remove(self)
        self.owner = None

    def locked(self):
        self._scheduler.pause("look at", self.name)
        return self.owner is not None

    def __enter__(self):
        return self.acquire()

    def __exit__(self, kind, error, traceback):
        self.release()


class SimTurn(SimLock):
    """`threading.RLock`: its owner may take it again, and alone releases it."""

    kind = "turn"

    def __init__(self, scheduler):
        super().__init__(scheduler)
        self._times = 0

    def _can_take(self):
        return None if self.owner is self._scheduler.current else self._free

    def _take(self, task):
        if not self._times:
            super()._take(task)
        self._times += 1

    def release(self):
        self._scheduler.pause("release", self.name)
        if self.owner is not self._scheduler.current:
            raise RuntimeError("cannot release un-acquired lock")
        self._times -= 1
        if not self._times:
            self._give()

    locked = None  # a threading.RLock has none before Python 3.14


class SimQueue:
    """`queue.SimpleQueue`, and `queue.Queue` without a bound: a put never waits (G4)."""

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self.name = scheduler.label("queue")
        self._items = deque()

    def _filled(self):
        return bool(self._items)

    def put(self, item, block=True, timeout=None):
        self._scheduler.pause("put on", self.name)
        self._items.append(item)

    def get(self, block=True, timeout=None):
        if block and timeout is not None and timeout < 0:
            raise ValueError("'timeout' must be a non-negative number")
        scheduler = self._scheduler
        limit = None
        if not block:
            limit = scheduler.now
        elif timeout is not None:
            limit = scheduler.now + timeout
        if not scheduler.pause("get from", self.name, self._filled, limit):
            raise queue.Empty
        return self._items.popleft()

    def put_nowait(self, item):
        self.put(item)

    def get_nowait(self):
        return self.get(block=False)

    def qsize(self):
        self._scheduler.pause("look at", self.name)
        return len(self._items)

    def empty(self):
        return self.qsize() == 0


class SimThread:
    """What the seam has of `threading.Thread`."""

    def __init__(self, runtime, target, args, name):
        self._runtime = runtime
        self._scheduler = runtime.scheduler
        self._work = (target, args)
        self.name = name
        self._task = None

    @property
    def ident(self):
        return None if self._task is None else self._task.ident

    def start(self):
        scheduler = self._scheduler
        scheduler.pause("start", self.name)
        if self._task is not None:
            raise RuntimeError("threads can only be started once")
        self._runtime.count_start()
        (target, args), self._work = self._work, None
        self._task = scheduler.spawn(self.name, target, args)

    def _over(self):
        return self._task not in self._scheduler.live

    def join(self, timeout=None):
        scheduler = self._scheduler
        if self._task is None:
            raise RuntimeError("cannot join thread before it is started")
        if self._task is scheduler.current:
            raise RuntimeError("cannot join current thread")
        limit = None if timeout is None else scheduler.now + max(timeout, 0)
        scheduler.pause("join", self.name, self._over, limit)

    def is_alive(self):
        self._scheduler.pause("look at", self.name)
        return self._task is not None and not self._over()


class SimRuntime(Runtime):
    """The simulated runtime of one schedule, and what a test may ask of it.

    `Runtime.wait` and `Runtime.stack` are the real ones, on simulated locks and real stacks.

    Args:
        scheduler: the schedule's.

    Attributes:
        no_start: which start of a thread fails, from 1; 0: none. To be set by a test.
        gil_seconds: what a worker measures that waits for the GIL. Likewise.
        logged: texts of what threadloader has logged on this schedule.
    """

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.no_start = 0
        self.gil_seconds = 0.0
        self.logged = []
        self._starts = 0

    def lock(self):
        return SimLock(self.scheduler)

    def turn(self):
        return SimTurn(self.scheduler)

    def simple_queue(self):
        return SimQueue(self.scheduler)

    def queue(self):
        return SimQueue(self.scheduler)

    def thread(self, target, args, name):
        return SimThread(self, target, args, name)

    def launch(self, function, args):
        self.scheduler.pause("launch")
        self.count_start()
        return self.scheduler.spawn("launched", function, args).ident

    def monotonic(self):
        self.scheduler.pause("read the clock")
        return self.scheduler.now

    def gil_delay(self):
        self.scheduler.pause("wait for the GIL")
        return self.gil_seconds

    def count_start(self):
        """Count a start of a thread; the one that is to fail does."""
        self._starts += 1
        if self._starts == self.no_start:
            raise RuntimeError("can't start new thread")

    # What follows is for tests alone.

    @property
    def now(self):
        """The simulated clock, in seconds. No scheduling point."""
        return self.scheduler.now

    @property
    def escaped(self):
        """(name, error) of each task that ended with an exception."""
        return self.scheduler.escaped

    @property
    def grain(self):
        """What is a scheduling point: "call", "line" or "opcode"."""
        return self.scheduler.every

    def me(self):
        """Name the running task."""
        return self.scheduler.current.name

    def step(self):
        """Do nothing: a scheduling point."""
        self.scheduler.pause("step")

    def sleep(self, seconds):
        """Let others run until the clock has moved by so many seconds."""
        self.scheduler.pause("sleep", "", never, self.scheduler.now + seconds)

    def spawn(self, target, *args, name="other"):
        """Start a task of the test's own, which is not counted as a start; give it."""
        return self.scheduler.spawn(name, target, args)

    def held(self):
        """List the names of the locks that the running task holds."""
        return [lock.name for lock in self.scheduler.current.held]

    def alive(self):
        """List the names of the other tasks that have not ended."""
        current = self.scheduler.current
        return [task.name for task in self.scheduler.live if task is not current]

    def drain(self):
        """Let all others run to their end; list the names of those that wait for ever."""
        return [task.name for task in self.scheduler.drain()]

    def check(self, kept, text):
        """Fail the schedule if something is not so: also where exceptions are caught.

        Args:
            kept: whether the promise is kept.
            text: which one, and what is seen instead; or a function that gives the text.
        """
        if not kept:
            self.scheduler.fail(Violated(text() if callable(text) else text))
