"""The runs of a plan come to a row for each setting; a plan or a run that is wrong says which."""

import numpy as np
import pytest

from threadloader import ConfigError, LoaderConfig
from threadloader.adapters import torch_loader
from threadloader.bench import BenchError, Plan, run
from threadloader.bench._report import row_of


def numbers(rate=1000.0, *, wait=0.0, ready=1.0, **others):
    """What a run of one second gives."""
    return {
        "samples": rate,
        "steps_of_epoch": 3,
        "batches": 10,
        "first_batch_seconds": 0.5,
        "seconds": 1.0,
        "wait_seconds": wait,
        "step_seconds": 0.1,
        "cpu_seconds": 0.9,
        "epoch_gap_seconds": [],
        "batches_ready": ready,
        "peak_bytes": 1 << 20,
        "storage_bytes": 0,
        "cache_hits": 0,
        "cache_misses": 0,
        **others,
    }


# The plan.


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": ()},
        {"workers": (-1,)},
        {"workers": (1025,)},
        {"workers": (True,)},
        {"workers": 4},
        pytest.param({"workers": iter([0, 2])}, id="an iterator"),
        {"workers": np.array([0, 2])},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"seconds": 86401},
        {"batches": 1},
        {"batches": 10**9 + 1},
        {"batches": 2.0},
        {"repeat": 0},
        {"repeat": 1001},
        {"step": "jump"},
        {"step_ms": -1},
        {"step_ms": 60001},
        {"step_ms": float("inf")},
        {"compare": "jax"},
    ],
    ids=str,
)
def test_what_is_out_of_bounds_is_refused_by_its_option(wrong):
    with pytest.raises(ConfigError) as refused:
        Plan(**wrong)
    (problem,) = refused.value.problems
    assert f"--{next(iter(wrong)).replace('_', '-')}" == problem.pointer


def test_the_bounds_themselves_are_in():
    Plan(workers=(0, 1024), seconds=86400, batches=10**9, repeat=1000, step_ms=60000)
    Plan(workers=(0,), seconds=5e-324, batches=2, repeat=1, step_ms=0)


def test_a_number_of_too_many_digits_is_refused_by_its_option():
    """Python does not write it."""
    with pytest.raises(ConfigError, match=r"--repeat: expected .*, got a value of type int"):
        Plan(repeat=10**5000)


def test_batches_alone_are_no_bound_in_time():
    assert (2.0, None, 5.0) == (
        Plan().seconds,
        Plan(batches=9).seconds,
        Plan(batches=9, seconds=5.0).seconds,
    )


# All runs of a measurement.


