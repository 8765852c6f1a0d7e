"""A loop over a loader gets the batches of a serial one, epoch after epoch, or is told why not."""

import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import WAIT, WORKERS, Gated, Numbers, lists, load
from oracle import expected_epoch, expected_len
from strategies import deals

from threadloader import BusyError, ClosedError, ConfigError, Loader
from threadloader.jobs import NoBatch, Span
from threadloader.order import Order
from threadloader.order._deal import BLOCK


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


def test_a_batch_far_larger_than_the_source_costs_what_the_source_costs():
    with load(Numbers(4), batch_size=2**31 - 1) as batches:
        assert [[0, 1, 2, 3]] == lists(batches)


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

    def test_a_loop_over_batches_inside_of_epochs_is_told(self, caplog):
        """It takes every second epoch for itself, and nobody would see that the others are lost."""
        with load(Numbers(4), num_epochs=6) as batches:
            got = [len(list(batches)) for _epoch in batches.epochs()]
        assert [1, 1, 1] == got
        assert 1 == len(caplog.records)
        said = "epoch 0 that epochs() gave was ended by a newer iterator, of an epoch of its own"
        assert said in caplog.text

    def test_an_epoch_that_was_used_or_left_is_not_told(self, caplog):
        with load(Numbers(4)) as batches:
            for epoch in batches.epochs(6):
                if epoch.number % 3:
                    next(epoch)
                if epoch.number % 2:
                    epoch.close()
            list(batches.epochs(9))
        assert "" == caplog.text

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

    def wait_for(self, source, count):
        for _ in range(count):
            assert source.reads.acquire(timeout=WAIT)

    @pytest.mark.parametrize("by_epochs", [False, True])
    def test_samples_of_the_next_epoch_are_read_before_it_begins(self, by_epochs):
        source = Gated(4)
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

        class Counted(Gated):
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


def test_what_takes_the_place_of_no_batch_says_so():
    job = NoBatch(Span(2, 0, 0, 0, 4, 3, True, True))
    assert "epoch 2, which has no step" == job.describe(None)
    assert 0 == job.samples(0)
    with pytest.raises(IndexError, match="expected no question for a batch of epoch 2"):
        job.info(0)


def test_an_epoch_of_more_than_one_block_is_every_sample_once():
    n = 2 * BLOCK + 5
    with Loader({"batch_size": BLOCK // 4, "num_workers": 0, "num_epochs": 1}, np.arange(n)) as it:
        rows = np.concatenate(list(it))
    assert np.array_equal(np.arange(n), np.sort(rows))


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


def test_that_only_the_epoch_that_a_state_has_begun_has_batches_is_told(caplog):
    """It goes on with the samples that it had; from the next one on all are left out."""
    with Loader({"batch_size": 2}, Numbers(8)) as batches:
        next(iter(batches))
        state = batches.state_dict()
    config = {"batch_size": 2, "exclude": [*range(8)]}
    with Loader(config, Numbers(8), resume=state) as batches:
        assert 3 == len(list(next(iter(batches.epochs()))))
    (record,) = caplog.records
    assert "without a batch behind the one that was begun: the source" in record.getMessage()


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
