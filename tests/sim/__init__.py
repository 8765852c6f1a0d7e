"""A simulated runtime: one thread at a time, on a schedule that a driver chooses.

The engine takes its threads, queues, locks and clock from a `threadloader._runtime.Runtime`.
This is another one, on which every interleaving can be had, counted and replayed.

The simulation
    _scheduler    one thread at a time, the virtual clock, deadlocks
    _primitives   locks, queues, threads
    _runtime      the runtime that makes them, the clock, planned faults
    _drivers      who goes on: replay, random, priorities (PCT), depth-first with a bound
    _failures     what can be wrong with a schedule, and how it is told
    _run          one schedule of one program, and its replay
    _explore      many schedules, counted

What is run on it
    _programs     a program and its text
    _planted      small programs with a bug each
    _jobs         an engine's jobs and consumer, watched
    _engine       scenarios over the engine
    _batches      a loader's source and consumer, watched
    _loader       scenarios over `Loader` and `Batches`
    _campaign     both, drawn at random

To replay what a failure has told, in a debugger, with tests/ on the path::

    import sim
    sim.replay("engine end=break workers=2 parts=12 at=1@0012")
"""

from ._campaign import ENDINGS, pairs
from ._drivers import DepthFirst, Pct, Random, Replay, driver
from ._engine import EngineScenario
from ._explore import Explored, exhaust, explore
from ._failures import Deadlock, Diverged, Endless, Hung, SimulationError, Violated
from ._loader import LoaderScenario
from ._planted import BUGGY, SOUND, Planted
from ._programs import Program, program
from ._run import Run, replay, run
from ._runtime import SimRuntime
from ._scheduler import OPCODES

__all__ = [
    "BUGGY",
    "ENDINGS",
    "OPCODES",
    "SOUND",
    "Deadlock",
    "DepthFirst",
    "Diverged",
    "Endless",
    "EngineScenario",
    "Explored",
    "Hung",
    "LoaderScenario",
    "Pct",
    "Planted",
    "Program",
    "Random",
    "Replay",
    "Run",
    "SimRuntime",
    "SimulationError",
    "Violated",
    "driver",
    "exhaust",
    "explore",
    "pairs",
    "program",
    "replay",
    "run",
]
