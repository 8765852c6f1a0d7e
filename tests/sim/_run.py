"""One schedule of one program; a failure is told together with what replays it."""

import logging
import sys

from ._drivers import DIGITS, Replay, written
from ._failures import Deadlock, Killed, SimulationError, tail, waiting
from ._programs import program
from ._runtime import SimRuntime
from ._scheduler import Scheduler

log = logging.getLogger("threadloader")


class Run:
    """What a schedule came to.

    Attributes:
        value: what the program gave.
        schedule: the choices, a digit each.
        trace: (number of the task, operation, thing) of each step.
        now: the simulated clock at the end, in seconds.
    """

    __slots__ = ("now", "schedule", "trace", "value")

    def __init__(self, value, scheduler):
        self.value = value
        self.schedule = written(scheduler.choices)
        self.trace = scheduler.trace
        self.now = scheduler.now


def run(program, driver, max_steps=None):
    """Run a program on one schedule, until all of its tasks have ended.

    Args:
        program: a `Program`, or any callable of a `SimRuntime`; it is the main task.
        driver: chooses the schedule.
        max_steps: steps after which the schedule is called endless; None: the usual.

    Returns:
        The `Run`.

    Raises:
        SimulationError: whatever was wrong. Its attributes `schedule` and `trace` are those
            of `Run`, and its note says how to replay it.
    """
    scheduler = Scheduler(
        driver, getattr(program, "every", "call"), getattr(program, "traced", ()), max_steps
    )
    runtime = SimRuntime(scheduler)
    value, failure = None, None
    handler, propagate = _Into(runtime.logged), log.propagate
    log.addHandler(handler)
    log.propagate = False
    before = sys.gettrace()
    try:
        scheduler.trace_lines()
        value = program(runtime)
        sys.settrace(before)
        if left := scheduler.drain():
            names = " and ".join(task.name for task in left)
            failure = Deadlock(f"after the end, for ever, waits {names}\n{waiting(scheduler)}")
    except Killed:
        pass  # `scheduler.failure` says why
    except Exception as error:
        failure = error
    except BaseException:
        scheduler.given_up = True  # a Ctrl-C of whoever waits for all this
        raise
    finally:
        sys.settrace(before)
        scheduler.end()
        log.removeHandler(handler)
        log.propagate = propagate
    failure = scheduler.failure or failure
    if failure is not None:
        raise _told(failure, program, driver, scheduler)
    return Run(value, scheduler)


class _Into(logging.Handler):
    """Keeps the texts of what is logged."""

    def __init__(self, texts):
        super().__init__()
        self._texts = texts

    def emit(self, record):
        self._texts.append(record.getMessage())


def _told(failure, program, driver, scheduler):
    if not isinstance(failure, SimulationError):
        wrapper = SimulationError(f"{type(failure).__name__}: {failure}")
        wrapper.__cause__ = failure
        failure = wrapper
    failure.schedule = written(scheduler.choices)
    failure.trace = scheduler.trace
    text = f"{program}@{failure.schedule}"
    failure.add_note(
        f"the program: {program}\n"
        f"the driver: {driver}; {len(scheduler.trace)} steps, the last of them:\n"
        f"{tail(scheduler)}\n"
        f"to replay it: python3 tools/campaign schedules --replay '{text}'\n"
        f"or, in a debugger, with tests/ on the path: sim.replay({text!r})"
    )
    return failure


def replay(text, exact=True):
    """Run a program on a schedule once more, from what a failure has told.

    Args:
        text: the program's text, "@", and the schedule.
        exact: as for `Replay`: whether the program must be what it was then.

    Returns:
        The `Run`.

    Raises:
        SimulationError: as then.
        ValueError: the text tells no program, or no schedule.
    """
    told, at, schedule = text.rpartition("@")
    if not at or set(schedule) - set(DIGITS):
        raise ValueError(f"expected PROGRAM@SCHEDULE as a failure tells it, got {text!r}")
    return run(program(told), Replay(schedule, exact))
