"""What the suite takes for a measurement: each sample once and right, turns, medians, ratios.

Loaders and runs are planted, and so are the clocks: no test looks at how long anything took.
"""

import itertools
import time
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import _measure, _run, works
from benchmarks._check import Watched, WrongBatches, same_batch
from benchmarks._machine import Memory
from benchmarks._picture import picture
from benchmarks._plan import Plan
from benchmarks._protocol import Job, Metric, Served
from benchmarks._results import Shown, row_of
from benchmarks._run import run
from benchmarks._synthetic import Rows
from benchmarks._table import table
from benchmarks.works import gpu, storage


def job(samples=8, batch_size=3, **others):
    """A job that costs nothing."""
    return Job(Rows(samples), batch_size, 0, "cheap", **others)


def serving(order, spoil=lambda batch: batch):
    """A loader that gives batches of these indices, each in its turn of the epochs."""

    @contextmanager
    def serve(job):
        epochs = itertools.chain(order, itertools.repeat(range(len(job.source))))

        def epoch():
            indices = list(next(epochs))
            for at in range(0, len(indices), job.batch_size):
                yield spoil(job.batch(indices[at : at + job.batch_size]))

        yield Served(epoch, "as planted")

    return serve


def measured(serve, samples=8):
    return _measure.throughput(job(samples), serve, 0.0)


# Each sample once, and right.


@given(st.lists(st.integers(0, 5), max_size=12))
def test_an_epoch_is_each_sample_once(indices):
    """Whatever comes, it passes exactly when it is a permutation of the source."""
    watched = Watched(job(6))
    for at in range(0, len(indices), 4):
        watched.take({"index": np.array(indices[at : at + 4])})
    try:
        watched.judge()
        passed = True
    except WrongBatches:
        passed = False
    assert (sorted(indices) == list(range(6))) == passed


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ([0, 1, 2, 3, 4, 5, 6], r"1 did not come \(the first: 7\)"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 2], r"1 came again \(the first: 2\)"),
        ([0, 1, 2, 3, 4, 5, 6, 6], r"1 did not come .* and 1 came again \(the first: 6\)"),
    ],
    ids=["drops", "doubles", "swaps"],
)
def test_a_loader_that_drops_or_doubles_a_sample_has_no_speed(order, told):
    with pytest.raises(WrongBatches, match=told):
        measured(serving([order]))


def test_the_timed_epochs_are_counted():
    """A loader that is right while it is watched and drops a sample when the clock runs is seen."""
    with pytest.raises(WrongBatches, match="1 timed epochs: expected 8 rows, got 7"):
        measured(serving([range(8), range(7)]))


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_every_epoch_of_a_training_loop_is_watched(epoch, monkeypatch):
    """A sample that comes twice in place of another is found in any epoch."""
    order = [list(range(8)) for _ in range(3)]
    order[epoch][5] = 4
    monkeypatch.setattr(_measure, "clock", itertools.count().__next__)
    with pytest.raises(WrongBatches, match="first: 5"):
        _measure.training(job(), serving(order), lambda: None, 30.0)
    with pytest.raises(WrongBatches, match="first: 5"):
        _measure.start_and_gap(job(), serving(order), lambda: None, 3)


class Busy:
    """A loader that makes a batch a second, also while nobody asks; and the clock."""

    def __init__(self):
        self.now = 0.0
        self.ready = 0.0

    def pause(self, seconds):
        self.now += seconds
        self.ready += seconds

    @contextmanager
    def serve(self, job):
        def epoch():
            for at in range(0, len(job.source), job.batch_size):
                self.pause(max(0.0, 1.0 - self.ready))
                self.ready -= 1.0
                yield job.batch(range(at, min(at + job.batch_size, len(job.source))))

        yield Served(epoch, "as planted")


