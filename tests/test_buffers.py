"""Batch memory is used again when nobody holds it any more, and not a moment earlier."""

import gc
import os
import pickle
import queue
import sys
import threading
from collections import deque

import numpy as np
import pytest
from frameworks import framework
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from threadloader import buffers
from threadloader.buffers import LEAST_BYTES, Pool

SHAPE = (8, 32)  # of float32: 1 KiB
SIZE = 1024


def small_pool(max_bytes=1 << 20):
    """A pool that lends memory for the smallest arrays too."""
    return Pool(max_bytes, least_bytes=1)


def address(array):
    return array.__array_interface__["data"][0]


def idle_bytes(pool):
    """Bytes that wait to be used again."""
    return sum(shelf.size * len(shelf.ended) for shelf in pool._shelves or ())


def filled(pool, value, shape=SHAPE, dtype=np.float32):
    """An array of the pool that has been written to."""
    array = pool.empty(shape, dtype)
    array[...] = value
    return array


def filler(pool, count=8):
    """Writes over all that the pool would give to the next ones who ask."""
    return [filled(pool, -1.0) for _ in range(count)]


@pytest.fixture
def made(monkeypatch):
    """The sizes of the blocks that pools have made, in this list."""
    sizes = []

    class Counted(buffers._Block):
        __slots__ = ()

        def __init__(self, size):
            sizes.append(size)
            super().__init__(size)

    monkeypatch.setattr(buffers, "_Block", Counted)
    return sizes


# What an array looks like.


