"""Whoever shares a folder, or a cache, finds what others have written, and nobody spoils it."""

import errno
import os
import random
import threading

import pytest
from kept_samples import COUNT, Clock, files, filled, made, numbers
from samples import same

from threadloader.cache import Folder, _folder, _segments, _shelf
from threadloader.cache._base import MISSING
from threadloader.cache._segments import Segment, Writer


def test_a_segment_taken_back_before_it_is_opened_is_no_news(tmp_path, monkeypatch, caplog):
    """Another process may close, in vain, what it began, between the list and the look."""
    with monkeypatch.context() as patch:
        patch.setattr(_shelf, "segment_names", lambda folder: [f"00000001-{0:016x}"])
        Folder(tmp_path, "key", COUNT).close()
    assert "is passed over" not in caplog.text


def test_a_write_that_fails_for_a_moment_opens_nothing_that_was_closed_meanwhile(
    tmp_path, monkeypatch
):
    cache = Folder(tmp_path, "key", COUNT)

    def closing(*args):
        cache.close()
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(_folder, "Writer", closing)
        cache.get(0, made)
    cache.get(1, made)
    assert [] == files(tmp_path)


def test_a_segment_that_was_taken_back_is_no_damage_to_another_cache(tmp_path, monkeypatch, caplog):
    first, second = Folder(tmp_path, "key", COUNT), Folder(tmp_path, "key", COUNT)

    def meanwhile(self, made, index):
        second.look()
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "append", meanwhile)
        first.get(0, made)
    caplog.clear()
    second.look()
    first.close()
    second.close()
    assert "" == caplog.text


def test_a_fork_removes_no_segment_that_its_parent_has_begun(tmp_path, monkeypatch):
    writer = Writer(tmp_path, "a", b"k" * 32)
    before = files(tmp_path)
    monkeypatch.setattr(os, "getpid", lambda: writer.pid + 1)
    writer.close()
    assert 2 == len(before)
    assert before == files(tmp_path)


def test_a_fork_holds_on_to_a_segment_that_its_parent_has_begun(tmp_path, monkeypatch):
    """It was forked in the middle of the first record, which its parent goes on to write."""
    cache = Folder(tmp_path, "key", COUNT)

    def forked(self, made, index):
        monkeypatch.setattr(os, "getpid", lambda: self.pid + 1)
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(Writer, "append", forked)
    cache.get(0, made)
    (segment,) = cache._shelf._segments
    assert b"" == segment.read(0, 1)  # or a ValueError, if it has been closed
    cache.close()


def test_several_caches_share_a_folder(tmp_path):
    """Each writes its own segment; a miss finds what others have written, once a second."""
    clock = Clock()
    one, other = (Folder(tmp_path, "key", COUNT, clock=clock) for _ in range(2))
    for index in range(3):
        one.get(index, made)
    other.get(5, made)
    assert other.find(0) is MISSING
    clock.now = 1.0
    assert same(made(0), other.find(0))
    assert same(made(5), one.find(5))
    one.get(4, made)
    other.look()
    assert same(made(4), other.find(4))
    assert (5, 5) == (one.stats().samples, other.stats().samples)
    assert one.stats().bytes <= other.stats().bytes
    one.close()
    other.close()
    assert sum(path.stat().st_size for path in files(tmp_path)) == other.stats().bytes


def test_a_sample_that_two_have_written_is_one_sample(tmp_path):
    """As when both missed it at the same time."""
    clock = Clock()
    caches = [Folder(tmp_path, "key", COUNT, clock=clock) for _ in range(2)]
    for cache in caches:
        for index in range(3):
            cache.get(index, made)
    for cache in caches:
        cache.look()
        assert 3 == cache.stats().samples
        cache.close()
    third = Folder(tmp_path, "key", COUNT)
    assert 3 == third.stats().samples
    third.close()