def test_what_a_loader_prepares_through_a_pause_is_not_counted(monkeypatch):
    """No pause lies between the epoch that warms up and the clock, nor between timed epochs.

    To look at a batch is one.
    """
    busy = Busy()
    monkeypatch.setattr(_measure, "same_batch", lambda job, batch: busy.pause(1.0))
    monkeypatch.setattr(_measure, "clock", lambda: busy.now)
    monkeypatch.setattr(time, "sleep", busy.pause)
    assert 1.0 == _measure.throughput(job(9), busy.serve, 6.0)["batch_seconds"]
    assert 1.0 == _measure.training(job(9), busy.serve, lambda: None, 6.0)["steps_per_second"]


def test_an_index_that_is_none_of_the_source_is_refused():
    with pytest.raises(WrongBatches, match="expected indices 0 to 7, got -1 to 3"):
        Watched(job()).take({"index": np.array([-1, 3])})


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda batch: {**batch, "x": batch["x"] + 1}, "field x: expected float32 .*other values"),
        (lambda batch: {**batch, "x": batch["x"].astype(float)}, "got float64"),
        (lambda batch: {**batch, "x": batch["x"][:, :2]}, r"got float32 \(3, 2\)"),
        (lambda batch: {"index": batch["index"]}, "expected the fields"),
        (lambda batch: batch if 0 in batch["index"] else {**batch, "x": 0 * batch["x"]}, "other v"),
    ],
    ids=["values", "dtype", "shape", "fields", "all but the first batch"],
)
def test_a_loader_whose_batches_are_others_has_no_speed(spoil, told):
    with pytest.raises(WrongBatches, match=told):
        measured(serving([], spoil))


def test_masked_tokens_are_held_against_their_samples():
    """A batch of the collate passes; one whose mask, labels or tokens are wrong does not."""
    kind = works.work("ragged")
    asked = kind.job({"samples": 64, "workers": 0})
    batch = asked.batch(range(64))
    same_batch(asked, batch)
    hidden = batch["labels"] != -100
    for name, wrong, told in [
        ("mask", ~batch["mask"], "the mask"),
        ("labels", np.full_like(batch["labels"], -100), "as they were"),
        ("labels", np.where(hidden, batch["labels"] + 1, -100), "a label"),
        ("tokens", np.where(hidden, 1, batch["tokens"]), "hidden of the chosen"),
    ]:
        with pytest.raises(WrongBatches, match=told):
            same_batch(asked, {**batch, name: wrong})


# Turns, medians and ratios.


CASES = [{"name": "a case", "options": {"rounds": 7}}]


def answering(answer, cases=CASES):
    """A runner that answers by a function of loader and number of the run, and notes its runs."""

    def runner(python, spec, timeout, environment):
        if "installed" in spec:
            machine = {"python": f"CPython {python}", "gil": True, "numpy": "2", "cores": 2}
            machine |= {"processor": "A processor", "platform": "Linux", "load": 0.0}
            versions = dict.fromkeys(spec["installed"], "1.0" if python == "A" else None)
            if python == "B":
                versions["dataloader_rs"] = "2.0"
            return {"machine": machine, "versions": versions}
        if "cases" in spec:
            return {"cases": dict.fromkeys(spec["cases"], cases)}
        runner.made.append((python, spec["loader"]))
        return answer(spec["loader"], runner.made.count((python, spec["loader"])))

    runner.made = []
    return runner


def rate(value):
    return {"numbers": {"samples_per_second": value, "first_batch_seconds": 0.1}, "how": "so"}


def planned(*names, **others):
    options = {"works": ("python",), "quick": True, "repeats": 3, "pythons": ("A",), **others}
    return Plan(loaders=names, **options)


def test_loaders_take_turns_and_every_second_turn_goes_backwards():
    runner = answering(lambda loader, number: rate(1.0))
    run(planned("threadloader", "torch"), runner=runner)
    there = ["limit", "threadloader", "torch"]
    assert [*there, *there[::-1], *there] == [loader for _, loader in runner.made]


