"""One source for each thread, where the process forks, and where a read does not end."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import our_threads
from own_sources import Part

from threadloader import Loader, per_thread
from threadloader.errors import ClosedError
from threadloader.sources import PerThread

WAIT = 10.0
"""Seconds after which a test gives up."""

FORKING = """
import os, signal, sys, threading, warnings
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from threadloader import Loader, per_thread
warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads

class Records:
    \"\"\"Numbers in a file with one position for all who hold it; says who closed it.\"\"\"

    made = []

    def __init__(self):
        self.file, self.closed = open(sys.argv[1], "rb", buffering=0), False
        Records.made.append(self)

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        self.file.seek(8 * index)
        return int.from_bytes(self.file.read(8), "little")

    def close(self):
        self.closed = True
        self.file.close()

def forked(work):
    \"\"\"Does something in a fork, and gives what it says.\"\"\"
    ends = os.pipe()
    if not (child := os.fork()):
        signal.alarm(60)  # the end of one that waits for ever
        try:
            os.write(ends[1], repr(work()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(ends[1])
    with open(ends[0]) as said:
        return said.read()

"""


@pytest.fixture
def in_forks(tmp_path, run_child):
    """Gives a function that runs a script in which `forked` works, and gives what it prints."""
    path = tmp_path / "records.bin"
    path.write_bytes(b"".join(number.to_bytes(8, "little") for number in range(1000)))

    def run(script):
        if not hasattr(os, "fork"):
            pytest.skip("the system has no fork")
        child = run_child(FORKING + script, str(path))
        assert "" == child.stderr
        return child.stdout.splitlines()

    return run


def test_a_fork_reads_by_an_object_of_its_own(in_forks):
    """The parent's stays where it is in its file, though it is of the same thread."""
    assert ["(500, 1000, 2)", "32 4 1"] == in_forks("""
source = per_thread(Records)
source[3]
print(forked(lambda: (source[500], len(source), len(Records.made))))
print(Records.made[0].file.tell(), source[4], len(Records.made))
source.close()
""")


def test_a_loader_without_workers_goes_on_in_a_fork_beside_its_parent(in_forks):
    """To the end, while the parent is between two batches."""
    assert ["[[2, 3], [4, 5], [6, 7]]", "16", "[[2, 3], [4, 5], [6, 7]]"] == in_forks("""
config = {"batch_size": 2, "num_workers": 0, "shuffle": False, "num_epochs": 1}
class Few(Records):
    def __len__(self):
        return 8
with Loader(config, per_thread(Few)) as batches:
    epoch = iter(batches)
    next(epoch)
    print(forked(lambda: [batch.tolist() for batch in epoch]))
    print(Records.made[0].file.tell())
    print([batch.tolist() for batch in epoch])
""")


def test_a_fork_closes_what_it_made_and_nothing_of_its_parents(in_forks):
    """Even where the parent held its lock, as the thread of another might have."""
    assert ["(0, [False, False, True])", "[True, True]"] == in_forks("""
source = per_thread(Records)
source[0]
with ThreadPoolExecutor(1) as pool:
    pool.submit(lambda: source[0]).result()

def child():
    source.close()
    first = source[0]
    source.close()
    return first, [records.closed for records in Records.made]

with source._here().lock:
    said = forked(child)
print(said)
source.close()
print([records.closed for records in Records.made])
""")


def test_a_fork_leaves_a_loader_whose_worker_was_in_a_read(in_forks):
    """The worker holds what closing its object waits for, as of a file with a buffer."""
    assert ["'left'"] == in_forks("""
reading, over = threading.Event(), threading.Event()

class Held(Records):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def __getitem__(self, index):
        with self.lock:
            reading.set()
            over.wait()
        return index

    def close(self):
        with self.lock:
            super().close()

with Loader({"num_workers": 1}, per_thread(Held)) as batches:
    iter(batches)
    reading.wait()

    def child():
        batches.close()
        return "left"

    print(forked(child))
    over.set()
""")


class Held:
    """Samples whose reading takes as long as is wanted; closing waits for it, as of a buffer."""

    made: list["Held"]
    reading: threading.Event
    over: threading.Event

    def __init__(self):
        self.lock, self.closed = threading.Lock(), False
        self.made.append(self)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with self.lock:
            self.reading.set()
            assert self.over.wait(60)
        return index

    def take(self, indices):
        return self[indices]

    def close(self):
        assert not self.closed
        if not self.lock.acquire(timeout=10):
            raise TimeoutError("closing waits for a read")
        self.lock.release()
        self.closed = True


@pytest.fixture
def held(monkeypatch):
    """The class of such objects, with none made and none in a read."""
    monkeypatch.setattr(Held, "made", [], raising=False)
    monkeypatch.setattr(Held, "reading", threading.Event(), raising=False)
    monkeypatch.setattr(Held, "over", threading.Event(), raising=False)
    return Held


def test_threads_open_their_objects_at_once():
    """No lock is held while a factory runs: here each one waits for the other's."""
    both = threading.Barrier(2, timeout=WAIT)

    def opened():
        both.wait()
        return range(4)

    source = per_thread(opened)
    with ThreadPoolExecutor(2) as pool:
        assert [0, 3] == list(pool.map(lambda index: source[index], [0, 3]))
    source.close()


def closed():
    """Say of each, in the order of their making, whether it is closed."""
    return [each.closed for each in Held.made]


STAYS = "an object of the class Held stays open, since a thread is still in a call of it"


def test_leaving_does_not_wait_for_a_read_that_does_not_end(held, caplog):
    """What the worker reads by stays open until it comes back; it closes that itself."""
    with Loader({"num_workers": 1, "close_timeout": 0.1}, per_thread(held)) as batches:
        iter(batches)
        assert held.reading.wait(60)
    assert [True, False] == closed()
    assert 1 == caplog.text.count(STAYS)
    held.over.set()
    for thread in threading.enumerate():
        if thread.name in our_threads():
            thread.join(60)
    assert [True, True] == closed()


@pytest.mark.parametrize("read", [lambda source: source[3], lambda source: source.take(3)])
def test_a_thread_closes_what_it_was_in_a_call_of(held, caplog, read):
    """It gets what it read, and nothing more; and closing again meanwhile does nothing."""
    source = per_thread(held)
    assert 4 == len(source)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read, source)
        assert held.reading.wait(60)
        source.close()
        source.close()
        assert [True, False] == closed()
        assert 1 == caplog.text.count(STAYS)
        held.over.set()
        assert 3 == reading.result()
        assert [True, True] == closed()
        with pytest.raises(ClosedError, match="closed while a thread still read"):
            pool.submit(read, source).result()


@pytest.mark.parametrize(("name", "given"), [("__getitem__", [3]), ("take", [3]), ("__len__", [])])
def test_what_was_closed_a_moment_before_a_call_is_not_called(held, monkeypatch, name, given):
    """The thread has found its object open; another closes it; then the thread would read."""
    source = per_thread(held)
    real, closing = PerThread._part, threading.Event()

    def closed_behind(self):
        found = real(self)
        if closing.is_set():
            with ThreadPoolExecutor(1) as pool:
                pool.submit(source.close).result()
        return found

    monkeypatch.setattr(PerThread, "_part", closed_behind)
    read = getattr(source, name)
    source.mine()
    closing.set()
    with pytest.raises(ClosedError, match="closed while a thread still read"):
        read(*given)
    assert not held.reading.is_set()
    assert [True] == closed()


def test_an_object_that_is_being_counted_is_closed_after_that(held, monkeypatch):
    counting = held.__getitem__
    monkeypatch.setattr(held, "__len__", lambda self: counting(self, 4))
    source = per_thread(held)
    with ThreadPoolExecutor(1) as pool:
        length = pool.submit(len, source)
        assert held.reading.wait(60)
        source.close()
        assert [False] == closed()
        held.over.set()
        assert 4 == length.result()
        assert [True] == closed()


def test_what_is_about_to_be_closed_is_not_lent():
    """It would end under whoever borrowed it: they get a source of their own."""
    source = per_thread(lambda: [1, 2])
    assert source is source.lend()
    assert 2 == len(source)
    lent = []

    class Closing(type(source._here().opening)):
        @property
        def closed(self):
            return self.__dict__["closed"]

        @closed.setter
        def closed(self, value):
            lent.append(source.lend())
            self.__dict__["closed"] = value

    source._here().opening.__class__ = Closing
    source.close()
    assert source not in lent
    assert source is source.lend()


def test_a_close_for_an_earlier_user_leaves_a_later_one_alone():
    """As after an interrupt, or where closing an object has failed; and it frees nothing."""
    source = per_thread(lambda: [1, 2])
    close = source.lend().closer()
    assert 2 == len(source)
    close()
    with ThreadPoolExecutor(1) as pool:
        assert source is pool.submit(source.lend).result()
        assert 2 == pool.submit(source.__getitem__, 1).result()
        close()
        assert 2 == pool.submit(source.__getitem__, 1).result()
    assert source is not source.lend()
    source.close()
    assert source is source.lend()


def test_what_the_user_has_closed_and_read_on_is_closed_with_the_loader():
    closed = []

    class Numbers(list):
        def close(self):
            closed.append(self)

    source = per_thread(lambda: Numbers(range(8)))
    with Loader({"num_workers": 0, "batch_size": 4, "shuffle": False}, source) as batches:
        it = iter(batches)
        assert [0, 1, 2, 3] == next(it).tolist()
        source.close()
        assert [4, 5, 6, 7] == next(it).tolist()
        assert 1 == len(closed)
    assert 2 == len(closed)


def test_a_loader_that_is_closed_again_leaves_the_next_one_its_source():
    """An exception of a handler has come before the first one knew that its source is closed."""
    interrupts = iter([signal.SIGINT])

    class Numbers(Part):
        @staticmethod
        def closing():
            for number in interrupts:
                signal.raise_signal(number)

    source, config = per_thread(Numbers), {"num_workers": 0, "shuffle": False}
    loader = Loader(config, source)
    batches = loader.__enter__()
    with pytest.raises(KeyboardInterrupt):
        batches.close()
    with Loader({**config, "batch_size": 2}, source) as others:
        it = iter(others)
        assert [0, 1] == next(it).tolist()
        loader.__exit__(None, None, None)
        assert [2, 3] == next(it).tolist()


def test_a_thread_that_has_read_for_another_may_open_it_itself():
    """It has read for a loader that was entered elsewhere, and enters one after its end."""
    source, config = per_thread(lambda: range(8)), {"num_workers": 0, "shuffle": False}
    with ThreadPoolExecutor(1) as pool:
        with Loader(config, source) as batches:
            assert [list(range(8))] == pool.submit(lambda: [x.tolist() for x in batches]).result()

        def entered():
            with Loader(config, source) as batches:
                return [batch.tolist() for batch in batches]

        assert [list(range(8))] == pool.submit(entered).result()
