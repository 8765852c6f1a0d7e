"""The tools make their environment once, say plainly what is missing, and pass on how it went."""

import ast
import configparser
import contextlib
import importlib.util
import io
import json
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"
needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")


def put_numpy(venv: Path) -> Path:
    """The folder of numpy in a fake environment, made."""
    at = venv / ("Lib" if os.name == "nt" else "lib/python3.99") / "site-packages" / "numpy"
    at.mkdir(parents=True, exist_ok=True)
    (at / "__init__.py").touch()
    return at


def loaded(name: str) -> ModuleType:
    """A script of tools/ as a module, its `main` not run."""
    loader = SourceFileLoader(f"tools_{name}", str(TOOLS / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """tools/_env.py at work on an empty checkout, with a fake `venv` and a fake pip.

    ``env.done`` lists what they did, and ``env.failure`` is raised by the next pip.
    """
    monkeypatch.setattr(sys, "path", sys.path[:])
    env: Any = loaded("_env.py")
    for name in env.RECIPE:
        (tmp_path / name).write_text("first")
    env.done, env.failure = [], None
    at = tmp_path / ".venv"
    monkeypatch.setattr(env, "ROOT", tmp_path)
    monkeypatch.setattr(env, "VENV", at)
    monkeypatch.setattr(env, "STAMP", at / "stamp.json")
    monkeypatch.setattr(env, "LOG", at / "log")

    class Builder:
        def __init__(self, **options: object) -> None: ...

        def create(self, folder: Path) -> None:
            env.done.append("made")
            env._python().parent.mkdir()
            env._python().touch()

    def install(python: Path, extra: str) -> None:
        assert python == env._python()
        env.done.append(f"installed [{extra}]")
        if env.failure:
            raise env.failure
        put_numpy(env.VENV)

    monkeypatch.setattr("venv.EnvBuilder", Builder)
    monkeypatch.setattr(env, "_install", install)
    return env


def test_an_environment_is_made_once(env: Any) -> None:
    """The second run uses what the first has made, and does nothing."""
    assert env.environment() == env.environment() == env._python()
    assert ["made", "installed []"] == env.done


def test_the_tests_extra_is_added_and_stays(env: Any) -> None:
    """An extra is installed into the environment there is; without one, it serves as well."""
    for extra in ("", "test", "", "test"):
        env.environment(extra)
    assert ["made", "installed []", "installed [test]"] == env.done


def test_a_changed_recipe_is_installed_again(env: Any) -> None:
    """When setup.cfg changes, the package and the extra it had are installed again."""
    env.environment("test")
    (env.ROOT / "setup.cfg").write_text("second")
    env.environment()
    assert ["made", "installed [test]", "installed [test]"] == env.done


def restamped(old: str, new: str) -> Callable[[Any], object]:
    """A damage: something else stands in the stamp."""
    return lambda env: env.STAMP.write_text(env.STAMP.read_text().replace(old, new))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda env: env.STAMP.write_text("{}"), id="interrupted"),
        pytest.param(lambda env: env.STAMP.write_text('{"root": "'), id="torn stamp"),
        pytest.param(lambda env: env._python().unlink(), id="no interpreter"),
        pytest.param(lambda env: shutil.rmtree(put_numpy(env.VENV)), id="no numpy"),
        pytest.param(restamped("CPython ", "CPython 9"), id="another Python"),
        pytest.param(restamped('"root": "', '"root": "elsewhere'), id="moved"),
    ],
)
def test_a_broken_environment_is_made_anew(env: Any, damage: Callable[[Any], object]) -> None:
    """One that is half made, damaged, moved or of another Python is removed and made anew."""
    env.environment()
    (env.VENV / "old").touch()
    damage(env)
    env.environment()
    assert ["made", "installed []"] * 2 == env.done
    assert not (env.VENV / "old").exists()


def test_an_interrupted_pip_is_not_trusted(env: Any) -> None:
    """After a Ctrl-C during the installation, the next run makes the environment anew."""
    env.failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        env.environment()
    env.failure = None
    env.environment()
    assert ["made", "installed []"] * 2 == env.done