def test_one_that_fails_is_not_asked_again_and_stops_nobody():
    def answer(loader, number):
        return {"error": "boom"} if loader == "torch" and number == 2 else rate(1.0)

    runner = answering(answer)
    results = run(planned("threadloader", "torch", "spdl"), runner=runner)
    assert 2 == runner.made.count(("A", "torch"))
    rows = {row.loader: (row.status, row.why) for row in results.works[0].cases[0].rows}
    assert ("failed", "boom") == rows["torch"]
    assert {"ok"} == {status for name, (status, _) in rows.items() if name != "torch"}


def test_a_loader_runs_in_the_first_interpreter_that_has_it_beside_the_limit_there():
    runner = answering(lambda loader, number: rate(1.0))
    results = run(planned("threadloader", "dataloader_rs", pythons=("A", "B")), runner=runner)
    assert {("A", "limit"), ("A", "threadloader"), ("A", "dataloader_rs")} == set(runner.made)
    runner = answering(lambda loader, number: rate(1.0))
    results = run(planned("dataloader_rs", pythons=("C", "B")), runner=runner)
    assert {("B", "limit"), ("B", "dataloader_rs")} == set(runner.made)
    assert ["CPython C", "CPython B"] == [machine["python"] for machine in results.machines]


def test_each_interpreter_finds_the_size_of_its_own_steps():
    """One Python takes longer than another for as many rounds of a loop."""
    plain, given = answering(lambda loader, number: rate(1.0)), {}

    def runner(python, spec, timeout, environment):
        if "cases" in spec:
            return {
                "cases": {name: [{"name": "a", "options": {"at": python}}] for name in works.NAMES}
            }
        if "work" in spec:
            given[spec["loader"]] = spec["options"]["at"]
        return plain(python, spec, timeout, environment)

    run(planned("threadloader", pythons=("A",)), runner=runner)
    assert {"limit": "A", "threadloader": "A"} == given
    run(planned("dataloader_rs", pythons=("C", "B")), runner=runner)
    assert {"limit": "B", "threadloader": "A", "dataloader_rs": "B"} == given


def test_interpreters_of_one_version_have_names_of_their_own():
    """By which their rows and their limits are told apart."""
    machines = []
    for name in ("3.13", "3.13t", "3.13", "3.13"):
        machines.append(_run._told_apart({"python": name}, machines))
    assert ["3.13", "3.13t", "3.13 (2)", "3.13 (3)"] == [machine["python"] for machine in machines]


def having(*there):
    """A runner of an interpreter that has these loaders alone."""
    runner = answering(lambda loader, number: rate(1.0))

    def answered(python, spec, timeout, environment):
        answer = runner(python, spec, timeout, environment)
        if "versions" in answer:
            answer["versions"] = {
                name: "1.0" if name in there else None for name in answer["versions"]
            }
        return answer

    return answered


def test_where_no_loader_is_installed_nothing_is_measured():
    told = "--loaders: expected one that is installed, found none of torch, spdl; benchmarks/requ"
    with pytest.raises(RuntimeError, match=told):
        run(planned("torch", "spdl", named=True), runner=having())


@pytest.mark.parametrize(
    ("named", "expected"), [(True, ["not installed, and left out: torch, grain"]), (False, [])]
)
def test_who_is_asked_for_by_name_and_is_not_there_is_told(named, expected):
    """Of all that there are somebody is always missing."""
    told = []
    plan = planned("threadloader", "torch", "spdl", "grain", named=named)
    run(plan, runner=having("threadloader", "spdl"), tell=told.append)
    assert expected == [line for line in told if "turn" not in line]


