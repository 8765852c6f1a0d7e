"""Threads, handlers of signals and forks have one cache at once, and it is right for each."""

import gc
import os
import sys
import threading
from contextlib import ExitStack

import numpy as np
import pytest
from cache_kinds import locks, roomy

from threadloader.cache import Folder, Memory, _base, _memory
from threadloader.cache._base import MISSING
from threadloader.cache._count import Counted


@pytest.fixture(params=["memory", "folder"])
def cache(request, tmp_path):
    """Either kind, with room for everything."""
    with roomy(request.param, tmp_path) as made:
        yield made


def test_what_ended_threads_have_counted_stays_and_their_lists_do_not(cache):
    """A program may ask for each batch in a new thread."""
    for number in range(30):
        thread = threading.Thread(target=cache.get, args=(number % 10, lambda index: index))
        thread.start()
        thread.join()
        assert number + 1 == cache.stats().hits + cache.stats().misses
    assert (20, 10) == (cache.stats().hits, cache.stats().misses)
    assert len(cache._counted._state[1]) <= 2  # the last one's is added up by the next


def test_a_handler_that_asks_while_its_thread_asks_for_the_first_time_is_counted(monkeypatch):
    cache, added = Memory(), Counted.add

    def add(self, token, mine):
        cache.find(0)
        added(self, token, mine)

    monkeypatch.setattr(Counted, "add", add)
    thread = threading.Thread(target=cache.find, args=(1,))
    thread.start()
    thread.join()
    assert 2 == cache.stats().misses


def test_threads_that_keep_at_once_do_not_pass_a_bound(monkeypatch):
    """Both find room for one sample, both copy theirs, and one of the two is kept."""
    both, real = threading.Barrier(2), _memory.own

    def waiting(frozen):
        both.wait(30)
        return real(frozen)

    monkeypatch.setattr(_memory, "own", waiting)
    cache = Memory(max_samples=1)
    threads = [threading.Thread(target=cache.keep, args=(index, index)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 == cache.stats().samples


def test_threads_that_miss_at_once_are_all_right(cache):
    """Both prepare the sample, since neither waits for the other; one result is kept."""
    before = cache.stats().bytes
    cache.get(5, lambda index: np.full(3, index))
    one = cache.stats().bytes - before
    before = cache.stats()
    both = threading.Barrier(2)
    results = []

    def make(index):
        both.wait(30)
        return np.full(3, index)

    threads = [
        threading.Thread(target=lambda: results.append(cache.get(4, make))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[4, 4, 4]] * 2 == [result.tolist() for result in results]
    stats = cache.stats()
    assert (2, 1) == (stats.misses - before.misses, stats.samples - before.samples)
    assert 0 < stats.bytes - before.bytes <= one


def test_preparing_a_sample_may_use_the_cache(cache):
    """No lock is held while it is prepared."""

    def double(index):
        return cache.get(index // 2, double) * 2 if index else 1

    assert 8 == cache.get(4, double)
    assert 4 == cache.stats().samples


def test_no_count_is_lost(cache):
    def work(start):
        for index in range(start, start + 400):
            assert index % 100 == cache.get(index % 100, lambda index: index)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 80, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    stats = cache.stats()
    assert (3200, 100) == (stats.hits + stats.misses, stats.samples)
    assert 100 <= stats.misses <= 800


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_it_can_be_counted_and_closed_by_whoever_holds_its_locks(tmp_path, kind):
    """As by the handler of a signal that comes while this thread keeps a sample."""
    cache = Memory() if kind == "memory" else Folder(tmp_path, "key", 3)
    cache.get(0, lambda index: "a")
    counted = []

    def handler():
        with ExitStack() as held:
            for lock in locks(cache):
                held.enter_context(lock)
            counted.append(cache.stats().samples)
            cache.close()

    # In a thread of its own, which a test that fails can leave to itself.
    thread = threading.Thread(target=handler, daemon=True)
    thread.start()
    thread.join(30)
    assert [1] == counted
    assert not thread.is_alive()
    cache.close()  # what it was held up with
    assert cache.find(0) is MISSING


HOLDING = """
import os, signal, sys, threading, warnings
from pathlib import Path
from cache_kinds import locks
from threadloader.cache import Folder, Memory
warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
cache = Memory() if sys.argv[1] == "memory" else Folder(Path(sys.argv[2]), "key", 3)
cache.get(0, str)
held, over = threading.Event(), threading.Event()
def hold():
    for lock in locks(cache):
        lock.acquire()
    held.set()
    over.wait()
    for lock in locks(cache):
        lock.release()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
"""
"""A program in which a thread holds the locks of a cache of one sample, until `over`."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_a_forked_child_closes_whatever_was_held(tmp_path, run_child, kind):
    """A thread was at keeping a sample when the process forked: in the child it never ends that."""
    child = run_child(
        HOLDING
        + """
pid = os.fork()
if pid == 0:
    signal.alarm(30)  # the end of one that waits for ever
    code = 3 + (cache.stats().samples == 1)
    counting = threading.Thread(target=cache.find, args=(2,))
    counting.start()
    counting.join()
    cache.close()
    os._exit(code)
_, status = os.waitpid(pid, 0)
over.set()
thread.join()
cache.close()
print(os.waitstatus_to_exitcode(status))
""",
        kind,
        str(tmp_path / "kept"),
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert ("4", "") == (child.stdout.strip(), child.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize(("kind", "made"), [("memory", [1]), ("folder", [1, 1])])
def test_a_forked_child_waits_for_nothing_that_was_held(tmp_path, run_child, kind, made):
    """It has what was kept. In a folder, whose bytes nobody knows then, it adds nothing."""
    child = run_child(
        HOLDING
        + """
made = []
def make(index):
    made.append(index)
    return str(index)
if not (pid := os.fork()):
    signal.alarm(30)  # the end of one that waits for ever
    print([cache.get(index, make) for index in (0, 1, 1)], made, flush=True)
    cache.close()
    os._exit(0)
_, status = os.waitpid(pid, 0)
over.set()
thread.join()
cache.get(2, make)
print(os.waitstatus_to_exitcode(status), made, cache.stats().damaged)
cache.close()
""",
        kind,
        str(tmp_path / "kept"),
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert (f"['0', '1', '1'] {made}\n0 [2] 0\n", "") == (child.stdout, child.stderr)


def test_a_cache_that_is_dropped_is_forgotten():
    """What is done in forks keeps none alive."""
    cache = Memory()
    (there,) = [there for there in _base._caches if there() is cache]
    del cache
    gc.collect()
    assert there not in _base._caches


def test_what_is_kept_while_it_is_closed_is_not_found(monkeypatch):
    """One thread has found room for its sample; another closes before it is put there."""
    cache = Memory()
    real = Memory._fits

    def closing(self, size):
        fits = real(self, size)
        # The second time it asks with the lock held.
        if cache._lock.locked():
            closer = threading.Thread(target=cache.close, daemon=True)
            closer.start()
            closer.join(30)
            assert not closer.is_alive()
        return fits

    monkeypatch.setattr(Memory, "_fits", closing)
    cache.keep(0, "a")
    assert cache.find(0) is MISSING
