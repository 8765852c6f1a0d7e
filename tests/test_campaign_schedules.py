"""tools/campaign runs what stands under tests/, in several processes, and says how it went."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import aliasing, cases, kills, resumes, schedules, versions
from sim import BUGGY
from tool_scripts import loaded


@pytest.fixture
def options():
    """Gives options as a campaign parses them."""

    def parse(*args):
        return cases.parser("numbers", "Counts.", 1000).parse_args(["--processes=1", *args])

    return parse


def counting(seed, numbers):
    """The work of a campaign: half of its cases are distinct."""
    distinct = {(number // 2).to_bytes(8, "big") for number in numbers}
    return cases.Part(len(numbers), distinct, [], {"steps": seed * len(numbers)})


def failing(seed, numbers):
    return cases.Part(len(numbers), set(), [f"case {number}" for number in numbers[:4]])


def interrupted(seed, numbers):
    if numbers[0] > 0:
        raise KeyboardInterrupt
    return counting(seed, numbers)


def test_a_campaign_ends_with_one_line(options, capsys):
    """It says what ran, how much of it differed, and from which seed."""
    assert 0 == cases.run("numbers", counting, options("--seed=3", "--count=1200"))
    out, err = capsys.readouterr()
    assert out.startswith("numbers: 1,200 run, 600 distinct, 0 failed, 3,600 steps; seed 3, ")
    assert (1, "") == (out.count("\n"), err)


def test_the_last_line_may_be_json(options, capsys):
    assert 0 == cases.run("numbers", counting, options("--json"))
    told = json.loads(capsys.readouterr().out)
    assert (1000, 500, 0) == (told["run"], told["distinct"], told["failed"])


def test_what_is_measured_is_told_by_its_largest_value(options, capsys):
    def measured(seed, numbers):
        return cases.Part(len(numbers), most={"seconds": 1.0 / (1 + numbers[0])})

    assert 0 == cases.run("numbers", measured, options("--count=1200"))
    assert "0 failed, seconds 1; seed 0" in capsys.readouterr().out


def test_failures_are_told_and_end_the_campaign_at_the_tenth(options, capsys):
    """Each text is on stderr; three chunks of 500 have twelve."""
    assert 1 == cases.run("numbers", failing, options("--count=100000"))
    out, err = capsys.readouterr()
    assert 12 == err.count("case ")
    assert out.startswith("numbers: 1,500 run, 0 distinct, 12 failed")


def test_a_ctrl_c_ends_it_with_what_was_done(options, capsys):
    assert 130 == cases.run("numbers", interrupted, options())
    assert capsys.readouterr().out.startswith("numbers: 500 run, ")


def test_several_processes_do_what_one_does(options):
    """The same seed and count, the same schedules, wherever they run."""
    found = []
    for processes in (1, 2):
        total = cases.Part()
        asked = options("--count=600", f"--processes={processes}")
        for part in cases._parts(schedules.work, asked):
            total.add(part)
        found.append(total)
    assert found[0] == found[1]


@pytest.mark.parametrize("option", ["--count=0", "--processes=-1", "--count=x"])
def test_bad_usage_is_told(option, options, capsys):
    with pytest.raises(SystemExit, match="2"):
        options(option)
    assert "expected an integer from 1, got" in capsys.readouterr().err


class TestSchedules:
    def test_a_failure_can_be_replayed_from_its_text(self, capsys):
        """And so can a schedule on which nothing fails."""
        assert 1 == schedules.main(["--replay", "planted name=lock-order@01212"])
        assert "everybody waits, for ever" in capsys.readouterr().err
        assert 0 == schedules.main(["--replay", "planted fixed=1 name=lock-order@"])
        assert capsys.readouterr().out.startswith("schedules: no failure in ")

    def test_all_schedules_of_a_program(self, capsys):
        assert 0 == schedules.main(["--all", "planted name=lock-order fixed=1", "--bound", "1"])
        assert "with 1 preemptions, 0 failed" in capsys.readouterr().out
        assert 1 == schedules.main(["--all", "planted name=lock-order"])
        assert "to replay it: " in capsys.readouterr().err

    @pytest.mark.parametrize("text", ["planted name=lock-order", "nothing@0", "planted@!"])
    def test_a_text_that_tells_nothing_is_refused(self, text, capsys):
        with pytest.raises(SystemExit, match="2"):
            schedules.main(["--replay", text])
        assert "expected " in capsys.readouterr().err

    def test_failures_hold_the_text_that_replays_them(self, monkeypatch):
        """Those of a chunk are gathered; the chunk goes on."""
        from sim import Planted, Random

        drawn = [(Planted(name=name), Random(0)) for name in sorted(BUGGY)]
        monkeypatch.setattr(schedules, "pairs", lambda seed, numbers: drawn)
        part = schedules.work(0, range(len(drawn)))
        assert len(drawn) == part.cases
        assert part.failures
        assert all("--replay 'planted " in text for text in part.failures)


@pytest.fixture
def tool(monkeypatch):
    """tools/campaign with a fake environment; `ran` lists its commands."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "_env", raising=False)
    monkeypatch.setenv("PYTHONPATH", "before")
    tool = loaded("campaign")
    tool.ran = []
    monkeypatch.setattr(tool._env, "environment", lambda extra: "python")
    monkeypatch.setattr(tool._env, "call", lambda command, cwd: tool.ran.append(command) or 0)
    return tool