@pytest.mark.parametrize(
    "dtype",
    ["f4", ">i2", "?", "c16", "U3", "S5", "M8[us]", "V7", [("a", "i1"), ("b", ">f8", (2,))]],
)
@pytest.mark.parametrize("shape", [(7,), (3, 5, 2), (64, 1)])
def test_an_array_is_what_numpy_would_give(shape, dtype):
    """Type, shape, dtype, strides and flags are those of `numpy.empty`, but for who owns it."""
    array, plain = small_pool().empty(shape, dtype), np.empty(shape, dtype)
    assert np.ndarray is type(array)
    assert (plain.shape, plain.dtype, plain.strides) == (array.shape, array.dtype, array.strides)
    flags = ("C_CONTIGUOUS", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
    assert [plain.flags[flag] for flag in flags] == [array.flags[flag] for flag in flags]


@pytest.mark.parametrize("size", [1, 63, 64, 65, 1000, 4097])
def test_memory_is_aligned(size):
    """Every array begins at a multiple of 64 bytes, new or used again."""
    pool = small_pool()
    held = []
    for _ in range(3):
        held += [pool.empty(size, np.uint8) for _ in range(3)]
        assert {0} == {address(array) % 64 for array in held}
        del held[::2]


def test_an_array_can_be_locked_and_unlocked():
    """What is done to protect a batch for a while works as with numpy's own memory."""
    array = small_pool().empty(SHAPE, np.float32)
    for lock in (array, array[2:]):
        lock.flags.writeable = False
        lock.flags.writeable = True
    array[2:] = 1.0


@pytest.mark.parametrize("shape", [0, (0,), (3, 0, 2), ()])
def test_arrays_without_items_or_axes_are_arrays(shape):
    """Nothing and a single value are shapes like others."""
    pool = small_pool()
    assert np.empty(shape).shape == pool.empty(shape, np.float32).shape
    assert np.empty(shape).shape == pool.empty(shape, "V0").shape


@pytest.mark.parametrize("shape", [5, np.int64(5), [5], (np.int32(5),)])
def test_a_shape_may_be_written_as_for_numpy(shape):
    """An integer, a list, and integers of numpy are taken."""
    assert (5,) == small_pool().empty(shape, np.int64).shape


@pytest.mark.parametrize("shape", [-1, (-2, -3), (2**40, 2**40)])
def test_an_impossible_shape_is_refused_as_by_numpy(shape):
    """Negative and too large lengths are a ValueError, and the pool works on."""
    pool = small_pool()
    with pytest.raises(ValueError, match=r"negative|too big|too large|exceeded"):
        pool.empty(shape, np.float64)
    assert SHAPE == pool.empty(SHAPE, np.float32).shape


def test_objects_are_left_to_numpy():
    """An array that points to objects is numpy's own: memory lent twice would mix them up."""
    for dtype in (object, [("a", object), ("b", "i4")]):
        assert small_pool().empty((4,), dtype).flags.owndata


def test_small_arrays_are_left_to_numpy():
    """Below `LEAST_BYTES` malloc does as well."""
    pool = Pool(1 << 30)
    assert pool.empty(LEAST_BYTES - 1, np.uint8).flags.owndata
    assert not pool.empty(LEAST_BYTES, np.uint8).flags.owndata


# Memory comes back.


def test_the_same_memory_comes_back(made):
    """A loop that drops each array before the next needs one block; holding two, three."""
    pool = small_pool()
    seen = {address(filled(pool, 1.0)) for _ in range(1000)}
    assert (1, [SIZE]) == (len(seen), made)
    held = deque(maxlen=2)
    for _ in range(1000):
        held.append(filled(pool, 1.0))
    assert 3 == len(made)


def test_memory_comes_back_after_each_kind_of_holder(made):
    """None of the ways to hold an array keeps its memory from coming back for ever."""
    pool = small_pool()
    for hold in HOLDERS.values():
        kept = hold(filled(pool, 1.0))
        del kept
    assert [SIZE] == made


def test_sizes_that_hardly_differ_share_memory(made):
    """Batches of ragged rows, hardly ever of the same size, come from few blocks."""
    pool = small_pool()
    for rows in range(833, 897):
        pool.empty((rows, 32), np.float32)
    assert 1 == len(made)


@pytest.mark.parametrize(("size", "expected"), [(3 * SIZE, 0), (2 * SIZE, 0), (SIZE, 1)])
def test_memory_that_is_somewhat_larger_does_as_well(made, size, expected):
    """A block serves what needs two thirds of it, and goes back to be used as a whole."""
    pool = small_pool()
    pool.empty(3 * SIZE, np.uint8)
    made.clear()
    array = pool.empty(size, np.uint8)
    assert (expected, (size,)) == (len(made), array.shape)
    del array
    pool.empty(3 * SIZE, np.uint8)
    assert expected == len(made)


def test_batches_of_varying_size_come_from_few_blocks(made):
    """Of 5,000 batches, some of them three times as large as others and six held, few are new."""
    pool, held = small_pool(), deque(maxlen=6)
    for size in np.random.default_rng(0).integers(20 * SIZE, 60 * SIZE, 5000).tolist():
        held.append(pool.empty(size, np.uint8))
    assert len(made) < 100


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


# Held memory is never written.

HOLDERS = {
    "slice": lambda array: array[3:5],
    "transpose": lambda array: array.T,
    "reshape": lambda array: array.reshape(2, -1, 4),
    "strided": lambda array: array[::-2, ::3],
    "other dtype": lambda array: array.view(np.uint8),
    "one value": lambda array: array[1, 2, ...],
    "long chain": lambda array: array[1:].T[2:].view(np.int32)[..., None].swapaxes(0, 2)[0],
    "subclass": lambda array: array.view(np.recarray),
    "iterator": lambda array: array.flat,
    "memoryview": memoryview,
    "part of a memoryview": lambda array: memoryview(array)[2:4],
    "frombuffer": lambda array: np.frombuffer(array, np.int16),
    "its base": lambda array: array.base,
    "base of its base": lambda array: np.asarray(array.base.base),
    "view of its base": lambda array: array[2:].base[16:64],
    "array interface": lambda array: np.asarray(Interface(array)),
    "ctypes": np.ctypeslib.as_ctypes,
    "dlpack": np.from_dlpack,
    "pickle buffer": pickle.PickleBuffer,
    "strided by hand": lambda array: np.lib.stride_tricks.as_strided(array, (3, 3), (4, 4)),
    "broadcast": lambda array: np.broadcast_to(array, (2, *array.shape)),
    "base that was set": lambda array: np.ndarray((4, 4), np.float32, array, 64),
}
"""Ways to hold an array's memory, each without the array itself."""


class Interface:
    """Offers an array's memory by numpy's interface, and keeps the array."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


def bytes_of(holder):
    if isinstance(holder, np.flatiter):
        return holder.copy().tobytes()
    return np.asarray(holder).tobytes()


@pytest.mark.parametrize("name", HOLDERS)
def test_memory_that_is_held_is_not_written(name):
    """Whatever way it is held."""
    pool = small_pool()
    holder = HOLDERS[name](filled(pool, np.arange(256.0).reshape(SHAPE)))
    before = bytes_of(holder)
    others = filler(pool)
    assert before == bytes_of(holder)
    assert 8 == len(others)


class Holding(RuleBasedStateMachine):
    """Arrays are made, looked at in every way, and dropped in any order.

    The bundles have numbers: the arrays are in `kept` alone, which drops them.
    """

    arrays, views = Bundle("arrays"), Bundle("views")

    def __init__(self):
        super().__init__()
        self.pool = small_pool(max_bytes=6 * SIZE)
        self.kept = {}
        self.number = 0

    def keep(self, holder):
        self.number += 1
        self.kept[self.number] = holder, bytes_of(holder)
        return self.number

    @rule(target=arrays)
    def make(self):
        return self.keep(filled(self.pool, self.number))

    @rule(shape=st.sampled_from([(256,), (2, 4, 32), (64, 8), (3, 5)]))
    def make_another(self, shape):
        self.keep(filled(self.pool, self.number, shape))

    @rule(target=views, number=arrays, name=st.sampled_from(sorted(HOLDERS)))
    def look(self, number, name):
        if number in self.kept:
            return self.keep(HOLDERS[name](self.kept[number][0]))
        return 0

    @rule(number=st.one_of(consumes(arrays), consumes(views)))
    def drop(self, number):
        self.kept.pop(number, None)

    @rule(parity=st.integers(0, 1))
    def drop_half(self, parity):
        for number in list(self.kept)[parity::2]:
            del self.kept[number]

    @invariant()
    def nothing_changed(self):
        for holder, before in self.kept.values():
            assert before == bytes_of(holder)

    @invariant()
    def bounded(self):
        assert idle_bytes(self.pool) <= 6 * SIZE


TestHolding = Holding.TestCase
TestHolding.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_last_64_batches_stay_what_they_are(made):
    """A consumer keeps 64 batches and views of them, over 100,000 batches."""
    pool, kept = small_pool(), deque()
    for number in range(100_000):
        batch = pool.empty(256, np.int32)
        batch.fill(number)
        kept.append((number, batch[7:], batch.reshape(16, 16).T) if number % 3 else (number, batch))
        del batch
        if len(kept) > 64:
            number, *views = kept.popleft()
            for view in views:
                assert view.min() == view.max() == number
            del view, views
    assert 65 == len(made)


def test_a_thread_may_be_the_only_holder():
    """The consumer has dropped a batch that a thread still reads."""
    pool, go, seen = small_pool(), threading.Event(), []
    handed = queue.SimpleQueue()

    def read():
        batch = handed.get()
        go.wait()
        seen.append(batch.sum())

    thread = threading.Thread(target=read)
    thread.start()
    handed.put(filled(pool, 1.0))
    others = filler(pool)
    go.set()
    thread.join()
    assert ([256.0], 8) == (seen, len(others))


def test_several_threads_make_arrays_while_others_end():
    """Four threads make arrays, write and hand them on to one that looks and drops."""
    pool, handed, start = small_pool(max_bytes=40 * SIZE), queue.SimpleQueue(), threading.Barrier(5)
    wrong = []

    def work(value):
        kept = deque(maxlen=3)
        start.wait()
        for number in range(3000):
            array = filled(pool, value, 256 + 64 * (number % 3))
            kept.append(array)
            handed.put((value, array[number % 7 :]))
            wrong.extend(value for one in kept if one.min() != value or one.max() != value)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    start.wait()
    window = deque(maxlen=16)
    for _ in range(4 * 3000):
        window.append(handed.get())
        value, array = window[0]
        if array.min() != value or array.max() != value:
            wrong.append(value)
    for thread in threads:
        thread.join()
    assert [] == wrong


def test_torch_holds_the_memory_of_its_tensors(made):
    """A tensor over a batch, and a view of it, are holders; when they end it comes back."""
    torch = framework("torch")
    pool = small_pool()
    tensor = torch.from_numpy(filled(pool, 2.0))[3:].t()
    others = filler(pool)
    assert 5 * 32 * 2.0 == float(tensor.sum())
    del tensor, others
    blocks = len(made)
    others = filler(pool, blocks)
    assert (blocks, blocks) == (len(made), len(others))


def test_jax_holds_the_memory_of_its_arrays():
    """It uses aligned memory without a copy, and so does what comes of it."""
    jax = framework("jax")
    pool = small_pool()
    array = jax.numpy.asarray(filled(pool, 2.0))
    others = filler(pool)
    assert (256 * 2.0, 8) == (float(array.sum()), len(others))


# Ends in odd places.


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


# What is kept, and for how long.


def test_a_pool_never_keeps_more_than_its_bound(made):
    """A hundred arrays end at once: only as many as fit wait to be used again."""
    pool = small_pool(max_bytes=10 * SIZE)
    held = [filled(pool, 1.0) for _ in range(100)]
    assert 0 == idle_bytes(pool)
    held.clear()
    assert 10 * SIZE == idle_bytes(pool)


def test_an_array_larger_than_the_bound_is_numpys():
    """It could never be kept."""
    assert small_pool(max_bytes=SIZE).empty(SIZE + 1, np.uint8).flags.owndata


def test_blocks_that_nobody_needs_are_freed(made):
    """Twenty end at once and one is used after that: soon one is left."""
    pool = small_pool()
    held = [filled(pool, 1.0) for _ in range(20)]
    held.clear()
    for _ in range(3 * buffers._REVIEW):
        filled(pool, 1.0)
    assert SIZE == idle_bytes(pool)
    assert 20 == len(made)


def test_blocks_that_are_needed_now_and_then_are_kept(made):
    """As where two workers are at the last batches of an epoch, and one at all others."""
    pool = small_pool()
    for _ in range(20):
        for _ in range(100):
            filled(pool, 1.0)
        both = filled(pool, 1.0), filled(pool, 1.0)
        del both
    assert 2 == len(made)


def test_a_size_that_is_asked_for_no_longer_is_dropped():
    """Another batch size, and the blocks of the one before are freed."""
    pool = small_pool()
    del (held := [filled(pool, 1.0) for _ in range(4)])[:]
    for _ in range(2 * buffers._REVIEW):
        pool.empty(2 * SIZE, np.uint8)
    assert (2 * SIZE, []) == (idle_bytes(pool), held)


def test_arrays_of_a_size_that_went_do_not_fill_the_pool(made):
    """The bound is taken up by a few that are held; those of the next size come back soon."""
    pool = small_pool(max_bytes=4 * SIZE)
    for_ever = [filled(pool, 5.0) for _ in range(4)]
    for _ in range(2 * buffers._REVIEW):
        pool.empty(2 * SIZE, np.uint8)
    made.clear()
    for _ in range(10):
        pool.empty(2 * SIZE, np.uint8)
    assert ([], 4) == (made, len(for_ever))


def test_arrays_that_are_kept_for_ever_do_not_fill_the_pool(made):
    """The bound is taken up by arrays that never end; later ones are recycled all the same."""
    pool = small_pool(max_bytes=4 * SIZE)
    for_ever = [filled(pool, 5.0) for _ in range(4)]
    for _ in range(buffers._PATIENCE):
        filled(pool, 1.0)
    made.clear()
    for _ in range(100):
        filled(pool, 1.0)
    assert 1 == len(made)
    assert 4 * 256 * 5.0 == sum(float(array.sum()) for array in for_ever)


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
