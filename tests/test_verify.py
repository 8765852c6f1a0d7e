"""``threadloader verify``: what is the same passes, and of what is not the right cause is found.

The faults stand in `faults`. Longer than other files: from the runs to the command and its page
it is one thing, which most tests look at from the outside.
"""

import copy
import dataclasses
import functools
import importlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import faults
import numpy as np
import pytest
from conftest import our_threads
from faults import SAMPLES
from frameworks import framework
from hypothesis import given
from hypothesis import strategies as st
from ids import shown
from sweep import Interrupt, Sweep

from threadloader import (
    ConfigError,
    Loader,
    LoaderConfig,
    LoaderError,
    MaskTokens,
    WorkerError,
    cli,
    per_thread,
    verify,
)
from threadloader.fingerprint import chained, digest
from threadloader.sizes import nbytes
from threadloader.verify import (
    Plan,
    VerifyError,
    _case,
    _cause_texts,
    _causes,
    _parts,
    _probe,
    _process,
    _progress,
    _record,
    _report,
    _run,
    _stress,
)
from threadloader.verify._compare import differing
from threadloader.verify._plan import Leg, runs
from threadloader.verify._probe import overwritten, repeated
from threadloader.verify._progress import Progress
from threadloader.verify._record import told
from threadloader.verify._result import result
from threadloader.verify._stress import stressed

DOCUMENT = (Path(__file__).parent.parent / "docs" / "verify.md").read_text(encoding="utf-8")
CONFIG = {"batch_size": 4, "seed": 5}


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """Fails a test that leaves the clock stopped or threads in a hurry; experiments are short."""
    # On a slow machine it would leave out batches, and say so.
    monkeypatch.setattr(_record, "BUDGET_SECONDS", float("inf"))
    monkeypatch.setattr(_stress, "SECONDS", 0.3)
    monkeypatch.setattr(_causes, "STRESS_SECONDS", 0.3)
    monkeypatch.setattr(_causes, "GLANCE_SECONDS", 0.02)
    monkeypatch.setattr(_causes, "ALONE_SECONDS", 0.05)
    clock, interval = time.time, sys.getswitchinterval()
    yield
    assert (clock, interval) == (time.time, sys.getswitchinterval())


def report_of(source=faults.Source, config=CONFIG, **given):
    return verify.run(config, source=source, **given)


def found(report):
    """The part and the kind of each cause."""
    return [(cause.part, cause.kind) for cause in report.causes]


# What is to blame is found.

FAULTS = [
    # source, transform, collate; the cause; what its sentences must name
    (None, faults.global_numpy, None, "transform global-random", "numpy.random"),
    (None, faults.global_random, None, "transform global-random", "the module random"),
    (None, faults.clock, None, "transform clock", "with the clock stopped"),
    (None, faults.of_the_date, None, "transform clock", "with the clock stopped"),
    (None, faults.imported_clock, None, "transform clock", "with the clock stopped"),
    (None, faults.counter, None, "transform own-state", "(calls)"),
    (None, faults.Augment, None, "transform own-state", "(Augment.draws)"),
    (None, faults.closed_over, None, "transform own-state", "(draws)"),
    (None, faults.of_the_system, None, "transform not-repeatable", "a generator without a seed"),
    (None, faults.of_its_address, None, "transform not-repeatable", "its address, id()"),
    (None, faults.never_filled, None, "transform not-repeatable", "that was never filled"),
    (None, faults.half_filled, None, "transform not-repeatable", "that was never filled"),
    (None, faults.Scratch, None, "transform not-thread-safe", "with a lock around "),
    (None, faults.HandedOut, None, "transform reused-buffer", "what transform"),
    (None, faults.Seeding, None, "transform global-random", "called in 8 threads at once"),
    (faults.Kept, faults.in_place, None, "transform in-place", "after the transform had run"),
    (faults.SharedHandle, None, None, "source not-thread-safe", "per_thread(open_it)"),
    (faults.FailingHandle, None, None, "source not-thread-safe", "with a lock around "),
    (faults.Batched, None, None, "source not-thread-safe", "with a lock around "),
    (faults.Buffered, None, None, "source reused-buffer", "overwritten by the next call"),
    (faults.Counting, None, None, "source own-state", "(Counting.reads)"),
    (faults.CountingEach, None, None, "source own-state", "(CountingEach.reads)"),
    (faults.Random, None, None, "source global-random", "the module random"),
    (faults.Drawn, None, None, "source reopened", "opened a second time, source"),
    (faults.Growing, None, None, "source reopened", "its length was another one"),
    (faults.Renamed, None, None, "source reopened", "its fingerprint was another one"),
    (faults.BoundToThread, None, None, "source other-thread", "raised RuntimeError in a new"),
    (None, None, faults.shuffled, "collate global-random", "the module random"),
    (None, None, faults.Numbered, "collate own-state", "(Numbered.number)"),
    (None, None, faults.OneBatch, "collate reused-buffer", "several batches are ready"),
    (None, None, faults.SharedRows, "collate not-thread-safe", "with a lock around "),
]


def made(thing):
    """A new object of a class or of a factory; a function of samples as it is."""
    factory = isinstance(thing, type) or thing is faults.closed_over
    return thing() if factory else thing


@pytest.mark.parametrize(
    ("source", "transform", "collate", "cause", "says"),
    FAULTS,
    ids=lambda it: getattr(it, "__name__", "") if it is None or callable(it) else "",
)
def test_each_fault_is_found_with_its_cause(source, transform, collate, cause, says):
    """Whatever run shows it first; and the report says so in words, with the evidence."""
    report = report_of(source or faults.Source, transform=made(transform), collate=made(collate))
    assert [tuple(cause.split())] == found(report)
    text = re.sub(r"\s+", " ", str(report))
    assert says in text
    # Memory that is written again is wrong in every run; whether it differs is up to the threads.
    assert re.match("the config: (DIFFERS from num_workers 0: |UNSAFE: the same )", text)
    assert " shown by: " in text
    assert " what to do: " in text


def test_what_source_and_transform_share_is_found_by_one_lock_around_both(monkeypatch):
    """Each is safe by itself; whole runs differ unless one lock is around both."""
    monkeypatch.setattr(_causes, "TRIES", 1)
    shared = faults.TwoLocks()
    report = report_of(lambda: shared, transform=shared.change)
    assert [("", "not-thread-safe")] == found(report)
    assert "the source and the transform share something" in report.causes[0].says
    assert "around the source and the transform, 0 of 1" in report.causes[0].evidence[0]


def test_a_lock_around_whole_runs_shows_what_calls_alone_do_not():
    """Samples that cannot be compared: only the batches made of them tell, under a lock."""
    handle = faults.SharedHandle

    class Opaque(handle):
        def __getitem__(self, index):
            return Box(super().__getitem__(index))

    report = report_of(Opaque, collate=unpacked)
    assert [("source", "not-thread-safe")] == found(report)
    assert "with a lock around the source, 0 of 3" in report.causes[0].evidence[0]


@pytest.mark.parametrize("guarded", ["source", "transform", "collate"])
def test_a_lock_around_a_part_changes_no_batch(guarded):
    """Not even those of a transform that gives other samples one by one than by its `many`."""
    hides = MaskTokens(vocabulary=100, mask_token=99)
    case = _case.Case(
        LoaderConfig(batch_size=4),
        Path(),
        lambda: [np.arange(8) + n for n in range(8)],
        hides,
        list,
    )
    made = []
    for names in ((), (guarded,)):
        with case.batches(Leg(0, 1), names) as batches:
            made.append(list(batches))
    assert digest(made[0]) == digest(made[1])


def test_a_lock_around_the_collate_is_tried_where_calls_alone_show_nothing(monkeypatch):
    """The runs differ, and not with the lock."""
    monkeypatch.setattr(_causes, "_in_threads", lambda *looked_at: iter(()))
    report = report_of(collate=faults.SharedRows())
    assert [("collate", "not-thread-safe")] == found(report)
    assert "with a lock around the collate, 0 of 3" in report.causes[0].evidence[0]


class Box:
    """What no fingerprint can be taken of."""

    def __init__(self, values):
        self.values = values


def unpacked(boxes):
    return np.stack([box.values for box in boxes])


def test_what_does_not_come_again_is_not_explained():
    """A difference without a cause says what was tried, and blames nobody."""
    report = report_of(transform=faults.Once())
    assert [("", "unknown")] == found(report)
    assert ("not found", ("0 of 3 further runs with 8 workers differed",)) == (
        report.causes[0].says,
        report.causes[0].evidence,
    )


def test_a_context_that_only_the_main_thread_has_is_found():
    """Workers begin with an empty context; the transform looks for what the main thread set."""
    token = faults.scale.set(2.0)
    try:
        report = report_of(transform=faults.scaled)
    finally:
        faults.scale.reset(token)
    assert [("transform", "other-thread")] == found(report)
    assert "in another thread" in report.causes[0].says


def test_torch_random_numbers_are_global_state():
    """What torch's own generator gives is found by its name."""
    torch = framework("torch")
    report = report_of(transform=lambda sample: sample + torch.rand(1).numpy())
    assert [("transform", "global-random")] == found(report)
    assert "the global random state of torch" in report.causes[0].says


@pytest.mark.parametrize("collate", [None, faults.stacked])
def test_samples_that_fail_at_random_and_are_left_out_are_not_blamed_on_the_order(collate):
    """Other samples come, since others fail. What makes them fail is the cause."""
    config = {**CONFIG, "on_error": {"skip": 10**6}}
    report = report_of(config=config, transform=faults.flaky, collate=collate)
    assert [("transform", "global-random")] == found(report)


def test_a_sample_that_is_left_out_in_a_worker_alone_is_looked_at():
    """It is told beside the dataset indices that came."""
    config = {**CONFIG, "on_error": {"skip": 9}}
    report = report_of(config=config, transform=faults.bad_in_a_thread)
    assert ("order", [("transform", "other-thread")]) == (report.difference.kind, found(report))
    assert report.difference.what.endswith("; left out 5")
    assert "transform(source[5]) raised ValueError in a new thread" in report.causes[0].evidence