def test_a_sample_found_while_it_is_written_is_one_sample(tmp_path, monkeypatch):
    """Another process writes it, and we look, between our own look and our note of it."""
    ours, other = (Folder(tmp_path, "key", COUNT, clock=Clock()) for _ in range(2))
    real = Writer.append

    def late(self, record, index):
        monkeypatch.setattr(Writer, "append", real)
        other.get(index, made)
        ours.look()
        return real(self, record, index)

    monkeypatch.setattr(Writer, "append", late)
    ours.get(0, made)
    assert 1 == ours.stats().samples
    ours.close()
    other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_writes_files_of_its_own(tmp_path, run_child):
    """The place in an open file is the parent's as well."""
    code = """
import os, sys, warnings
from pathlib import Path
import numpy as np
from threadloader.cache import Folder

warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
cache = Folder(Path(sys.argv[1]), "key", 60)
for index in range(20):
    cache.get(index, np.arange)
if (child := os.fork()) == 0:
    for index in range(20, 40):
        cache.get(index, np.arange)
    cache.close()
    os._exit(0)
os.waitpid(child, 0)
for index in range(40, 60):
    cache.get(index, np.arange)
cache.look()
for index in range(60):
    assert np.array_equal(np.arange(index), cache.get(index, np.arange))
print(cache.stats().damaged, cache.stats().samples)
cache.close()
"""
    child = run_child(code, str(tmp_path))
    assert ("0 60\n", "") == (child.stdout, child.stderr)


FORKED = """
import os, sys, warnings
from pathlib import Path
import numpy as np
from threadloader.cache import Folder

warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
clock = iter(range(0, 10**9, 10)).__next__  # each miss looks
cache = Folder(Path(sys.argv[1]), "key", 60, clock=clock, max_bytes=int(sys.argv[2]))
for index in range(5):
    cache.get(index, np.arange)
written, ended = os.pipe()
if (child := os.fork()) == 0:
    os.read(written, 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_leaves_files_to_its_parent_that_a_thread_was_making(tmp_path, run_child):
    """They are there, and that thread has not said yet which number they have."""
    code = """
import os, signal, sys, threading, warnings
from pathlib import Path
from threadloader.cache import Folder
from threadloader.cache._shelf import Shelf

warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
begun, go_on, real = threading.Event(), threading.Event(), Shelf.add

def slow(shelf, name):
    begun.set()
    go_on.wait()
    return real(shelf, name)

Shelf.add = slow
clock = iter(range(0, 10**9, 10)).__next__  # each miss looks
cache = Folder(Path(sys.argv[1]), "key", 9, clock=clock)
thread = threading.Thread(target=cache.get, args=(0, str))
thread.start()
begun.wait()
if (child := os.fork()) == 0:
    signal.alarm(30)  # the end of one that waits for ever
    print([cache.get(index, str) for index in (0, 1, 1)], flush=True)
    cache.close()
    os._exit(0)
print(os.waitpid(child, 0)[1])
go_on.set()
thread.join()
cache.get(1, str)
cache.close()
cache = Folder(Path(sys.argv[1]), "key", 9)
print([cache.find(index) for index in (0, 1)], cache.stats().damaged)
cache.close()
"""
    child = run_child(code, str(tmp_path))
    assert ("['0', '1', '1']\n0\n['0', '1'] 0\n", "") == (child.stdout, child.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_reads_what_its_parent_goes_on_to_write(tmp_path, run_child):
    code = f"""{FORKED}
    prepared = []
    for index in range(60):
        cache.get(index, lambda index: prepared.append(index) or np.arange(index))
    print(prepared, cache.stats().samples)
    cache.close()
    sys.stdout.flush()
    os._exit(0)
for index in range(5, 60):
    cache.get(index, np.arange)
