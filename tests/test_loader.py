"""Loader and Batches keep the contract of docs/design.md."""

import gc
import itertools
import json
import os
import signal
import sys
import threading
import time
import weakref
from asyncio import CancelledError
from collections import OrderedDict, deque, namedtuple

import numpy as np
import pytest
from conftest import our_threads
from freeing import free_at_once
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import expected_epoch, expected_len
from strategies import deals
from taken import Taken

from threadloader import (
    Batches,
    BusyError,
    ClosedError,
    CollateError,
    ConfigError,
    Loader,
    SourceError,
    StateError,
    WorkerError,
    per_thread,
)
from threadloader._runtime import Runtime, Tickets
from threadloader.engine import _engine, _joining
from threadloader.engine._threads import STOP
from threadloader.jobs import GroupJob, NoBatch, Recipe, Span
from threadloader.loader._pace import GROUPS_AHEAD
from threadloader.loader._recipe import GATHER_BYTES, GROUP_BYTES
from threadloader.loader._run import Run
from threadloader.loader._supply import Supply
from threadloader.order import Order
from threadloader.order._deal import BLOCK

Pair = namedtuple("Pair", "x rows")

WAIT = 30.0
WORKERS = [0, 1, 3]


class Numbers:
    """A source whose sample i is the number i; keeps what was read, and may fail."""

    def __init__(self, n, fail=()):
        self.n = n
        self.fail = dict(fail)
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.read.append(index)
        if index in self.fail:
            raise self.fail[index]
        return index


def load(source, transform=None, collate=None, collate_config=None, **config):
    if collate_config is not None:
        config["collate"] = collate_config
    return Loader({"shuffle": False, **config}, source, transform=transform, collate=collate)


def lists(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def serial(source, order, batch_size, drop_last=False):
    """The loader that all this machinery must equal."""
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    if drop_last and batches and len(batches[-1]) < batch_size:
        batches.pop()
    return [[source[index] for index in batch] for batch in batches]


class Jittery(Numbers):
    """Reads that take a while, another one each time; order must not care."""

    def __getitem__(self, index):
        time.sleep(0.0001 * (hash((index, threading.get_ident())) % 3))
        return super().__getitem__(index)


@settings(max_examples=60)
@given(
    n=st.integers(0, 40),
    batch_size=st.integers(1, 9),
    workers=st.integers(0, 5),
    prefetch=st.integers(1, 7),
    drop_last=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)
def test_the_batches_are_those_of_a_serial_loader(
    n, batch_size, workers, prefetch, drop_last, seed
):
    """For two epochs, with reads of random duration."""
    config = {
        "batch_size": batch_size,
        "num_workers": workers,
        "prefetch_batches": prefetch,
        "drop_last": drop_last,
        "seed": seed,
    }
    with Loader(config, Jittery(n)) as batches:
        for epoch in range(2):
            order = Order(n, seed=seed, epoch=epoch, shuffle=True).at(np.arange(n)).tolist()
            expected = serial(range(n), order, batch_size, drop_last)
            assert len(expected) == len(batches)
            assert expected == lists(batches)


@settings(max_examples=60)
@given(n=st.integers(0, 50), deal=deals(), workers=st.integers(0, 4), seed=st.integers(0, 99))
def test_a_shard_delivers_what_the_oracle_says(n, deal, workers, seed):
    """Indices, padding and length, through the whole loader."""
    config = {
        "batch_size": deal["batch_size"],
        "drop_last": deal["drop_last"],
        "seed": seed,
        "num_workers": workers,
        "shard": {
            "index": deal["shard_index"],
            "count": deal["shard_count"],
            "remainder": deal["remainder"],
        },
    }
    order = Order(n, seed=seed, epoch=0, shuffle=True).at(np.arange(n)).tolist()
    got = []
    with Loader(config, Numbers(n)) as batches:
        for step, batch in enumerate(batches):
            info = batches.info
            assert (0, step) == (info.epoch, info.step)
            assert batch.tolist() == info.indices.tolist()
            got.append((info.indices.tolist(), info.valid.tolist()))
        assert expected_len(n, **deal) == len(batches) == len(got)
    assert [(i, v) for i, _, v in expected_epoch(order, **deal)] == got


class TestIteration:
    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_for_loop_is_one_epoch_and_the_next_one_the_next(self, workers):
        with Loader({"batch_size": 4, "num_workers": workers}, Numbers(10)) as batches:
            first, second = lists(batches), lists(batches)
        assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(10))
        assert first != second

    @pytest.mark.parametrize("workers", WORKERS)
    def test_epochs_gives_n_epochs_by_number(self, workers):
        with load(Numbers(6), batch_size=4, num_workers=workers) as batches:
            got = [(epoch.number, lists(epoch)) for epoch in batches.epochs(3)]
            assert [] == list(batches.epochs(3))
        assert [(n, [[0, 1, 2, 3], [4, 5]]) for n in range(3)] == got

    def test_epochs_goes_up_to_num_epochs_of_the_config(self):
        with load(Numbers(2), num_epochs=2) as batches:
            assert [0, 1] == [epoch.number for epoch in batches.epochs() if lists(epoch)]

    def test_epochs_that_have_come_to_their_end_stay_there(self):
        """Also when the run stands before it again, and after the `with`."""
        with load(Numbers(4), batch_size=2) as batches:
            state = batches.state_dict()
            epochs = batches.epochs(1)
            assert 1 == len([list(epoch) for epoch in epochs])
            batches.load_state_dict(state)
            assert [] == list(epochs)
            assert 1 == len([list(epoch) for epoch in batches.epochs(1)])
        assert [] == list(epochs)

    def test_epochs_without_a_number_never_end(self):
        with load(Numbers(2)) as batches:
            epochs = batches.epochs()
            for number in range(20):
                epoch = next(epochs)
                assert (number, [[0, 1]]) == (epoch.number, lists(epoch))

    @pytest.mark.parametrize("n", [-1, 1.5, "3", True])
    def test_epochs_of_no_number_are_refused(self, n):
        with load(Numbers(2)) as batches, pytest.raises(ConfigError, match="integer >= 0"):
            batches.epochs(n)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_after_a_break_the_next_epoch_begins(self, workers):
        """What was prepared of the old one does not come out of the new one."""
        with load(Numbers(10), batch_size=2, num_workers=workers) as batches:
            for batch in batches:
                if batch[0] == 4:
                    break
            assert 0 == batches.info.epoch
            assert [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]] == lists(batches)
            assert 1 == batches.info.epoch

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_new_iterator_ends_the_old_one(self, workers):
        with load(Numbers(6), batch_size=2, num_workers=workers) as batches:
            old = iter(batches)
            next(old)
            new = iter(batches)
            for _ in range(2):
                with pytest.raises(ClosedError, match="ended by a newer one"):
                    next(old)
            assert 3 == len(list(new))

    def test_an_exhausted_iterator_stays_exhausted(self):
        """Also when a newer one has begun, and after the with."""
        with load(Numbers(2)) as batches:
            epoch = iter(batches)
            assert epoch is iter(epoch)
            assert 1 == len(list(epoch))
            assert [] == list(epoch)
            iter(batches)
            assert [] == list(epoch)
        assert [] == list(epoch)

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("config", [{}, {"drop_last": True, "batch_size": 9}])
    def test_an_epoch_without_steps_is_empty_and_counts(self, workers, config):
        n = 5 if config else 0
        with load(Numbers(n), num_workers=workers, **config) as batches:
            assert 0 == len(batches)
            assert [[], [], []] == [lists(epoch) for epoch in batches.epochs(3)]
            assert 3 == batches.state_dict()["world"]["epoch"]
            assert [] == lists(batches)

    def test_a_consumer_in_another_thread_is_served(self):
        with load(Numbers(6), batch_size=2) as batches:
            got = []
            thread = threading.Thread(target=lambda: got.extend(lists(batches)))
            thread.start()
            thread.join(WAIT)
        assert [[0, 1], [2, 3], [4, 5]] == got

    @pytest.mark.parametrize("call", ["next", "iter", "load"])
    def test_two_threads_at_once_are_refused(self, call):
        """While one waits inside next, another gets BusyError and the first its batch."""
        inside, go_on = threading.Event(), threading.Event()

        class Slow(Numbers):
            def __getitem__(self, index):
                inside.set()
                assert go_on.wait(WAIT)
                return index

        with load(Slow(4), batch_size=2, num_workers=1) as batches:
            state, epoch, got = batches.state_dict(), iter(batches), []
            thread = threading.Thread(target=lambda: got.append(next(epoch).tolist()))
            thread.start()
            assert inside.wait(WAIT)
            # The worker is inside the read; the consumer may be late. Its turn is only looked at:
            # whoever tried to take it might be faster.
            while not batches._run.turn.inside:
                assert thread.is_alive()
            with pytest.raises(BusyError, match="another thread"):
                {
                    "next": lambda: next(epoch),
                    "iter": lambda: iter(batches),
                    "load": lambda: batches.load_state_dict(state),
                }[call]()
            go_on.set()
            thread.join(WAIT)
            assert [[0, 1]] == got
            assert [2, 3] == next(epoch).tolist()

    def test_a_source_that_asks_its_own_loader_is_refused(self):
        """Without workers it would wait for itself."""
        held = []

        class Selfish(Numbers):
            def __getitem__(self, index):
                return next(held[0])

        with load(Selfish(4), num_workers=0) as batches:
            held.append(iter(batches))
            with pytest.raises(BusyError, match="its own loader"):
                next(held[0])

    @pytest.mark.parametrize(("asking", "ask"), [("sampler", len), ("transform", iter)])
    def test_with_workers_too_while_the_loop_is_elsewhere(self, asking, ask):
        """The feeder would wait for itself, and a worker too: even a close would wait for them."""
        begun, asked, told = threading.Event(), threading.Event(), []

        def selfish(given):
            assert begun.wait(WAIT)
            if not asked.is_set():
                try:
                    ask(batches)
                except BusyError as error:
                    told.append(str(error))
            asked.set()
            return given

        code = {
            "sampler": lambda epoch, n: selfish(range(n)),
            "transform": selfish,
        }
        config = {"batch_size": 2, "shuffle": False, "num_workers": 1}
        with Loader(config, Numbers(4), **{asking: code[asking]}) as batches:
            epoch = iter(batches)
            begun.set()
            assert asked.wait(WAIT)
            assert "its own loader" in told[0]
            assert [[0, 1], [2, 3]] == lists(epoch)

    def test_a_worker_gets_no_batch_that_lies_ready(self):
        """The loop would miss it."""
        elsewhere, asked, told = threading.Event(), threading.Event(), []

        def selfish(number):
            if number == 6:
                assert elsewhere.wait(WAIT)
                try:
                    next(epoch)
                except BusyError as error:
                    told.append(str(error))
                asked.set()
            return number

        config = {"batch_size": 2, "shuffle": False, "num_workers": 1, "prefetch_batches": 4}
        with Loader(config, Numbers(8), transform=selfish) as batches:
            epoch = iter(batches)
            got = [next(epoch).tolist()]
            elsewhere.set()
            assert asked.wait(WAIT)
            assert [[0, 1], [2, 3], [4, 5], [6, 7]] == got + lists(epoch)
        assert "its own loader" in told[0]