def test_another_order_where_samples_are_left_out_may_still_be_that_of_the_source():
    """Another length, another order, whatever fails."""
    config = {**CONFIG, "on_error": {"skip": 9}}
    assert [("source", "reopened")] == found(report_of(faults.Growing, config))


# Another process.


@pytest.mark.parametrize(
    ("name", "cause", "says"),
    [
        ("transform hashed", "transform", "depends on how str are hashed"),
        ("transform set_order", "transform", "the same in a second one with the same PYTHONHASHSE"),
        ("transform drawn_once", "transform", "depends on what each process draws, or has, for it"),
        ("source ordered_by_hash", "source", "sorted(...) of a set before its order counts"),
        ("source NamedByHash", "source", "the source's fingerprint gave something else in another"),
        (
            "sampler by_hash",
            "sampler",
            "the order of epochs 0 and 1 gave something else in another",
        ),
    ],
)
def test_what_is_the_same_in_one_process_alone_is_found_by_another_one(name, cause, says):
    """All runs here are the same, and that which goes on in another process is not."""
    part, function = name.split()
    given = {"source": faults.Source, part: getattr(faults, function)}
    names = {"source": "faults:Source", part: f"faults:{function}"}
    report = verify.run(CONFIG, **given, names=names)
    assert [(cause, "other-process")] == found(report)
    assert [True] * 8 + [False] == [same for _, same in report.runs]
    assert report.difference.run.endswith(", in another process")
    assert says in re.sub(r"\s+", " ", str(report))


@pytest.mark.parametrize("transform", [faults.bad_sample, faults.noisy])
def test_what_is_honest_is_the_same_in_another_process(transform):
    """Samples that fail alike there, and what is drawn from `rng`, too."""
    names = {"source": "faults:Source", "transform": f"faults:{transform.__name__}"}
    report = report_of(transform=transform, names=names)
    assert (None, 9) == (report.difference, len(report.runs))
    assert {True} == {same for _, same in report.runs}


def test_one_batch_is_made_anew_in_another_process():
    """There is no state behind it to go on from."""
    config, names = {"batch_size": SAMPLES}, {"source": "faults:Source"}
    report = report_of(config=config, plan=Plan(epochs=1), names=names)
    assert ("num_workers 0, in another process", True) == (
        str(report.runs[-1][0]),
        report.runs[-1][1],
    )


def test_what_one_process_shows_is_not_blamed_on_the_other(monkeypatch):
    """All runs here were the same by chance; the cause is found here."""
    monkeypatch.setattr(_run, "compared", lambda *run: (None, []))
    names = {"source": "faults:Source", "transform": "faults:of_the_system"}
    report = report_of(transform=faults.of_the_system, names=names)
    assert [("transform", "not-repeatable")] == found(report)


def test_a_process_that_ends_without_a_word_is_not_compared(monkeypatch):
    """It is said, with its last words; the other runs stand."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    source = faults.of_the_main_process
    report = report_of(source, names={"source": "faults:of_the_main_process"})
    assert ("same", 8) == (report.result, len(report.runs))
    assert ("another process: the process ended with code 3: not here",) == report.not_compared


def test_a_process_that_cannot_be_started_is_not_compared(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    report = report_of(names={"source": "faults:Source"})
    assert "same" == report.result
    (said,) = report.not_compared
    assert said.startswith("another process: it could not be started: ")


def test_a_bundle_starts_no_process_and_says_so(monkeypatch):
    """As of PyInstaller: what looks like its Python is the program itself."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    (said,) = report_of(names={"source": "faults:Source"}).not_compared
    assert "could not be started" in said
    assert "a bundle, with no Python to start" in said


def test_a_run_for_which_the_system_has_no_threads_is_not_compared(monkeypatch):
    """No batch of it differs: nothing is at fault in source or transform."""
    real = threading.Thread.start

    def start(self):
        if self.name == "threadloader-worker-5":
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    report = report_of(faults.Source)
    assert ("same", ()) == (report.result, report.causes)
    assert any("num_workers 8" in it and "no more threads" in it for it in report.not_compared)


def test_where_gevent_has_replaced_threads_the_runs_with_workers_are_not_compared(monkeypatch):
    """Nothing is at fault in source or transform; what to do is said with each."""
    gevent = SimpleNamespace(is_module_patched={"threading"}.__contains__)
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    report = report_of(faults.Source)
    assert ("same", ()) == (report.result, report.causes)
    assert any("num_workers 8" in it and "queue=False" in it for it in report.not_compared)


def test_without_a_folder_for_temporary_files_another_process_is_not_compared(monkeypatch):
    """As in a container of which nothing can be written."""

    def refused():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    report = report_of(names={"source": "faults:Source"})
    (said,) = report.not_compared
    assert ("same", True) == (report.result, "No usable temporary directory" in said)


def test_what_fails_in_another_process_alone_is_a_difference_of_the_run():
    """The name says something else than what was given here."""
    report = report_of(names={"source": "faults:bad_sample"})
    assert ("run", [("", "other-process")]) == (report.difference.kind, found(report))
    assert report.difference.what.startswith("--source: TypeError: ")


@pytest.mark.parametrize("names", [{}, {"source": "x"}, {"source": "x", "transfrom": "y"}], ids=str)
def test_names_are_of_the_parts_that_are_given_and_of_no_others(names):
    """The other process would leave one out, and be said to differ."""
    with pytest.raises(ConfigError) as raised:
        report_of(transform=faults.noisy, names=names)
    (problem,) = raised.value.problems
    expected = "a name of each part that is given in code, ['source', 'transform']"
    assert ("names", expected, str(list(names))) == problem[:3]


def test_a_part_that_is_named_and_not_given_is_refused():
    """Here the config's would run, and there the one that is named."""
    names = {"source": "faults:Source", "transform": "faults:noisy"}
    with pytest.raises(ConfigError, match="names: expected a name of each part"):
        report_of(names=names)


def test_a_name_that_is_not_there_is_told_before_the_first_run():
    """Not as a difference between processes."""
    opened = []
    said = r"names\['source'\]: expected MODULE:FUNCTION, .+ got faults:Sauce"
    with pytest.raises(LoaderError, match=said):
        report_of(lambda: opened.append(1), names={"source": "faults:Sauce"})
    assert [] == opened


@pytest.mark.parametrize("name", ["__main__:Source", 3])
def test_a_name_that_another_process_cannot_know_is_refused(name, monkeypatch):
    """That of the program itself is found here, and is another program there."""
    monkeypatch.setattr(sys.modules["__main__"], "Source", faults.Source, raising=False)
    with pytest.raises(ConfigError) as raised:
        report_of(names={"source": name})
    (problem,) = raised.value.problems
    expected = '"module:function" by which another process finds it'
    assert ("names['source']", expected, repr(name)) == problem[:3]


def test_a_source_that_is_no_function_is_told_as_that_and_beside_wrong_names():
    with pytest.raises(ConfigError) as raised:
        report_of(np.arange(20), names={})
    first, second = raised.value.problems
    assert ("source", "a function that opens it", "ndarray") == first[:3]
    assert "names" == second.pointer


def test_a_part_is_not_named_where_experiments_fail_or_show_nothing(monkeypatch):
    case = _case.Case(LoaderConfig(), Path(), faults.Source)
    process = _process.Process(case, Path(), {"source": "faults:Source"})
    cause = process.cause([1, 2])
    shown = ("no call of one part by itself gave something else there",)
    assert ("", shown) == (cause.part, cause.evidence)
    monkeypatch.setattr(process, "_ask", lost)
    assert ("it is gone",) == process.cause([1]).evidence
    monkeypatch.setattr(_process, "results", failing)
    assert ("the experiments themselves failed: OSError: no memory",) == process.cause([1]).evidence


def lost(*arguments):
    raise _process.LostError("it is gone")


def test_what_a_process_has_kept_from_before_is_told_from_how_it_hashes(monkeypatch):
    """Other processes give the same as each other, however they hash."""
    monkeypatch.setattr(faults, "calls", 7)
    case = _case.Case(LoaderConfig(), Path(), faults.Source, faults.of_earlier_calls)
    names = {"source": "faults:Source", "transform": "faults:of_earlier_calls"}
    cause = _process.Process(case, Path(), names).cause([3])
    assert ("transform", "other-process") == (cause.part, cause.kind)
    assert "something that the process has kept from before" in cause.says


def test_what_has_changed_here_since_is_not_blamed_on_the_other_process(monkeypatch):
    """As by a clock of whole seconds, which goes on until the other process has begun."""
    clock = map(str, itertools.count())

    def anew(*asked):
        return {"source": {}, "transform": {"transform(source[3])": next(clock)}}

    monkeypatch.setattr(_process, "results", anew)
    case = _case.Case(LoaderConfig(), Path(), faults.Source, faults.noisy)
    process = _process.Process(case, Path(), {})
    monkeypatch.setattr(process, "_ask", lambda *asked: {"results": anew()})
    cause = process.cause([3])
    assert ("transform", "not-repeatable") == (cause.part, cause.kind)


@pytest.mark.parametrize(
    ("alone", "locked", "kind"),
    [(0, 0, "not-thread-safe"), (0, 2, "other-thread"), (2, 0, "not-repeatable")],
)
def test_threads_are_blamed_where_one_alone_is_right_and_a_lock_helps(
    monkeypatch, alone, locked, kind
):
    """What a clock of whole seconds does to the calls in several threads is no race."""

    def stressed(calls, seconds, *, lock=False, count=8):
        return _stress.Stress(100, alone if count == 1 else locked if lock else 3)

    monkeypatch.setattr(_causes, "stressed", stressed)
    case = _case.Case(LoaderConfig(), Path(), faults.Source)
    shown, _ = _causes.faults(case, [0, 1])
    assert [("source", kind)] == [(cause.part, cause.kind) for cause in shown]


