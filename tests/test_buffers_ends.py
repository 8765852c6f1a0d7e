"""Wherever an array ends, its memory is lent again or freed, and all else stays what it is.

Among the places are other threads, garbage, finalizers, a Ctrl-C, forks, and the interpreter's end.
"""

import gc
import os
import queue
import sys
import threading

import numpy as np
import pytest
from pools import SHAPE, SIZE, filled, filler, idle_bytes, sizes_made, small_pool

from threadloader import buffers


@pytest.fixture
def made(monkeypatch):
    """The sizes of the blocks that pools have made, in this list."""
    return sizes_made(monkeypatch)


def test_an_array_may_end_in_another_thread(made):
    """Where the last view is dropped does not matter."""
    pool, handed = small_pool(), queue.SimpleQueue()

    def drop():
        while handed.get() is not None:
            done.put(None)

    done = queue.SimpleQueue()
    thread = threading.Thread(target=drop)
    thread.start()
    for value in range(100):
        handed.put(filled(pool, value))
        done.get()
    handed.put(None)
    thread.join()
    # The thread lets go of an array when it has the next: two are under way.
    assert len(made) <= 2


def test_no_python_runs_where_an_array_ends():
    """So nothing there can raise, wait, or swallow a Ctrl-C."""
    pool = small_pool()
    array, calls = pool.empty(SHAPE, np.float32), []
    sys.setprofile(lambda frame, event, arg: calls.append((event, frame.f_code.co_name)))
    try:
        del array
    finally:
        sys.setprofile(None)
    assert [] == [call for call in calls if call[0] == "call"]
    assert SIZE == idle_bytes(pool)


def test_a_garbage_cycle_may_hold_an_array(made):
    """Memory comes back when the cycle is collected."""
    pool = small_pool()
    cycle = [filled(pool, 1.0)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert SIZE == idle_bytes(pool)


def test_a_finalizer_may_bring_memory_back_to_life():
    """One in a garbage cycle makes a new view, of all that it has: the array's base.

    1. The cycle is found dead: the object, itself, and the base of the base of an array.
    2. Its finalizer makes an array of it and puts that where it lives on.
    3. The memory is not lent to anybody.
    """
    pool, saved = small_pool(), []

    class Late:
        def __del__(self):
            saved.append(np.asarray(self.base))

    late = Late()
    late.me, late.base = late, filled(pool, 1.0).base.base
    del late
    gc.collect()
    before = saved[0].tobytes()
    others = filler(pool)
    assert (before, 8) == (saved[0].tobytes(), len(others))


def test_an_interrupt_while_an_array_is_lent_costs_its_block_alone(made):
    """Ctrl-C comes between the last two lines of `lend`; the pool works on.

    1. The array, watched but not entered in the books, ends with the frame.
    2. Its memory reports back, and nobody knows it.
    """
    pool = small_pool()
    filled(pool, 1.0)

    class Interrupted(dict):
        def __setitem__(self, key, value):
            raise KeyboardInterrupt

    (shelf,) = pool._shelves
    books, shelf._watched = shelf._watched, Interrupted(shelf._watched)
    with pytest.raises(KeyboardInterrupt):
        pool.empty(SHAPE, np.float32)
    shelf._watched = books
    books.clear()
    for _ in range(10):
        filled(pool, 1.0)
    assert 2 == len(made)


CHILD = """
import threading
import numpy as np
from threadloader.buffers import Pool

class Last:
    def __init__(self, array):
        self.array, self.me = array, self
    def __del__(self):
        again.append(self.array[1:])

again = []
pool = Pool(1 << 20, least_bytes=1)
arrays = [pool.empty((8, 32), np.float32) for _ in range(8)]
views = [array.T for array in arrays[:4]]
cycle = [pool.empty(100, np.uint8)]
cycle.append(cycle)
last = Last(pool.empty(1000, np.uint8))
wait = threading.Event()
def hold(array):
    wait.wait()
threading.Thread(target=hold, args=(pool.empty(9, np.int64),), daemon=True).start()
del arrays[2]
"""


def test_the_interpreter_ends_quietly_with_arrays_alive(run_child):
    """Held by globals, views, a cycle, a finalizer and a daemon thread; the pool open."""
    child = run_child(CHILD)
    assert (0, "", "") == (child.returncode, child.stdout, child.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_child_keeps_its_arrays_and_uses_the_pool(run_child):
    """Forked while other threads make arrays: nothing that they held hangs the child."""
    child = run_child(
        """
import os, threading, warnings
import numpy as np
from threadloader.buffers import Pool
warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
pool, stop = Pool(1 << 20, least_bytes=1), threading.Event()
def work():
    while not stop.is_set():
        pool.empty(1000, np.uint8)[:] = 7
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
mine = pool.empty(1000, np.uint8)
mine[:] = 3
codes = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        for _ in range(100):
            pool.empty(1000, np.uint8)[:] = 9
        os._exit(0 if (mine == 3).all() else 1)
    codes.append(os.waitpid(pid, 0)[1])
stop.set()
for thread in threads:
    thread.join()
print(codes == [0] * 20)
"""
    )
    assert ("True", "") == (child.stdout.strip(), child.stderr)


def test_close_frees_what_is_idle_and_leaves_what_is_held():
    """Arrays that outlive it stay as they are, and what is asked for then is new."""
    pool = small_pool()
    kept, dropped = filled(pool, 1.0), filled(pool, 2.0)
    del dropped
    pool.close()
    pool.close()
    others = filler(pool)
    assert (0, 256.0, 8) == (idle_bytes(pool), kept.sum(), len(others))
    assert all(array.flags.owndata for array in others)


@pytest.mark.parametrize("end", ["close", "drop"])
def test_what_ends_after_the_pool_is_freed(monkeypatch, end):
    """No queue holds the memory of arrays that outlive the pool."""
    import weakref

    regions = []

    class Told(buffers._Block):
        __slots__ = ()

        def __init__(self, size):
            super().__init__(size)
            regions.append(weakref.ref(self.region))

    monkeypatch.setattr(buffers, "_Block", Told)
    pool = small_pool()
    first, second = filled(pool, 1.0), filled(pool, 2.0)
    if end == "close":
        pool.close()
    else:
        del pool
    del first
    assert [None, 2.0] == [regions[0](), second[0, 0]]
