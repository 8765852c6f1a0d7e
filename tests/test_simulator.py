"""The simulated runtime does what the standard library does, and its drivers find bugs.

First the primitives against the real ones, then what a schedule is, then programs with a
planted bug. What the engine does on it is in test_simulated.py.
"""

import itertools
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim import (
    BUGGY,
    OPCODES,
    SOUND,
    Deadlock,
    Diverged,
    Endless,
    Hung,
    Pct,
    Planted,
    Random,
    Replay,
    SimulationError,
    Violated,
    driver,
    exhaust,
    explore,
    program,
    replay,
    run,
)

from threadloader._runtime import Runtime

SEEDS = 300
"""Schedules within which a random driver must have found a planted bug; most take some ten."""


def outcome(function, *args):
    """What a call gives, or the kind and text of what it raises."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def both(program):
    """What a program comes to on the real runtime and on the simulated one."""
    return program(Runtime()), run(program, Replay("")).value


LOCK = {
    "acquire at once": lambda lock: lock.acquire(False),
    "acquire with no time": lambda lock: lock.acquire(timeout=0),
    "acquire with little time": lambda lock: lock.acquire(True, 0.001),
    "try with a timeout": lambda lock: lock.acquire(False, 1),
    "acquire before now": lambda lock: type(outcome(lock.acquire, True, -2)),
    "release": lambda lock: lock.release(),
    "try with": lambda lock: lock.acquire(False) and (lock.release(), lock.__enter__()),
    "exit": lambda lock: lock.__exit__(None, None, None),
}
QUEUE = {
    "put": lambda items: items.put("x"),
    "put another": lambda items: items.put(["y"], False),
    "put at once": lambda items: items.put_nowait(3),
    "get at once": lambda items: items.get_nowait(),
    "get without block": lambda items: items.get(False),
    "get with no time": lambda items: items.get(timeout=0),
    "get with little time": lambda items: items.get(True, 0.001),
    "get before now": lambda items: items.get(timeout=-1),
    "size": lambda items: items.qsize(),
    "empty": lambda items: items.empty(),
}


def operations(table):
    return st.lists(st.sampled_from(sorted(table)), max_size=12)


@given(operations(LOCK))
def test_a_lock_does_what_the_real_one_does(names):
    """Any operations of one thread give the same, raise the same, leave it as taken."""

    def program(runtime):
        lock = runtime.lock()
        return [outcome(LOCK[name], lock) for name in names], lock.locked()

    real, simulated = both(program)
    assert real == simulated


@given(operations(LOCK))
def test_a_turn_does_what_the_real_one_does(names):
    """The same for the lock that its owner may take again: it counts how often."""

    def program(runtime):
        turn, other = runtime.turn(), []
        done = [outcome(LOCK[name], turn) for name in names]
        thread = runtime.thread(lambda: other.append(turn.acquire(False)), (), "other")
        thread.start()
        thread.join()
        return done, other

    real, simulated = both(program)
    assert real == simulated


@pytest.mark.parametrize("kind", ["queue", "simple_queue"])
@given(names=operations(QUEUE))
def test_a_queue_does_what_the_real_one_does(kind, names):
    """Any operations of one thread give the same, raise the same, in order of arrival."""

    def program(runtime):
        items = getattr(runtime, kind)()
        return [outcome(QUEUE[name], items) for name in names]

    real, simulated = both(program)
    assert real == simulated


def a_released_lock_goes_to_who_waits(runtime):
    lock, got = runtime.lock(), []
    lock.acquire()
    thread = runtime.thread(lambda: got.append(lock.acquire()), (), "waiter")
    thread.start()
    lock.release()
    thread.join()
    return got, lock.locked()


def a_lock_may_be_released_by_another(runtime):
    lock = runtime.lock()
    lock.acquire()
    thread = runtime.thread(lock.release, (), "other")
    thread.start()
    runtime.wait(lock)
    thread.join()
    return lock.locked()


def a_turn_is_released_by_its_owner_alone(runtime):
    turn, got = runtime.turn(), []
    turn.acquire()
    thread = runtime.thread(lambda: got.append(outcome(turn.release)), (), "other")
    thread.start()
    thread.join()
    return got


def a_wait_with_a_limit_ends(runtime):
    lock = runtime.lock()
    lock.acquire()
    return runtime.wait(lock, 0.001), runtime.wait(lock, -1), lock.locked()


def a_wait_leaves_the_lock_free(runtime):
    lock = runtime.lock()
    return runtime.wait(lock), runtime.wait(lock, 1), lock.locked()


def two_puts_serve_two_who_get(runtime):
    items, got = runtime.queue(), runtime.queue()
    threads = [runtime.thread(lambda: got.put(items.get()), (), "getter") for _ in range(2)]
    for thread in threads:
        thread.start()
    items.put("a")
    items.put("b")
    for thread in threads:
        thread.join()
    return sorted([got.get(), got.get()]), items.empty()


def one_put_serves_one_of_two(runtime):
    items, got = runtime.simple_queue(), runtime.queue()
    threads = [
        runtime.thread(lambda: got.put(outcome(items.get, True, 0.05)), (), "getter")
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    items.put("only")
    for thread in threads:
        thread.join()
    return sorted([str(got.get()), str(got.get())]), got.qsize()


def items_come_as_they_went(runtime):
    items, got = runtime.queue(), []
    thread = runtime.thread(lambda: got.extend(items.get() for _ in range(5)), (), "getter")
    thread.start()
    for number in range(5):
        items.put(number)
    thread.join()
    return got


def items_put_together_serve_as_many(runtime):
    items, got = runtime.queue(), runtime.queue()
    threads = [runtime.thread(lambda: got.put(items.take()), (), "taker") for _ in range(3)]
    for thread in threads:
        thread.start()
    items.put_all(["a", "b"])
    items.put_all([])
    items.put_all(["c"])
    for thread in threads:
        thread.join()
    return sorted(got.take() for _ in range(3)), items.empty()


def a_thread_has_its_life(runtime):
    gate = runtime.lock()
    gate.acquire()
    thread = runtime.thread(gate.acquire, (), "a name")
    seen = [thread.name, thread.ident, thread.is_alive(), outcome(thread.join)]
    thread.start()
    seen += [thread.is_alive(), thread.ident is None, thread.join(0.001), outcome(thread.start)]
    gate.release()
    thread.join()
    thread.join(5)
    return [*seen, thread.is_alive(), thread.ident is None, thread.join(-1)]


def a_thread_cannot_join_itself(runtime):
    got = []
    thread = runtime.thread(lambda: got.append(outcome(thread.join)), (), "self")
    thread.start()
    thread.join()
    return got


def a_launched_function_runs(runtime):
    items = runtime.simple_queue()
    ident = runtime.launch(items.put, ("x",))
    return items.get(), type(ident)


def a_clock_does_not_go_back(runtime):
    times = [runtime.monotonic() for _ in range(9)]
    return times == sorted(times)


def the_stack_says_where_a_thread_is(runtime):
    gate, inside = runtime.lock(), runtime.lock()
    gate.acquire()
    inside.acquire()

    def stands_in_here():
        inside.release()
        with gate:
            pass

    thread = runtime.thread(stands_in_here, (), "stands")
    thread.start()
    runtime.wait(inside)
    seen = "in stands_in_here" in runtime.stack(thread.ident)
    gate.release()
    thread.join()
    return seen


def each_thread_has_its_own_locals(runtime):
    here, got = threading.local(), runtime.queue()
    here.value = "main"
    for _ in range(2):
        thread = runtime.thread(lambda: got.put(vars(here).setdefault("value", "new")), (), "own")
        thread.start()
        thread.join()
    return got.get(), got.get(), here.value


@pytest.mark.parametrize(
    "program",
    [
        a_released_lock_goes_to_who_waits,
        a_lock_may_be_released_by_another,
        a_turn_is_released_by_its_owner_alone,
        a_wait_with_a_limit_ends,
        a_wait_leaves_the_lock_free,
        two_puts_serve_two_who_get,
        one_put_serves_one_of_two,
        items_come_as_they_went,
        items_put_together_serve_as_many,
        a_thread_has_its_life,
        a_thread_cannot_join_itself,
        a_launched_function_runs,
        a_clock_does_not_go_back,
        the_stack_says_where_a_thread_is,
        each_thread_has_its_own_locals,
    ],
)
def test_threads_do_what_the_real_ones_do(program):
    """What a small program comes to on the real runtime it comes to on every schedule."""
    expected = program(Runtime())
    found = [run(program, Random(seed)).value for seed in range(30)]
    found += [run(program, Pct(seed, 1 + seed % 3, 20)).value for seed in range(30)]
    assert [expected] * 60 == found


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


def test_an_error_that_ends_a_task_is_kept():
    """As the standard library's excepthook would be told of it."""

    def program(sim):
        sim.spawn(lambda: 1 / 0, name="divides")
        sim.drain()
        return [(name, type(error)) for name, error in sim.escaped]

    assert [("divides", ZeroDivisionError)] == run(program, Replay("")).value


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


def test_a_failed_schedule_leaves_no_thread():
    """Whoever waits when a schedule fails is ended with it."""
    before = threading.active_count()
    for seed in range(20):
        try:
            run(Planted(name="lock-order"), Random(seed))
        except Deadlock:
            pass
        assert before == threading.active_count()


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