def test_threads_are_not_blamed_for_what_differs_without_them():
    """What depends on where its sample lies in memory; a lock was advised."""

    def by_address(sample):
        return sample + (sample.__array_interface__["data"][0] >> 4) % 8

    rows = np.arange(256.0).reshape(64, 4)
    report = verify.run(CONFIG, source=lambda: [row.copy() for row in rows], transform=by_address)
    assert "differs" == report.result
    assert {"not-thread-safe", "other-thread"}.isdisjoint(cause.kind for cause in report.causes)


def test_calls_are_made_in_as_many_threads_as_are_asked_for():
    threads = set()
    stressed([lambda: threads.add(threading.get_ident())], 0.1, count=1)
    assert 1 == len(threads - {threading.get_ident()})


LEAVING = """
import os, socket, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor
import numpy as np

def connect(port):
    global line
    line = socket.create_connection(("127.0.0.1", port))

def wait(port):
    connect(port)
    line.recv(1)

def leaves(what):
    port = int(os.environ["WAITED_FOR"])
    if what == "thread":
        threading.Thread(target=wait, args=[port]).start()
    elif what == "pool":
        global pool
        pool = ProcessPoolExecutor(1)
        pool.submit(connect, port).result()
    else:
        code = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"
        subprocess.Popen([sys.executable, "-c", code])
    return np.arange(8.0)

def thread():
    return leaves("thread")

def process():
    return leaves("process")

def pool_of_one():
    return leaves("pool")
"""


def leaving(what, folder, monkeypatch):
    """Other processes, in which the source leaves something."""
    (folder / "leaving.py").write_text(LEAVING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    case = _case.Case(LoaderConfig(), Path())
    return _process.Process(case, Path(), {"source": f"leaving:{what}"})


def test_a_process_that_waits_for_work_from_another_process_is_ended(tmp_path, monkeypatch):
    """That of a pool, which would learn from nobody that there is no more of it."""
    asked = leaving("pool_of_one", tmp_path, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WAITED_FOR", f"{server.getsockname()[1]}")
        assert {"source"} == set(asked._ask({"indices": [3]}, "1")["results"])
        line, _ = server.accept()
    with line:
        line.settimeout(30)
        assert b"" == line.recv(1)  # closed, since the process that held it has ended


@pytest.mark.parametrize("what", ["thread", "process"])
def test_what_user_code_has_left_in_another_process_is_not_waited_for(what, tmp_path, monkeypatch):
    """A thread, which ends with its process; a process, which has its stderr and goes on."""
    asked = leaving(what, tmp_path, monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("WAITED_FOR", f"{server.getsockname()[1]}")
        given_up = threading.Event()

        def give_up():
            given_up.set()
            server.close()

        # Whoever waits for it all the same goes on, and is seen.
        late = threading.Timer(60, give_up)
        late.start()
        try:
            answer = asked._ask({"indices": [3]}, "1")
            waited = given_up.is_set()
        finally:
            late.cancel()
            late.join()
    assert not waited
    assert {"source"} == set(answer["results"])


def test_what_user_code_has_left_in_the_command_itself_is_not_waited_for(tmp_path, run_child):
    """Its exit code is that of the answer."""
    (tmp_path / "mine.py").write_text(
        "import threading\n"
        "def source():\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    return list(range(8))\n",
        encoding="utf-8",
    )
    (tmp_path / "c.json").write_text('{"batch_size": 4}', encoding="utf-8")
    arguments = ["verify", str(tmp_path / "c.json"), "--source", "mine:source"]
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[1:] = {arguments!r}\n"
        "from threadloader.cli import program\n"
        "program()\n"
    )
    child = run_child(code)
    assert 0 == child.returncode, child.stderr
    assert "c.json: OK: the same 4 batches" in child.stdout


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system has no /dev/fd")
def test_a_config_may_come_through_a_pipe(capsys):
    """Which can be read once."""
    reading, writing = os.pipe()
    os.write(writing, b'{"batch_size": 4}')
    os.close(writing)
    code = cli.main(["verify", f"/dev/fd/{reading}", "--source", "faults:Source"])
    os.close(reading)
    told = capsys.readouterr()
    assert 0 == code, told
    assert told.out.startswith(f"/dev/fd/{reading}: OK: the same ")


# What every run has.


def test_a_fault_that_every_run_has_is_found_all_the_same(monkeypatch):
    """One buffer for all rows may be wrong in the same way in all runs. That is not OK."""
    monkeypatch.setattr(_run, "compared", lambda *run: (None, []))
    report = report_of(faults.Buffered)
    assert ("unsafe", [("source", "reused-buffer")]) == (report.result, found(report))
    assert str(report).startswith("the config: UNSAFE: the same 12 batches of 2 epochs, ")


def test_a_race_that_came_in_no_run_is_found_all_the_same(monkeypatch):
    """Calls in several threads are tried even where all runs were the same."""
    monkeypatch.setattr(_run, "compared", lambda *run: (None, []))
    monkeypatch.setattr(_causes, "GLANCE_SECONDS", 0.3)
    report = report_of(faults.SharedHandle)
    assert ("unsafe", [("source", "not-thread-safe")]) == (report.result, found(report))


def test_what_differs_only_after_a_resume_is_seen(monkeypatch):
    """A source that counts the reads of each sample: only a run that begins anew differs.

    (One batch ahead: else samples of two epochs are read at the same time.)
    """
    monkeypatch.setattr(_run, "AHEAD_BYTES", 0)
    report = report_of(faults.CountingEach, {**CONFIG, "prefetch_batches": 1})
    assert "resumed with" in report.difference.run
    assert {True: False, False: True} == {len(run.legs) > 1: same for run, same in report.runs}
    assert [("source", "own-state")] == found(report)


def test_a_race_is_not_seen_without_a_second_worker():
    """What was the same is said too: the runs with at most one worker."""
    report = report_of(faults.SharedHandle)
    alone = [same for run, same in report.runs if max(leg.workers for leg in run.legs) < 2]
    assert [True, True] == alone
    assert not all(same for _, same in report.runs)


# Samples that fail, and dangers.


def test_a_sample_that_fails_in_every_run_is_an_error_and_no_difference():
    report = report_of(transform=faults.bad_sample)
    assert ("errors", None, ()) == (report.result, report.difference, report.causes)
    assert (0, 5) in {(failure.epoch, failure.step) for failure in report.failures}  # a cut's place
    assert [0, 1] == [failure.epoch for failure in report.failures]
    for failure in report.failures:
        assert failure.error.startswith("ValueError: bad sample; threadloader: raised for sample 5")
    text = str(report)
    assert "ERRORS: 12 batches of 2 epochs, 40 samples, in 9 runs, " in text
    assert ": 2 batches cannot be made, in every run alike\n" in text


@pytest.mark.parametrize("collate", [None, faults.stacked])
def test_a_failing_sample_does_not_hide_a_difference(collate):
    """Some batches fail in all runs, others differ: both are told."""

    def both(sample):
        return faults.bad_sample(sample) + random.random()

    report = report_of(transform=both, collate=collate)
    assert ("differs", 2) == (report.result, len(report.failures))
    assert [("transform", "global-random")] == found(report)


def test_where_every_batch_fails_the_parts_are_looked_at_all_the_same():
    """Nothing came that names samples; the errors do."""

    def odd(sample):
        random.random()
        return 1 / (int(sample) % 2)

    def now_and_then(sample):
        return 1 / (random.random() > 0.3)

    report = verify.run({"batch_size": 8}, source=lambda: list(range(32)), transform=odd)
    assert ("errors", 0) == (report.result, report.samples)
    assert [("transform", "global-random")] == [(it.part, it.kind) for it in report.dangers]
    config = {"batch_size": 64, "num_workers": 0}
    report = verify.run(config, source=lambda: list(range(128)), transform=now_and_then)
    assert ("differs", 0) == (report.result, report.samples)
    assert [("transform", "global-random")] == found(report)


@pytest.mark.parametrize(
    "text",
    [
        "raised for sample 3, as a wrapper of another loader says",
        "KeyError was raised for sample 3 (row 0)",
        "bad; threadloader: raised for sample 3 (row 0)",
        "bad\nWorkerError: KeyError was raised for sample 3 (row 0)",
    ],
)
@pytest.mark.parametrize("kind", [ValueError, WorkerError])
def test_where_every_batch_fails_no_sample_is_read_that_is_left_out(kind, text):
    """Whatever the user's own error says."""
    read = []

    def broken(sample):
        read.append(int(sample))
        raise kind(text)

    config = {"batch_size": 8, "exclude": list(range(16))}
    verify.run(config, source=lambda: list(range(32)), transform=broken)
    assert min(read) >= 16


@pytest.mark.parametrize("digits", [25, 5000])
def test_an_error_that_names_what_is_no_sample_is_none_of_verify_s_own(digits):
    def broken(sample):
        raise ValueError(f"raised for sample {'9' * digits}")

    report = verify.run({"batch_size": 8}, source=lambda: list(range(32)), transform=broken)
    assert ("errors", 0) == (report.result, report.samples)


@pytest.mark.parametrize("kind", [ValueError, StopIteration])
def test_where_every_collate_fails_it_is_looked_at_with_the_samples_that_the_errors_name(kind):
    """In a note, or where the error would be taken for an end, in that which wraps it."""

    def collate(samples):
        random.random()
        assert min(samples) >= 16
        raise kind

    config = {"batch_size": 8, "exclude": list(range(16))}
    report = verify.run(config, source=lambda: list(range(32)), collate=collate)
    assert [("collate", "global-random")] == [(it.part, it.kind) for it in report.dangers]


@pytest.mark.parametrize("part", ["source", "transform"])
def test_what_fails_now_and_then_and_is_tried_again_is_no_danger(part):
    """It came the same in all runs, and was called not repeatable, as it had raised."""
    asked = itertools.count()

    def now_and_then(sample):
        if not next(asked) % 3:
            raise OSError("not now")
        return sample

    class Storage(list):
        def __getitem__(self, index):
            return now_and_then(super().__getitem__(index))

    given = {"source": lambda: Storage(range(40))}
    if part == "transform":
        given = {"source": lambda: list(range(40)), "transform": now_and_then}
    report = verify.run({**CONFIG, "on_error": {"retry": 9, "backoff": 0}}, **given)
    assert ("same", ()) == (report.result, report.dangers)


def test_what_a_signal_handler_raises_in_a_call_that_is_tried_again_passes(rung):
    calls = []

    def call():
        calls.append(1)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(TimeoutError):
        _parts.again(2, call)
    assert [1] == calls


def test_a_batch_for_which_the_loop_is_told_to_wait_on_is_no_difference():
    """A `StalledError` took the place of a batch, and all that followed had moved."""
    config = {**CONFIG, "stall_seconds": 0.01, "stall_action": "raise"}

    def slow(sample):
        time.sleep(0.02)
        return sample

    report = verify.run(config, source=lambda: list(range(12)), transform=slow)
    assert ("same", ()) == (report.result, report.causes)


class Once(list):
    """A source that a process may have open once only."""

    opened = 0

    def __init__(self):
        if Once.opened:
            raise OSError("already open in this process")
        Once.opened += 1
        super().__init__(range(40))

    def close(self):
        Once.opened -= 1


def test_a_source_that_may_be_open_once_only_is_closed_before_it_is_opened_again():
    """As an environment of LMDB; it was called different."""
    assert "same" == verify.run(CONFIG, source=Once).result
    assert 0 == Once.opened


def test_an_error_that_comes_only_with_workers_is_a_difference():
    report = report_of(faults.BoundToThread)
    assert "error" == report.difference.kind
    assert report.difference.what.startswith("expected a batch, got RuntimeError: used in another")


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"transform": faults.careless}, "transform"),
        ({"transform": faults.seeding_alone}, "transform"),
        ({"collate": lambda samples: (random.random(), faults.stacked(samples))[1]}, "collate"),
    ],
)
def test_use_of_global_random_state_is_a_danger_even_if_nothing_differs(given, part):
    """It is said, with what to do; the batches are the same, and so it is no failure."""
    report = report_of(**given)
    assert ("same", ()) == (report.result, report.causes)
    assert [(part, "global-random")] == [(it.part, it.kind) for it in report.dangers]
    assert "  a danger: the " + part in str(report)


