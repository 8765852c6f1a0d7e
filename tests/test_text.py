"""The text source: which lines it gives, from many threads, and from files that change."""

import errno
import functools
import gzip
import os
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import _files, _lines, fingerprint, open_source
from threadloader.sources._files import FileReader
from threadloader.sources._open_file import open_regular
from threadloader.sources.text import TextSource, open_text

PREAD = [
    pytest.param(True, marks=pytest.mark.skipif(not hasattr(os, "pread"), reason="no pread here")),
    False,
]

PIECES = [
    *(b"\n", b"\r\n", b"\r", b"\n\n", b" ", b"\t", b"\x0b", b"\x0c", b"\x1c", b"\0", b"a", b"word"),
    *(each.encode() for each in ("é", "\x85", "\xa0", "\u2003", "\u2028", "\u3000", "世", "😀")),
    *(b"\xef\xbb\xbf", b"\xff", b"\xc2", b"\xe2\x80", b"\x80", b"\xed\xa0\x80"),
]

contents = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)


def reference(files, skip_blank=False):
    """Give (file, number, line) of every sample by the rules, the plain way."""
    for path, data in files.items():
        parts = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        last = parts.pop()
        lines = [part.removesuffix(b"\r") for part in parts] + ([last] if last else [])
        for number, line in enumerate(lines, 1):
            try:
                line = line.decode("utf-8")
            except UnicodeDecodeError:
                line = None
            if not (skip_blank and line is not None and (not line or line.isspace())):
                yield path, number, line


def opened(paths, **options):
    return TextSource(paths, **options)


def write(folder, *datas):
    files = {folder / f"{i}.txt": data for i, data in enumerate(datas)}
    for path, data in files.items():
        path.write_bytes(data)
    return files


@pytest.fixture(params=PREAD, ids=["pread", "a handle each"])
def both_ways(request, monkeypatch):
    """Read as systems with pread do, and as those without."""
    reader = functools.partial(FileReader, shared=request.param)
    monkeypatch.setattr(_lines, "FileReader", reader)
    return request.param


@pytest.fixture
def readers(monkeypatch):
    """All readers that are made."""
    made = []

    def make(path, **options):
        made.append(FileReader(path, **options))
        return made[-1]

    monkeypatch.setattr(_lines, "FileReader", make)
    return made


@given(st.lists(contents, min_size=1, max_size=3), st.booleans(), st.integers(1, 40))
@example([b"\xef\xbb\xbf"], True, 1)
@example([b"\xef\xbb\xbf \r\n"], True, 1)
@example([b"", b"\n", b"a"], False, 1)
def test_the_lines_are_those_of_a_plain_reference(tmp_path_factory, datas, skip_blank, chunk):
    files = write(tmp_path_factory.getbasetemp(), *datas)
    source = opened(files, skip_blank=skip_blank, _chunk=chunk)
    expected = list(reference(files, skip_blank))
    assert len(expected) == len(source)
    for index, (path, number, line) in enumerate(expected):
        assert f"{path}:{number}" == source.locate(index)
        if line is not None:
            assert line == source[index]
        else:
            with pytest.raises(SourceError) as caught:
                source[index]
            assert caught.value.place.startswith(f"line {number}, byte ")
    source.close()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\rc\r", ["a\r", "b\rc\r"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        ("a\u2028b\x85c\n".encode(), ["a\u2028b\x85c"]),
        (b"a\0b\n", ["a\0b"]),
    ],
)
def test_the_rules_for_line_ends_and_byte_order_marks(tmp_path, both_ways, data, lines):
    source = opened(write(tmp_path, data))
    assert lines == [source[i] for i in range(len(source))]
    source.close()


def test_blank_lines_stay_unless_they_are_skipped(tmp_path):
    data = "a\n\n \t\r\n\u3000\xa0\nb \n\x1c".encode()
    for skip, lines, numbers in (
        (False, ["a", "", " \t", "\u3000\xa0", "b ", "\x1c"], [1, 2, 3, 4, 5, 6]),
        (True, ["a", "b "], [1, 5]),
    ):
        source = open_source(
            {"type": "text", "path": [str(p) for p in write(tmp_path, data)], "skip_blank": skip}
        )
        assert lines == [source[i] for i in range(len(source))]
        assert [f"{tmp_path / '0.txt'}:{n}" for n in numbers] == [
            source.locate(i) for i in range(len(source))
        ]
        source.close()


