"""A file is read, by any thread, as it was when the source was opened, or an error says why not."""

import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest
from folders import opened, write
from opened_sources import close_at, npy

from threadloader.errors import SourceError
from threadloader.sources import files
from threadloader.sources.files import open_files


def test_a_file_of_the_year_2300_is_read_until_it_changes(tmp_path):
    """Such a time is, in nanoseconds, more than an int64 holds."""
    file = write(tmp_path, {"a.txt": b"one"}) / "data" / "a.txt"
    for later in (0, 1):
        time = (10_413_792_000 + later) * 10**9
        with suppress(OSError, OverflowError):
            os.utime(file, ns=(0, time))
        if file.stat().st_mtime_ns != time:
            pytest.skip("this system does not keep such times")
        if not later:
            source = opened(tmp_path)
            assert b"one" == source[0]["data"]
    with pytest.raises(SourceError, match="changed since"):
        source[0]


def test_a_file_deleted_replaced_or_changed_meanwhile_is_an_error_that_names_it(tmp_path):
    write(tmp_path, {"a": b"12", "b": b"34", "c": b"56", "d": b"78"})
    source = opened(tmp_path)
    folder = tmp_path / "data"
    (folder / "a").unlink()
    (folder / "b").write_bytes(b"345")
    os.utime(folder / "c", ns=(1, 1))
    gone, grown, other = (pytest.raises(SourceError) for _ in range(3))
    with gone as caught:
        source[0]
    assert f"{folder / 'a'}: expected the file that was there when the source was opened" in str(
        caught.value
    )
    with grown as caught:
        source[1]
    assert f"{folder / 'b'}: expected the file as it was when the source was opened, 2 " in str(
        caught.value
    )
    with other as caught:
        source[2]
    assert "got 2 bytes, changed since" in str(caught.value)
    assert b"78" == source[3]["data"]
    source.close()


def test_many_threads_read_at_once_what_one_reads(tmp_path):
    write(tmp_path, {f"{i}.npy": npy(np.full(100, i)) for i in range(20)})
    source = opened(tmp_path, decode="npy")
    expected = [int(Path(source.locate(i)).stem) for i in range(20)]
    together = threading.Barrier(16)

    def read(start):
        together.wait(60)
        return [set(source[(start + i) % 20]["data"].tolist()) for i in range(40)]

    with ThreadPoolExecutor(16) as pool:
        for start, found in enumerate(pool.map(read, range(16))):
            assert [{expected[(start + i) % 20]} for i in range(40)] == found
    source.close()


def test_indices_end_at_the_length_and_a_closed_source_reads_no_more(tmp_path):
    source = opened(write(tmp_path, {"a": b"1"}))
    close_at(source, 1)
    assert str(tmp_path / "data" / "a") == source.locate(0)


def test_the_process_may_go_to_another_folder(tmp_path, monkeypatch):
    write(tmp_path, {"a": b"1"})
    monkeypatch.chdir(tmp_path)
    source = open_files({"type": "files", "folder": "data"}, Path())
    monkeypatch.chdir("/")
    assert b"1" == source[0]["data"]


def test_a_file_that_cannot_be_read_names_the_path_and_the_reason(tmp_path, monkeypatch):
    class Torn(io.FileIO):
        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    with closing(opened(write(tmp_path, {"a.txt": "one"}))) as source:
        monkeypatch.setattr(files, "open_regular", Torn)
        with pytest.raises(SourceError, match=r"a\.txt: expected 3 bytes, got: Input/output error"):
            source[0]


def test_a_file_that_ends_early_though_it_is_as_it_was_is_told_as_that(tmp_path, monkeypatch):
    class Ending(io.FileIO):
        def read(self, size=-1):
            return super().read(2 - self.tell())

    with closing(opened(write(tmp_path, {"a.txt": "one"}))) as source:
        monkeypatch.setattr(files, "open_regular", Ending)
        with pytest.raises(SourceError, match=r"byte 0: expected 3 bytes, got 2, though the file"):
            source[0]


def test_what_a_signal_handler_raises_passes_as_it_is(tmp_path, monkeypatch):
    """While a file is read, and while it is looked at."""
    write(tmp_path, {"a.txt": "one"})
    rung = TimeoutError("rung")

    class Ringing(io.FileIO):
        def read(self, size=-1):
            raise rung

    with closing(opened(tmp_path)) as source, monkeypatch.context() as patch:
        patch.setattr(files, "open_regular", Ringing)
        with pytest.raises(TimeoutError) as caught:
            source[0]
    assert rung is caught.value
    real, rings = Path.stat, [rung]

    def stat(path, **options):
        if rings:
            raise rings.pop()
        return real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", stat)
        with pytest.raises(TimeoutError) as caught:
            opened(tmp_path)
    assert rung is caught.value


def test_a_file_that_has_become_a_folder_is_an_error(tmp_path):
    with closing(opened(write(tmp_path, {"a.txt": "one"}))) as source:
        (tmp_path / "data" / "a.txt").unlink()
        (tmp_path / "data" / "a.txt").mkdir()
        with pytest.raises(SourceError, match=r"a\.txt: expected a regular file"):
            source[0]
