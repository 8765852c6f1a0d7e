"""A folder never gives a wrong sample, whatever happened to its files, and loading goes on.

Longer than other files: what can happen to files stands together.
"""

import contextlib
import errno
import itertools
import logging
import os
import random
import shutil
import stat
import sys
import threading
import tracemalloc
from io import FileIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from links import make_link
from samples import same, samples
from sweep import Interrupt, Sweep

from threadloader.cache import Folder, _folder, _segments, _shelf
from threadloader.cache._base import MISSING
from threadloader.cache._segments import Segment, Writer
from threadloader.errors import ConfigError

COUNT = 6


def made(index):
    """The sample of an index; samples differ in size, so that a record fits nowhere else."""
    return {"x": np.arange(index, index + 3 + index), "name": f"sample {index}", "y": index}


def filled(folder, indices=range(COUNT), key="key", **options):
    """Keeps some samples and closes."""
    cache = Folder(folder, key, COUNT, **options)
    for index in indices:
        cache.get(index, made)
    cache.close()
    return cache.stats()


def read(folder, key="key", **options):
    """Reads every sample through a new cache; gives its numbers. A wrong sample fails."""
    cache = Folder(folder, key, COUNT, **options)
    try:
        for index in range(COUNT):
            assert same(made(index), cache.get(index, made))
        return cache.stats()
    finally:
        cache.close()


def files(folder, suffix=""):
    return sorted(path for path in folder.rglob(f"*{suffix}") if path.is_file())


def numbers(stats):
    return stats.hits, stats.misses, stats.damaged


class Clock:
    """Stands still until it is set."""

    now = 0.0

    def __call__(self):
        return self.now


@given(st.lists(samples, min_size=1, max_size=4))
@settings(max_examples=60)
def test_the_next_run_finds_what_was_kept(tmp_path_factory, kept):
    folder = tmp_path_factory.mktemp("cache")
    for run in range(2):
        cache = Folder(folder, "key", len(kept))
        for index, sample in enumerate(kept):
            assert same(sample, cache.get(index, kept.__getitem__))
        cache.close()
        stats = cache.stats()
        assert (run * len(kept), 0) == (stats.hits, stats.damaged)
        assert sum(path.stat().st_size for path in files(folder)) == stats.bytes


def test_a_run_that_finds_everything_writes_nothing(tmp_path):
    filled(tmp_path)
    before = files(tmp_path)
    assert (COUNT, 0, 0) == numbers(read(tmp_path))
    assert before == files(tmp_path)


def test_two_keys_live_side_by_side(tmp_path, caplog):
    """What is kept for one source or transform is never taken for another's; the log says so."""
    caplog.set_level(logging.INFO, "threadloader")
    filled(tmp_path)
    assert (0, COUNT, 0) == numbers(filled(tmp_path, key="another"))
    assert (0, 1, 0) == numbers(filled(tmp_path, indices=[0], key="a third"))
    assert (COUNT, 0, 0) == numbers(read(tmp_path))
    begun = [record for record in caplog.messages if "begun anew; what" in record]
    assert ["(folders: 1)" in begun[0], "(folders: 2)" in begun[1]] == [True, True]
    assert 2 == len(begun)


def test_another_number_of_samples_is_another_key(tmp_path):
    filled(tmp_path)
    cache = Folder(tmp_path, "key", COUNT + 1)
    assert cache.find(0) is MISSING
    cache.close()


def test_a_folder_that_cannot_be_listed_is_used_all_the_same(tmp_path, monkeypatch):
    """Its sub-folder is there, and may be gone to: only the others are not counted."""
    filled(tmp_path)

    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    assert COUNT == read(tmp_path).hits


def test_what_a_handler_of_the_log_raises_is_its_own(tmp_path, caplog, monkeypatch):
    def emit(record):
        raise ValueError("the log server refused this")

    caplog.set_level(logging.INFO, "threadloader")
    monkeypatch.setattr(caplog.handler, "emit", emit)
    with pytest.raises(ValueError, match=r"^the log server refused this$"):
        Folder(tmp_path, "key", COUNT)


