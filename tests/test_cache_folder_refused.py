"""What the system refuses costs no sample that was kept, nor leaves a segment without a record.

Where its removal is refused as well, the first error is the one that is told.
"""

import errno
import os
from io import FileIO
from pathlib import Path

import pytest
from kept_samples import COUNT, files, filled, made, numbers, read
from samples import same

from threadloader.cache import Folder, Memory, _base, _folder, _memory, _segments, _shelf
from threadloader.cache._segments import Segment, Writer
from threadloader.errors import ConfigError


def test_a_folder_that_cannot_be_listed_is_used_all_the_same(tmp_path, monkeypatch):
    """Its sub-folder is there, and may be gone to: only the others are not counted."""
    filled(tmp_path)

    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    assert COUNT == read(tmp_path).hits


OF_PROCESS = pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])


def refusing(number):
    """Gives a function that raises the system's error of this number."""

    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return refuse


def no_memory(*args, **kwargs):
    raise MemoryError


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


@pytest.mark.parametrize("name", ["encode", "record"])
def test_a_sample_that_there_is_no_memory_to_write_is_given_all_the_same(
    tmp_path, monkeypatch, name, caplog
):
    """It is prepared by then; the files are not touched, and the next one is kept in them."""
    cache = Folder(tmp_path, "key", COUNT)
    cache.get(0, made)
    with monkeypatch.context() as patch:
        patch.setattr(_folder, name, no_memory)
        assert same(made(1), cache.get(1, made))
    assert 1 == cache.stats().samples
    cache.get(1, made)
    cache.close()
    assert (2, "") == (len(files(tmp_path)), caplog.text)  # of one segment
    assert (2, COUNT - 2, 0) == numbers(read(tmp_path))


@pytest.mark.parametrize(("owner", "name"), [(Segment, "read"), (_folder, "decode")])
def test_a_record_that_there_is_no_memory_to_read_is_no_damage(
    tmp_path, monkeypatch, owner, name, caplog
):
    filled(tmp_path)
    cache = Folder(tmp_path, "key", COUNT)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, no_memory)
        assert same(made(0), cache.get(0, made))
    assert same(made(0), cache.get(0, made))
    assert (1, 1, 0) == numbers(cache.stats())
    cache.close()
    assert "" == caplog.text


def test_what_others_wrote_is_looked_at_again_when_there_is_memory(tmp_path, monkeypatch):
    filled(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Segment, "new_entries", no_memory)
        cache = Folder(tmp_path, "key", COUNT)
    cache.look()
    assert COUNT == cache.stats().samples
    cache.close()


def test_where_there_is_no_memory_to_look_for_what_others_wrote_loading_goes_on(
    tmp_path, monkeypatch
):
    cache = Folder(tmp_path, "key", COUNT)
    monkeypatch.setattr(_shelf.Shelf, "look", no_memory)
    cache.look()
    assert same(made(0), cache.get(0, made))
    cache.close()


def test_a_handler_s_own_memory_error_is_not_taken_for_want_of_memory(monkeypatch):
    monkeypatch.setattr(_memory, "own", no_memory)
    monkeypatch.setattr(_base, "by_handler", lambda error: True)
    with pytest.raises(MemoryError):
        Memory().get(0, made)


def test_a_sample_that_there_is_no_memory_to_hold_is_given_all_the_same(monkeypatch):
    cache = Memory()
    with monkeypatch.context() as patch:
        patch.setattr(_memory, "own", no_memory)
        assert same(made(0), cache.get(0, made))
    assert (0, 1) == (cache.stats().samples, cache.stats().misses)
    assert same(made(0), cache.get(0, made))
    assert 1 == cache.stats().samples


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_where_too_many_files_are_open_the_error_says_what_to_do(tmp_path, monkeypatch, number):
    monkeypatch.setattr(_shelf, "segment_names", refusing(number))
    with pytest.raises(ConfigError, match="open fewer files or loaders at once"):
        Folder(tmp_path, "key", COUNT)


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
