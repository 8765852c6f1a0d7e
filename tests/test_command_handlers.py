"""What a signal handler raises while a command is at work ends the command, as Ctrl-C does."""

import itertools
import signal
import sys
from types import SimpleNamespace

import pytest

from threadloader import cli
from threadloader._command_line import named
from threadloader.adapters import torch_loader
from threadloader.bench import _command
from threadloader.verify import _inner_state


def rings(*args, **options):
    signal.raise_signal(signal.SIGTERM)


@pytest.fixture(autouse=True)
def ends():
    """End the process on SIGTERM, as many programs do."""

    def end(number, frame):
        sys.exit(143)

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def rung(tmp_path, monkeypatch):
    """A module of the user's; its functions are interrupted, and so is the import of another."""
    (tmp_path / "rung.py").write_text(
        "import signal\n"
        "def source():\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "def good():\n"
        "    return list(range(64))\n"
        "def transform(sample):\n"
        "    signal.raise_signal(signal.SIGTERM)\n",
        encoding="utf-8",
    )
    (tmp_path / "ringing.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGTERM)\n", encoding="utf-8"
    )
    (tmp_path / "c.json").write_text('{"num_workers": 0}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("rung", "ringing"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("command", ["check", "verify"])
@pytest.mark.parametrize(
    "code", [["--source", "rung:source"], ["--source", "rung:good", "--transform", "ringing:it"]]
)
@pytest.mark.usefixtures("rung")
def test_it_ends_the_command_while_code_of_the_users_is_asked(command, code, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "c.json", *code])
    assert (143, "", "") == (caught.value.code, *capsys.readouterr())


def test_it_may_be_of_the_very_kind_by_which_a_missing_module_is_told(monkeypatch):
    own = ImportError("my own")

    def ring(number, frame):
        raise own

    monkeypatch.setattr("importlib.import_module", rings)
    signal.signal(signal.SIGTERM, ring)
    with pytest.raises(ImportError) as caught:
        named("--source", "rung:source")
    assert caught.value is own


@pytest.mark.parametrize("asked", ["torch", "a cycle"])
def test_an_exception_that_it_raises_is_not_taken_for_an_answer(asked, monkeypatch):
    def ring(number, frame):
        raise TimeoutError("my own")

    signal.signal(signal.SIGTERM, ring)
    monkeypatch.setattr(torch_loader, "is_installed", lambda: True)
    monkeypatch.setattr(torch_loader, "import_torch", rings)
    monkeypatch.setattr(_inner_state, "warnings", SimpleNamespace(catch_warnings=rings))
    with pytest.raises(TimeoutError, match="my own"):
        _command._broken_torch() if asked == "torch" else _inner_state._round(itertools.cycle("ab"))
