"""By an index of lines that is damaged, or of another state of the file, no line is read wrong."""

import logging
import os
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from line_indexes import DATA, LINES, file, index_of, passes, read

from threadloader.errors import SourceError
from threadloader.sources import _index_cache, _line_scan, _lines
from threadloader.sources._index_cache import IndexCache
from threadloader.sources._lines import LineFiles

__all__ = ["file", "passes"]  # the fixtures


@pytest.mark.parametrize("change", ["size", "time", "half a microsecond"])
def test_an_index_of_another_state_of_the_file_is_made_anew(file, passes, change):
    os.utime(file, ns=(0, 10**18))
    if file.stat().st_mtime_ns != 10**18:
        pytest.skip("this system does not keep such times")
    read(file)
    data = b"x\n" * 8
    file.write_bytes(data + (b"" if change == "size" else b"y" * (len(DATA) - len(data))))
    os.utime(file, ns=(0, 10**18 + {"size": 0, "time": 10**9}.get(change, 500)))
    if change == "half a microsecond" and file.stat().st_mtime_ns == 10**18:
        pytest.skip("this system does not keep such times")
    assert ["x"] * 8 == read(file)[:8]
    assert 2 == len(passes)
    assert ["x"] * 8 == read(file)[:8]
    assert 2 == len(passes)


def test_every_truncation_and_every_changed_byte_of_an_index_is_seen(file, passes, caplog):
    read(file, skip_blank=True)
    index = index_of(file, skip_blank=True)
    good = index.read_bytes()
    damaged = [good[:cut] for cut in range(len(good))]
    damaged += [good[:i] + bytes([good[i] ^ 1 << i % 8]) + good[i + 1 :] for i in range(len(good))]
    damaged += [good + b"\0", good + bytes(8), b"", bytes(len(good)), os.urandom(len(good))]
    for number, data in enumerate(damaged, 2):
        index.write_bytes(data)
        caplog.clear()
        with caplog.at_level(logging.INFO, "threadloader"):
            assert ["first", "fünf", "last without an end"] == read(file, skip_blank=True)
        assert number == len(passes)
        assert ["built anew"] == [record.message[-10:] for record in caplog.records]
        assert good == index.read_bytes()


@given(
    st.sets(st.integers(1, len(DATA))),
    st.sampled_from([DATA, DATA + b"\n", DATA + b"\n\n"]),
    st.integers(-1, 2),
)
@example({6, 8, 11, 18}, DATA, 1)
def test_an_index_with_a_right_checksum_over_wrong_offsets_loses_no_line_unseen(
    tmp_path_factory, offsets, data, end
):
    path = tmp_path_factory.getbasetemp() / "forged.txt"
    path.write_bytes(data)
    size, modified = path.stat().st_size, path.stat().st_mtime_ns
    forged = sorted({0, *offsets, size + end})
    IndexCache(None).save(path, size, modified, np.array(forged, np.int64), None)
    lines = LineFiles([path], index="beside")
    refused, given = 0, []
    for i in range(len(lines)):
        try:
            given.append(lines.line(i).text())
        except SourceError:
            refused += 1
    lines.close()
    assert refused or given == data.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")


def test_a_file_that_kept_its_size_and_time_is_found_out_when_it_is_read(file):
    read(file)
    before = file.stat()
    moved = "fünf\r\nfirst\n\r\n \t\nlast without an end".encode()
    file.write_bytes(moved)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    if file.stat().st_mtime_ns != before.st_mtime_ns:
        pytest.skip("this system does not keep such times")
    with pytest.raises(SourceError) as caught:
        read(file)
    error = caught.value
    assert (str(file), "line 1, byte 0") == (error.path, error.place)
    assert error.message == (
        "expected the line that the index has, got other line ends, or a blank one, so the file "
        f"has changed; remove the index, {index_of(file)}, and open the source again"
    )
    index_of(file).unlink()
    assert ["fünf", "first"] == read(file)[:2]


