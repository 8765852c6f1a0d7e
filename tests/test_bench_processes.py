"""The process of a run starts or says why not, keeps nobody waiting, and leaves none behind."""

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from bench_folder import QUICK, command, folder

from threadloader.bench import BenchError, _process
from threadloader.bench._process import in_process

__all__ = ["command", "folder"]  # the fixtures

ROOT = Path(__file__).parent.parent


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
