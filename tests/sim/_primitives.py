"""Simulated locks, queues and threads: each call is a scheduling point.

They do what those of the standard library do, as far as `threadloader._runtime.Runtime`
offers it; tests/test_simulator_primitives.py compares the two. One task runs at a time, so an
operation that has passed its scheduling point is done in plain Python, undisturbed.
"""

import queue
from collections import deque

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
    """`queue.SimpleQueue`, and `Tickets`, which has no bound either: a put never waits (G4).

    Args:
        scheduler: the schedule's.
        hit: called at each put; a test may let it raise.
    """

    def __init__(self, scheduler, hit=lambda: None):
        self._scheduler = scheduler
        self._hit = hit
        self.name = scheduler.label("queue")
        self._items = deque()

    def _filled(self):
        return bool(self._items)

    def put(self, item, block=True, timeout=None):
        self._scheduler.pause("put on", self.name)
        self._hit()
        self._items.append(item)

    def put_all(self, items):
        self._scheduler.pause("put on", self.name)
        self._hit()
        self._items.extend(items)

    def take(self):
        return self.get()

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
    """What the seam has of `threading.Thread`.

    Args:
        scheduler: the schedule's.
        target, args, name: as there.
        hit: called at the start; a test may let it raise.
    """

    def __init__(self, scheduler, target, args, name, hit):
        self._scheduler = scheduler
        self._hit = hit
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
        self._hit()
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
