"""Rows read by position are those of the file, however the reads fall, or it is an error."""

import errno
import functools
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from npy_files import ARRAYS, open_, raw, save, told

from threadloader.errors import SourceError
from threadloader.sources import _files, _npy_rows
from threadloader.sources._files import FileReader
from threadloader.sources.npy import NpySource

__all__ = ["open_"]  # the fixture

needs_preadv = pytest.mark.skipif(not hasattr(os, "preadv"), reason="this system has no preadv")


@st.composite
def reads(draw):
    """Draw a number of rows, the width of a row, indices, and how reads are put together."""
    rows, width = draw(st.integers(1, 60)), draw(st.integers(0, 5))
    indices = draw(st.lists(st.integers(0, rows - 1), max_size=20))
    return rows, width, indices, draw(st.integers(0, 12)), draw(st.integers(1, 40))


@given(reads(), st.sampled_from(["u1", "<i4"]))
def test_a_batch_is_what_numpy_takes_however_the_reads_fall(tmp_path_factory, drawn, dtype):
    rows, width, indices, gap, together = drawn
    array = np.arange(rows * width, dtype=dtype).reshape(rows, width)
    path = tmp_path_factory.getbasetemp() / "any.npy"
    np.save(path, array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_files, "_GAP", gap)
        patch.setattr(_files, "_TOGETHER", together)
        source = NpySource(path)
        assert told(array[np.array(indices, np.intp)]) == told(source.take(indices))
        source.close()


def test_neighbouring_rows_are_one_read_and_far_ones_are_not(tmp_path, open_, monkeypatch, ranges):
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source = open_(path="x.npy")
    ranges.clear()  # of its header
    source.take([12, 50, 10, 11, 10])
    assert [(128 + 10 * 8192, 3 * 8192), (128 + 50 * 8192, 8192)] == sorted(ranges)
    ranges.clear()
    monkeypatch.setattr(_files, "_TOGETHER", 2 * 8192)
    source.take([10, 11, 12])
    assert [2 * 8192, 8192] == [length for _, length in ranges]


@needs_preadv
@pytest.mark.parametrize("most", [1, 20, 55])
def test_a_row_of_which_the_system_gives_a_part_comes_whole(tmp_path, open_, monkeypatch, most):
    array = np.random.default_rng(0).integers(0, 256, (100, 8192), np.uint8)
    save(tmp_path, x=array)
    source, preadv = open_(path="x.npy"), os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, into, at: preadv(file, [into[0][:most]], at))
    assert np.array_equal(array[[70, 3, 99]], source.take([70, 3, 99]))


@needs_preadv
def test_a_row_that_the_system_does_not_give_is_told_with_its_place(tmp_path, open_, monkeypatch):
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, pread, place = open_(path="x.npy"), os.pread, 128 + 70 * 8192

    def fail(read, file, what, at):
        if at == place:
            raise OSError(errno.EIO, "broken")
        return read(file, what, at)

    monkeypatch.setattr(os, "preadv", functools.partial(fail, os.preadv))
    assert 0 == source.take([3, 70, 99]).sum(), "once more, and it was there"
    monkeypatch.setattr(os, "pread", functools.partial(fail, pread))
    with pytest.raises(SourceError, match=rf"byte {place}: expected 8192 bytes, got: broken"):
        source.take([3, 70, 99])


@needs_preadv
@pytest.mark.parametrize("size", [127 + 71 * 8192, 129 + 100 * 8192, 9000])
def test_a_file_that_is_another_while_its_rows_are_read_is_told(tmp_path, open_, monkeypatch, size):
    """It is cut in one of them, or gets longer, and all rows are there as they were."""
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, preadv = open_(path="x.npy"), os.preadv

    def change(file, into, at):
        os.truncate(tmp_path / "x.npy", size)
        return preadv(file, into, at)

    monkeypatch.setattr(os, "preadv", change)
    with pytest.raises(SourceError, match=f"that it had when it was opened, got {size}"):
        source.take([3, 70, 50])


@needs_preadv
def test_a_file_that_ended_in_a_row_is_told_though_it_has_its_size_again(
    tmp_path, open_, monkeypatch
):
    """Somebody writes it anew while it is read: what the row would be made of is of two files."""
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, preadv, size = open_(path="x.npy"), os.preadv, 128 + 100 * 8192
    place = 128 + 70 * 8192
    end = place + 8192 - 1  # the last byte of the row is not there

    def change(file, into, at):
        os.truncate(tmp_path / "x.npy", end)
        count = preadv(file, into, at)
        os.truncate(tmp_path / "x.npy", size)
        return count

    monkeypatch.setattr(os, "preadv", change)
    with pytest.raises(SourceError, match=f"byte {place}: expected 8192 bytes, got 8191, though"):
        source.take([3, 70])


@needs_preadv
@pytest.mark.parametrize("kind", [TimeoutError, ValueError])
def test_what_a_signal_handler_raises_beside_a_row_passes_as_it_is(
    tmp_path, open_, monkeypatch, kind
):
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, preadv = open_(path="x.npy"), os.preadv
    raised = kind("rung")

    def handler(number, frame):
        raise raised

    def interrupted(*args):
        signal.raise_signal(signal.SIGINT)
        return preadv(*args)

    monkeypatch.setattr(os, "preadv", interrupted)
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(kind) as caught:
            source.take([3, 70])
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised is caught.value


def test_each_thread_has_a_handle_where_there_is_no_pread(tmp_path, open_, monkeypatch):
    monkeypatch.setattr(_npy_rows, "FileReader", functools.partial(FileReader, shared=False))
    source = open_(fields=save(tmp_path, **ARRAYS))
    with ThreadPoolExecutor(4) as pool:
        assert [3, 4] * 8 == list(pool.map(lambda i: source[i]["labels"], [3, 4] * 8))


@pytest.mark.parametrize("after", [b"", raw(np.arange(7.0))], ids=["empty", "grown"])
def test_a_file_of_another_size_than_at_opening_is_refused(tmp_path, open_, after):
    save(tmp_path, x=np.arange(6.0))
    source = open_(path="x.npy")
    (tmp_path / "x.npy").write_bytes(after)
    for read in (lambda: source[0], lambda: source.take([5, 1])):
        with pytest.raises(SourceError, match=f"expected the 176 bytes .* got {len(after)}; open"):
            read()
