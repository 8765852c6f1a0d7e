"""Samplers and excluded samples through the whole loader: what makes an epoch, and goes on."""

import json
import threading

import numpy as np
import pytest

from threadloader import Loader, WorkerError

N = 12
WAIT = 30.0
WORKERS = [0, 1, 2, 8]

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


class Asked:
    """A sampler that keeps which epochs it was asked for, and in which thread."""

    name = "asked"

    def __init__(self, orders=None, ahead=0):
        self.orders = orders or (lambda epoch, n: range(n))
        self.epochs = []
        self.threads = set()
        self.ahead = ahead
        self.far_ahead = threading.Event()

    def __call__(self, epoch, n):
        self.epochs.append(epoch)
        self.threads.add(threading.current_thread())
        if epoch >= self.ahead:
            self.far_ahead.set()
        return self.orders(epoch, n)


class TestCallable:
    @pytest.mark.parametrize("workers", WORKERS)
    def test_each_epoch_is_asked_for_once_however_the_loop_leaves_it(self, workers):
        """Also when it was asked for long before, and the epochs before it were broken off."""
        sampler = Asked(lambda epoch, n: [0, 1], ahead=4)
        config = {"batch_size": 1, "num_workers": workers, "prefetch_batches": 10}
        with Loader(config, range(2), sampler=sampler) as batches:
            for _ in range(4):
                for _ in batches:
                    if workers:
                        assert sampler.far_ahead.wait(WAIT)
                    break
            assert 2 == len(list(batches))
        # How far ahead it was asked in the end is the feeder's to choose.
        assert list(range(len(sampler.epochs))) == sampler.epochs

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_resumed_run_asks_for_each_epoch_once(self, workers):
        """From the one in which the state stands, and a loaded state begins a run anew."""
        first, second = Asked(), Asked()
        config = {"batch_size": 5, "num_workers": workers, "num_epochs": 3}
        with Loader(config, range(N), sampler=first) as batches:
            next(iter(batches))
            next(iter(batches))
            state = batches.state_dict()
        with Loader(config, range(N), sampler=second, resume=state) as batches:
            assert [2, 3] == [len(list(epoch)) for epoch in batches.epochs()]
        assert [1, 2] == second.epochs

    def test_steps_that_are_left_out_ask_once_too(self):
        """By who enters the loader, and not again."""
        sampler = Asked()
        config = {"batch_size": 5, "num_epochs": 4}
        with Loader(config, range(N), sampler=sampler, skip_steps=7) as batches:
            assert [2, 3] == [len(list(epoch)) for epoch in batches.epochs()]
        assert [0, 1, 2, 3] == sampler.epochs

    @pytest.mark.parametrize("workers", [1, 2, 8])
    def test_it_is_asked_off_the_consumers_path(self, workers):
        sampler = Asked()
        with Loader({"num_workers": workers}, range(N), sampler=sampler) as batches:
            for epoch in batches.epochs(3):
                list(epoch)
        assert threading.current_thread() not in sampler.threads
        assert 1 == len(sampler.threads)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_what_would_be_taken_for_an_end_comes_wrapped(self, workers):
        for error in (StopIteration(), KeyboardInterrupt(), SystemExit(), GeneratorExit()):
            sampler = Asked(raising(error))
            with Loader({"num_workers": workers}, range(N), sampler=sampler) as batches:
                with pytest.raises(WorkerError, match=type(error).__name__) as caught:
                    next(iter(batches))
            assert error is caught.value.__cause__


def raising(error):
    """Gives a sampler that raises."""

    def sampler(epoch, n):
        raise error

    return sampler
