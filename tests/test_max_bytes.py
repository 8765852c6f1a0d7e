"""`max_bytes`: what is ready ahead of the loop is bounded in bytes, whatever its sizes (G12).

`python3 tools/campaign bytes` draws further workloads.
"""

import threading
import time

import numpy as np
import pytest
from campaigns import bytes as campaign
from hypothesis import given, settings
from hypothesis import strategies as st
from sized import Ledger, Sized

from threadloader import ConfigError, Loader, buffers, per_thread
from threadloader._runtime import Runtime
from threadloader.engine import ENDED, Engine, Outcome
from threadloader.engine._bound import Bound
from threadloader.engine._slots import Slot
from threadloader.engine._stream import _Origin
from threadloader.loader._supply import Supply

WAIT = 30.0
"""Seconds after which a test gives up."""


SIZES = st.lists(st.integers(0, 1000) | st.sampled_from([1, 100_000]), max_size=40)


@settings(max_examples=1000)
@given(
    sizes=SIZES,
    most=st.integers(1, 5000),
    workers=st.integers(1, 4),
    depth=st.integers(1, 50),
    data=st.data(),
)
def test_ready_bytes_exceed_the_bound_by_one_result_a_worker_at_most(
    sizes, most, workers, depth, data
):
    """G12, G1: for any sizes, and with results that fail among them; and all of them come."""
    failing = data.draw(st.sets(st.integers(0, max(len(sizes) - 1, 0))))
    ledger = Ledger()
    engine = Engine(workers, 5.0, max_bytes=most)
    engine.start()
    try:
        jobs = [Sized(ledger, n, size, n in failing) for n, size in enumerate(sizes)]
        stream = engine.stream(iter(jobs), depth)
        for number in range(len(sizes)):
            ledger.ask(number)
            outcome = stream.result(number)
            if number in failing:
                assert (number,) == outcome.error.args
                outcome.error = None
            else:
                assert number == outcome.value
        assert ENDED is stream.result(len(sizes))
    finally:
        engine.stop()
    largest = max(sizes, default=0)
    assert ledger.peak <= most + workers * largest
    assert engine.peak_bytes <= most + workers * largest


@pytest.mark.parametrize(
    ("first", "then", "begun"), [(1000, 100, [1, 1, 1, 1, 2, 3, 4, 4]), (100, 1000, [1, 4, 1, 1])]
)
def test_as_many_are_begun_as_fit_by_the_sizes_of_late(first, then, begun):
    """Results of another size: of the estimate, each one is a quarter.

    Here 1,200 bytes and 4 workers; what is begun is made, and taken, before more is.
    """
    origin, bound, found, number = _Origin(iter([])), Bound(1200, 4), [], 0
    bound.waiting.extend(Slot(Runtime(), origin, n) for n in range(40))
    while len(found) < len(begun):
        bound.look()
        slots = []
        while (slot := bound.admitted()) is not None:
            bound.begun(slot)
            slots.append(slot)
        for slot in slots:
            outcome = Outcome(Sized(Ledger(), slot.number, 0))
            outcome.size = then if slot.number else first
            slot.fill(outcome)
        number += len(slots)
        origin.taken = number
        found.append(len(slots))
    assert begun == found


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_larger_than_the_bound_come_one_at_a_time(workers):
    """The one that is waited for is always prepared: no bound is too small."""
    config = {"batch_size": 2, "shuffle": False, "num_workers": workers, "max_bytes": 1}
    config |= {"prefetch_batches": 8, "num_epochs": 1}
    source = [np.full(1000, number) for number in range(9)]
    with Loader(config, source=source) as batches:
        assert [0, 2, 4, 6, 8] == [int(batch[0, 0]) for batch in batches]
        assert batches.stats().peak_bytes <= 16_000


class Counting:
    """Samples of a kilobyte, of which it counts those that were read."""

    def __init__(self, n):
        self.n = n
        self.guard = threading.Condition()
        self.read = 0

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        with self.guard:
            self.read += 1
            self.guard.notify_all()
        return np.zeros(1000, np.uint8)


