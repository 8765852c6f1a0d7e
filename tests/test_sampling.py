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


LENGTHS = [5, 0, 12, 1, 3]


def of_lengths(epoch, n):
    """A sampler whose epochs have another length each."""
    return range(LENGTHS[epoch % len(LENGTHS)])


class TestLengths:
    """An epoch's length is what its sampler gave; `len` tells it for the right epoch."""

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_is_that_of_the_live_epoch_up_to_its_end(self, workers):
        """Its last batch too, when the next epoch has begun to be prepared."""
        with Loader({"batch_size": 1, "num_workers": workers}, range(N), sampler=of_lengths) as it:
            for length in LENGTHS * 2:
                assert [length] * length == [len(it) for _ in it]

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_is_that_of_the_next_epoch_between_two(self, workers):
        """Before the first, behind one that ran out, and behind one that was broken off."""
        with Loader({"batch_size": 1, "num_workers": workers}, range(N), sampler=of_lengths) as it:
            for number, length in enumerate(LENGTHS * 2):
                state = it.state_dict()
                assert length == len(it)
                assert state == it.state_dict()
                for step, _ in enumerate(it):
                    if (number, step) in ((2, 6), (5, 4), (7, 0)):
                        break

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_changes_nothing_of_what_is_delivered(self, workers):
        """Wherever it is asked, in epochs that are finished, broken off, or resumed."""

        def run(ask, resume=None):
            config = {"batch_size": 2, "num_workers": workers, "num_epochs": 5}
            got = []
            with Loader(config, range(N), sampler=of_lengths, resume=resume) as batches:
                ask(batches)
                for epoch in batches.epochs():
                    ask(batches)
                    for batch in epoch:
                        got.append((batches.info.epoch, batches.info.step, batch.tolist()))
                        ask(batches)
                        if epoch.number == 2 and batches.info.step == 3:
                            break
                    del epoch
                    ask(batches)
                return got, batches.state_dict()

        with Loader({"batch_size": 2}, range(N), sampler=of_lengths) as batches:
            next(iter(batches))
            state = batches.state_dict()
        assert run(lambda batches: None) == run(len)
        assert run(lambda batches: None, state) == run(len, state)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_tells_the_length_whatever_becomes_of_the_first_batch(self, workers):
        """Its error is raised where the batch is asked for."""

        def first_is_broken(sample):
            return 1 // sample

        sampler = Asked(of_lengths)
        config = {"batch_size": 1, "num_workers": workers}
        with Loader(config, range(N), transform=first_is_broken, sampler=sampler) as batches:
            assert 5 == len(batches)
            epoch = iter(batches)
            assert 5 == len(batches)
            with pytest.raises(ZeroDivisionError):
                next(epoch)
            assert [1, 0, 0, 0] == [int(batch[0]) for batch in epoch]

    @pytest.mark.parametrize("workers", WORKERS)
    def test_zero_length_epochs_pass(self, workers):
        """They count, and give no batch; the state stands behind them."""
        config = {"batch_size": 2, "num_workers": workers}
        with Loader(config, range(N), sampler=lambda epoch, n: [] if epoch < 3 else [1]) as batches:
            assert [[], [], [], [[1]]] == [lists(epoch) for epoch in batches.epochs(4)]
            assert 4 == batches.state_dict()["world"]["epoch"]
            assert [[1]] == lists(batches)

    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("remainder", ["pad", "drop", "keep"])
    def test_a_run_of_such_epochs_goes_on_where_it_was_cut(self, workers, remainder):
        """At every cut, on every shard, batch for batch."""
        for index in range(2):
            shard = {"index": index, "count": 2, "remainder": remainder}
            config = {"batch_size": 2, "num_workers": workers, "num_epochs": 5, "shard": shard}

            def run(until=None, resume=None, config=config):
                got = []
                with Loader(config, range(N), sampler=of_lengths, resume=resume) as batches:
                    for epoch in batches.epochs():
                        for batch in epoch:
                            got.append((batches.info.epoch, batches.info.step, batch.tolist()))
                            if len(got) == until:
                                return got, batches.state_dict()
                return got, None

            whole, _ = run()
            for cut in range(1, len(whole)):
                begun, state = run(cut)
                assert whole == begun + run(resume=state)[0]


class TestFailing:
    """A sampler that raises."""

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("ask", [lambda batches: None, len], ids=["", "with len between"])
    def test_it_is_raised_at_its_place_and_asked_again(self, workers, ask):
        """Behind the last batch of the epoch before; the state stays, and nothing is lost."""
        failed = []

        def sampler(epoch, n):
            if epoch == 1 and len(failed) < 2:
                failed.append(ValueError(f"failure {len(failed)}"))
                raise failed[-1]
            return [epoch, 3, 4]

        config = {"batch_size": 2, "num_workers": workers}
        with Loader(config, range(N), sampler=sampler) as batches:
            assert [[0, 3], [4]] == lists(batches)
            state = batches.state_dict()
            epoch = iter(batches)
            for number in range(2):
                with pytest.raises(ValueError, match=f"failure {number}") as caught:
                    [ask(batches), next(epoch)]
                assert ["threadloader: raised for the order of the samples"] == (
                    caught.value.__notes__
                )
                assert state == batches.state_dict()
            ask(batches)
            assert [[1, 3], [4]] == lists(epoch)
            assert 2 == batches.state_dict()["world"]["epoch"]

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_raises_it_where_it_cannot_know_better(self, workers):
        """And an iterator begun afterwards asks again."""
        errors = [ValueError("first"), ValueError("second")]

        def sampler(epoch, n):
            if errors:
                raise errors.pop(0)
            return [1, 2]

        with Loader({"batch_size": 2, "num_workers": workers}, range(N), sampler=sampler) as it:
            with pytest.raises(ValueError, match="first"):
                len(it)
            with pytest.raises(ValueError, match="second"):
                len(it)
            assert 1 == len(it)
            assert [[1, 2]] == lists(it)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_one_that_gives_less_than_before_to_a_resumed_epoch_is_told(self, workers):
        config = {"batch_size": 2, "num_workers": workers}
        with Loader(config, range(N), sampler=named(range(4))) as batches:
            epoch = iter(batches)
            next(epoch)
            state = batches.state_dict()
        with Loader(config, range(N), sampler=named(range(1)), resume=state) as batches:
            with pytest.raises(ValueError, match="got 1 of them, where 2 were delivered already"):
                next(iter(batches))


def named(indices):
    """A sampler with a name that does not tell what it gives."""

    def sampler(epoch, n):
        return indices

    return sampler
