"""A wait counts while it lasts, wherever `next` waits, and what was told is never taken back.

By a clock that stands still but where the source or the loop moves it.
"""

import itertools
import signal
import threading
from contextlib import suppress

import pytest

from threadloader import ClosedError, Loader, StalledError
from threadloader._runtime import Runtime
from threadloader.loader._run import Run
from threadloader.stats import Told, _tally

CONFIG = {"batch_size": 2, "shuffle": False, "num_workers": 0}
WAIT = 60.0


class Slow:
    """Samples 0 to 7, of which some are bad; each read takes a second, and is watched."""

    def __init__(self, now, bad=()):
        self.now, self.bad = now, bad
        self.watch = lambda: None

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.now[0] += 1.0
        self.watch()
        if index in self.bad:
            raise OSError(index)
        return index


class Together(Slow):
    """The same, read as whole batches, several of them together."""

    sample_nbytes = 8

    def take(self, indices):
        return [self[index] for index in indices.tolist()]


def opened(source, **config):
    loader = Loader({**CONFIG, **config}, source=source)
    loader._runtime = Runtime()
    loader._runtime.monotonic = lambda: source.now[0]
    return loader


def not_waited(stats):
    """Give the seconds behind the first batch in which the loop was not blocked."""
    return stats.elapsed_seconds - stats.first_batch_seconds - stats.data_wait_seconds


def consume(batches, *suppressed):
    """Take two epochs."""
    for epoch in batches.epochs(2):
        over = False
        while not over:
            with suppress(*suppressed):
                over = next(epoch, None) is None


def stalls(batches):
    """Have the first wait for each job end in the word that nothing moves."""
    wait, told = batches._run.results.next, []

    def next_of(place):
        told.append(1)
        if len(told) % 2:
            batches._run._now()
            raise StalledError("nothing moves")
        return wait(place)

    batches._run.results.next = next_of


@pytest.mark.parametrize("kind", [Slow, Together])
@pytest.mark.parametrize(
    ("bad", "prepare", "config"),
    [
        ((), None, {}),
        ((5,), None, {}),
        ((2, 3, 4, 5), None, {"on_error": {"skip": 20}}),
        ((), stalls, {"fingerprint": True}),
        ((), stalls, {}),
    ],
    ids=["epochs", "errors", "passed over", "stalls", "a stalled series"],
)
def test_a_loop_that_does_nothing_else_waits_all_the_time(kind, bad, prepare, config):
    """So it is told at each read, whatever came before: an epoch's end, an error, a stall."""
    source = kind([0.0], bad)
    seen = []
    with opened(source, **config) as batches:
        if prepare is not None:
            prepare(batches)

        def watch():
            stats = batches.stats()
            seen.append(not_waited(stats) if stats.batches else stats.data_wait_seconds)

        source.watch = watch
        consume(batches, OSError, StalledError)
        watch()
    assert {0.0} == set(seen)
    assert 16 <= len(seen)


def test_a_wait_for_a_worker_counts_from_the_first_batch_of_an_epoch_on():
    """Its first read begins before it is asked for, and ends while the loop waits for it."""
    source, reads, seen = Slow([0.0]), itertools.count(), []
    inside, asked = threading.Event(), threading.Event()

    def watch():
        if next(reads) == len(source):
            inside.set()
            assert asked.wait(WAIT)
            while batches._run.since is None:
                pass
            source.now[0] += 10.0
            seen.append(not_waited(batches.stats()))

    source.watch = watch
    with opened(source, num_workers=1, prefetch_batches=1) as batches:
        list(batches)
        assert inside.wait(WAIT)  # from here on the clock stands still
        before = not_waited(batches.stats())
        epoch = iter(batches)
        asked.set()
        next(epoch)
    assert [before] == seen


def test_closed_while_a_batch_is_made_a_run_has_not_waited_longer_than_it_lasted():
    """Without workers that batch is finished first, and waited for."""
    source = Slow([0.0])
    with opened(source) as batches:
        epoch = iter(batches)
        next(epoch)
        source.watch = batches.close
        with suppress(ClosedError):
            next(epoch)
    stats = batches.stats()
    assert 3.0 == stats.elapsed_seconds
    assert 0.0 == not_waited(stats)


