"""Processes that bench and verify ask: they end with the command; user code reads no stdin."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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
"""


def started(folder: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    """Start a command in a folder that has the code above and a config."""
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    (folder / "c.json").write_text(json.dumps({"batch_size": 4}), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "threadloader", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("command", [["verify"], ["bench", "--repeat", "1", "--seconds", "0.05"]])
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
