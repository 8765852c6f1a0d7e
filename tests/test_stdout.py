"""A command has stdout for its answer alone, whatever the user's code prints, and to the end."""

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from threadloader import _stdout, cli

ROOT = Path(__file__).parent.parent

MINE = """
import atexit, contextlib, os, subprocess, sys

def prints():
    "In every way that there is, of which a shell and an os.write know no sys.stdout."
    atexit.register(lambda: print("at the exit"))
    print("as usual")
    print("as ever", file=sys.__stdout__)
    sys.stdout.buffer.write(b"as bytes\\n")
    os.write(1, b"by its number\\n")
    subprocess.run([sys.executable, "-c", "print('in a process')"], check=True)
    if sys.stderr:
        subprocess.run([sys.executable, "-c", "print('to a stream')"], stdout=sys.stdout)
    return list(range(8))

def closes():
    sys.stdout.close()
    return list(range(8))

def closes_stderr():
    sys.stderr.close()
    return list(range(8))

def redirects():
    with contextlib.redirect_stderr(sys.stdout):
        print("redirected")
        subprocess.run([sys.executable, "-c", "print('to a number')"], stdout=sys.stdout)
    return list(range(8))

def replaces():
    sys.stderr = sys.stdout
    print("replaced")
    return list(range(8))

def plain():
    return list(range(8))

def tells(sample):
    print("hello", flush=True)
    return sample
"""
SAYS = ["usual", "ever", "bytes", "its number", "a process", "a stream", "the exit"]

MODULE = ["-m", "threadloader", "verify"]
TOOL = [str(ROOT / "tools" / "verify")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with the code above and a config."""
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    (tmp_path / "c.json").write_text('{"batch_size": 4}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mine", None)


def verified(command, *arguments, shell=""):
    """Run verify in a process of its own; `shell` is what a shell does with its descriptors.

    On stderr the lines are left out that a busy machine has: how far it has got after a second.
    """
    full = [sys.executable, *command, "c.json", *arguments]
    if shell:
        full = ["sh", "-c", f'exec "$@" {shell}', "sh", *full]
    done = subprocess.run(
        full,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    done.stderr = re.sub(r"^run \d+ of \d+: .*\n", "", done.stderr, flags=re.MULTILINE)
    return done


@pytest.mark.parametrize("command", [MODULE, TOOL], ids=["module", "tool"])
def test_json_is_all_that_stdout_has_whatever_user_code_prints(folder, command):
    done = verified(command, "--source", "mine:prints", "--json")
    assert (0, "same") == (done.returncode, json.loads(done.stdout)["result"])
    assert [] == [said for said in SAYS if said not in done.stderr]


def test_a_line_is_all_that_stdout_has_whatever_user_code_prints(folder):
    done = verified(MODULE, "--source", "mine:prints")
    assert (0, 1) == (done.returncode, done.stdout.count("\n"))
    assert done.stdout.startswith("c.json: OK: ")


@pytest.mark.parametrize("source", ["closes", "closes_stderr"])
def test_user_code_that_closes_its_streams_does_not_end_the_command(folder, source):
    """Of stdout it has closed nothing of the command's; without a stderr that goes on."""
    done = verified(MODULE, "--source", f"mine:{source}")
    assert (0, "c.json: OK", "") == (done.returncode, done.stdout[:10], done.stderr)


@pytest.mark.parametrize(
    ("source", "says"),
    [("redirects", ["redirected", "to a number"]), ("replaces", ["replaced"])],
)
def test_user_code_whose_stderr_is_its_stdout_prints_to_the_first_stderr(folder, source, says):
    done = verified(MODULE, "--source", f"mine:{source}")
    assert (0, "c.json: OK") == (done.returncode, done.stdout[:10])
    # Once for each run, and nothing else: no line is lost, and none comes twice.
    assert set(says) == set(done.stderr.split("\n")) - {""}
    assert 1 == len({done.stderr.split("\n").count(line) for line in says})


@pytest.mark.skipif(os.name == "nt", reason="it takes a shell that closes descriptors")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stdout_or_stderr_is_no_error(folder, closed):
    done = verified(MODULE, "--source", "mine:closes", shell=closed)
    assert (0, "") == (done.returncode, done.stderr)
    assert (closed == "2>&-") == done.stdout.startswith("c.json: OK: the same ")


@pytest.mark.skipif(os.name == "nt", reason="it takes a shell that closes descriptors")
def test_what_user_code_prints_without_a_stderr_is_not_the_answer(folder):
    done = verified(MODULE, "--source", "mine:prints", "--json", shell="2>&-")
    assert "same" == json.loads(done.stdout)["result"]


def test_in_a_program_stdout_is_afterwards_what_it_was(folder, capfd):
    before = sys.stdout, os.fstat(1).st_ino
    code = cli.main(["verify", "c.json", "--source", "mine:prints"])
    assert (0, before) == (code, (sys.stdout, os.fstat(1).st_ino))
    os.write(1, b"behind it\n")
    out, err = capfd.readouterr()
    assert ("c.json: OK", "behind it") == (out[:10], out.splitlines()[1])
    assert [] == [said for said in SAYS[:-1] if said not in err]


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC], ids=["nobody reads", "full"])
def test_user_code_does_not_fail_by_printing_to_a_stderr_that_takes_nothing(
    folder, capfd, monkeypatch, number
):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(number, "this stderr takes nothing")

    monkeypatch.setattr(sys, "stderr", Gone())
    code = cli.main(["verify", "c.json", "--source", "mine:plain", "--transform", "mine:tells"])
    assert (0, "c.json: OK") == (code, capfd.readouterr().out[:10])


