"""The watch: when nothing moves while the loop waits, it says who is at which sample (G11)."""

import signal
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from listened import heard

from threadloader import Loader, StalledError
from threadloader._runtime import Runtime
from threadloader.engine import Engine
from threadloader.engine._shared import Shared
from threadloader.engine._watch import LONGEST_TICK, TICKS, Watch
from threadloader.jobs import Pause, Policy, Recipe, RetryingJob, Span

__all__ = ["heard"]  # the fixture

WAIT = 30.0
"""Seconds after which a test gives up."""

SECONDS = 0.05
"""A limit that a test can wait for."""


class Blocking:
    """Sample i is i; reading the blocked one waits until the test lets it go on."""

    def __init__(self, n, blocked):
        self.n, self.blocked = n, blocked
        self.let_go = threading.Event()

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index == self.blocked:
            self.stuck_in_here()
        return index

    def stuck_in_here(self):
        assert self.let_go.wait(WAIT)


def config(**options):
    return {
        "batch_size": 2,
        "shuffle": False,
        "num_workers": 2,
        "stall_seconds": SECONDS,
        "num_epochs": 1,
        **options,
    }


def test_the_log_names_worker_sample_file_time_and_stack(heard):
    source = Blocking(6, blocked=2)
    texts = heard(lambda text: source.let_go.set())
    with Loader(config(), source=source) as batches:
        assert [[0, 1], [2, 3], [4, 5]] == [batch.tolist() for batch in batches]
    text = texts[0]
    assert f"nothing has moved for {SECONDS:g} s" in text
    assert "threadloader-worker-" in text
    assert "sample 2 (row 0 of step 1, epoch 0)\n" in text
    assert "in stuck_in_here" in text


def test_the_place_of_a_sample_is_told_of_a_source_that_the_config_names(tmp_path, heard):
    (tmp_path / "lines.txt").write_text("a\nb\nc\n")
    let_go = threading.Event()
    texts = heard(lambda text: let_go.set())

    def stuck(line):
        assert line != "c" or let_go.wait(WAIT)
        return line

    source = {"type": "text", "path": str(tmp_path / "lines.txt")}
    with Loader(config(source=source), transform=stuck) as batches:
        assert [["a", "b"], ["c"]] == list(batches)
    assert f"sample 2 (row 0 of step 1, epoch 0), {tmp_path / 'lines.txt'}:3\n" in texts[0]


def test_a_source_that_cannot_say_where_a_sample_is_while_it_reads_stalls_all_the_same():
    """As one does that has a lock around all that it is asked."""
    lock, let_go = threading.RLock(), threading.Event()

    class Locked(list):
        def __getitem__(self, index):
            with lock:
                assert let_go.wait(WAIT)
                return super().__getitem__(index)

        def locate(self, index):
            with lock:
                return f"data/{index}.bin"

    with Loader(config(stall_action="raise"), source=Locked([7, 8])) as batches:
        epoch = iter(batches)
        with pytest.raises(StalledError, match=r"sample 0 \(row 0"):
            next(epoch)
        let_go.set()
        assert [7, 8] == again(epoch).tolist()


def test_a_stall_is_raised_where_asked_and_loses_nothing():
    source = Blocking(6, blocked=2)
    with Loader(config(stall_action="raise"), source=source) as batches:
        epoch = iter(batches)
        assert [0, 1] == next(epoch).tolist()
        before = batches.state_dict()
        with pytest.raises(StalledError, match=r"sample 2 \(row 0") as caught:
            next(epoch)
        assert caught.value.seconds == pytest.approx(SECONDS)
        assert before == batches.state_dict()
        assert batches.stats().data_wait_seconds >= SECONDS
        source.let_go.set()
        # The worker has yet to wake up, for which it has no limit.
        assert [2, 3] == again(epoch).tolist()
        assert [4, 5] == again(epoch).tolist()
        assert StalledError not in {type(error) for error in list(epoch)}