def test_paths_are_one_or_several_and_start_at_the_base(tmp_path):
    write(tmp_path, b"a", b"b\n", b"c")
    for path, lines in (
        ("1.txt", ["b"]),
        (["2.txt", "0.txt"], ["c", "a"]),
        ("*.txt", ["a", "b", "c"]),
        (["2.txt", "[01].txt"], ["c", "a", "b"]),
    ):
        source = open_source({"type": "text", "path": path}, tmp_path)
        assert lines == [source[i] for i in range(len(source))]
        source.close()


def test_no_file_may_lie_outside_of_the_root(tmp_path):
    write(tmp_path, b"a")
    (tmp_path / "in").mkdir()
    for path in ("0.txt", "*.txt"):
        with pytest.raises(SourceError, match='inside the folder "root"'):
            open_text({"path": path}, tmp_path, tmp_path / "in")
        source = open_text({"path": path}, tmp_path, tmp_path)
        assert "a" == source[0]
        source.close()


def test_no_path_at_all_is_a_config_error():
    with pytest.raises(ConfigError, match="/source/path: expected at least one file"):
        open_source({"type": "text", "path": []})


def test_a_line_that_is_not_utf8_names_file_line_and_byte(tmp_path):
    (path,) = write(tmp_path, b"\xef\xbb\xbfok\n\nbad \xff here\n")
    source = opened([path])
    with pytest.raises(SourceError) as caught:
        source[2]
    error = caught.value
    assert (str(path), "line 3, byte 11") == (error.path, error.place)
    assert (
        f"{path}: line 3, byte 11: expected UTF-8, got the byte 0xff (invalid start byte); "
        "convert the file to UTF-8"
    ) == str(error)
    assert "ok" == source[0]
    source.close()


@pytest.mark.parametrize("index", [0, -1])
def test_a_file_of_gzip_is_told_to_be_unpacked(tmp_path, index):
    """At whatever line: only the first one has the bytes that say so."""
    (path,) = write(tmp_path, gzip.compress(b"ok\n") + b"\n\xff")
    source = opened([path])
    with pytest.raises(SourceError, match="got a file compressed by gzip; unpack it first"):
        source[range(len(source))[index]]
    source.close()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["text", "jsonl", "csv"])
def test_a_file_in_utf_16_is_refused_when_it_is_opened(tmp_path, kind, encoding):
    """As PowerShell writes it with a ">": else a line might be the first to say so, or JSON."""
    (path,) = write(tmp_path, "\ufeff1\n2\n".encode(encoding))
    with pytest.raises(
        SourceError, match=r"expected UTF-8, got the byte order mark of UTF-16, f. f.; conv"
    ):
        open_source({"type": kind, "path": path.name}, tmp_path)


def test_of_a_file_that_is_gone_the_byte_is_told(tmp_path):
    (path,) = write(tmp_path, b"\xff")
    source = opened([path])
    try:
        path.unlink()
    except PermissionError:
        source.close()
        pytest.skip("this system removes no open file")
    with pytest.raises(SourceError, match="got the byte 0xff"):
        source[0]
    source.close()


@pytest.mark.parametrize("index", [-1, 3, 2**70, np.int64(3)])
def test_an_index_out_of_range_never_wraps(tmp_path, index):
    source = opened(write(tmp_path, b"a\nb\nc\n"))
    for call in (source.__getitem__, source.locate):
        with pytest.raises(IndexError, match=rf"expected an index of 0 .. 2, got {index}"):
            call(index)
    assert "b" == source[np.int32(1)]
    source.close()


def test_the_fingerprint_has_lines_sizes_and_what_is_left_out(tmp_path):
    files = write(tmp_path, b"a\n\nb", b"c")
    said = []
    for skip in (False, True):
        source = opened(files, skip_blank=skip)
        said.append(fingerprint(source))
        source.close()
    assert ["text, 4 lines, 4+1 bytes", "text, 3 lines, 4+1 bytes, blank lines left out"] == said


# Threads, handles, and files that change


def test_eight_threads_at_once_read_what_one_reads(tmp_path, both_ways):
    data = "".join(f"{i} {'é' * (i % 50)}\r\n" for i in range(2000)).encode()
    files = write(tmp_path, data, data[::-1].replace(b"\xa9\xc3", b"xx"))
    source = opened(files)
    expected = [source[i] for i in range(len(source))]
    assert [line for _, _, line in reference(files)] == expected
    barrier = threading.Barrier(8)

    def read(seed):
        barrier.wait()
        order = np.random.default_rng(seed).permutation(len(expected))
        return all(expected[i] == source[i] for i in order)

    with ThreadPoolExecutor(8) as pool:
        assert [True] * 8 == list(pool.map(read, range(8)))
    source.close()


