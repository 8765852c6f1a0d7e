"""A file that cannot be mapped, or changes later, is an error and not the end of the process."""

import contextlib
import errno
import os
import weakref

import numpy as np
import pytest
from npy_files import open_, save

from threadloader.errors import SourceError
from threadloader.sources import _npy_rows
from threadloader.sources.npy import NpySource

__all__ = ["open_"]  # the fixture


def test_what_a_signal_handler_raises_passes_as_it_is(tmp_path, open_, monkeypatch):
    """While a file is mapped."""
    save(tmp_path, x=np.arange(4))
    rung = TimeoutError("rung")

    def mapping(*args, **options):
        raise rung

    monkeypatch.setattr(_npy_rows.mmap, "mmap", mapping)
    with pytest.raises(TimeoutError) as caught:
        open_(True, path="x.npy")
    assert rung is caught.value


def test_what_a_signal_handler_raises_before_a_read_passes_as_it_is(tmp_path, open_, monkeypatch):
    """While the size of a mapped file is looked at."""
    save(tmp_path, x=np.arange(4))
    source = open_(True, path="x.npy")
    rung = TimeoutError("rung")

    class Rings:
        def size(self):
            raise rung

    monkeypatch.setattr(source._rows[0], "_opened", (Rings(), source._rows[0]._opened[1]))
    with pytest.raises(TimeoutError) as caught:
        source[0]
    assert rung is caught.value


@pytest.mark.parametrize("size", [100, 300], ids=["cut", "grown"])
def test_a_mapped_file_of_another_size_than_at_opening_is_refused(tmp_path, open_, size):
    """In its last page, which the system fills with zeros."""
    save(tmp_path, x=np.arange(6.0))
    source = open_(True, fields={"x": "x.npy"})
    with contextlib.suppress(OSError):
        os.truncate(tmp_path / "x.npy", size)
    if (tmp_path / "x.npy").stat().st_size != size:
        pytest.skip("this system cuts no mapped file")
    for read in (lambda: source[0], lambda: source.take([5, 1]), lambda: source.column("x")):
        with pytest.raises(SourceError, match=f"expected the 176 bytes .* got {size}; open"):
            read()


def test_who_keeps_the_error_of_a_mapped_file_does_not_keep_the_file(tmp_path, open_, monkeypatch):
    """Its traceback leads to the frame that looked at the map."""
    save(tmp_path, x=np.arange(6.0))
    reads = [lambda: source[0], lambda: source.take([5, 1]), lambda: source.column("x")]

    def told(read):
        with pytest.raises(SourceError) as caught:
            read()
        return caught.value

    class Failing:
        def size(self):
            raise OSError(errno.EIO, "as of a share that is gone")

    source = open_(True, fields={"x": "x.npy"})
    (rows,) = source._rows
    there = weakref.ref(rows._opened[0])
    monkeypatch.setattr(rows, "sizes", (1,))
    kept = list(map(told, reads))
    rows._opened = Failing(), rows._opened[1]
    array = weakref.ref(rows._opened[1])
    kept += map(told, reads)
    source.close()
    assert (6, None, None) == (len(kept), there(), array())


CUT = """
import contextlib
import os
import sys
import numpy as np
from threadloader import Loader, SourceError

np.save(sys.argv[1], np.zeros(1 << 17))
source = {"type": "npy", "path": sys.argv[1], "mmap": True}
with Loader({"source": source, "batch_size": 1 << 17, "num_workers": 0}) as batches:
    (batch,) = batches
    with contextlib.suppress(OSError):
        os.truncate(sys.argv[1], 4096)
    if os.stat(sys.argv[1]).st_size != 4096:
        sys.exit("this system cuts no mapped file")
    try:
        next(iter(batches))
    except SourceError as error:
        print(error)
"""


def test_a_mapped_file_that_is_cut_between_two_epochs_does_not_end_the_process(run_child, tmp_path):
    done = run_child(CUT, str(tmp_path / "x.npy"))
    if "cuts no" in done.stderr:
        pytest.skip(done.stderr)
    assert (0, "") == (done.returncode, done.stderr)
    assert f"expected the {128 + (1 << 20)} bytes that it had when it was opened" in done.stdout


def test_what_the_system_says_of_a_mapped_file_is_told(tmp_path, open_, monkeypatch):
    """As of one that a server has removed."""

    class Gone:
        def size(self):
            raise OSError(errno.ESTALE, "Stale file handle")

    save(tmp_path, x=np.arange(6.0))
    source = open_(True, path="x.npy")
    monkeypatch.setattr(source._rows[0], "_opened", (Gone(), source._rows[0]._opened[1]))
    with pytest.raises(SourceError, match="expected a file that can be read, got: Stale"):
        source.take([0])


def test_a_file_that_shrinks_while_it_is_opened_is_not_mapped(tmp_path, monkeypatch):
    """Its header is read; it is cut; then it is mapped."""
    save(tmp_path, x=np.arange(6.0))
    path = tmp_path / "x.npy"
    real = _npy_rows._checked_header

    def cut(*args):
        header = real(*args)
        try:
            os.truncate(path, 100)
        except PermissionError:
            pytest.skip("this system cuts no open file")
        return header

    monkeypatch.setattr(_npy_rows, "_checked_header", cut)
    with pytest.raises(SourceError, match="expected a file that can be mapped, got: "):
        NpySource(path, mapped=True)


def test_a_file_that_too_many_open_ones_keep_from_being_mapped_says_what_to_do(
    tmp_path, monkeypatch
):
    np.save(tmp_path / "x.npy", np.arange(4))

    def refused(*args, **options):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(_npy_rows.mmap, "mmap", refused)
    with pytest.raises(SourceError, match=r"Too many open files; .*open fewer files"):
        NpySource(tmp_path / "x.npy", mapped=True)


def test_a_map_that_the_system_cannot_count_is_a_refusal(tmp_path, monkeypatch):
    """As on one of 32 bits, above 2 GiB."""
    save(tmp_path, values=np.arange(3))

    def mmap(*args, **options):
        raise OverflowError("Python int too large to convert to C ssize_t")

    monkeypatch.setattr(_npy_rows.mmap, "mmap", mmap)
    with pytest.raises(SourceError, match=r'got: .* bytes, more .*set "mmap" to false'):
        NpySource(tmp_path / "values.npy", mapped=True)