def test_a_stall_while_a_batch_is_made_above_the_budget_is_counted_too():
    """It is made anew then, and nobody is asked before that stalls as well."""
    let_go, reads = threading.Event(), []

    class Twice(list):
        def __getitem__(self, index):
            if index == 0:
                return 6
            reads.append(index)
            assert len(reads) == 1 or let_go.wait(WAIT)
            raise ValueError("no such sample")

    options = {"batch_size": 1, "on_error": {"skip": 1}, "stall_action": "raise"}
    with Loader(config(**options), source=Twice([6, 7])) as batches:
        batches._run._skipping.budget = 0  # as if it were used up
        epoch = iter(batches)
        next(epoch)  # what comes before the first batch is told apart
        with pytest.raises(StalledError):
            next(epoch)
        assert batches.stats().data_wait_seconds >= SECONDS
        let_go.set()
        with pytest.raises(ValueError, match="no such"):
            again(epoch)


def again(epoch):
    """Asks until there is a batch: a busy machine may stall by itself."""
    while True:
        try:
            return next(epoch)
        except StalledError:
            continue


def test_a_sampler_that_blocks_is_told_by_the_feeder(heard):
    let_go = threading.Event()
    texts = heard(lambda text: let_go.set())

    def sampler(epoch, n):
        assert let_go.wait(WAIT)
        return range(n)

    with Loader(config(), source=range(4), sampler=sampler) as batches:
        assert [[0, 1], [2, 3]] == [batch.tolist() for batch in batches]
    assert "who asks for the order of the samples, threadloader-feeder, is at" in texts[0]
    assert "in sampler" in texts[0]


def test_where_no_stall_is_to_be_told_the_loop_looks_for_dead_threads_alone(monkeypatch):
    """For these and for a fork, as often as it would for the longest stall."""
    source, timeouts = Blocking(4, blocked=0), set()
    plain = Runtime.wait

    def wait(self, lock, timeout=None):
        if threading.current_thread() is threading.main_thread():
            timeouts.add(timeout)
            source.let_go.set()  # not before the loop waits
        return plain(self, lock, timeout)

    monkeypatch.setattr(Runtime, "wait", wait)
    with Loader(config(stall_seconds=None), source) as batches:
        timeouts.clear()  # the start has a bound of its own
        source.let_go.clear()
        list(batches)
        assert {LONGEST_TICK} == timeouts


class Ticks(Runtime):
    """A runtime on which a look is over at once, and the test says what has moved.

    The bound of `stop`, 5 seconds and some, is longer than any look.

    Args:
        at: called with the number of each look; says whether the slot is filled by now.
    """

    def __init__(self, at):
        self._at = at
        self.waits = []

    def wait(self, lock, timeout=None):
        if timeout is None or timeout > LONGEST_TICK:
            return super().wait(lock, timeout)
        self.waits.append(timeout)
        if self._at(len(self.waits)):
            return super().wait(lock, WAIT)
        return False


class Steps:
    """A job whose parts are done one at a time, when the test says so."""

    def __init__(self, parts):
        self.parts = parts
        self.light = False
        self.permits = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)

    def run(self, parts):
        for _ in parts:
            self.begun.release()
            assert self.permits.acquire(timeout=WAIT)

    def finish(self):
        return "done"

    def failed(self, part):
        pass

    def describe(self, part):
        return f"part {part}"


def watched(job, at, seconds=300.0, gate=None, jobs=None):
    """Runs a job of an engine with a watch that raises; gives the outcome's value, and the waits.

    ``jobs`` gives the job, where the feeder is to do more than that.
    """
    runtime, gate = Ticks(at), gate or job
    engine = Engine(1, 5.0, runtime, stall_seconds=seconds, stall_raises=True)
    engine.start()
    try:
        return engine.stream(jobs or iter([job]), 1).result(0).value, runtime.waits
    finally:
        for _ in range(gate.parts):
            gate.permits.release()
        engine.stop()