def test_a_change_in_place_that_changes_nothing_more_is_a_danger():
    """The second time it gives what it gave the first time, so no batch differs."""
    report = report_of(faults.Kept, transform=faults.once_in_place)
    assert ("same", [("transform", "in-place")]) == (
        report.result,
        [(it.part, it.kind) for it in report.dangers],
    )


# What is honest passes.


def tokens(sample):
    return {"tokens": np.frombuffer(sample.encode(), np.uint8).astype(np.int64)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with data."""
    np.savez(tmp_path / "x.npz", x=np.arange(60.0).reshape(30, 2), y=np.arange(30))
    lines = "".join(f"{'word ' * (n % 5)}{n}\n" for n in range(30))
    (tmp_path / "x.txt").write_text(lines, encoding="utf-8")
    np.arange(400, dtype="<u2").tofile(tmp_path / "x.bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


NPZ = {"type": "npz", "path": "x.npz"}
TEXT = {"type": "text", "path": "x.txt"}
TOKENS = {"type": "tokens", "path": "x.bin", "dtype": "uint16", "window": 16}
MLM = {"type": "mlm", "vocabulary": 400, "mask_token": 1}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of a status")
def test_a_file_whose_status_changes_alone_is_no_cause(folder):
    """As by a chmod, or where it is read through a database that looks after its log."""

    def transform(sample):
        (folder / "x.txt").chmod(0o600 if (folder / "x.txt").stat().st_mode & 0o7 else 0o644)
        return faults.counter(np.array([len(sample)]))

    report = verify.run({"source": TEXT}, transform=transform)
    assert "files-changed" not in {cause.kind for cause in report.causes}
    assert report.causes


def test_what_a_signal_handler_raises_while_files_are_looked_at_passes(folder, monkeypatch, rung):
    def looks(*args, **options):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(_case, "stamp", looks)
    with pytest.raises(TimeoutError, match="rung"):
        verify.run({"source": TEXT}, transform=len)


@pytest.mark.parametrize("gone", [False, True])
def test_files_that_are_written_to_meanwhile_are_the_cause(folder, gone):
    """Whatever the experiments would find in them now."""
    main = threading.current_thread()

    def transform(sample):
        if threading.current_thread() is not main:
            (folder / "x.txt").write_text("other\n" * 10, encoding="utf-8")
            if gone:
                (folder / "x.txt").unlink()
        return len(sample)

    report = verify.run({"source": TEXT}, transform=transform)
    assert ("differs", [("source", "files-changed")]) == (report.result, found(report))
    assert "when nobody writes to them" in report.causes[0].advice


@pytest.mark.parametrize(
    ("config", "given"),
    [
        ({"source": NPZ}, {}),
        ({"source": NPZ, "shuffle": False, "drop_last": True}, {}),
        ({"source": NPZ, "shard": {"index": 1, "count": 4, "remainder": "pad"}}, {}),
        ({"source": NPZ, "shard": {"index": 2, "count": 4, "remainder": "keep"}}, {}),
        ({"source": TEXT, "collate": {"type": "pad"}}, {"transform": tokens}),
        ({"source": TOKENS}, {}),
        ({"source": TOKENS, "transform": MLM}, {}),
        ({"num_workers": 5, "prefetch_batches": 2}, {"source": faults.Source}),
        ({}, {"source": faults.Source, "transform": faults.noisy}),
        ({}, {"source": faults.Source, "collate": faults.stacked}),
        ({}, {"source": faults.rows}),
        ({}, {"source": lambda: {"x": faults.rows(), "y": np.arange(SAMPLES)}}),
        ({}, {"source": lambda: per_thread(faults.SharedHandle)}),
        ({}, {"source": faults.Kept, "transform": lambda sample: sample + 1}),
        ({}, {"source": lambda: [f"{n}" for n in range(9)]}),
    ],
    ids=shown,
)
def test_what_is_honest_is_the_same(folder, config, given):
    """In every run, with nothing to warn of; and the epochs are whole."""
    report = verify.run({"batch_size": 4, **config}, **given)
    assert ("same", (), ()) == (report.result, report.dangers, report.failures)
    assert all(same for _, same in report.runs)
    assert report.steps == report.of_epoch


def test_a_cache_of_the_config_hides_nothing_and_stays_as_it_is(folder):
    """Else the first run would fill it, and all others be given what that one has kept."""
    config = {"source": NPZ, "batch_size": 4, "cache": {"folder": "kept"}}
    numbers = itertools.count()
    report = verify.run(config, transform=lambda sample: sample["x"] + next(numbers))
    assert ("differs", [("transform", "own-state")]) == (report.result, found(report))
    assert not (folder / "kept").exists()


def test_a_collate_in_code_is_given_what_the_transform_of_the_config_makes(folder):
    """Samples as the source gives them would be none for it."""
    config = {"source": TOKENS, "transform": MLM, "batch_size": 4}

    def of_labels(samples):
        return faults.shuffled([sample["labels"] for sample in samples])

    assert [("collate", "global-random")] == found(verify.run(config, collate=of_labels))


# Where it differs.


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        (
            {"x": np.array([[1, 2], [3, 4], [5, 6]]), "y": np.array([7, 8, 9])},
            {"x": np.array([[1, 2], [3, 0], [0, 0]]), "y": np.array([7, 8, 9])},
            [
                (
                    "batch['x']",
                    "3 of 6 values differ, the first at [1, 1]: expected 4, got 0",
                    (1, 2),
                )
            ],
        ),
        (
            (np.array([0.0, 1.0, 2.0]), ["a", "b", "c"]),
            (np.array([-0.0, 1.0, 2.0]), ["a", "d", "c"]),
            [
                (
                    "batch[0]",
                    "1 of 3 values differs, the first at [0]: expected 0.0, got -0.0",
                    (0,),
                ),
                ("batch[1][1]", "expected 'b', got 'd'", (1,)),
            ],
        ),
        (
            np.zeros(3, np.float32),
            np.zeros((3, 1), np.float64),
            [("batch", "expected float32 (3,), got float64 (3, 1)", ())],
        ),
        ({"a": 1}, {"b": 1}, [("batch", "expected the keys ['a'], got ['b']", ())]),
        ([1, 2], [1], [("batch", "expected 2 items, got 1", ())]),
        ([1, 2], (1, 2), [("batch", "expected list, got tuple", ())]),
        ({"n": 3}, {"n": 4}, [("batch['n']", "expected 3, got 4", ())]),
        (
            np.array(1.5),
            np.array(2.5),
            [("batch", "1 of 1 values differs: expected 1.5, got 2.5", ())],
        ),
        (np.int64(1), np.array(1, np.int64), [("batch", "expected int64 (), got int64 ()", ())]),
        (
            np.array([None, "a", 1], object),
            np.array([None, "b", 1], object),
            [("batch", "object (3,), its values differ", (1,))],
        ),
        ([[1, 2], [3]], [[1, 2], [4]], [("batch[1][0]", "expected 3, got 4", ())]),
        (
            ["a" * 90] * 3,
            ["b"] * 3,
            [("batch[0]", f"expected '{'a' * 55} ..., got 'b'", (0, 1, 2))],
        ),
        (
            (["a", "b", "c"], ["r", "s", "t"], ["x", "y", "z"]),  # as many fields as rows
            (["a", "b", "c"], ["q", "s", "t"], ["x", "y", "z"]),
            [("batch[1][0]", "expected 'r', got 'q'", (0,))],
        ),
    ],
    ids=str,
)
def test_the_fields_and_rows_that_differ_are_named(there, here, expected):
    assert expected == [tuple(field) for field in differing(there, here, rows=3)]
    assert [] == differing(there, there, rows=3)


class Noted(dict):
    """A dict with an attribute."""

    def __init__(self, note):
        super().__init__(x=1)
        self.note = note


class Lines(list):
    """Texts, a row each, with an attribute."""

    def __init__(self, note):
        super().__init__("abc")
        self.note = note


@pytest.mark.parametrize(
    ("there", "here", "kind"),
    [
        ({"a": {1: 2}}, {"a": {True: 2}}, "dict"),
        ({"a": Noted(1)}, {"a": Noted(2)}, "Noted"),
        ({"a": Lines(1)}, {"a": Lines(2)}, "Lines"),
    ],
)
def test_what_differs_besides_items_is_told_where_it_is(there, here, kind):
    expected = f"the same items, but other keys or attributes of the {kind}"
    assert [("batch['a']", expected, ())] == [tuple(it) for it in differing(there, here, rows=3)]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long doubles have no unused bytes")
@pytest.mark.parametrize("kind", [np.longdouble, np.clongdouble])
def test_unused_bytes_of_long_doubles_are_no_difference(kind):
    there, here = np.ones(4, kind), np.ones(4, kind)
    here[2] = 2
    for values, byte in ((there, 0), (here, 255)):
        size = np.dtype(np.longdouble).itemsize
        values.view(np.uint8).reshape(-1, size)[:, 10:] = byte
    (field,) = differing(there, here, rows=4)
    assert (True, (2,)) == (field.what.startswith("1 of 4 values differs, the first"), field.rows)


def test_the_size_of_a_batch_is_that_of_what_it_holds():
    batch = {"x": np.zeros((2, 3), np.float32), "y": ["ab", b"c"], "z": (np.int64(1), 2)}
    texts = sys.getsizeof("ab") + sys.getsizeof(b"c")
    assert 24 + texts + 8 + 8 == nbytes(batch)


class OneWrong:
    """Sample 14 is another one for workers; it is in the fifth batch."""

    def __call__(self, sample):
        main = threading.current_thread() is threading.main_thread()
        return sample if main or sample[0] != 14 else sample + np.array([0, 0, 1, 0])


@pytest.mark.parametrize("kept", [True, False])
def test_the_first_difference_is_told_to_the_value(kept, monkeypatch):
    """Epoch, step, row, dataset index, value; also of a batch that is made anew to be compared."""
    if not kept:
        monkeypatch.setattr(_record, "KEPT_BYTES", 0)
    with Loader({**CONFIG, "num_workers": 0}, source=faults.rows()) as batches:
        info = next(batches.info for _ in batches if 14 in batches.info.indices)
    report = report_of(transform=OneWrong())
    row = info.indices.tolist().index(14)
    first = report.difference
    assert (0, 4, (row,), (14,)) == (first.epoch, first.step, first.rows, first.indices)
    assert f"the first at [{row}, 2]: expected 14.0, got 15.0" in first.what
    assert f"epoch 0, step 4, row {row} (dataset index 14)" in str(report)


def test_what_is_not_kept_and_not_repeatable_is_said_to_be_not_known(monkeypatch):
    monkeypatch.setattr(_record, "KEPT_BYTES", 0)
    report = report_of(transform=faults.global_random)
    assert report.difference.what.startswith("not known: ")
    assert [("transform", "global-random")] == found(report)


@pytest.mark.parametrize(
    ("first", "later", "epochs", "place", "what"),
    [
        (8, 4, 1, (0, 1), "expected a batch, got the end"),
        (4, 8, 1, (0, 1), "expected the end, got a batch"),
        (8, 4, 2, (1, 0), "expected epoch 0, step 1, got a batch"),
        (4, 8, 2, (0, 1), "expected epoch 1, step 0, got a batch"),
    ],
)
def test_a_run_with_other_steps_is_a_difference(first, later, epochs, place, what):
    """A source that has grown or shrunk since the first run."""
    lengths = itertools.chain([first], itertools.repeat(later))
    config = {**CONFIG, "shuffle": False}
    report = report_of(lambda: faults.rows()[: next(lengths)], config, plan=Plan(epochs=epochs))
    got = report.difference
    assert ("steps", *place, what) == (got.kind, got.epoch, got.step, got.what)


SHRUNK = """
import os

class Shrunk:
    def __init__(self):
        self.whole = os.environ.get("PYTHONHASHSEED", "").isdigit()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index > 5 and not self.whole:
            raise ValueError("bad")
        return float(index)
"""


def damaged_to_three(sample):
    if 0 < sample < 4:
        raise ValueError("damaged")
    return sample


@pytest.mark.parametrize("seed", range(4))
def test_what_a_cut_leaves_out_of_info_is_no_difference(seed):
    """The cut falls behind an exception that came after batches of which nothing was left."""
    config = {"batch_size": 1, "shuffle": False, "seed": seed, "on_error": {"skip": 2}}
    report = verify.run(config, source=lambda: np.arange(5), transform=damaged_to_three)
    assert "errors" == report.result


def test_a_failure_is_told_with_its_step_behind_batches_that_were_passed_over():
    def transform(sample):
        if sample == 5:
            raise SystemExit(1)
        return damaged_to_three(sample)

    config = {"batch_size": 1, "shuffle": False, "on_error": {"skip": 99}}
    report = verify.run(config, source=lambda: np.arange(8), transform=transform)
    assert [(0, 5), (1, 5)] == [(failure.epoch, failure.step) for failure in report.failures]
    assert all("of step 5," in failure.error for failure in report.failures)


def test_a_difference_is_told_with_its_step_behind_batches_that_were_passed_over():
    numbers = itertools.count()
    config = {"batch_size": 1, "shuffle": False, "on_error": {"skip": 99}}

    def transform(sample):
        damaged_to_three(sample)
        return np.array([next(numbers)]) if sample == 5 else np.array([0])

    report = verify.run(config, source=lambda: np.arange(8), transform=transform)
    assert ("differs", 0, 5) == (report.result, report.difference.epoch, report.difference.step)


SKIPPING = {"batch_size": 2, "shuffle": False, "on_error": {"skip": 99}}


def test_a_batch_that_is_left_out_in_the_first_run_alone_is_a_difference():
    """That run has fewer batches than an epoch should have, and all the same its end counts."""
    opened = itertools.count()

    class Mended(list):
        def __init__(self):
            super().__init__(range(8))
            self.last = 8 if next(opened) else 6

        def __getitem__(self, index):
            if index >= self.last:
                raise ValueError("bad")
            return float(index)

    report = report_of(Mended, SKIPPING, plan=Plan(epochs=1))
    got = report.difference
    assert ("steps", 0, 3, "expected the end, got a batch") == (
        *(got.kind, got.epoch, got.step, got.what),
    )


def test_a_batch_that_is_left_out_in_all_runs_but_that_of_another_process_is_seen(
    tmp_path, monkeypatch
):
    """It is told that the first run was made to its end."""
    (tmp_path / "shrunk.py").write_text(SHRUNK, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    source = importlib.import_module("shrunk").Shrunk
    report = report_of(source, SKIPPING, names={"source": "shrunk:Shrunk"}, plan=Plan(epochs=1))
    assert [True] * (len(report.runs) - 1) + [False] == [same for _, same in report.runs]
    assert (0, 3, "expected the end, got a batch") == (
        *(report.difference.epoch, report.difference.step, report.difference.what),
    )


@pytest.mark.parametrize("plan", [Plan(), Plan(batches=99), Plan(batches=4)], ids=str)
def test_where_batches_are_left_out_epochs_are_compared_to_their_end(plan):
    """There are three of four; nothing that could come was not compared."""

    def bad(sample):
        if sample[0] < 2:
            raise ValueError("bad")
        return sample

    report = report_of(lambda: faults.rows()[:8], SKIPPING, transform=bad, plan=plan)
    assert ("same", 3, 4, 6) == (report.result, report.steps, report.of_epoch, report.batches)
    assert () == report.not_compared
    assert 2 == sum(len(run.legs) > 1 for run, _ in report.runs)


def test_other_indices_are_a_difference_of_the_order():
    """Another length, another order; if it grows with each opening, that is the cause."""
    report = report_of(faults.Growing)
    assert ("order", [("source", "reopened")]) == (report.difference.kind, found(report))
    lengths = itertools.chain([SAMPLES], itertools.repeat(SAMPLES // 2))
    report = report_of(lambda: list(range(next(lengths))))
    assert ("order", [("", "unknown")]) == (report.difference.kind, found(report))
    assert "it may be a fault of threadloader" in report.causes[0].says


@pytest.mark.parametrize(
    ("sampler", "kind", "says"),
    [
        (faults.permuted, "global-random", "with that put back before each call, it gave the same"),
        (faults.permuted_later, "global-random", "the order of epochs 0 and 1 gave something else"),
        (faults.OneGenerator, "own-state", "(OneGenerator.generator)"),
        (faults.of_main_thread, "other-thread", "gives something else in another thread"),
        (faults.TurnedOnce, "unknown", "which the sampler decides; asked for epochs 0 and 1"),
    ],
    ids=["permuted", "permuted later", "one generator", "of the main thread", "turned once"],
)
def test_a_sampler_in_code_that_gives_another_order_is_found_with_its_cause(sampler, kind, says):
    report = report_of(sampler=made(sampler))
    assert ("order", [("sampler", kind)]) == (report.difference.kind, found(report))
    assert says in re.sub(r"\s+", " ", str(report))


@pytest.mark.parametrize("sampler", [faults.ascending, [3, 1, 3], lambda epoch, n: iter([n - 1])])
def test_a_sampler_in_code_that_gives_the_same_is_no_fault(sampler):
    report = report_of(sampler=sampler)
    assert ("same", ()) == (report.result, report.dangers)


def test_a_sampler_in_code_may_have_an_order_of_any_length():
    """Of which as much is looked at as of a list that there may be."""
    many = min(10**12, sys.maxsize)
    source = type("Long", (), {"__len__": lambda _: many, "__getitem__": lambda _, index: index})
    report = report_of(source, sampler=faults.ascending, plan=Plan(batches=2))
    assert "same" == report.result


def test_a_sampler_in_code_that_seeds_global_state_is_a_danger():
    report = report_of(sampler=faults.seeding)
    dangers = [(it.part, it.kind) for it in report.dangers]
    assert ("same", [("sampler", "global-random")]) == (report.result, dangers)


def test_a_sampler_in_code_takes_the_place_of_that_of_the_config():
    config = {**CONFIG, "sampler": {"type": "subset", "indices": [2]}}
    assert 2 == report_of(config=config).samples
    assert 2 * SAMPLES == report_of(config=config, sampler=faults.ascending).samples


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"names": "mine:source"}, r"names: expected a mapping, as \{.*\}, got str"),
        ({"plan": {"epochs": 2}}, r"plan: expected a verify\.Plan, got dict"),
    ],
    ids=["names", "plan"],
)
def test_an_argument_of_another_kind_is_told(given, told):
    with pytest.raises(ConfigError, match=told):
        report_of(**given)


def test_what_a_sampler_in_code_raises_is_raised():
    def raising(epoch, n):
        raise ValueError("no order")

    with pytest.raises(ValueError, match="no order") as caught:
        report_of(sampler=raising)
    assert ["threadloader: raised for the order of epoch 0"] == caught.value.__notes__


def test_a_state_that_is_refused_is_a_difference_of_the_run():
    report = report_of(faults.Renamed)
    assert ("run", "the whole run") == (report.difference.kind, report.difference.where)
    assert report.difference.what.startswith("StateError: the state is of another run; source: ")


# How much is compared.


def test_the_runs_have_all_workers_and_depths_and_resumes():
    """0, 1, 2, 8 workers and those of the config; 1, 3, 16 ahead; cuts within and at an end."""
    made = runs((5, 2), 16, epochs=2, steps=10, whole=True, seed=0)
    legs = [leg for run in made for leg in run.legs]
    assert {0, 1, 2, 5, 8} == {leg.workers for leg in legs}
    assert {1, 2, 3, 16} == {leg.depth for leg in legs}
    cuts = [leg.until for leg in legs if leg.until]
    assert (0, 10) in cuts
    assert {0, 1} == {epoch for epoch, step in cuts if 0 < step < 10}
    for run in made:
        workers = [leg.workers for leg in run.legs]
        assert all(one != other for one, other in itertools.pairwise(workers))


@given(st.integers(1, 3), st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_a_run_is_cut_only_where_there_is_something_behind(epochs, steps, whole, seed):
    for run in runs((2, 3), 16, epochs=epochs, steps=steps, whole=whole, seed=seed):
        cuts = [leg.until for leg in run.legs[:-1]]
        assert None not in cuts
        assert None is run.legs[-1].until
        assert sorted(cuts) == cuts
        for epoch, step in cuts:
            assert 0 < step <= steps
            assert step < steps or (whole and epoch < epochs - 1)


def test_large_batches_are_not_prepared_far_ahead(monkeypatch):
    """Where 16 batches would take too much memory, fewer are prepared, and that is said."""
    monkeypatch.setattr(_run, "AHEAD_BYTES", 2 * 4 * 4 * 8)
    report = report_of()
    assert 2 == max(leg.depth for run, _ in report.runs[3:] for leg in run.legs if leg.hurried)
    assert ("a prefetch of more than 2 batches: they are large",) == report.not_compared


def test_without_a_number_of_batches_time_decides(monkeypatch):
    """At least two of each epoch; and it is said what was left out."""
    monkeypatch.setattr(_record, "BUDGET_SECONDS", 0)
    report = report_of()
    assert ("same", 2, 6, 4) == (report.result, report.steps, report.of_epoch, report.batches)
    (said,) = report.not_compared
    assert said.startswith("4 of the 6 batches of each epoch, and a resume at an epoch's end; ")


@pytest.mark.parametrize(("batches", "whole"), [(3, False), (6, True), (99, True)])
def test_a_number_of_batches_bounds_each_epoch(batches, whole):
    report = report_of(plan=Plan(batches=batches, epochs=3))
    assert (min(batches, 6), 3 * min(batches, 6)) == (report.steps, report.batches)
    assert whole == (report.not_compared == ())


def test_one_epoch_is_said_to_show_less():
    report = report_of(plan=Plan(epochs=1))
    assert ("what only a second epoch shows; --epochs 2 compares that",) == report.not_compared


@pytest.mark.parametrize(
    ("plan", "num_epochs", "expected"),
    [
        (Plan(), None, 2),
        (Plan(), 7, 2),
        (Plan(), 1, 1),
        (Plan(epochs=3), 1, 3),
        (Plan(epochs=1), None, 1),
    ],
)
def test_a_run_has_two_epochs_unless_the_config_or_the_plan_says_otherwise(
    plan, num_epochs, expected
):
    assert expected == plan.epochs_of(LoaderConfig(num_epochs=num_epochs))


def test_a_budget_that_lasts_for_the_one_epoch_of_the_config_lasts_for_a_run():
    """In two epochs the damaged samples would be left out twice, once more than permitted."""
    config = {"batch_size": 2, "shuffle": False, "num_epochs": 1, "on_error": {"skip": 3}}
    report = verify.run(config, source=lambda: np.arange(8), transform=damaged_to_three)
    assert ("same", 1) == (report.result, report.epochs)


def test_the_fingerprint_is_that_of_a_run_of_these_epochs():
    """It is chained over the batches, whoever makes them."""
    expected = ""
    with Loader(CONFIG, source=faults.rows()) as batches:
        for epoch in batches.epochs(2):
            for batch in epoch:
                expected = chained(expected, digest(batch))
    assert expected == report_of().fingerprint


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"epochs": True}, {"batches": 1}, {"batches": 2.0}]
)
def test_what_is_out_of_bounds_is_refused_by_its_option(wrong):
    with pytest.raises(ConfigError) as refused:
        Plan(**wrong)
    assert [f"--{next(iter(wrong))}"] == [it.pointer for it in refused.value.problems]


def test_a_number_of_too_many_digits_is_refused_by_its_option():
    """Python does not write it."""
    with pytest.raises(ConfigError, match=r"--epochs: expected .*, got a value of type int"):
        Plan(epochs=10**5000)


class Unreadable:
    """Its samples cannot be read."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise ValueError("unreadable")


@pytest.mark.parametrize(
    ("source", "config", "says"),
    [
        (list, {}, "expected a batch, got none: the source is empty"),
        (lambda: [1, 2], {"drop_last": True}, "expected a batch, got none"),
        (lambda: [1, 2], {"exclude": [0, 1]}, "are left out (by exclude, on_error, the sampler,"),
        (Unreadable, {"on_error": {"skip": 9}}, "are left out (by exclude, on_error, the sam"),
        (lambda: [Box(1)] * 4, {}, "epoch 0, step 0: cannot be compared: batch: expected arrays, "),
    ],
)
def test_what_cannot_be_compared_is_an_error(source, config, says):
    with pytest.raises(VerifyError, match=re.escape(says)):
        verify.run({**CONFIG, **config}, source=source, collate=lambda samples: samples[0])


def test_what_cannot_be_compared_in_a_later_run_alone_is_an_error():
    """Workers are given another kind of batch than the main thread."""

    def collate(samples):
        here = threading.current_thread() is threading.main_thread()
        return np.stack(samples) if here else Box(samples)

    with pytest.raises(VerifyError, match="epoch 0, step 0: cannot be compared: batch: expected "):
        report_of(collate=collate)


# Sources are asked as the loader asks them.


class Taken(faults.Source):
    def take(self, indices):
        return self.rows[indices] + random.random()


class Gotten(faults.Source):
    def __getitems__(self, indices):
        return list(self.rows[indices] + random.random())


@pytest.mark.parametrize("source", [Taken, Gotten])
def test_a_fault_of_the_method_by_which_batches_are_read_is_found(source):
    """Read one by one, the samples are what they are."""
    assert [("source", "global-random")] == found(report_of(source))


# Sources are opened for each run, and closed.


class Closing(faults.Source):
    """Counts its closes, none of which may come while a thread can still read from it."""

    def __init__(self):
        super().__init__()
        self.closes = 0

    def __getitem__(self, index):
        if self.closes:
            raise ValueError("read after its close")
        return super().__getitem__(index)

    def close(self):
        assert not our_threads()
        self.closes += 1


@pytest.mark.parametrize("transform", [None, faults.global_random])
@pytest.mark.parametrize("same", [True, False])
def test_sources_of_the_user_are_closed_once_each(same, transform):
    """Also where the function gives the same object for every run, and not before the last."""
    opened, one = [], Closing()

    def source():
        opened.append(one if same else Closing())
        return opened[-1]

    assert (transform is None) == (report_of(source, transform=transform).result == "same")
    assert {1} == {it.closes for it in opened}
    assert len(opened) > 9


# Experiments.


def test_what_is_steady_after_its_first_call_is_not_blamed_on_the_clock():
    """That it stays the same with the clock stopped shows nothing, if it does without that."""
    results = iter([1.0])
    found = repeated(lambda: next(results, 0.0), None)
    assert (2, False, False) == (found.differs, found.by_state, found.by_clock)


class Thing:
    """Its hash() is made of its address."""


@pytest.mark.parametrize(
    "sample",
    [{"a": np.zeros(3)}, [1, 2], (np.zeros(2), 1), {1, 2}, bytearray(9), np.zeros(4), Thing()],
    ids=lambda sample: type(sample).__name__,
)
@pytest.mark.parametrize("most", [_causes.GLANCE, _probe.CALLS])
def test_what_depends_on_where_a_sample_lies_is_not_repeatable(sample, most):
    """Though it is gone by the next call, whose sample would lie at the same place."""

    def address(sample):
        return float(id(sample) % 9973)

    call = functools.partial(_parts._call, address, functools.partial(copy.deepcopy, sample))
    assert repeated(call, address, most).differs


def test_what_differs_in_one_thread_is_not_blamed_on_another_one():
    """Where looking at the part alone has not seen it."""
    case = _case.Case(LoaderConfig(), Path(), faults.Source, faults.of_the_system)
    (cause,) = _causes._in_threads(case, [3], {}, 0.0)
    assert ("transform", "not-repeatable") == (cause.part, cause.kind)


def test_a_stopped_clock_goes_on_for_who_waits_for_it():
    """A call that waits for the time to pass comes back, and the clock is put back."""

    def waiting():
        end = time.perf_counter() + 1e-4
        while time.perf_counter() < end:
            pass
        return random.random() + time.time()

    found = repeated(waiting, waiting)
    assert (("the module random",), False, False) == (found.moved, found.by_state, found.by_clock)


# What is not to be had.


def raises(error):
    raise error


class Odd(Exception):
    """What cannot be printed."""

    def __init__(self, printed):
        super().__init__()
        self.printed = printed

    def __str__(self):
        return self.printed(self)


@pytest.mark.parametrize(
    ("printed", "why"),
    [(lambda error: raises(RuntimeError("no str")), "RuntimeError"), (str, "RecursionError")],
    ids=["raises", "recursive"],
)
def test_an_exception_that_cannot_be_printed_is_told_by_its_type(printed, why):
    report = report_of(transform=lambda sample: raises(Odd(printed)))
    assert f"Odd (not printable: {why})" == report.failures[0].error


def test_a_long_list_of_failures_is_cut():
    def bad(sample):
        raise ValueError("no")

    text = str(report_of(transform=bad))
    assert f"  ... and {12 - _report.SHOWN} more" in text


def test_what_only_wraps_an_exception_is_told_with_its_cause():
    error = WorkerError("StopIteration was raised")
    error.__cause__ = StopIteration(3)
    assert "WorkerError: StopIteration was raised; its cause: StopIteration: 3" == told(error)


def test_a_source_that_does_not_open_again_is_told_once_and_with_where():
    report = report_of([faults.Source()].pop)
    assert "--source: IndexError: pop from empty list" == report.difference.what


def test_experiments_that_fail_hide_no_difference(monkeypatch):
    monkeypatch.setattr(_causes, "_alone", failing)
    report = report_of(transform=lambda sample: sample + random.random())
    assert ("differs", [("", "unknown")]) == (report.result, found(report))
    assert "the experiments themselves failed: OSError: no memory" in report.causes[0].evidence[0]


def test_experiments_that_fail_make_no_fault_of_what_is_the_same(monkeypatch):
    monkeypatch.setattr(_causes, "_alone", failing)
    report = report_of()
    assert ("same", (), ()) == (report.result, report.causes, report.dangers)


def failing(*arguments):
    raise OSError("no memory")


def test_what_cannot_be_copied_is_asked_for_anew_and_what_fails_is_left_out():
    calls = {1: threading.Lock, 2: failing, 3: sys.exit}
    assert {1: threading.Lock} == _parts._fresh(calls)


def test_a_ctrl_c_in_an_experiment_is_no_result():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result(interrupted)
    with pytest.raises(KeyboardInterrupt):
        _parts._fresh({1: interrupted})
    with pytest.raises(KeyboardInterrupt):
        overwritten(int, interrupted)


def test_a_slow_call_is_repeated_no_longer_than_there_is_time(monkeypatch):
    monkeypatch.setattr(_probe, "SECONDS", -1)
    assert 1 == repeated(lambda: 0, None).calls


def test_the_random_state_of_torch_is_seen_to_move_and_put_back(monkeypatch):
    """Where the user has imported it. This one's state is a count."""
    state = np.zeros(1, np.uint8)
    torch = ModuleType("torch")
    torch.get_rng_state = state.copy
    torch.set_rng_state = lambda kept: np.copyto(state, kept)
    monkeypatch.setitem(sys.modules, "torch", torch)

    def drawn(*shape, device="cpu"):
        state[0] += 1
        return int(state[0])

    def seeding():
        state[0] = 0

    torch.rand = drawn
    assert ("torch",) == repeated(drawn, None).moved
    assert 0 == state[0]
    assert ("torch",) == repeated(seeding, None).moved


@pytest.mark.parametrize("fails", [failing, sys.exit])
def test_what_fails_is_not_said_to_be_overwritten(fails):
    """Nor does a SystemExit end the command."""
    assert not overwritten(fails, lambda: 0)
    assert not overwritten(lambda: 0, fails)


def test_threads_stop_as_soon_as_enough_is_wrong():
    """Long before the time is over."""
    found = stressed([itertools.count().__next__], seconds=3600)
    assert found.wrong >= _stress.ENOUGH


def only_so_many_start(monkeypatch, number, error):
    """Has the system start so many threads and no more; gives the list of them."""
    start, begun = threading.Thread.start, []

    def starting(thread):
        if len(begun) == number:
            raise error
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    return begun


@pytest.mark.parametrize(
    ("number", "error"),
    [(1, RuntimeError("can't start new thread")), (3, RuntimeError("a handler's"))],
)
def test_a_thread_that_cannot_start_leaves_none_that_waits_for_it(monkeypatch, number, error):
    begun = only_so_many_start(monkeypatch, number, error)
    with pytest.raises(RuntimeError) as caught:
        stressed([int], seconds=3600)
    assert error is caught.value
    for thread in begun:
        thread.join(30)
    assert (number, False) == (len(begun), any(thread.is_alive() for thread in begun))


@pytest.mark.parametrize("number", [2, 3])
def test_where_the_system_starts_fewer_threads_two_show_what_several_do(monkeypatch, number):
    begun = only_so_many_start(monkeypatch, number, RuntimeError("can't start new thread"))
    found = stressed([itertools.count().__next__], seconds=3600)
    assert (number, number, True) == (len(begun), found.threads, found.wrong >= _stress.ENOUGH)
    (evidence, _) = _cause_texts.unsafe("source", found, found, ()).evidence
    assert f"alone, called in {number} threads at once, " in evidence


def test_threads_that_are_started_begin_together(monkeypatch):
    """Else the first ones were done, or alone, before the last began."""
    started, made, me = _stress._started, set(), threading.get_ident()

    def watching(threads):
        begun = started(threads)
        assert made == {me}
        return begun

    monkeypatch.setattr(_stress, "_started", watching)
    stressed([lambda: made.add(threading.get_ident())], 0.01, count=4)
    assert made > {me}


def test_a_ctrl_c_in_an_experiment_waits_for_nothing(monkeypatch):
    """An Event that the loop sets may be left locked by it."""
    started = _stress._started
    for at in itertools.count(1):  # pragma: no branch - it ends where no line is left
        begun = []
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt)

            def sweeping(threads, begun=begun, sweep=sweep):
                begun += started(threads)
                sweep.__enter__()  # from here on: what `Thread.start` does is not ours
                return begun

            monkeypatch.setattr(_stress, "_started", sweeping)
            try:
                stressed([int], 0.05, count=2)
            except KeyboardInterrupt as error:
                interrupt.came_as(error)
            finally:
                sys.settrace(None)
            interrupt.look()
        for thread in begun:
            thread.join(30)
            assert not thread.is_alive()
        if sweep.passed < at:
            break
    assert at > 1


