"""Processes that bench and verify ask: they end with the command, whose interpreter's options they
have; user code reads no stdin."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from threadloader import cli
from threadloader._children import child_command

ROOT = Path(__file__).parent.parent

MINE = """
import os, socket, sys, time

def reads():
    assert sys.stdin.read() == "", "stdin is not empty"
    return list(range(8))

def held():
    "Says that it is here, in another process than the command's, and stays for long."
    if os.environ.setdefault("FIRST", str(os.getpid())) != str(os.getpid()):
        global line
        line = socket.create_connection(("127.0.0.1", int(os.environ["HELD_PORT"])))
        time.sleep(600)
    return list(range(8))

def speaks(sample):
    print("\\u5b57")
    return sample

def chats(sample):
    "Prints what no disk takes, in another process than the command's."
    if sys.argv[0] == "-c":  # as those are started; in that of `bench` no sample is read
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, 1)
        os.dup2(full, 2)
    print("a sample", flush=True)
    return sample

def small(sample):
    assert sample < 5, "a check that -O leaves out"
    return sample
"""

TELLS = """
import json, os, sys

def main():
    names = ("optimize", "dont_write_bytecode", "no_site", "no_user_site", "bytes_warning")
    names += ("dev_mode", "utf8_mode", "int_max_str_digits", "safe_path")
    told = {name: getattr(sys.flags, name) for name in names}
    told["warnings"] = list(dict.fromkeys(sys.warnoptions))
    told |= {"options": sys._xoptions, "hash": hash("a"), "mine": os.getenv("MINE")}
    print(json.dumps(told))
"""

ASKS = """
import subprocess, sys
sys.path[:0] = {path!r}
import tells
from threadloader._children import child_command, child_environment
tells.main()
sys.stdout.flush()
subprocess.run(child_command("tells"), env=child_environment(PYTHONHASHSEED="1"), check=True)
"""


def told_by_both(folder: Path, *options: str, **env: str) -> list[dict[str, object]]:
    """What an interpreter with these options and a child of it tell of themselves."""
    (folder / "tells.py").write_text(TELLS, encoding="utf-8")
    code = ASKS.format(path=[str(ROOT), str(folder), *sys.path])
    told = subprocess.run(
        [sys.executable, "-P", *options, "-c", code],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return [json.loads(line) for line in told.splitlines()]


@pytest.mark.parametrize(
    "options",
    [
        ["-O"],
        ["-OO", "-B", "-s"],
        ["-S", "-Xint_max_str_digits=700"],
        ["-Wignore::UserWarning", "-Werror"],
        ["-bb", "-Xdev"],
        ["-Xutf8", "-Xgil=1" if "t" in getattr(sys, "abiflags", "") else "-Xmine=a=b"],
        ["-I", "-Xutf8=0"],
    ],
    ids=" ".join,
)
def test_a_child_has_the_options_of_the_interpreter_that_starts_it(options, tmp_path):
    here, there = told_by_both(tmp_path, *options, PYTHONWARNINGS="once", MINE="1")
    del here["hash"], there["hash"]
    assert here == there


def test_bench_starts_no_process_in_a_bundle_and_says_where_to_run_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    np.save(tmp_path / "x.npy", np.arange(8))
    config = {"source": {"type": "npy", "path": "x.npy"}}
    (tmp_path / "c.json").write_text(json.dumps(config), encoding="utf-8")
    assert cli.main(["bench", str(tmp_path / "c.json")])
    assert "with no Python to start; run it outside of the bundle" in capsys.readouterr().err


@pytest.mark.parametrize("unknown", [None, ""])
def test_where_a_program_has_python_inside_there_is_none_to_start(monkeypatch, unknown):
    """Python's documentation has these for an interpreter that does not know its own path."""
    monkeypatch.setattr(sys, "executable", unknown)
    with pytest.raises(OSError, match="with no Python to start"):
        child_command("threadloader.verify._child")


@pytest.mark.parametrize("option", ["-E", "-I"])
def test_a_child_heeds_its_seed_of_hashes_where_other_variables_are_not_heeded(option, tmp_path):
    """Those would be heeded in the child alone."""
    (_, first), (_, second) = (told_by_both(tmp_path, option, PYTHONOPTIMIZE="1") for _ in "ab")
    assert (0, first["hash"]) == (first["optimize"], second["hash"])