def one_at_each_ninth(gate):
    """Lets one of eleven steps be done at each ninth look: none sees the tenth of the same."""

    def at(looks):
        if looks == 1:
            assert gate.begun.acquire(timeout=WAIT)
        if looks % 9 == 0:
            gate.permits.release()
            assert looks == 99 or gate.begun.acquire(timeout=WAIT)
        return looks >= 99

    return at


def test_a_slow_first_batch_is_no_stall_while_its_samples_come():
    """G11: ninety looks, of which each nine see the same, and none of them sees ten."""
    job = Steps(11)
    value, waits = watched(job, one_at_each_ninth(job), seconds=10.0)
    assert ("done", 99) == (value, len(waits))


class Together:
    """Sample i is i; read all at once, which can fail the first time, or in steps, alone."""

    def __init__(self, gate, fails):
        self._gate, self._fails = gate, fails

    def __getitems__(self, indices):
        if self._fails:
            self._fails = False
            raise ValueError("one of them")
        if len(indices) == 1:
            self._gate.run(indices)
        return indices

    def take(self, indices):
        return np.array(self.__getitems__(indices.tolist()))


@pytest.mark.parametrize("way", ["transform", "getitems", "take"])
def test_rows_that_come_one_by_one_in_one_part_are_no_stall(way):
    """G11: behind `__getitems__` they are transformed so; after a failure, read so."""
    gate, rows = Steps(11), np.arange(11)
    source = Together(gate, fails=way != "transform")

    def transform(sample, key, position):
        gate.run([sample])
        return sample

    policy = Policy(0, 0.0, True, Pause(threading.Lock(), lambda lock, seconds: False))
    if way == "transform":
        recipe = Recipe(source, transform, list, whole="getitems", policy=policy)
    else:
        recipe = Recipe(source, None, list, whole=way, take=source.take, policy=policy)
    span = Span(0, 0, 1, 0, 11, 11, last=True, over=True)
    job = RetryingJob(recipe, span, rows, rows, np.ones(11, bool), 11, 0)
    (batch,), waits = watched(job, one_at_each_ninth(gate), seconds=10.0, gate=gate)
    assert ([*range(11)], 99) == (list(batch), len(waits))


def test_a_stall_is_told_at_the_limit():
    """G11: with a look every tenth of it, at the tenth."""
    job = Steps(1)

    def at(looks):
        if looks == 1:
            assert job.begun.acquire(timeout=WAIT)
        return False

    with pytest.raises(StalledError, match="part 0") as caught:
        watched(job, at, seconds=2.0)
    assert caught.value.seconds == pytest.approx(2.0 + 0.2, abs=0.21)


@pytest.mark.parametrize("stopping", [False, True])
def test_a_wait_while_the_engine_is_stopped_is_no_stall(stopping):
    """The stop has a bound of its own, says what is stuck then, and wakes who waits."""
    outcomes = iter([None] * 3 * TICKS + ["closed"])
    slot = SimpleNamespace(wait=lambda tick: next(outcomes))
    shared = Shared(Runtime(), 1, 5.0)
    shared.stopping = stopping
    watch = Watch(shared, threading.current_thread(), 10.0, raises=True)
    with nullcontext() if stopping else pytest.raises(StalledError):
        assert "closed" == watch.wait(slot)


def test_a_look_counts_what_was_waited_for_and_no_more():
    """So a process that is stopped for an hour and goes on has lost one look: SIGSTOP."""
    job, hour = Steps(1), []

    class Late(Ticks):
        def wait(self, lock, timeout=None):
            gone = super().wait(lock, timeout)
            if timeout is not None and timeout <= LONGEST_TICK and not hour:
                hour.append(timeout)
            return gone

        def monotonic(self):
            return super().monotonic() + 3600 * len(hour)  # the clock went on meanwhile

    def at(looks):
        if looks == 5:
            job.permits.release()
        return looks == 5

    engine = Engine(1, 5.0, Late(at), stall_seconds=10.0, stall_raises=True)
    engine.start()
    try:
        assert engine.stream(iter([job]), 1).result(0).value == "done"
    finally:
        engine.stop()
    assert hour == [1.0]


