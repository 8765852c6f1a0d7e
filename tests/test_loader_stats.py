"""What a run counts, times and digests is exact, whoever asks and however it is prepared."""

import threading

import numpy as np
import pytest
from numbered import WAIT, Gated, Numbers, lists, load

from threadloader import Loader
from threadloader._runtime import Runtime


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
        # Two waits of 10 s are over, or nearly; the other thread has told of 10 s more.
        assert (20.0, 40.0) == (stats.data_wait_seconds, stats.elapsed_seconds)

    def test_a_wait_that_ends_while_another_thread_asks_is_not_counted_twice(self):
        """The loop waits when one thing is looked at, and has its batch when the next one is."""
        clock, waiting, go_on = Clock(), threading.Event(), threading.Event()

        class Reads(Numbers):
            def __getitem__(self, index):
                clock.now += 10
                if index == 1:
                    waiting.set()
                    assert go_on.wait(WAIT)
                return index

        class Asked:
            def __init__(self, run):
                self.run = run

            def __getattr__(self, name):
                found = getattr(self.run, name)
                go_on.set()
                loop.join(WAIT)
                return found

        loader = load(Reads(2), batch_size=1, num_workers=0, shuffle=False)
        loader._runtime = clock
        with loader as batches:
            epoch = iter(batches)
            next(epoch)
            loop = threading.Thread(target=next, args=(epoch,))
            loop.start()
            assert waiting.wait(WAIT)
            batches._run, run = Asked(batches._run), batches._run
            stats = batches.stats()
            batches._run = run
        assert stats.data_wait_seconds <= 10.0 == stats.first_batch_seconds

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
            # A worker may have asked for it before the loop waits.
            waited = batches.stats().data_wait_seconds
            assert waited == 10.0 if workers == 0 else waited in (0.0, 10.0)

    def test_padding_is_not_counted_as_samples(self):
        shard = {"index": 1, "count": 2}
        with Loader({"batch_size": 2, "shard": shard}, Numbers(5)) as batches:
            lists(batches)
        assert (2, 2) == (batches.stats().batches, batches.stats().samples)

    def test_a_full_buffer_shows(self):
        """Everything has been read long before the second next: prefetch_batches are ready."""
        source = Gated(12)
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