def test_what_it_raises_over_a_damaged_file_is_its_own_too(tmp_path, caplog, monkeypatch):
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    index.write_bytes(b"x" * 4096)

    def emit(record):
        raise ValueError("the log server refused this")

    monkeypatch.setattr(caplog.handler, "emit", emit)
    with pytest.raises(ValueError, match=r"^the log server refused this$"):
        Folder(tmp_path, "key", COUNT)


@pytest.mark.parametrize("damaged", [True, False])
def test_files_that_are_passed_over_can_be_deleted_only_if_they_are_damaged(
    tmp_path, caplog, monkeypatch, damaged
):
    """What cannot be opened here may be good for others; and it is named as it is."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    if damaged:
        index.write_bytes(b"x" * 4096)
    else:
        real = _segments.FileIO

        def refused(path, mode):
            if mode == "rb":
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return real(path, mode)

        monkeypatch.setattr(_segments, "FileIO", refused)
    assert COUNT == read(tmp_path).misses
    (told,) = [text for text in caplog.messages if "is passed over" in text]
    assert damaged == told.endswith("; its files can be deleted")
    assert "PosixPath" not in told


def test_a_segment_taken_back_before_it_is_opened_is_no_news(tmp_path, monkeypatch, caplog):
    """Another process may close, in vain, what it began, between the list and the look."""
    with monkeypatch.context() as patch:
        patch.setattr(_shelf, "segment_names", lambda folder: [f"00000001-{0:016x}"])
        Folder(tmp_path, "key", COUNT).close()
    assert "is passed over" not in caplog.text


def test_files_of_another_key_are_passed_over(tmp_path, caplog):
    """As when somebody has copied them."""
    filled(tmp_path, key="another")
    (other,) = tmp_path.iterdir()
    filled(tmp_path, indices=[])
    (mine,) = set(tmp_path.iterdir()) - {other}
    for file in files(other):
        (mine / file.name).write_bytes(file.read_bytes())
    assert (0, COUNT, 0) == numbers(read(tmp_path))
    assert "is passed over: it has no header of this cache" in caplog.text


def test_records_of_another_key_are_damaged(tmp_path):
    """An index beside the records of another source: each is found out."""
    filled(tmp_path)
    (records,) = files(tmp_path, ".data")
    filled(tmp_path / "other", key="another")
    records.write_bytes(files(tmp_path / "other", ".data")[0].read_bytes())
    assert (0, COUNT, COUNT) == numbers(read(tmp_path))


@pytest.mark.parametrize("suffix", [".data", ".index"])
def test_cut_at_any_byte_it_gives_what_is_whole(tmp_path, suffix):
    """As after a crash or a full disk: the rest is prepared, and kept for the next run."""
    filled(tmp_path / "whole")
    (cut,) = files(tmp_path / "whole", suffix)
    data = cut.read_bytes()
    for length in range(len(data)):
        folder = tmp_path / f"{length}"
        for file in files(tmp_path / "whole"):
            (folder / file.parent.name).mkdir(parents=True, exist_ok=True)
            (folder / file.parent.name / file.name).write_bytes(file.read_bytes())
        (folder / cut.parent.name / cut.name).write_bytes(data[:length])
        stats = read(folder)
        assert COUNT == stats.hits + stats.misses
        assert (COUNT, 0, 0) == numbers(read(folder))


def flipped(data, bits):
    changed = bytearray(data)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_one_flipped_bit_anywhere_costs_at_most_one_file(tmp_path):
    """For each byte of the folder one of its bits: no sample is wrong, and it is counted."""
    filled(tmp_path)
    rng = random.Random(7)
    sound = files(tmp_path)
    for file in sound:
        data = file.read_bytes()
        for place in range(len(data)):
            file.write_bytes(flipped(data, [8 * place + rng.randrange(8)]))
            stats = read(tmp_path)
            if file.suffix == ".data":
                assert (COUNT - 1, 1, 1) == numbers(stats)
            else:
                assert COUNT == stats.hits + stats.misses
            for more in set(files(tmp_path)) - set(sound):
                more.unlink()
        file.write_bytes(data)


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flipped_bits_and_lost_ends_never_give_a_wrong_sample(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cache")
    filled(folder, range(4))
    filled(folder, range(COUNT))
    for file in files(folder):
        old = file.read_bytes()
        bits = data.draw(st.lists(st.integers(0, 8 * len(old) - 1), max_size=6))
        file.write_bytes(flipped(old, bits)[: data.draw(st.integers(len(old) // 2, len(old)))])
    read(folder)
    assert (COUNT, 0) == numbers(read(folder))[:2]


def test_a_damaged_sample_is_prepared_anew_and_found_in_the_next_run(tmp_path, caplog):
    """The one that was written later counts."""
    filled(tmp_path)
    (records,) = files(tmp_path, ".data")
    records.write_bytes(flipped(records.read_bytes(), [200]))
    assert (COUNT - 1, 1, 1) == numbers(read(tmp_path))
    assert ["is damaged, and prepared anew" in message for message in caplog.messages] == [True]
    assert (COUNT, 0, 0) == numbers(read(tmp_path))


def test_a_damaged_sample_is_counted_once(tmp_path):
    filled(tmp_path)
    (records,) = files(tmp_path, ".data")
    records.write_bytes(flipped(records.read_bytes(), [200]))
    cache = Folder(tmp_path, "key", COUNT)
    for _ in range(3):
        cache.find(0)
    stats = cache.stats()
    assert (3, 1, COUNT - 1) == (stats.misses, stats.damaged, stats.samples)
    cache.close()


OF_PROCESS = pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])


def refusing(number):
    """Gives a function that raises the system's error of this number."""

    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return refuse


