"""Each job is done once, its result comes in its turn, and no more are begun than may be.

G1 to G4, G8 and G9 of the engine's docstring. Of the others, G5 to G7 are in `test_engine_start`,
`test_engine_stop`, `test_engine_stuck` and `test_engine_errors`, G10 in `test_letting_go`, G11 in
`test_stall` and G12 in `test_max_bytes`.
"""

import queue
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered_jobs import WAIT, Job, results, until

from threadloader._runtime import Runtime, Tickets
from threadloader.engine import ENDED, Engine, Outcome


@given(
    workers=st.integers(1, 5),
    depth=st.integers(1, 6),
    parts=st.lists(st.integers(1, 7), max_size=12),
)
def test_results_come_in_job_order_whatever_the_sizes(workers, depth, parts):
    """G1: the n-th result is the n-th job's, at any number of workers, depth and parts."""
    engine = Engine(workers, 5.0)
    engine.start()
    try:
        stream = engine.stream(iter([Job(n, size) for n, size in enumerate(parts)]), depth)
        got = [outcome.value for outcome in results(stream, len(parts))]
        assert [(n, list(range(size))) for n, size in enumerate(parts)] == got
        assert ENDED is stream.result(len(parts))
    finally:
        engine.stop()


def test_a_slow_first_job_is_not_overtaken(make_engine):
    """G1: job 0 ends last of all, and is still the first to be given."""
    others = threading.Semaphore(0)

    def do(number, part):
        if number == 0:
            for _ in range(3):
                assert others.acquire(timeout=WAIT)
        else:
            others.release()
        return part

    stream = make_engine(2).stream(iter([Job(n, do=do) for n in range(4)]), depth=4)
    stream.prefetch()
    assert [0, 1, 2, 3] == [outcome.value[0] for outcome in results(stream, 4)]


def test_no_more_jobs_are_begun_than_the_depth_allows(make_engine):
    """G2: while the consumer has taken k results, no job above k + depth - 1 is drawn."""
    drawn = []

    def jobs():
        for number in range(20):
            drawn.append(number)
            yield Job(number)

    engine = make_engine(2)
    stream = engine.stream(jobs(), depth=3)
    stream.prefetch()
    for taken in range(10):
        # The feeder draws in the order in which it is asked: this result comes behind all draws.
        engine.stream(iter([Job(0)]), depth=1).result(0)
        assert list(range(taken + 3)) == drawn
        stream.result(taken)
    stream.cancel()
    engine.stop()


def test_each_job_is_finished_once_however_many_workers_share_it(make_engine):
    """G3: the last worker to leave a job finishes it, and only that one."""
    jobs = [Job(number, parts=16) for number in range(200)]
    results(make_engine(6).stream(iter(jobs), depth=4), 200)
    assert {1} == {job.finished for job in jobs}


def test_every_part_is_done_once(make_engine):
    """G3: no part is left out or done twice when six workers share a job."""
    done = []
    jobs = [Job(n, parts=32, do=lambda n, part: done.append((n, part))) for n in range(50)]
    results(make_engine(6).stream(iter(jobs), depth=3), 50)
    assert [(n, part) for n in range(50) for part in range(32)] == sorted(done)


def test_no_put_ever_waits(make_engine):
    """G4: every put of feeder and consumer finds room at once, at a depth far above the workers."""
    waited = []

    class Watched(Tickets):
        def put_all(self, items):
            waited.append(self.full())
            super().put_all(items)

    class Watching(Runtime):
        def queue(self):
            return Watched(super().queue().maxsize)

    engine = make_engine(2, runtime=Watching())
    stream = engine.stream(iter([Job(n, parts=2) for n in range(500)]), depth=400)
    results(stream, 500)
    engine.stop()
    assert len(waited) > 500
    assert {False} == set(waited)


def test_items_put_together_wake_as_many_of_those_who_wait():
    """And they come in their order, to whoever takes them."""
    tickets, taken = Tickets(), queue.SimpleQueue()
    threads = [
        threading.Thread(target=lambda: taken.put(tickets.take()), daemon=True) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(tickets.not_empty._waiters) == 3)
    tickets.put_all([1, 2, 3, 4, 5])
    assert [1, 2, 3] == sorted(taken.get(timeout=WAIT) for _ in range(3))
    assert [4, 5] == [tickets.take(), tickets.take()]


@pytest.mark.parametrize(("workers", "claims"), [(4, 4), (3, 7), (2, 6)])
def test_where_there_is_a_worker_for_each_part_none_asks_for_more(make_engine, workers, claims):
    """With fewer workers than parts each goes on until it finds none left."""
    engine = make_engine(workers)
    results(engine.stream(iter([Job(0, parts=4)]), depth=1), 1)
    assert claims == sum(worker.claims for worker, _ in engine._shared.crew)


def test_the_clock_never_goes_back():
    """The system says so of its clocks; the one that tells the date may be set."""
    clock = time.get_clock_info(Runtime.monotonic.__name__)
    assert clock.monotonic
    assert not clock.adjustable


