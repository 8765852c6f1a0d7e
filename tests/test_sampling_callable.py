"""A sampler in code is asked once for each epoch, and what it raises is told at its place."""

import threading

import pytest
from sampler_kinds import WORKERS, Asked, N, lists, named

from threadloader import ClosedError, ConfigError, Loader, WorkerError

WAIT = 30.0


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

    @pytest.mark.parametrize("given", [{0, 1}, frozenset({1}), {0: 1}])
    def test_what_has_no_order_of_its_own_is_refused(self, given):
        """In another process a set may come in another order, and shards would not fit."""
        with (
            Loader({}, range(N), sampler=lambda epoch, n: given) as batches,
            pytest.raises(ConfigError, match=f"integers in one row, got {type(given).__name__}"),
        ):
            next(iter(batches))

    def test_steps_that_are_left_out_ask_once_too(self):
        """By who enters the loader, and not again."""
        sampler = Asked()
        config = {"batch_size": 5, "num_epochs": 4}
        with Loader(config, range(N), sampler=sampler, skip_steps=7) as batches:
            assert [2, 3] == [len(list(epoch)) for epoch in batches.epochs()]
        assert [0, 1, 2, 3] == sampler.epochs

    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("steps", [0, 90], ids=["delivered", "left out"])
    def test_what_it_gave_for_epochs_that_are_behind_is_forgotten(self, workers, steps):
        """Else the orders of a long run, or of a long way that is left out, would fill memory."""
        config = {"batch_size": 5, "num_workers": workers, "num_epochs": 40}
        with Loader(config, range(N), sampler=Asked(), skip_steps=steps) as batches:
            kept = [len(batches._run.results.place.plan._orders)]
            for epoch in batches.epochs():
                list(epoch)
                kept.append(len(batches._run.results.place.plan._orders))
        # That of the epoch before, its own, and those of which the first batches are prepared.
        assert max(kept) <= 4

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
                assert ["threadloader: raised for the order of epoch 1"] == caught.value.__notes__
                assert state == batches.state_dict()
            ask(batches)
            assert [[1, 3], [4]] == lists(epoch)
            assert 2 == batches.state_dict()["world"]["epoch"]

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("index", [0, 1])
    @pytest.mark.parametrize("taken", [0, 1, 2])
    @pytest.mark.parametrize("live", [True, False], ids=["live", "dropped"])
    def test_it_is_told_with_its_epoch_however_it_is_asked(self, workers, index, taken, live):
        """By the loop, and by `len` within, behind or between epochs, ahead of the loop.

        Of the three steps under "keep" the second shard has one, and the first one two.
        """

        def sampler(epoch, n):
            if epoch:
                raise ValueError(epoch)
            return [4, 5, 6]

        config = {"batch_size": 1, "num_workers": workers}
        shard = {"index": index, "count": 2, "remainder": "keep"}
        expected, told = [], []
        with Loader(config, range(N), sampler=sampler, shard=shard) as batches:
            epoch = iter(batches)
            for _ in range(taken):
                next(epoch, None)
            if not live:
                del epoch
            for ask in (len, lambda batches: list(epoch) if live else None, len, list, len):
                try:
                    ask(batches)
                except ValueError as error:
                    expected.append([f"threadloader: raised for the order of epoch {error}"])
                    told.append(error.__notes__)
        assert 2 <= len(told)
        assert expected == told

    def test_it_is_told_with_its_epoch_where_it_refuses_a_note(self):
        class Refusing(Exception):
            def add_note(self, note):
                raise TypeError("no notes")

        def sampler(epoch, n):
            raise Refusing

        with Loader({}, range(N), sampler=sampler) as batches:
            with pytest.raises(WorkerError, match="Refusing was raised for the order of epoch 0,"):
                next(iter(batches))

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
    def test_len_that_waits_ends_with_the_with(self, workers):
        """It is closed while the sampler is asked: there is no length, not even 0."""

        def sampler(epoch, n):
            batches.close()
            return [1, 2]

        with Loader({"num_workers": workers}, range(N), sampler=sampler) as batches:
            with pytest.raises(ClosedError):
                len(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_len_behind_the_run_tells_it_of_the_last_epoch(self, workers):
        """In a finished run that is started again, each time it is asked."""
        fails = False

        def sampler(epoch, n):
            if fails:
                raise ValueError(epoch)
            return [3]

        config = {"num_workers": workers, "num_epochs": 2}
        with Loader(config, range(N), sampler=sampler, skip_steps=2) as batches:
            state = batches.state_dict()
        fails = True
        with Loader(config, range(N), sampler=sampler, resume=state) as batches:
            for _ in range(2):
                with pytest.raises(ValueError, match="1") as caught:
                    len(batches)
                assert ["threadloader: raised for the order of epoch 1"] == caught.value.__notes__

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