@OF_PROCESS
def test_what_is_wrong_with_the_process_is_no_damage(tmp_path, monkeypatch, number, caplog):
    """Where no more files may be open, the sample is prepared, and its record found later."""
    filled(tmp_path)
    before = files(tmp_path)
    cache = Folder(tmp_path, "key", COUNT)
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "read", refusing(number))
        assert same(made(0), cache.get(0, made))
    assert (0, 1, 0) == numbers(cache.stats())
    assert same(made(0), cache.get(0, made))
    assert (1, 1, 0) == numbers(cache.stats())
    cache.close()
    assert (before, "") == (files(tmp_path), caplog.text)


@OF_PROCESS
@pytest.mark.parametrize("method", ["__init__", "new_entries"])
def test_files_that_the_process_could_not_open_are_looked_at_the_next_time(
    tmp_path, monkeypatch, number, method, caplog
):
    filled(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Segment, method, refusing(number))
        cache = Folder(tmp_path, "key", COUNT)
    assert 0 == cache.stats().samples
    cache.look()
    assert COUNT == cache.stats().samples
    cache.close()
    assert "" == caplog.text


@OF_PROCESS
def test_where_the_process_cannot_write_for_a_moment_the_next_sample_is_kept(
    tmp_path, monkeypatch, number, caplog
):
    cache = Folder(tmp_path, "key", COUNT)
    with monkeypatch.context() as patch:
        patch.setattr(_folder, "Writer", refusing(number))
        for index in range(3):
            assert same(made(index), cache.get(index, made))
    assert [True] == ["it is not kept this time" in text for text in caplog.messages]
    for index in range(2, COUNT):
        cache.get(index, made)
    assert COUNT - 2 == cache.stats().samples
    cache.close()
    assert (COUNT - 2, 2, 0) == numbers(read(tmp_path))


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


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_where_too_many_files_are_open_the_error_says_what_to_do(tmp_path, monkeypatch, number):
    monkeypatch.setattr(_folder, "segment_names", refusing(number))
    with pytest.raises(ConfigError, match="open fewer files or loaders at once"):
        Folder(tmp_path, "key", COUNT)


@pytest.mark.parametrize(
    ("limit", "expected"), [(1, 1), (64, 8), (256, 32), (1024, 64), (None, 64)]
)
def test_an_eighth_of_what_the_process_may_have_open_is_held_open(monkeypatch, limit, expected):
    resource = pytest.importorskip("resource")
    soft = resource.RLIM_INFINITY if limit is None else limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert expected == _shelf.most_open(_shelf._MOST_OPEN)


