"""Whether threads or the consumer prepare the batches is measured, and changes no batch."""

import contextvars
import json
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.engine import Stream
from threadloader.loader import _choice, _supply
from threadloader.loader._choice import Choice


class Run:
    """A training loop in an imagined time: what a batch takes with threads, and without."""

    def __init__(self, threads, here, step=0.0, busy=None, *, unlocked=False):
        self.choice = Choice(unlocked=unlocked)
        self.seconds = {False: threads, True: here}
        self.step = step
        self.busy = threads if busy is None else busy
        self.now = 0.0
        self.spent = {False: 0.0, True: 0.0}
        self.before = 0.0

    def go(self, seconds):
        """Lets the loop run; gives the part of the time in which it prepared batches itself."""
        end, self.spent = self.now + seconds, {False: 0.0, True: 0.0}
        while self.now < end:
            self.job()
        return self.spent[True] / sum(self.spent.values())

    def job(self):
        """Takes the batches of a job; gives how many they were."""
        here = self.choice.here
        batches, took = self.choice.series() if here else 1, self.seconds[here]
        self.now += took + self.step
        self.choice.note(self.now, took, batches, batches, self.busy, 1, self.before)
        self.now += (batches - 1) * (took + self.step)
        self.before = (batches - 1) * took
        self.spent[here] += batches * (took + self.step)
        return batches


def test_the_consumer_prepares_batches_where_threads_only_lose():
    run = Run(threads=300e-6, here=100e-6)
    run.go(1.0)
    assert run.go(60.0) > 0.99


def test_threads_stay_where_they_win():
    run = Run(threads=50e-6, here=100e-6)
    run.go(1.0)
    assert run.go(60.0) < 0.01


def test_threads_stay_where_the_training_step_hides_them():
    """The hand-off costs more than the batch, but it costs the loop nothing."""
    assert Run(threads=20e-6, here=10e-6, step=5e-3).go(60.0) == 0


def test_threads_are_never_doubted_where_a_batch_is_much_work():
    assert Run(threads=8e-3, here=4e-3, busy=30e-3).go(60.0) == 0


@pytest.mark.parametrize("unlocked", [False, True])
def test_threads_are_not_doubted_where_no_other_thread_can_be_faster(unlocked):
    """Two gather a batch in 90 us each: alone, the consumer would take as long."""
    run = Run(threads=50e-6, here=100e-6, busy=90e-6, unlocked=unlocked)
    run.go(1.0)
    assert (0 == run.go(60.0)) == unlocked, "with the GIL, waiting for it may be in those"


def test_threads_that_gain_nothing_are_doubted_without_the_gil_too():
    """The gather takes 60 us, and the hand-off more."""
    run = Run(threads=150e-6, here=100e-6, busy=60e-6, unlocked=True)
    run.go(1.0)
    assert run.go(60.0) > 0.99


@pytest.mark.parametrize("rows", [1, 100])
def test_a_short_batch_is_not_taken_for_little_work(rows):
    """An epoch of four batches, made at once in 90 us for each 100 rows, and one of few."""
    choice, now = Choice(unlocked=True), 0.0
    for epoch in range(2_000):
        for count in (100, 100, 100, 100, rows):
            seconds = count * 1e-6
            now += 0.5 * seconds
            assert not choice.note(now, 0.5 * seconds, 1, count, 0.9 * seconds, 1, 0.0), epoch


def test_epochs_of_one_short_batch_are_measured_by_their_rows():
    """It has 20 rows of 1,000: the work in it is what it is, and a hand-off is most of the time."""
    source = np.zeros((20, 10), np.float32)
    noted = []

    class Noting(Choice):
        def note(self, *given):
            noted.append(given[2:4])
            return False

    with Loader({"batch_size": 1000, "num_epochs": 3}, source=source) as batches:
        batches._supply.choice = Noting()
        for epoch in batches.epochs():
            assert 1 == len(list(epoch))
    assert [(1, 20)] * 3 == noted


def test_what_lets_go_of_the_gil_is_what_the_loader_says(tmp_path):
    """Arrays in memory or mapped files, and no code of the user's."""
    np.save(tmp_path / "x.npy", np.zeros((9, 4)))

    class Own(list):
        in_memory, sample_bytes = True, 8

        def take(self, indices):
            return np.array(indices)

    def unlocked(config, **given):
        with Loader(config, **given) as batches:
            return batches._supply.choice._unlocked

    file = {"type": "npy", "path": str(tmp_path / "x.npy")}
    assert unlocked({"source": {**file, "mmap": True}})
    assert not unlocked({"source": file})
    assert unlocked({}, source=np.zeros((9, 4)))
    assert not unlocked({}, source=np.zeros((9, 4)), transform=np.negative)
    assert not unlocked({}, source=Own(range(9)))
    assert not unlocked({}, source=list(range(9)))


