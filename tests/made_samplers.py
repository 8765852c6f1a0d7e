"""Samplers made as of a config, what they tell, and what they gave when that was written down."""

import json
from pathlib import Path

import numpy as np

from threadloader import samplers as room
from threadloader.samplers import Kept

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "samplers.json").read_text("utf-8"))


def kept_of(n, excluded=()):
    return Kept(n, np.array(sorted(set(excluded)), np.int64))


def told(error):
    (problem,) = error.value.problems
    return problem.pointer, problem.expected, problem.got


def made(spec, n, seed=0, excluded=()):
    """The sampler of a config, with the defaults that the schema would fill in."""
    return room.configured(spec, n, seed, kept_of(n, excluded))


def whole(sampler, epoch=0):
    order = sampler.order(epoch)
    return order.at(np.arange(order.n))
