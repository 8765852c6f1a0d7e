"""A tool says in a line why it cannot go on, passes on how it went, and prints where it can."""

import ast
import io
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tool_scripts import ROOT, TOOLS, env, loaded

__all__ = ["env"]  # the fixture

needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")


def test_what_the_encoding_of_the_output_lacks_is_printed_all_the_same(
    env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the name of a folder, where the output is redirected on Windows, say."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    assert 0 == env.printed("demo", "it was made in clöne")
    assert ["it was made in cl\\xf6ne"] == written.getvalue().decode().splitlines()


@pytest.mark.parametrize("tool", ["demo", "test"])
def test_an_old_python_gets_one_line(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    """A Python before 3.11 is told what is expected, and nothing is made."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    with pytest.raises(SystemExit) as ended:
        loaded(tool)
    start = f"tools/{tool}: expected CPython 3.11 or newer, got "
    assert str(ended.value.code).startswith(start)


@pytest.mark.parametrize("tool", ["demo", "test"])
def test_an_interrupt_while_a_tool_loads_is_tidy(
    monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """A Ctrl-C that comes before a tool has begun ends it with exit code 130, not a traceback."""

    class Interrupting:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "_env":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "_env", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        loaded(tool)
    assert 130 == ended.value.code


COMMANDS = ["bench", "checkcfg", "order", "verify"]


@pytest.mark.parametrize("tool", COMMANDS)
def test_a_command_under_an_old_python_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tool: str
) -> None:
    """The scripts that are commands say it with exit code 2, as all that a command cannot do."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    with pytest.raises(SystemExit) as ended:
        loaded(tool)
    expected = f"tools/{tool}: expected CPython 3.11 or newer, got {sys.version.split()[0]}\n"
    assert (2, expected) == (ended.value.code, capsys.readouterr().err)


@pytest.mark.parametrize("name", ["_command.py", "campaign", "demo", "test", *COMMANDS])
def test_an_old_python_can_read_a_command(name: str) -> None:
    """As far as this Python can tell: none of it is newer than Python 3.4, nor Python 3's alone."""
    tree = ast.parse((TOOLS / name).read_text(encoding="utf-8"), feature_version=(3, 4))
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.keywords]
    # In Python 2 print is a statement.
    assert [] == [call for call in calls if getattr(call.func, "id", None) == "print"]


@pytest.mark.parametrize("tool", COMMANDS)
def test_an_interrupt_while_a_command_loads_is_tidy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tool: str
) -> None:
    """A Ctrl-C while threadloader is imported ends as one behind that: a line, exit code 130."""

    class Interrupting:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "threadloader.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "threadloader.cli", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        loaded(tool)
    assert (130, ("", "threadloader: interrupted\n")) == (ended.value.code, capsys.readouterr())


def test_an_interrupt_while_the_suite_loads_is_tidy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one while the package is imported."""

    class Interrupting:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "benchmarks":
                raise KeyboardInterrupt

    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["tools/bench", "--suite"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(TOOLS / "bench"), run_name="__main__")
    assert (130, ("", "threadloader: interrupted\n")) == (ended.value.code, capsys.readouterr())


@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_the_help_of_the_demo_makes_no_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    """It tells the options of the example that it runs, as that tells them itself."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "_env", raising=False)
    demo: Any = loaded("demo")
    monkeypatch.setattr(demo._env, "environment", None)
    assert 0 == demo.demo([asked])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    example = (ROOT / "examples" / "digits.py").read_text(encoding="utf-8")
    options = re.findall(r'add_argument\("(--\S+)", .*, help="(.*)"\)', example)
    assert ["--epochs", "--workers", "--read-ms"] == [name for name, _ in options]
    for name, told in options:
        assert [told] == [line.split(" ", 2)[2] for line in lines if line.startswith(f"{name} ")]


@pytest.mark.parametrize("ctrl_c", [False, True])
def test_what_ends_a_tool_is_one_line(
    env: Any, capsys: pytest.CaptureFixture[str], ctrl_c: bool
) -> None:
    """A tool ends with one line on stderr: exit code 1 for what is missing, 130 for a Ctrl-C."""

    def work(args: list[str]) -> int:
        raise KeyboardInterrupt if ctrl_c else env.ToolError("expected more")

    expected = (130, "\ntools/x: interrupted\n") if ctrl_c else (1, "tools/x: expected more\n")
    assert expected == (env.main("tools/x", work, []), capsys.readouterr().err)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(3)", 3),
        pytest.param("import os; os.kill(os.getpid(), 9)", 128 + 9, marks=needs_signals),
    ],
)
def test_the_exit_code_of_a_child_is_passed_on(env: Any, code: str, expected: int) -> None:
    """A command's exit code is the tool's; one that signal N ended gives 128 + N, as in a shell."""
    assert expected == env.call([sys.executable, "-c", code])