def test_a_failed_pip_is_tried_again(env: Any) -> None:
    """After pip has failed by itself, the next run installs again into the same environment."""
    env.failure = env.ToolError("no network")
    with pytest.raises(env.ToolError):
        env.environment()
    env.failure = None
    env.environment()
    assert ["made", "installed []", "installed []"] == env.done


@pytest.mark.parametrize(
    ("name", "encoding", "told"),
    [
        (
            "a;b:c",
            "utf-8",
            f"the '{os.pathsep}' in it would divide it in a PATH; move the checkout",
        ),
        ("cl\udcf6ne", "utf-8", "surrogates not allowed; move the checkout"),
        (
            "cl\udcf6ne",
            "ascii",
            "surrogates not allowed; the locale has .* ascii: set PYTHONUTF8=1",
        ),
    ],
)
def test_a_folder_in_which_no_environment_can_be_made_is_told(
    env: Any, monkeypatch: pytest.MonkeyPatch, name: str, encoding: str, told: str
) -> None:
    """As where the locale cannot read its name; the environment that is there stays."""
    monkeypatch.setattr(env, "_make", env.done.append)
    monkeypatch.setattr(env, "VENV", env.ROOT / name / ".venv")
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: encoding)
    with pytest.raises(env.ToolError, match=rf"venv makes an environment, got .*: .*{told}"):
        env.environment()
    assert [] == env.done


