"""The simulation finds planted bugs, and those alone, and tells what goes wrong and where."""

import threading

import pytest
from sim import (
    BUGGY,
    OPCODES,
    SOUND,
    Deadlock,
    Endless,
    Hung,
    Pct,
    Planted,
    Random,
    Replay,
    SimulationError,
    Violated,
    exhaust,
    explore,
    replay,
    run,
)

SEEDS = 300
"""Schedules within which a random driver must have found a planted bug; most take some ten."""


@pytest.mark.parametrize("name", sorted(SOUND))
def test_no_alarm_is_raised_where_nothing_is_wrong(name):
    """The corrected programs pass on all schedules with two preemptions, and on random ones."""
    sound = Planted(name=name, fixed=1)
    assert exhaust(sound, 2).schedules > 10
    explore((sound, Random(seed)) for seed in range(SEEDS))
    explore((sound, Pct(seed, 3, 30)) for seed in range(SEEDS))


def fails(program, drivers):
    """The first failure on any of the drivers' schedules."""
    with pytest.raises(SimulationError) as caught:
        explore((program, driver) for driver in drivers)
    return caught.value


EVERY = {"bare-update": "line", "one-line-update": "opcode"}
KINDS = {
    "lost-update": Violated,
    "bare-update": Violated,
    "one-line-update": Violated,
    "lock-order": Deadlock,
    "missed-wakeup": Deadlock,
    "check-then-act": Deadlock,
    "too-few-sentinels": Deadlock,
    "stop-overtaken": Violated,
}


def grained(name):
    """The planted program, at the grain that shows its bug."""
    every = EVERY.get(name, "call")
    if every == "opcode" and not OPCODES:
        pytest.skip("this Python does not report every instruction")
    return Planted(every, name)


@pytest.mark.parametrize("name", sorted(BUGGY))
@pytest.mark.parametrize("how", ["random", "pct", "depth-first"])
def test_each_driver_finds_each_planted_bug(name, how):
    """And what it finds can be replayed from its text, to the same failure and trace."""
    planted = grained(name)
    if how == "depth-first":
        with pytest.raises(SimulationError) as caught:
            exhaust(planted, 2)
        failure = caught.value
    else:
        made = {"random": Random, "pct": lambda seed: Pct(seed, 2, 15)}[how]
        failure = fails(planted, map(made, range(SEEDS)))
    assert KINDS[name] is type(failure)
    (note,) = failure.__notes__
    text = note.split("--replay '")[1].split("'")[0]
    with pytest.raises(KINDS[name]) as again:
        replay(text)
    assert (failure.schedule, failure.trace) == (again.value.schedule, again.value.trace)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_race_between_two_calls_needs_a_finer_grain(name):
    """Where no call lies between read and write, calls alone do not show the lost update."""
    exhaust(Planted("call", name), 2)
    if name == "one-line-update":
        exhaust(Planted("line", name), 2)


def test_a_deadlock_is_told_with_who_waits_for_what():
    """Both tasks, the lock that each waits for, who holds it, and the line."""
    failure = fails(Planted(name="lock-order"), map(Random, range(SEEDS)))
    text = str(failure)
    assert "everybody waits, for ever" in text
    assert "0 main: join task-1" in text
    assert "1 task-1: acquire lock 2\n      which 2 task-2 holds" in text
    assert "2 task-2: acquire lock 1\n      which 1 task-1 holds" in text
    assert 2 == text.count(" take: with other:")
    assert 1 == text.count(" together: thread.join()")


def test_who_waits_after_the_end_is_told():
    failure = fails(Planted(name="too-few-sentinels"), [Random(0)])
    assert str(failure).startswith("after the end, for ever, waits worker-")


def test_going_round_for_ever_is_told():
    """A thread that asks again and again is stopped at the step bound."""

    def program(sim):
        other = sim.thread(sim.lock, (), "other")
        while not other.is_alive():
            pass

    with pytest.raises(Endless, match=r"500 steps, and no end\n  0 main: look at other"):
        run(program, Random(0), max_steps=500)


def test_blocking_outside_the_runtime_is_told(monkeypatch):
    """A task that waits on a real lock is named, with the line."""
    monkeypatch.setattr("sim._scheduler.HUNG_SECONDS", 0.05)
    real = threading.Lock()
    real.acquire()

    def program(sim):
        sim.thread(real.acquire, (), "blocks").start()
        sim.step()
        sim.step()

    with pytest.raises(Hung, match="blocks has not come to a scheduling point"):
        run(program, Replay("1"))
    (left,) = (thread for thread in threading.enumerate() if thread.name == "blocks")
    real.release()
    left.join()


def test_a_broken_promise_is_told_even_where_everything_is_caught():
    """`check` ends the schedule; no handler of the task can keep it to itself."""

    def program(sim):
        def swallow():
            try:
                sim.check(False, "not so")
            except BaseException:
                sim.check(True, "so")

        sim.spawn(swallow)
        sim.drain()

    with pytest.raises(Violated, match="not so"):
        run(program, Replay(""))
