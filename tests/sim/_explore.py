"""Many schedules, one after the other, counted."""

import contextlib
import gc
import os
from hashlib import blake2b

from ._drivers import DepthFirst
from ._failures import SimulationError
from ._run import run

GC_EVERY = 100
"""Schedules between two collections; a schedule leaves some hundred objects in cycles."""


class Explored:
    """What was explored.

    Attributes:
        schedules: how many were run.
        steps: of all of them together.
        distinct: a hash of program and choices for each that was not run before, 8 bytes.
    """

    def __init__(self):
        self.schedules = 0
        self.steps = 0
        self.distinct = set()

    def add(self, program, run):
        self.schedules += 1
        self.steps += len(run.trace)
        text = f"{program}@{run.schedule}".encode()
        self.distinct.add(blake2b(text, digest_size=8).digest())


def explore(pairs, failures=None):
    """Run each program with its driver.

    Args:
        pairs: gives (program, driver).
        failures: takes what is wrong with a schedule; without it, the first one is raised.

    Returns:
        `Explored`.

    Raises:
        SimulationError: see there.
    """
    explored = Explored()
    with undisturbed():
        for program, driver in pairs:
            try:
                done = run(program, driver)
            except SimulationError as failure:
                if failures is None:
                    raise
                done = failure
                failures.append(failure)
            explored.add(program, done)
            if explored.schedules % GC_EVERY == 0:
                gc.collect()
    return explored


def exhaust(program, bound, most=1_000_000):
    """Run a program on all schedules with at most `bound` preemptions.

    Args:
        most: schedules after which to give up.

    Returns:
        `Explored`.

    Raises:
        SimulationError: at the first schedule on which something is wrong.
        RuntimeError: there are more than `most`.
    """
    driver = DepthFirst(bound)

    def pairs():
        for _ in range(most):
            yield program, driver
            if not driver.advance():
                return
        raise RuntimeError(f"{program}: more than {most} schedules with {bound} preemptions")

    return explore(pairs())


@contextlib.contextmanager
def undisturbed():
    """Keep what is not of the simulation out of its way, for the sake of determinism and speed.

    - Garbage is collected between two schedules only: a collection runs finalizers.
    - All threads stay on one processor: a baton then goes from hand to hand about four
      times faster (6 us against 23, CPython 3.11 on two cores of a virtual machine).
    """
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    gc.freeze()  # so that a collection looks at the last schedules alone
    where = None
    if hasattr(os, "sched_setaffinity"):
        where = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(where)})
    try:
        yield
    finally:
        if where is not None:
            os.sched_setaffinity(0, where)
        gc.unfreeze()
        if collecting:
            gc.enable()