def test_looks_are_never_rarer_than_five_seconds():
    """Also where nothing may move for a day: a longer one would not be counted here."""
    job = Steps(1)

    def at(looks):
        job.permits.release()
        return True

    _, waits = watched(job, at, seconds=86400.0)
    assert [5.0] == waits


@pytest.mark.parametrize("where", ["worker", "feeder"])
@pytest.mark.parametrize(
    "module", ["pdb", "bdb", "pydevd", "debugpy.server.api", "IPython.terminal.embed"]
)
def test_a_thread_of_ours_in_a_debugger_is_no_stall(module, where):
    """Whoever stands in one looks at it already."""
    inside, let_go = threading.Event(), threading.Event()
    space = {"__name__": module, "inside": inside, "let_go": let_go, "WAIT": WAIT}
    exec("def interaction():\n    inside.set()\n    assert let_go.wait(WAIT)", space)

    class Debugged(Steps):
        def run(self, parts):
            for _ in parts:
                if where == "worker":
                    space["interaction"]()

    def jobs():
        if where == "feeder":
            space["interaction"]()
        yield job

    def at(looks):
        if looks == 1:
            assert inside.wait(WAIT)
        if looks == 50:
            let_go.set()
        return looks == 50

    job = Debugged(1)
    value, waits = watched(job, at, seconds=10.0, jobs=jobs())
    assert ("done", 50) == (value, len(waits))


def run_through(job, at):
    """Run a job under a watch of 10 s; `at` says at which look its result is there, as `Ticks`."""
    engine = Engine(1, 5.0, Ticks(at), stall_seconds=10.0)
    engine.start()
    try:
        assert engine.stream(iter([job]), 1).result(0).value == "done"
    finally:
        engine.stop()


def test_a_stall_that_lasts_is_told_again_at_twice_the_time(heard):
    """G11: at 1, 2, 4, 8 times the limit, so that the log stays readable."""
    texts = heard()
    job = Steps(1)

    def at(looks):
        if looks == 1:
            assert job.begun.acquire(timeout=WAIT)
        if looks == 100:
            job.permits.release()
        return looks == 100

    run_through(job, at)
    assert [10, 20, 40, 80] == [round(float(text.split()[4])) for text in texts]


def test_what_stalls_again_is_told_at_the_limit_again(heard):
    """G11: told twice, then a part is done, and the next one does not get on either."""
    texts = heard()
    job = Steps(2)

    def at(looks):
        if looks == 1:
            assert job.begun.acquire(timeout=WAIT)
        if looks in (25, 50):
            job.permits.release()
        if looks == 25:
            assert job.begun.acquire(timeout=WAIT)
        return looks == 50

    run_through(job, at)
    assert [10, 20, 10, 20] == [round(float(text.split()[4])) for text in texts]


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="SIGSTOP is of Unix")
def test_a_stopped_process_that_goes_on_says_nothing(run_child):
    """A real SIGSTOP, of longer than the limit, in the middle of a slow read."""
    child = run_child(
        """
import os, subprocess, sys
from threadloader import Loader

class Source:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if index == 2:
            # Another process stops this one, and lets it go on: between two looks, of which
            # there is one every 0.3 s. To start it takes time, too.
            pid = str(os.getpid())
            subprocess.run(
                [sys.executable, "-c",
                 "import os, signal, sys, time; pid = int(sys.argv[1]); time.sleep(0.5);"
                 "os.kill(pid, signal.SIGSTOP); time.sleep(4); os.kill(pid, signal.SIGCONT);"
                 "time.sleep(0.5)",
                 pid], check=True)
        return index

options = {"batch_size": 2, "shuffle": False, "stall_seconds": 3, "stall_action": "raise"}
with Loader(options, source=Source()) as batches:
    print([batch.tolist() for batch in batches])
"""
    )
    assert ("[[0, 1], [2, 3]]", "") == (child.stdout.strip(), child.stderr)
