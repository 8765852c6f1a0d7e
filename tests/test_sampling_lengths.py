"""An epoch is as long as what its sampler gave for it, and `len` tells it of the right epoch."""

import threading

import pytest
from sampler_kinds import WORKERS, Asked, N, lists

from threadloader import Loader
from threadloader.loader._run import Run

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
    def test_len_is_that_of_the_epoch_that_another_thread_has_just_gone_through(
        self, monkeypatch, workers
    ):
        """Between the look at the epoch and the turn to ask for it, its only batch is delivered."""
        real = Run.asked_length

        def asked(run, end):
            thread = threading.Thread(target=next, args=(epoch,))
            thread.start()
            thread.join()
            return real(run, end)

        config = {"batch_size": 4, "num_workers": workers}
        lengths = [2, 9, 9]
        with Loader(config, range(9), sampler=lambda e, n: range(lengths[e])) as batches:
            epoch = iter(batches)
            monkeypatch.setattr(Run, "asked_length", asked)
            assert 1 == len(batches)

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
    def test_len_behind_the_epochs_that_were_asked_for_is_that_of_the_one_that_comes(self, workers):
        """Their stream has ended there; the run has not."""
        with Loader({"batch_size": 1, "num_workers": workers}, range(N), sampler=of_lengths) as it:
            for epoch in it.epochs(2):
                list(epoch)
            assert LENGTHS[2] == len(it) == len(list(it))

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_behind_the_run_is_that_of_its_last_epoch(self, workers):
        """No sampler is asked for an epoch beyond `num_epochs`."""
        orders = [range(3), range(5)]
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 2}
        with Loader(config, range(N), sampler=lambda epoch, n: orders[epoch]) as batches:
            for epoch in batches.epochs():
                list(epoch)
            assert 5 == len(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_of_a_finished_run_that_is_started_again_is_that_of_its_last_epoch(self, workers):
        """The sampler is asked for that one, once, and nothing is read."""
        orders, read = [range(3), range(5)], []
        sampler = Asked(lambda epoch, n: orders[epoch])
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 2}
        with Loader(config, range(N), sampler=sampler, skip_steps=8) as batches:
            state = batches.state_dict()
        sampler.epochs.clear()
        with Loader(config, range(N), transform=read.append, sampler=sampler, resume=state) as it:
            assert [5, 5, []] == [len(it), len(it), list(it.epochs())]
        assert ([1], []) == (sampler.epochs, read)

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("taken", [0, 1])
    def test_len_behind_a_last_epoch_that_was_broken_off_is_that_of_it(self, workers, taken):
        """Also of one that was left before its first batch."""
        sampler = Asked(of_lengths)
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=sampler) as batches:
            epoch = iter(batches)
            for _ in range(taken):
                next(epoch)
            del epoch
            assert LENGTHS[0] == len(batches)
        assert [0] == sampler.epochs

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_goes_with_epochs_that_were_asked_for_beyond_the_run(self, workers):
        """Between them it is that of the next, and behind them that of the last."""
        sampler = Asked(of_lengths)
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=sampler) as batches:
            epochs = batches.epochs(3)
            told = []
            for length in LENGTHS[:3]:
                assert length == len(list(next(epochs)))
                told.append(len(batches))
        assert [*LENGTHS[1:3], LENGTHS[2]] == told
        assert [0, 1, 2] == sampler.epochs

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_says_the_same_when_it_is_asked_again_beyond_the_run(self, workers):
        """Behind an epoch that was broken off, of a loop that goes further than `num_epochs`."""
        orders = [range(2), range(7), range(3)]
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=lambda epoch, n: orders[epoch]) as batches:
            epochs = batches.epochs(3)
            next(next(epochs))
            assert [7, 7, 7] == [len(batches) for _ in range(3)]
            assert 7 == len(list(next(epochs)))

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_behind_an_epoch_beyond_the_run_that_was_broken_off_is_that_of_it(self, workers):
        """A plain `for` may go further than `num_epochs`, and be left before its first batch."""
        config = {"batch_size": 1, "num_workers": workers, "num_epochs": 1}
        with Loader(config, range(N), sampler=of_lengths) as batches:
            list(batches)
            iter(batches)
            assert LENGTHS[1] == len(batches)

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
