"""tools/test runs every check and says which failed, or gives pytest alone what was asked for."""

import configparser
import contextlib
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tool_scripts import ROOT, TOOLS, loaded


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