# Progress.


def test_what_is_quick_says_nothing_and_what_is_not_tells_its_runs(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", float("inf"))
    assert "same" == report_of(shown=Progress(sys.stderr)).result
    assert "" == capsys.readouterr().err
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", 0)
    report = report_of(transform=faults.global_random, shown=Progress(sys.stderr))
    lines = capsys.readouterr().err.splitlines()
    assert "run 1 of 9: num_workers 0 ..." == lines[0]
    assert [f"run {n} of 9: {run} ..." for n, (run, _) in enumerate(report.runs, 2)] == lines[1:9]
    assert ["run 9 of 9: looking for the cause: each part alone ..."] == lines[9:]


def test_a_long_first_run_is_told_while_it_lasts(capsys):
    """Who waits for the first run learns of it before the second begins."""
    shown = Progress(sys.stderr)
    shown.begin(1, 9, "first")
    shown._silent_until = 0.0
    shown.tick()
    assert "run 1 of 9: first ...\n" == capsys.readouterr().err
    shown.tick()
    shown.close()
    assert "" == capsys.readouterr().err


# The command.

MODULE = """
import random, signal, sys
import numpy as np
from faults import Source, SharedHandle as shared, bad_sample, global_numpy, shuffled, careless
from faults import ascending, permuted
from threadloader import SourceError

print("imported")

class Talking(Source):
    def __getitem__(self, index):
        print("read", index)
        return super().__getitem__(index)

def broken(): raise ValueError("no\\ndata")
def gone(): raise OSError(5, "it is gone")
def exits(): sys.exit("enough")
def stops(): raise StopIteration("no more")
def forgot(): pass
def interrupted(): signal.raise_signal(signal.SIGINT)
def empty(): return []

def lost(epoch, n): raise OSError(5, "it is gone")
def mute(epoch, n): raise OSError
def damaged(epoch, n): raise SourceError("bad", "a.txt")
def leaves(epoch, n): sys.exit("enough")
"""


@pytest.fixture
def command(folder, capsys, monkeypatch):
    """Gives a function that runs ``threadloader verify``: exit code, stdout, stderr."""
    (folder / "mine.py").write_text(MODULE, encoding="utf-8")
    (folder / "c.json").write_text(json.dumps({"source": NPZ, "batch_size": 4}), encoding="utf-8")
    path = sys.path[:]
    # On a slow machine it would tell how far it is.
    monkeypatch.setattr(_progress, "PATIENCE_SECONDS", float("inf"))

    def call(*arguments):
        code = cli.main(["verify", *map(str, arguments)])
        got = capsys.readouterr()
        assert path == sys.path
        return code, got.out, got.err

    yield call
    sys.modules.pop("mine", None)


def test_the_command_says_ok_in_one_line(command):
    code, out, err = command("c.json")
    assert (0, "") == (code, err)
    assert re.fullmatch(
        r"c.json: OK: the same 16 batches of 2 epochs, 60 samples, in 10 runs, [\d.]+ s; "
        r"fingerprint [0-9a-f]{32}\n",
        out,
    )


def test_the_command_makes_nothing_in_the_folder_of_a_cache_nor_of_a_quarantine(command):
    """Not even by trying the config out, before the first run."""
    on_error = {"skip": 1, "quarantine": "bad.jsonl"}
    config = {"source": NPZ, "cache": {"folder": "kept"}, "on_error": on_error}
    Path("c.json").write_text(json.dumps(config), encoding="utf-8")
    before = sorted(os.listdir())
    assert (0, "") == command("c.json")[::2]
    assert before == sorted(os.listdir())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--transform", "mine:careless"), 0, "  a danger: the transform uses the global random"),
        (("--transform", "mine:global_numpy"), 1, "  cause: the transform draws from the global"),
        (("--collate", "mine:shuffled"), 1, "  cause: the collate draws from the global random"),
        (("--transform", "mine:bad_sample"), 1, "c.json: ERRORS: "),
        (("--sampler", "mine:ascending"), 0, "c.json: OK: "),
        (("--sampler", "mine:permuted"), 1, "  cause: the sampler draws from the global random"),
    ],
)
def test_the_exit_code_says_whether_all_is_the_same(command, arguments, code, says):
    got, out, err = command("c.json", "--source", "mine:Source", *arguments)
    assert (code, "imported\n") == (got, err)
    assert says in out


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        ({"sampler": {"type": "weighted", "weights": "gone.npy"}}, 0, "c.json: OK: "),
        ({"shuffle": True}, 1, "c.json:1:57: /shuffle: expected false or nothing"),
    ],
)
def test_a_sampler_that_the_command_names_is_one_in_code(command, config, code, says):
    """As in `Loader` the config's own is not looked at, and nothing may be shuffled beside it."""
    Path("c.json").write_text(json.dumps({"source": NPZ, **config}), encoding="utf-8")
    got, out, _ = command("c.json", "--sampler", "mine:ascending")
    assert (code, says) == (got, out[: len(says)])


