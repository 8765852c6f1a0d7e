"""The tools make their environment once, find numpy in it, and say plainly what is missing."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tool_scripts import ROOT, TOOLS, env, loaded, put_numpy

__all__ = ["env"]  # the fixture


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
    with pytest.raises(
        env.ToolError, match=r"expected no .*\.venv, .* got what is no folder; move"
    ):
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