@pytest.mark.parametrize("most", ["1MiB", "3MiB"])
def test_the_memory_of_large_batches_is_used_again(monkeypatch, most):
    """What is in use at once exceeds the bound: the loop's batch, and one a worker."""
    made = []

    class Block(buffers._Block):
        def __init__(self, size):
            made.append(size)
            super().__init__(size)

    monkeypatch.setattr(buffers, "_Block", Block)
    config = {"batch_size": 4, "num_workers": 3, "max_bytes": most, "num_epochs": 1}
    with Loader(config, source=[np.zeros(1 << 18, np.uint8)] * 160) as batches:
        assert 40 == sum(1 for _ in batches)
    assert len(made) <= 3 + 3 + 2  # ready, in work, and that of the loop, with the one before


def test_as_many_are_prepared_as_fit():
    """Four batches of 1,000 bytes wait when the bound is 4,000, and the depth would allow 64."""
    config = {"batch_size": 1, "num_workers": 2, "prefetch_batches": 64, "max_bytes": "4kB"}
    source = Counting(64)
    # A source for each thread: so the loop never comes to read in place of the workers.
    with Loader(config, source=per_thread(lambda: source)) as batches:
        epoch = iter(batches)
        for taken in range(1, 10):
            next(epoch)
            with source.guard:
                assert source.guard.wait_for(lambda n=taken: source.read >= n + 4, WAIT)
                assert source.read <= taken + 5
        deadline = time.monotonic() + WAIT
        # A sample that was read is not yet a batch, and that is not yet counted.
        while batches.stats().peak_bytes < 4000 and time.monotonic() < deadline:
            time.sleep(0)
        assert 4000 <= batches.stats().peak_bytes <= 5000


def test_the_batches_are_the_same_with_any_bound():
    rng = np.random.default_rng(3)
    source = [np.full(rng.integers(1, 500), number) for number in range(50)]

    def batches_with(most, workers):
        config = {"batch_size": 4, "num_workers": workers, "max_bytes": most}
        config |= {"collate": {"type": "pad"}, "prefetch_batches": 16}
        with Loader(config, source=source) as batches:
            return [
                [batch["data"].tobytes() if isinstance(batch, dict) else str(batch)]
                for epoch in batches.epochs(2)
                for batch in epoch
            ]

    expected = batches_with(None, 0)
    assert all(
        expected == batches_with(most, workers)
        for most in (1, 5000, "1MiB")
        for workers in (0, 1, 4)
    )


def test_small_batches_of_arrays_are_grouped_within_the_bound():
    config = {"batch_size": 10, "num_workers": 2, "max_bytes": 30_000, "num_epochs": 3}
    source = np.zeros((4000, 25), np.float32)  # 1,000 bytes a batch
    with Loader({**config, "switch_interval": None}, source=source) as batches:
        for epoch in batches.epochs():
            assert len(list(epoch)) == 400
        assert batches.stats().peak_bytes <= 50_000


def test_a_stream_that_was_left_does_not_count():
    """Leaving an epoch throws away what was ready; the next has the whole bound to itself."""
    config = {"batch_size": 1, "num_workers": 2, "prefetch_batches": 8, "max_bytes": 3000}
    source = Counting(40)
    with Loader(config, source=per_thread(lambda: source)) as batches:
        for _ in range(30):
            for batch in batches:
                assert len(batch) == 1
                break
        epoch = iter(batches)
        next(epoch)
        place, deadline = batches._run.results.place, time.monotonic() + WAIT
        while place.stream.ready(place.taken) < 3:
            assert time.monotonic() < deadline
            time.sleep(0)
        assert len(list(epoch)) == 39
        assert batches.stats().peak_bytes <= 5000


def test_a_whole_number_may_be_written_as_a_float():
    """As in JSON Schema, 4096.0 is the integer 4096, here and in the cache."""
    config = {"max_bytes": 4096.0, "cache": {"max_bytes": 4096.0}}
    with Loader(config, source=[1, 2]) as batches:
        assert len(list(batches)) == 1


@pytest.mark.parametrize("text", ["4 parsecs", "0B", "GiB", ""])
def test_a_size_that_is_none_is_refused_with_its_place(text):
    with pytest.raises(ConfigError, match="/max_bytes: expected"):
        Loader({"max_bytes": text}, source=range(4))