def test_a_trial_that_is_hopeless_ends_after_two_batches():
    """Storage with latency, which only threads hide, is found out at once."""
    run = Run(threads=300e-6, here=9e-3, busy=9e-3)
    run.go(60.0)
    assert run.go(60.0) * 60.0 < 4 * 2 * 9e-3 + 0.01


def test_threads_come_back_when_a_batch_becomes_dear():
    run = Run(threads=300e-6, here=100e-6)
    run.go(5.0)
    run.seconds, run.busy = {False: 300e-6, True: 9e-3}, 9e-3
    run.go(_choice.LONGEST_PAUSE + 10)
    assert run.go(10.0) < 0.1


@pytest.mark.parametrize("late", [20e-3, 0.3])
def test_one_slow_batch_does_not_end_a_trial(late):
    """Something else may have run on the machine just then."""
    run = Run(threads=300e-6, here=100e-6)
    while not run.choice.here:
        run.go(1e-9)
    for run.seconds[True] in (100e-6, late):  # one as it should be, and a slow one
        run.go(1e-9)
    run.seconds[True] = 100e-6
    assert run.go(60.0) > 0.99


def test_a_decision_is_doubted_soon_where_the_training_step_has_changed():
    """A loop that compiles in its first steps tells little of those that follow."""
    run = Run(threads=50e-6, here=150e-6, step=300e-6)  # hidden, but for the hand-off
    run.go(0.2)
    assert (False, _choice.PAUSE_SECONDS * 2) == (run.choice.here, run.choice._pause)
    run.step, run.seconds[False] = 10e-6, 300e-6
    soon = run.choice._pause * _choice.CHANGED_PAUSE
    run.go(soon)
    assert run.go(1.0) > 0.9


def test_a_trial_that_the_training_step_has_decided_is_made_again_soon():
    """The step got shorter while it ran; that is no merit of who prepared the batches."""
    run = Run(threads=100e-6, here=140e-6, step=160e-6)
    while not run.choice.here:
        run.go(1e-9)
    run.step = 10e-6
    run.go(0.05)
    assert run.choice.here
    run.go(2 * _choice.PAUSE_SECONDS * _choice.CHANGED_PAUSE)
    assert run.go(1.0) < 0.1


def test_each_batch_of_a_trial_is_looked_at_and_later_ones_in_series():
    run = Run(threads=300e-6, here=100e-6)
    trial = []
    while not run.choice.here:
        run.job()
    while run.choice._trial:
        trial.append(run.job())
    assert {1} == set(trial)
    assert run.job() in (99, 100)  # of 100 microseconds each


def test_a_series_is_as_long_as_its_batches_permit():
    run = Run(threads=40e-3, here=30e-3, busy=1e-3)
    while run.choice._trial or not run.choice.here:
        run.job()
    assert 1 == run.job()


def test_batches_that_become_dear_in_a_series_are_seen_when_it_ends():
    run = Run(threads=300e-6, here=100e-6)
    run.go(_choice.PAUSE_SECONDS / 2)
    dear = run.seconds[True] = 20e-3
    begun = run.now
    while run.choice.series() > 1:
        run.job()
    assert run.now - begun < 2 * dear * _choice.SERIES_SECONDS / 100e-6


def test_what_lies_between_two_epochs_is_not_counted():
    """A pause of the consumer's is no time that a batch took."""
    run = Run(threads=300e-6, here=100e-6)
    run.go(2.0)
    for _ in range(20):
        run.choice.forget()
        run.now += 5.0
        assert run.go(1.0) > 0.8


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_epochs_of_few_jobs_are_measured_together(jobs):
    """What is between them is not counted, and neither a job's making nor the loop is left out."""
    choice, now, measured, prepared = Choice(), 0.0, set(), {False: 0, True: 0}
    for _ in range(10_000):
        before = 0.0
        for _ in range(jobs):
            batches, took = (choice.series(), 100e-6) if choice.here else (1, 300e-6)
            prepared[choice.here] += batches
            now += took
            choice.note(now, took, batches, batches, 300e-6, 1, before)
            before = (batches - 1) * took
            now += before + batches * 20e-6
            measured.add(round(choice._per_batch, 9))
        choice.rest(now, before)
        now += 0.01
        choice.forget()
    assert {0.0, 120e-6, 320e-6} == measured
    assert prepared[True] > 9 * prepared[False]


