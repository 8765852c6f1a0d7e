"""The engine does on random schedules what its protocol can do; a bug does something else.

The protocol is that of test_protocol.py; how the engine is seen stands in model/_seen.py.
"""

import inspect
import re
import textwrap
from unittest.mock import patch

import pytest
from campaigns import model as campaign
from model import Refused, Seen, Size, follow, size, traces, watched
from sim import Deadlock, Diverged, Planted, Random, Replay, SimulationError, program, run

from threadloader.engine import _engine, _feeder, _slots, _stream, _worker

CHUNKS, TRACES = 8, 128


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """A schedule that ends in a bug leaves its engine running, for the exit hook to wait for."""
    monkeypatch.setattr(_engine, "_running", {})


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_the_engine_does_its_protocol_can_do(chunk):
    """A thousand traces: eight ends, 1 to 3 workers, parts, draws and a feeder that fail."""
    found = list(traces(1, range(chunk * TRACES, (chunk + 1) * TRACES)))
    assert [] == [each.failure for each in found if each.failure]
    assert 0.9 * TRACES < len({each.digest for each in found})
    assert 30 < sum(each.events for each in found) / TRACES


def seen(text, driver):
    """Run a scenario; give its size and what was seen, up to where it failed."""
    scenario = program(text)
    trace = Seen(scenario)
    with watched():
        try:
            run(trace, driver)
        except Diverged:  # it would be seen only up to where the schedule fits
            raise
        except SimulationError:
            pass
    return size(scenario, trace.events), trace.events


def test_a_small_run_is_seen_step_by_step():
    _, events = seen("engine end=full parts=1", Replay(""))
    told = [" ".join(map(str, event)) for event in events]
    dealt = ["send 0", "feed 0", "draw 0", "deal 0", "get 0 0", "claim 0 0 1", "look 0 0 False"]
    done = ["begin 0 0 0", "leave 0 0", "look 0 0 False", "finish 0 0", "fill 0 value", "wake 0"]
    stop = ["flag", "tell", "feed -1", "sentinel", "gone 0", "closed"]
    wanted = [*dealt, *done, *stop]
    assert wanted == [event for event in told if event in wanted]


FORGOTTEN = {
    "engine every=line end=in-a-worker workers=2 parts=22 fails=0.0,0.1 gil=5": (
        "00022112123232332323333332344242424444224244400222202220000222220020002200202220"
        "00222032343344323343224444323332332244333432434443343444344334433444434443333323"
        "44323442442442244224224222423332224232343433342234424424244344332244232442323234"
        "33442334324444424344434224333233223223323333323332232332020002023322032320200220"
        "23003322322204233334234202222302223340344030333030333330020222202002020002200022"
        "02202020022220202022200222222222220220222"
    ),
    "engine every=line end=in-a-worker workers=3 depth=2 parts=33 gil=5": (
        "00011122222222222222222222222222222222222224444444444445555555555553332333333333"
        "22222222200000000000000000222000000222222222222222222222222222222222222222222222"
        "22000000000000000000000000022222222222222222222222222222222222222222222555554000"
        "22255555555555555555555555555555555555555555555555555555555522222222222222222222"
        "22222222222222222222222222222222222222222222222222225000000000000000000000000000"
        "00000044444405555555555555555555555555555555555555555555555555555555555555000000"
        "00000000000422255555544444433333322222"
    ),
}
"""A worker in these engines stops them while parts of others fail. The feeder fills the slots, for
which it forgets failure and job first: right then, in the first, the last worker looks; in the
second, one with a ticket that is left finds no job."""


@pytest.mark.parametrize("text", FORGOTTEN, ids=["failure", "job"])
def test_what_a_slot_holds_is_forgotten_before_it_is_filled(text):
    follow(*seen(text, Replay(FORGOTTEN[text])))


@pytest.mark.parametrize("at", range(13))
def test_a_step_that_is_not_told_is_missed(at):
    """Each of the first steps of a run, left out, makes the rest impossible."""
    protocol, events = seen("engine end=full parts=1", Replay(""))
    with pytest.raises(Refused):
        follow(protocol, events[:at] + events[at + 1 :])


def planted(owner, name, old, new):
    """Put a bug in the place of a function."""
    function = getattr(owner, name)
    text = textwrap.dedent(inspect.getsource(function))
    assert 1 == text.count(old)
    made = {}
    exec(text.replace(old, new), function.__globals__, made)
    return patch.object(owner, name, made[name])


Slot = _slots.Slot

HANDED = "engine end=full workers=2 depth=3 parts=111111 light=2"

