"""The scheduler of the simulation: one thread runs at a time, and a driver says which.

Every simulated thread (a *task*) is a thread of the system of its own, so `threading.local`,
stacks and finalizers are the real ones. All but one wait for their *baton*, a raw lock. What
a task is about to do it says at a *scheduling point*, `Scheduler.pause`: there the driver
chooses among all tasks that could go on, the chosen one gets its baton, does its one
operation, and runs on to its next scheduling point. A task that cannot do its operation (the
lock is taken, the queue is empty) is not among those chosen from.

The clock is a number. It moves when nobody can go on and somebody waits with a time limit.
When nobody can go on and nobody has a limit, that is a deadlock.
"""

import sys
import threading
import time
from _thread import allocate_lock, get_ident

from ._failures import Deadlock, Diverged, Endless, Hung, Killed, waiting

MAX_STEPS = {"call": 20_000, "line": 100_000, "opcode": 1_000_000}
"""Steps after which a schedule is called endless, by what is a scheduling point. Honest ones of
our scenarios take hundreds of calls, thousands of lines, tens of thousands of instructions."""

OPCODES = sys.version_info < (3, 12)
"""Whether instructions can be scheduling points. Later ones report those of a function only from
its second call on, so that no schedule could be replayed."""

TWICE = sys.version_info[:2] == (3, 12)
"""Whether CPython tells of some lines twice in a row, or does not, by what it has run before."""

HUNG_SECONDS = 60.0
"""Real seconds after which a task is given up that does not come to a scheduling point."""

MAX_TASKS = 36
"""As many as there are digits for them in a schedule."""


class _Lines:
    """Makes scheduling points of the lines, or instructions, of one call.

    An object, and no function inside of another: that would refer to itself, and each call leave a
    cycle to the collector. Where CPython may tell of a line twice, all in a row count once.
    """

    __slots__ = ("_last", "_scheduler")

    def __init__(self, scheduler):
        self._scheduler, self._last = scheduler, None

    def __call__(self, frame, event, arg):
        line = frame.f_lineno
        if event == self._scheduler.every and not (TWICE and line == self._last):
            self._scheduler.pause(event, f"{frame.f_code.co_name}:{line}")
        self._last = line
        return self


class Task:
    """One simulated thread, and what it is about to do.

    Attributes:
        number: 0 for the main task, then in the order of their starts.
        ident: of the system's thread.
        doing: the operation, and thing: what it is done to, as text.
        ready: says whether it can be done now; None: always.
        deadline: when it is given up, on the simulated clock; None: never.
        held: the locks that the task holds.
    """

    __slots__ = ("baton", "deadline", "doing", "held", "ident", "name", "number", "ready", "thing")

    def __init__(self, number, name):
        self.number = number
        self.name = name
        self.ident = None
        self.baton = allocate_lock()
        self.baton.acquire()
        self.doing, self.thing = "begin", ""
        self.ready = self.deadline = None
        self.held = []


def never():
    """The condition of a sleeping task."""
    return False