def test_asking_again_gives_the_same_result(make_engine):
    """G8: a result whose taking was interrupted can be asked for again."""
    stream = make_engine().stream(iter([Job(n) for n in range(3)]), depth=2)
    assert stream.result(0) is stream.result(0)
    assert 1 == stream.result(1).value[0]


def test_a_slot_sent_twice_is_dealt_once(make_engine):
    """G8: an interrupt between sending a slot and counting it makes the consumer send it again."""
    stream = make_engine(1).stream(iter([Job(n) for n in range(4)]), depth=2)
    stream.prefetch()
    stream._sent -= 1  # as an interrupt right behind the put leaves it
    assert [0, 1, 2, 3] == [outcome.value[0] for outcome in results(stream, 4)]


def test_a_slot_kept_back_is_sent_when_asked_for(make_engine):
    """G8: an interrupt between a slot joining the line and its sending loses nothing."""
    stream = make_engine(1).stream(iter([Job(n) for n in range(4)]), depth=2)
    inbox = stream._shared.inbox

    class Interrupted:
        def put(self, slot):
            raise KeyboardInterrupt

    stream._shared.inbox = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        stream.prefetch()
    stream._shared.inbox = inbox
    assert 0 == stream._sent  # or else what follows waits for ever
    assert [0, 1, 2, 3] == [outcome.value[0] for outcome in results(stream, 4)]


def test_no_lock_is_held_while_a_job_runs():
    """G9: every lock the engine has made is free, or is one that somebody waits to be released."""

    class Watching(Runtime):
        def __init__(self):
            self.depth = threading.local()

        def lock(self):
            runtime, lock = self, super().lock()

            class Watched:
                def acquire(self, *args, **options):
                    return lock.acquire(*args, **options)

                def release(self):
                    lock.release()

                def __enter__(self):
                    lock.acquire()
                    runtime.depth.held = getattr(runtime.depth, "held", 0) + 1
                    return True

                def __exit__(self, *exc):
                    runtime.depth.held -= 1
                    lock.release()

            return Watched()

    runtime = Watching()
    held = []

    def do(number, part):
        held.append(getattr(runtime.depth, "held", 0))

    def finish(number):
        held.append(getattr(runtime.depth, "held", 0))

    engine = Engine(3, 5.0, runtime)
    engine.start()
    results(engine.stream(iter([Job(n, 4, do, finish) for n in range(10)]), depth=3), 10)
    engine.stop()
    assert [0] * 50 == held


def test_ready_counts_what_can_be_had_at_once(make_engine):
    """Jobs 0 to 2 are done, 3 is held: three are ready, then two after one was taken."""
    held, go_on = threading.Event(), threading.Event()

    def do(number, part):
        if number == 3:
            held.set()
            assert go_on.wait(WAIT)

    stream = make_engine(1).stream(iter([Job(n, do=do) for n in range(5)]), depth=4)
    stream.prefetch()
    assert held.wait(WAIT)
    assert 3 == stream.ready(0)
    stream.result(0)
    assert 2 == stream.ready(1)
    go_on.set()


def test_what_a_part_costs_is_known_when_the_job_was_taken_out():
    """The feeder asks for it while the consumer, in `_raise`, takes job and error out."""
    done = Outcome(Job(0, parts=4), value=1, seconds=2.0)
    failed = Outcome(Job(1, parts=4), error=ValueError("bad"), part=1, seconds=2.0)
    for outcome in (done, failed):
        outcome.error = outcome.job = None
    assert (0.5, None, None) == (done.cost, failed.cost, ENDED.cost)


def test_claims_grow_when_parts_are_cheap(make_engine):
    """After the first jobs a batch of cheap parts is done by one worker in one claim."""
    hands = []

    class Counting(Job):
        def run(self, parts):
            hands.append(self.number)
            super().run(parts)

    results(make_engine(4).stream(iter([Counting(n, parts=8) for n in range(60)]), depth=1), 60)
    assert 1 == hands.count(59)


@pytest.mark.parametrize("every", [2, 3, 5])
def test_a_dear_job_behind_cheap_ones_is_shared_by_all_workers(make_engine, every):
    """Its parts take 10 ms each, by a clock of their own, and those of the others no time."""
    hands, now, runtime = [], [0.0], Runtime()
    runtime.monotonic = lambda: now[0]

    def do(number, part):
        now[0] += 0.0 if number % every else 10e-3

    class Counting(Job):
        def run(self, parts):
            hands.append(self.number)
            super().run(parts)

    jobs = iter([Counting(number, parts=8, do=do) for number in range(61)])
    results(make_engine(4, runtime=runtime).stream(jobs, depth=1), 61)
    assert {4} == {hands.count(number) for number in range(every, 61, every)}


def test_a_stream_that_winds_down_gives_what_is_begun_and_begins_no_more(make_engine):
    drawn = []

    def jobs():
        for number in range(100):
            drawn.append(number)
            yield Job(number)

    engine = make_engine()
    stream = engine.stream(jobs(), depth=3)
    assert 0 == stream.result(0).value[0]
    stream.wind_down()
    given = []
    number = 1
    while (outcome := stream.result(number)) is not ENDED:
        given.append(outcome.value[0])
        number += 1
    assert [1, 2, 3] == given == drawn[1:]