class TestTheCampaign:
    def test_it_runs_workloads(self, capsys):
        """Of jobs, and of a loader in one of ten."""
        assert 0 == campaign.main(["--count=60", "--seed=1", "--processes=1", "--hang=0"])
        assert capsys.readouterr().out.startswith("bytes: 60 run, 60 distinct, 0 failed, ")

    @pytest.mark.parametrize("loader", [False, True])
    def test_a_bound_that_is_not_kept_is_seen(self, loader, monkeypatch):
        """By the count of the campaign itself, where the engine lets all through."""
        sizes, deep = [1, *[1000] * 60], campaign.Setting(workers=1, most=1, depth=40)
        monkeypatch.setattr(Bound, "_fits", lambda bound: True)
        monkeypatch.setattr(Bound, "peak", property(lambda b: 0, lambda b, n: None), raising=False)
        run = campaign.loaded if loader else campaign.worked
        with pytest.raises(AssertionError, match="bytes were ahead"):
            run(deep, sizes, campaign.Pace(consumer=0.001))


def in_time(ask):
    """Give what a function gives, in a thread that is given up if it hangs, as a list of one."""
    got = []
    asking = threading.Thread(target=lambda: got.append(ask()))
    asking.start()
    asking.join(WAIT)
    return got


def first_of_next(batches):
    """Give the first batch of the next epoch, as `in_time` does."""
    return in_time(lambda: int(next(iter(batches))[0, 0]))


BROKEN = {"batch_size": 1, "num_workers": 1, "prefetch_batches": 8, "max_bytes": 12_000}
"""A batch has 8,000 bytes: one waits, and seven are held back."""


def test_an_epoch_that_is_broken_off_does_not_hold_back_the_next(monkeypatch):
    """Its slots wait for room. The feeder looks at those of the next epoch at a bad moment."""
    forget = Supply.forget

    def slowly(supply):  # called when the next epoch's slots have been sent
        inbox = supply.engine._shared.inbox
        while not inbox.empty():
            time.sleep(0)
        forget(supply)

    source = [np.full(1000, number) for number in range(50)]
    # A sampler in code: the loop does not prepare batches itself.
    with Loader(BROKEN, source, sampler=lambda epoch, n: range(n)) as batches:
        epoch = iter(batches)
        next(epoch)
        while not batches._run.results.place.stream.ready(1):  # one waits, and leaves room for none
            time.sleep(0)
        monkeypatch.setattr(Supply, "forget", slowly)
        assert [0] == first_of_next(batches)
        del epoch


def test_an_epoch_that_is_broken_off_does_not_hold_back_the_count_of_its_length():
    """After the last epoch of the run `len` asks for that one again, beside what waits for room."""
    source = [np.full(1000, number) for number in range(50)]
    with Loader(BROKEN | {"num_epochs": 1}, source, sampler=lambda epoch, n: range(n)) as batches:
        epoch = iter(batches)
        while not batches._run.results.place.stream.ready(0):
            time.sleep(0)
        del epoch
        assert [50] == in_time(lambda: len(batches))


def test_an_interrupt_while_an_epoch_begins_does_not_hold_back_the_next(monkeypatch):
    """What was sent for the epoch that never began is nobody's, and must not take the room."""
    forget, interrupts = Supply.forget, iter([True])

    def interrupted(supply):
        if next(interrupts, False):
            raise KeyboardInterrupt
        forget(supply)

    source = [np.full(1000, number) for number in range(50)]
    with Loader(BROKEN, source, sampler=lambda epoch, n: range(n)) as batches:
        monkeypatch.setattr(Supply, "forget", interrupted)
        with pytest.raises(KeyboardInterrupt):
            iter(batches)
        assert [0] == first_of_next(batches)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [None, "7", -1, float("nan")], ids=repr)
def test_what_a_collate_makes_may_have_anything_called_nbytes(workers, size):
    """An object that has no size is none to fail for, and none that makes room for others."""

    class Own:
        nbytes = size

    config = {"batch_size": 2, "num_workers": workers, "max_bytes": 100}
    given = {"sampler": lambda epoch, n: range(n), "collate": lambda samples: Own()}
    with Loader(config, range(6), **given) as batches:
        assert [Own] * 3 == [type(batch) for batch in batches]
        # Each counts as 8, where it waits: without workers none does.
        assert (8 if workers else 0) <= batches.stats().peak_bytes <= (24 if workers else 0)
