"""What can be wrong with a schedule, and how it is told: who waits for what, and where."""

import sys
import sysconfig
import traceback
from pathlib import Path

FILES = {path.name: str(path) for path in Path(__file__).parent.glob("*.py")}
RUN = FILES["_run.py"]
MACHINERY = {
    FILES[name] for name in ("_failures.py", "_primitives.py", "_runtime.py", "_scheduler.py")
}
LIBRARY = sysconfig.get_path("stdlib")

LAST_STEPS = 40
"""Steps of the trace that a failure shows; the replay shows them all."""


STACK_LINES = 8


class Killed(BaseException):
    """Raised inside tasks that are left when a schedule is over. Not a failure."""


class SimulationError(AssertionError):
    """A schedule on which something went wrong."""


class Deadlock(SimulationError):
    """Everybody waits, and nobody with a time limit."""


class Endless(SimulationError):
    """More steps than any honest schedule takes: threads that go round and round."""


class Violated(SimulationError):
    """A promise was seen broken, in any task."""


class Diverged(SimulationError):
    """A schedule cannot be replayed: the program did something else than before."""


class Hung(SimulationError):
    """A task does not come to a scheduling point: it blocks or loops outside the runtime."""

    def __init__(self, task):
        super().__init__(
            f"{task.name} has not come to a scheduling point: it blocks on something that is not"
            f" of the runtime, or loops without it\n{stack(task)}"
        )


def waiting(scheduler):
    """Say of every live task what it waits for, who could give it, and where it stands."""
    lines = []
    for task in scheduler.live:
        lines.append(f"  {task.number} {task.name}: {task.doing} {task.thing}".rstrip())
        lines += [
            f"      which {other.number} {other.name} holds"
            for other in scheduler.live
            if any(lock.name == task.thing for lock in other.held)
        ]
        lines.append(stack(task))
    return "\n".join(lines)


def stack(task):
    """Give the innermost calls of a task, the simulation's and the library's own left out."""
    lines = []
    for at in traceback.extract_stack(sys._current_frames().get(task.ident)):
        if at.filename == RUN:
            lines.clear()  # what called the simulation is of no schedule
        elif at.filename not in MACHINERY and not at.filename.startswith(LIBRARY):
            lines.append(f"      {at.filename}:{at.lineno} {at.name}: {at.line}")
    return "\n".join(lines[-STACK_LINES:])


def tail(scheduler):
    """Give the last steps of the trace, one a line."""
    names = {0: "main"}
    names.update({number: thread.name for number, thread in enumerate(scheduler.threads, 1)})
    steps = scheduler.trace[-LAST_STEPS:]
    first = len(scheduler.trace) - len(steps)
    return "\n".join(
        f"  {at} {names[number]}: {doing} {thing}".rstrip()
        for at, (number, doing, thing) in enumerate(steps, first)
    )