def test_json_is_all_that_stdout_has(command):
    """What the user's code prints goes to stderr; the plan, a section and its options count."""
    Path("c.json").write_text(json.dumps({"t": {"batch_size": 3, "mine": 1}}), encoding="utf-8")
    code, out, err = command(
        *("c.json#/t", "--unknown", "ignore", "--source", "mine:Talking", "--json"),
        *("--transform", "mine:global_numpy", "--epochs", "3", "--batches", "4"),
    )
    value = json.loads(out)
    assert (1, "differs", "c.json#/t", 3, 4, 12) == (
        code,
        *(value[name] for name in ("result", "config", "epochs", "steps", "batches")),
    )
    assert "imported\nread " == err[:14]
    assert ["global-random"] == [cause["kind"] for cause in value["causes"]]
    assert {False} == {run["same"] for run in value["runs"]}
    assert value["runs"][-1]["run"].endswith(", in another process")


def test_a_name_with_a_line_end_stays_on_its_line():
    text = str(dataclasses.replace(report_of(), config="new\nline.json"))
    assert text.startswith("new\\nline.json: OK: ")
    assert 1 == len(text.splitlines())


def test_json_names_are_documented(command):
    """docs/verify.md explains each name of the JSON, whatever was found."""
    names = set()

    def collect(value):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, (dict, list)):
                collect(item)
        if isinstance(value, dict):
            names.update(value)

    report = report_of(transform=faults.global_random).as_dict()
    collect(report)
    collect(report_of(transform=faults.bad_sample).as_dict())
    assert {"run", "kind", "evidence", "error", "fingerprint"} < names
    assert set() == {name for name in names if f"`{name}`" not in DOCUMENT}
    assert 1 == report["format"]