def test_reads_that_come_in_pieces_are_put_together(tmp_path, both_ways, monkeypatch):
    monkeypatch.setattr(_files, "_MOST", 2)
    source = opened(write(tmp_path, b"a long line\nand another\n"))
    assert ["a long line", "and another"] == [source[0], source[1]]
    source.close()


@pytest.mark.parametrize("after", [b"", b"a\n", b"a\nb\nc\nd\n"], ids=["empty", "cut", "grown"])
def test_a_file_of_another_size_than_at_opening_is_refused(tmp_path, both_ways, after):
    (path,) = write(tmp_path, b"a\nb\nc\n")
    source = opened([path])
    path.write_bytes(after)
    with pytest.raises(SourceError) as caught:
        source[0]
    assert (
        f"{path}: expected the 6 bytes that it had when it was opened, got {len(after)}; "
        "open the source again when the file is complete"
    ) == str(caught.value)
    source.close()


def test_another_file_under_the_name_is_not_read_by_a_later_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "FileReader", functools.partial(FileReader, shared=False))
    (path,) = write(tmp_path, b"a\nb\n")
    source = opened([path])
    (tmp_path / "new").write_bytes(b"x\ny\n")
    os.utime(tmp_path / "new", ns=(1, 1))  # the clock of a file system may stand still in between
    try:
        (tmp_path / "new").replace(path)
    except PermissionError:
        source.close()
        pytest.skip("this system keeps the name of an open file")
    assert "a" == source[0]
    with ThreadPoolExecutor(1) as pool, pytest.raises(SourceError, match="got another one under"):
        pool.submit(lambda: source[0]).result()
    source.close()


@pytest.mark.skipif(not hasattr(os, "pread"), reason="no pread here")
def test_an_error_of_the_device_names_file_and_byte(tmp_path, monkeypatch):
    (path,) = write(tmp_path, b"a\nb\n")
    source = opened([path])

    def fail(*args):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(SourceError) as caught:
        source[1]
    assert f"{path}: byte 1: expected 3 bytes, got: Input/output error" == str(caught.value)
    source.close()


@pytest.mark.skipif(not hasattr(os, "pread"), reason="no pread here")
def test_a_read_that_close_overtakes_says_that_the_source_is_closed(tmp_path, monkeypatch):
    """A thread asks for the handle's number; the source is closed; the read finds it gone."""
    source = opened(write(tmp_path, b"a\nb\n"))

    def overtaken(*args):
        source.close()
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(os, "pread", overtaken)
    with pytest.raises(ClosedError):
        source[1]


@pytest.mark.parametrize("kind", [TimeoutError, ValueError])
@pytest.mark.parametrize("keep", [True, False], ids=["kept open", "opened for each read"])
def test_what_a_signal_handler_raises_in_a_read_passes_as_it_is(tmp_path, monkeypatch, kind, keep):
    """Like the system's own errors and those of a closed file, but of neither."""
    (path,) = write(tmp_path, b"a\n")
    rung = kind("rung")

    def ring(*args):
        raise rung

    reader = FileReader(path, keep=keep)
    for read in (lambda: reader.read(0, 1), reader.modified):
        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", ring)
            with pytest.raises(kind) as caught:
                read()
        assert rung is caught.value
    reader.close()


@pytest.mark.parametrize("kind", [TimeoutError, FileNotFoundError])
def test_what_a_signal_handler_raises_in_an_opening_passes_as_it_is(tmp_path, monkeypatch, kind):
    (path,) = write(tmp_path, b"a\n")
    rung = kind("rung")

    def ring(*args, **options):
        raise rung

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", ring)
        with pytest.raises(kind) as caught:
            _files.open_regular(path)
    assert rung is caught.value


def test_reading_after_close_is_an_error_and_closing_twice_is_none(tmp_path, both_ways):
    source = opened(write(tmp_path, b"a\n"))
    with ThreadPoolExecutor(1) as pool:
        assert "a" == pool.submit(lambda: source[0]).result()
        source.close()
        source.close()
        for read in (lambda: source[0], pool.submit(lambda: source[0]).result):
            with pytest.raises(ClosedError, match="expected an open source, got one that has been"):
                read()
    with ThreadPoolExecutor(1) as pool, pytest.raises(ClosedError):
        pool.submit(lambda: source[0]).result()


