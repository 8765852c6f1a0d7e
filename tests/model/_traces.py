"""Random schedules of the engine, followed through the protocol."""

import dataclasses
import gc
import random
import traceback
from hashlib import blake2b
from typing import NamedTuple

from sim import Pct, Random, SimulationError, run
from sim._engine import drawn
from sim._explore import GC_EVERY, undisturbed

from ._follow import Refused, follow
from ._seen import Seen, watched
from ._state import Size

ENDS = (
    "full", "break", "elsewhere", "two-stops", "told", "in-a-worker", "dropped", "feeder-fails",
)  # fmt: skip
"""The ends of an engine that the protocol has. Not in it: a stream that is cancelled, a job that
never returns and does so after the stop, an engine whose first thread does not start."""

LINES = 0.2
"""On what part of the schedules each line of the engine is a scheduling point."""


def pairs(seed, numbers):
    """Draw scenarios and their drivers; each number stands, with the seed, for one.

    Yields:
        (scenario, driver).
    """
    for number in numbers:
        rng = random.Random(f"{seed}/model/{number}")
        every = "line" if rng.random() < LINES else "call"
        scenario = drawn(rng, ENDS[number % len(ENDS)])
        # A bound in bytes is not in the protocol.
        scenario = dataclasses.replace(scenario, most=0, every=every)
        chosen = rng.getrandbits(32)
        if rng.random() < 0.5:
            yield scenario, Random(chosen)
        else:
            yield scenario, Pct(chosen, rng.randint(1, 3), 1000 if every == "line" else 60)


def size(scenario, events):
    """Give the size of the protocol of which a scenario's events are to be a trace."""
    parts, kinds = scenario.plan().sizes, {"part", "finish"}
    if scenario.draw >= 0:
        parts = (*parts[: scenario.draw], 1)  # the last one is never drawn
        kinds.add("draw")
    if scenario.end == "feeder-fails":
        kinds.add("feeder")
    closers = events.count(("tell",))
    return Size(
        scenario.workers,
        scenario.depth,
        parts,
        len(events),
        closers,
        frozenset(kinds),
        behind=3,
        light=bool(scenario.light),
    )


class Trace(NamedTuple):
    """What one schedule came to.

    Attributes:
        digest: 8 bytes for scenario and events.
        events: how many there were.
        states: how many the protocol could be in at once, at most.
        failure: what was wrong, with the schedule; "": nothing.
    """

    digest: bytes
    events: int
    states: int
    failure: str


def traces(seed, numbers):
    """Run scenarios, and follow what was seen of each; give a `Trace` for each."""
    with watched(), undisturbed():
        for count, (scenario, driver) in enumerate(pairs(seed, numbers), 1):
            yield trace(scenario, driver)
            if count % GC_EVERY == 0:
                gc.collect()


def trace(scenario, driver):
    """Run one scenario on one schedule, where what is done is seen."""
    seen, states, failure = Seen(scenario), 0, ""
    try:
        schedule = run(seen, driver).schedule
        try:
            states = follow(size(scenario, seen.events), seen.events)
        except Refused as refused:
            failure = f"{refused}\non the schedule {scenario}@{schedule}"
    except SimulationError as wrong:
        failure = "".join(traceback.format_exception(wrong))
    digest = blake2b(f"{scenario}{seen.events}".encode(), digest_size=8).digest()
    return Trace(digest, len(seen.events), states, failure)
