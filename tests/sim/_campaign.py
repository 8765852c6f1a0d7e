"""Random schedules of random scenarios: what a seed and a number stand for."""

import dataclasses
import random

from . import _engine, _loader
from ._drivers import Pct, Random
from ._scheduler import OPCODES

FAMILIES = {"engine": _engine, "loader": _loader}

ENDINGS = [(family, end) for family, module in FAMILIES.items() for end in module.ENDS]
"""Every way in which a scenario ends."""

GRAINS = {"call": 0.8, "line": 0.19, "opcode": 0.01 if OPCODES else 0.0}
"""What is a scheduling point, and on what part of the schedules. A line of engine and loader is
5 times as dear as a call, an instruction 15 times, and both see what calls do not."""

STEPS = {"call": (20, 60, 150), "line": (200, 1000), "opcode": (1000, 4000)}
"""Guesses of the number of choices, for priorities; a schedule with fewer has fewer points."""


def pairs(seed, numbers, ending=None):
    """Draw programs and their drivers.

    Args:
        seed: of the campaign.
        numbers: each stands, with the seed, for one schedule.
        ending: the (family, end) of all of them; None: each in turn.

    Yields:
        (program, driver).
    """
    for number in numbers:
        family, end = ending or ENDINGS[number % len(ENDINGS)]
        rng = random.Random(f"{seed}/{family}/{end}/{number}")
        program = FAMILIES[family].drawn(rng, end)
        every = rng.choices(list(GRAINS), GRAINS.values())[0]
        program = dataclasses.replace(program, every=every)
        chosen = rng.getrandbits(32)
        if rng.random() < 0.5:
            yield program, Random(chosen)
        else:
            yield program, Pct(chosen, rng.randint(1, 3), rng.choice(STEPS[every]))