def test_where_the_limit_cannot_be_asked_for_as_many_are_held_open_as_ever(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert 64 == _shelf.most_open(_shelf._MOST_OPEN)


@pytest.mark.parametrize("field", ["index", "offset", "length"])
@pytest.mark.parametrize("value", [-1, 1 << 31, 1 << 40, (1 << 63) - 1])
def test_an_index_that_lies_takes_no_memory(tmp_path, field, value):
    folder, other = tmp_path / "folder", tmp_path / "other"
    filled(folder)
    (index,) = files(folder, ".index")
    data = bytearray(index.read_bytes())
    entries = np.frombuffer(data, _segments._ENTRY, offset=_segments.HEADER_BYTES)
    entries[field] = value
    index.write_bytes(data)
    shutil.copytree(folder, other)
    read(other)  # which imports what is needed for one that lies
    tracemalloc.start()
    assert (0, COUNT, 0) == numbers(read(folder))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_entries_that_overlap_or_repeat_are_found_out(tmp_path):
    """An index made up by someone: every entry names the first record."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    data = bytearray(index.read_bytes())
    entries = np.frombuffer(data, _segments._ENTRY, offset=_segments.HEADER_BYTES)
    entries["offset"], entries["length"] = entries["offset"][0], entries["length"][0]
    index.write_bytes(data)
    assert (1, COUNT - 1, COUNT - 1) == numbers(read(tmp_path))


class Full:
    """Takes the place of `FileIO` in `_segments`: a disk with room for some bytes."""

    def __init__(self, room, partly):
        self.room, self.partly = room, partly

    def __call__(self, path, mode, **options):
        disk = self

        class File(FileIO):
            def write(self, data):
                room = disk.room if disk.partly else disk.room * (len(data) <= disk.room)
                if data and not room:
                    raise OSError(errno.ENOSPC, "No space left on device")
                written = super().write(data[:room])
                disk.room -= written
                return written

        return File(path, mode, **options)


@pytest.mark.parametrize("partly", [True, False], ids=["short writes", "whole writes"])
def test_a_full_disk_ends_the_keeping_and_not_the_loading(tmp_path, monkeypatch, caplog, partly):
    """Wherever it is full: one warning, no wrong sample, and the next run reads what there is."""
    room = files_size = 0
    while True:
        folder = tmp_path / f"{room}"
        with monkeypatch.context() as patch:
            patch.setattr(_segments, "FileIO", Full(room, partly))
            caplog.clear()
            first = read(folder)
        assert COUNT == first.misses
        warned = ["No space left on device; no more are kept" in text for text in caplog.messages]
        if not warned:
            break
        assert [True] == warned
        files_size = sum(path.stat().st_size for path in files(folder))
        assert files_size <= room
        second = read(folder)
        assert (first.samples, 0) == (second.hits, second.damaged)
        room += 7
    assert files_size > 500


def test_who_waited_to_write_while_the_disk_was_found_full_writes_nothing(tmp_path, monkeypatch):
    """There is one warning, after which nothing more is kept."""
    filled(tmp_path, range(2))
    before = files(tmp_path)
    cache = Folder(tmp_path, "key", COUNT)
    whole = _folder.encode

    def meanwhile(sample):  # called behind the first look, and before the wait
        cache._stopped = True
        return whole(sample)

    monkeypatch.setattr(_folder, "encode", meanwhile)
    assert same(made(3), cache.get(3, made))
    cache.close()
    assert before == files(tmp_path)


def test_after_the_disk_was_full_hits_go_on(tmp_path, monkeypatch):
    filled(tmp_path, range(3))
    with monkeypatch.context() as patch:
        patch.setattr(_segments, "FileIO", Full(0, partly=True))
        assert (3, 3, 0) == numbers(read(tmp_path))


def test_a_folder_that_cannot_be_written_is_read(tmp_path, monkeypatch, caplog):
    filled(tmp_path, range(3))

    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_folder, "Writer", refuse)
    assert (3, 3, 0) == numbers(read(tmp_path))
    assert 1 == caplog.text.count("Permission denied; no more are kept")


class Disk:
    """Takes the place of `FileIO` in `_segments`: files of one kind cannot be made, or written."""

    def __init__(self, kind, error, writing):
        self.kind, self.error, self.writing = kind, error, writing

    def __call__(self, path, mode, **options):
        disk = self

        class File(FileIO):
            def write(self, data):
                raise disk.error

        if Path(path).suffix != self.kind:
            return FileIO(path, mode, **options)
        if not self.writing:
            raise self.error
        return File(path, mode, **options)


@pytest.mark.parametrize("writing", [False, True], ids=["making", "writing"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_of_a_segment_that_cannot_be_begun_no_file_is_left(tmp_path, monkeypatch, error, writing):
    """Else each run would leave another one, for ever."""
    monkeypatch.setattr(_segments, "FileIO", Disk(".index", error, writing))
    with pytest.raises(type(error)):
        Writer(tmp_path, "a", b"k" * 32)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [".data", ".index"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOMEM])
def test_of_a_segment_without_a_whole_record_no_file_is_left(tmp_path, monkeypatch, number, kind):
    """The disk has room for its header alone, say."""
    cache = Folder(tmp_path, "key", COUNT)
    whole = _segments._write_all

    def cut(file, data):
        if Path(file.name).suffix != kind or len(data) == _segments.HEADER_BYTES:
            return whole(file, data)
        whole(file, data[:5])
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(_segments, "_write_all", cut)
        for index in range(2):
            assert same(made(index), cache.get(index, made))
    assert [] == files(tmp_path)
    assert 0 == cache.stats().bytes
    cache.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_of_a_segment_that_cannot_be_read_as_well_no_file_is_left(tmp_path, monkeypatch, number):
    """There was room for the two files of its writer, and not for a third."""
    cache = Folder(tmp_path, "key", COUNT)
    with monkeypatch.context() as patch:
        patch.setattr(_shelf, "Segment", refusing(number))
        cache.get(0, made)
    assert [] == files(tmp_path)
    cache.get(0, made)
    assert 2 == len(files(tmp_path))
    assert sum(path.stat().st_size for path in files(tmp_path)) == cache.stats().bytes
    cache.close()
    assert 2 == len(files(tmp_path))


def test_a_segment_with_one_whole_record_is_left_when_the_next_one_fails(tmp_path, monkeypatch):
    cache = Folder(tmp_path, "key", COUNT)
    cache.get(0, made)
    with monkeypatch.context() as patch:
        patch.setattr(_segments, "_write_all", refusing(errno.ENOSPC))
        cache.get(1, made)
    cache.close()
    assert (1, COUNT - 1, 0) == numbers(read(tmp_path))


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


def test_a_file_that_was_there_before_is_not_removed(tmp_path):
    (tmp_path / "a.index").write_bytes(b"another's")
    with pytest.raises(FileExistsError):
        Writer(tmp_path, "a", b"k" * 32)
    assert ["a.index"] == [path.name for path in tmp_path.iterdir()]


def test_an_error_of_the_removal_does_not_hide_the_first(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left")

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_segments, "FileIO", Disk(".index", full, writing=True))
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OSError, match="No space left") as caught:
        Writer(tmp_path, "a", b"k" * 32)
    assert full is caught.value


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


@given(st.integers(0, 1500), st.permutations(range(COUNT)))
@settings(max_examples=60)
def test_the_bound_is_never_passed(tmp_path_factory, max_bytes, order):
    """Over several runs; and the bytes that are told are those of the files."""
    folder = tmp_path_factory.mktemp("cache")
    for _ in range(2):
        stats = filled(folder, order, max_bytes=max_bytes)
        size = sum(path.stat().st_size for path in files(folder))
        assert stats.bytes == size <= max_bytes or 0 == stats.samples
        assert size <= max_bytes


def test_files_that_nobody_can_use_count_for_the_bound(tmp_path):
    """Else each run with a damaged file would fill the folder once more."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    index.write_bytes(b"?" + index.read_bytes()[1:])
    size = sum(path.stat().st_size for path in files(tmp_path))
    cache = Folder(tmp_path, "key", COUNT)
    cache.close()
    assert (0, size) == (cache.stats().samples, cache.stats().bytes)


def test_a_full_folder_says_so_once(tmp_path, caplog):
    caplog.set_level(logging.INFO, "threadloader")
    filled(tmp_path, max_bytes=400)
    assert 1 == sum("does not fit into max_bytes" in message for message in caplog.messages)


@pytest.mark.parametrize("broken", [False, True], ids=["full", "a write that fails"])
def test_what_is_logged_of_a_write_is_logged_where_the_others_may_write(
    tmp_path, monkeypatch, caplog, broken
):
    """A handler that hangs would hold up all workers, and not one."""
    cache, held = Folder(tmp_path, "key", COUNT, 1 << 20 if broken else 1), []

    def handle(record):
        held.append(cache._writing.locked())
        return False

    def fail(index, record):
        raise OSError(errno.ENOSPC, "no space")

    if broken:
        monkeypatch.setattr(cache, "_write", fail)
    monkeypatch.setattr(logging.getLogger("threadloader"), "filters", [handle])
    caplog.set_level(logging.INFO, "threadloader")
    cache._keep(0, b"something")
    cache.close()
    assert [False] == held


@pytest.mark.parametrize(
    "sample",
    [
        np.zeros(2, "i4,f4"),
        pytest.param(
            np.zeros(1, np.longdouble),
            marks=pytest.mark.skipif(np.longdouble(0).nbytes == 8, reason="it is a double here"),
        ),
        np.zeros(1, np.dtype("f4", metadata={"unit": "m"})),
    ],
    ids=["structured", "long double", "metadata"],
)
def test_what_a_file_cannot_describe_is_counted_and_cannot_be_written_to(tmp_path, sample):
    cache = Folder(tmp_path, "key", 1)
    cache.get(0, lambda index: np.zeros(1, "f4"))  # a dtype that is equal to one with metadata
    cache.close()
    cache = Folder(tmp_path, "other", 1)
    for _ in range(2):
        found = cache.get(0, lambda index: sample)
        assert same(sample, found)
        assert sample.dtype.metadata == found.dtype.metadata
        assert found is sample or not found.flags.writeable
    cache.close()
    assert (0, 2) == (cache.stats().samples, cache.stats().uncacheable)


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


def test_an_index_that_is_cut_while_it_is_read_ends_there(tmp_path, monkeypatch):
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    cache = Folder(tmp_path, "key", COUNT)
    monkeypatch.setattr(_segments, "_CHUNK", 2)
    segment = Segment(index.parent, index.stem)
    entries = segment.new_entries(cache._key, COUNT)
    assert [0, 1] == next(entries)["index"].tolist()
    os.truncate(index, _segments.HEADER_BYTES + _segments.ENTRY_BYTES)
    assert [] == list(entries)
    segment.close()
    cache.close()


@pytest.mark.parametrize("most", [1, 10, 100])
def test_an_index_that_is_read_in_small_pieces_is_read_whole(tmp_path, monkeypatch, most):
    """A file system may give less than it was asked for."""

    class Short(FileIO):
        def read(self, size=-1):
            return super().read(min(size, most))

    filled(tmp_path)
    monkeypatch.setattr(_segments, "FileIO", Short)
    monkeypatch.setattr(_segments, "_CHUNK", 7)
    cache = Folder(tmp_path, "key", COUNT)
    assert all(same(made(index), cache.find(index)) for index in range(COUNT))
    assert (COUNT, 0, 0) == numbers(cache.stats())
    cache.close()


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


def test_only_so_many_files_are_held_open(tmp_path, monkeypatch):
    """Of more segments than that, the others are opened to be read."""
    for index in range(COUNT):
        filled(tmp_path, [index])
    monkeypatch.setattr(_shelf, "most_open", lambda most: 2)
    cache = Folder(tmp_path, "key", COUNT)
    opened = [segment for segment in cache._shelf._segments if not segment._file.closed]
    cache.close()
    assert (2, COUNT) == (len(opened), len(cache._shelf._segments))
    assert (COUNT, 0, 0) == numbers(read(tmp_path))


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


@pytest.mark.parametrize("shared", [False, hasattr(os, "pread")])
def test_a_file_that_ends_before_gives_what_it_has(tmp_path, shared):
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    (records,) = files(tmp_path, ".data")
    segment = Segment(index.parent, index.stem, shared=shared)
    whole = records.read_bytes()
    assert whole[5:] == segment.read(5, len(whole))
    segment.close()


def test_a_file_that_cannot_be_read_is_damage(tmp_path, monkeypatch):
    filled(tmp_path)

    def fail(self, offset, length):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Segment, "read", fail)
    assert (0, COUNT, COUNT) == numbers(read(tmp_path))


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


