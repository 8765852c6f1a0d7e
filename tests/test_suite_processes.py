"""The processes of the suite: none is left behind, and each has what it measures as users do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import _machine, works
from benchmarks._machine import _descendants
from benchmarks._process import in_process

ROOT = Path(__file__).resolve().parent.parent
EVERY = (*works.NAMES, *works.BESIDE)


@pytest.mark.skipif(os.name == "nt", reason="a script cannot stand for an interpreter")
def test_a_run_that_hangs_is_ended_with_all_that_it_has_started(tmp_path):
    """The time is over, the answer says so, and neither the process nor its child lives."""
    pids = tmp_path / "pids"
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! $$ > {pids}\nwait\n", encoding="utf-8")
    script.chmod(0o755)
    answer = in_process(str(script), {"module": ""}, 2.0)
    assert {"timeout": "gave no answer within 2 s"} == answer
    for pid in pids.read_text(encoding="utf-8").split():
        # The signal is sent; the system takes its time until the process is gone.
        while lives(pid):
            os.sched_yield()


def lives(pid):
    """Tells whether a process runs; one that is a zombie does not."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_suite_that_is_ended_by_a_signal_ends_its_run_too():
    """Else the run goes on, and the next measurement has it beside it."""
    tool = [sys.executable, ROOT / "tools" / "bench", "--suite", "--only", "storage"]
    tool += ["--loaders", "threadloader", "--repeats", "1", "--seconds", "3600"]
    runs = []
    with subprocess.Popen(tool, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            for line in process.stderr:
                if line.startswith(b"1 of "):  # the first run is about to begin
                    break
            while process.poll() is None and not (runs := list(_descendants(process.pid))):
                os.sched_yield()
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read()
        finally:
            process.kill()
    assert (128 + signal.SIGTERM, True) == (process.returncode, b"ended by SIGTERM" in said)
    assert runs
    end = time.monotonic() + 60  # the signal is sent; the system takes its time
    while (left := list(filter(lives, runs))) and time.monotonic() < end:
        os.sched_yield()
    assert [] == left


def test_a_run_that_dies_is_told_by_its_last_words(tmp_path):
    spec = {"module": "no_such_module_here", "answer": "", "work": "arrays"}
    assert {"error": "ModuleNotFoundError: No module named 'no_such_module_here'"} == in_process(
        sys.executable, spec, 60
    )


@pytest.mark.skipif(os.name == "nt", reason="a script cannot stand for an interpreter")
def test_what_a_run_imports_from_the_checkout_is_compiled_but_for_the_first_time(
    tmp_path, monkeypatch
):
    """As a package that pip has installed is; else an import takes twice its time."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    script = tmp_path / "python"
    told = "import sys; sys.exit(f'writes none: {sys.dont_write_bytecode}')"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{told}"\n', encoding="utf-8")
    script.chmod(0o755)
    answer = in_process(str(script), {"module": ""}, 60)
    assert {"error": "the process ended with code 1: writes none: False"} == answer


def test_the_checkout_is_compiled_before_the_first_run(monkeypatch):
    """So that an import in it takes no longer than in the others; what is installed is left."""
    folders = []

    def compile_dir(folder, quiet):
        folders.append(folder)

    monkeypatch.setattr(_machine.compileall, "compile_dir", compile_dir)
    for module in ("threadloader", "numpy", "torch.utils.data"):
        _machine.compiled(module)
    assert [ROOT / "threadloader"] == folders


def test_the_cases_are_made_in_a_process_as_here():
    """With the same names and options, but for the sizes that it finds."""
    asked = {"cases": list(EVERY), "quick": True}
    here = {name: [vars(case) for case in works.work(name).cases(quick=True)] for name in EVERY}
    assert {"cases": here} == in_process(sys.executable, asked, 60)