class Runner:
    """Makes runs of given rates, and keeps what it was asked for."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.specs = []

    def __call__(self, spec):
        self.specs.append(spec)
        answer = self.answers.pop(0) if self.answers else numbers(version="2.0")
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def torch_there(monkeypatch):
    monkeypatch.setattr(torch_loader, "is_installed", lambda: True)


def test_settings_are_taken_in_turns_to_and_fro(torch_there):
    runner = Runner()
    plan = Plan(workers=(0, 2), repeat=3, compare="torch")
    run({"num_epochs": 4}, plan, source="mine:Numbers", runner=runner)
    forth = [("threadloader", 0), ("torch", 0), ("threadloader", 2), ("torch", 2)]
    made = [(spec["loader"], spec["config"]["num_workers"]) for spec in runner.specs]
    assert forth + forth[::-1] + forth == made
    assert plan.runs == len(made)
    assert {None} == {spec["config"]["num_epochs"] for spec in runner.specs}


def test_a_row_has_the_medians_of_its_runs_and_the_highest_memory():
    runs = [
        numbers(rate, wait=wait, peak_bytes=peak, epoch_gap_seconds=gaps, batches_ready=None)
        for rate, wait, peak, gaps in [
            (10, 0.3, 7, [1.0]),
            (30, 0.1, None, []),
            (20, 0.2, 9, [3.0]),
        ]
    ]
    row = row_of("threadloader", 2, runs, has_step=True)
    assert (20, (10, 30, 20), 0.5) == (
        row.samples_per_second,
        row.samples_per_second_runs,
        row.spread,
    )
    assert (0.2, "poor", 2.0, 9, None, 30) == (
        row.data_wait_fraction,
        row.data_wait_band,
        row.epoch_gap_seconds,
        row.peak_bytes,
        row.batches_ready,
        row.batches,
    )


@pytest.mark.parametrize(
    ("counts", "expected"), [([(0, 6), (9, 3)], 0.5), ([(0, 6), (0, 0)], 0.0), ([(0, 0)], None)]
)
def test_a_row_has_the_part_of_all_samples_that_came_from_the_cache(counts, expected):
    runs = [numbers(cache_hits=hits, cache_misses=misses) for hits, misses in counts]
    assert expected == row_of("threadloader", 2, runs, has_step=False).cached_fraction


def test_a_loader_without_the_cache_is_not_compared_with_one_that_has_it(torch_there):
    """That would be no difference between the two."""
    kept = [numbers(version="2.0", cache_hits=hits, cache_misses=9) for hits in (0, 9)]
    compares = [
        any(
            "At their best" in told
            for told in run(
                {},
                Plan(workers=(0,), repeat=1, compare="torch"),
                source="mine:Numbers",
                runner=Runner(ours, numbers(version="2.0")),
            ).findings
        )
        for ours in kept
    ]
    assert [True, False] == compares


def test_each_loader_is_compared_by_runs_of_its_own(torch_there):
    answers = Runner(numbers(rate=30.0), numbers(rate=10.0, version="2.0"))
    plan = Plan(workers=(0,), repeat=1, compare="torch")
    *_, told = run({}, plan, source="mine:Numbers", runner=answers).findings
    expected = (
        "At their best, threadloader with no workers loads 30 samples/s and PyTorch's DataLoader "
        "with no processes 10: 3.00 times as many."
    )
    assert expected == told


@pytest.mark.parametrize(
    ("on_error", "skip"), [({"skip": 2}, 2**53 - 1), ({"skip": 0}, 0), ({"retry": 1}, None)]
)
def test_a_budget_for_the_users_epochs_does_not_end_a_run_of_more(on_error, skip):
    """Where there is one: without, or with one of nothing, no sample may be left out."""
    runner = Runner(numbers())
    config = {"on_error": {"retry": 1, "backoff": 2.0, **on_error}, "num_epochs": 1}
    run(config, Plan(workers=(0,), repeat=1), source="mine:Numbers", runner=runner)
    (asked,) = runner.specs
    assert (skip, 2.0) == tuple(asked["config"]["on_error"][name] for name in ("skip", "backoff"))
    LoaderConfig(**asked["config"])


def test_without_a_step_there_is_no_data_wait():
    row = row_of("threadloader", 2, [numbers(wait=0.9)], has_step=False)
    assert (None, None, None) == (row.data_wait_fraction, row.data_wait_band, row.step_seconds)


@pytest.mark.parametrize(
    "config", [{"sampler": {"type": "subset", "indices": [1]}}, {"exclude": [1]}], ids=str
)
def test_two_loaders_with_other_samples_are_not_compared(torch_there, config):
    with pytest.raises(BenchError, match="expected a config without sampler and exclude") as failed:
        run(config, Plan(compare="torch"), source="mine:Numbers", runner=Runner())
    assert failed.value.usage


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (BenchError("ValueError: bad"), "num_workers 0: ValueError: bad"),
        (
            BenchError('no thread; threadloader: "num_workers" asks for 8 threads'),
            'num_workers 0: no thread; threadloader: "num_workers" asks for 8 threads; --workers',
        ),
        (
            {"samples": 0},
            (
                "num_workers 0: expected a batch, got none: the source is empty, or its samples are"
                " left out (by exclude, on_error, the sampler, drop_last or the shard's remainder)"
                " or on other shards"
            ),
        ),
        ({"samples": 0, "batches": 2}, "num_workers 0: expected samples, got padding alone"),
        (BenchError("--source: no", usage=True), "--source: no"),
    ],
)
def test_a_run_that_fails_says_which_it_was(answer, expected):
    with pytest.raises(BenchError) as failed:
        run({}, Plan(workers=(0,)), source="mine:Numbers", runner=Runner(answer))
    assert str(failed.value).startswith(expected)


def test_a_thread_of_the_users_that_cannot_start_is_none_of_the_workers():
    """Fewer workers would not help."""
    runner = Runner(BenchError("--source: RuntimeError: can't start new thread"))
    with pytest.raises(BenchError) as failed:
        run({}, Plan(workers=(0,)), source="mine:Numbers", runner=runner)
    assert "num_workers 0: --source: RuntimeError: can't start new thread" == str(failed.value)


@pytest.mark.parametrize(
    ("config", "loader", "told"),
    [
        ({"on_error": {"skip": 1}}, "torch", " (on_error is not given to torch)"),
        ({"on_error": {"skip": 1}}, "threadloader", ""),
        ({}, "torch", ""),
    ],
    ids=str,
)
def test_a_sample_that_torch_may_not_leave_out_is_told_as_such(torch_there, config, loader, told):
    """Which the runs of threadloader, with on_error, have left out."""

    def runner(spec):
        if spec["loader"] == loader:
            raise BenchError("ValueError: bad")
        return numbers(version="2.0")

    setting = {"torch": "PyTorch num_workers 0", "threadloader": "num_workers 0"}[loader]
    with pytest.raises(BenchError) as failed:
        run(config, Plan(workers=(0,), compare="torch"), source="mine:Numbers", runner=runner)
    assert f"{setting}: ValueError: bad{told}" == str(failed.value)


def test_a_system_that_tells_no_memory_is_said_to():
    def silent(spec):
        return numbers(peak_bytes=None)

    report = run({}, Plan(), source="mine:Numbers", runner=silent)
    assert "This system does not tell the peak memory of a process" in " ".join(report.findings)


def test_a_plan_that_is_none_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match=r"plan: expected a bench\.Plan, got dict"):
        run({"batch_size": 4}, {"repeat": 1})