@pytest.mark.parametrize("options", [["-O"], ["-Werror", "-bb", "-Xdev"]], ids=" ".join)
@pytest.mark.parametrize("command", ["verify", "bench"])
def test_user_code_does_in_another_process_what_it_does_in_the_command(command, options, tmp_path):
    """Asserts that the interpreter leaves out fail nowhere, nor do warnings that are errors."""
    given = ["c.json", "--source", "mine:reads"]
    given += ["--transform", "mine:small"] if options == ["-O"] else []
    given += ["--repeat", "1", "--seconds", "0.05"] if command == "bench" else []
    with started(tmp_path, command, *given, options=options) as running:
        out, err = running.communicate(timeout=120)
    assert 0 == running.returncode, out + err


def started(
    folder: Path, *arguments: str, options: Sequence[str] = (), **env: str
) -> subprocess.Popen[str]:
    """Start a command in a folder that has the code above and a config."""
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    (folder / "c.json").write_text(json.dumps({"batch_size": 4}), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, *options, "-m", "threadloader", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


COMMANDS = pytest.mark.parametrize(
    "command", [["verify"], ["bench", "--workers", "0", "--repeat", "1", "--seconds", "0.05"]]
)


@pytest.mark.parametrize("text", ["Welcome", "{}"])
@COMMANDS
def test_what_is_printed_where_python_begins_is_no_answer(command, text, tmp_path):
    """As by a `sitecustomize` of the administrator, or a .pth file."""
    (tmp_path / "sitecustomize.py").write_text(f"print({text!r}, flush=True)\n", encoding="utf-8")
    first, *options = command
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    given = [first, "c.json", "--source", "mine:reads", *options]
    with started(tmp_path, *given, PYTHONPATH=path) as running:
        out, err = running.communicate(timeout=120)
    assert 0 == running.returncode, out + err
    assert "not compared" not in out


@COMMANDS
def test_user_code_may_print_what_the_encoding_of_stdout_lacks(command, tmp_path):
    """As through the pipe of a child on Windows, where the console takes every character."""
    first, *options = command
    given = [first, "c.json", "--source", "mine:reads", "--transform", "mine:speaks", *options]
    with started(tmp_path, *given, PYTHONIOENCODING="ascii") as running:
        out, err = running.communicate(timeout=120)
    assert 0 == running.returncode, out + err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
@COMMANDS
def test_user_code_that_prints_where_the_disk_is_full_has_not_failed(command, tmp_path):
    """As where the folder for temporary files is, to which another process prints."""
    first, *options = command
    given = [first, "c.json", "--source", "mine:reads", "--transform", "mine:chats", *options]
    with started(tmp_path, *given) as running:
        out, err = running.communicate(timeout=120)
    assert 0 == running.returncode, out + err


@COMMANDS
def test_where_no_code_is_named_none_of_the_current_folder_is_imported(command, tmp_path):
    """A module there may have the name of one of the standard library."""
    for name in ("zipfile", "random", "copy"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('mine')\n", encoding="utf-8")
    np.savez(tmp_path / "a.npz", x=np.arange(8))
    config = {"source": {"type": "npz", "path": "a.npz"}, "batch_size": 4}
    (tmp_path / "d.json").write_text(json.dumps(config), encoding="utf-8")
    first, *rest = command
    with started(tmp_path, first, "d.json", *rest, options=["-P"]) as running:
        out, err = running.communicate(timeout=120)
    assert (0, False) == (running.returncode, "mine" in out + err), out + err
    assert "not compared" not in out


@COMMANDS
def test_user_code_that_reads_stdin_finds_nothing_there(command, tmp_path):
    """Not the question, and not a stdin that never ends."""
    first, *options = command
    with started(tmp_path, first, "c.json", "--source", "mine:reads", *options) as running:
        out, err = running.communicate(timeout=120)
    assert 0 == running.returncode, out + err


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGKILL"])
def test_the_other_process_of_verify_ends_with_it(number, tmp_path):
    """Stuck in its source, when nobody waits for its answer any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = str(server.getsockname()[1])
        command = ["verify", "c.json", "--source", "mine:held"]
        with started(tmp_path, *command, HELD_PORT=port) as running:
            try:
                held, _ = server.accept()
                with held:
                    held.settimeout(30)
                    running.send_signal(getattr(signal, number))
                    assert b"" == held.recv(1)  # closed, since the process that held it has ended
            finally:
                running.kill()
    assert -getattr(signal, number) == running.returncode
