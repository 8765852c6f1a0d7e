"""A failure is told in the place of its batch, as what it is, and leaves nothing behind."""

import gc
import threading

import numpy as np
import pytest
from numbered import WAIT, WORKERS, Numbers, lists, load

from threadloader import CollateError, Loader, SourceError, WorkerError
from threadloader._runtime import Tickets
from threadloader.engine._shared import STOP
from threadloader.loader._run import Run


class TestErrors:
    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_failed_batch_raises_at_its_place_and_next_goes_on(self, workers):
        """The source's own object, with a note of sample, row, step and epoch."""
        error = ValueError("bad sample")
        with load(Numbers(8, {5: error}), batch_size=2, num_workers=workers) as batches:
            epoch = iter(batches)
            assert [[0, 1], [2, 3]] == [next(epoch).tolist(), next(epoch).tolist()]
            with pytest.raises(ValueError, match="bad sample") as caught:
                next(epoch)
            assert caught.value is error
            assert ["threadloader: raised for sample 5 (row 1 of step 2, epoch 0)"] == (
                error.__notes__
            )
            assert [6, 7] == next(epoch).tolist()
            assert [] == list(epoch)
            assert (3, 1) == (batches.stats().batches, batches.stats().failed)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_an_error_of_ours_may_be_its_own_cause(self, workers):
        """As `raise error from error` makes it."""
        error = SourceError("damaged")
        error.__cause__ = error
        with load(Numbers(4, {0: error}), batch_size=2, num_workers=workers) as batches:
            epoch = iter(batches)
            with pytest.raises(SourceError, match="damaged"):
                next(epoch)
            assert [[2, 3]] == lists(epoch)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_until_next_is_called_the_state_stands_before_the_failed_batch(self, workers):
        with load(Numbers(6, {2: OSError("x")}), batch_size=2, num_workers=workers) as batches:
            epoch = iter(batches)
            next(epoch)
            before = batches.state_dict()
            with pytest.raises(OSError, match="x"):
                next(epoch)
            assert before == batches.state_dict()
            assert [4, 5] == next(epoch).tolist()
            assert (1, 0) == tuple(batches.state_dict()["world"][k] for k in ("epoch", "position"))

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_failed_last_batch_ends_the_epoch_as_any_other(self, workers):
        with load(Numbers(4, {3: OSError("x")}), batch_size=2, num_workers=workers) as batches:
            epoch = iter(batches)
            next(epoch)
            with pytest.raises(OSError, match="x"):
                next(epoch)
            assert [] == list(epoch)
            assert [0, 1] == next(iter(batches)).tolist()
            assert 1 == batches.info.epoch

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_new_iterator_right_after_a_failed_last_batch_is_the_next_epoch(self, workers):
        with load(Numbers(4, {3: OSError("x")}), batch_size=2, num_workers=workers) as batches:
            for number in range(3):
                epoch = iter(batches)
                assert number == epoch.number
                assert [0, 1] == next(epoch).tolist()
                with pytest.raises(OSError, match="x"):
                    next(epoch)

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("kind", [StopIteration, GeneratorExit, SystemExit, KeyboardInterrupt])
    @pytest.mark.parametrize("where", ["source", "transform", "collate"])
    def test_what_would_be_taken_for_an_end_is_wrapped(self, workers, kind, where):
        error = kind("from user code")

        def fail(*args):
            raise error

        source = Numbers(4, {1: error} if where == "source" else {})
        parts = {where: fail} if where != "source" else {}
        with load(source, batch_size=2, num_workers=workers, **parts) as batches:
            with pytest.raises(WorkerError, match=f"{kind.__name__} was raised for") as caught:
                next(iter(batches))
            assert caught.value.__cause__ is error

    @pytest.mark.parametrize("workers", WORKERS)
    def test_an_exception_that_refuses_a_note_is_wrapped(self, workers):
        class Refusing(Exception):
            def add_note(self, note):
                raise TypeError("no notes")

        class Swallowing(Exception):
            def add_note(self, note):
                pass

        for error in (Refusing(), Swallowing()):
            with load(Numbers(1, {0: error}), num_workers=workers) as batches:
                with pytest.raises(WorkerError, match="sample 0") as caught:
                    next(iter(batches))
                assert caught.value.__cause__ is error

    def test_an_exception_raised_again_and_again_gathers_no_heap_of_notes(self):
        """One object for every failure, as a module-level singleton is."""
        error = ValueError("again")
        with load(Numbers(1, {0: error}), num_workers=0) as batches:
            for _ in range(2):
                epoch = iter(batches)
                with pytest.raises(ValueError, match="again"):
                    next(epoch)
        assert ["threadloader: raised for sample 0 (row 0 of step 0, epoch 1)"] == error.__notes__

    @pytest.mark.parametrize("workers", WORKERS)
    def test_the_users_line_is_the_last_of_the_traceback(self, workers):
        def transform(sample):
            raise ValueError("in here")

        with load(Numbers(2), transform=transform, num_workers=workers) as batches:
            with pytest.raises(ValueError, match="in here") as caught:
                next(iter(batches))
            assert "transform" == caught.traceback[-1].name

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_collate_error_names_both_samples(self, workers):
        samples = [np.zeros(3), np.zeros(3), np.zeros(4), np.zeros(5)]
        with load(samples, num_workers=workers, batch_size=4) as batches:
            with pytest.raises(
                CollateError, match="row 0 is sample 0, row 2 is sample 2"
            ) as caught:
                next(iter(batches))
            assert (0, 2) == caught.value.samples

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_note_says_where_in_its_file_a_sample_stands(self, workers):
        class Located(Numbers):
            def locate(self, index):
                return f"data.bin:{index}"

        with load(Located(2, {1: OSError("x")}), num_workers=workers) as batches:
            with pytest.raises(OSError, match="x") as caught:
                next(iter(batches))
            assert "sample 1 (row 1 of step 0, epoch 0), data.bin:1" in caught.value.__notes__[0]

    @pytest.mark.parametrize("workers", WORKERS)
    def test_errors_leave_no_cyclic_garbage(self, workers):
        """A training loop that goes on after errors does not feed the garbage collector.

        It is asked behind the end of the threads: without the GIL it counts what waits for
        the thread that made it to run again as well.
        """
        source = Numbers(40, {i: ValueError(i) for i in range(0, 40, 4)})
        gc.collect()
        gc.disable()
        try:
            with load(source, batch_size=2, num_workers=workers) as batches:
                epoch, done = iter(batches), False
                while not done:
                    try:
                        next(epoch)
                    except ValueError as error:
                        source.fail[error.args[0]] = None
                    except StopIteration:
                        done = True
            assert 0 == gc.collect()
        finally:
            gc.enable()

    def test_what_goes_wrong_with_a_failure_does_not_hide_it(self):
        """A note that ends the program, a collate error without rows."""

        class Ending(Exception):
            def add_note(self, note):
                raise SystemExit

        class Odd(CollateError):
            def __init__(self):
                Exception.__init__(self)

        def odd(samples):
            if 1 in samples:
                raise Odd
            return np.array(samples)

        for name, source, collate in (
            ("Ending", Numbers(4, {1: Ending()}), None),
            ("Odd", Numbers(4), odd),
        ):
            for workers in WORKERS:
                with load(source, None, collate, batch_size=2, num_workers=workers) as batches:
                    epoch = iter(batches)
                    with pytest.raises(WorkerError, match=name):
                        next(epoch)
                    assert [2, 3] == next(epoch).tolist()

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("problem", [LookupError, SystemExit, StopIteration])
    def test_a_locate_that_raises_hides_no_failure(self, workers, problem):
        class Bad(Numbers):
            def locate(self, index):
                raise problem

        bad = OSError("x")
        with load(Bad(4, {1: bad}), batch_size=2, num_workers=workers) as batches:
            epoch = iter(batches)
            with pytest.raises(OSError, match="x") as caught:
                next(epoch)
            assert caught.value is bad
            place = f"(its place could not be told: {problem.__name__})"
            told = f"sample 1 (row 1 of step 0, epoch 0), {place}"
            assert caught.value.__notes__[0].endswith(told)
            assert [2, 3] == next(epoch).tolist()

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("collate", [{"type": "stack"}, {"type": "pad"}])
    def test_collate_errors_leave_no_cyclic_garbage(self, workers, collate):
        """Nor do they keep their samples."""
        samples = [{"x": np.zeros((2, 2 + (i % 4 == 1)))} for i in range(40)]

        def failures():
            config = {"batch_size": 2, "num_workers": workers, "collate_config": collate}
            failed = 0
            with load(samples, **config) as batches:
                epoch = iter(batches)
                while batches.state_dict()["world"]["epoch"] == 0:
                    try:
                        next(epoch)
                    except CollateError:
                        failed += 1
                    except StopIteration:
                        break
            return failed

        failures()  # without the GIL, modules that are imported leave some
        gc.collect()
        gc.disable()
        try:
            assert (10, 0) == (failures(), gc.collect())
        finally:
            gc.enable()