@needs_signals
def test_an_interrupted_child_says_its_last_words() -> None:
    """An interrupt of the tool alone reaches the command, which ends by itself; exit code 130."""
    child = (
        "import signal, sys\n"
        "print('ready', flush=True)\n"
        "try: signal.pause()\n"
        "except KeyboardInterrupt: print('last words')\n"
    )
    tool = (
        f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import _env\n"
        "_env.GRACE_SECONDS = 0.1\n"
        f"sys.exit(_env.call([sys.executable, '-c', {child!r}]))\n"
    )
    command = [sys.executable, "-c", tool]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert "ready\n" == running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert "last words\n" == running.stdout.read()
    assert 130 == running.returncode


@needs_signals
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_tool_that_is_ended_ends_what_it_has_started(name: str) -> None:
    """These reach the tool alone; the child holds stdout open for as long as it lives."""
    child = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep(0.5)  # longer than a Ctrl-C of the terminal is waited for\n"
        "    sys.exit(print('put away'))\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)\n"
    )
    tool = (
        f"import signal, sys; sys.path.insert(0, {str(TOOLS)!r}); import _env\n"
        "_env.GRACE_SECONDS = 0.1\n"
        f"signal.signal(signal.{name}, signal.SIG_DFL)\n"  # nohup has one ignored
        f"work = lambda args: _env.call([sys.executable, '-c', {child!r}])\n"
        "sys.exit(_env.main('tools/it', work, []))\n"
    )
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", tool], text=True, **streams) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert "ready\n" == running.stdout.readline()
        running.send_signal(signal.Signals[name])
        assert "put away\n" == running.stdout.read()
        assert f"tools/it: ended by {name}\n" == running.stderr.read()
    assert 128 + signal.Signals[name] == running.returncode


SAYS = [("bench", ["--help"]), ("campaign", ["--help"]), ("campaign", []), ("readme", ["--check"])]


def ran(tool: str, args: list[str], stdout: Any) -> tuple[int, str]:
    """The exit code of a script and what is on its stderr."""
    command = [sys.executable, str(TOOLS / tool), *args]
    done = subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("tool", "args"), SAYS)
def test_a_reader_that_has_gone_is_no_error_of_a_tool(
    monkeypatch: pytest.MonkeyPatch, tool: str, args: list[str], unbuffered: str
) -> None:
    """It ends as it does where somebody reads it to the end."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        assert ran(tool, args, subprocess.DEVNULL) == ran(tool, args, closed)


@pytest.mark.skipif(os.name == "nt", reason="Windows replaces no process by another")
@pytest.mark.parametrize(("tool", "args"), [*SAYS, ("demo", ["--help"])])
def test_an_output_that_is_closed_is_no_error_of_a_tool(tool: str, args: list[str]) -> None:
    """As with >&- in a shell: it ends as it does where nobody looks."""
    command = [sys.executable, str(TOOLS / tool), *args]
    closed = f"import os, sys; os.close(1); os.execv(sys.executable, {command!r})"
    done = subprocess.run(
        [sys.executable, "-c", closed], stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert ran(tool, args, subprocess.DEVNULL) == (done.returncode, done.stderr)


def test_what_a_tool_says_to_nobody_is_said(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stdout is closed, an environment is made all the same."""
    monkeypatch.setattr(sys, "stdout", None)
    env.environment()
    assert ["made", "installed []"] == env.done


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("tool", "args"), SAYS)
def test_output_of_a_tool_that_cannot_be_written_is_code_2(
    monkeypatch: pytest.MonkeyPatch, tool: str, args: list[str], unbuffered: str
) -> None:
    """As that of a command: exit code 1 would say that the tables of the README differ."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "wb") as full:
        code, err = ran(tool, args, full)
    said = "threadloader" if tool == "bench" else f"tools/{tool}"
    assert (2, f"{said}: the output cannot be written") == (code, err.splitlines()[0])
    assert "Error" not in err


def said_into(stdout: Any, code: str) -> tuple[int, str]:
    """The exit code and the stderr of a tool that says a word and then runs some code."""
    work = f"_env.say('word'); return _env.call([sys.executable, '-c', {code!r}])"
    tool = (
        f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import _env\n"
        f"def work(args): {work}\n"
        "sys.exit(_env.main('tools/x', work, []))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", tool],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_is_run_whose_output_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    """The tool ends where its own word could not be written."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "wb") as full:
        code, err = said_into(full, "raise SystemExit(3)")
    assert (2, "tools/x: the output cannot be written\n") == (code, err)


@pytest.mark.skipif(os.name == "nt", reason="a pipe without a reader is another error there")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_runs_after_the_reader_has_gone_meets_that_itself(
    monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    """It does not run on to its end, all that it prints going nowhere."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    code = "import os\ntry: os.write(1, b'more')\nexcept BrokenPipeError: os._exit(3)"
    with os.fdopen(writer, "wb") as closed:
        assert (3, "") == said_into(closed, code)


@pytest.mark.parametrize("name", ["demo", "campaign"])
def test_help_that_is_not_there_is_said_to_be_left_out(name):
    """By -OO, which takes away what a tool has written down of itself."""
    command = [sys.executable, "-OO", str(TOOLS / name), "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (0, "") == (ran.returncode, ran.stderr)
    assert "-OO leaves the help out" in ran.stdout
