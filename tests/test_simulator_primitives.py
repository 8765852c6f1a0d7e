"""Locks, queues and threads of the simulated runtime do what those of the standard library do."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcomes import outcome
from sim import Pct, Random, Replay, run

from threadloader._runtime import Runtime


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
