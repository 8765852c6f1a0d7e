"""``threadloader bench``: what it measures and says, the choice, and that it leaves nothing.

No test looks at how long anything took: times are given by clocks and runs of our own, and
what real runs give is looked at for its form alone.
"""

import argparse
import contextlib
import errno
import json
import os
import pickle
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from frameworks import framework
from hypothesis import given, settings
from hypothesis import strategies as st
from links import make_link

from threadloader import ConfigError, LoaderConfig, WorkerError, cli
from threadloader._command_line import integer, number
from threadloader.adapters import torch_loader
from threadloader.bench import (
    BenchError,
    Choice,
    Plan,
    Report,
    Row,
    _child,
    _command,
    _measure,
    _process,
    _steps,
    picture,
    run,
)
from threadloader.bench._choice import choose, compared, findings
from threadloader.bench._measure import take_time
from threadloader.bench._process import in_process
from threadloader.bench._progress import Bar, Lines, progress
from threadloader.bench._report import row_of, system
from threadloader.bench._steps import amount, make_step
from threadloader.bench._table import _wrapped
from threadloader.collate import make_collate

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
NPZ = {"type": "npz", "path": "x.npz"}
QUICK = ("--batches", "4", "--repeat", "1")

MODULE = '''
import multiprocessing, os, signal, socket, subprocess, sys, tempfile, threading, time
from concurrent.futures import ProcessPoolExecutor
import numpy as np

class Numbers:
    """Sample i is i; reading one prints, which must not get into the answer."""
    def __len__(self): return 10
    def __getitem__(self, index):
        print("read", index)
        return np.array([index, os.getpid()])

def same(sample): return sample
def noise(sample, rng): return sample + rng.random()
def broken(): raise ValueError("no\\ndata")
def leaves(): os._exit(3)
def killed(): os.kill(os.getpid(), 9)
def killed_beside_a_fork():
    if os.fork(): os.kill(os.getpid(), 9)
    time.sleep(1000)
def exits(): sys.exit("enough")
def interrupted(): raise KeyboardInterrupt
def nothing(): return []

class OnceGood:
    """Each sample can be read once."""
    read = 0
    def __len__(self): return 10
    def __getitem__(self, index):
        self.read += 1
        if self.read > 10: raise OSError("gone")
        return index

def forgot(): pass

class Closing(Numbers):
    closed = 0
    def close(self):
        Closing.closed += 1
        raise OSError("too late")

def held():
    """Says that it is here, and holds the line open as long as this process lives."""
    global line
    line = socket.create_connection(("127.0.0.1", int(os.environ["HELD_PORT"])))
    time.sleep(600)

def connect():
    global line
    line = socket.create_connection(("127.0.0.1", int(os.environ["HELD_PORT"])))

def leaves_a_process():
    global pool
    pool = ProcessPoolExecutor(1)
    pool.submit(connect).result()
    return Numbers()

def leaves_a_program():
    global program
    port = os.environ["HELD_PORT"]
    code = "import socket; line = socket.create_connection(('127.0.0.1', " + port + ")); "
    code += "print(flush=True); line.recv(1)"
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    program.stdout.readline()  # it is there
    return Numbers()

def leaves_a_deaf_process():
    signal.signal(signal.SIGTERM, lambda *told: None)
    multiprocessing.get_context("fork").Process(target=held).start()
    return Numbers()

def leaves_a_pool():
    global pool
    pool = multiprocessing.get_context("fork").Pool(2)
    pool.map(abs, range(4))
    return Numbers()

def leaves_a_thread():
    threading.Thread(target=held).start()
    return Numbers()

def leaves_a_folder():
    global folder
    folder = tempfile.TemporaryDirectory(dir=".", prefix="left")
    return Numbers()
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with data, a module and a config."""
    np.savez(tmp_path / "x.npz", x=np.arange(24.0).reshape(12, 2), y=np.arange(12))
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    write({"source": NPZ, "batch_size": 5})
    return tmp_path


def write(config, name="c.json"):
    Path(name).write_text(json.dumps(config), encoding="utf-8")
    return name


@pytest.fixture
def command(folder, capsys):
    """Gives a function that runs ``threadloader bench``: exit code, stdout, stderr."""

    def call(*arguments):
        code = cli.main(["bench", *map(str, arguments)])
        got = capsys.readouterr()
        return code, got.out, got.err

    return call


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


def rows(rates, waits=None, **others):
    """Rows of these rates, by number of workers."""
    return [
        Row(
            loader="threadloader",
            num_workers=workers,
            samples_per_second=rate,
            samples_per_second_runs=(rate,),
            data_wait_fraction=None if waits is None else waits[workers],
            **{name: values[workers] for name, values in others.items()},
        )
        for workers, rate in sorted(rates.items())
    ]


def report(rates, waits=None, compare="", config="c.json", **plan):
    """A report of these rates."""
    ours = rows(rates, waits)
    theirs = [replace(row, loader="torch") for row in ours if compare]
    return Report(
        config=config,
        plan=Plan(workers=tuple(rates), step_ms=0 if waits is None else 8, compare=compare, **plan),
        system=system("2.0" if compare else None),
        data={"batch_size": 5, "prefetch_batches": 3, "steps": 3},
        rows=(*ours, *theirs),
        choice=choose(ours),
        findings=("One thing.", "Another thing, " + "at some length " * 20),
    )


# The choice: a function of numbers.

rates = st.dictionaries(
    st.integers(0, 64), st.floats(0.001, 1e9, allow_nan=False), min_size=1, max_size=8
)


@given(rates)
def test_the_fewest_workers_within_5_percent_of_the_best_are_chosen(rates):
    near = [workers for workers, rate in rates.items() if rate >= 0.95 * max(rates.values())]
    assert min(near) == choose(rows(rates)).num_workers


@given(rates, st.randoms())
def test_with_a_step_the_fewest_that_hardly_wait_are_chosen(rates, random):
    """Among those within 5% of the best rate; where none of them is fed, they all count."""
    waits = {workers: random.choice([0.0, 0.009, 0.01, 0.5]) for workers in rates}
    near = {workers for workers, rate in rates.items() if rate >= 0.95 * max(rates.values())}
    fed = {workers for workers in near if waits[workers] < 0.01}
    assert min(fed or near) == choose(rows(rates, waits)).num_workers


@given(rates, st.floats(0.1, 10))
def test_the_choice_does_not_depend_on_the_unit(rates, factor):
    """Twice as fast a machine chooses alike. (Rates at the very bound may be rounded across.)"""
    best = max(rates.values())
    rates = {n: rate for n, rate in rates.items() if abs(rate / best - 0.95) > 1e-6}
    faster = {workers: rate * factor for workers, rate in rates.items()}
    assert choose(rows(rates)).num_workers == choose(rows(faster)).num_workers


@pytest.mark.parametrize(
    ("rates", "waits", "expected"),
    [
        ({2: 10}, None, "Nothing else was measured."),
        (
            {0: 10, 2: 20.4, 4: 21},
            None,
            "The fewest within 5% of the best rate: 20 samples/s; the best, 21, took 4 workers.",
        ),
        (
            {0: 5, 1: 2000},
            {0: 0.5, 1: 0.001},
            (
                "The fewest with a data wait below 1%: 0.1%, and 2,000 samples/s, the best rate of"
                " all."
            ),
        ),
        (
            {0: 9, 1: 9.1},
            {0: 0.5, 1: 0.4},
            (
                "No setting within 5% of the best rate has a data wait below 1%. This is the fewest"
                " workers among them: 50.0%, and 9 samples/s; the best, 9, took 1 worker."
            ),
        ),
    ],
)
def test_the_choice_says_why(rates, waits, expected):
    assert expected == choose(rows(rates, waits)).why


# What the numbers say.


def said(rows, step_seconds=0.0, cores=2, gil=True):
    return " ".join(findings(rows, step_seconds=step_seconds, cores=cores, gil=gil))


@pytest.mark.parametrize(
    ("rates", "busy", "cores", "expected"),
    [
        ({0: 100, 2: 190, 8: 800}, {0: 0.1, 2: 0.1, 8: 0.2}, 2, "the rest was waiting"),
        ({0: 100, 2: 190, 8: 800}, {0: 0.1, 2: 0.1, 8: 0.2}, 2, "still rising at 8"),
        ({0: 100, 2: 190, 4: 191}, {0: 1.0, 2: 1.9, 4: 1.9}, 2, "the limit of this machine"),
        ({0: 100, 2: 190}, {0: 1.0, 2: 1.9}, 8, "1.9 of 8 cores are busy then, one for each"),
        ({0: 100, 2: 140}, {0: 1.0, 2: 1.4}, 2, "1.4 of 2 cores are busy then: the rest of the"),
        ({0: 100, 4: 90}, {0: 1.0, 4: 1.0}, 2, "code that holds the GIL"),
        ({0: 100, 4: 90}, {0: 1.0, 4: 1.9}, 2, "the threads contend for memory or for the GIL"),
        ({0: 100, 4: 90}, {0: 0.1, 4: 0.1}, 2, "one thread in at a time, or the storage gives no"),
        ({0: 1e6, 4: 3e5}, {0: 1.0, 4: 1.0}, 2, "handing it from thread to thread costs as much"),
        ({2: 100, 4: 99}, {2: 1.9, 4: 1.9}, 2, "are busy with 2 workers already"),
        ({0: 100, 4: 99}, {0: 0.99, 4: 0.99}, 1, "1.0 of 1 core is busy with no workers already"),
        ({0: 100, 1: 99}, {0: 0.99, 1: 0.99}, 2, "One worker does what the loop itself would do"),
        ({0: 100, 4: 90}, {0: 1.0, 4: 1.0}, 2, "This holds for loading alone."),
        ({0: 100, 4: 105}, {0: 1.0, 4: 1.0}, 2, "More workers than 0 do not help (1.05 times at"),
        ({0: 100, 4: 107}, {0: 1.0, 4: 1.0}, 2, "More workers than 0 help little (1.07 times at"),
    ],
)
def test_without_a_step_the_bottleneck_is_told_by_rates_and_cores(rates, busy, cores, expected):
    seconds = {workers: 10 / rate for workers, rate in rates.items()}
    assert expected in said(rows(rates, cpu_cores=busy, batch_seconds=seconds), cores=cores)


@pytest.mark.parametrize(
    ("rates", "busy"),
    [
        ({0: 100, 2: 190}, {0: 0.4, 2: 0.8}),
        ({0: 100, 2: 140}, {0: 1.0, 2: 1.2}),
        ({0: 100, 4: 90}, {0: 0.4, 4: 0.4}),
        ({0: 100, 4: 90}, {0: 0.9, 4: 1.0}),
    ],
)
@pytest.mark.parametrize("gil", [True, False])
def test_where_few_cores_are_busy_other_programs_are_named_as_a_cause(rates, busy, gil):
    """Pushed off the processor by them, threads take as little of it as those that wait."""
    seconds = {workers: 10 / rate for workers, rate in rates.items()}
    assert "or other programs took the processor" in said(
        rows(rates, cpu_cores=busy, batch_seconds=seconds), gil=gil
    )


@pytest.mark.parametrize("gil", [True, False])
def test_the_gil_is_named_only_where_there_is_one(gil):
    """Whatever else the numbers are."""
    for busy in (0.1, 1.0, 1.5, 1.9):
        for rate in (50, 150, 300):
            told = rows(
                {0: 100, 4: rate},
                cpu_cores={0: min(busy, 1), 4: busy},
                batch_seconds={0: 0.1, 4: 0.1},
            )
            assert gil or "GIL" not in said(told, gil=gil)


@pytest.mark.parametrize(
    ("waits", "ready", "steps", "expected"),
    [
        ({0: 0.001, 4: 0.0}, {0: None, 4: 3}, {0: 0.01, 4: 0.01}, "loading is not the bottleneck"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 0}, {0: 0.01, 4: 0.01}, "still above 1%: try more of them"),
        ({0: 0.2, 4: 0.5}, {0: None, 4: 0}, {0: 0.01, 4: 0.01}, "to hand a batch over takes as lo"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 0.6}, {0: 0.01, 4: 0.01}, "although 0.6 batches were"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 2}, {0: 0.01, 4: 0.01}, "although 2.0 batches were ready"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 2}, {0: 0.01, 4: 0.01}, "or other programs do the cores"),
        (
            {0: 0.5, 4: 0.0},
            {0: None, 4: 2},
            {0: 0.011, 4: 0.02},
            "gets slower beside the workers: 11 ms alone, 20 ms with 4 workers",
        ),
        ({0: 0.5, 4: 0.0}, {0: None, 4: 2}, {0: 0.01, 4: 0.0109}, ""),
        (
            {0: 0.5, 4: 0.0},
            {0: None, 4: 2},
            {0: 0.012, 4: 0.013},
            "With no workers a step took 12 ms, and not 10 ms (--step-ms)",
        ),
    ],
)
def test_with_a_step_the_bottleneck_is_told_by_waits_and_steps(waits, ready, steps, expected):
    told = said(
        rows({0: 100, 4: 100}, waits, batches_ready=ready, step_seconds=steps), step_seconds=0.01
    )
    assert expected in told
    assert bool(expected) == bool(told)


def test_workers_beyond_which_the_wait_rises_are_told():
    told = said(
        rows({1: 100, 2: 100, 4: 100}, {1: 0.5, 2: 0.3, 4: 0.4}, batches_ready={1: 0, 2: 0, 4: 0}),
        step_seconds=0.01,
    )
    assert "The wait is lowest with 2 workers, 30.0%, and more of them do not lower it: at " in told


def test_a_step_that_was_never_taken_alone_is_compared_with_what_was_asked_for():
    told = said(
        rows({2: 100, 4: 100}, {2: 0.0, 4: 0.0}, step_seconds={2: 0.01, 4: 0.02}), step_seconds=0.01
    )
    assert "beside the workers: 10 ms asked for, 20 ms with 4 workers" in told


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({0: 0.009, 4: 0.009}, False),
        ({0: 0.008, 4: 0.01}, True),
        ({2: 0.009, 4: 0.009}, False),
        ({2: 0.01, 4: 0.008}, True),
        ({2: 0.02, 4: 0.02}, False),
    ],
    ids=str,
)
def test_a_step_that_is_not_as_long_as_asked_is_told(steps, expected):
    """A longer one without workers alone: beside them it may be longer for their sake."""
    waits = dict.fromkeys(steps, 0.5)
    told = said(rows(dict.fromkeys(steps, 100), waits, step_seconds=steps), step_seconds=0.01)
    assert expected == ("a step took 8 ms, and not 10 ms (--step-ms)" in told)


def test_runs_that_differ_and_reads_from_storage_are_told():
    noisy = replace(
        rows({2: 100})[0], samples_per_second_runs=(90, 100, 110), storage_bytes=3 << 20
    )
    told = said([noisy])
    assert "Up to 3 MiB of a run came from storage" in told
    assert "With 2 workers the runs differ by ±10%" in told


@pytest.mark.parametrize(
    "waits", [None, {0: 0.0, 4: 0.0}, {0: 0.5, 4: 0.2}], ids=["no step", "fed", "starved"]
)
@given(part=st.floats(0.01, 1), noise=st.floats(0, 100))
def test_kept_samples_are_told_and_nothing_is_drawn_from_them(waits, part, noise):
    """Whatever else the numbers are: no setting is chosen, and no cause is named."""
    told = rows({0: 100, 4: 300}, waits, cached_fraction={0: None, 4: part})
    told = [replace(row, samples_per_second_runs=(100, 100 + noise)) for row in told]
    (kept,) = findings(told, step_seconds=0.01 if waits else 0.0, cores=2, gil=True)
    assert kept.startswith(f"With 4 workers {part:.0%} of the samples came from the config's cache")
    assert "none. Samples came from the config's cache." == str(choose(told))


def test_hardly_any_kept_sample_changes_nothing():
    few = rows({0: 100, 4: 300}, cached_fraction={0: 0.0, 4: 0.009})
    assert said(rows({0: 100, 4: 300})) == said(few)
    assert 4 == choose(few).num_workers


@pytest.mark.parametrize(
    ("there", "expected"), [(50, "2.00 times as many."), (98, "no difference that these runs")]
)
def test_two_loaders_are_compared_at_their_best(there, expected):
    told = compared(rows({0: 10, 4: 100}), rows({0: 1, 1: there}))
    assert "threadloader with 4 workers loads 100 samples/s" in told
    assert f"DataLoader with 1 process {there}: {expected}" in told


# How a run is timed.


class Clock:
    """A clock that others move on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def after(self, seconds, value=None):
        self.now += seconds
        return value


def epoch_of(clock, waits):
    for wait in waits:
        clock.after(wait)
        yield [0] * 4


def timed(waits, **bounds):
    """The times of epochs whose batches keep one waiting so long, with a step of 10 s."""
    clock = Clock()
    return take_time(
        lambda: epoch_of(clock, waits),
        step=lambda: clock.after(10),
        clock=clock,
        count=len,
        **{"seconds": None, "batches": None, **bounds},
    )


def test_each_batch_behind_the_first_counts_with_its_step_and_its_wait():
    got = timed([1, 2, 3, 4], batches=4)
    assert (1, 39, 9, 30) == (got.first_batch, got.measured, got.wait, got.step)
    assert (3, 12, []) == (got.batches, got.rows, got.epoch_gaps)


def test_the_first_batch_of_a_later_epoch_is_told_apart():
    """Three epochs, the last of them cut; the very first batch is in neither number."""
    got = timed([1, 2], batches=5)
    assert ([1, 1], 2 + 1 + 2 + 1, 4) == (got.epoch_gaps, got.wait, got.batches)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"seconds": 0.001}, 1),
        ({"seconds": 12}, 1),
        ({"seconds": 12.001}, 2),
        ({"seconds": 1e9, "batches": 2}, 1),
        ({"seconds": 12.001, "batches": 9}, 2),
    ],
)
def test_a_run_ends_at_its_first_bound_and_has_a_batch_behind_the_first(bounds, expected):
    assert expected == timed([1, 2, 2, 2, 2], **bounds).batches


def test_an_epoch_without_a_batch_has_no_times():
    assert None is timed([], batches=2)


def test_a_later_epoch_without_a_batch_is_told_by_its_number():
    """As where `on_error` leaves out all its samples; epochs are counted from 0."""
    epochs = iter([[1, 2], [3], []])
    with pytest.raises(BenchError) as failed:
        take_time(lambda: iter(next(epochs)), seconds=None, batches=9)
    told = "expected a batch in each epoch, got none in epoch 2: all its samples were left out"
    assert told == str(failed.value)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=5), st.integers(2, 20))
def test_waits_and_steps_make_up_the_measured_time(waits, batches):
    got = timed(waits, batches=batches)
    assert pytest.approx(got.measured) == got.wait + got.step
    assert (batches - 1, 4 * (batches - 1)) == (got.batches, got.rows)


# The step.


@pytest.mark.parametrize("kind", ["gil", "numpy"])
def test_a_step_that_computes_is_made_of_as_much_as_takes_so_long(kind):
    """Two rounds take 1/64 s by a clock that says so; a second is 128 of them."""
    clock = Clock()
    assert 2 * 64 == amount(kind, 1000, lambda: clock.after(1 / 64, clock.now))
    step = make_step(kind, 3)
    assert step is not None
    step()


@pytest.mark.skipif(os.name == "nt", reason="Windows counts processor time in steps of 16 ms")
@pytest.mark.parametrize(("kind", "expected"), [("gil", 128), ("numpy", 64)])
def test_a_step_of_python_is_measured_by_the_processor_time_it_takes(kind, expected, monkeypatch):
    """Others have half of the wall time here, and shall not make the step half as long."""
    clock = Clock()
    own = SimpleNamespace(
        perf_counter=lambda: clock.after(1 / 32, clock.now),
        thread_time=lambda: clock.after(1 / 64, clock.now),
    )
    monkeypatch.setattr(_steps, "time", own)
    assert expected == amount(kind, 1000)


def test_a_step_that_sleeps_is_its_seconds_and_no_step_is_none():
    assert (0.008, 0.0, 0.0) == (amount("sleep", 8), amount("sleep", 0), amount("gil", 0))
    assert None is make_step("gil", 0)
    assert callable(make_step("sleep", 0.008))


# The plan.


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": ()},
        {"workers": (-1,)},
        {"workers": (1025,)},
        {"workers": (True,)},
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"batches": 1},
        {"batches": 2.0},
        {"repeat": 0},
        {"step": "jump"},
        {"step_ms": -1},
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
    monkeypatch.setattr(torch_loader, "found", lambda: True)


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


# What is shown.


def test_the_json_has_the_documented_names_and_no_others():
    """Every name of the object and its parts is in backticks in docs/bench.md."""
    value = report({0: 10.0, 2: 20.0}, {0: 0.5, 2: 0.001}).as_dict()
    assert value == json.loads(json.dumps(value, allow_nan=False))
    names = {*value, *value["plan"], *value["system"], *value["data"], *value["choice"]}
    for row in value["results"]:
        names |= set(row)
    assert set() == {name for name in names if f"`{name}`" not in DOCUMENT}
    assert 1 == value["format"]


def test_the_tool_tells_of_the_suite(run_child):
    """What tools/bench can do beside the command stands in its help, behind the command's."""
    child = run_child(
        "import runpy, sys\n"
        "sys.argv = ['bench', '--help']\n"
        f"runpy.run_path({str(ROOT / 'tools' / 'bench')!r}, run_name='__main__')\n"
    )
    last = "tools/bench --suite measures kinds of work instead; its options: --suite --help"
    assert (0, last) == (child.returncode, child.stdout.splitlines()[-1])
    assert child.stdout.startswith("usage: threadloader bench ")


def test_every_option_is_documented(capsys):
    cli.main(["bench", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert set() == {option for option in options if f"| `{option}" not in DOCUMENT}


def test_one_is_not_told_as_many():
    one = replace(report({0: 10.0}), data={"batch_size": 5, "prefetch_batches": 3, "steps": 1})
    told = " ".join(str(replace(one, system=one.system | {"cores": 1})).split())
    assert ", 1 batch an epoch. CPython" in told
    assert ", 1 core, " in told


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"batches": 2}, "1 run of 1 batch after the first batch"),
        ({"batches": 1001, "seconds": 5}, "1 run of 5 s or 1,000 batches after the first batch"),
    ],
    ids=str,
)
def test_the_table_tells_the_batches_behind_the_first(plan, told):
    """--batches counts the first one, which is not in the measured time."""
    assert f"Each setting: {told}" in " ".join(str(report({0: 10.0}, repeat=1, **plan)).split())


@pytest.mark.parametrize("waits", [None, {0: 0.5, 16: 0.001}])
def test_the_table_has_a_line_for_each_setting(waits):
    text = str(report({0: 1234.5, 16: 2e6}, waits, compare="torch"))
    lines = text.split("\n")
    assert 2 == sum(line.lstrip().startswith("16 ") for line in lines)
    assert 2 == sum(" 1,23" in line for line in lines)
    assert (waits is None) == ("No training step" in text)
    assert (waits is not None) == ("50.0%  poor" in text)
    assert "\nChoice: num_workers 16. " in text
    assert "\n- One thing.\n- Another thing, " in text
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("wait", "told", "band"),
    [(0.00999, "0.9%", "excellent"), (0.0499, "4.9%", "good"), (0.1999, "19.9%", "fair")],
)
def test_the_number_of_a_wait_lies_in_its_band(wait, told, band):
    """In the table, where it stands before the band, and in the picture, beside its name."""
    measured = report({2: 10.0}, {2: wait})
    assert f"{told}  {band}" in str(measured)
    assert f">{told}</text>" in picture(measured)


def test_numbers_that_the_system_does_not_tell_are_a_dash():
    lines = str(report({2: 10.0})).split("\n")
    (line,) = [line for line in lines if line.lstrip().startswith("2 ")]
    assert 4 == line.split().count("-")


SVG = "{http://www.w3.org/2000/svg}"


@settings(deadline=None, max_examples=50)
@given(rates, st.randoms(), st.booleans(), st.sampled_from(["", "torch"]), st.text(max_size=60))
def test_the_picture_is_sound_whatever_the_numbers(rates, random, step, compare, config):
    """It is XML, every place in it lies within its size, and each setting has its points."""
    waits = {workers: random.choice([0.0, 0.01, 1.0]) for workers in rates} if step else None
    root = ET.fromstring(picture(report(rates, waits, compare, config)))
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for element in root.iter():
        for name, most in (("x", width), ("cx", width), ("x1", width), ("y", height)):
            assert 0 <= float(element.attrib.get(name, 0)) <= most
        for name in ("cy", "y1", "y2"):
            assert 0 <= float(element.attrib.get(name, 0)) <= height
    points = [it for it in root.iter(f"{SVG}circle") if it.find(f"{SVG}title") is not None]
    assert len(rates) * (2 if compare else 1) * (2 if step else 1) == len(points)


@pytest.mark.parametrize("name", ["c\udcff.json", "c\x1b.json", "c\ud800\n.json"], ids=ascii)
def test_a_config_may_be_named_by_anything(name):
    """What cannot stand in XML, or in UTF-8, is not in the picture."""
    text = picture(report({0: 10.0, 8: 20.0}, config=name))
    title = ET.fromstring(text.encode()).find(f"{SVG}title").text
    assert title.startswith("c\N{REPLACEMENT CHARACTER}")


def test_the_picture_tells_axes_legend_choice_and_both_backgrounds():
    text = picture(report({0: 10.0, 8: 20.0}, {0: 0.3, 8: 0.0}, "torch", config="a/<b>&.json#/c"))
    words = {element.text for element in ET.fromstring(text).iter(f"{SVG}text")}
    assert {
        "<b>&.json#/c: a step of 8 ms (a sleep)",
        "Samples per second",
        "Data wait, part of the time (%)",
        "num_workers",
        "threadloader (threads)",
        "PyTorch DataLoader (processes)",
        "chosen",
        "poor",
    } <= words
    assert "@media (prefers-color-scheme:dark)" in text


def test_the_picture_has_a_bar_where_the_runs_of_a_setting_differ():
    """From the slowest to the fastest, at that setting alone."""
    same = report({0: 10.0, 2: 20.0})
    apart = replace(same.rows[1], samples_per_second_runs=(15.0, 20.0, 25.0))
    drawn = [
        [
            line
            for line in ET.fromstring(picture(it)).iter(f"{SVG}line")
            if "range " in str(line.attrib)
        ]
        for it in (same, replace(same, rows=(same.rows[0], apart)))
    ]
    assert [0, 1] == [len(bars) for bars in drawn]
    (bar,) = drawn[1]
    assert bar.attrib["x1"] == bar.attrib["x2"]
    assert float(bar.attrib["y1"]) > float(bar.attrib["y2"])


def test_where_nothing_is_chosen_nothing_is_marked():
    """Neither in the picture nor in its legend; the table and the JSON say so, too."""
    none = replace(report({0: 10.0, 8: 20.0}), choice=Choice(None, "Why."))
    text = picture(none)
    assert [] == [it for it in ET.fromstring(text).iter() if it.get("class") == "chosen"]
    assert ">chosen<" not in text
    assert "\nChoice: none. Why.\n" in str(none)
    assert {"num_workers": None, "why": "Why."} == none.as_dict()["choice"]


def test_without_a_step_the_picture_says_why_it_has_no_data_wait():
    assert "there is no data wait to draw" in picture(report({0: 10.0}))


class Screen:
    """A stream that keeps what is written; perhaps a terminal, perhaps one that has gone."""

    def __init__(self, *, terminal, gone=False):
        self.text, self.terminal, self.gone = "", terminal, gone

    def isatty(self):
        return self.terminal

    def write(self, text):
        if self.gone:
            raise BrokenPipeError
        self.text += text

    def flush(self): ...


@pytest.mark.parametrize(
    ("terminal", "as_json", "expected"),
    [
        (False, False, "run 1 of 9: num_workers 10 ...\nrun 2 of 9: num_workers 2 ...\n"),
        (False, True, ""),
        (
            True,
            True,
            "\rrun 1 of 9: num_workers 10 ...\rrun 2 of 9: num_workers 2 ... \r" + 29 * " " + "\r",
        ),
    ],
)
def test_progress_is_lines_or_one_line_that_is_wiped_out(monkeypatch, terminal, as_json, expected):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    screen = Screen(terminal=terminal)
    shown = progress(screen, 9, json=as_json)
    shown.begin(1, "num_workers 10")
    shown.begin(2, "num_workers 2")
    shown.close()
    shown.close()
    assert expected == screen.text


def test_a_path_is_not_broken_within_itself():
    """So that it can be copied."""
    path = "/a" * 80
    assert ["the config", path, "of the"] == _wrapped(f"the config {path} of the")


def test_a_line_of_progress_stays_in_its_line(monkeypatch):
    """What a terminal goes on with in another one would not be wiped out."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    sizes = {7: os.terminal_size((20, 5))}
    screen = Screen(terminal=True)
    screen.fileno = lambda: 7
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    shown = progress(screen, 9, json=False)
    shown.begin(1, "num_workers 10")
    sizes[7] = os.terminal_size((15, 5))  # whoever looks on has made it narrower
    shown.begin(2, "num_workers 2")
    shown.close()
    lines = ["", "run 1 of 9: num_wor", "run 2 of 9: nu", 14 * " ", ""]
    assert "\r".join(lines) == screen.text


@pytest.mark.parametrize(
    ("size", "expected"), [((0, 0), Lines), ((0, 24), Lines), ((80, 0), Lines), ((80, 24), Bar)]
)
def test_a_bar_is_for_a_terminal_that_has_a_size(monkeypatch, size, expected):
    """On one that says it has no columns, or no lines, tqdm draws nothing at all."""
    sizes = {7: os.terminal_size(size)}
    screen = Screen(terminal=True)
    screen.fileno = lambda: 7
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    monkeypatch.setattr("threadloader.bench._progress.bar", lambda total, stream: object())
    assert expected is type(progress(screen, 2, json=False))


def test_progress_nobody_can_see_is_no_error():
    for shown in (
        progress(None, 9, json=False),
        progress(Screen(terminal=False, gone=True), 9, json=False),
    ):
        shown.begin(1, "num_workers 1")
        shown.close()


def test_tqdm_draws_the_bar_where_it_is_installed(monkeypatch):
    drawn = []

    class Tqdm:
        n = 0

        def __init__(self, **options):
            drawn.append(options["total"])

        def set_description_str(self, text, refresh):
            drawn.append(text)

        def update(self, runs):
            self.n += runs
            drawn.append(self.n)

        def refresh(self): ...

        def close(self):
            drawn.append("closed")

    fake = type(sys)("tqdm")
    fake.tqdm = Tqdm
    monkeypatch.setitem(sys.modules, "tqdm", fake)
    shown = progress(Screen(terminal=True), 2, json=False)
    assert isinstance(shown, Bar)
    shown.begin(1, "a")
    shown.begin(2, "b")
    shown.close()
    assert [2, "a", 0, "b", 1, "closed"] == drawn


# The command, with real runs.


def test_the_command_prints_a_table_and_draws_a_picture(command):
    code, out, err = command(
        "c.json", *QUICK, "--workers", "0,2", "--step-ms", 0.1, "--svg", "p.svg"
    )
    assert 0 == code, err
    assert err == "run 1 of 2: num_workers 0 ...\nrun 2 of 2: num_workers 2 ...\n"
    assert out.startswith("c.json: batch_size 5, prefetch_batches 3, 3 batches an epoch. ")
    assert 1 == out.count("\nChoice: num_workers ")
    assert f"{SVG}svg" == ET.parse("p.svg").getroot().tag


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system has no /dev/fd")
def test_a_config_may_come_through_a_pipe(command, folder):
    """Which can be read once."""
    source = {**NPZ, "path": str(folder / "x.npz")}
    reading, writing = os.pipe()
    os.write(writing, json.dumps({"source": source, "batch_size": 5}).encode())
    os.close(writing)
    code, out, err = command(f"/dev/fd/{reading}", *QUICK, "--workers", "0")
    os.close(reading)
    assert 0 == code, err
    assert out.startswith(f"/dev/fd/{reading}: batch_size 5")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_name_cannot_write_to_the_terminal(command, folder):
    name = write({"source": NPZ}, "x\x1b[2Jy.json")
    code, out, err = command(name, *QUICK, "--workers", "0")
    assert 0 == code, err
    assert "\x1b" not in out


def test_json_is_all_that_stdout_has(command):
    """A source given in code prints into it all the same, and is imported from here."""
    code, out, err = command(
        write({"t": {"batch_size": 3, "mine": 1, "num_workers": 7}}) + "#/t",
        *("--unknown", "ignore", "--source", "mine:Numbers", "--transform", "mine:noise"),
        *(*QUICK, "--workers", "2,0,2", "--json"),
    )
    assert (0, "") == (code, err)
    value = json.loads(out)
    assert ("c.json#/t", [0, 2], 4) == (
        value["config"],
        value["plan"]["workers"],
        value["data"]["steps"],
    )
    for row in value["results"]:
        assert 3 == row["batches"]
        assert row["samples_per_second"] > 0
        assert row["first_batch_seconds"] > 0
    assert [True, False] == [row["batches_ready"] is None for row in value["results"]]
    told = sys.platform in ("linux", "darwin")
    assert [told, told] == [row["peak_bytes"] is not None for row in value["results"]]


@pytest.mark.parametrize(
    "config",
    [
        {"source": NPZ, "batch_sise": 4},
        {"source": {**NPZ, "path": "none.npz"}, "num_workers": -1},
        {"source": NPZ, "shard": {"index": 2, "count": 1}},
        {},
    ],
    ids=str,
)
def test_a_bad_config_has_the_messages_of_check(command, capsys, config):
    write(config)
    expected = (cli.main(["check", "c.json"]), *capsys.readouterr())
    assert 1 == expected[0]
    assert expected == command("c.json")
    assert (expected[0], "", expected[1]) == command("c.json", "--json")


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (number, "1_0", "expected a number, got '1_0'"),
        (number, " 1", "expected a number, got ' 1'"),
        (number, "\u0663", "expected a number, got '\u0663'"),
        (number, "", "expected a number, got ''"),
        (integer, "1.0", "expected an integer, got '1.0'"),
        (integer, "9" * 21, f"expected an integer of at most 20 digits, got '{'9' * 21}'"),
    ],
)
def test_numbers_are_read_as_a_shell_has_them(read, text, said):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        read(text)
    assert said == str(refused.value)


@pytest.mark.parametrize("text", ["1", "-1.5", ".5", "2.", "1e3", "+2E-3"])
def test_a_number_may_be_written_as_numbers_are(text):
    assert float(text) == number(text)


def test_a_name_with_a_line_end_stays_on_its_line():
    text = str(replace(report({0: 10.0}), config="new\nline.json"))
    assert text.startswith("new\\nline.json: batch_size ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.json"], "threadloader: cannot read none.json: "),
        (["c.json", "--workers", "1,x"], "usage: threadloader bench "),
        (["c.json", "--workers", "1,2000"], "threadloader bench: --workers: expected integers "),
        (["c.json", "--workers", "\u0663"], "usage: threadloader bench "),
        (["c.json", "--batches", "1_0"], "usage: threadloader bench "),
        (["c.json", "--repeat", "\u0663"], "usage: threadloader bench "),
        (["c.json", "--repeat", "-1"], "threadloader bench: --repeat: expected an integer from 1"),
        (["c.json", "--step-ms", "nan"], "threadloader bench: --step-ms: expected a number from"),
        (["c.json", "--compare", "jax"], "usage: threadloader bench "),
        (
            ["c.json", "--svg", "none/a.svg"],
            f"threadloader bench: cannot write none/a.svg: {os.strerror(errno.ENOENT)}",
        ),
        (
            ["c.json", "--svg", "."],
            f"threadloader bench: cannot write .: {os.strerror(errno.EISDIR)}",
        ),
        (["c.json", "--svg", "a\0.svg"], "threadloader bench: cannot write a\\x00.svg: "),
        (["c.json", "--svg", ""], "threadloader bench: --svg: expected the name of a file, got ''"),
        (["c.json", "--source", "mine:none"], "threadloader bench: --source: expected MODULE:FUNC"),
        (["c.json", "--source", ""], "usage: threadloader bench "),
        (["c.json", "--transform", ""], "usage: threadloader bench "),
        (["c.json", "--source", "none"], "threadloader bench: --source: expected MODULE:FUNCTION"),
        (
            ["c.json", "--source", "./mine.py:Numbers"],
            "threadloader bench: --source: expected MODULE:FUNCTION",
        ),
        (["c.json", "--source", "mine:os.name"], "threadloader bench: --source: expected a functi"),
    ],
    ids=str,
)
def test_bad_usage_is_code_2_and_a_line(command, arguments, said):
    code, out, err = command(*arguments)
    err = "".join(line for line in err.splitlines(True) if not line.startswith("run "))
    assert (2, "", said) == (code, out, err[: len(said)])
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("broken", r"--source: ValueError: no\ndata"),
        ("exits", "--source: SystemExit: enough"),
        ("leaves", "the process ended with code 3: it said nothing"),
        ("interrupted", "the process ended with code 130: it said nothing"),
        ("nothing", "expected a batch, got none: the source is empty, "),
        pytest.param(
            "killed",
            "the process was killed; ",
            marks=pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal"),
        ),
        pytest.param(
            "killed_beside_a_fork",
            "the process was killed; ",
            marks=pytest.mark.skipif(os.name == "nt", reason="Windows has no fork"),
        ),
    ],
)
def test_whatever_happens_in_a_run_is_code_1_and_a_line(command, source, said):
    code, out, err = command("c.json", "--source", f"mine:{source}", "--workers", "0", *QUICK)
    first, last = err.splitlines()
    assert (1, "", "run 1 of 1: num_workers 0 ...") == (code, out, first)
    assert last.startswith(f"threadloader bench: num_workers 0: {said}")


@pytest.mark.parametrize("option", ["source", "transform", "collate"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise RuntimeError('no FOO')", "RuntimeError: no FOO"),
        ("raise SystemExit('enough')", "SystemExit: enough"),
    ],
)
def test_what_a_module_raises_at_its_import_is_told_with_option_and_name(
    command, option, statement, said
):
    """Of two modules that a command names, it is known which one failed."""
    Path("broken.py").write_text(statement, encoding="utf-8")
    code, out, err = command("c.json", f"--{option}", "broken:it", "--workers", "0", *QUICK)
    said = f"threadloader bench: num_workers 0: --{option}: broken:it: {said}"
    assert (1, "", said) == (code, out, err.splitlines()[-1])


def test_a_run_whose_later_epoch_has_no_batch_says_so(command):
    config = write({"batch_size": 5, "on_error": {"skip": 10}})
    code, out, err = command(config, "--source", "mine:OnceGood", "--workers", "0", *QUICK)
    told = "num_workers 0: expected a batch in each epoch, got none in epoch 1: all its samples"
    assert (1, "") == (code, out)
    assert err.splitlines()[-1].startswith(f"threadloader bench: {told}")


def test_a_function_that_forgets_its_return_is_bad_usage(command):
    """It must not measure the config's source in its place."""
    code, out, err = command("c.json", "--source", "mine:forgot", "--workers", "0", *QUICK)
    assert (2, "") == (code, out)
    assert "--source: expected a function that returns a source, got None" in err


def test_a_picture_that_cannot_be_written_in_the_end_is_code_2(command, monkeypatch):
    """What was measured is printed all the same."""
    monkeypatch.setattr(_command, "_refused", lambda path: "")
    monkeypatch.setattr(_command, "run", lambda *a, **k: report({0: 10.0}))
    code, out, err = command("c.json", "--svg", "none/a.svg")
    assert (2, True) == (code, "Choice: num_workers 0." in out)
    assert err.startswith("threadloader bench: cannot write none/a.svg: ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_picture_goes_into_a_regular_file_alone(command):
    """A FIFO would be waited for when all is measured, until somebody reads it."""
    os.mkfifo("a.svg")
    code, out, err = command("c.json", *QUICK, "--workers", "0", "--svg", "a.svg")
    expected = "threadloader bench: cannot write a.svg: expected a regular file or a new name, got "
    assert (2, "", expected) == (code, out, err[: len(expected)])


@pytest.mark.parametrize("name", ["c.json", "./c.json"])
@pytest.mark.parametrize("section", ["", "#/t"])
def test_a_picture_does_not_take_the_place_of_the_config(command, name, section):
    config = {"source": NPZ, "batch_size": 5}
    text = Path(write({"t": config} if section else config)).read_text("utf-8")
    code, out, err = command(f"c.json{section}", *QUICK, "--workers", "0", "--svg", name)
    expected = f"threadloader bench: --svg: expected another file than the config, got {name}\n"
    assert (2, "", expected) == (code, out, err)
    assert text == Path("c.json").read_text("utf-8")


def test_a_picture_by_a_link_into_a_folder_that_is_not_there_is_told_before_the_run(command):
    make_link(Path("a.svg"), Path("none") / "a.svg")
    expected = f"threadloader bench: cannot write a.svg: {os.strerror(errno.ENOENT)}\n"
    assert (2, "", expected) == command("c.json", "--svg", "a.svg")


@pytest.mark.parametrize("there", [True, False])
def test_a_picture_that_may_not_be_written_is_told_before_the_run(command, monkeypatch, there):
    """A file or a folder of somebody else's."""
    if there:
        Path("a.svg").write_text("", "utf-8")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    expected = f"threadloader bench: cannot write a.svg: {os.strerror(errno.EACCES)}\n"
    assert (2, "", expected) == command("c.json", "--svg", "a.svg")


@pytest.mark.skipif(os.name == "nt", reason="there it is a name of no file until it is written")
def test_a_name_that_is_too_long_for_a_picture_is_told(command):
    name = "x" * 300
    code, out, err = command("c.json", "--svg", name)
    assert (2, "") == (code, out)
    assert re.fullmatch(f"threadloader bench: cannot write {name}: .+\n", err)


def test_without_torch_its_name_and_the_command_are_told(command, monkeypatch):
    monkeypatch.setattr(torch_loader, "found", lambda: False)
    expected = "threadloader bench: --compare torch: expected torch, found none; write: pip install"
    code, out, err = command("c.json", "--compare", "torch")
    assert (2, "", expected) == (code, out, err[: len(expected)])


@pytest.mark.parametrize("broken", [None, ModuleType("torch.utils")], ids=["part", "attribute"])
def test_a_torch_that_is_broken_is_told_before_anything_is_measured(command, monkeypatch, broken):
    """As a folder of that name, which is a module of nothing."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.utils", broken)
    code, out, err = command("c.json", "--compare", "torch", *QUICK)
    assert (2, "", 1) == (code, out, err.count("\n"))
    assert err.startswith("threadloader bench: --compare torch: expected a torch that can be imp")
    assert err.endswith("; write: pip install torch\n")


# No process is left.


@pytest.fixture
def caller(monkeypatch):
    """Gives a socket to which the source `held` will connect."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        monkeypatch.setenv("HELD_PORT", str(server.getsockname()[1]))
        yield server


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("SIGINT", (130, "threadloader: interrupted")),
        ("SIGKILL", (-9, "run 1 of 5: num_workers 0 ...")),
    ],
)
def test_no_process_outlives_the_command(folder, caller, number, expected):
    """The process of the run, stuck in its source, ends with the one that asked for it."""
    command = [sys.executable, ROOT / "tools" / "bench", "c.json", "--source", "mine:held"]
    with subprocess.Popen(
        [*command, "--repeat", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            held, _ = caller.accept()
            with held:
                held.settimeout(30)
                running.send_signal(getattr(signal, number))
                assert b"" == held.recv(1)  # closed, since the process that held it has ended
        except BaseException:
            running.kill()
            raise
        assert running.stderr is not None
        lines = running.stderr.read().splitlines()
    assert expected == (running.returncode, lines[-1])
    assert not any("Traceback" in line for line in lines)


def test_a_run_that_is_interrupted_here_is_ended(folder, monkeypatch):
    """Whatever is raised while a run is waited for, its process has ended when it is passed on."""
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            self.stdout.close()
            self.stdout = Interrupted()

    class Interrupted:
        def fileno(self):
            raise KeyboardInterrupt

        readline = __iter__ = fileno

        def close(self): ...

    monkeypatch.setattr(subprocess, "Popen", Popen)
    with pytest.raises(KeyboardInterrupt):
        in_process({})
    (process,) = started
    assert process.poll() is not None


@pytest.mark.parametrize("what", ["subprocess.Popen", "tempfile.TemporaryFile"])
def test_a_process_that_the_system_does_not_start_is_told_with_what_to_do(monkeypatch, what):
    def refuse(*args, **options):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(what, refuse)
    said = r"expected a process .*, got: \[Errno \d+\] Too many open files; raise the limits of"
    with pytest.raises(BenchError, match=said):
        in_process({})


def test_without_a_folder_for_temporary_files_the_way_out_is_told(monkeypatch):
    """As on a system whose disk is only read."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere/at/all"])
    with pytest.raises(BenchError, match=r"No usable temporary directory .*, as TMPDIR"):
        in_process({})


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups of processes")
def test_a_process_that_no_signal_ends_is_given_up(monkeypatch):
    """It is asked, then not asked, each time with patience; and the command goes on."""
    sent, waited = [], []

    class Stuck:
        pid = 7

        def wait(self, seconds):
            waited.append(seconds)
            raise subprocess.TimeoutExpired("stuck", seconds)

    monkeypatch.setattr(os, "killpg", lambda group, number: sent.append((group, number)))
    _process._end(Stuck())
    assert [(7, signal.SIGTERM), (7, signal.SIGKILL)] == sent
    assert [_process.PATIENCE_SECONDS] * 2 == waited


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups of processes")
def test_a_deaf_program_ends_with_the_process_that_has_started_it():
    """It does not heed what ends the process, as where a Ctrl-C ends a run."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    deaf += "print(flush=True); time.sleep(600)"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {deaf!r}]); "
    command = [sys.executable, "-c", code + "time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        try:
            child.stdout.readline()  # the program is there
            _process._end(child)
            with selectors.DefaultSelector() as selector:
                selector.register(child.stdout, selectors.EVENT_READ)
                assert selector.select(30)
                assert b"" == child.stdout.read()  # closed, since all that held it have ended
        finally:
            _process._send(child, signal.SIGKILL)


def test_a_thread_that_the_source_has_left_is_not_waited_for(command, caller, monkeypatch):
    """The process of a run ends by itself when it has said what came of it."""
    ended, end = [], _process._end
    monkeypatch.setattr(_process, "_end", lambda child: (ended.append(child.pid), end(child)))
    source = ("--source", "mine:leaves_a_thread")
    code, out, _ = command("c.json", *QUICK, "--workers", "0", *source, "--json")
    assert (0, 1, []) == (code, len(json.loads(out)["results"]), ended)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no groups of processes")
def test_a_program_that_the_source_has_started_ends_with_its_run(command, caller):
    """It would be measured beside the next one."""
    source = ("--source", "mine:leaves_a_program")
    assert 0 == command("c.json", *QUICK, "--workers", "0", *source, "--json")[0]
    held, _ = caller.accept()
    with held:
        held.settimeout(30)
        with contextlib.suppress(ConnectionResetError):
            assert b"" == held.recv(1)  # closed, since the process that held it has ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("left", ["deaf_process", "pool"])
def test_what_would_not_end_by_itself_is_not_waited_for(command, caller, monkeypatch, left):
    """A process that is deaf to its end; one that may hold the lock of a queue it waits at."""
    ended, end = [], _process._end
    monkeypatch.setattr(_process, "_end", lambda child: (ended.append(child.pid), end(child)))
    source = ("--source", f"mine:leaves_a_{left}")
    assert 0 == command("c.json", *QUICK, "--workers", "0", *source, "--json")[0]
    assert [] == ended


def test_what_the_source_removes_at_the_exit_is_removed(command, folder):
    source = ("--source", "mine:leaves_a_folder")
    assert 0 == command("c.json", *QUICK, "--workers", "0", *source, "--json")[0]
    assert [] == list(folder.glob("left*"))


def test_a_process_that_waits_for_the_sources_work_is_ended(command, caller):
    """That of a pool, which would learn from nobody that the run is over."""
    source = ("--source", "mine:leaves_a_process")
    assert 0 == command("c.json", *QUICK, "--workers", "0", *source, "--json")[0]
    held, _ = caller.accept()
    with held:
        held.settimeout(30)
        assert b"" == held.recv(1)  # closed, since the process that held it has ended


# PyTorch's side.


class FakeData:
    """As much of torch.utils.data as is used, in one process."""

    class RandomSampler:
        def __init__(self, source, generator):
            self.order = [*range(len(source))][:: -1 if generator.seed else 1]

        def __iter__(self):
            return iter(self.order)

    class SequentialSampler(RandomSampler):
        def __init__(self, source):
            self.order = range(len(source))

    class BatchSampler:
        def __init__(self, sampler, size, drop_last):
            self.sampler, self.size, self.drop_last = sampler, size, drop_last

        def __iter__(self):
            order = list(self.sampler)
            for start in range(0, len(order), self.size):
                if not self.drop_last or start + self.size <= len(order):
                    yield order[start : start + self.size]

    class DistributedSampler(SequentialSampler):
        def __init__(self, source, count, index, **options):
            self.source, self.count, self.index, self.options = source, count, index, options
            self.set_epoch(0)

        def set_epoch(self, epoch):
            self.order = [(i + epoch) % len(self.source) for i in range(len(self.source))]
            self.order = self.order[self.index :: self.count]

    class DataLoader:
        def __init__(self, dataset, sampler, batch_size, collate_fn=None, drop_last=False, **kw):
            self.dataset, self.collate, self.options = dataset, collate_fn, kw
            self.batches = sampler
            if batch_size is not None:
                self.batches = FakeData.BatchSampler(sampler, batch_size, drop_last)

        def __len__(self):
            return len(list(self.batches))

        def __iter__(self):
            for indices in self.batches:
                if self.collate is None:
                    yield self.dataset[indices]
                elif hasattr(self.dataset, "__getitems__"):
                    yield self.collate(self.dataset.__getitems__(indices))
                else:
                    yield self.collate([self.dataset[index] for index in indices])


class FakeTorch:
    """As much of torch as is used; a tensor is what tells that it is one."""

    __version__ = "9.9"

    class Generator:
        def manual_seed(self, seed):
            self.seed = seed

    class cuda:  # noqa: N801 - its name there
        @staticmethod
        def is_available():
            return True

    @staticmethod
    def from_numpy(array):
        if array.dtype.kind not in "biuf":
            raise TypeError(array.dtype)
        return ("tensor", array.tolist())

    class utils:  # noqa: N801
        data = FakeData


@pytest.fixture
def fake_torch(monkeypatch):
    monkeypatch.setattr(torch_loader, "find", lambda: FakeTorch)


def batches_of(source, config=None, **options):
    """The batches that PyTorch's side makes of a source, and how its DataLoader was made."""
    options = {"batch_size": 2, "shuffle": False, "seed": 1, "drop_last": False, **options}
    collate = make_collate(config or {"type": "stack"})
    whole = config is None
    with torch_loader.TorchLoader(lambda: source, collate=collate, whole=whole, **options) as it:
        return list(it.begin()), it._loader.options, len(it)


def test_samples_are_collated_as_here_and_become_tensors(fake_torch):
    """Arrays that torch has no dtype for, and what is no array, stay as they are."""
    sample = {"x": np.ones(2), "pair": (np.int64(3), "s"), "u": np.array("unicode")}
    (batch,), *_ = batches_of([sample, sample])
    assert ("tensor", [[1.0, 1.0], [1.0, 1.0]]) == batch["x"]
    assert (("tensor", [3, 3]), ["s", "s"]) == batch["pair"]
    assert isinstance(batch["u"], np.ndarray)
    assert 2 == torch_loader.rows({"x": batch["pair"][1]})


class Whole:
    """A source that builds whole batches, and tells what it was asked for."""

    def __init__(self, n):
        self.n, self.closed = n, 0

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return np.array(index)

    def __getitems__(self, indices):
        return [np.array(100 + index) for index in indices]

    def take(self, indices):
        assert np.int64 == indices.dtype
        return 1000 + indices

    def close(self):
        self.closed += 1


def tensors(*parts):
    return [("tensor", part) for part in parts]


def test_a_source_is_read_in_its_best_way(fake_torch):
    """Whole batches by ``take``; else samples at once by ``__getitems__``; else one by one."""
    source = Whole(3)
    assert tensors([1000, 1001], [1002]) == batches_of(source)[0]
    stacked = make_collate({"type": "stack"})
    options = {"batch_size": 2, "shuffle": False, "seed": 1, "drop_last": False}
    with torch_loader.TorchLoader(lambda: source, collate=stacked, **options) as loader:
        assert tensors([100, 101], [102]) == list(loader.begin())
    double = lambda sample, index: sample * 2 + index  # noqa: E731
    assert tensors([200, 203], [206]) == batches_of(source, transform=double)[0]
    assert tensors([0, 3], [6]) == batches_of([*map(np.array, range(3))], transform=double)[0]
    assert 3 == source.closed


def test_order_and_tail_follow_the_config(fake_torch):
    source = [np.array(i) for i in range(5)]
    assert tensors([4, 3], [2, 1]) == batches_of(source, shuffle=True, drop_last=True)[0]
    assert 3 == batches_of(source)[2]
    assert ([], 0) == batches_of([], shuffle=True)[::2]


def test_a_shard_is_dealt_by_torch_anew_in_each_epoch(fake_torch):
    """Its sampler is told the number of the epoch, and what the config says of the order."""
    source = [np.array(i) for i in range(6)]
    options = {"shuffle": True, "seed": 1, "drop_last": False}
    stacked = make_collate({"type": "stack"})
    with torch_loader.TorchLoader(
        lambda: source, batch_size=2, shard=(1, 2), collate=stacked, **options
    ) as loader:
        epochs = [list(loader.begin()), list(loader.begin())]
        assert options == loader._loader.batches.sampler.options
    assert [tensors([1, 3], [5]), tensors([2, 4], [0])] == epochs


def test_processes_that_an_exception_leaves_are_ended(fake_torch, monkeypatch):
    """What was raised refers to the iterator, so that PyTorch does not end them by itself.

    Those of the user's, as of a pool in the source, are not: the source would wait for them.
    """
    done = []
    pool, worker, later = (
        SimpleNamespace(name=name, terminate=partial(done.append, name), join=partial(done.append))
        for name in ("pool", "worker", "later")
    )
    alive = [pool]
    monkeypatch.setattr(torch_loader.multiprocessing, "active_children", lambda: [*alive])

    class Starts(FakeData.DataLoader):
        def __iter__(self):
            alive.append(worker)
            return super().__iter__()

    monkeypatch.setattr(FakeData, "DataLoader", Starts)
    options = {"batch_size": 2, "shuffle": False, "seed": 1, "drop_last": False}
    with torch_loader.TorchLoader(lambda: [1, 2], collate=list, **options) as loader:
        loader.begin()
        alive.append(later)
    assert ["worker", 5] == done


def test_processes_live_as_long_as_the_loader_and_pin_where_asked(fake_torch):
    """Without workers there is nothing to keep alive."""
    expected = {"num_workers": 2, "persistent_workers": True, "pin_memory": True}
    assert expected == batches_of([1, 2], num_workers=2, pin_memory=True)[1]
    expected = {"num_workers": 0, "persistent_workers": False, "pin_memory": False}
    assert expected == batches_of([1, 2])[1]


def test_a_source_of_connections_is_opened_anew_in_a_fork(fake_torch, monkeypatch):
    opened = []
    source = torch_loader._Opened(lambda: opened.append(1) or opened)
    source.get()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    source.get()
    assert [1] == opened
    source.reopen = True
    source.get()
    assert [1, 1] == source.get()


def test_a_process_that_is_no_fork_opens_its_own_source():
    """What this process has opened does not travel with the dataset."""
    opened = torch_loader._Opened(partial(Whole, 3))
    opened.get().closed = 9
    got = pickle.loads(pickle.dumps(opened)).get()
    assert (3, 0) == (got.n, got.closed)


def test_the_transform_of_the_config_is_applied_there_too():
    """Also behind pickling, as where processes are spawned; one given in its place comes first."""
    options = {"type": "mlm", "field": "tokens", "vocabulary": 50, "mask_token": 3}
    config = LoaderConfig(transform=options)
    transform = _child._Transform(config, None)
    sample = {"tokens": np.arange(40)}
    expected = transform(sample, 7)
    assert {"tokens", "labels"} == set(expected)
    got = pickle.loads(pickle.dumps(transform))(sample, 7)
    assert expected["labels"].tolist() == got["labels"].tolist()
    assert "str" == _child._Transform(config, lambda sample: type(sample).__name__)("a", 7)


@pytest.mark.parametrize("shards", [[(0, 1)], [(0, 2), (1, 2)]], ids=["alone", "two-shards"])
@pytest.mark.parametrize("source", [[np.array(i) for i in range(10)], Whole(10)], ids=type)
def test_the_dataloader_of_torch_gives_each_sample_once(source, shards):
    """In tensors, over all shards together; the second epoch has another order."""
    torch = framework("torch")
    orders = [[], []]
    for shard in shards:
        loader = torch_loader.TorchLoader(
            lambda: source,
            batch_size=3,
            shuffle=True,
            seed=5,
            drop_last=False,
            shard=shard,
            collate=make_collate({"type": "stack"}),
            whole=True,
        )
        with loader:
            for order in orders:
                batches = list(loader.begin())
                assert len(loader) == len(batches)
                order += torch.cat(batches).tolist()
                assert sum(map(torch_loader.rows, batches)) == 10 // len(shards)
    assert [*range(10)] == sorted(value % 1000 for value in orders[0])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_both_loaders_are_measured_side_by_side(command):
    """With real processes of PyTorch; its rows have what it can tell."""
    framework("torch")
    code, out, err = command(
        "c.json", *QUICK, "--workers", "0,2", "--compare", "torch", "--json", "--step-ms", "0.1"
    )
    assert (0, "") == (code, err)
    value = json.loads(out)
    assert [("threadloader", 0), ("threadloader", 2), ("torch", 0), ("torch", 2)] == [
        (row["loader"], row["num_workers"]) for row in value["results"]
    ]
    assert value["system"]["torch"]
    last = value["results"][-1]
    assert (3, None, None) == (last["batches"], last["batches_ready"], last["cpu_cores"])
    assert any("PyTorch's DataLoader" in told for told in value["findings"])


# One run, measured in this process as in its own.


@pytest.fixture
def measured(folder, monkeypatch):
    """Gives a function that measures a run: of which loader, what is changed in its config."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "mine", raising=False)

    def call(loader, config=None, **changed):
        spec = {
            "loader": loader,
            "base": str(folder),
            "folder": str(folder),
            "source": "",
            "transform": "",
            "collate": "",
            "step": "sleep",
            "size": 0,
            "seconds": None,
            "batches": 4,
            "config": {"source": NPZ, "batch_size": 5, "num_workers": 0, **(config or {})},
        }
        return _child.run(spec | changed)

    yield call
    sys.modules.pop("mine", None)  # what `delitem` did not find it does not put back


def test_a_transform_that_is_not_true_is_given_to_either_loader(measured, folder, fake_torch):
    """As a list of steps that is empty, with a method."""
    module = folder / "mine.py"
    own = "class Steps(list):\n    def __call__(self, sample):\n        raise LookupError\n"
    module.write_text(f"{module.read_text('utf-8')}\n\n{own}\n\nsteps = Steps()\n", "utf-8")
    for loader in ("threadloader", "torch"):
        with pytest.raises(LookupError):
            measured(loader, transform="mine:steps")


def test_a_collate_in_code_makes_the_batches_of_either_loader(measured, folder, fake_torch):
    """Also one that is not true; of a source that would build whole ones it gets the samples."""
    module = folder / "mine.py"
    own = (
        "class Seen(list):\n    def __call__(self, samples):\n        raise LookupError(samples)\n"
    )
    module.write_text(f"{module.read_text('utf-8')}\n\n{own}\n\nseen = Seen()\n", "utf-8")
    for loader in ("threadloader", "torch"):
        with pytest.raises(LookupError) as caught:
            measured(loader, collate="mine:seen")
        assert (list, 5) == (type(caught.value.args[0]), len(caught.value.args[0]))


def test_the_current_folder_is_looked_in_only_where_code_is_named(measured, folder):
    """What lies there beside a config, and has the name of a module, is not to run."""
    before = sys.path[:]
    measured("threadloader")
    assert before == sys.path
    measured("threadloader", transform="mine:same")
    assert [str(folder), *before] == sys.path


def test_a_run_of_either_loader_gives_the_same_numbers(measured, fake_torch):
    """By name; that of torch also tells its version."""
    ours, theirs = (measured(it, transform="mine:same") for it in ("threadloader", "torch"))
    assert set(ours) | {"version"} == set(theirs)
    assert (3, 3, 3) == (ours["batches"], theirs["batches"], theirs["steps_of_epoch"])


def test_both_loaders_take_a_source_in_code_for_that_of_the_config(measured, fake_torch):
    """Ten samples, and not the twelve of the config."""
    ours, theirs = (
        measured(it, {"batch_size": 1}, source="mine:Numbers") for it in ("threadloader", "torch")
    )
    assert (10, 10) == (ours["steps_of_epoch"], theirs["steps_of_epoch"])


@pytest.mark.parametrize("loader", ["threadloader", "torch"])
def test_a_run_without_a_batch_has_no_sample_and_no_other_number(measured, fake_torch, loader):
    assert {"samples": 0} == measured(loader, source="mine:nothing")


def test_both_loaders_are_dealt_the_shard_that_the_launcher_says(measured, fake_torch, monkeypatch):
    """Six of twelve samples."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    auto = {"shard": "auto", "batch_size": 1}
    ours, theirs = (measured(it, auto) for it in ("threadloader", "torch"))
    assert (6, 6) == (ours["steps_of_epoch"], theirs["steps_of_epoch"])


def test_what_other_processes_do_is_not_told_as_this_ones(measured, fake_torch):
    """Time of the processor and reads are this process's own: not those of PyTorch's workers."""
    alone, helped = (measured("torch", {"num_workers": number}) for number in (0, 2))
    assert alone["cpu_seconds"] is not None
    assert (None, None) == (helped["cpu_seconds"], helped["storage_bytes"])


@pytest.mark.parametrize("there", [True, False])
def test_the_memory_that_torch_takes_is_not_the_loaders(measured, monkeypatch, there):
    """It is imported before memory is first looked at; where it is not there, a run goes on."""
    done = []

    class Memory(_measure.Memory):
        def __init__(self):
            done.append("memory")
            super().__init__()

    def find():
        done.append("torch")
        if not there:
            raise ImportError("no torch")

    monkeypatch.setattr(torch_loader, "find", find)
    monkeypatch.setattr(_child, "Memory", Memory)
    assert 3 == measured("threadloader", {"pin_memory": "auto"})["batches"]
    assert ["torch", "memory"] == done


@pytest.mark.parametrize(
    ("cache", "expected"),
    [(None, (0, 0)), ({"max_samples": 100}, (5, 5)), ({"folder": "kept"}, (10, 0))],
    ids=str,
)
def test_a_run_tells_how_many_samples_its_cache_gave(measured, cache, expected):
    """Ten behind the first batch of five: in memory five were kept by then, in a folder all."""
    config = {"batch_size": 5, "cache": cache, "source": {**NPZ, "path": "ten.npz"}}
    np.savez("ten.npz", x=np.arange(10))
    measured("threadloader", config, batches=3)
    ran = measured("threadloader", config, batches=3)
    assert expected == (ran["cache_hits"], ran["cache_misses"])


def test_a_source_in_code_is_closed_behind_its_run(measured):
    """What its close raises comes too late to matter."""
    assert 3 == measured("threadloader", source="mine:Closing")["batches"]
    assert 1 == sys.modules["mine"].Closing.closed


def test_a_run_finds_the_lists_of_a_sampler_in_the_folder_of_the_config(measured, folder):
    """Also where the source is in code, and modules come from another folder."""
    (folder / "configs").mkdir()
    np.save(folder / "configs" / "some.npy", [1, 2, 3])
    listed = {"batch_size": 1, "sampler": {"type": "subset", "indices": "some.npy"}}
    base = str(folder / "configs")
    ran = measured("threadloader", listed, base=base, source="mine:Numbers")
    assert 3 == ran["steps_of_epoch"]


@pytest.mark.parametrize(
    ("cpu", "rates", "says", "not_says"),
    [
        (
            1.2,
            {1: 100, 2: 150},
            " busy then: the rest of the time threads wait",
            "limit of this machine",
        ),
        (None, {1: 100, 2: 150}, "The rate is still rising at 2", "busy"),
        (1.2, {1: 100, 2: 150, 4: 150}, " busy then: the rest", "still rising"),
    ],
)
def test_a_gain_is_told_with_what_is_known_of_the_processor(cpu, rates, says, not_says):
    """A system that does not tell the time of processors is not said to wait."""
    told = said(rows(rates, cpu_cores=dict.fromkeys(rates, cpu)))
    assert says in told
    assert not_says not in told


def test_a_system_that_tells_no_memory_is_said_to():
    def silent(spec):
        return numbers(peak_bytes=None)

    report = run({}, Plan(), source="mine:Numbers", runner=silent)
    assert "This system does not tell the peak memory of a process" in " ".join(report.findings)


def test_what_the_system_does_not_tell_is_none(monkeypatch):
    def refused(path, *args, **options):
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_text", refused)
    assert (None, None) == (_measure.storage_bytes(), _measure.Memory().bytes_above_start())


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells it")
def test_the_memory_of_children_is_added(monkeypatch):
    """As far as they have it to themselves; here the child is this very process."""
    monkeypatch.setattr(_measure.Memory, "bytes_above_start", lambda memory: 5)
    children = []
    monkeypatch.setattr(_measure.multiprocessing, "active_children", lambda: children)
    assert 5 == _measure.Memory().with_children()
    children.append(SimpleNamespace(pid=os.getpid()))
    assert _measure.Memory().with_children() > 1 << 20


def test_a_child_that_has_just_ended_has_no_memory_to_count(monkeypatch):
    def gone(process):
        raise FileNotFoundError(process)

    monkeypatch.setattr(_measure, "_private", gone)
    monkeypatch.setattr(_measure.Memory, "bytes_above_start", lambda memory: 5)
    ended = SimpleNamespace(pid=1)
    monkeypatch.setattr(_measure.multiprocessing, "active_children", lambda: [ended])
    assert _measure.Memory().with_children() is None


def test_torch_put_in_its_place_by_a_program_is_found(monkeypatch):
    """Such a module has no spec."""
    stand_in = ModuleType("torch")
    stand_in.__spec__ = None
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    assert torch_loader.found()


def test_torch_is_given_with_its_data_module_imported(monkeypatch):
    """`import torch` alone need not bring `torch.utils.data`."""
    names = ("torch", "torch.utils", "torch.utils.data")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert sys.modules["torch"] is torch_loader.find()
    monkeypatch.setitem(sys.modules, "torch.utils.data", None)
    with pytest.raises(ImportError):
        torch_loader.find()


def test_what_is_raised_for_a_batch_is_told_with_its_cause():
    """A thread's SystemExit comes as a WorkerError that only refers to it."""
    error = WorkerError("SystemExit was raised for sample 3; see its cause")
    error.add_note("a note")
    error.__cause__ = SystemExit("boom")
    told = "WorkerError: SystemExit was raised for sample 3; a note; its cause: SystemExit: boom"
    assert {"error": told} == _child._told(error)
    assert {"error": "ValueError: bad"} == _child._told(ValueError("bad"))


def test_a_plan_that_is_none_is_refused_before_anything_runs():
    with pytest.raises(ConfigError, match=r"plan: expected a bench\.Plan, got dict"):
        run({"batch_size": 4}, {"repeat": 1})