def test_a_line_that_was_blank_in_a_file_that_kept_its_size_and_time_stays_left_out(file):
    """What the documents say cannot be noticed: a line that nobody asks for is not read."""
    expected = ["first", "fünf", "last without an end"]
    assert expected == read(file, skip_blank=True)
    before = file.stat()
    file.write_bytes(DATA.replace(b" \t", b"no"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    if file.stat().st_mtime_ns != before.st_mtime_ns:
        pytest.skip("this system does not keep such times")
    assert expected == read(file, skip_blank=True)
    index_of(file, skip_blank=True).unlink()
    assert ["first", "no", *expected[1:]] == read(file, skip_blank=True)


def test_an_index_that_was_given_another_file_s_name_is_not_taken(file, passes):
    other = file.with_name("other.txt")
    other.write_bytes(b"x" * len(DATA))
    for path in (file, other):
        os.utime(path, ns=(0, 0))
    read(other)
    index_of(other).replace(index_of(file))
    assert LINES == read(file)
    assert 2 == len(passes)


def test_an_index_of_a_later_format_is_made_anew(file, passes, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(_index_cache, "_FORMAT", 2)
        read(file)
    index = index_of(file)
    assert 2 == struct.unpack_from("<I", index.read_bytes(), 16)[0]
    assert LINES == read(file)
    assert 1 == struct.unpack_from("<I", index.read_bytes(), 16)[0]
    assert 2 == len(passes)


def test_an_index_that_is_cut_while_it_is_read_is_made_anew(file, passes, monkeypatch, caplog):
    """When it was looked at it had the length that it announces."""
    read(file)
    fill = _index_cache._fill

    def cut(stream, view):
        os.truncate(index_of(file), _index_cache._HEADER.size + 8)
        fill(stream, view)

    monkeypatch.setattr(_index_cache, "_fill", cut)
    assert LINES == read(file)
    assert 2 == len(passes)
    assert "this is no sound index (it is cut off); built anew" in caplog.text


def test_a_file_that_changes_during_the_pass_leaves_no_index(file, monkeypatch):
    scan = _line_scan.scan

    def overtaken(*args):
        found = scan(*args)
        os.utime(file, ns=(0, 1))
        return found

    monkeypatch.setattr(_lines, "scan", overtaken)
    assert LINES == read(file)
    assert [file] == list(file.parent.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_the_place_of_an_index_is_not_waited_for(file):
    os.mkfifo(index_of(file))
    assert LINES == read(file)
    assert index_of(file).is_file()  # replaced


@pytest.mark.skipif(os.name == "nt", reason="a hole takes its place on the disk there")
@pytest.mark.parametrize("skip_blank", [False, True])
def test_an_index_that_announces_more_lines_than_bytes_is_made_anew(tmp_path, skip_blank, caplog):
    """With holes in it, it is as long as it says, and takes no place on the disk."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\nb\n")
    read(path, skip_blank=skip_blank)
    status, index = path.stat(), index_of(path, skip_blank)
    count, rows = 1 << 32, 0 if skip_blank else -1
    known = status.st_size, status.st_mtime_ns
    header = _index_cache._HEADER.pack(
        _index_cache._MAGIC, 1, skip_blank, *known, count, rows, bytes(32)
    )
    index.write_bytes(header)
    try:
        os.truncate(index, len(header) + 8 * count)
    except OSError:
        pytest.skip("this system has no file with such a hole")
    assert ["a", "b"] == read(path, skip_blank=skip_blank)
    assert "it announces lines that the file cannot have" in caplog.text


@pytest.mark.parametrize("blank", [b"    ", b" \t\r ", "\u3000\x20".encode(), "\u2003 ".encode()])
def test_a_line_that_has_become_blank_since_is_an_error(tmp_path, blank):
    """Of a file that was given its size and time back: nobody else sees that."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\nbbbb\nc\n")
    assert ["a", "bbbb", "c"] == read(path, skip_blank=True)
    status = path.stat()
    path.write_bytes(b"a\n" + blank + b"\nc\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(SourceError, match="or a blank one"):
        read(path, skip_blank=True)
    assert ["a", blank.decode(), "c"] == read(path)
