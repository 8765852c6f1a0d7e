"""A reader gives the bytes of the file that it was made for, in any thread, or an error."""

import errno
import functools
import io
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sweep
from numbered_files import write

from threadloader.errors import ClosedError, SourceError
from threadloader.sources import _files
from threadloader.sources._files import FileReader


@pytest.mark.parametrize("keep", [True, False])
def test_a_reader_reads_the_same_whether_it_is_kept_open(tmp_path, keep):
    (path,) = write(tmp_path, bytes(range(100)))
    for shared in (functools.partial(FileReader), functools.partial(FileReader, shared=False)):
        reader = shared(path, keep=keep)
        assert (b"\7\10", b"") == (reader.read(7, 2), reader.read(100, 0))
        assert [[9, 10], [3, 4], [9, 10]] == reader.gather(np.array([9, 3, 9]), 2).tolist()
        assert (2, 0) == reader.gather(np.array([9, 3]), 0).shape
        assert path.stat().st_mtime_ns == reader.modified()
        reader.close()
        for read in (lambda reader=reader: reader.read(7, 2), reader.modified):
            with pytest.raises(ClosedError):
                read()


def test_a_reader_that_is_not_kept_open_refuses_another_file_under_the_name(tmp_path):
    path, other = write(tmp_path, bytes(10), bytes(10))
    os.utime(other, ns=(1, 1))  # the clock of a file system may stand still in between
    reader = FileReader(path, keep=False)
    other.replace(path)
    with pytest.raises(SourceError, match="got another one under its name"):
        reader.read(0, 1)
    reader.close()


@pytest.fixture
def renumbered(monkeypatch):
    """Files have another number each time they are opened, as in some file systems of FUSE."""
    counter, fstat = itertools.count(1), os.fstat

    def numbered(number):
        status = fstat(number)
        told = {name: getattr(status, name) for name in dir(status) if name.endswith("_ns")}
        return os.stat_result((status[0], next(counter), *status[2:]), told)

    monkeypatch.setattr(os, "fstat", numbered)


@pytest.mark.skipif(os.name == "nt", reason="Windows lets the times of a file be set")
@pytest.mark.usefixtures("renumbered")
@pytest.mark.parametrize("options", [{"keep": False}, {"shared": False}], ids=str)
def test_a_reader_knows_its_file_by_size_and_times_where_its_number_differs(tmp_path, options):
    (path,) = write(tmp_path, bytes(range(10)))
    reader = FileReader(path, **options)
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            assert b"\1\2" == pool.submit(reader.read, 1, 2).result()
    reader.close()


def changed_size(path):
    path.write_bytes(bytes(11))
    os.utime(path, ns=(1, 1))


@pytest.mark.usefixtures("renumbered")
@pytest.mark.parametrize("change", [changed_size, lambda path: os.utime(path, ns=(2, 2))])
def test_a_file_of_another_number_and_another_size_or_time_is_another_one(tmp_path, change):
    (path,) = write(tmp_path, bytes(10))
    os.utime(path, ns=(1, 1))
    reader = FileReader(path, keep=False)
    change(path)
    with pytest.raises(SourceError, match="got another one under its name"):
        reader.read(0, 1)
    reader.close()


@pytest.mark.parametrize("options", [{"keep": False}, {"shared": False}], ids=str)
def test_a_reader_finds_its_file_wherever_the_process_has_gone(tmp_path, monkeypatch, options):
    """It is opened again, for a read or in another thread; messages name it as it was named."""
    write(tmp_path, bytes(range(10)))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    reader = FileReader(Path("000.bin"), **options)
    monkeypatch.chdir("elsewhere")
    with ThreadPoolExecutor(1) as pool:
        assert b"\1\2" == pool.submit(reader.read, 1, 2).result()
    with pytest.raises(SourceError, match=r"^000\.bin: byte 9: expected 2 bytes, got 1"):
        reader.read(9, 2)
    reader.close()


def test_a_reader_whose_file_is_gone_says_that_it_was_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (path,) = write(tmp_path, bytes(10))
    reader = FileReader(Path("000.bin"), keep=False)
    path.unlink()
    expected = "expected the file that was there when the source was opened, found none"
    for read in (lambda: reader.read(0, 1), reader.modified):
        with pytest.raises(SourceError) as caught:
            read()
        assert f"000.bin: {expected}" == str(caught.value)
    path.mkdir()
    with pytest.raises(SourceError) as caught:
        reader.read(0, 1)
    assert "000.bin: expected a regular file, got a folder" == str(caught.value)
    reader.close()


def test_a_handle_that_cannot_be_closed_names_its_file_and_the_others_are_closed(tmp_path):
    (path,) = write(tmp_path, bytes(10))
    reader = FileReader(path, shared=False)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(reader.read, 1, 2).result()
    handles = [each.thing for each in reader._handles]
    os.close(handles[0].fileno())
    with pytest.raises(SourceError) as caught:
        reader.close()
    said = f"{path}: expected a file that can be closed, got: {os.strerror(errno.EBADF)}"
    assert (said, errno.EBADF) == (str(caught.value), caught.value.errno)
    assert [True, True] == [handle.closed for handle in handles]


def test_a_file_that_cannot_be_closed_when_it_has_been_opened_names_itself(tmp_path, monkeypatch):
    """It is not kept open, but opened again for each read."""

    class Unclosable(io.FileIO):
        def close(self):
            super().close()
            raise OSError(errno.EIO, "Input/output error")

    (path,) = write(tmp_path, bytes(10))
    monkeypatch.setattr(_files, "open_regular", Unclosable)
    with pytest.raises(SourceError, match="expected a file that can be closed, got: Input"):
        FileReader(path, keep=False)


def test_an_interrupt_in_a_function_of_numpy_comes_out_of_gathering(tmp_path, monkeypatch):
    """At each line of those that are written in Python: some of numpy's C code would lose it."""
    (path,) = write(tmp_path, bytes(range(100)))
    reader = FileReader(path)
    monkeypatch.setattr(sweep, "LIBRARY", str(Path(np.__file__).parent))
    for at in range(1, 200):
        with sweep.Interrupt() as interrupt:
            swept = sweep.Sweep(at, interrupt)
            try:
                with swept:
                    reader.gather(np.array([9, 3, 9]), 2)
            except KeyboardInterrupt as error:
                interrupt.came_as(error)
            interrupt.look()
        if not swept.where:
            break
    assert 1 < at < 199
    reader.close()