class TestAhead:
    """The next epoch's first batches are prepared while this one's last are consumed."""

    class Gated(Numbers):
        def __init__(self, n):
            super().__init__(n)
            self.reads = threading.Semaphore(0)

        def __getitem__(self, index):
            self.reads.release()
            return super().__getitem__(index)

    def wait_for(self, source, count):
        for _ in range(count):
            assert source.reads.acquire(timeout=WAIT)

    @pytest.mark.parametrize("by_epochs", [False, True])
    def test_samples_of_the_next_epoch_are_read_before_it_begins(self, by_epochs):
        source = self.Gated(4)
        with load(source, batch_size=2, num_workers=1, prefetch_batches=2) as batches:
            epoch = next(batches.epochs(9)) if by_epochs else iter(batches)
            assert [[0, 1], [2, 3]] == lists(epoch)
            # Four reads of this epoch, and two batches of the next one, which nobody asked for.
            self.wait_for(source, 8)
            assert [0, 1, 2, 3] * 2 == source.read
            assert 1 == batches.state_dict()["world"]["epoch"]
            assert (2, 4) == (batches.stats().batches, batches.stats().samples)

    @pytest.mark.parametrize("by_epochs", [False, True])
    def test_samples_that_were_read_before_their_epoch_began_are_not_read_again(self, by_epochs):
        """A batch says how many samples were read before each of its own."""

        class Counted(self.Gated):
            def __getitem__(self, index):
                before = len(self.read)
                super().__getitem__(index)
                return before

        source = Counted(4)
        with load(source, batch_size=2, num_workers=1, prefetch_batches=2) as batches:
            epochs = batches.epochs(3) if by_epochs else itertools.repeat(batches)
            assert [[0, 1], [2, 3]] == lists(next(epochs))
            self.wait_for(source, 8)
            assert [[4, 5], [6, 7]] == lists(next(epochs))
            assert [[8, 9], [10, 11]] == lists(next(epochs))
        assert [0, 1, 2, 3] * 3 == source.read[:12]

    @pytest.mark.parametrize("how", ["num_epochs", "epochs"])
    def test_nothing_is_read_beyond_the_last_epoch(self, how):
        source = Numbers(4)
        config = {"num_epochs": 2} if how == "num_epochs" else {}
        with load(source, batch_size=2, prefetch_batches=4, **config) as batches:
            for epoch in batches.epochs(2):
                lists(epoch)
            # The slots behind the last job come back empty once the feeder has seen its end.
            place = batches._run.results.place
            assert place.stream.result(place.taken).job is None
        assert [0, 0, 1, 1, 2, 2, 3, 3] == sorted(source.read)

    def test_a_loop_beyond_num_epochs_goes_on_all_the_same(self):
        with load(Numbers(2), num_epochs=1) as batches:
            assert [[[0, 1]]] * 3 == [lists(batches) for _ in range(3)]


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