@pytest.mark.parametrize(("gather", "decided"), [(4, True), (32, False)])
def test_what_a_call_of_a_worker_makes_is_measured_as_a_piece(gather, decided):
    """Else an epoch of large groups would have too few of them for a decision."""
    choice, now, changed = Choice(gather), 0.0, False
    for _ in range(_choice.WARMING_JOBS + 8):
        now += 0.01
        changed |= choice.note(now, 9e-3, 32, 32, 1e-6, 32, 0.0)
    assert decided == changed


def test_what_a_call_makes_is_what_the_loader_says():
    with Loader({"batch_size": 32}, source=np.zeros((9, 784))) as batches:
        assert 1 < batches._supply._recipe.gather == batches._supply.choice._gather


def test_long_jobs_are_not_left_out_longer_than_they_must():
    """Of 0.3 s each, as where a group is read from a disk."""
    run = Run(threads=0.3, here=0.295, busy=1e-3)
    while not run.choice.here:
        run.job()
    begun = run.now
    while run.choice.here:
        run.job()
    assert run.now - begun == pytest.approx(
        (1 + _choice.WARMING_JOBS + _choice.WINDOW_PIECES) * 0.295, abs=0.35
    )


def test_what_was_waited_for_in_the_job_before_makes_no_trial_hopeless():
    """Many batches came one after the other in that one, and this one has a single batch."""
    choice, now = Choice(), 0.0
    choice.here = True
    while choice.here:  # until it tries the threads
        now += 0.02
        choice.note(now, 100e-6, 200, 200, 1e-6, 4, 0.0196)
    for batches in (1, 2, 4):
        now += 300e-6
        assert not choice.note(now, 300e-6, batches, batches, 1e-6, batches, 0.0224)
    assert not choice.here


class Flips(Choice):
    """Changes its mind at the moments that a test draws."""

    def __init__(self, when):
        super().__init__()
        self.when = when

    def note(self, *noted):
        if self.when.random() < 0.3:
            self.here = not self.here
            return True
        return False

    def series(self):
        return self.when.randint(1, 5)


@pytest.mark.parametrize("whole", [False, True])
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 60),
    workers=st.integers(1, 3),
    prefetch=st.integers(1, 4),
)
@settings(max_examples=40, deadline=None)
def test_the_batches_are_the_same_whoever_prepares_them(whole, seed, n, workers, prefetch):
    """Also over a resume, with a transform that draws, and with errors at their places."""

    def transform(sample, rng):
        if sample == 13:
            raise ValueError("thirteen")
        return sample + rng.random()

    class Source(list):
        def __getitem__(self, index):
            return np.float64(index)

    source = np.arange(n) if whole else Source(range(n))
    transform = None if whole else transform
    config = {"batch_size": 3, "num_workers": workers, "prefetch_batches": prefetch}

    def run(batches, got, stop=None):
        for epoch in batches.epochs(3):
            while len(got) != stop:
                try:
                    batch = next(epoch)
                except StopIteration:
                    break
                except ValueError:
                    got.append((batches.state_dict()["world"]["step"], "failed"))
                else:
                    got.append((batches.info.step, batch.tolist()))
            if len(got) == stop:
                return

    expected = []
    with Loader({**config, "num_workers": 0}, source=source, transform=transform) as batches:
        run(batches, expected)
    got, when = [], random.Random(seed)
    stop = when.randrange(len(expected) + 1)
    with Loader(config, source=source, transform=transform) as batches:
        batches._supply.choice = Flips(when)
        run(batches, got, stop)
        state = json.loads(json.dumps(batches.state_dict()))
        if got and got[-1][1] == "failed":
            got.pop()
    with Loader(config, source=source, transform=transform, resume=state) as batches:
        batches._supply.choice = Flips(when)
        run(batches, got)
    assert expected == got


class Here(Choice):
    """Has the consumer prepare the batches from the first chance on."""

    def note(self, *noted):
        changed, self.here = not self.here, True
        return changed

    def series(self):
        return 8


def test_what_was_prepared_here_is_counted():
    with Loader({"batch_size": 1, "prefetch_batches": 2}, source=list(range(40))) as batches:
        batches._supply.choice = Here()
        assert 40 == len(list(batches))
        stats = batches.stats()
    assert 40 - 3 == stats.prepared_here
    assert "37 batches prepared without the workers" in str(stats)