@pytest.mark.parametrize("at", range(3, 17))
@pytest.mark.parametrize("kind", [Slow, Together])
def test_a_wait_that_an_interrupt_ends_has_lasted_up_to_then(kind, at):
    """At each read behind the first batch: what is told behind it is what was told in it."""
    source = kind([0.0])
    told = []
    with opened(source) as batches:

        def watch():
            if source.now[0] == at:
                told.append(batches.stats().data_wait_seconds)
                signal.raise_signal(signal.SIGINT)

        source.watch = watch
        with pytest.raises(KeyboardInterrupt):
            consume(batches)
        assert told == [batches.stats().data_wait_seconds]
        source.now[0] += 10.0  # the loop's own time
        assert told == [batches.stats().data_wait_seconds]


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("config", [{}, {"fingerprint": True}], ids=["series", "jobs"])
def test_behind_an_interrupt_of_the_measuring_nobody_waits(config, twice):
    """It comes behind each look of the run at its clock, and perhaps behind the next one, too."""
    for at in range(1, 100):
        source = Slow([0.0])
        with opened(source, **config) as batches:
            looks, behind, clock = [], [], batches._run._now

            def now(at=at, clock=clock, looks=looks, behind=behind):
                looks.append(1)
                if at <= len(looks) <= at + twice and not behind:
                    raise KeyboardInterrupt
                return clock()

            batches._run._now = now
            with suppress(KeyboardInterrupt):
                consume(batches)
            behind.append(1)
            before = batches.stats()
            source.now[0] += 10.0  # the loop's own time
            after = batches.stats()
            assert before.data_wait_seconds == after.data_wait_seconds, at
            consume(batches)
            assert before.data_wait_seconds <= batches.stats().data_wait_seconds, at
        if len(looks) < at:  # without this one
            break
    assert 8 < at < 99


def test_a_look_behind_the_last_one_of_the_loop_tells_no_more_than_later_ones():
    """The loop has read its clock and not written down its wait; a thread that looks waits on."""
    source = Slow([0.0])
    with opened(source, fingerprint=True) as batches:
        epoch = iter(batches)
        next(epoch)
        note, told = batches._supply.note, []

        def look(*noted):
            source.now[0] += 5.0
            told.append(batches.stats())
            note(*noted)

        batches._supply.note = look
        next(epoch)
        later = batches.stats()
        assert told[0].data_wait_seconds == later.data_wait_seconds


def test_a_close_takes_back_no_time_that_was_told():
    """It reads the clock a moment before it writes that down; whoever looks then sees more."""
    source = Slow([0.0])
    with opened(source) as batches:
        next(iter(batches))
        told = []

        def monotonic(real=batches._runtime.monotonic):
            now = real()
            if not told:
                told.append(None)  # it looks by this clock, too
                source.now[0] += 5.0
                told[0] = batches.stats()
            return now

        batches._runtime.monotonic = monotonic
        batches.close()
        later = batches.stats()
    assert told[0].elapsed_seconds == later.elapsed_seconds
    assert 0 == later.since(told[0]).batches


def test_the_time_runs_from_the_first_call_on():
    """Also where that was interrupted, and while it lasts."""
    source = Slow([0.0])
    seen = []
    with opened(source) as batches:

        def watch():
            seen.append(batches.stats().elapsed_seconds)
            if source.now[0] == 1.0:
                signal.raise_signal(signal.SIGINT)

        source.watch = watch
        epoch = iter(batches)
        with pytest.raises(KeyboardInterrupt):
            next(epoch)
        source.now[0] += 10.0
        next(epoch)
        assert [1.0, 12.0, 13.0] == seen
        assert 13.0 == batches.stats().first_batch_seconds


def test_what_was_told_to_one_thread_is_not_taken_back_by_another_that_began_sooner(monkeypatch):
    """Nor by a signal's handler, in the middle of telling it: the same thread, twice."""
    told, seen, real = Told(), [], max

    def between(*numbers):
        monkeypatch.setattr(_tally, "max", real, raising=False)
        thread = threading.Thread(target=lambda: seen.append(told.most(3.0)))
        thread.start()
        thread.join()
        seen.append(told.most(4.0))
        return real(*numbers)

    monkeypatch.setattr(_tally, "max", between, raising=False)
    seen.append(told.most(2.0))
    assert [3.0, 4.0, 4.0, 4.0] == [*seen, told.most(1.0)]
    thread = threading.Thread(target=lambda: seen.append(told.most(1.0)))
    thread.start()
    thread.join()
    assert 4.0 == seen[-1]


def test_a_first_next_while_stats_is_asked_begins_the_time(monkeypatch):
    """And not when `stats` was asked, before it: what was told is never taken back."""
    source, looks = Slow([0.0]), []

    def since(run):
        if not looks.append(None) and len(looks) == 1:
            source.now[0] += 10.0  # this thread waits for its turn; the loop has it
            run.__dict__["since"] = None
            asking.start()
            assert inside.wait(WAIT)
        return run.__dict__["since"]

    inside, over = threading.Event(), threading.Event()
    source.watch = lambda: (inside.set(), over.wait(WAIT))
    with opened(source) as batches:
        asking = threading.Thread(target=lambda: next(iter(batches)))
        monkeypatch.setattr(
            Run,
            "since",
            property(since, lambda run, at: run.__dict__.update(since=at)),
            raising=False,
        )
        batches._run.__dict__["since"] = None
        told = batches.stats().elapsed_seconds
        later = batches.stats().elapsed_seconds
        over.set()
        asking.join()
    assert (1.0, 1.0) == (told, later)