class TestState:
    def run(self, config, source, until=None, state=None, workers=2):
        """Collects (epoch, step, batch) up to a count, from a state on; gives the state too."""
        got = []
        loader = Loader({"num_workers": workers, **config}, source)
        with loader as batches:
            if state is not None:
                batches.load_state_dict(json.loads(json.dumps(state)))
            for epoch in batches.epochs(3):
                for batch in epoch:
                    got.append((batches.info.epoch, batches.info.step, batch.tolist()))
                    if len(got) == until:
                        return got, batches.state_dict()
            return got, batches.state_dict()

    @settings(max_examples=40)
    @given(
        n=st.integers(1, 20),
        batch_size=st.integers(1, 6),
        drop_last=st.booleans(),
        cuts=st.lists(st.integers(1, 12), min_size=1, max_size=4),
        workers=st.sampled_from([0, 2]),
    )
    def test_a_run_cut_any_number_of_times_is_the_uninterrupted_one(
        self, n, batch_size, drop_last, cuts, workers
    ):
        """Batch for batch, over three epochs, whatever was prefetched at the cuts."""
        config = {"batch_size": batch_size, "drop_last": drop_last, "seed": 3}
        whole, end = self.run(config, Numbers(n), workers=0)
        got, state = [], None
        for until in [*cuts, None]:
            part, state = self.run(config, Numbers(n), until, state, workers)
            got += part
        assert whole == got
        assert end["world"] == state["world"]

    def test_loading_reads_no_sample_but_those_that_come_next(self):
        _, state = self.run({"batch_size": 2, "shuffle": False}, Numbers(10), until=3)
        source = Numbers(10)
        with load(source, batch_size=2, num_workers=0) as batches:
            batches.load_state_dict(state)
            assert [] == source.read
            assert [6, 7] == next(iter(batches)).tolist()
        assert [6, 7] == source.read

    def test_what_is_loaded_is_what_is_given_back(self):
        _, state = self.run({"batch_size": 2}, Numbers(10), until=3)
        with Loader({"batch_size": 2}, Numbers(10)) as batches:
            batches.load_state_dict(state)
            assert state == batches.state_dict()

    def test_at_the_end_of_an_epoch_the_state_stands_at_the_next_one(self):
        """Before and after StopIteration alike."""
        with load(Numbers(4), batch_size=2) as batches:
            epoch = iter(batches)
            next(epoch), next(epoch)
            before = batches.state_dict()
            assert [] == list(epoch)
            assert before == batches.state_dict()
            assert {"epoch": 1, "position": 0, "step": 0} == {
                name: before["world"][name] for name in ("epoch", "position", "step")
            }

    def test_a_shard_with_a_step_less_gets_to_the_next_epoch_when_its_iteration_ends(self):
        shard = {"index": 1, "count": 2, "remainder": "keep"}
        with Loader({"batch_size": 2, "shard": shard}, Numbers(5)) as batches:
            epoch = iter(batches)
            next(epoch)
            assert (0, 4) == tuple(batches.state_dict()["world"][k] for k in ("epoch", "position"))
            assert [] == list(epoch)
            assert (1, 0) == tuple(batches.state_dict()["world"][k] for k in ("epoch", "position"))

    @given(
        n=st.integers(0, 60),
        first=deals(max_batch=4, max_shards=3),
        second=deals(max_batch=5, max_shards=4),
        steps=st.integers(0, 8),
        seed=st.integers(0, 5),
    )
    @settings(max_examples=60)
    def test_another_world_deals_the_remaining_positions_anew(self, n, first, second, steps, seed):
        """Over both worlds every sample comes once: none twice, none lost (but by drop)."""

        def config(deal, index):
            return {
                "batch_size": deal["batch_size"],
                "seed": seed,
                "num_workers": 0,
                "shard": {"index": index, "count": deal["shard_count"], "remainder": "keep"},
            }

        seen, states = [], []
        for index in range(first["shard_count"]):
            with Loader(config(first, index), Numbers(n)) as batches:
                epoch = iter(batches)
                for _ in range(steps):
                    if (batch := next(epoch, None)) is None:
                        break
                    seen += batch.tolist()
                states.append(batches.state_dict())
        if len({json.dumps(state["world"]) for state in states}) != 1 or not seen:
            return  # a shard had no step left: the world was not cut behind one step
        for index in range(second["shard_count"]):
            with Loader(config(second, index), Numbers(n)) as batches:
                batches.load_state_dict(states[0])
                if states[0]["world"]["epoch"] == 0:
                    seen += sum(lists(batches), [])
        assert list(range(n)) == sorted(seen)

    @pytest.mark.parametrize(
        ("change", "field"), [({"seed": 1}, "seed"), ({"shuffle": False}, "shuffle")]
    )
    def test_a_state_of_another_order_is_refused_by_name(self, change, field):
        _, state = self.run({"batch_size": 2}, Numbers(10), until=3)
        with Loader({"batch_size": 2, **change}, Numbers(10)) as batches:
            with pytest.raises(StateError, match=field) as caught:
                batches.load_state_dict(state)
            assert (field,) == caught.value.fields
            assert 0 == batches.state_dict()["world"]["position"]

    @pytest.mark.parametrize("source", [Numbers(11), np.arange(10)])
    def test_a_state_of_another_source_is_refused(self, source):
        _, state = self.run({"batch_size": 2}, Numbers(10), until=3)
        with Loader({"batch_size": 2}, source) as batches:
            with pytest.raises(StateError, match="source"):
                batches.load_state_dict(state)

    def test_a_source_whose_length_was_another_is_refused_whatever_it_says_of_itself(self):
        """The order is one of n samples; a fingerprint of the user's may leave n out."""

        class Named(Numbers):
            def fingerprint(self):
                return "always the same"

        with Loader({"batch_size": 2}, Named(10)) as batches:
            state = batches.state_dict()
        with Loader({"batch_size": 2}, Named(12)) as batches:
            with pytest.raises(StateError, match="samples: the state has 10, this run 12"):
                batches.load_state_dict(state)

    def test_an_iterator_that_is_garbage_is_not_live(self):
        """As one is that an exception leads to, which is part of a cycle."""
        with load(Numbers(6), batch_size=2) as batches:
            state = batches.state_dict()
            cycle = [iter(batches)]
            cycle.append(cycle)
            gc.disable()
            try:
                next(cycle[0])
                del cycle
                batches.load_state_dict(state)
            finally:
                gc.enable()
            assert [[0, 1], [2, 3], [4, 5]] == lists(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_an_iterator_that_is_closed_lets_a_state_be_loaded(self, workers):
        """As behind a `break`, where the loop's variable still has it; and it gives no more."""
        with load(Numbers(12), batch_size=2, num_workers=workers) as batches:
            for epoch in batches.epochs(2):
                assert [[0, 1], [2, 3]] == lists(itertools.islice(epoch, 2))
                state = batches.state_dict()
                assert [[4, 5]] == lists(itertools.islice(epoch, 1))
                break
            with pytest.raises(BusyError, match=r"or call its close\(\)"):
                batches.load_state_dict(state)
            epoch.close()
            epoch.close()
            assert [] == list(epoch)
            batches.load_state_dict(state)
            assert [[4, 5], [6, 7], [8, 9], [10, 11]] == lists(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_an_iterator_without_a_name_is_ended_by_the_next_one(self, workers):
        """As the error says: behind a loop that a Ctrl-C has left, whose traceback is kept."""
        with load(Numbers(12), batch_size=2, num_workers=workers) as batches:
            held = iter(batches)  # as a frame of the traceback holds it
            assert [[0, 1], [2, 3]] == lists(itertools.islice(held, 2))
            state = batches.state_dict()
            with pytest.raises(
                BusyError, match=r"take the state first, then iter\(batches\).close"
            ):
                batches.load_state_dict(state)
            iter(batches).close()
            batches.load_state_dict(state)
            assert [[4, 5], [6, 7], [8, 9], [10, 11]] == lists(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_closing_an_iterator_leaves_what_was_delivered_and_a_newer_one_as_they_are(
        self, workers
    ):
        with load(Numbers(6), batch_size=2, num_workers=workers) as batches:
            first = iter(batches)
            assert [0, 1] == next(first).tolist()
            before = batches.state_dict()
            first.close()
            assert before == batches.state_dict()
            second = iter(batches)
            assert 1 == second.number
            first.close()
            assert [[0, 1], [2, 3], [4, 5]] == lists(second)

    def test_the_number_of_an_epoch_is_only_read(self):
        """The state is worked out of it."""
        with load(Numbers(4)) as batches:
            epoch = iter(batches)
            with pytest.raises(AttributeError):
                epoch.number = 1

    def test_loading_while_an_iterator_is_live_is_refused(self):
        with Loader({"batch_size": 2}, Numbers(6)) as batches:
            state, epoch = batches.state_dict(), iter(batches)
            first = next(epoch).tolist()
            with pytest.raises(BusyError, match="live"):
                batches.load_state_dict(state)
            assert 2 == len(lists(epoch))
            batches.load_state_dict(state)
            assert first == next(iter(batches)).tolist()

    def test_after_a_break_a_state_can_be_loaded(self):
        """The loop's iterator is gone, so nobody is in the middle of an epoch."""
        with load(Numbers(6), batch_size=2) as batches:
            state = batches.state_dict()
            for _ in batches:
                break
            batches.load_state_dict(state)
            epoch = iter(batches)
            assert (0, [[0, 1], [2, 3], [4, 5]]) == (epoch.number, lists(epoch))

    def test_the_state_can_be_taken_after_the_with(self):
        with load(Numbers(6), batch_size=2) as batches:
            next(iter(batches))
            inside = batches.state_dict()
        assert inside == batches.state_dict()


class TestClosing:
    @pytest.mark.parametrize("workers", WORKERS)
    def test_after_the_with_nothing_can_be_had(self, workers):
        with load(Numbers(6), batch_size=2, num_workers=workers) as batches:
            epoch = iter(batches)
            next(epoch)
        for call in (
            lambda: next(epoch),
            lambda: iter(batches),
            lambda: next(batches.epochs(1)),
            lambda: batches.load_state_dict(batches.state_dict()),
        ):
            with pytest.raises(ClosedError, match="closed"):
                call()
        assert 1 == batches.stats().batches
        assert 3 == len(batches)

    def test_a_recipe_is_not_iterated_and_says_what_to_write(self):
        with pytest.raises(ClosedError, match=r"with Loader\(\.\.\.\) as batches"):
            iter(load(Numbers(3)))

    def test_a_loader_is_open_once_at_a_time_and_can_be_entered_again(self):
        loader = load(Numbers(3))
        with loader as batches:
            with pytest.raises(BusyError, match="open already"):
                loader.__enter__()
            assert [[0, 1, 2]] == lists(batches)
            batches.close()
            with pytest.raises(
                BusyError, match=r"not left yet; .* call loader\.__exit__\(None, None"
            ):
                loader.__enter__()
        with loader as batches:
            assert (0, [[0, 1, 2]]) == (batches.state_dict()["world"]["epoch"], lists(batches))

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_with_that_user_code_has_left_is_left_all_the_same(self, workers, tmp_path):
        """Threads and files are counted around every test."""
        (tmp_path / "a.txt").write_text("a\nb\nc\n")
        source = {"type": "text", "path": str(tmp_path / "a.txt")}

        def leave(line):
            loader.__exit__(None, None, None)
            return line

        loader = Loader({"source": source, "num_workers": workers}, transform=leave)
        with loader as batches:
            with pytest.raises(ClosedError):
                list(batches)

    def test_a_with_that_is_left_while_another_thread_is_at_work_can_be_entered_again(self):
        begun, go_on, got = threading.Event(), threading.Event(), []

        def wait(index):
            begun.set()
            assert go_on.wait(WAIT)
            return index

        loader = load(Numbers(3), transform=wait, num_workers=0, close_timeout=0.01)
        with loader as batches:
            asking = threading.Thread(target=lambda: got.append(next(iter(batches))))
            asking.start()
            assert begun.wait(WAIT)
        go_on.set()
        asking.join(WAIT)
        with loader as batches:
            assert [[0, 1, 2]] == lists(batches)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_with_that_garbage_has_left_during_a_read_can_be_entered_again(self, workers):
        """As by the collector, of a generator with the `with` in it: the rest is done then."""
        closed = []

        class Handle(Numbers):
            def __getitem__(self, index):
                if left:
                    left.pop().close()
                return index

            def close(self):
                closed.append(self)

        def entering():
            with loader as batches:
                yield batches

        loader = load(per_thread(lambda: Handle(9)), num_workers=workers)
        left = [entering()]
        epoch = iter(next(left[0]))
        with pytest.raises(ClosedError):
            list(epoch)
        with loader as batches:
            with pytest.raises(BusyError):  # whoever else enters does not leave it again
                loader.__enter__()
            assert [[*range(9)]] == lists(batches)
        before = len(closed)
        assert before >= 2
        loader.__exit__(None, None, None)
        assert before == len(closed)

    def test_it_waits_for_another_thread_that_makes_a_batch_itself(self, monkeypatch):
        """And for what that one closes: behind the `with` nobody reads any more."""
        begun, waited, told, wait = threading.Event(), threading.Event(), [], Supply.wait

        def waits(supply):
            waited.set()
            wait(supply)

        class Handle(Numbers):
            def __getitem__(self, index):
                begun.set()
                assert waited.wait(WAIT)
                return index

            def close(self):
                told.append("closed")

        monkeypatch.setattr(Supply, "wait", waits)
        asking = threading.Thread(target=lambda: next(iter(batches)))
        with load(per_thread(lambda: Handle(3)), num_workers=0) as batches:
            asking.start()
            assert begun.wait(WAIT)
        assert told
        asking.join(WAIT)

    @pytest.mark.parametrize("place", ["factory", "len", "fingerprint"])
    @pytest.mark.parametrize(
        "kind", [StopIteration, SystemExit, GeneratorExit, KeyboardInterrupt, CancelledError]
    )
    def test_what_is_raised_while_it_is_entered_is_taken_for_no_end(self, place, kind):
        def stop(*_):
            raise kind

        class Stopping(Numbers):
            if place == "len":
                __len__ = stop
            if place == "fingerprint":
                fingerprint = stop

        loader = Loader({}, per_thread(stop) if place == "factory" else Stopping(3))
        with pytest.raises(WorkerError, match=f"{kind.__name__} was raised while") as caught:
            loader.__enter__()
        assert type(caught.value.__cause__) is kind

    def test_a_ctrl_c_while_it_is_entered_passes_as_it_is(self):
        loader = Loader({}, per_thread(lambda: signal.raise_signal(signal.SIGINT)))
        with pytest.raises(KeyboardInterrupt):
            loader.__enter__()

    def test_what_is_done_to_the_config_that_it_gives_changes_nothing(self):
        loader = load(Numbers(4), batch_size=2)
        loader.config.shard.update(index=1, count=2)
        loader.config.collate["type"] = "pad"
        with loader as batches:
            assert [[0, 1], [2, 3]] == lists(batches)

    def test_a_close_that_fails_hides_no_error_of_entering_and_leaves_nothing_open(self):
        class Handle(Numbers):
            def close(self):
                raise OSError("disk gone")

        loader = Loader({}, per_thread(lambda: Handle(3)), resume={"not": "a state"})
        for _ in range(2):
            with pytest.raises(StateError) as caught:
                loader.__enter__()
            assert "closing the source failed: OSError" in caught.value.__notes__[0]

    @pytest.mark.parametrize("workers", WORKERS)
    @pytest.mark.parametrize("way", ["break", "return", "raise", "never", "generator", "close"])
    def test_every_way_out_leaves_nothing(self, workers, way):
        """Checked by the fixture that counts threads and files around every test."""

        def run():
            with load(Numbers(50), batch_size=2, num_workers=workers) as batches:
                if way == "never":
                    return
                for number, _ in enumerate(batches):
                    if number == 3:
                        if way == "break":
                            break
                        if way == "return":
                            return
                        if way == "raise":
                            raise LookupError("body")
                        if way == "close":
                            batches.close()
                            batches.close()
                            return
                    if way == "generator":
                        yield number

        generator = run()
        if way == "generator":
            next(generator)
            generator.close()
        elif way == "raise":
            with pytest.raises(LookupError, match="body"):
                list(generator)
        else:
            list(generator)

    def test_a_batch_that_asks_in_its_finalizer_is_refused_and_harms_no_close(self):
        refused = []

        class Batch:
            def __init__(self, samples):
                pass

            def __del__(self):
                try:
                    iter(batches)
                except (BusyError, ClosedError):
                    refused.append(self)

        with load(Numbers(9), collate=Batch, batch_size=1) as batches:
            next(iter(batches))
            while not batches._run.results.place.stream.ready(1):
                pass
        assert refused

    def test_workers_that_are_idle_end_beside_a_sampler_that_hangs(self, monkeypatch):
        """They are gone when the ``with`` is left; a busy machine has all the time it needs."""
        monkeypatch.setattr(_joining, "IDLE_SECONDS", WAIT)
        asked, going_on = threading.Event(), threading.Event()

        def sampler(epoch, n):
            if epoch:
                asked.set()
                going_on.wait()
            return range(n)

        config = {"batch_size": 1, "close_timeout": 0.01}
        with Loader(config, Numbers(4), sampler=sampler) as batches:
            assert 4 == len(list(batches))
            assert asked.wait(WAIT)
            names = our_threads()
            threads = {each.name: each for each in threading.enumerate() if each.name in names}
        left = our_threads()
        feeder = threads.pop("threadloader-feeder")
        going_on.set()
        feeder.join(WAIT)
        assert (2, {feeder.name}) == (len(threads), left)

    def test_closing_in_a_transform_ends_the_epoch_with_closed_error(self):
        held = []

        def transform(sample):
            if sample == 4:
                held[0].close()
            return sample

        with load(Numbers(20), transform=transform, batch_size=2) as batches:
            held.append(batches)
            with pytest.raises(ClosedError):
                lists(batches)

    def test_the_end_of_an_epoch_is_the_end_for_whoever_asks(self):
        """Another thread comes to the end while this one is about to take its turn."""
        with load(Numbers(0), num_workers=0) as batches:
            epoch, new_turn = iter(batches), batches._run.turn.new

            def overtaken():
                batches._run.turn.new = new_turn
                with pytest.raises(StopIteration):
                    next(epoch)
                return new_turn()

            batches._run.turn.new = overtaken
            with pytest.raises(StopIteration):
                next(epoch)

    def test_closing_wakes_a_consumer_in_another_thread(self):
        inside, go_on, got = threading.Event(), threading.Event(), []

        class Slow(Numbers):
            def __getitem__(self, index):
                inside.set()
                assert go_on.wait(WAIT)
                return index

        def consume():
            try:
                next(iter(batches))
            except ClosedError as error:
                got.append(type(error))
            go_on.set()

        with load(Slow(4), num_workers=1) as batches:
            consumer = threading.Thread(target=consume)
            consumer.start()
            assert inside.wait(WAIT)
            batches.close()
            consumer.join(WAIT)
        assert [ClosedError] == got

    @pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has no such signal")
    def test_a_handler_that_closes_or_asks_during_next_corrupts_nothing(self):
        """A signal handler runs in the consumer's thread, in the middle of its next."""

        def once(call):
            raised = []

            class Signalling(Numbers):
                def __getitem__(self, index):
                    if index == 2 and not raised:
                        raised.append(0)
                        os.kill(os.getpid(), signal.SIGUSR1)
                    return index

            errors = []

            def handler(number, frame):
                try:
                    call(held)
                except BusyError as error:
                    errors.append(error)

            before = signal.signal(signal.SIGUSR1, handler)
            held, got = [], []
            try:
                with load(Signalling(8), batch_size=2, num_workers=1) as batches:
                    held += [batches, iter(batches)]
                    got.extend(batch.tolist() for batch in held[1])
            except ClosedError:
                got.append("closed")
            finally:
                signal.signal(signal.SIGUSR1, before)
            return got, len(errors)

        whole = [[0, 1], [2, 3], [4, 5], [6, 7]]
        for _ in range(20):
            got, _ = once(lambda held: held[0].close())
            assert got in [[*whole[:n], "closed"] for n in range(5)] + [whole]
            # Asked in the middle of a next it is refused; between two of them it is a batch.
            got, refused = once(lambda held: next(held[1]))
            assert len(got) == (4 if refused else 3)

    def test_two_threads_that_enter_one_loader_do_not_both_get_in(self):
        for _ in range(50):
            loader, both, got = load(Numbers(4)), threading.Barrier(2), []

            def enter(loader=loader, both=both, got=got):
                both.wait(WAIT)
                try:
                    loader.__enter__()
                    got.append("entered")
                except BusyError:
                    got.append("busy")

            threads = [threading.Thread(target=enter) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT)
            loader.__exit__(None, None, None)
            assert ["busy", "entered"] == sorted(got)

    def test_a_factorys_objects_are_not_closed_under_their_readers(self):
        """A close in one worker leaves the objects to the one who leaves the with."""
        held, inside, go_on, closed = [], threading.Event(), threading.Event(), []

        class Reading(Numbers):
            def __getitem__(self, index):
                if index == 0:
                    inside.set()
                    assert go_on.wait(WAIT)
                    assert [] == closed
                else:
                    assert inside.wait(WAIT)
                    held[0].close()
                    go_on.set()
                return index

            def close(self):
                closed.append(self)

        with load(per_thread(lambda: Reading(2)), batch_size=1, num_workers=2) as batches:
            held.append(batches)
            with pytest.raises(ClosedError):
                lists(batches)
            assert [] == closed
        assert closed

    def test_a_state_taken_after_the_with_opens_nothing(self):
        made = []

        def factory():
            made.append(0)
            return Numbers(4)

        with load(per_thread(factory), num_workers=0) as batches:
            lists(batches)
        count = len(made)
        batches.state_dict()
        assert count == len(made)

    def test_without_a_moment_to_close_an_idle_worker_is_not_called_stuck(
        self, caplog, monkeypatch
    ):
        # The moment that it has in any case; a machine that is busy with others may need more.
        monkeypatch.setattr(_joining, "IDLE_SECONDS", 30)
        monkeypatch.setattr(_engine, "GRACE_SECONDS", 30)
        for _ in range(20):
            with load(Numbers(4), close_timeout=0) as batches:
                lists(batches)
        assert [] == caplog.records

    def test_a_batch_far_larger_than_the_source_costs_what_the_source_costs(self):
        with load(Numbers(4), batch_size=2**31 - 1) as batches:
            assert [[0, 1, 2, 3]] == lists(batches)

    def test_a_source_given_in_code_is_not_closed(self):
        class Closing(Numbers):
            closed = 0

            def close(self):
                self.closed += 1

        source = Closing(4)
        with load(source) as batches:
            lists(batches)
        assert 0 == source.closed

    @pytest.mark.parametrize("workers", WORKERS)
    def test_every_instance_of_a_factory_is_closed_once(self, workers):
        made = []

        class Closing(Numbers):
            def __init__(self):
                super().__init__(20)
                self.closed = 0
                made.append(self)

            def close(self):
                self.closed += 1

        with load(per_thread(Closing), batch_size=2, num_workers=workers) as batches:
            assert [[i, i + 1] for i in range(0, 20, 2)] == lists(batches)
        assert {1} == {each.closed for each in made}

    def test_the_bodys_exception_passes_whatever_closing_does(self):
        class Bad(Numbers):
            def close(self):
                raise OSError("cannot close")

        with pytest.raises(LookupError, match="body") as caught:
            with load(per_thread(lambda: Bad(4))):
                raise LookupError("body")
        assert "cannot close" in caught.value.__notes__[0]
        with pytest.raises(OSError, match="cannot close"), load(per_thread(lambda: Bad(4))):
            pass

    def test_a_failing_enter_leaves_nothing(self, tmp_path):
        """The source that was opened is closed again when the threads cannot be started."""

        class NoThreads(Runtime):
            def launch(self, function, args):
                raise RuntimeError("can't start new thread")

        closed = []

        class Closing(Numbers):
            def close(self):
                closed.append(self)

        loader = load(per_thread(lambda: Closing(4)))
        loader._runtime = NoThreads()
        with pytest.raises(RuntimeError, match="can't start new thread"):
            loader.__enter__()
        assert 1 == len(closed)
        loader._runtime = Runtime()
        with loader as batches:
            assert [[0, 1, 2, 3]] == lists(batches)

    def test_a_batch_that_was_delivered_is_not_kept(self):
        """When the consumer lets go of a batch it is gone, though nothing else was asked for."""
        import weakref

        class Batch(list):
            pass

        with load(Numbers(8), batch_size=2, collate=Batch) as batches:
            epoch = iter(batches)
            gone = weakref.ref(next(epoch))
            free_at_once()
            assert gone() is None


class TestSources:
    def test_arrays_are_batched_as_wholes(self):
        x = np.arange(20, dtype=np.float32).reshape(10, 2)
        y = np.arange(10, dtype=np.uint8)
        with load({"x": x, "y": y}, batch_size=4) as batches:
            first = next(iter(batches))
        assert (np.float32, np.uint8) == (first["x"].dtype, first["y"].dtype)
        assert np.array_equal(x[:4], first["x"])
        assert np.array_equal(y[:4], first["y"])
        first["x"][:] = -1
        assert 0 == x[0, 0]

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_transform_sees_samples_and_its_batches_are_collated(self, workers):
        x = np.arange(6)
        with load(x, transform=lambda i: {"square": i * i}, num_workers=workers) as batches:
            assert [0, 1, 4, 9, 16, 25] == next(iter(batches))["square"].tolist()

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_source_that_reads_many_at_once_is_asked_once_a_batch(self, workers):
        asked = []

        class Many(Numbers):
            def __getitems__(self, indices):
                asked.append(list(indices))
                return [index * 10 for index in indices]

        with load(Many(5), batch_size=2, num_workers=workers, num_epochs=1) as batches:
            assert [[0, 10], [20, 30], [40]] == lists(batches)
        assert [[0, 1], [2, 3], [4]] == sorted(asked)
        assert all(type(index) is int for part in asked for index in part)

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_transform_that_fails_behind_a_read_of_many_is_told_by_its_sample(self, workers):
        class Many(Numbers):
            def __getitems__(self, indices):
                return list(indices)

        def transform(sample):
            return 1 // (sample - 2)

        with load(Many(4), transform=transform, num_workers=workers) as batches:
            with pytest.raises(ZeroDivisionError) as caught:
                next(iter(batches))
        assert ["threadloader: raised for sample 2 (row 2 of step 0, epoch 0)"] == (
            caught.value.__notes__
        )

    def test_a_source_that_gives_another_number_of_samples_is_found_out(self):
        class Short(Numbers):
            def __getitems__(self, indices):
                return [0]

        with (
            load(Short(4)) as batches,
            pytest.raises(CollateError, match="expected 4 samples, got 1"),
        ):
            next(iter(batches))

    def test_a_source_is_asked_with_python_integers(self):
        kinds = set()

        class Kinds(Numbers):
            def __getitem__(self, index):
                kinds.add(type(index))
                return index

        with Loader({}, Kinds(5)) as batches:
            lists(batches)
        assert {int} == kinds

    @pytest.mark.parametrize("workers", WORKERS)
    def test_a_transform_draws_the_same_at_any_number_of_workers(self, workers):
        """Seeds, epochs and positions decide; also behind a resume."""

        def noisy(sample, rng):
            return (sample, rng.integers(2**63, dtype=np.int64))

        def run(workers, skip):
            with Loader(
                {"batch_size": 3, "num_workers": workers}, Numbers(10), transform=noisy
            ) as b:
                if skip is not None:
                    b.load_state_dict(skip)
                got = []
                state = None
                for _ in range(2):
                    for number, batch in enumerate(b):
                        got.append(batch[1].tolist())
                        if number == 1 and state is None:
                            state = b.state_dict()
                return got, state

        expected, state = run(0, None)
        got, _ = run(workers, None)
        assert expected == got
        assert expected[2:] == run(workers, state)[0][: len(expected) - 2]
        assert 20 == len({draw for batch in expected for draw in batch})

    @pytest.mark.parametrize("length", [-1, 2**70, "x", 1.5])
    def test_a_length_that_is_none_is_told(self, length):
        class Long(Numbers):
            def __len__(self):
                return length

        with pytest.raises(SourceError, match=r"a source whose len\(\) is an integer"):
            load(Long(1)).__enter__()

    @pytest.mark.parametrize("wrong", [5, {1: 2}, (i for i in "ab"), np.zeros(())])
    def test_what_cannot_be_a_source_is_refused_on_entering(self, wrong):
        with pytest.raises(ConfigError, match="source"), load(wrong):
            pass

    @pytest.mark.parametrize(
        ("argument", "value"), [("transform", 5), ("collate", "stack"), ("shard", {"index": 3})]
    )
    def test_wrong_arguments_are_refused_by_name(self, argument, value):
        with pytest.raises(ConfigError, match=argument):
            Loader({}, Numbers(3), **{argument: value})

    def test_the_shard_comes_from_the_launcher(self, monkeypatch):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        with load(Numbers(4), batch_size=1, shard="auto") as batches:
            assert [[1], [3]] == lists(batches)

    def test_what_is_given_in_code_takes_the_place_of_the_config(self, tmp_path):
        file = tmp_path / "train.json"
        file.write_text('{"source": {"type": "npz", "path": "none.npz"}, "shuffle": false}')
        with Loader(file, np.arange(3), collate=tuple) as batches:
            assert [(0, 1, 2)] == list(batches)
        with pytest.raises(SourceError, match=r"none\.npz"), Loader(file):
            pass

    def test_a_config_that_changes_afterwards_changes_nothing(self):
        config = {"batch_size": 2, "shuffle": False, "collate": {"type": "stack"}}
        loader = Loader(config, Numbers(4))
        config["batch_size"] = 1
        config["collate"]["type"] = "pad"
        with loader as batches:
            assert [[0, 1], [2, 3]] == lists(batches)


class Clock(Runtime):
    """It stands still but where a test moves it."""

    now = 0.0

    def monotonic(self):
        return self.now


class TestStats:
    def test_they_are_exact_under_an_injected_clock(self):
        """Each read takes 1 s, each step 3 s; four batches of one sample, no workers."""

        clock = Clock()
        clock.now = 50.0

        class Reads(Numbers):
            def __getitem__(self, index):
                clock.now += 1
                return index

        loader = load(Reads(4), batch_size=1, num_workers=0)
        loader._runtime = clock
        with loader as batches:
            for _ in batches:
                clock.now += 3
            clock.now += 5
        clock.now += 100
        stats = batches.stats()
        assert (1.0, 3.0, 21.0) == (
            stats.first_batch_seconds,
            stats.data_wait_seconds,
            stats.elapsed_seconds,
        )
        assert (0.15, "fair") == (stats.data_wait_fraction, stats.data_wait_band)
        assert (4, 4) == (stats.batches, stats.samples)

    def test_no_more_was_waited_than_has_passed_when_another_thread_asks_meanwhile(self):
        """The loop goes on between the clock's look and that at the place, whichever is first."""

        clock = Clock()

        class Reads(Numbers):
            def __getitem__(self, index):
                clock.now += 10
                return index

        class Asked:
            """The run, which delivers a batch just before it is asked for something."""

            def __init__(self, run):
                self.run = run

            def __getattr__(self, name):
                next(epoch, None)
                return getattr(self.run, name)

        loader = load(Reads(9), batch_size=1, num_workers=0)
        loader._runtime = clock
        with loader as batches:
            epoch = iter(batches)
            next(epoch)
            batches._run, run = Asked(batches._run), batches._run
            stats = batches.stats()
            batches._run = run
        assert 0 < stats.data_wait_seconds <= stats.elapsed_seconds - stats.first_batch_seconds

    def test_what_another_thread_tells_later_does_not_count(self):
        """It has asked while this one was between its look at the clock and its answer."""

        class Clock(Runtime):
            now, looks = 0.0, 0

            def monotonic(self):
                now = self.now
                self.looks -= 1
                if self.looks == 0:
                    self.now += 10
                    other = threading.Thread(target=batches.stats)
                    other.start()
                    other.join()
                return now

        clock, asked = Clock(), []

        class Reads(Numbers):
            def __getitem__(self, index):
                clock.now += 10
                if index == 2:
                    clock.looks = 2  # until the last one of what asks now
                    asked.append(batches.stats())
                return index

        loader = load(Reads(9), batch_size=1, num_workers=0, shuffle=False)
        loader._runtime = clock
        with loader as batches:
            epoch = iter(batches)
            for _ in range(3):
                next(epoch)
        (stats,) = asked
        assert stats.data_wait_seconds <= stats.elapsed_seconds - stats.first_batch_seconds

    def test_a_step_that_another_thread_sleeps_through_is_no_wait(self):
        """It asks while the loop waits, and looks at the clock when that trains again."""
        looking, waiting = threading.Event(), threading.Event()
        trained, told = threading.Event(), []

        class Clock(Runtime):
            now = 0.0

            def monotonic(self):
                now = self.now
                if threading.current_thread() is monitor:
                    # The second time: by then it has read since when the loop waits.
                    if looking.is_set():
                        waiting.set()
                        trained.wait()
                    looking.set()
                    return max(now, self.now)
                return now

        clock = Clock()

        class Reads(Numbers):
            def __getitem__(self, index):
                clock.now += 1
                if index == 2:
                    monitor.start()
                    waiting.wait()
                return index

        loader = load(Reads(9), batch_size=1, num_workers=0, shuffle=False)
        loader._runtime = clock
        monitor = threading.Thread(target=lambda: told.append(batches.stats()))
        with loader as batches:
            epoch = iter(batches)
            for _ in range(3):
                next(epoch)
            clock.now += 100
            trained.set()
            monitor.join()
            assert batches.stats().data_wait_seconds == told[0].data_wait_seconds == 2.0

    @pytest.mark.parametrize("workers", [0, 2])
    def test_the_wait_for_an_epoch_without_a_step_is_counted_once(self, workers):
        clock = Clock()

        def sampler(epoch, n):
            if epoch:  # what comes before the first batch is told apart
                clock.now += 10
            return range(1 - epoch)

        loader = Loader({"num_workers": workers, "num_epochs": 2}, Numbers(4), sampler=sampler)
        loader._runtime = clock
        with loader as batches:
            assert [1, 0] == [len(list(epoch)) for epoch in batches.epochs()]
            assert batches.stats().data_wait_seconds <= 10.0

    def test_padding_is_not_counted_as_samples(self):
        shard = {"index": 1, "count": 2}
        with Loader({"batch_size": 2, "shard": shard}, Numbers(5)) as batches:
            lists(batches)
        assert (2, 2) == (batches.stats().batches, batches.stats().samples)

    def test_a_full_buffer_shows(self):
        """Everything has been read long before the second next: prefetch_batches are ready."""
        source = TestAhead.Gated(12)
        config = {"batch_size": 2, "num_workers": 1, "prefetch_batches": 3, "num_epochs": 1}
        with load(source, **config) as batches:
            epoch = iter(batches)
            next(epoch)
            for _ in range(8):
                assert source.reads.acquire(timeout=WAIT)
            while batches._run.results.place.stream.ready(1) < 3:
                pass
            before = batches.stats().ready_sum
            next(epoch)
            assert 3 == batches.stats().ready_sum - before


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_running_fingerprint_goes_on_over_a_resume(workers):
    """It is the same at any number of workers, in info, stats and state, cut or not."""
    config = {"batch_size": 3, "num_workers": workers, "fingerprint": True, "seed": 5}
    with Loader({**config, "num_workers": 0}, source=np.arange(10)) as batches:
        expected = [batches.info.fingerprint for epoch in batches.epochs(2) for _ in epoch]
    got = []
    state = None
    while len(got) < 8:
        with Loader(config, source=np.arange(10), resume=state) as batches:
            for epoch in batches.epochs(2):
                for _ in epoch:
                    got.append(batches.info.fingerprint)
                    if len(got) % 3 == 0:
                        break
                if len(got) % 3 == 0:
                    break
            state = batches.state_dict()
            assert got[-1] == batches.stats().fingerprint == state["shard"]["fingerprint"]
    assert expected == got
    assert len(set(got)) == 8


def test_other_content_has_another_running_fingerprint():
    def running(source):
        with Loader({"fingerprint": True}, source=source) as batches:
            list(batches)
            return batches.stats().fingerprint

    assert running(np.arange(10)) != running(np.arange(10.0))


def test_without_asking_there_is_no_fingerprint():
    with Loader({}, source=np.arange(10)) as batches:
        list(batches)
        assert ("", "") == (batches.info.fingerprint, batches.stats().fingerprint)


class Keeping(dict):
    """A dict of a class that keeps more than its fields."""

    def __init__(self, **fields):
        super().__init__(fields)
        self.kept = list(fields)

    def __repr__(self):
        return f"{self.kept}, {super().__repr__()}"


class Told(dict):
    """A dict that knows something of each row."""

    def __init__(self, rows):
        super().__init__(x=np.array(rows))
        self.rows = rows

    def __repr__(self):
        return f"{self.rows}, {super().__repr__()}"


class Couple(tuple):
    """A tuple of a class of its own."""

    __slots__ = ()

    def __repr__(self):
        return f"a couple {super().__repr__()}"


class Noted(Pair):
    """A named tuple with an attribute."""

    def __repr__(self):
        return f"{self.note}, {super().__repr__()}"


def noted(rows):
    pair = Noted(np.array(rows), rows)
    pair.note = rows
    return pair


class Tagged(np.ndarray):
    """An array with an attribute, which its views have, too."""

    def __array_finalize__(self, of):
        self.tag = getattr(of, "tag", None)

    def __repr__(self):
        return f"{self.tag}, {super().__repr__()}"


def tagged(rows):
    array = np.array(rows).view(Tagged)
    array.tag = rows
    return array


class TestGroups:
    """Small batches of a source that builds whole ones are made several at a time."""

    @pytest.mark.parametrize("workers", [0, 1, 2])
    @given(n=st.integers(0, 60), batch_size=st.integers(1, 5), shard=st.integers(0, 2))
    @settings(max_examples=15, deadline=None)
    def test_the_batches_are_those_that_are_made_one_by_one(self, workers, n, batch_size, shard):
        config = {"batch_size": batch_size, "num_workers": workers, "num_epochs": 2}
        got = []
        shard = {"index": shard, "count": 3}
        with Loader(config, source=Taken(n), shard=shard) as batches:
            for epoch in batches.epochs():
                for batch in epoch:
                    info = batches.info
                    assert batch["x"].tolist() == info.indices.tolist()
                    assert batch["name"] == [str(index) for index in info.indices.tolist()]
                    got.append((info.epoch, info.step, batch["x"].tolist(), info.valid.tolist()))
            counted = batches.stats()
        expected = []
        with Loader({**config, "num_workers": 0}, source=range(n), shard=shard) as batches:
            for epoch in batches.epochs():
                for batch in epoch:
                    info = batches.info
                    expected.append((info.epoch, info.step, batch.tolist(), info.valid.tolist()))
        assert expected == got
        rows = sum(sum(valid) for *_, valid in expected)
        assert (len(expected), rows) == (counted.batches, counted.samples)

    def test_one_call_makes_many(self):
        source = Taken(64)
        with Loader({"batch_size": 2, "num_workers": 0}, source=source) as batches:
            assert 32 == len(list(batches))
        assert [1, 2, 4, 8, 16, 1] == [len(rows) // 2 for rows in source.taken]

    def test_the_last_jobs_of_an_epoch_are_as_large_as_those_before(self):
        """Some jobs are prepared ahead: that should be as much where the last ones are of them."""
        source = Taken(2 * 600)
        config = {"batch_size": 2, "num_workers": 1, "num_epochs": 1}
        with Loader(config, source=source) as batches:
            assert 600 == len(list(batches))
        sizes = [len(rows) // 2 for rows in source.taken]
        assert [1, 2, 4, 8, 16, 32, 64, 128, 173, 172] == sizes

    @pytest.mark.parametrize("workers", [0, 2])
    @given(bad=st.sets(st.integers(0, 39), max_size=4))
    @settings(max_examples=15, deadline=None)
    def test_an_error_comes_at_the_place_of_its_batch(self, workers, bad):
        """The batches before and behind it in its group are delivered."""
        config = {"batch_size": 2, "num_workers": workers, "shuffle": False, "num_epochs": 1}
        with Loader(config, source=Taken(40, bad)) as batches:
            epoch, got, places, notes = iter(batches), [], [], []
            while True:
                try:
                    got.append(next(epoch)["x"].tolist())
                except StopIteration:
                    break
                except OSError as error:
                    places.append((len(got), batches.state_dict()["world"]["step"]))
                    notes.append(f"step {len(got)}, epoch 0" in error.__notes__[0])
                    got.append(None)
            stats = batches.stats()
        expected = [None if {i, i + 1} & bad else [i, i + 1] for i in range(0, 40, 2)]
        assert expected == got
        failed = expected.count(None)
        assert [(step, step) for step in range(20) if expected[step] is None] == places
        assert [True] * failed == notes
        assert (20 - failed, failed) == (stats.batches, stats.failed)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_a_state_taken_inside_a_group_is_exact(self, workers):
        config = {"batch_size": 2, "num_workers": workers}
        with Loader({**config, "num_workers": 0}, source=Taken(50)) as batches:
            expected = [batch["x"].tolist() for epoch in batches.epochs(2) for batch in epoch]
        for cut in range(1, 50):
            with Loader(config, source=Taken(50)) as batches:
                whole = (batch for epoch in batches.epochs(2) for batch in epoch)
                got = [next(whole)["x"].tolist() for _ in range(cut)]
                state = json.loads(json.dumps(batches.state_dict()))
                assert (cut, 2 * cut) == (state["shard"]["batches"], state["shard"]["samples"])
            with Loader(config, source=Taken(50), resume=state) as batches:
                got += [batch["x"].tolist() for epoch in batches.epochs(2) for batch in epoch]
            assert expected == got

    @pytest.mark.parametrize("kind", [lambda *fields: fields, Pair])
    def test_a_tuple_is_cut_field_by_field_and_keeps_its_class(self, kind):
        class Pairs(Taken):
            def take(self, indices):
                return kind(super().take(indices)["x"], indices.tolist())

        config = {"batch_size": 4, "num_workers": 0, "shuffle": False}
        with Loader(config, source=Pairs(64)) as batches:
            got = list(batches)
        assert {type(kind(0, 0))} == set(map(type, got))
        assert [list(range(i, i + 4)) for i in range(0, 64, 4)] == [x.tolist() for x, _ in got]
        assert [list(range(i, i + 4)) for i in range(0, 64, 4)] == [rows for _, rows in got]

    @pytest.mark.parametrize(
        "of",
        [
            lambda rows: {},
            lambda rows: (),
            lambda rows: OrderedDict(x=np.array(rows)),
            lambda rows: Keeping(x=np.array(rows)),
            lambda rows: {"x": {}, "y": ()},
            lambda rows: {"x": np.array(rows), "unit": "metres"},
            lambda rows: {"x": np.array(rows), "count": len(rows)},
            lambda rows: [np.array(rows), np.array(rows)],
            lambda rows: {"ragged": [list(range(row)) for row in rows]},
            lambda rows: [np.array(rows), [str(row) for row in rows], np.array(rows)],
            lambda rows: np.ma.array(rows, mask=[row % 3 == 0 for row in rows]),
            lambda rows: Couple((np.array(rows), rows)),
            lambda rows: [np.array(rows), np.zeros(3)],
            Told,
            noted,
            tagged,
        ],
    )
    def test_whatever_a_take_gives_comes_as_it_gives_it_for_one_batch(self, of):
        class Giving(Taken):
            def take(self, indices):
                return of(super().take(indices)["x"].tolist())

        config = {"batch_size": 4, "num_workers": 0, "shuffle": False, "num_epochs": 1}
        with Loader(config, source=Giving(64)) as batches:
            got = list(batches)
            assert (0, 0) == (batches.stats().retried, batches.stats().failed)
        expected = [of(list(range(first, first + 4))) for first in range(0, 64, 4)]
        assert list(map(repr, expected)) == list(map(repr, got))

    @pytest.mark.parametrize("in_memory", [False, True])
    @pytest.mark.parametrize("workers", [0, 2])
    def test_what_cannot_be_cut_is_taken_together_once_and_has_not_failed(
        self, workers, in_memory, caplog
    ):
        """Each further try would read its samples twice."""
        caplog.set_level("INFO", "threadloader")

        class Giving(Taken):
            def take(self, indices):
                return {**super().take(indices), "unit": "metres"}

        Giving.in_memory = in_memory
        source = Giving(64)
        config = {"batch_size": 4, "num_workers": workers, "stall_action": "raise"}
        with Loader({**config, "stall_seconds": 60, "prefetch_batches": 5}, source) as batches:
            before = batches.stats().prefetch_batches
            assert 32 == sum(len(list(epoch)) for epoch in batches.epochs(2))
            stats, depth = batches.stats(), batches._supply._depth
        assert (0, 0, 5) == (stats.retried, stats.failed, depth)
        assert (5, True) == (stats.prefetch_batches, before > 5) if workers else before == 0
        # What was under way when the first could not be cut: groups of 2, 4 and 8 at most.
        assert sum(len(indices) > 4 for indices in source.taken) <= 3
        assert 1 == sum("taken one by one" in each.getMessage() for each in caplog.records)

    def test_what_cannot_be_cut_after_a_first_piece_of_a_job_has_not_failed_either(self):
        class Giving(Taken):
            sample_bytes, in_memory = 1 << 18, True

            def take(self, indices):
                batch = super().take(indices)
                return {**batch, "unit": "metres"} if max(indices) >= 20 else batch

        source = Giving(64)
        with Loader({"batch_size": 4, "num_workers": 0, "shuffle": False}, source) as batches:
            assert 16 == len(list(batches))
            assert (0, 0) == (batches.stats().retried, batches.stats().failed)
        assert 1 == sum(len(indices) > 4 and max(indices) >= 20 for indices in source.taken)
        assert any(len(indices) > 4 for indices in source.taken if max(indices) < 20)

    @pytest.mark.parametrize("given", [3, np.float64(1), "abcd", b"abcd", True], ids=repr)
    def test_a_take_that_gives_no_rows_is_told(self, given):
        """As of a `sum` that was not wanted."""
        source = type("Summing", (Taken,), {"take": lambda self, indices: given})(16)
        with Loader({"batch_size": 4, "num_workers": 0}, source=source) as batches:
            with pytest.raises(CollateError, match="take: expected a batch of 4 rows, got "):
                next(iter(batches))

    @pytest.mark.parametrize("told", [None, 0, -8, "8", 8.0, lambda self: 8])
    def test_a_source_that_says_no_number_of_bytes_is_asked_for_one_batch_at_a_time(self, told):
        source = type("Telling", (Taken,), {"sample_bytes": told})(16)
        with Loader({"batch_size": 2, "num_workers": 0}, source=source) as batches:
            assert 8 == len(list(batches))
        assert {2} == set(map(len, source.taken))

    def test_it_says_which_batches_it_makes(self):
        indices = np.arange(6).reshape(3, 2)
        recipe, span = Recipe(None, None, None, gather=2), Span(4, 7, 3, 14, 2, 40, False, False)
        job = GroupJob(recipe, span, indices, np.ones(2, bool))
        assert "the batches of steps 7 to 9, epoch 4" == job.describe(None)
        assert "the batches of steps 7 to 8, epoch 4" == job.describe(0)
        assert "the batches of steps 9 to 9, epoch 4" == job.describe(1)

    def test_several_workers_gather_what_is_handed_over_together(self):
        """A group of arrays in memory has a part for each call, in whatever order they are made."""
        indices = np.arange(14).reshape(7, 2)
        recipe = Recipe(None, None, None, take=lambda rows: rows * 10, group=7, gather=3)
        job = GroupJob(recipe, Span(0, 0, 7, 0, 2, 14, False, False), indices, np.ones(2, bool))
        assert 3 == job.parts
        for claim in ([2], [0, 1]):
            job.run(iter(claim))
        assert (10 * indices).tolist() == [batch.tolist() for batch in job.finish()]

    def test_a_group_that_was_finished_may_be_run_again(self):
        """As after a Ctrl-C behind the finish, without workers."""
        indices = np.arange(6).reshape(3, 2)
        recipe = Recipe(None, None, None, take=lambda rows: rows * 10, group=3, gather=2)
        job = GroupJob(recipe, Span(0, 0, 3, 0, 2, 6, False, False), indices, np.ones(2, bool))
        for _ in range(2):
            job.run(iter(range(job.parts)))
            assert (10 * indices).tolist() == [batch.tolist() for batch in job.finish()]

    @pytest.mark.parametrize("in_memory", [True, False])
    def test_one_call_of_a_worker_gathers_up_to_a_bound(self, in_memory):
        """Else a batch that is kept would keep a whole group."""
        facts = {"sample_bytes": GATHER_BYTES // 8, "in_memory": in_memory}
        source = type("Wide", (Taken,), facts)(128)
        config = {"batch_size": 2, "num_workers": 2, "stall_seconds": 60, "stall_action": "raise"}
        with Loader(config, source) as batches:  # with a stall raised, they stay with the workers
            assert 64 == len(list(batches))
            group = batches.stats().prefetch_batches // GROUPS_AHEAD
        assert 4 == max(len(rows) // 2 for rows in source.taken)
        assert group == (GROUP_BYTES // GATHER_BYTES if in_memory else 1) * 4

    def test_with_a_bound_of_bytes_groups_are_no_larger_than_one_call_makes(self):
        """A larger one would pass the bound by more: it holds up to one result a worker."""
        source = type("Wide", (Taken,), {"sample_bytes": 1 << 20, "in_memory": True})(64)
        with Loader({"batch_size": 1, "max_bytes": "1GiB"}, source) as batches:
            assert (GATHER_BYTES >> 20) * GROUPS_AHEAD == batches.stats().prefetch_batches

    @pytest.mark.parametrize(("samples", "most"), [(200, 300), (600, 556), (2000, 768)])
    def test_no_more_batches_are_said_to_be_prepared_than_their_epochs_let(self, samples, most):
        """No group reaches into the next epoch: so a buffer that is full can be told."""
        with Loader({"batch_size": 2}, np.zeros(samples)) as batches:
            assert most == batches.stats().prefetch_batches

    def test_the_bound_of_bytes_holds_for_groups_and_the_batch_in_hand(self):
        bound = 3 << 20
        source = type("Wide", (Taken,), {"sample_bytes": 1 << 12, "in_memory": True})(4096)
        with Loader({"batch_size": 2, "num_workers": 2, "max_bytes": bound}, source) as batches:
            ahead = batches.stats().prefetch_batches
        assert bound >= (ahead + ahead // GROUPS_AHEAD) * 2 * (1 << 12) > bound * 0.9

    def test_batches_of_a_group_share_no_row(self):
        with Loader({"batch_size": 4, "num_workers": 0}, source=np.zeros((64, 3))) as batches:
            kept = list(batches)
        for number, batch in enumerate(kept):
            batch += number
        assert all((batch == number).all() for number, batch in enumerate(kept))

    def test_what_is_left_of_a_group_is_let_go_at_the_end(self):
        with Loader({"batch_size": 1, "num_workers": 0}, source=np.zeros((64, 3))) as batches:
            epoch = iter(batches)
            batch = next(epoch)
            for _ in range(9):
                batch = next(epoch)
            there = weakref.ref(batch.base)
        del batch
        gc.collect()
        assert there() is None

    @pytest.mark.parametrize(
        ("workers", "samples", "width", "epochs"),
        [(0, 64, 1 << 16, 100), (2, 20_000, 512, 20)],
        ids=["batches of 1 MiB without workers", "groups of 2 MiB"],
    )
    def test_what_the_user_holds_is_never_written_again(self, workers, samples, width, epochs):
        """The last 64 batches, or views of them, have every value that they came with.

        Memory is used again in both: smaller batches come from numpy where there is no worker.
        """
        rows = np.arange(samples, dtype=np.float32)
        source = np.repeat(rows[:, np.newaxis], width, axis=1)
        held, addresses = deque(maxlen=64), set()
        with Loader({"batch_size": 4, "num_workers": workers, "seed": 1}, source=source) as batches:
            batches._supply.choice = None
            for turn, epoch in enumerate(batches.epochs(epochs)):
                for number, batch in enumerate(epoch):
                    indices = batches.info.indices
                    if number % 3:
                        held.append((memoryview(batch), indices[:, np.newaxis]))
                    else:
                        held.append((batch[1:, ::2].T, indices[1:]))
                    if turn:  # before, groups begin small, in memory from numpy
                        addresses.add(batch.base.ctypes.data)
                    if number % 50 == 0:
                        for kept, expected in held:
                            assert (np.asarray(kept) == expected).all()
            count = batches.stats().batches
        assert epochs * samples // 4 == count
        # The memory was the pool's, and used again, many times: else the test would say nothing.
        assert len(addresses) < 200
        assert {0} == {address % 64 for address in addresses}


def test_what_takes_the_place_of_no_batch_says_so():
    job = NoBatch(Span(2, 0, 0, 0, 4, 3, True, True))
    assert "epoch 2, which has no step" == job.describe(None)
    assert 0 == job.samples(0)
    with pytest.raises(IndexError, match="expected no question for a batch of epoch 2"):
        job.info(0)


def test_a_loader_that_is_entered_while_the_interpreter_shuts_down_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    with pytest.raises(ClosedError, match="while the interpreter shuts down"):
        Loader({}, range(3)).__enter__()


def test_leaving_what_was_never_entered_does_nothing():
    loader = Loader({}, range(3))
    loader.__exit__(None, None, None)
    with loader as batches:
        assert 1 == len(list(batches))


@pytest.mark.parametrize("body", [None, KeyError("the body's")])
def test_a_ctrl_c_at_the_door_leaves_no_thread(monkeypatch, body):
    """It comes before the threads were told to end. They are told all the same."""
    close, came = Batches._close, []

    def interrupted(batches):
        if not came:
            came.append(True)
            signal.raise_signal(signal.SIGINT)
        return close(batches)

    monkeypatch.setattr(Batches, "_close", interrupted)
    loader = Loader({}, range(9))
    batches = loader.__enter__()
    epoch = iter(batches)
    next(epoch)
    with pytest.raises(KeyboardInterrupt):
        loader.__exit__(type(body), body, None)
    with pytest.raises(ClosedError):
        next(epoch)


def test_an_epoch_of_more_than_one_block_is_every_sample_once():
    n = 2 * BLOCK + 5
    with Loader({"batch_size": BLOCK // 4, "num_workers": 0, "num_epochs": 1}, np.arange(n)) as it:
        rows = np.concatenate(list(it))
    assert np.array_equal(np.arange(n), np.sort(rows))


def test_large_rows_of_other_shapes_are_an_error_that_names_both():
    class Ragged(Numbers):
        def __getitem__(self, index):
            return np.zeros(100_000 + index)

    config = {"batch_size": 2, "num_workers": 0, "shuffle": False}
    with Loader(config, Ragged(2)) as batches:
        with pytest.raises(CollateError) as caught:
            next(iter(batches))
    assert (0, 1) == caught.value.samples


def written(tmp_path, text):
    """Writes a config beside a file of five samples; gives its path."""
    np.savez(tmp_path / "data.npz", x=np.arange(5))
    path = tmp_path / "train.json"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "option",
    ['"exclude": [77]', '"sampler": {"type": "subset", "indices": [5]}', '"exclude": "none.txt"'],
    ids=["list", "subset", "file"],
)
def test_what_is_wrong_at_the_source_is_told_with_its_place_in_the_file(option, tmp_path):
    source = '"source": {"type": "npz", "path": "data.npz"}'
    file = written(tmp_path, f'{{"lr": 1, "training": {{{source},\n{option}}}}}')
    name = option.split('"')[1]
    with pytest.raises(ConfigError) as caught, Loader(f"{file}#/training"):
        pass
    (problem,) = caught.value.problems
    assert (file, 2) == (caught.value.file, problem.line)
    assert problem.pointer.startswith(f"/training/{name}")


def test_what_is_wrong_with_a_transform_is_told_with_its_place_in_the_file(tmp_path):
    transform = '{"type": "mlm", "vocabulary": 9,\n"mask_token": 9}'
    source = '{"type": "npz", "path": "data.npz"}'
    file = written(tmp_path, f'{{"source": {source}, "transform": {transform}}}')
    with pytest.raises(ConfigError, match=r"train\.json:2:15: /transform/mask_token: expected"):
        Loader(file)


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


def test_what_is_given_in_code_has_no_place_in_the_file(tmp_path):
    file = written(tmp_path, '{"source": {"type": "npz", "path": "data.npz"}, "batch_size": 2}')
    with pytest.raises(ConfigError) as caught, Loader(file, sampler=[7]):
        pass
    assert [0] == [problem.line for problem in caught.value.problems]


def test_a_shard_that_is_given_in_code_has_no_place_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("WORLD_SIZE", "2")
    source = '"source": {"type": "npz", "path": "data.npz"}'
    file = written(tmp_path, f'{{{source}, "shard": "auto"}}')
    for shard, line in (None, 1), ("auto", 0):
        with pytest.raises(ConfigError) as caught, Loader(file, shard=shard):
            pass
        assert [("/shard", line)] == [(it.pointer, it.line) for it in caught.value.problems]
        assert str(caught.value).startswith(f"{file}:1:" if line else "/shard: ")


def test_of_several_problems_those_that_stand_in_the_file_are_told_with_its_name(tmp_path):
    file = written(tmp_path, '{"exclude": [99]}')
    with pytest.raises(ConfigError) as caught, Loader(file, range(5), sampler=[7]):
        pass
    told = sorted(line.partition(" expected")[0] for line in str(caught.value).splitlines())
    assert sorted([f"{file}:1:13: /exclude:", "sampler:"]) == told


@pytest.mark.parametrize("per", [lambda make: make(), per_thread], ids=["one", "per thread"])
def test_an_error_of_the_code_that_counts_the_samples_passes_as_it_is(per):
    class Source(list):
        def __len__(self):
            raise ValueError("cannot open the database")

    with pytest.raises(ValueError, match=r"^cannot open the database$"):
        Loader({}, per(Source)).__enter__()


def test_an_error_of_a_factory_passes_as_it_is():
    def factory():
        raise ValueError("cannot open the database")

    with pytest.raises(ValueError, match=r"^cannot open the database$"):
        Loader({}, per_thread(factory)).__enter__()


# Of a class whose `take` is another one, the loader uses the rest, through something around it.
@pytest.mark.parametrize("more", [{}, {"take": lambda self, n: None}], ids=["plain", "wrapped"])
@pytest.mark.parametrize("per", [lambda make: make(), per_thread], ids=["one", "per thread"])
@pytest.mark.parametrize("length", [-1, 2**62 + 1, 2**63 - 1, 2**70, "3", None])
def test_a_length_that_is_none_is_told(per, length, more):
    has = {"__len__": lambda self: length, "__getitem__": lambda self, i: i, **more}
    kind = type("Source", (), has)
    with pytest.raises(SourceError) as caught:
        Loader({}, per(kind)).__enter__()
    most = min(2**62, sys.maxsize)
    expected = f"expected a source whose len() is an integer from 0 to {most}, got: "
    assert expected == str(caught.value)[: len(expected)]


def test_an_object_is_asked_for_nothing_that_a_source_need_not_have():
    """What it has by names of its own is its own affair, and may raise."""

    class Remote(Numbers):
        @property
        def source(self):
            raise RuntimeError("not connected yet")

    with load(Remote(4), batch_size=2) as batches:
        assert 2 == len(list(batches))


def test_a_class_need_not_say_its_name():
    class Meta(type):
        @property
        def __name__(cls):
            raise RuntimeError("no name")

    class Nameless(Numbers, metaclass=Meta):
        pass

    with load(Nameless(4), batch_size=2) as batches:
        assert 2 == len(list(batches))
    with pytest.raises(ConfigError, match=r"got the class \S*Nameless; give an object of it"):
        load(Nameless).__enter__()


@pytest.mark.parametrize("name", ["epochs", "stats", "info", "save"])
def test_a_recipe_that_is_taken_for_its_batches_says_where_they_are(name):
    loader = load(Numbers(4))
    with pytest.raises(AttributeError, match=rf"with Loader\(...\) as batches: batches.{name} ..."):
        getattr(loader, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'epoch'$"):
        loader.epoch  # noqa: B018 (asked for, and of a name that batches have not)
    with pytest.raises(AttributeError, match=r"has no attribute '_supply'$"):  # not for users
        loader._supply  # noqa: B018


def test_an_option_that_is_set_on_a_loader_is_refused():
    """It would be an attribute that nobody looks at."""

    class Own(Loader):
        pass

    loader = Own({"batch_size": 2}, Numbers(4))
    told = "a Loader does not change; write for another one: "
    replaced, anew = "loader.replace({}=...)", "Loader(..., {}=...)"
    ways = {
        replaced: ("batch_size", "num_workers", "cache"),
        f"{replaced} or {anew}": ("source", "transform", "collate", "sampler", "shard"),
        anew: ("resume", "skip_steps", "unknown"),
    }
    for way, names in ways.items():
        for name in names:
            with pytest.raises(AttributeError) as caught:
                setattr(loader, name, None)
            assert told + way.format(name, name) == str(caught.value)
            assert (name, loader) == (caught.value.name, caught.value.obj)
    with loader.replace(batch_size=4) as batches:
        assert 1 == len(batches)
    loader.name = "what a subclass or its user wants to know"
    assert loader.name.startswith("what")


@pytest.mark.parametrize("at", [2, 3, 4])
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_read_of_several_batches_that_fails_once_is_counted(workers, in_memory, at):
    """Made one by one all are good, and nothing else would tell of storage that fails at times."""
    calls = []

    def take(self, indices):
        calls.append(indices)
        if len(calls) == at:
            raise OSError(5, "once")
        return np.array(indices)

    facts = {"take": take, "sample_bytes": 1 << 18, "in_memory": in_memory}
    source = type("Failing", (Numbers,), facts)(40)
    config = {"batch_size": 4, "num_workers": workers, "stall_action": "raise", "stall_seconds": 60}
    with Loader({**config, "shuffle": False}, source) as batches:
        assert list(range(40)) == np.concatenate(list(batches)).tolist()
        assert (1, 0) == (batches.stats().retried, batches.stats().failed)


@pytest.mark.parametrize(
    "config", [{"batch_size": 32, "drop_last": True}, {"exclude": [*range(9)]}]
)
def test_epochs_without_an_end_and_without_a_batch_are_told(config, caplog):
    """The loop over them goes on for ever, and would say nothing."""
    with load(Numbers(9), **config) as batches:
        assert [] == [batch for epoch in batches.epochs(2) for batch in epoch]
        assert [] == caplog.records
        batches.epochs()
    (record,) = caplog.records
    assert record.getMessage().startswith("epochs without an end, and without a batch: the source")


def test_a_run_without_an_end_that_comes_to_give_no_batch_is_told_once(caplog):
    """As by a sampler of an iterator that is used up: the loop would turn for ever in silence."""
    left = iter(range(9))
    config = {"batch_size": 4}
    with Loader(config, Numbers(9), sampler=lambda epoch, n: list(left)) as batches:
        assert 3 == sum(len(list(epoch)) for epoch in batches.epochs(150))
        assert [] == caplog.records
        epochs = itertools.islice(batches.epochs(), 250)
        assert [] == [batch for epoch in epochs for batch in epoch]
    (record,) = caplog.records
    assert "none of the last 100 gave a batch" in record.getMessage()


def test_epochs_without_a_batch_between_others_are_not_told(caplog):
    """Not the number of them counts, but how many come one after the other."""
    with Loader({}, Numbers(4), sampler=lambda epoch, n: [] if epoch % 99 else [1]) as batches:
        assert 3 == sum(len(list(epoch)) for epoch in itertools.islice(batches.epochs(), 250))
    assert [] == caplog.records


ANSWERS = """
import sys
import numpy as np
from threadloader import Loader

with Loader({"batch_size": 4, "num_workers": int(sys.argv[1])}, np.arange(12)) as batches:
    epoch = iter(batches)
    next(epoch), next(epoch)
    sys.meta_path.clear()
    print(batches.info.step, batches.stats().batches)
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_answers_is_there_with_the_second_batch(run_child, workers):
    """Later maybe no file can be opened, or a signal's handler asks in the middle of an import."""
    done = run_child(ANSWERS, workers)
    assert ("", "1 2\n") == (done.stderr, done.stdout)


NO_ANSWERS = """
import sys
import numpy as np
from threadloader import Loader

with Loader({"batch_size": 4}, np.arange(12)) as batches:
    finders, sys.meta_path[:] = sys.meta_path[:], []
    print(len(list(batches)))
    sys.meta_path[:] = finders
    print(batches.info.step)
"""


def test_a_loop_goes_on_where_nothing_can_be_imported(run_child):
    """No answer is worth a loop; it is imported when it is asked for."""
    done = run_child(NO_ANSWERS)
    assert ("", "3\n2\n") == (done.stderr, done.stdout)


def test_options_are_replaced_and_all_else_stays(tmp_path, monkeypatch):
    """Relative paths start at the config's folder still, where the current one has such files."""
    for folder, first in (("there", 0), ("here", 100)):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "d.npz", x=np.arange(first, first + 4))
    file = tmp_path / "there" / "train.json"
    spec = {"source": {"type": "npz", "path": "d.npz"}, "root": ".", "shuffle": False}
    file.write_text(json.dumps(spec))
    monkeypatch.chdir(tmp_path / "here")
    given = {"transform": lambda sample: sample["x"] * 2, "sampler": [3, 1, 0]}
    loader = Loader(file, **given, shard={"index": 1, "count": 2}, skip_steps=1)
    with loader.replace(batch_size=1, num_workers=0) as batches:
        assert [[6]] == lists(batches)
    with loader.replace(batch_size=1, shard={"index": 0, "count": 2}) as batches:
        assert [[0]] == lists(batches)
    assert (32, 2) == (loader.config.batch_size, loader.config.num_workers)
    with pytest.raises(ConfigError, match="/batch_size"):
        loader.replace(batch_size=0)