@pytest.mark.parametrize(("action", "prepared"), [("log", 37), ("raise", 0)])
def test_threads_are_never_doubted_where_a_stall_is_to_be_raised(monkeypatch, action, prepared):
    """Nobody watches the loop while it prepares a batch itself."""
    monkeypatch.setattr(_supply, "Choice", Here)
    config = {"batch_size": 1, "prefetch_batches": 2, "stall_action": action}
    with Loader(config, source=list(range(40))) as batches:
        assert 40 == len(list(batches))
        assert prepared == batches.stats().prepared_here


def test_a_callable_sampler_is_asked_by_the_feeder_alone():
    with Loader({}, source=list(range(9)), sampler=lambda epoch, n: range(n)) as batches:
        assert batches._supply.choice is None


def test_what_is_prepared_here_does_not_see_the_context_of_the_loop():
    """As in a worker: else a batch might depend on who prepares it."""
    seen = contextvars.ContextVar("seen", default="nothing")

    def transform(sample):
        return seen.get(), threading.current_thread() is threading.main_thread()

    seen.set("the loop's")
    config = {"batch_size": 1, "prefetch_batches": 1}
    with Loader(config, source=list(range(9)), transform=transform, collate=list) as batches:
        batches._supply.choice = Here()
        got = [sample for batch in batches for sample in batch]
    assert {("nothing", True), ("nothing", False)} == set(got)


def test_what_the_threads_had_begun_says_nothing_of_the_loop():
    """Up to 65,536 batches are ready or in work when it is tried."""
    loop, noted = threading.current_thread(), []

    class Source(list):
        by_loop = False

        def __getitem__(self, index):
            self.by_loop |= threading.current_thread() is loop
            return super().__getitem__(index)

    class Tried(Here):
        def note(self, *given):
            noted.append(source.by_loop)
            return super().note(*given)

    source = Source(range(60))
    with Loader({"batch_size": 1, "prefetch_batches": 16}, source=source) as batches:
        batches._supply.choice = Tried()
        assert 60 == len(list(batches))
    assert [False, True] == noted[:2]


class Forgetting(Choice):
    """Counts how often it begins to measure anew, beside the beginnings of epochs."""

    forgot = -1

    def forget(self):
        self.forgot += 1
        super().forget()


@pytest.mark.parametrize("here", [False, True])
def test_behind_a_failure_it_is_measured_anew(here):
    """What was waited for it is no time of a batch, and of a series some come again."""

    def transform(sample):
        if sample in (7, 8):
            raise ValueError("bad")
        return sample

    config = {"batch_size": 1, "num_workers": 1, "shuffle": False, "num_epochs": 1}
    with Loader(config, source=range(20), transform=transform) as batches:
        batches._supply.choice = choice = Forgetting()
        choice.here, choice._per_batch, choice._decided = here, 1e-4, float("inf")
        epoch, got = iter(batches), []
        for _ in range(20):
            try:
                got.append(int(next(epoch)[0]))
            except ValueError:
                assert choice._noted is None
    assert [*range(7), *range(9, 20)] == got
    assert 3 == choice.forgot, "behind each failure, and behind the first batch"


def test_behind_a_piece_that_is_made_anew_it_is_measured_anew():
    class Source(list):
        sample_bytes, in_memory, fails = 1 << 18, True, True

        def take(self, indices):
            if 10 in indices and self.fails:
                self.fails = False
                raise OSError("this once")
            return np.array(indices)

    config = {"batch_size": 1, "num_workers": 1, "shuffle": False, "num_epochs": 1}
    with Loader(config, source=Source(range(20))) as batches:
        batches._supply.choice = choice = Forgetting()
        choice.here, choice._per_batch, choice._decided = True, 1e-4, float("inf")
        assert list(range(20)) == [int(batch[0]) for batch in batches]
    assert 3 == choice.forgot, "behind the first batch and the piece, and at the end of the epoch"


def test_a_ctrl_c_before_the_threads_are_told_to_end_is_made_good(monkeypatch):
    """Else the choice would be made, and nothing would come of it in any epoch."""
    real, interrupted = Stream.wind_down, []

    def wind_down(self):
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        real(self)

    monkeypatch.setattr(Stream, "wind_down", wind_down)
    with Loader({"batch_size": 1, "prefetch_batches": 2}, source=list(range(40))) as batches:
        batches._supply.choice = Here()
        epoch = iter(batches)
        with pytest.raises(KeyboardInterrupt):
            next(epoch)
        assert 40 == len(list(epoch))
        assert batches.stats().prepared_here > 30