def test_an_end_of_a_line_is_made_into_the_systems_once(monkeypatch, capsys):
    """By stderr: on Windows it would else be made twice."""

    class Windows(io.TextIOWrapper):
        def __init__(self, *args, newline=None, **kwargs):
            super().__init__(*args, newline="\r\n" if newline is None else newline, **kwargs)

    monkeypatch.setattr(io, "TextIOWrapper", Windows)
    with _stdout.answering():
        print("hello")
    assert "hello\n" == capsys.readouterr().err


IN_ITS_PLACE = """
import codecs, io, os, sys
from threadloader import cli

class Tee:
    "Has what a stream has, or no more than is used here."
    def __init__(self, whole):
        self.stream, self.whole, self.written = sys.stdout, whole, []
    def write(self, text):
        self.written.append(text)
        return self.stream.write(text)
    def flush(self):
        self.stream.flush()
    def fileno(self):
        return self.stream.fileno()
    def __getattr__(self, name):
        if not self.whole:
            raise AttributeError(name)
        return getattr(self.stream, name)

def codec():
    return codecs.getwriter("utf-8")(sys.stdout.detach())

def own():
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))

class Mute:
    "Has no flush."
    def __init__(self):
        self.written = []
    def write(self, text):
        self.written.append(text)
        os.write(1, text.encode())
    def fileno(self):
        return 1

streams = {"whole": lambda: Tee(True), "bare": lambda: Tee(False), "codec": codec}
sys.stdout = {**streams, "own": own, "mute": Mute}[sys.argv[1]]()
code = cli.main(["check", sys.argv[2], "--source=builtins:list"])
written = getattr(sys.stdout, "written", ["c.json: OK\\n"])
print(code, written, file=sys.stderr)
"""


@pytest.mark.parametrize("stream", ["whole", "bare", "codec", "own", "mute"])
def test_a_stream_of_the_programs_own_that_ends_at_1_gets_the_answer(run_child, folder, stream):
    """As one that also writes to a log: while user code prints, what it wraps leads to stderr."""
    child = run_child(IN_ITS_PLACE, stream, str(folder / "c.json"))
    assert f"{folder / 'c.json'}: OK\n" == child.stdout
    assert child.stderr.startswith("0 ['")
    assert "c.json: OK\\n']" in child.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no such device")
@pytest.mark.parametrize("stream", ["bare", "own"])
def test_a_stream_of_the_programs_own_that_takes_nothing_is_told(folder, stream):
    """As where stdout is on a full disk; and what is left in it fails no more when Python ends."""
    code = IN_ITS_PLACE.replace("print(code, written, file=sys.stderr)", "sys.exit(code)")
    with open("/dev/full", "w") as full:
        child = subprocess.run(
            [sys.executable, "-c", code, stream, str(folder / "c.json")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    assert (2, "threadloader: the output cannot be written\n") == (child.returncode, child.stderr)
