"""The simulated runtime of one schedule, and what a test may ask of it and do to it."""

from collections import Counter

from threadloader._runtime import Runtime

from ._failures import Violated
from ._primitives import FOREVER, SimLock, SimQueue, SimThread, SimTurn
from ._scheduler import never


class SimRuntime(Runtime):
    """The simulated runtime of one schedule, and what a test may ask of it.

    `Runtime.stack` is the real one.

    Args:
        scheduler: the schedule's.

    Attributes:
        gil_seconds: what a worker measures that waits for the GIL. To be set by a test.
        logged: texts of what threadloader has logged on this schedule.
    """

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.gil_seconds = 0.0
        self.logged = []
        self._faults = {}
        self._hits = Counter()

    def lock(self):
        return SimLock(self.scheduler)

    def turn(self):
        return SimTurn(self.scheduler)

    def simple_queue(self):
        return SimQueue(self.scheduler)

    def queue(self):
        return SimQueue(self.scheduler, lambda: self.hit("put"))

    def thread(self, target, args, name):
        return SimThread(self.scheduler, target, args, name, lambda: self.hit("start"))

    def launch(self, function, args):
        self.scheduler.pause("launch")
        self.hit("start")
        return self.scheduler.spawn("launched", function, args).ident

    def wait(self, lock, timeout=None):
        # At once and not in pieces, or no wait without end would ever be a deadlock.
        if not lock.acquire(timeout=FOREVER if timeout is None else max(timeout, 0)):
            return False
        lock.release()
        return True

    def monotonic(self):
        self.scheduler.pause("read the clock")
        return self.scheduler.now

    def lap(self):
        return self.scheduler.now

    def processor_time(self):
        return 0.0

    def unlike_worker(self):
        return False

    def threads_replaced(self):
        return False

    def first_at_exit(self, function):
        """Do nothing: what a process has imported must not decide what a schedule is."""

    def gil_delay(self):
        self.scheduler.pause("wait for the GIL")
        return self.gil_seconds

    # What follows is for tests alone.

    def fail(self, point, at, error, always=False):
        """Plan a fault.

        Args:
            point: "start" (of a thread), "put" (on a `queue`), or one of the test's own.
            at: which hit of it fails, counted from 1.
            error: called for the exception.
            always: whether all later ones fail as well.
        """
        self._faults[point] = at, error, always

    def hit(self, point):
        """Pass a point where something can fail; raise what is planned there."""
        self._hits[point] += 1
        at, error, always = self._faults.get(point, (0, None, False))
        if self._hits[point] == at or (always and self._hits[point] > at):
            raise error()

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