BUGS = {
    "one worker gets no sentinel": (
        (_feeder, "release", "* shared.num_workers", "* (shared.num_workers - 1)"),
        "closed   <- ",
    ),
    "a stop fills no slot": (
        (_feeder, "_end", "slot.fill(word)", "pass"),
        "sentinel   <- ",
    ),
    "a job is dealt once too often": (
        (_feeder, "_deal_one", "[slot] * hands", "[slot] * (hands + 1)"),
        "deal 0   <- ",
    ),
    "one slot more than the depth is sent": (
        (_stream.Stream, "prefetch", "+ self._depth:", "+ self._depth + 1:"),
        "send 1   <- ",
    ),
    "a worker does not look at the flag": (
        (Slot, "unwanted", "worker.stopped() or ", ""),
        "look 0 0 False   <- ",
    ),
    "parts are claimed behind a failure": (
        (Slot, "_several", " or self._failed is not None", ""),
        r"claim [01] 0 [123]   <- ",
    ),
    "one part is claimed behind a failure": (
        (Slot, "claims", "if failed is None:", "if True:"),
        r"claim [012] 0 [23]   <- ",
    ),
    "of two failing parts the highest is told": (
        (Slot, "fail", "part < self._failed[0]", "part > self._failed[0]"),
        "fill 0 part 1   <- ",
    ),
    "the last to leave leaves it unfilled": (
        (Slot, "leave", "== 0", "== -1"),
        "(have ended|asks True)   <- ",  # where what is stuck is ended by the simulation
    ),
    "the feeder does not tell that it asks for a job": (
        (_feeder, "_deal_one", "    shared.asking = True\n", ""),
        "draw 0   <- ",
    ),
    "the feeder asks before it has looked at what was handed over": (
        (_feeder, "_deal_one", "    finish_handed(shared, me)  #", "    #"),
        r"draw [1-5]   <- ",
    ),
    "a worker does not look whether the feeder asks": (
        (_worker, "hand_over", "if not shared.asking:", "if True:"),
        "nudge   <- ",
    ),
    "a worker takes nothing back": (
        (_worker, "hand_over", "    return False", "    return True"),
        r"get [01] \d   <- ",  # it goes on to another slot
    ),
}

SCENARIOS = {
    "one worker gets no sentinel": "engine end=full workers=2 parts=1",
    "a stop fills no slot": "engine end=break depth=3 parts=1111 ms=1 at=1",
    "a worker does not look at the flag": "engine end=break depth=3 parts=1999 at=0 ms=1",
    "parts are claimed behind a failure": "engine end=full workers=2 parts=33 fails=0.0",
    "one part is claimed behind a failure": "engine end=full workers=3 parts=3 fails=0.0",
    "of two failing parts the highest is told": "engine end=full workers=2 parts=2 fails=0.0,0.1",
    "the feeder asks before it has looked at what was handed over": HANDED,
    "a worker does not look whether the feeder asks": HANDED,
    "a worker takes nothing back": HANDED,
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_the_engine_is_refused(bug):
    """On one of twenty schedules."""
    place, told = BUGS[bug]
    text = SCENARIOS.get(bug, "engine end=full parts=11")
    with planted(*place):
        refused = []
        for seed in range(20):
            try:
                follow(*seen(text, Random(seed)))
            except Refused as error:
                refused.append(str(error))
    assert any(re.search(told, text) for text in refused), refused


def sentinels(planted):
    """What is put and got in a planted program of `sim`, as the end of an engine."""
    try:
        trace = run(planted, Random(0)).trace
    except Deadlock as failure:
        trace = failure.trace
    stop = [("flag",), ("tell",), ("feed", -1), ("asks", True)]
    put = {"put on": lambda task: ("sentinel",), "get from": lambda task: ("gone", task - 1)}
    return stop + [put[doing](task) for task, doing, _ in trace if doing in put]


def test_the_planted_program_with_too_few_sentinels_is_refused():
    """And the one with enough of them is accepted."""
    stopped = Size(3, 1, (), faults=0)
    follow(stopped, sentinels(Planted(name="too-few-sentinels", fixed=1)))
    with pytest.raises(Refused, match="all threads have ended   <- the protocol cannot do this"):
        follow(stopped, sentinels(Planted(name="too-few-sentinels")))


def test_the_campaign_tells_what_it_followed(capsys):
    assert 0 == campaign.main(["--count=20", "--processes=1"])
    assert capsys.readouterr().out.startswith("model: 20 run, 20 distinct, 0 failed, ")


def test_the_campaign_tells_a_trace_that_is_refused_and_its_schedule(capsys):
    with planted(_feeder, "_deal_one", "[slot] * hands", "[slot] * (hands + 1)"):
        assert 1 == campaign.main(["--count=20", "--processes=1"])
    told = capsys.readouterr().err
    assert "a trace is refused:\n  send 0\n" in told
    assert "\non the schedule engine " in told


def test_the_campaign_explores_a_size(capsys):
    assert 0 == campaign.main(["--states", "1", "1", "1"])
    assert "depth 1, parts 1: 2,682 states, " in capsys.readouterr().out


@pytest.mark.parametrize("size", [["0", "1", "x"], ["00", "1", "1"], ["1", "1", "10"]])
def test_the_campaign_refuses_what_is_no_size(size, capsys):
    """A job of no parts, too: there is none."""
    with pytest.raises(SystemExit, match="2"):
        campaign.main(["--states", *size])
    assert f"got {' '.join(size)}" in capsys.readouterr().err