def test_the_size_of_a_step_is_found_where_runs_are_made(monkeypatch):
    """There numpy has one thread; here it has as many as it likes, and a step would be another."""
    monkeypatch.setattr(works.work("train"), "rounds_of", None)
    told = {"steps_per_second": 1.0, "wait_fraction": 0.0, "step_seconds": 0.019}
    runner = answering(lambda loader, number: {"numbers": told, "how": "so"})
    results = run(planned("threadloader", works=("train",), quick=False), runner=runner)
    assert {"rounds": 7} == results.works[0].cases[0].options


def test_an_interpreter_that_finds_no_size_is_told():
    def runner(python, spec, timeout, environment):
        if "cases" in spec:
            return {"timeout": "gave no answer within 1 s"}
        return {"machine": {"python": "CPython"}, "versions": {"threadloader": ""}}

    with pytest.raises(RuntimeError, match="A: expected the sizes of steps: gave no answer with"):
        run(planned("threadloader"), runner=runner)


@pytest.mark.parametrize(
    ("asked", "took", "expected"),
    [
        ({"step_ms": 19}, 0.013, "- limit: a step took 13.0 ms, and not 19.0 ms; other programs"),
        ({"step_ms": 19}, 0.024, "- limit: a step took 24.0 ms, and not 19.0 ms; other programs"),
        ({"step_ms": 19}, 0.016, ""),
        ({}, 0.013, ""),
    ],
    ids=str,
)
def test_a_step_that_is_not_as_long_as_the_work_states_is_told(asked, took, expected):
    """By the runs without loading, less what their samples took."""
    runs = {"steps_per_second": 1.0, "wait_fraction": 0.0, "step_seconds": took + 0.01}
    limit = {"numbers": runs | {"samples_seconds": 0.01}, "how": "so"}
    beside = {"numbers": runs | {"step_seconds": 1.0}, "how": "so"}
    runner = answering(
        lambda loader, number: limit if loader == "limit" else beside,
        [{"name": "a case", "options": asked}],
    )
    shown = table(run(planned("threadloader", works=("train",)), runner=runner))
    assert expected in " ".join(shown.split())
    assert bool(expected) == ("a step took" in shown)


def test_what_bare_threads_reach_is_told_below_the_table():
    """The limit of arrays is that of one thread; this is what the machine gives to several."""
    runs = {"samples_per_second": 10.0}
    limit = {"numbers": runs | {"threads_per_second": 17.0}, "how": "so"}
    beside = {"numbers": runs, "how": "so"}
    runner = answering(
        lambda loader, number: limit if loader == "limit" else beside,
        [{"name": "batch 32, 2 workers", "options": {}}],
    )
    shown = " ".join(table(run(planned("threadloader", works=("arrays",)), runner=runner)).split())
    told = "as many threads as there are workers, which hand nothing on, reach 1.70 (batch 32,"
    assert told in shown


def test_only_with_workers_the_limit_of_arrays_has_bare_threads():
    kind = works.work("arrays")
    alone, two = (case.options for case in kind.cases(quick=True))
    assert "threads_per_second" not in kind.limit(kind.job(alone), alone, 0.0)
    assert 0 < kind.limit(kind.job(two), two, 0.0)["threads_per_second"]


METRICS = [
    Metric("rate", "rate", "/s"),
    Metric("first", "first", "s"),
    Metric("slower", "slower", "s", "over"),
    Metric("gap", "gap", "s", None),
]


def numbers(*values):
    names = (metric.name for metric in METRICS)
    return {"numbers": dict(zip(names, values, strict=True)), "how": "so"}


def test_each_run_is_held_against_the_limit_of_its_own_turn():
    """The medians are those of the ratios, so that a machine that slows down hits both alike."""
    limits = [numbers(100.0, 2.0, 1.0, 0.0), numbers(10.0, 4.0, 2.0, 0.0)]
    answers = [numbers(50.0, 4.0, 1.5, 3.0), numbers(5.0, 8.0, 3.0, 5.0)]
    shown = row_of("x", "CPython", answers, limits, METRICS).shown
    assert Shown(27.5, 0.5, 0.0) == shown["rate"]
    assert Shown(6.0, 0.5, 0.0) == shown["first"]
    assert (2.25, 0.5) == (shown["slower"].value, shown["slower"].against)
    assert Shown(4.0, None, 0.25) == shown["gap"]


