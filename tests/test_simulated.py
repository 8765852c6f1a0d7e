"""The engine and the loader on simulated schedules: at least 20,000 distinct ones, all clean.

The scenarios, and what is checked on each schedule, are in sim/; test_simulator.py and the files
that it names show that the simulation itself can be trusted. `python3 tools/campaign schedules`
runs as many more as one likes.
"""

import pytest
from sim import ENDINGS, Replay, exhaust, explore, pairs, program, replay, run

from threadloader.engine import Engine

SEED = 1

EACH = 1000
"""Random schedules of each ending."""

LEAST = 920
"""How many of them differ, at least."""


def test_there_are_enough_schedules():
    """All endings together have 20,000 that differ, those of `COMPLETE` not counted."""
    assert 20_000 <= LEAST * len(ENDINGS)


@pytest.mark.parametrize("ending", ENDINGS, ids=" ".join)
def test_every_promise_is_kept_on_random_schedules(ending):
    """G1 to G7, G9 and G10 hold for any threads, sizes and failures, ending this way."""
    explored = explore(pairs(SEED, range(EACH), ending))
    assert LEAST <= len(explored.distinct)


COMPLETE = [
    ("engine end=full parts=1111 ms=-1", 2),
    ("engine end=full workers=2 parts=1111 ms=-1", 1),
    ("engine end=full workers=2 parts=2 fails=0.0,0.1 ms=-1", 2),
    ("engine end=elsewhere parts=1 ms=-1", 2),
    ("engine end=elsewhere workers=2 parts=1 ms=-1", 1),
    ("engine end=in-a-worker parts=11 ms=-1", 2),
    ("engine end=cancel parts=11 ms=-1 at=1", 2),
    ("engine end=stuck parts=11 ms=-1", 2),
    ("engine end=no-thread workers=2 at=4", 2),
    ("engine end=dropped parts=11 ms=-1 at=1", 2),
    ("loader end=resume samples=2 at=1", 1),
    ("loader end=looked-at samples=1 at=1", 1),
]


@pytest.mark.parametrize(("text", "bound"), COMPLETE)
def test_every_promise_is_kept_on_all_schedules(text, bound):
    """Tiny scenarios, on every schedule with so many preemptions: none is left out or repeated."""
    explored = exhaust(program(text), bound)
    assert explored.schedules == len(explored.distinct)


FOUND = [
    "engine depth=3 draw=0@222300300022000",
    "engine end=break depth=2 parts=243231 at=6@2223300223333333333333333333333000000",
    "engine end=stuck depth=3 parts=3411 fails=0.0,0.9 draw=1 ms=3000 gil=5@222000332233332222222",
    "loader end=elsewhere workers=0 ahead=3 samples=4 epochs=2 seed=0 fails=2 own=1@00001111",
    (
        "loader end=load-state batch=2 samples=4 epochs=2 fails=0 at=3"
        "@2220000022000000220000000220000033333333333000022000022222222"
    ),
]
"""Schedules on which something was wrong once. The engine has changed since; what of them still
fits is run."""


@pytest.mark.parametrize("text", FOUND)
def test_what_was_found_once_is_gone(text):
    replay(text, exact=False)


def test_an_engine_that_was_never_started_can_be_stopped():
    """G6: nobody waits for threads that never were; twice."""

    def never_started(sim):
        engine = Engine(2, 5.0, sim)
        return engine.stop(), engine.stop(), engine.usable

    assert (True, True, False) == run(never_started, Replay("")).value
