"""The scripts of tools/ as modules, and the environment that they make, all that it uses faked."""

import importlib.util
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"


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