def test_a_file_that_cannot_be_closed_keeps_no_other_open(tmp_path, monkeypatch):
    """As over a network; nothing is lost that way, and so the loader says nothing."""
    for index in range(3):
        filled(tmp_path, [index])
    close, closed = Segment.close, []

    def refused(self):
        close(self)
        closed.append(self._file.closed)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    opened = Folder(tmp_path, "key", COUNT)
    monkeypatch.setattr(Segment, "close", refused)
    opened.close()
    assert [True] * 3 == closed


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_links_in_the_folder_are_passed_over(tmp_path, caplog):
    """Nothing waits on a pipe, and what a link leads to is not read."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    (records,) = files(tmp_path, ".data")
    name = "00000002-" + "0" * 16
    os.mkfifo(index.parent / f"{name}.index")
    (index.parent / f"{name}.data").write_bytes(b"")
    away = tmp_path / "away"
    records.rename(away)
    make_link(records, away)
    assert (0, COUNT, 0) == numbers(read(tmp_path))
    assert 2 == caplog.text.count("is passed over")


def test_a_sub_folder_that_is_a_link_is_refused(tmp_path):
    """Whoever made the link would say where we write."""
    filled(tmp_path / "one")
    (sub,) = (tmp_path / "one").iterdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "two").mkdir()
    make_link(tmp_path / "two" / sub.name, tmp_path / "away")
    with pytest.raises(ConfigError, match=r"/cache/folder.*is a link"):
        Folder(tmp_path / "two", "key", COUNT)
    assert [] == list((tmp_path / "away").iterdir())


@pytest.mark.parametrize("tag", [0xA0000003, 0x9000001A, 0])
def test_a_sub_folder_that_is_a_junction_of_windows_is_refused(tmp_path, monkeypatch, tag):
    """That of a folder which is kept in a cloud is another tag."""

    def lstat(path):
        return SimpleNamespace(st_mode=stat.S_IFDIR | 0o755, st_reparse_tag=tag)

    monkeypatch.setattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", 0xA0000003, raising=False)
    monkeypatch.setattr(Path, "lstat", lstat)
    refused = pytest.raises(ConfigError, match=r"/cache/folder.*is a link")
    with refused if tag == 0xA0000003 else contextlib.nullcontext():
        Folder(tmp_path, "key", COUNT).close()


@pytest.mark.parametrize("name", ["file", "file/below", "with\0nul"])
def test_a_folder_that_cannot_be_made_is_an_error_of_the_config(tmp_path, name):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="/cache/folder: expected a folder that can be made"):
        Folder(tmp_path / name, "key", COUNT)


def test_the_error_names_what_stands_in_the_place_of_a_folder(tmp_path):
    filled(tmp_path)
    (sub,) = tmp_path.iterdir()
    for file in files(sub):
        file.unlink()
    sub.rmdir()
    sub.write_bytes(b"")
    with pytest.raises(ConfigError) as told:
        Folder(tmp_path, "key", COUNT)
    assert f"got {sub}: a file, or a link that leads nowhere" in str(told.value)


def test_nothing_is_written_outside_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled(Path("kept"))
    assert ["kept"] == [path.name for path in tmp_path.iterdir()]
    (sub,) = (tmp_path / "kept").iterdir()
    assert [".data", ".index"] == sorted(path.suffix for path in sub.iterdir())


@pytest.mark.parametrize("power", [57, 59, 62])
def test_more_samples_than_memory_has_places_for_are_an_error_of_the_config(tmp_path, power):
    """More than the address space has, than a number can say, and than that."""
    expected = rf"/cache/folder: expected {2 ** (power - 26):,}\.0 GiB of memory, 16 bytes for each"
    with pytest.raises(ConfigError, match=expected):
        Folder(tmp_path / "kept", "key", 2**power)
    assert not (tmp_path / "kept").exists()


def test_an_index_with_holes_announces_no_more_entries_than_there_are_records(
    tmp_path, monkeypatch
):
    """A file may have any length, of which the disk has next to nothing."""
    filled(tmp_path, [0])
    (index,) = tmp_path.glob("*/*.index")
    os.truncate(index, 1 << 40)
    read, lengths = _segments._read_all, []

    def reading(file, length):
        lengths.append(length)
        return read(file, length)

    monkeypatch.setattr(_segments, "_read_all", reading)
    cache = Folder(tmp_path, "key", COUNT)
    assert 1 == cache.stats().samples
    cache.close()
    assert sum(lengths) < 1 << 20