def test_large_rows_of_other_shapes_are_an_error_that_names_both():
    class Ragged(Numbers):
        def __getitem__(self, index):
            return np.zeros(100_000 + index)

    config = {"batch_size": 2, "num_workers": 0, "shuffle": False}
    with Loader(config, Ragged(2)) as batches:
        with pytest.raises(CollateError) as caught:
            next(iter(batches))
    assert (0, 1) == caught.value.samples


def test_a_thread_of_the_loaders_own_that_fails_is_told_and_not_a_sample(monkeypatch):
    """And nobody waits for it; the loader can be entered again."""
    take, failures = Tickets.take, [MemoryError("no memory")]

    def failing(self):
        slot = take(self)
        if failures and slot is not STOP:
            raise failures.pop()
        return slot

    monkeypatch.setattr(Tickets, "take", failing)
    loader = Loader({"batch_size": 1, "num_epochs": 1}, range(5))
    with loader as batches:
        epoch = iter(batches)
        for _ in range(2):
            with pytest.raises(WorkerError, match="a thread of the loader's own") as caught:
                next(epoch)
            assert "no memory" == str(caught.value.__cause__)
    with loader as batches:
        assert 5 == len(list(batches))


def looked_at_after(monkeypatch, event):
    """Has `next` look at what has failed when this has happened, and the workers have ended."""
    tell = Run._raise

    def looks_later(run, *given):
        assert event.wait(WAIT)
        for thread in threading.enumerate():
            if thread.name.startswith("threadloader-worker"):
                thread.join(WAIT)
        return tell(run, *given)

    monkeypatch.setattr(Run, "_raise", looks_later)


