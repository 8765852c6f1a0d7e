"""Runs give what is written down, whatever the version, the workers and the batches ahead."""

import re

import numpy as np
import pinned
import pytest
from campaigns import versions


@pytest.mark.parametrize("part", range(4))
def test_runs_come_to_what_is_written_down(part, tmp_path):
    """Each in one way; the campaign plays each in every way."""
    quarter = pinned.RUNS // 4
    assert [] == versions.drifted(range(part * quarter, (part + 1) * quarter), 1, tmp_path)


def test_the_runs_are_of_every_kind():
    """So that the goldens hold all of it, and not much that is empty."""
    runs = [pinned.drawn(number) for number in range(pinned.RUNS)]
    assert {*pinned.IN_CODE, *pinned.IN_FILES} == {run.kind for run in runs}
    samplers = {(run.config.get("sampler") or {}).get("type") for run in runs}
    assert set(pinned.SAMPLERS) - {"sequence", "callable"} == samplers
    expected = pinned.goldens()
    assert list(range(pinned.RUNS)) == list(expected)
    assert sum(line["batches"] == 0 for line in expected.values()) < pinned.RUNS // 10


def test_each_way_is_the_first_and_the_second_of_some_run(monkeypatch, tmp_path):
    """And equally many runs begin in each."""
    played, count = [], len(pinned.WAYS)
    monkeypatch.setattr(pinned, "played", lambda run, folder, *lives: played.append(lives))
    versions.drifted(range(count), 1, tmp_path)
    first, second = zip(*played, strict=True)
    assert [sorted(pinned.WAYS)] * 2 == [sorted(first), sorted(second)]
    assert pinned.RUNS % count == 0


def test_a_sample_that_changes_is_drift(monkeypatch, capsys):
    monkeypatch.setitem(pinned.IN_CODE, "array", lambda n: np.ones((n, 2), np.int32))
    assert 1 == versions.main(["--count", "40", "--ways", "1"])
    told = capsys.readouterr()
    arrays = [str(n) for n in range(40) if pinned.drawn(n).kind == "array"]
    assert arrays == re.findall(r"^run (\d+),", told.err, re.MULTILINE)
    assert told.out.startswith(f"versions: {len(arrays)} drifted of 40; ")


def test_a_state_that_changes_is_drift(monkeypatch, tmp_path):
    """Of a source that calls itself something else, which no batch shows."""
    monkeypatch.setattr(pinned.Plain, "fingerprint", lambda source: "another")
    runs = range(40)
    ours = sum(pinned.drawn(n).kind in ("rows", "uneven", "failing") for n in runs)
    assert ours == len(versions.drifted(runs, 1, tmp_path))


def test_the_campaign_ends_with_what_it_ran_on(capsys):
    assert 0 == versions.main(["--count", "3", "--ways", "24"])
    line = r"versions: 0 drifted of 72; \w+ [\d.a-z+]+, GIL (on|off), numpy [\d.]+, \S+, \d+ s\n"
    assert re.fullmatch(line, capsys.readouterr().out)


def test_what_is_written_anew_is_what_is_there(monkeypatch, tmp_path):
    """`--write` gives the same file, byte for byte; so it is not written by hand."""
    there = pinned.GOLDENS.read_bytes()
    monkeypatch.setattr(pinned, "GOLDENS", tmp_path / "runs.json")
    monkeypatch.setattr(pinned, "RUNS", 12)
    assert 0 == versions.main(["--write"])
    anew = pinned.GOLDENS.read_bytes()
    assert there[: len(anew) - 3] == anew[:-3]
