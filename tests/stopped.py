"""Runs that are stopped after some batches: what came until then, and the state there."""

import json

import numpy as np

from threadloader import Loader


def config(**options):
    return {"batch_size": 2, "num_workers": 0, "shuffle": False, **options}


def delivered(batches, until=None):
    """Lists (epoch, step, batch) to the end of the run, or so many."""
    got = []
    for epoch in batches.epochs():
        for batch in epoch:
            got.append((batches.info.epoch, batches.info.step, np.asarray(batch).tolist()))
            if len(got) == until:
                return got
    return got


def place(batches):
    """Epoch and position at which the state stands."""
    world = batches.state_dict()["world"]
    return world["epoch"], world["position"]


def cut(until, source, *args, **options):
    """The batches of a run up to a cut, and the state there."""
    with Loader(config(**options), source, *args) as batches:
        got = delivered(batches, until) if until else []
        return got, json.loads(json.dumps(batches.state_dict()))