def test_the_example_of_the_page_is_what_the_command_prints(command):
    """But for the numbers: config and transform of docs/verify.md give what stands there."""
    for name, text in re.findall(
        r"^```\w+\n(?://|#) (\S+)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL
    ):
        Path(name).write_text(text, encoding="utf-8")
    shutil.copy(Path(__file__).parent.parent / "examples" / "data" / "digits.npz", "digits.npz")

    def plain(text, only=r".*"):
        # Which rows differ, and after how many calls, is up to the random numbers.
        text = re.sub(r"rows .*?\), batch", "rows, batch", text, flags=re.DOTALL)
        return re.findall(only, re.sub(r"[0-9a-f]{32}|\d[\d.,]*", "0", re.sub(r"\s+", " ", text)))

    examples = re.findall(r"^\$ python3 tools/verify (.*)\n((?:.+\n)+?)```", DOCUMENT, re.MULTILINE)
    assert 2 == len(examples)
    for arguments, expected in examples:
        _, out, _ = command(*arguments.split())
        assert plain(expected.rstrip()) == plain(out.rstrip())


def test_every_kind_of_cause_is_documented():
    for *_, cause, _ in FAULTS:
        assert f"`{cause.split()[1]}`" in DOCUMENT
    for kind in ("other-process", "unknown", "content", "order", "error", "steps", "run"):
        assert f"`{kind}`" in DOCUMENT


