"""Small programs with one concurrency bug each, and the same programs without it.

They show that the drivers find what they are for, and raise no alarm where nothing is wrong.
"""

import queue
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

from ._programs import Program


@dataclass(frozen=True)
class Planted(Program):
    """A program of the table `BUGGY`, or with ``fixed=1`` of `SOUND`."""

    name: str = ""
    fixed: int = 0

    family: ClassVar[str] = "planted"
    traced: ClassVar[tuple[str, ...]] = (__file__,)

    def __call__(self, sim):
        return (SOUND if self.fixed else BUGGY)[self.name](sim)


def together(sim, *targets):
    """Run some functions, a task each, to their end."""
    threads = [sim.thread(target, (), f"task-{number}") for number, target in enumerate(targets, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sim.check(not sim.escaped, lambda: f"an exception has ended {sim.escaped}")


def lost_update(sim):
    """Each reads and writes under the lock, but not both under one."""
    lock, counter = sim.lock(), SimpleNamespace(value=0)

    def add():
        with lock:
            value = counter.value
        with lock:
            counter.value = value + 1

    together(sim, add, add)
    sim.check(2 == counter.value, "an update is lost")


def kept_update(sim):
    lock, counter = sim.lock(), SimpleNamespace(value=0)

    def add():
        with lock:
            counter.value += 1

    together(sim, add, add)
    sim.check(2 == counter.value, "an update is lost")


def bare_update(sim):
    """No lock, and no call of the runtime between read and write: lines or instructions show it."""
    counter = SimpleNamespace(value=0)

    def add():
        value = counter.value
        counter.value = value + 1

    together(sim, add, add)
    sim.check(2 == counter.value, "an update is lost")


def one_line_update(sim):
    """Read and write stand in one line: instructions alone show it."""
    counter = SimpleNamespace(value=0)

    def add():
        counter.value += 1

    together(sim, add, add)
    sim.check(2 == counter.value, "an update is lost")


def lock_order(sim):
    """One takes the locks in one order, the other in the other."""
    first, second = sim.lock(), sim.lock()

    def take(one, other):
        with one:
            with other:
                pass

    together(sim, lambda: take(first, second), lambda: take(second, first))


def same_lock_order(sim):
    first, second = sim.lock(), sim.lock()

    def take():
        with first:
            with second:
                pass

    together(sim, take, take)


def missed_wakeup(sim):
    """The flag may be set between the look at it and the word that somebody waits."""
    guard, bell = sim.lock(), sim.lock()
    bell.acquire()
    box = SimpleNamespace(full=False, waiting=False)

    def wait():
        with guard:
            full = box.full
        if not full:
            with guard:
                box.waiting = True
            bell.acquire()

    def fill():
        with guard:
            box.full = True
            waiting = box.waiting
        if waiting:
            bell.release()

    together(sim, wait, fill)


def kept_wakeup(sim):
    guard, bell = sim.lock(), sim.lock()
    bell.acquire()
    box = SimpleNamespace(full=False, waiting=False)

    def wait():
        with guard:
            box.waiting = not box.full
        if box.waiting:
            bell.acquire()

    def fill():
        with guard:
            box.full = True
        if box.waiting:
            bell.release()

    together(sim, wait, fill)


def check_then_act(sim):
    """Both may find the queue with one item, and the second waits for ever for another."""
    items = sim.queue()
    items.put("the only one")

    def take():
        if items.qsize():
            items.get()

    together(sim, take, take)


def act_and_see(sim):
    items = sim.queue()
    items.put("the only one")

    def take():
        try:
            items.get_nowait()
        except queue.Empty:
            pass

    together(sim, take, take)


def too_few_sentinels(sim):
    """Three workers, and two words that it is over: who is left waits after the end."""
    items = sim.queue()
    for number in range(3):
        sim.thread(items.get, (), f"worker-{number}").start()
    for _ in range(2):
        items.put(None)


def enough_sentinels(sim):
    items = sim.queue()
    for number in range(3):
        sim.thread(items.get, (), f"worker-{number}").start()
    for _ in range(3):
        items.put(None)


def stop_overtaken(sim):
    """The flag is looked at, then the work is done: a stop may come in between."""
    state = SimpleNamespace(stopped=False)

    def work():
        if not state.stopped:
            sim.step()
            sim.check(not state.stopped, "work is done after the stop")

    def stop():
        state.stopped = True
        sim.step()

    together(sim, work, stop)


def stop_obeyed(sim):
    state, lock = SimpleNamespace(stopped=False), sim.lock()

    def work():
        with lock:
            if not state.stopped:
                sim.step()
                sim.check(not state.stopped, "work is done after the stop")

    def stop():
        with lock:
            state.stopped = True

    together(sim, work, stop)


BUGGY = {
    "lost-update": lost_update,
    "bare-update": bare_update,
    "one-line-update": one_line_update,
    "lock-order": lock_order,
    "missed-wakeup": missed_wakeup,
    "check-then-act": check_then_act,
    "too-few-sentinels": too_few_sentinels,
    "stop-overtaken": stop_overtaken,
}

SOUND = {
    "lost-update": kept_update,
    "lock-order": same_lock_order,
    "missed-wakeup": kept_wakeup,
    "check-then-act": act_and_see,
    "too-few-sentinels": enough_sentinels,
    "stop-overtaken": stop_obeyed,
}
