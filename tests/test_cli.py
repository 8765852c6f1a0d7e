"""A command ends with its exit code and lines of text, whatever it is given, wherever it prints."""

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from checked import NPZ, TEXT, at, checking, with_data, write

import threadloader
from threadloader import _dry_run, _messages, cli
from threadloader.sources import _progress

ROOT = Path(__file__).parent.parent
GONE = "" if os.name == "nt" else "No such file or directory\n"  # Windows has words of its own

folder = pytest.fixture(with_data)
check = pytest.fixture(checking)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.json"], f"threadloader: cannot read none.json: {GONE}"),
        (["none.json#/a"], f"threadloader: cannot read none.json#/a: {GONE}"),
        pytest.param(
            ["c.json/"],
            "threadloader: cannot read c.json/: Not a directory\n",
            marks=pytest.mark.skipif(os.name == "nt", reason="Windows says it otherwise"),
        ),
        (["c.json#a"], "threadloader: config: expected a JSON pointer after the #, "),
        (["a\0b"], "threadloader: config: expected the name of a file, got "),
        ([""], "threadloader: config: expected the name of a file, "),
        ([], "usage: threadloader check "),
        (["c.json", "d.json"], "usage: threadloader "),
        (["c.json", "--unknown", "maybe"], "usage: threadloader check "),
        (["c.json", "--batch", "--source-in-code"], "usage: threadloader check "),
    ],
    ids=str,
)
def test_bad_usage_and_files_that_cannot_be_read_are_code_2(check, arguments, said):
    write({"source": NPZ})
    code, out, err = check(*arguments)
    assert (2, "", said) == (code, out, err[: len(said)])


def test_a_command_is_asked_for(capsys):
    assert 2 == cli.main([])
    assert capsys.readouterr().err.startswith("usage: threadloader [-h] [--version] COMMAND")


def test_the_version_is_that_of_the_package_that_runs(capsys):
    """Which need not be installed."""
    assert 0 == cli.main(["--version"])
    got = capsys.readouterr()
    assert (f"threadloader {threadloader.__version__}\n", "") == (got.out, got.err)


def test_help_says_the_exit_codes(capsys):
    assert 0 == cli.main(["check", "--help"])
    assert "Exit code: 0 good; 1 a problem" in capsys.readouterr().out


def test_ctrl_c_ends_with_130_and_one_line(check, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_dry_run, "open_configured", interrupted)
    assert (130, "", "threadloader: interrupted\n") == check(write({"source": NPZ}))


def test_ctrl_c_in_code_that_is_named_ends_with_130_and_one_line(check, folder):
    (folder / "halted_import.py").write_text("raise KeyboardInterrupt")
    (folder / "halted_call.py").write_text("def it(): raise KeyboardInterrupt")
    for module in ("halted_import", "halted_call"):
        got = check(write({}), f"--source={module}:it")
        assert (130, "", "threadloader: interrupted\n") == got
        sys.modules.pop(module, None)


