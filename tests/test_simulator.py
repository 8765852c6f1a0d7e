"""A simulated schedule steps at each call, comes again from its text, and leaves nothing behind.

Faults come in it where they are planned, time passes where nobody can go on, and depth-first
runs each schedule once.

That the simulated runtime does what the standard library does is in test_simulator_primitives.py,
that its drivers find bugs in test_simulator_bugs.py, and what the engine does on it in
test_simulated.py.
"""

import itertools
import sys
import threading

import pytest
from outcomes import outcome
from sim import Deadlock, Diverged, Pct, Planted, Random, Replay, driver, exhaust, program, run


def test_every_call_of_the_runtime_is_a_scheduling_point():
    """Each leaves one step in the trace, whether or not there is anybody else."""

    def program(sim):
        lock, turn, items, simple = sim.lock(), sim.turn(), sim.queue(), sim.simple_queue()
        lock.acquire()
        lock.release()
        with lock:
            pass
        with turn, turn:
            pass
        sim.wait(lock)
        sim.wait(lock, 1)
        for each in (items, simple):
            each.put(1)
            each.put(2)
            each.get()
            each.get_nowait()
        thread = sim.thread(int, (), "thread")
        thread.start()
        thread.join()
        thread.is_alive()
        sim.launch(int, ())
        sim.monotonic()
        sim.step()

    trace = run(program, Replay("")).trace
    assert [
        *["acquire lock", "release lock"] * 2,
        *["acquire turn", "acquire turn", "release turn", "release turn"],
        *["acquire lock", "release lock", "try to acquire lock", "release lock"],
        *["put on queue", "put on queue", "get from queue", "get from queue"] * 2,
        *["start thread", "join thread", "look at thread", "launch", "read the clock", "step"],
    ] == [
        " ".join([doing, *thing.split()[:1]])
        for task, doing, thing in trace
        if task == 0 and not doing.startswith("wait for the end")
    ]


def test_time_moves_only_when_nobody_can_run():
    """The clock stands while there is anything to do, then goes to the next time limit."""

    def program(sim):
        times = []

        def sleep():
            sim.sleep(3)
            times.append(sim.monotonic())

        other = sim.spawn(sleep)
        for _ in range(100):
            sim.step()
        times.append(sim.monotonic())
        gate = sim.lock()
        gate.acquire()
        assert not sim.wait(gate, 5.0)
        return [*times, sim.monotonic(), other.name]

    assert [0.0, 3.0, 5.0, "other"] == run(program, Random(0)).value


def test_a_replay_gives_the_same_trace():
    """The choices of a schedule, replayed, give every step of it again."""
    for seed in range(50):
        first = run(Planted(name="lost-update", fixed=1), Random(seed))
        again = run(Planted(name="lost-update", fixed=1), Replay(first.schedule))
        assert (first.schedule, first.trace) == (again.schedule, again.trace)


def test_a_driver_is_made_again_from_its_text():
    """The same text, the same schedule."""
    for each in (Random(7), Pct(7, 3, 40), Replay("0121")):
        text = str(each)
        runs = [run(Planted(name="check-then-act", fixed=1), it) for it in (each, driver(text))]
        assert runs[0].trace == runs[1].trace


def test_a_schedule_that_does_not_fit_is_refused():
    """A replay of another program's schedule says where it leaves it."""
    with pytest.raises(Diverged, match=r"at choice 0: .* task 9 go on, but only \[0, 1\] can"):
        run(Planted(name="lost-update", fixed=1), Replay("9"))


def test_an_old_schedule_may_be_taken_as_far_as_it_goes():
    """Where the program has changed since, what fits is done and the rest passed over."""
    run(Planted(name="lost-update", fixed=1), Replay("9129", exact=False))


def test_a_program_that_changes_between_runs_is_told():
    """Depth-first needs the same program each time; another one is no wrong result, but refused."""
    calls = []

    def program(sim):
        calls.append(1)
        sim.spawn(sim.step)
        if len(calls) % 2:
            sim.spawn(sim.step)
        sim.step()

    with pytest.raises(Diverged, match="could go on here before"):
        exhaust(program, 1)


def ways(*threads):
    """All orders of the given numbers of steps of some threads."""
    if not any(threads):
        return {""}
    return {
        str(number) + rest
        for number, steps in enumerate(threads)
        if steps
        for rest in ways(*[left - (at == number) for at, left in enumerate(threads)])
    }


def switches(way):
    """How often a thread is left that could have gone on."""
    pairs = enumerate(itertools.pairwise(way), 1)
    return sum(one != other and one in way[at:] for at, (one, other) in pairs)


@pytest.mark.parametrize("bound", [0, 1, 2, 9])
def test_depth_first_runs_each_schedule_within_its_bound_once(bound):
    """Three threads of 2, 2 and 1 steps: the orders seen are those counted by hand."""
    seen = []

    def program(sim):
        order = []

        def work(number, steps):
            for _ in range(steps):
                sim.step()
                order.append(str(number))

        for number, steps in enumerate((2, 2, 1)):
            sim.spawn(work, number, steps, name=str(number))
        sim.drain()
        seen.append("".join(order))

    explored = exhaust(program, bound)
    expected = {way for way in ways(2, 2, 1) if switches(way) <= bound}
    assert expected == set(seen)
    assert explored.schedules == len(explored.distinct)


@pytest.mark.parametrize(
    ("at", "always", "expected"),
    [
        (0, False, "...."),
        (2, False, ".x.."),
        (2, True, ".xxx"),
        (1, True, "xxxx"),
        (5, True, "...."),
    ],
)
def test_a_fault_comes_where_it_is_planned(at, always, expected):
    """At the n-th hit of its point, once or from then on; other points are left alone."""

    def program(sim):
        sim.fail("put", at, lambda: MemoryError("full"), always)
        items, came = sim.queue(), ""
        for _ in expected:
            sim.hit("another point")
            came += "x" if outcome(items.put, 1) == ("MemoryError", "full") else "."
        return came, items.qsize()

    assert (expected, expected.count(".")) == run(program, Replay("")).value


def test_an_error_that_ends_a_task_is_kept():
    """As the standard library's excepthook would be told of it."""

    def program(sim):
        sim.spawn(lambda: 1 / 0, name="divides")
        sim.drain()
        return [(name, type(error)) for name, error in sim.escaped]

    assert [("divides", ZeroDivisionError)] == run(program, Replay("")).value


def test_a_failed_schedule_leaves_no_thread():
    """Whoever waits when a schedule fails is ended with it."""
    before, failed = threading.active_count(), 0
    for seed in range(20):
        try:
            run(Planted(name="lock-order"), Random(seed))
        except Deadlock:
            failed += 1
        assert before == threading.active_count()
    assert failed


def test_the_tracing_of_others_is_given_back():
    """A debugger or a coverage tool goes on behind a schedule that traces lines."""
    ours = sys.gettrace()

    def tool(frame, event, arg):
        return None

    sys.settrace(tool)
    try:
        run(Planted("line", "bare-update"), Replay(""))
        found = sys.gettrace()
    finally:
        sys.settrace(ours)
    assert tool is found


@pytest.mark.parametrize(
    "text", ["planted name=lock-order", "planted every=line name=bare-update", "planted fixed=1"]
)
def test_a_program_is_made_again_from_its_text(text):
    assert text == str(program(text))


@pytest.mark.parametrize("text", ["", "none x=1", "planted other=1", "planted name"])
def test_a_text_of_no_program_is_refused(text):
    with pytest.raises(ValueError, match="expected the text of a program, got"):
        program(text)
