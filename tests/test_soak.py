"""Memory is flat while runs come and go, and what comes is exact: `campaigns.soak` for a while."""

import ctypes
import os
import random
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from types import SimpleNamespace as Namespace

import pytest
from campaigns.soak import ARENAS, BLOCKS, MEBIBYTE, Points, main, slope
from leaks import resident
from rounds import Soak

needs_resident = pytest.mark.skipif(
    not resident(), reason="the system does not say how much memory a process has"
)


@needs_resident
def test_a_soak_finds_a_leak():
    """One of 200 KB a round, planted."""
    leak = ("--minutes", "0.3", "--every", "0.1", "--leak", "200000")
    soak = subprocess.run(
        [sys.executable, "-m", "campaigns.soak", *leak],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert 1 == soak.returncode
    assert "FAILED: memory grows" in soak.stdout


def test_a_line_is_fitted_as_it_is():
    """Exactly a MiB an hour, from points that lie on it."""
    fitted = slope((second, second * MEBIBYTE // 3600) for second in range(0, 7200, 60))
    assert pytest.approx((1, 1), abs=1e-4) == (fitted.slope, fitted.bound)


def test_the_bound_of_a_flat_line_holds_in_19_of_20_cases():
    """Of normal noise around it: the bound is above the truth in 95% of 2,000 trials."""
    draw = random.Random(1)
    above = 0
    for _ in range(2000):
        points = [(float(t), int(draw.gauss(100, 1) * MEBIBYTE)) for t in range(2 * BLOCKS)]
        above += slope(points).bound > 0
    assert 0.93 < above / 2000 < 0.97


def test_measurements_are_kept_in_memory_that_does_not_grow():
    """Which a soak of hours would take for a leak of what it soaks."""
    points = Points(1000)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for second in range(1000):
            points.add(second + 0.5, 1_000_000 + second % 7)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1000
    assert [(t + 0.5, 1_000_000 + t % 7) for t in range(1000)] == points.rows()
    assert (1_000_005, 1_000_006) == (points.last, points.most)


KEPT = """
import ctypes, sys
from random import Random
import numpy as np
from campaigns.soak import fill_caches

class Info(ctypes.Structure):
    _fields_ = [(f"field {number}", ctypes.c_size_t) for number in range(10)]

def used():  # bytes that the C library has given away, of large pieces and of the others
    found = mallinfo2()
    return getattr(found, "field 4") + getattr(found, "field 7")

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Info
fill_caches()
before, draw = used(), Random(1)
for number in range(50_000):
    kept = [np.empty(draw.randrange(1, 1024), np.uint8) for _ in range(4)]
    sys.intern(f"another {number}")
kept.clear()
print(used() - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="asks glibc >= 2.33",
)
@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="3.12 keeps every interned string")
def test_what_cpython_and_numpy_keep_is_full_before_the_first_round():
    """They would take 4 MiB more for it, in steps that a line takes for a leak."""
    used = subprocess.run(
        [sys.executable, "-c", KEPT],
        env={**os.environ, **ARENAS, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert int(used.stdout) < 100_000


def test_too_few_measurements_are_no_line():
    with pytest.raises(ValueError, match="expected at least 20 measurements, got 3"):
        slope([(1.0, 1), (2.0, 1), (3.0, 1)])


@pytest.mark.parametrize("args", [["--minutes", "0"], ["--minutes", "x"], ["--every", "0"]])
def test_a_time_that_is_none_is_refused(args, capsys):
    if not resident():
        assert 2 == main(["--minutes", "1"])
        return
    with pytest.raises(SystemExit, match="2"):
        main(args)
    assert f"{args[0]}: " in capsys.readouterr().err


def test_a_round_sees_a_batch_that_is_changed_after_it_came(tmp_path, monkeypatch):
    """As one whose memory is used again too early would be."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    soak = Soak(1, Path(tmp_path))
    while not soak.held:
        soak.round()
    batch, came = soak.held[0]
    soak.held[0] = batch, [number + 1 for number in came]
    with pytest.raises(AssertionError, match="changed after it was delivered"):
        soak.let_go(1)


@pytest.mark.parametrize("missing", [0, -1])
def test_a_round_sees_a_batch_that_is_lost(missing, tmp_path, monkeypatch):
    """The oracle is told of one more than comes, at the beginning or the end."""
    import rounds

    honest = rounds.expected_epoch

    def more(order, **deal):
        found = honest(order, **deal)
        extra = [([len(order)], [0], [True])]
        return extra + found if missing == 0 else found + extra

    monkeypatch.setattr(rounds, "expected_epoch", more)
    monkeypatch.setattr(rounds, "Chain", lambda *chain: Namespace(cuts=0))
    soak = Soak(3, Path(tmp_path))
    with pytest.raises(AssertionError):
        soak.rounds(20)  # an epoch that is left early does not show it