@pytest.mark.parametrize("code", [None, "the handler's word"])
def test_the_exit_of_a_signal_handler_is_none_of_the_arguments(check, monkeypatch, code):
    """argparse ends by one, too: with its help, or with what is wrong."""

    def rung(*args, **options):
        raise SystemExit(code)

    monkeypatch.setattr(cli, "tried", rung)
    with pytest.raises(SystemExit) as caught:
        check(write({"source": NPZ}))
    assert code == caught.value.code


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_ctrl_c_while_a_pager_lets_the_output_wait_ends_with_130_and_one_line(folder):
    """The output is longer than a pipe holds, and what is left of it waits for nobody."""
    write({"batch_size": 100_000})
    command = [sys.executable, "-m", "threadloader", "order", "c.json"]
    command += ["--samples", "100000", "--step", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as running:
        assert running.stdout.read(1)  # it prints, and stays where the pipe is full
        running.send_signal(signal.SIGINT)
        assert 130 == running.wait(60)
        assert b"threadloader: interrupted\n" == running.stderr.read()


@pytest.mark.parametrize(
    "command", [["check", "--effective"], ["order", "--step", "0"], ["verify"]]
)
@pytest.mark.parametrize("kind", ["no word of terminals", "closed"])
def test_a_stderr_of_the_programs_own_may_be_less_than_a_stream(folder, monkeypatch, command, kind):
    """The first command says on it that the config is OK."""

    class Least:
        def write(self, text):
            return len(text)

        def flush(self): ...

    stream = Least()
    if kind == "closed":
        stream = io.StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    first, *more = command
    assert 0 == cli.main([first, write({"source": NPZ}), *more])


@pytest.mark.parametrize("command", [["check"], ["order", "--step", "0"]])
@pytest.mark.parametrize(
    ("terminal", "logs", "told"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_how_far_a_source_is_is_shown_at_a_terminal(
    folder, capsys, monkeypatch, command, terminal, logs, told
):
    """Opening a large file may take long. Where a program has a log of its own, it is there."""
    log = logging.getLogger("threadloader")
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    monkeypatch.setattr(log, "propagate", logs)  # else to pytest's own handler
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    first, *more = command
    assert 0 == cli.main([first, write({"source": TEXT}), *more])
    got = capsys.readouterr()
    shown = re.fullmatch("(threadloader: .*looked.*\n)+", got.err) is not None
    assert (told, told) == (shown, bool(got.err))
    assert (logging.NOTSET, []) == (log.level, log.handlers)


def run(*command, **options):
    """Runs a command in a process of its own: exit code, stdout, stderr."""
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        **options,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    "command", [["-m", "threadloader", "check"], [ROOT / "tools" / "checkcfg"]]
)
def test_the_commands_work_from_anywhere_and_in_any_encoding(folder, command):
    write({"source": NPZ, "é": 1})
    code, out, err = run(*command, "c.json", "--unknown", "ignore")
    assert (0, "c.json: OK", "") == (code, out.strip(), err)
    code, out, err = run(*command, "c.json")
    expected = at("c.json", '"\\u00e9"') + r" /\xe9: expected a known key, got "
    assert (1, expected, "") == (code, out[: len(expected)], err)


def test_a_reader_that_has_gone_is_no_error(folder):
    """The pipe's reading end is closed before the command writes."""
    write(json.dumps({f"key {number}": 1 for number in range(5000)}))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "checkcfg", "c.json"],
            check=False,
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (1, b"") == (done.returncode, done.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="a device of Linux")
def test_output_that_cannot_be_written_is_code_2(folder):
    write({"source": NPZ})
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "checkcfg", "c.json"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (2, b"threadloader: the output cannot be written\n") == (done.returncode, done.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["verify", "--help"]])
def test_help_that_cannot_be_written_is_code_2(arguments, unbuffered):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "threadloader", *arguments],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered},
        )
    assert (2, b"threadloader: the output cannot be written\n") == (done.returncode, done.stderr)


def test_without_a_console_nothing_is_printed():
    assert cli._print(["a line"], None)


def test_a_stream_needs_no_more_than_to_be_written():
    written = []
    stream = SimpleNamespace(write=written.append, flush=lambda: None)
    assert cli._print(["a line"], stream)
    assert ["a line\n"] == written


def test_a_broken_pipe_is_left_alone_where_there_is_no_device_for_nothing(monkeypatch):
    monkeypatch.setattr(os, "devnull", os.path.join(os.devnull, "none"))
    reader, writer = os.pipe()
    os.close(reader)
    closed = os.fdopen(writer, "w")
    assert cli._print(["a line"], closed)
    with suppress(OSError):
        closed.close()


def test_a_pipe_that_has_been_closed_is_left_alone():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        assert cli._print(["a line"], closed)
        assert cli._print(["another line, to nowhere"], closed)


def test_a_stdout_that_takes_nothing_is_said_on_stderr(check, capsys, monkeypatch):
    with open(os.devnull) as for_reading:
        monkeypatch.setattr(sys, "stdout", for_reading)
        assert 2 == cli.main(["check", write({"source": NPZ})])
    assert "threadloader: the output cannot be written\n" == capsys.readouterr().err


def test_an_exception_that_cannot_be_printed_is_told_by_its_class():
    class Mute(type):
        @property
        def __name__(cls):
            raise KeyError("no name")

    class Odd(Exception, metaclass=Mute):
        def __str__(self):
            raise KeyError("no text")

    assert "Odd (not printable: KeyError)" == _messages.in_words(Odd())


class Ringing(Exception):
    """One that is interrupted while it is told."""

    def __str__(self):
        signal.raise_signal(signal.SIGINT)
        return "mine"


class RingingNotes(Exception):
    @property
    def __notes__(self):
        signal.raise_signal(signal.SIGINT)
        return []


@pytest.mark.parametrize("error", [Ringing(), RingingNotes()], ids=["text", "notes"])
def test_what_a_signal_handler_raises_while_an_exception_is_told_passes(rung, error):
    with pytest.raises(TimeoutError, match="rung"):
        _messages.in_words(error)


def test_what_a_signal_handler_raises_while_the_config_is_read_passes(check, monkeypatch, rung):
    """As a timer's, while the config comes through a pipe: it is no error of the system."""
    monkeypatch.setattr(_dry_run, "examine", lambda *args, **options: Ringing().__str__())
    with pytest.raises(TimeoutError, match="rung"):
        check(write({"source": NPZ}))


def test_what_a_signal_handler_raises_while_the_answer_is_written_passes(check, monkeypatch, rung):
    """It is no error of the stream, which is not closed for it either."""
    stream = SimpleNamespace(write=lambda text: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(TimeoutError, match="rung"):
        cli.main(["check", write({"source": NPZ})])
