"""Memory is flat while runs come and go, and what comes is exact: `campaigns.soak` for a while."""

import os
import random
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from types import SimpleNamespace as Namespace

import pytest
from campaigns.soak import BLOCKS, MEBIBYTE, Points, main, slope
from leaks import resident
from rounds import Soak

MINUTES = 5
"""Of the soak that is run at each commit. It goes on beside the other tests, in a process of its
own: conftest begins it before the first of them, and its test is the last."""

beside = []
"""The soak that was begun and has not been waited for."""

needs_resident = pytest.mark.skipif(
    not resident(), reason="the system does not say how much memory a process has"
)


def begun(*args, output):
    """Begins the campaign in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "campaigns.soak", *args],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=output,
        stderr=subprocess.STDOUT,
    )


def begin():
    """Begins the soak that goes on beside the other tests."""
    if resident() and not beside:
        output = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `end`)
        beside[:] = begun("--minutes", str(MINUTES), "--seed", "1", output=output), output


def end():
    """Ends it, if nobody has waited for it: another test has ended all of them."""
    if beside:
        process, output = beside
        beside.clear()
        process.kill()
        process.wait()
        output.close()


@needs_resident
def test_a_soak_finds_no_growth_and_no_wrong_batch():
    """Threads, files and objects are looked at every second, each batch when it comes."""
    begin()
    process, output = beside
    try:
        code = process.wait()
        output.seek(0)
        said = output.read()
    finally:
        end()
    assert 0 == code, said
    assert said.endswith("0 failed\n")


@needs_resident
def test_a_soak_finds_a_leak():
    """One of 200 KB a round, planted."""
    with tempfile.TemporaryFile("w+") as output:
        leak = ("--minutes", "0.2", "--every", "0.2", "--leak", "200000")
        with begun(*leak, output=output) as child:
            assert 1 == child.wait()
        output.seek(0)
        assert "FAILED: memory grows" in output.read()


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


def test_too_few_measurements_are_no_line():
    with pytest.raises(ValueError, match="expected at least 20 measurements, got 3"):
        slope([(1.0, 1), (2.0, 1), (3.0, 1)])


@pytest.mark.parametrize("args", [["--minutes", "0"], ["--minutes", "x"]])
def test_a_time_that_is_none_is_refused(args, capsys):
    if not resident():
        assert 2 == main(["--minutes", "1"])
        return
    with pytest.raises(SystemExit, match="2"):
        main(args)
    assert "--minutes: " in capsys.readouterr().err


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