def test_every_option_is_documented(capsys):
    cli.main(["verify", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert set() == {option for option in options if f"| `{option}" not in DOCUMENT}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.json"], "threadloader: cannot read none.json: "),
        (["c.json", "--epochs", "x"], "usage: threadloader verify "),
        (["c.json", "--epochs", "\u0663"], "usage: threadloader verify "),
        (["c.json", "--epochs", "0"], "threadloader verify: --epochs: expected an integer from 1"),
        (["c.json", "--batches", "1"], "threadloader verify: --batches: expected an integer from"),
        (["c.json", "--source", "mine:none"], "threadloader verify: --source: expected MODULE:F"),
        (["c.json", "--transform", "no"], "threadloader verify: --transform: expected MODULE:FU"),
        (
            ["c.json", "--source", "math"],
            "threadloader verify: --source: expected MODULE:FUNCTION, got math, without a function",
        ),
        (
            ["c.json", "--source", "math:"],
            "threadloader verify: --source: expected MODULE:FUNCTION, got math:, without a func",
        ),
        (["c.json", "--collate", "os:name"], "threadloader verify: --collate: expected a functio"),
        (["c.json", "--sampler", "os:name"], "threadloader verify: --sampler: expected a functio"),
        (["c.json", "--source", "mine:forgot"], "threadloader verify: --source: expected a funct"),
    ],
    ids=str,
)
def test_bad_usage_is_code_2_and_a_line(command, arguments, said):
    code, out, err = command(*arguments)
    err = err.removeprefix("imported\n")
    assert (2, "", said) == (code, out, err[: len(said)])
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("broken", r"--source: ValueError: no\ndata"),
        ("gone", "--source: OSError: [Errno 5] it is gone"),
        ("exits", "--source: SystemExit: enough"),
        ("stops", "--source: StopIteration: no more"),
        ("empty", "expected a batch, got none: the source is empty"),
    ],
)
def test_whatever_the_source_does_is_code_1_and_a_line(command, source, said):
    code, out, err = command("c.json", "--source", f"mine:{source}")
    said = f"imported\nthreadloader verify: {said}"
    assert (1, "", said) == (code, out, err[: len(said)])
    assert 2 == err.count("\n")


@pytest.mark.parametrize("option", ["source", "transform", "collate", "sampler"])
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise RuntimeError('no FOO')", "RuntimeError: no FOO"),
        ("raise SystemExit('enough')", "SystemExit: enough"),
        ("import math; math.tau2", "AttributeError: module 'math' has no attribute 'tau2'"),
    ],
)
def test_what_a_module_raises_at_its_import_is_told_with_option_and_name(
    command, option, statement, said
):
    """Of several modules that a command names, it is known which one failed."""
    Path("broken.py").write_text(statement, encoding="utf-8")
    said = f"threadloader verify: --{option}: broken:it: {said}\n"
    assert (1, "", said) == command("c.json", f"--{option}", "broken:it")


@pytest.mark.parametrize(
    ("sampler", "said"),
    [
        ("lost", "OSError: [Errno 5] it is gone; threadloader: raised for the order of epoch 0"),
        ("mute", "OSError; threadloader: raised for the order of epoch 0"),
        ("damaged", "SourceError: a.txt: bad; threadloader: raised for the order of epoch 0"),
        (
            "leaves",
            (
                "WorkerError: SystemExit was raised for the order of epoch 0; "
                "its cause: SystemExit: enough"
            ),
        ),
    ],
)
def test_what_a_sampler_raises_is_told_with_its_place_and_its_cause(command, sampler, said):
    said = f"imported\nthreadloader verify: {said}\n"
    assert (1, "", said) == command("c.json", "--sampler", f"mine:{sampler}")


def test_a_bad_config_has_the_messages_of_check(command, capsys):
    Path("c.json").write_text('{"batch_sise": 4}', encoding="utf-8")
    expected = (cli.main(["check", "c.json"]), *capsys.readouterr())
    assert 1 == expected[0]
    assert expected == command("c.json")


@pytest.fixture
def ctrl_c():
    """Lets a Ctrl-C through, which a shell keeps from what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_one_line(command, ctrl_c):
    """Nothing of it is left; the fixtures look for threads and files."""
    assert (130, "", "imported\nthreadloader: interrupted\n") == command(
        "c.json", "--source", "mine:interrupted"
    )


def test_ctrl_c_in_the_middle_of_a_run_is_one_line(command, ctrl_c, monkeypatch):
    """It comes while a run with workers waits for a batch."""
    made = itertools.count()

    def interrupt(batch):
        if next(made) == 20:
            signal.raise_signal(signal.SIGINT)
        return digest(batch)

    monkeypatch.setattr(_record, "digest", interrupt)
    assert (130, "", "threadloader: interrupted\n") == command("c.json")


def test_the_tool_is_the_command(run_child, folder):
    """tools/verify of a checkout runs it, from any folder."""
    (folder / "c.json").write_text(json.dumps({"source": NPZ}), encoding="utf-8")
    tool = Path(__file__).parent.parent / "tools" / "verify"
    child = run_child(
        "import os, runpy, sys\n"
        f"os.chdir({str(folder)!r})\n"
        f"sys.argv = ['verify', 'c.json', '--epochs', '1']\n"
        f"runpy.run_path({str(tool)!r}, run_name='__main__')\n"
    )
    assert (0, "") == (child.returncode, child.stderr)
    assert child.stdout.startswith("c.json: OK: the same 1 batch of 1 epoch, 30 samples, in ")
