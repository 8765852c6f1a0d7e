"""Workers measure how long they wait for the GIL, and where that is long ask for it more rarely."""

import threading

import pytest
from numbered_jobs import WAIT, Job, results, until

from threadloader._runtime import Runtime
from threadloader.engine import _feeder, _worker


class Delayed(Runtime):
    """A runtime in which a thread that lets go of the GIL waits long for it.

    Args:
        ends: called before the wait ends.
    """

    def __init__(self, ends):
        self.ends = ends

    def gil_delay(self):
        self.ends()
        return 0.008


@pytest.fixture
def _always_probed(monkeypatch):
    monkeypatch.setattr(_worker, "SOON_SECONDS", -1.0)
    monkeypatch.setattr(_worker, "PROBE_SECONDS", -1.0)


@pytest.mark.usefixtures("_always_probed")
def test_the_delay_of_the_gil_is_measured_by_the_first_worker(make_engine):
    probed = threading.Semaphore(0)
    engine = make_engine(num_workers=1, runtime=Delayed(probed.release))
    assert (0.0, False) == (engine.gil_delay, engine.gil_held)
    stream = engine.stream((Job(number) for number in range(20)), depth=20)
    stream.prefetch(0)
    for _ in range(20):  # as a loop does that works meanwhile
        assert probed.acquire(timeout=60)
    # Half of what was known each time: it has come near, but for the last, perhaps.
    assert 0.0079 < engine.gil_delay < 0.008
    assert engine.gil_held


@pytest.mark.usefixtures("_always_probed")
def test_no_other_worker_measures_it(make_engine, monkeypatch):
    """Three are at each job at once, and whoever comes back for the next one could have."""
    monkeypatch.setattr(_feeder, "CLAIM_SECONDS", 0.0)
    names, three = set(), threading.Barrier(3)

    class Noting(Runtime):
        def gil_delay(self):
            names.add(threading.current_thread().name)
            return 0.0

    jobs = (Job(number, 3, lambda number, part: three.wait(WAIT)) for number in range(5))
    results(make_engine(3, runtime=Noting()).stream(jobs, depth=1), 5)
    assert {"threadloader-worker-0"} == names


@pytest.mark.usefixtures("_always_probed")
@pytest.mark.parametrize(("seconds", "waits"), [(0.0, True), (3600.0, False)])
def test_the_first_worker_measures_whether_it_waits(make_engine, seconds, waits):
    """By how much of its time a processor runs it: none, or an hour from each look to the next."""

    class Counting(Runtime):
        ran = 0.0

        def processor_time(self):
            self.ran += seconds
            return self.ran

    engine = make_engine(1, runtime=Counting())
    assert 1.0 == engine.processors
    results(engine.stream((Job(number) for number in range(3)), depth=1), 3)
    assert (engine.processors <= _feeder.MOST_RUNNING) is waits


class Clocked(Delayed):
    """One with a clock that is set by hand, too.

    Args:
        ends: called before a wait for the GIL ends, but only the first.

    Attributes:
        now: what the clock says.
        woken: to be set before the consumer, which a worker has woken, goes on.
    """

    def __init__(self, ends):
        super().__init__(lambda: self.once and self.once.pop()())
        self.once = [ends]
        self.now = 0.0
        self.woken = threading.Event()
        self.woken.set()

    def monotonic(self):
        return self.now

    def wait(self, lock, timeout=None):
        came = super().wait(lock, timeout)
        assert self.woken.wait(WAIT)
        return came


@pytest.mark.usefixtures("_always_probed")
@pytest.mark.parametrize(("own", "counted"), [(0.0, 0.0), (0.003, 0.003), (0.02, 0.008)])
def test_the_gil_is_held_by_the_loop_for_as_long_as_it_works_itself(make_engine, own, counted):
    """Then it waits: what a worker waits for from there on is another one, in Python code.

    1. Job 0 is done, and the worker asks for the GIL. The loop works.
    2. So much later it waits for job 1. The GIL has come 8 ms after it was asked for, even where
       the worker goes on only later.
    3. Job 1 sees half of what is counted.
    """
    asked = threading.Event()

    def ends():
        asked.set()
        until(lambda: engine._shared.wait_began == own)
        runtime.now = 0.008

    runtime = Clocked(ends)
    engine = make_engine(num_workers=1, runtime=runtime)
    job = Job(1, do=lambda number, part: engine.gil_delay)
    stream = engine.stream(iter([Job(0), job]), depth=1)
    stream.prefetch()
    assert asked.wait(WAIT)
    runtime.now = own
    assert [counted / 2] == stream.result(1).value[1]


@pytest.mark.usefixtures("_always_probed")
def test_a_loop_that_waited_at_first_holds_the_gil_only_from_there_on(make_engine):
    """It has its batch 5 ms after a worker asked for the GIL, and waits again 2 ms later."""

    def ends():
        runtime.now = 0.005
        runtime.woken.set()
        until(lambda: engine._shared.wait_began == 0.007)
        runtime.now = 0.008

    runtime = Clocked(ends)
    engine = make_engine(num_workers=1, runtime=runtime)
    runtime.woken.clear()
    jobs = [Job(0, do=lambda number, part: until(lambda: engine._shared.wait_began == 0.0))]
    jobs.append(Job(1, do=lambda number, part: engine.gil_delay))
    stream = engine.stream(iter(jobs), depth=1)
    stream.result(0)
    runtime.now = 0.007
    assert [0.001] == stream.result(1).value[1]


@pytest.mark.usefixtures("_always_probed")
def test_a_loop_that_begins_to_make_batches_itself_is_not_measured(make_engine):
    """It holds the GIL then, but in the place of the workers."""
    asked, cancelled = threading.Event(), threading.Event()

    def ends():
        asked.set()
        assert cancelled.wait(WAIT)

    engine = make_engine(num_workers=1, runtime=Delayed(ends))
    stream = engine.stream(iter([Job(0)]), depth=1)
    stream.prefetch()
    assert asked.wait(WAIT)
    stream.cancel()
    cancelled.set()
    assert engine.stop()
    assert (0.0, False) == (engine.gil_delay, engine.gil_held)


@pytest.mark.parametrize(("delay", "claims"), [(0.0, 36), (0.008, 16)])
def test_while_the_gil_is_held_workers_come_for_parts_more_rarely(make_engine, delay, claims):
    """Each takes what leaves the others as much, by the jobs in work, and not one part alone.

    1. Job 0 is dealt, of 8 parts. Four workers share them: 4 claims of 2, or 8 of one.
    2. None ends before job 2 is dealt. Two of the workers are left to job 1: 2 claims of 4, or 8.
    3. So they are to job 2: with one each for the three jobs, the fourth would have nothing.
    4. Each of the four, or of the two, comes once more, and finds none left.
    """
    all_dealt = threading.Event()

    def jobs():
        yield Job(0, 8, lambda number, part: all_dealt.wait(WAIT))
        yield Job(1, 8, lambda number, part: all_dealt.wait(WAIT))
        all_dealt.set()
        yield Job(2, 8)

    engine = make_engine(num_workers=4)
    engine._shared.gil_delay = delay
    stream = engine.stream(jobs(), depth=3)
    stream.prefetch()
    made = [stream.result(number).value[1] for number in range(3)]
    assert [[True] * 8, [True] * 8, [*range(8)]] == made
    assert claims == sum(worker.claims for worker, _ in engine._shared.crew)