class Scheduler:
    """One schedule's state. All of it belongs to the task that runs.

    Args:
        driver: chooses, see `_drivers`.
        every: "call" for a scheduling point before each call of the runtime; "line" for one
            before each line of the `traced` files as well; "opcode": each instruction.
        traced: how the paths of these files begin.
        max_steps: steps after which the schedule is called endless; None: by `MAX_STEPS`.

    Attributes:
        choices: number of the chosen task, for each point where there was a choice.
        trace: (number of the task, operation, thing) of every step.
        escaped: (name, error) of each task that ended with an exception.
        given_up: whether tasks may be running that nobody waits for any more.
    """

    def __init__(self, driver, every="call", traced=(), max_steps=None):
        self.driver = driver
        self.every = every
        self.traced = traced
        self.max_steps = MAX_STEPS[every] if max_steps is None else max_steps
        self.now = 0.0
        self.choices = []
        self.trace = []
        self.escaped = []
        self.failure = None
        self.given_up = False
        self.things = 0
        self.main = self.current = Task(0, "main")
        self.main.ident = get_ident()
        self.live = [self.main]
        self.threads = []
        self._draining = False
        self._ending = self._over = False
        # Inside a choice: whoever comes in now (a finalizer) is not scheduled.
        self._busy = False

    def label(self, kind):
        """Name a new thing: "lock 3"."""
        self.things += 1
        return f"{kind} {self.things}"

    def pause(self, doing, thing="", ready=None, deadline=None):
        """Pass a scheduling point: return when it is this task's turn to do its operation.

        Returns:
            Whether the operation can be done; False when its time is over instead.
        """
        me = self.current
        if self._ending or self._busy or me.ident != get_ident():
            return self._unscheduled(ready, deadline)
        me.doing, me.thing, me.ready, me.deadline = doing, thing, ready, deadline
        chosen = self._choose(me)
        if chosen is not me:
            self._switch(me, chosen)
        me.ready = me.deadline = None
        return ready is None or ready()

    def _unscheduled(self, ready, deadline):
        """What a call comes to that no driver decides: at the end, or inside a choice."""
        if self._ending and not self._over and ready is not None:
            raise Killed
        if ready is None or ready():
            return True
        if deadline is not None:
            return False
        raise RuntimeError("a task waits where nothing is scheduled: in a finalizer, or outside")

    def _choose(self, me):
        """Let the driver choose who goes on; `me` is None if the running task has ended."""
        self._busy = True
        try:
            if len(self.trace) >= self.max_steps:
                self._fail(me, Endless(f"{self.max_steps} steps, and no end\n{waiting(self)}"))
            able = self._able()
            if not able:
                if not self._draining:
                    self._fail(me, Deadlock(f"everybody waits, for ever\n{waiting(self)}"))
                able = [self.main]
            chosen = able[0]
            if len(able) > 1:
                numbers = [task.number for task in able]
                current, doing = (me.number, me.doing) if me in able else (None, "")
                try:
                    number = self.driver.choose(numbers, current, doing)
                    chosen = able[numbers.index(number)]
                except (Diverged, ValueError) as error:
                    self._fail(me, Diverged(f"at choice {len(self.choices)}: {error}"))
                self.choices.append(number)
            self.trace.append((chosen.number, chosen.doing, chosen.thing))
            return chosen
        finally:
            self._busy = False

    def _able(self):
        """List the tasks that could go on; if there is none, let the time move."""
        now = self.now
        able = [
            task
            for task in self.live
            if task.ready is None
            or task.ready()
            or (task.deadline is not None and task.deadline <= now)
        ]
        if not able:
            deadlines = [task.deadline for task in self.live if task.deadline is not None]
            if deadlines:
                self.now = min(deadlines)
                return [task for task in self.live if task.deadline == self.now]
        return able

    def _switch(self, me, chosen):
        self.current = chosen
        chosen.baton.release()
        self._await(me)
        if self._ending:
            raise Killed

    def _await(self, me):
        """Wait for the baton. The main task watches that somebody moves at all."""
        if me is not self.main:
            me.baton.acquire()
        elif not me.baton.acquire(timeout=HUNG_SECONDS):
            self.failure = Hung(self.current)
            self.given_up = self._ending = True
            raise Killed

    def _fail(self, me, failure):
        """End the schedule: the main task learns of it first."""
        self.failure = failure
        self._ending = True
        if me is not None and me is not self.main:
            self._switch(me, self.main)
        raise Killed

    def fail(self, failure):
        """End the schedule from inside the running task, with a failure to be raised."""
        if not self._ending:
            self._fail(self.current, failure)

    def spawn(self, name, target, args):
        """Start a task; it runs when it is chosen.

        Returns:
            The `Task`.
        """
        if len(self.threads) + 1 >= MAX_TASKS:
            raise RuntimeError(f"a simulation has at most {MAX_TASKS} threads")
        task = Task(len(self.threads) + 1, name)
        work = task, target, args
        # A daemon, should it never come back; ended and joined otherwise, by `end`.
        thread = threading.Thread(target=self._body, args=work, name=name, daemon=True)
        thread.start()
        task.ident = thread.ident
        self.threads.append(thread)
        self.live.append(task)
        return task

    def _body(self, task, target, args):
        task.baton.acquire()
        try:
            if not self._ending:
                self.trace_lines()
                target(*args)
        except Killed:
            pass
        except BaseException as error:
            self.escaped.append((task.name, error))
        finally:
            sys.settrace(None)
        del target, args
        self._leave(task)

    def _leave(self, task):
        self.live.remove(task)
        chosen = self.main
        if not self._ending:
            try:
                chosen = self._choose(None)
            except Killed:
                pass
        self.current = chosen
        chosen.baton.release()

    def trace_lines(self):
        """Make lines or instructions scheduling points too, in the calling thread."""
        if self.every == "opcode" and not OPCODES:
            raise RuntimeError("every=opcode: expected CPython 3.11, which reports them all")
        if self.every != "call":
            sys.settrace(self._trace_call)

    def _trace_call(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(self.traced):
            return None
        frame.f_trace_opcodes = self.every == "opcode"
        return _Lines(self)

    def drain(self):
        """Let all others run until none can any more; by the main task.

        Returns:
            The tasks that are left, which wait for ever.
        """
        self._draining = True
        self.pause("wait for the end of all others", "", never)
        self._draining = False
        return [task for task in self.live if task is not self.main]

    def end(self):
        """End what is left of the schedule; by the main task, once."""
        self._ending = True
        if self.given_up:
            return  # there is no ending what does not come back
        for task in self.live[1:]:
            self.current = task
            task.baton.release()
            self._await(self.main)
        self.current, self._over = self.main, True
        deadline = time.monotonic() + HUNG_SECONDS
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