os.write(ended, b"x")
os.waitpid(child, 0)
cache.close()
"""
    child = run_child(code, str(tmp_path), "1000000")
    assert ("[] 60\n", "") == (child.stdout, child.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_counts_what_its_parent_has_written(tmp_path, run_child):
    """Both of them keep to one bound, and neither counts a byte twice."""
    code = f"""{FORKED}
    for index in range(30, 60):
        cache.get(index, lambda index: np.zeros(1000))
    held = cache._shelf.held()[1]
    files = sum(file.stat().st_size for file in cache._folder.iterdir())
    print(files <= int(sys.argv[2]), held == files, files // 100000)
    cache.close()
    sys.stdout.flush()
    os._exit(0)
for index in range(5, 30):
    cache.get(index, lambda index: np.zeros(1000))
os.write(ended, b"x")
os.waitpid(child, 0)
cache.close()
"""
    child = run_child(code, str(tmp_path), "300000")
    assert ("True True 2\n", "") == (child.stdout, child.stderr)


def test_closing_while_a_sample_is_read_is_no_damage(tmp_path, monkeypatch):
    """The reader finds its file closed, and prepares the sample."""
    filled(tmp_path)
    cache = Folder(tmp_path, "key", COUNT)
    real = Segment.read

    def closing(self, offset, length):
        cache.close()
        return real(self, offset, length)

    monkeypatch.setattr(Segment, "read", closing)
    assert same(made(0), cache.get(0, made))
    assert 0 == cache.stats().damaged


def test_processes_share_a_folder(tmp_path, run_child):
    """Two at once, each keeping all samples while the other does; a third finds them all."""
    code = """
import sys, threading
from pathlib import Path
import numpy as np
from threadloader.cache import Folder

def work():
    cache = Folder(Path(sys.argv[1]), "key", 200)
    for index in range(200):
        sample = cache.get(index, lambda index: np.arange(index))
        assert np.array_equal(np.arange(index), sample)
    cache.close()

work()
"""
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(run_child(code, str(tmp_path))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [("", 0)] * 2 == [(child.stderr, child.returncode) for child in results]
    cache = Folder(tmp_path, "key", 200)
    for index in range(200):
        assert index == len(cache.find(index))
    assert (200, 0, 0) == numbers(cache.stats())
    cache.close()


def test_records_are_read_by_many_threads_where_there_is_no_pread(tmp_path):
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    (records,) = files(tmp_path, ".data")
    segment = Segment(index.parent, index.stem, shared=False)
    whole, wrong = records.read_bytes(), []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(300):
            begin = rng.randrange(len(whole))
            length = rng.randrange(1, len(whole) - begin + 1)
            if segment.read(begin, length) != whole[begin : begin + length]:
                wrong.append(begin)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    segment.close()
    assert [] == wrong


def test_a_segment_that_is_added_while_it_is_closed_is_closed(tmp_path, monkeypatch):
    """Between the opening of its file and the note of it another thread closes."""
    filled(tmp_path, [0])
    opened = []

    class Closing(Segment):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            opened.append(self)
            shelf.close()

    (folder,) = tmp_path.iterdir()
    shelf = _shelf.Shelf(folder, b"", COUNT)
    monkeypatch.setattr(_shelf, "Segment", Closing)
    shelf.look()
    assert [True] == [segment._file.closed for segment in opened]
    assert (0, 0) == shelf.held()


def test_closing_waits_for_no_write(tmp_path, monkeypatch):
    """A write hangs; `close` returns; when the write comes back its thread closes the files."""
    begun, go_on = threading.Event(), threading.Event()
    real = _segments._write_all

    def hanging(file, data):
        begun.set()
        assert go_on.wait(30)
        real(file, data)

    monkeypatch.setattr(_segments, "_write_all", hanging)
    cache = Folder(tmp_path, "key", COUNT)
    worker = threading.Thread(target=cache.get, args=(0, made))
    worker.start()
    assert begun.wait(30)
    cache.close()
    go_on.set()
    worker.join()
    assert cache._writer is None