def test_every_handle_of_every_thread_is_closed(tmp_path, both_ways, monkeypatch):
    handles = []
    real = _files.open_regular
    monkeypatch.setattr(
        _files, "open_regular", lambda path: handles.append(real(path)) or handles[-1]
    )
    source = opened(write(tmp_path, b"a\n", b"b\n"))
    barrier = threading.Barrier(3)

    def read():
        barrier.wait()
        return source[0], source[1]

    with ThreadPoolExecutor(3) as pool:
        assert [("a", "b")] * 3 == [f.result() for f in [pool.submit(read) for _ in range(3)]]
    source.close()
    assert [True] * (2 if both_ways else 8) == [handle.closed for handle in handles]


def test_all_are_closed_even_if_closing_one_raises(tmp_path, readers):
    source = opened(write(tmp_path, b"a", b"b"))
    first, second = readers
    close = second.close

    def fail():
        raise OSError("disk gone")

    second.close = fail
    with pytest.raises(OSError, match="disk gone"):
        source.close()
    assert first._first.closed
    close()


def test_if_one_file_cannot_be_opened_the_others_are_closed(tmp_path, readers):
    files = [*write(tmp_path, b"a", b"b"), tmp_path / "none.txt"]
    with pytest.raises(SourceError, match="expected a file, found none"):
        opened(files)
    assert [True, True] == [reader._first.closed for reader in readers]


@pytest.mark.parametrize("path", ["", "pipe", "/dev/zero", "no\0name"])
def test_only_regular_files_are_read(tmp_path, path):
    if path == "pipe" and hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="expected a"):
        open_source({"type": "text", "path": path}, tmp_path)


def test_the_index_needs_no_memory_for_the_text(tmp_path):
    (path,) = write(tmp_path, (b"x" * 99_999 + b"\n") * 200)
    tracemalloc.start()
    source = opened([path], skip_blank=True, _chunk=1 << 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 200 == len(source)
    assert peak < 2 << 20
    source.close()


def test_a_reader_gives_bytes_of_any_range(tmp_path, both_ways):
    (path,) = write(tmp_path, bytes(range(100)))
    reader = FileReader(Path(path), shared=both_ways)
    assert (100, b"", bytes([7, 8])) == (reader.size, reader.read(100, 0), reader.read(7, 2))
    with pytest.raises(SourceError) as caught:
        reader.read(99, 2)
    said = "expected 2 bytes, got 1, though the file has the size that it had"
    told = f"{path}: byte 99: {said}; if nothing writes to it, copy it to another disk"
    assert told == str(caught.value)
    reader.close()


@pytest.mark.parametrize("keep", [True, False], ids=["kept open", "opened for each read"])
def test_a_file_that_cannot_be_looked_at_is_named_and_closed(tmp_path, monkeypatch, keep):
    """As one that its server has replaced meanwhile."""
    (path,) = write(tmp_path, b"a\n")
    opened_files = []

    def stale(number):
        raise OSError(errno.EIO, "it is stale")

    def opens(given):
        opened_files.append(open_regular(given))
        return opened_files[-1]

    monkeypatch.setattr(_files, "open_regular", opens)
    reader = FileReader(path, keep=keep)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", stale)
        for look in (reader.modified, lambda: FileReader(path, keep=keep)):
            with pytest.raises(SourceError, match="got: it is stale") as caught:
                look()
            assert str(path) == caught.value.path
    reader.close()
    assert all(file.closed for file in opened_files)


def test_other_line_ends_under_the_old_size_and_time_are_an_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\nb\nc\n")
    status = path.stat()
    source = open_source({"type": "text", "path": "a.txt"}, tmp_path)
    try:
        path.write_bytes(b"abcde\n")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(SourceError, match=r"other line ends.*; open the source again when"):
            source[1]
    finally:
        source.close()


def test_the_handles_of_threads_that_have_ended_are_closed_by_the_next_one(tmp_path):
    """Where each thread has one of its own, and a source is read by one run after the other."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"line")
    reader = FileReader(path, shared=False)
    for _ in range(5):
        with ThreadPoolExecutor(1) as pool:
            assert b"line" == pool.submit(reader.read, 0, 4).result()
    first, last = reader._handles  # the first is that of the reader itself
    reader.close()
    assert last.thing.closed
    assert first.thing.closed
