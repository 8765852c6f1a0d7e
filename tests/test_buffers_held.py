"""What somebody holds, in whatever way, is not lent again until it is let go of, and then it is."""

import pickle
import queue
import threading
from collections import deque

import numpy as np
import pytest
from frameworks import framework
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from pools import SHAPE, SIZE, filled, filler, idle_bytes, sizes_made, small_pool


@pytest.fixture
def made(monkeypatch):
    """The sizes of the blocks that pools have made, in this list."""
    return sizes_made(monkeypatch)


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


def test_memory_comes_back_after_each_kind_of_holder(made):
    """None of the ways to hold an array keeps its memory from coming back for ever."""
    pool = small_pool()
    for hold in HOLDERS.values():
        kept = hold(filled(pool, 1.0))
        del kept
    assert [SIZE] == made


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
