"""What some code leaves behind: threads, files, objects of the library, garbage in cycles."""

import atexit
import contextlib
import gc
import os
import sys
import threading
import time
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import threadloader

__all__ = [
    "Watch",
    "files",
    "join_ours",
    "kinds",
    "of_library",
    "resident",
    "tasks",
    "threads",
    "wait_for_tasks",
    "warned",
]

PACKAGE = os.path.dirname(os.path.abspath(threadloader.__file__)) + os.sep
PATIENCE = 30.0
"""Seconds until a thread counts as one that does not end. Chosen: nothing honest takes so long."""


def _are_locals_in_cycles() -> bool:
    gc.collect()
    threading.local().value = None
    return gc.collect() > 0


LOCALS_IN_CYCLES = _are_locals_in_cycles()
"""Whether Python leaves each `threading.local` to the collector, as 3.14 without the GIL does."""


@contextlib.contextmanager
def warned() -> Iterator[list[Warning]]:
    """Give the warnings that any thread tells meanwhile.

    Where Python is without the GIL from 3.14 on, what `warnings.catch_warnings` sets counts in its
    own context alone, and the loader's threads begin with an empty one, as all do elsewhere.
    """
    told: list[Warning] = []
    before, rule = warnings.showwarning, ("always", None, Warning, None, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.filters.insert(0, rule)  # of the whole process, where that is not the same list
        warnings.showwarning = lambda message, *_: told.append(message)
        try:
            yield told
        finally:
            warnings.showwarning = before
            warnings.filters.remove(rule)


def join_ours() -> None:
    """Wait for the threads of a loader that was dropped: they end by themselves.

    Raises:
        AssertionError: one does not.
    """
    for thread in threading.enumerate():
        if "threadloader" in thread.name:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name} does not end"


def wait_for_tasks(before: set[str]) -> None:
    """Wait until the kernel has put away the threads that have ended.

    A thread is joined some microseconds before; and the short one in which a loader starts its
    feeder is in no list of Python's, and on a busy machine the last one to end.
    """
    deadline = time.monotonic() + PATIENCE
    while tasks() - before and time.monotonic() < deadline:
        time.sleep(0)


def tasks() -> set[str]:
    """Give the ids of the threads that the kernel knows of; none where it does not say."""
    return listed("/proc/self/task")


def resident() -> int:
    """Give the bytes of memory that this process has; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def listed(folder: str) -> set[str]:
    """Name what a folder of /proc holds now; nothing where the system has no such folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries}
    except OSError:
        return set()


def threads() -> list[str]:
    """Name the living threads."""
    return sorted(thread.name for thread in threading.enumerate())


def files() -> dict[str, str]:
    """Give what each file descriptor of this process is, by number."""
    found = {}
    for number in listed("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the listing's own, gone by now
            continue
    return found


def of_library(thing: object) -> bool:
    """Tell whether an object is an instance of the library's, or runs its code."""
    module = type(thing).__module__
    if isinstance(module, str) and module.partition(".")[0] == "threadloader":
        return True
    code = None
    if isinstance(thing, types.GeneratorType):
        code = thing.gi_code
    elif isinstance(thing, types.FrameType):
        code = thing.f_code
    return code is not None and code.co_filename.startswith(PACKAGE)


def garbage() -> list[object]:
    """Collect once and give what only the collector could free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    found = gc.garbage[:]
    gc.garbage.clear()
    return found


def ours() -> Counter[str]:
    """Count the objects of the library."""
    return kinds([thing for thing in gc.get_objects() if of_library(thing)])


def kinds(things: list[object]) -> Counter[str]:
    """Count objects by what they are."""
    return Counter(f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in things)


class Watch:
    """Looks at what was left since it was entered; meanwhile nothing is collected.

    Objects that were there before are put out of the collector's sight, so a look costs a
    millisecond in a process of any size.

    Args:
        held: objects whose number of references must stay what it was.
    """

    def __init__(self, *held: object) -> None:
        self.held = held

    def __enter__(self) -> "Watch":
        weakref.finalize(self, int).detach()  # the first of all adds an exit hook
        self._enabled = gc.isenabled()
        # hypothesis has a callback that would be called in the middle of what is looked at.
        self._callbacks, gc.callbacks[:] = gc.callbacks[:], []
        gc.collect()
        gc.freeze()
        gc.disable()
        self.tasks = tasks()  # perhaps with one that has ended and is not put away yet
        self.before = self.facts()
        return self

    def __exit__(self, *exception: object) -> None:
        gc.unfreeze()
        gc.callbacks[:] = self._callbacks
        if self._enabled:
            gc.enable()

    def facts(self) -> dict[str, Any]:
        """Give what must be the same in the end, by name."""
        return {
            "threads": threads(),
            "files": files(),
            "finalizers": len(weakref.finalize._registry),
            "exit hooks": atexit._ncallbacks(),
            "switch interval": sys.getswitchinterval(),
            "references": [sys.getrefcount(thing) for thing in self.held],
        }

    def look(self) -> None:
        """Look at what is left.

        Raises:
            AssertionError: anything is.
        """
        # First those of Python: they must be gone by now, and not a little later.
        assert self.before["threads"] == threads(), f"threads: {threads()}"
        wait_for_tasks(self.tasks)
        left = tasks() - self.tasks
        assert not left, f"threads of the kernel's list: {left}"
        now = self.facts()
        objects = ours()
        found = garbage()
        cycles = kinds(found)
        mine = kinds([thing for thing in found if of_library(thing)])
        del found
        gc.collect()
        if LOCALS_IN_CYCLES and "_thread._local" in cycles:
            cycles, objects = Counter(), ours()  # what is kept for a thread is gone only now
        assert not cycles, f"garbage in cycles: {dict(cycles)}, of the library: {dict(mine)}"
        assert not objects, f"objects of the library: {dict(objects)}"
        for name, before in self.before.items():
            assert before == now[name], f"{name}: were {before}, are {now[name]}"
