"""What `verify` is run on by its tests, with experiments that are short, and what it has found."""

import sys
import time
from pathlib import Path

import faults
import numpy as np

from threadloader import verify
from threadloader.verify import _causes, _record, _stress

__all__ = [
    "CONFIG",
    "DOCUMENT",
    "NPZ",
    "Box",
    "failing",
    "found",
    "report_of",
    "unhurried",
    "with_data",
]

DOCUMENT = (Path(__file__).parent.parent / "docs" / "verify.md").read_text(encoding="utf-8")
CONFIG = {"batch_size": 4, "seed": 5}
NPZ = {"type": "npz", "path": "x.npz"}


def unhurried(monkeypatch):
    """Fails a test that leaves the clock stopped or threads in a hurry; experiments are short."""
    # On a slow machine it would leave out batches, and say so.
    monkeypatch.setattr(_record, "BUDGET_SECONDS", float("inf"))
    monkeypatch.setattr(_stress, "SECONDS", 0.3)
    monkeypatch.setattr(_causes, "STRESS_SECONDS", 0.3)
    monkeypatch.setattr(_causes, "GLANCE_SECONDS", 0.02)
    monkeypatch.setattr(_causes, "ALONE_SECONDS", 0.05)
    clock, interval = time.time, sys.getswitchinterval()
    yield
    assert (clock, interval) == (time.time, sys.getswitchinterval())


def with_data(tmp_path, monkeypatch):
    """The current folder, with data."""
    np.savez(tmp_path / "x.npz", x=np.arange(60.0).reshape(30, 2), y=np.arange(30))
    lines = "".join(f"{'word ' * (n % 5)}{n}\n" for n in range(30))
    (tmp_path / "x.txt").write_text(lines, encoding="utf-8")
    np.arange(400, dtype="<u2").tofile(tmp_path / "x.bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report_of(source=faults.Source, config=CONFIG, **given):
    return verify.run(config, source=source, **given)


def found(report):
    """The part and the kind of each cause."""
    return [(cause.part, cause.kind) for cause in report.causes]


class Box:
    """What no fingerprint can be taken of."""

    def __init__(self, values):
        self.values = values


def failing(*arguments):
    raise OSError("no memory")
