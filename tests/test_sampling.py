"""Samplers and excluded samples through the whole loader: what makes an epoch, and goes on."""

import json

import numpy as np
import pytest

from threadloader import Loader

N = 12

WEIGHTS = [1, 0, 2, 3, 0.5, 1, 1, 4, 2, 0, 1, 1]
CLASSES = np.array([0, 1, 1, 2, 0, 0, 2, 1, 1, 1, 0, 0])


class Source:
    """Samples are their index, and have a class."""

    def __len__(self):
        return N

    def __getitem__(self, index):
        return index

    def column(self, field):
        return CLASSES if field == "y" else None


def asked(epoch, n):
    """A sampler in code; another order, and another length, in every epoch."""
    return (np.arange(n - epoch % 3) * 5 + epoch) % n


KINDS = {
    "plain": {},
    "unshuffled": {"shuffle": False},
    "weighted": {"sampler": {"type": "weighted", "weights": WEIGHTS}},
    "weighted 30": {"sampler": {"type": "weighted", "weights": WEIGHTS, "num_samples": 30}},
    "without": {"sampler": {"type": "weighted_without_replacement", "weights": WEIGHTS}},
    "balanced": {"sampler": {"type": "balanced", "field": "y"}},
    "subset": {"sampler": {"type": "subset", "indices": [3, 1, 4, 1, 5, 9, 2, 6]}},
    "shuffled subset": {
        "sampler": {"type": "subset", "indices": [3, 1, 4, 1, 5, 9, 2, 6], "shuffle": True}
    },
    "sequence": [3, 1, 4, 1, 5, 9, 2, 6, 0],
    "callable": asked,
}

kinds = pytest.mark.parametrize("kind", KINDS)


def loader(kind, *, source=None, resume=None, **options):
    """Gives a loader of a kind of sampler, over samples that are their own index."""
    sampler = KINDS[kind]
    config = {"batch_size": 3, "num_workers": 0, **options}
    if isinstance(sampler, dict):
        config, sampler = {**sampler, **config}, None
    source = Source() if source is None else source
    return Loader(config, source, sampler=sampler, resume=resume)


def lists(batches):
    return [np.asarray(batch).tolist() for batch in batches]


class TestExclude:
    @kinds
    def test_a_list_that_changed_holds_from_the_next_epoch_on(self, kind):
        """The epoch that is under way ends as it would have, the next one has the new list."""
        with loader(kind, exclude=[1, 7]) as batches:
            former = [lists(epoch) for epoch in batches.epochs(2)]
        with loader(kind, exclude=[3, 4, 5]) as batches:
            changed = [lists(epoch) for epoch in batches.epochs(2)]
        with loader(kind, exclude=[1, 7]) as batches:
            begun = [next(iter(batches)).tolist()]
            state = json.loads(json.dumps(batches.state_dict()))
        with loader(kind, exclude=[3, 4, 5], resume=state) as batches:
            got = [lists(epoch) for epoch in batches.epochs(2)]
        assert [former[0], changed[1]] == [begun + got[0], got[1]]

    @pytest.mark.parametrize("kind", ["weighted", "balanced"])
    def test_an_epoch_of_draws_is_as_long_as_what_is_kept(self, kind):
        with loader(kind, batch_size=1, exclude=[1, 7]) as batches:
            assert 10 == len(batches)