def test_the_tool_runs_the_module_of_the_campaign(tool):
    """With its arguments, in the environment of the tests."""
    assert 0 == tool.campaign(["schedules", "--seed", "7"])
    assert [["python", "-m", "campaigns.schedules", "--seed", "7"]] == tool.ran


@pytest.mark.parametrize(("args", "expected"), [([], 2), (["x"], 2), (["--help"], 0)])
def test_the_tool_says_which_campaigns_there_are(tool, capsys, args, expected):
    assert expected == tool.campaign(args)
    out, err = capsys.readouterr()
    assert "tools/campaign schedules" in out
    assert bool(expected) == ("expected one of " in err)
    assert [] == tool.ran


def test_an_old_python_gets_one_line(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    with pytest.raises(SystemExit, match=r"expected CPython 3\.11 or newer, got "):
        loaded("campaign")


def test_every_campaign_of_the_tool_has_a_main(tool):
    assert tool.CAMPAIGNS
    for name in tool.CAMPAIGNS:
        assert callable(importlib.import_module(f"campaigns.{name}").main)


ENDED = """
import argparse, os, signal, sys, tempfile, time
from campaigns import cases

def work(seed, numbers):
    tempfile.mkdtemp()
    os.write(1, b"ready\\n")  # in one piece, as print does not where PYTHONUNBUFFERED is set
    while True:
        time.sleep(60)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored,
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and so may nohup this
    options = cases.parser("ended", "", 2).parse_args(["--processes", "2"])
    sys.exit(cases.run("ended", work, options, chunk=1))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without a word to it")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_what_ends_it_ends_its_processes(tmp_path, name):
    """They hold stdout open for as long as they live; what they have made is removed."""
    (tmp_path / "ended.py").write_text(ENDED)
    places = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    (tmp_path / "made").mkdir()
    environment = {**os.environ, "PYTHONPATH": places, "TMPDIR": str(tmp_path / "made")}
    command = [sys.executable, str(tmp_path / "ended.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert ["ready\n"] * 2 == [running.stdout.readline() for _ in range(2)]
            running.send_signal(signal.Signals[name])
            assert running.stdout.read().startswith("ended: 0 run, ")
        except BaseException:
            running.kill()  # else it would be waited for
            raise
    assert (130, []) == (running.returncode, list((tmp_path / "made").iterdir()))


@pytest.mark.parametrize(
    ("campaign", "arguments", "least"),
    [
        (kills, ["--count", "-5"], 1),
        (kills, ["--fresh", "-1"], 0),
        (resumes, ["--count", "0"], 1),
        (resumes, ["--workers", "0", "x"], 0),
        (versions, ["--ways", "-1"], 1),
        (aliasing, ["--count", "0"], 1),
    ],
)
def test_a_number_of_nothing_is_refused(campaign, arguments, least, capsys):
    """It would end with 0 failed."""
    with pytest.raises(SystemExit, match="2"):
        campaign.main(arguments)
    assert f"expected an integer from {least}, got {arguments[-1]}" in capsys.readouterr().err
