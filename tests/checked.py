"""Configs that ``threadloader check`` is run on by its tests, in a folder with their data."""

import json
import os
from pathlib import Path

import numpy as np
from commands import calling

from threadloader.adapters import launcher

__all__ = ["NPZ", "TEXT", "at", "checking", "with_data", "write"]

NPZ = {"type": "npz", "path": "x.npz"}
TEXT = {"type": "text", "path": "a.txt"}


def with_data(tmp_path, monkeypatch):
    """A folder with data, and no launcher around it; the current one."""
    np.savez(tmp_path / "x.npz", x=np.arange(12.0).reshape(6, 2), y=np.arange(6, dtype=np.int64))
    (tmp_path / "a.txt").write_bytes(b"one\n\nthree\n")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.txt").touch()
    for name in os.environ:
        if any(name in (rank, *counts) for _, rank, counts in launcher.LAUNCHERS):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(config, name="c.json"):
    text = config if isinstance(config, str) else json.dumps(config)
    Path(name).write_text(text, encoding="utf-8")
    return name


def at(name, part):
    """The place in a config of one line, as problems have it."""
    return f"{name}:1:{Path(name).read_text(encoding='utf-8').index(part) + 1}:"


def checking(folder, capsys):
    """Gives a function that runs ``threadloader check``: exit code, stdout, stderr."""
    return calling(capsys, "check")