def test_two_threads_of_the_loaders_own_that_fail_are_told_as_one(monkeypatch):
    """The second one may fail after the first one's word came, and before that is looked at."""
    take, failures, second = Tickets.take, [MemoryError("no memory")], threading.Event()

    def failing(self):
        slot = take(self)
        if slot is STOP:
            second.set()
            raise MemoryError("none here either")
        if failures:
            raise failures.pop()
        return slot

    monkeypatch.setattr(Tickets, "take", failing)
    looked_at_after(monkeypatch, second)
    loader = Loader({"batch_size": 1, "num_epochs": 1, "num_workers": 2}, range(5))
    with loader as batches, pytest.raises(WorkerError, match="a thread of the loader's own"):
        next(iter(batches))


def test_a_batch_that_failed_before_a_thread_of_the_loaders_own_is_told_first(monkeypatch):
    take, read, failed = Tickets.take, threading.Event(), threading.Event()

    class Failing(Numbers):
        def __getitem__(self, index):
            read.set()
            raise ValueError("mine")

    def failing(self):
        slot = take(self)
        if slot is not STOP and read.is_set():
            failed.set()
            raise MemoryError("no memory")
        return slot

    monkeypatch.setattr(Tickets, "take", failing)
    looked_at_after(monkeypatch, failed)
    config = {"batch_size": 1, "num_epochs": 1, "num_workers": 1, "prefetch_batches": 1}
    with Loader(config, Failing(5)) as batches:
        epoch = iter(batches)
        with pytest.raises(ValueError, match="mine"):
            next(epoch)
        with pytest.raises(WorkerError, match="a thread of the loader's own"):
            next(epoch)