def test_where_a_limit_fails_there_is_no_ratio():
    """That of the turns before would not be one of these runs."""
    runs, limits = [rate(9.0), rate(2.0)], [rate(10.0), {"error": "boom"}]
    shown = row_of("threadloader", "CPython", runs, limits, works.work("python").METRICS).shown
    assert (5.5, None) == (shown["samples_per_second"].value, shown["samples_per_second"].against)


def test_the_limit_has_the_spread_of_its_numbers():
    """Each of its ratios is 1."""
    limits = [numbers(100.0, 2.0, 1.0, 0.0), numbers(50.0, 2.0, 1.0, 0.0)]
    shown = row_of("limit", "CPython", limits, limits, METRICS).shown
    assert Shown(75.0, 1.0, pytest.approx(1 / 3)) == shown["rate"]


def test_what_the_system_does_not_tell_is_a_dash():
    """No 0, which would be the best of all."""

    def answer(loader, number):
        told = {"epoch_seconds": 2.0}
        return {"numbers": told | ({"added_bytes": 0} if loader == "limit" else {}), "how": "so"}

    results = run(planned("torch", works=("memory",)), runner=answering(answer))
    assert "PyTorch DataLoader        -  2.00 s" in table(results)
    assert "" == picture(results)  # of memory it would show what was added


# What kinds of work ask for.


@pytest.mark.parametrize("name", ["memory", "footprint", "scale"])
def test_where_the_system_does_not_tell_memory_no_work_makes_it_up(name, monkeypatch):
    monkeypatch.setattr(Memory, "__init__", lambda self: vars(self).update(told=False, _before=0))
    kind = works.work(name)
    found = {"seconds": 0.5, "bytes": 0}
    options = {**kind.cases(quick=True)[0].options, "imported": found}
    options |= {"package": "", "module": "benchmarks"}
    told = kind.measure(kind.job(options), _measure.one_thread, options, 0.0)
    names = {metric.name: metric.title in ("added", "memory") for metric in kind.METRICS}
    assert [True] == [names[missing] for missing in names.keys() - told.keys()]


@pytest.mark.parametrize(
    ("cost", "told", "expected"),
    [("waits", False, False), ("waits", True, True), ("python", False, True)],
)
def test_processes_are_for_where_python_code_holds_the_gil(cost, told, expected):
    """In a sample, or in the training step that a loader is told of."""
    assert expected == Job(Rows(4), 2, 2, cost, step_holds_gil=told).in_processes


@pytest.mark.parametrize("quick", [False, True])
def test_an_epoch_of_slow_storage_has_whole_batches_for_each_worker(quick):
    """Processes give as many batches at once as they are: a part of that is no time of a batch."""
    for case in storage.cases(quick):
        assert 0 == case.options["samples"] % (storage.BATCH * case.options["workers"])


@pytest.mark.parametrize("spoilt", [False, True])
def test_what_came_to_the_device_is_compared_when_no_clock_runs(spoilt):
    """The last batch, after the loop has ended."""

    class Tensor:
        def __init__(self, array):
            self._array = array

        def to(self, device, non_blocking):
            return Tensor(self._array + spoilt)

        def cpu(self):
            return self

        def numpy(self):
            return self._array

    cuda = SimpleNamespace(synchronize=lambda: None)
    torch = SimpleNamespace(as_tensor=Tensor, cuda=cuda)
    with ExitStack() as stack:
        served = stack.enter_context(gpu._sending(torch, _measure.one_thread, job()))
        assert 3 == sum(1 for _ in served.epoch())
        if spoilt:
            with pytest.raises(WrongBatches, match="on the device a batch is another"):
                stack.close()