def test_an_environment_is_the_same_in_any_locale(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The name of its folder is told by bytes, and not as the locale has these read."""
    at = tmp_path / "clöne"
    (at / "tools").mkdir(parents=True)
    shutil.copy(TOOLS / "_env.py", at / "tools")
    for name in ("setup.cfg", "setup.py", "pyproject.toml"):
        (at / name).touch()
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    told = []
    for utf8 in ("0", "1"):
        monkeypatch.setenv("PYTHONUTF8", utf8)
        command = [sys.executable, "-c", "import json, _env; print(json.dumps(_env._recipe()))"]
        told.append(subprocess.check_output(command, cwd=at / "tools", timeout=60))
    assert told[0] == told[1]
    assert str(at.resolve()) == json.loads(told[0])["place"]["root"]


def test_what_the_encoding_of_the_output_lacks_is_printed_all_the_same(
    env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the name of a folder, where the output is redirected on Windows, say."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    assert 0 == env.printed("demo", "it was made in clöne")
    assert ["it was made in cl\\xf6ne"] == written.getvalue().decode().splitlines()


def test_an_environment_of_somebody_else_that_is_out_of_date_is_told(
    env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a checkout that several use: it may be read, and not written."""
    env.environment()

    def refused(stamp: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(env, "_write_stamp", refused)
    with pytest.raises(env.ToolError, match=r"expected to write in .*, got: .* Permission denied"):
        env.environment("test")


def test_a_strangers_environment_is_left_alone(env: Any) -> None:
    """A .venv that the tools did not make is refused, not removed."""
    (env.VENV / "bin").mkdir(parents=True)
    with pytest.raises(env.ToolError, match="got another; move or remove it"):
        env.environment()
    assert (env.VENV / "bin").exists()
    assert [] == env.done


def test_a_file_in_its_place_is_told(env: Any) -> None:
    """Where .venv is a file, the message says so, and the file stays."""
    env.VENV.write_text("mine")
    with pytest.raises(env.ToolError, match=r"expected no .*\.venv, .* got a file; move or remove"):
        env.environment()
    assert "mine" == env.VENV.read_text()


def test_the_tools_load_without_venv(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without `venv` still reads the tools, to be told so plainly."""
    monkeypatch.setitem(sys.modules, "venv", None)
    assert loaded("_env.py").environment


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_python_without_venv_is_told_what_to_install(
    env: Any, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Where a Python is packaged without `venv`, the message names it and its package."""
    monkeypatch.setattr(
        env.importlib.util, "find_spec", lambda name: None if name == missing else 1
    )
    with pytest.raises(env.ToolError, match=f"module {missing}, got .*apt install python3-venv"):
        env.environment()


def test_a_read_only_checkout_is_refused(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written, the message says where, why, and what to do."""

    def mkdir(path: Path, *options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(env.ToolError, match=r"to write in .*\.venv.*Permission denied.*; copy the"):
        env.environment()


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("WARNING: Retrying\nERROR: No matching distribution\n", "ERROR: No matching distribution"),
        (
            "  ../meson.build:1:0: ERROR: Unknown compiler(s)\nerror: metadata-generation-failed\n",
            "../meson.build:1:0: ERROR: Unknown compiler(s)",
        ),
        ("error: metadata-generation-failed\n> numpy\n", "error: metadata-generation-failed"),
        (
            "  ../meson.build:1:0: ERROR: Unknown compiler(s)\nERROR: Could not build wheels\n",
            "../meson.build:1:0: ERROR: Unknown compiler(s)",
        ),
    ],
    ids=["network", "compiler", "build", "compiler of a wheel"],
)
def test_a_pip_that_fails_is_quoted(
    env: Any, monkeypatch: pytest.MonkeyPatch, said: str, quoted: str
) -> None:
    """The message has what went wrong and the file with all it said; it need not be the network."""

    def pip(command: list[str], cwd: Path, *, stdout: Any, **streams: Any) -> int:
        assert ["--editable", ".[test]"] == command[-2:]
        stdout.write(said.encode() + b"note: not pip\nhint: See above for details.\n")
        return 1

    env.VENV.mkdir()
    real: Any = loaded("_env.py")
    for name in ("VENV", "LOG"):
        monkeypatch.setattr(real, name, getattr(env, name))
    monkeypatch.setattr(real, "call", pip)
    with pytest.raises(real.ToolError) as refused:
        real._install(Path("python"), "test")
    assert f": {quoted}\n    If it had no network: " in str(refused.value)
    assert str(refused.value).endswith(str(env.LOG))


def test_an_interrupt_of_pip_is_no_failure_of_it(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had said by then does not tell what to do."""
    env.VENV.mkdir()
    real: Any = loaded("_env.py")
    monkeypatch.setattr(real, "LOG", env.LOG)
    monkeypatch.setattr(real, "call", lambda *_, **streams: real.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        real._install(Path("python"), "test")


@pytest.mark.parametrize("inside", ["", "::test_a", "::test_a[x::y]"])
@pytest.mark.parametrize("name", ["test_x.py", "./test_x.py", "../here/test_x.py"])
def test_a_file_of_tests_is_named_from_where_one_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, inside: str
) -> None:
    """However it is written: pytest is run in the root."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "test_x.py").touch()
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(here)
    test: Any = loaded("test")
    assert str((here / "test_x.py").resolve()) + inside == test.from_root(name + inside)


@pytest.mark.parametrize("name", ["test_x.py", "../tests/test_x.py", "{here}/test_x.py"])
def test_a_file_of_the_checkout_is_named_from_its_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """For pytest a bracket in the path of the checkout would be that of a test's parameters."""
    here = tmp_path / "[1]" / "tests"
    here.mkdir(parents=True)
    (here / "test_x.py").touch()
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(here)
    test: Any = loaded("test")
    monkeypatch.setattr(test._env, "ROOT", here.parent.resolve())
    expected = os.path.join("tests", "test_x.py") + "::test_a"
    assert expected == test.from_root(name.format(here=here) + "::test_a")


def test_a_word_after_an_option_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in tools/test -k engine, where there is a folder of this name."""
    (tmp_path / "engine").mkdir()
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    test: Any = loaded("test")
    asked: list[str] = []
    monkeypatch.setattr(test._env, "environment", lambda name: "python")
    monkeypatch.setattr(test, "module", lambda python, command: asked.extend(command))
    test.test(["-k", "engine", "engine"])
    assert ["pytest", "-k", "engine", str(tmp_path.resolve() / "engine")] == asked


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


@pytest.mark.parametrize("name", ["_command.py", *COMMANDS])
def test_an_old_python_can_read_a_command(name: str) -> None:
    """As far as this Python can tell: none of it is newer than Python 3.4."""
    ast.parse((TOOLS / name).read_text(encoding="utf-8"), feature_version=(3, 4))


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


@pytest.fixture
def checkcfg(tmp_path: Path) -> Callable[[], tuple[int, str, str]]:
    """tools/checkcfg in a copy of the checkout, run by a Python without numpy."""
    for name in ("tools", "threadloader"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "config_schema.json", tmp_path)
    (tmp_path / "c.json").write_text("{}")

    def run() -> tuple[int, str, str]:
        # -S: without the packages that are installed, -E: or named by PYTHONPATH.
        command = [sys.executable, "-S", "-E", "tools/checkcfg", "c.json", "--source-in-code"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    return run


@pytest.mark.skipif(os.name == "nt", reason="the interpreter of the environment is a shell script")
def test_checkcfg_finds_numpy_in_the_environment(
    checkcfg: Callable[[], tuple[int, str, str]], tmp_path: Path
) -> None:
    """Where the tools have made .venv, tools/checkcfg runs in it by itself."""
    put_numpy(tmp_path / ".venv")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    assert (0, "c.json: OK\n", "") == checkcfg()


def test_checkcfg_without_numpy_names_the_ways_to_get_it(
    checkcfg: Callable[[], tuple[int, str, str]],
) -> None:
    """Without an environment it says what to do, and exits with 2."""
    code, out, err = checkcfg()
    assert (2, "") == (code, out)
    assert err.startswith("tools/checkcfg: expected numpy, found none; write python3 tools/demo, ")
    assert err.endswith(f"{sys.executable} -m pip install numpy\n")


def test_a_numpy_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    """As one that was made for another Python."""
    (tmp_path / "numpy.py").write_text(
        "raise ImportError('\\n\\nA page of advice\\nOriginal error was: no such file\\n')"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, ROOT / "tools" / "checkcfg", "c.json"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    said = "tools/checkcfg: expected numpy, got one that does not work: Original error was: "
    said += "no such file"
    hint = f"; write {sys.executable} -m pip install --force-reinstall numpy\n"
    assert (2, "", said + hint) == (ran.returncode, ran.stdout, ran.stderr)


def test_the_package_without_numpy_says_so_in_a_line() -> None:
    """`python -m threadloader` in a checkout, with no packages installed."""
    command = [sys.executable, "-S", "-E", "-m", "threadloader", "check", "c.json"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (1, "", 1) == (ran.returncode, ran.stdout, ran.stderr.count("\n"))
    assert f"No module named 'numpy'; write: {sys.executable} -m pip install numpy" in ran.stderr


def test_a_tool_that_runs_in_the_environment_does_not_go_round(
    env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A numpy that .venv has and cannot import is told, not looked for in .venv once more."""
    env.environment()
    monkeypatch.setattr(sys, "prefix", str(env.VENV))
    assert 2 == env.without_numpy("tools/x")


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


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> Any:
    """tools/test with fakes: ``tests.ran`` lists the commands, ``tests.codes`` how they end.

    The soak is one of them where it is waited for; ``tests.beside_for_real`` is what runs it.
    """
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "_env", raising=False)
    tests: Any = loaded("test")
    tests.ran, tests.codes = [], {}

    def call(command: list[str], cwd: Path | None = None) -> int:
        assert ["python", "-m"] == command[:2]
        assert ROOT == cwd
        tests.ran.append(" ".join(command[2:]))
        return int(tests.codes.get(command[2], 0))

    @contextlib.contextmanager
    def beside(python: str, campaign: list[str]) -> Iterator[Callable[[], int]]:
        yield lambda: call([python, "-m", *campaign], ROOT)

    tests.beside_for_real = tests.beside
    monkeypatch.setattr(tests, "beside", beside)
    monkeypatch.setattr(tests._env, "environment", lambda extra: "python")
    monkeypatch.setattr(tests._env, "call", call)
    return tests


EVERYTHING = [
    "ruff check .",
    "ruff format --check .",
    "mypy",
    "pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder",
    "campaigns.soak --minutes 5 --seed 1",
]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ({}, 0),
        ({"ruff": 1}, 1),
        ({"mypy": 2}, 1),
        ({"pytest": 5}, 5),
        ({"mypy": 1, "pytest": 3}, 3),
        ({"campaigns.soak": 1}, 1),
    ],
)
def test_all_checks_run_and_any_failure_counts(
    tests: Any, codes: dict[str, int], expected: int
) -> None:
    """Without arguments everything runs, and one failure is enough to fail."""
    tests.codes = codes
    assert expected == tests.test([])
    assert EVERYTHING == tests.ran


def test_a_failed_check_is_said_at_the_end_too(
    tests: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """What failed before the tests is the last line on stderr; stdout ends as pytest ends it."""
    tests.codes = {"mypy": 1, "campaigns.soak": 1}
    tests.test([])
    out, err = capsys.readouterr()
    before = "tools/test: FAILED before the tests: mypy\n"
    assert before + "tools/test: FAILED beside the tests: the soak\n" == err
    *_, run, soak = EVERYTHING
    told = f"== FAILED, see above: mypy; the tests follow\n== {soak}, beside the tests\n"
    assert out.endswith(f"{told}== {run}\n")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no soak is begun there")
class TestBeside:
    """What runs while the tests do."""

    def test_nothing_is_told_of_what_goes_well(
        self, tests: Any, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with tests.beside_for_real(sys.executable, ["this"]) as ended:
            assert 0 == ended()
        assert ("", "") == capfd.readouterr()

    def test_what_fails_says_why(self, tests: Any, capsys: pytest.CaptureFixture[str]) -> None:
        with tests.beside_for_real(sys.executable, ["campaigns.soak", "--minutes", "0"]) as ended:
            assert 2 == ended()
        assert "--minutes: " in capsys.readouterr().err

    def test_it_is_ended_when_the_tests_are_interrupted(
        self, tests: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun: list[subprocess.Popen[str]] = []

        class Noted(subprocess.Popen[str]):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                begun.append(self)

        monkeypatch.setattr(subprocess, "Popen", Noted)
        soak = tests.beside_for_real(sys.executable, ["campaigns.soak", "--minutes", "1"])
        with pytest.raises(KeyboardInterrupt), soak:
            raise KeyboardInterrupt
        assert [-signal.SIGKILL] == [child.returncode for child in begun]

    @pytest.mark.parametrize(("niceness", "expected"), [(0, 5), (10, 10)])
    def test_it_gives_way_and_takes_nothing_back(
        self, tests: Any, monkeypatch: pytest.MonkeyPatch, niceness: int, expected: int
    ) -> None:
        given: list[int] = []
        monkeypatch.setattr(os, "getpriority", lambda which, who: niceness)
        monkeypatch.setattr(os, "setpriority", lambda which, who, new: given.append(new))
        with tests.beside_for_real(sys.executable, ["this"]):
            assert [expected] == given

    def test_a_system_that_refuses_it_is_no_failure(
        self, tests: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(which: int, who: int, niceness: int) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "setpriority", refused)
        with tests.beside_for_real(sys.executable, ["this"]) as ended:
            assert 0 == ended()


def test_every_script_is_looked_at_by_the_checker() -> None:
    """It finds no file without an extension by itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    scripts = sorted(f"tools/{it.name}" for it in TOOLS.iterdir() if it.is_file() and not it.suffix)
    assert scripts == project["tool"]["ruff"]["extend-include"]


def test_a_new_release_of_a_checker_breaks_no_checkout() -> None:
    """The checkers have an upper bound, and ruff leaves the documents alone."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    wanted = setup["options.extras_require"]["test"].split()
    assert ["mypy", "ruff"] == [it.partition(">")[0] for it in wanted if "<" in it]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert ["*.md"] == project["tool"]["ruff"]["extend-exclude"]


def test_an_interrupt_ends_the_whole_run(tests: Any) -> None:
    """A Ctrl-C during a check does not go on with the next."""
    tests.codes = {"mypy": 130}
    with pytest.raises(KeyboardInterrupt):
        tests.test([])
    assert EVERYTHING[:3] == tests.ran


def test_arguments_go_to_pytest_alone(
    tests: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With arguments only pytest runs; a file is found from the root and from where one stands."""
    (tmp_path / "test_here.py").touch()
    monkeypatch.chdir(tmp_path)
    tests.test(["-k", "name", "tests/test_tools.py", "test_here.py::test_x"])
    here = (tmp_path / "test_here.py").resolve()
    assert [f"pytest -k name tests/test_tools.py {here}::test_x"] == tests.ran


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
