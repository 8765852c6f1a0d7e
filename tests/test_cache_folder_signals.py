"""What a handler of a signal or of the log raises passes, and leaves no lock held and no damage."""

import itertools
import logging
import sys
import threading
from pathlib import Path

import pytest
from kept_samples import COUNT, Clock, files, filled, made, numbers, read
from samples import same
from sweep import Interrupt, Sweep

from threadloader.cache import Folder, _segments, _shelf
from threadloader.cache._base import MISSING
from threadloader.cache._segments import Segment, Writer


def test_what_a_handler_of_the_log_raises_is_its_own(tmp_path, caplog, monkeypatch):
    def emit(record):
        raise ValueError("the log server refused this")

    caplog.set_level(logging.INFO, "threadloader")
    monkeypatch.setattr(caplog.handler, "emit", emit)
    with pytest.raises(ValueError, match=r"^the log server refused this$"):
        Folder(tmp_path, "key", COUNT)


def test_what_it_raises_over_a_damaged_file_costs_no_sample(tmp_path, caplog, monkeypatch):
    """Files are looked at while samples are read, too."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    index.write_bytes(b"x" * 4096)

    def emit(record):
        raise ValueError("the log server refused this")

    told = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(str(args.exc_value)))
    monkeypatch.setattr(caplog.handler, "emit", emit)
    Folder(tmp_path, "key", COUNT).close()
    assert ["the log server refused this"] == told


@pytest.mark.parametrize("step", ["before", "between", "after"])
def test_an_interrupted_write_harms_nothing(tmp_path, monkeypatch, step):
    """Ctrl-C in the loading thread: it passes, and whatever it cut short is not read."""
    real, calls = _segments._write_all, itertools.count()

    def interrupted(file, data):
        call = next(calls)
        if call == 3 and step == "before":  # header, record, entry, and here the second record
            file.write(bytes(data)[:10])
            raise KeyboardInterrupt
        if call == 4 and step == "between":
            file.write(bytes(data)[:10])
            raise KeyboardInterrupt
        real(file, data)
        if call == 4 and step == "after":
            raise KeyboardInterrupt

    monkeypatch.setattr(_segments, "_write_all", interrupted)
    cache = Folder(tmp_path, "key", COUNT)
    cache.get(0, made)
    with pytest.raises(KeyboardInterrupt):
        cache.get(1, made)
    for _ in range(2):
        for index in range(COUNT):
            assert same(made(index), cache.get(index, made))
    cache.close()
    assert 0 == cache.stats().damaged
    assert (COUNT, 0, 0) == numbers(read(tmp_path))


def rung(*args, **options):
    """What a handler does whose signal comes in the middle of a call of the system."""
    raise TimeoutError("rung")


@pytest.mark.parametrize(
    ("where", "name"),
    [(Segment, "read"), (_shelf, "segment_names"), (_segments, "_write_all")],
)
def test_what_a_signal_handler_raises_passes_and_is_no_damage(tmp_path, monkeypatch, where, name):
    """Wherever it comes: as it is, and the cache goes on as before."""
    filled(tmp_path, range(3))
    clock = Clock()
    cache = Folder(tmp_path, "key", COUNT, clock=clock)
    cache.get(3, made)
    clock.now += 1  # so that the next miss looks for what others have written
    with monkeypatch.context() as patch:
        patch.setattr(where, name, rung)
        with pytest.raises(TimeoutError, match="rung"):
            cache.get(0 if where is Segment else 4, made)
    for index in range(COUNT):
        assert same(made(index), cache.get(index, made))
    cache.close()
    assert 0 == cache.stats().damaged
    assert 0 == read(tmp_path).damaged


def test_what_a_signal_handler_raises_passes_while_it_is_closed(tmp_path, monkeypatch):
    cache = Folder(tmp_path, "key", COUNT)
    cache.get(0, made)
    real = Writer.close
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "close", lambda writer: real(writer) or rung())
        with pytest.raises(TimeoutError, match="rung"):
            cache.close()
    cache.close()
    assert cache.find(0) is MISSING


def test_a_writer_whose_closing_was_interrupted_is_closed_by_the_next_call(tmp_path, monkeypatch):
    """An interrupt that comes before it has closed anything."""
    cache = Folder(tmp_path, "key", COUNT)
    cache.get(0, made)
    writer = cache._writer
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "close", rung)
        with pytest.raises(TimeoutError, match="rung"):
            cache.close()
    assert (False, False) == (writer._data.closed, writer._index.closed)
    cache.close()
    assert (True, True) == (writer._data.closed, writer._index.closed)
    assert () == cache._ended


def test_an_interrupt_between_two_files_of_a_writer_leaves_the_other_closed(tmp_path, monkeypatch):
    writer = Writer(tmp_path, "a", b"k" * 32)
    monkeypatch.setattr(writer, "_data", Ringing(writer._data))
    with pytest.raises(TimeoutError, match="rung"):
        writer.close()
    assert writer._index.closed
    writer._data.file.close()


class Ringing:
    """A file while whose closing a signal comes."""

    def __init__(self, file):
        self.file = file

    def close(self):
        rung()


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="from 3.12 on CPython reports no instructions here"
)
def test_an_interrupt_at_any_instruction_leaves_no_lock_held():
    """Nobody would come to write any more, or wait for ever."""
    for at in itertools.count(1):
        lock, done = threading.Lock(), []
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt, opcodes=True)
            try:
                with sweep:
                    _shelf.unless_held(
                        lock, lambda lock=lock, done=done: done.append(lock.locked())
                    )
            except KeyboardInterrupt as error:
                interrupt.came_as(error)
            finally:
                sys.settrace(None)
        assert not lock.locked(), sweep.where
        assert done in ([], [True])
        interrupt.look()
        if sweep.passed < at:
            break
    assert [True] == done
    assert at > 20


def test_what_is_held_is_left_alone():
    lock = threading.Lock()
    with lock:
        _shelf.unless_held(lock, rung)
        assert lock.locked()


def test_what_a_signal_handler_raises_passes_while_it_is_opened(tmp_path, monkeypatch):
    """It is no fault of the folder; what had been opened is closed."""
    filled(tmp_path)
    for where, name in ((Segment, "new_entries"), (Path, "iterdir")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, rung)
            with pytest.raises(TimeoutError, match="rung"):
                Folder(tmp_path, "key", COUNT)
    assert (COUNT, 0, 0) == numbers(read(tmp_path))


def test_a_handler_that_closes_it_and_raises_leaves_no_file_open(tmp_path, monkeypatch):
    """Its signal comes while this thread writes: whoever writes closes what it wrote to."""
    cache = Folder(tmp_path, "key", COUNT)
    cache.get(0, made)

    def closing(*args):
        cache.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(_shelf.Shelf, "find", closing)
    with pytest.raises(KeyboardInterrupt):
        cache.keep(1, made(1))
    assert cache._writer is None


def test_a_close_while_it_is_looked_at_leaves_no_file_open(tmp_path, monkeypatch):
    """By a handler or another thread. It takes whoever looks for one that writes."""
    times = iter([0.0, *[9.0] * 9])
    cache = Folder(tmp_path, "key", COUNT, clock=lambda: next(times))
    cache.keep(0, made(0))
    real = Folder._leave_to_parent

    def closing(self):
        self.close()
        assert self._writer is not None  # it was left to this thread
        real(self)

    monkeypatch.setattr(Folder, "_leave_to_parent", closing)
    cache.find(1)
    assert cache._writer is None
