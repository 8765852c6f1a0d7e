"""The index of lines that is kept in a file: it saves the pass over the data, never changes it."""

import errno
import io
import logging
import os
import random
import stat
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from denied import denied_at_first
from hypothesis import example, given
from hypothesis import strategies as st
from links import make_link

from threadloader.errors import SourceError, _open_files
from threadloader.sources import _index_cache, _line_scan, _lines, _progress
from threadloader.sources._files import expand
from threadloader.sources._index_cache import SUFFIX, IndexCache
from threadloader.sources._lines import LineFiles
from threadloader.sources.text import open_text

DATA = "first\n\r\n \t\nfünf\r\nlast without an end".encode()
LINES = ["first", "", " \t", "fünf", "last without an end"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def passes(monkeypatch):
    """Counts the passes over data."""
    made = []
    scan = _line_scan.scan

    def counted(*args):
        made.append(args)
        return scan(*args)

    monkeypatch.setattr(_lines, "scan", counted)
    return made


def read(path, index="beside", **options):
    """Give the text of every line."""
    lines = LineFiles([path], index=index, **options)
    try:
        return [lines.line(i).text() for i in range(len(lines))]
    finally:
        lines.close()


def index_of(path, skip_blank=False):
    return IndexCache(None).path(path, skip_blank)


# Kept, and believed


@pytest.mark.parametrize("skip_blank", [False, True])
@pytest.mark.parametrize("where", ["beside", "folder"])
def test_the_second_opening_makes_no_pass_over_the_data(file, passes, where, skip_blank):
    index = "beside" if where == "beside" else file.parent / "cache" / "of lines"
    expected = [line for line in LINES if line.strip() or not skip_blank]
    assert expected == read(file, index, skip_blank=skip_blank)
    assert 1 == len(passes)
    assert expected == read(file, index, skip_blank=skip_blank)
    assert 1 == len(passes)


def test_in_memory_nothing_is_written(file):
    assert LINES == read(file, "memory")
    assert [file] == list(file.parent.iterdir())


def test_nothing_but_the_index_is_left_in_the_folder(file):
    read(file)
    assert {file, index_of(file)} == set(file.parent.iterdir())


def test_other_users_may_read_an_index_if_they_may_read_any_new_file(file):
    read(file)
    (file.parent / "new").write_bytes(b"")
    modes = [stat.S_IMODE(os.stat(p).st_mode) for p in (file.parent / "new", index_of(file))]
    assert modes[0] == modes[1]


def test_an_index_beside_is_no_data_for_a_pattern(file):
    for _ in range(2):
        source = open_text({"path": "*", "index": "beside"}, file.parent)
        assert LINES == [source[i] for i in range(len(source))]
        source.close()


def test_only_a_pattern_that_begins_with_a_dot_takes_an_index_for_data(file):
    read(file)
    assert [file] == expand(file.parent, "*", None) == expand(file.parent, "**", None)
    assert [index_of(file)] == expand(file.parent, ".*", None)


def test_files_of_one_name_have_an_index_each_in_a_folder(tmp_path, passes):
    paths = [tmp_path / name / "part.txt" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(f"{path.parent.name}\n" * 3)
        os.utime(path, ns=(0, 0))
    for _ in range(2):
        assert [["a"] * 3, ["b"] * 3] == [read(path, tmp_path / "cache") for path in paths]
    assert (2, 2) == (len(passes), len(list((tmp_path / "cache").iterdir())))


def test_an_index_folder_of_a_config_starts_at_its_folder_and_stays_in_the_root(file):
    spec = {"path": "notes.txt", "index": {"folder": "cache"}}
    open_text(spec, file.parent, file.parent).close()
    assert 1 == len(list((file.parent / "cache").iterdir()))
    spec["index"] = {"folder": "../cache"}
    with pytest.raises(SourceError, match='inside the folder "root"'):
        open_text(spec, file.parent, file.parent)


def test_nothing_is_written_beside_a_file_through_a_folder_that_leads_out(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "root" / "real.txt").write_bytes(DATA)
    make_link(tmp_path / "out" / "notes.txt", tmp_path / "root" / "real.txt")
    make_link(tmp_path / "root" / "way", tmp_path / "out")
    spec = {"path": "way/notes.txt"}
    open_text(spec, tmp_path / "root", tmp_path / "root").close()
    with pytest.raises(SourceError, match='inside the folder "root"'):
        open_text({**spec, "index": "beside"}, tmp_path / "root", tmp_path / "root")


def test_an_empty_file_and_one_of_blank_lines_have_an_index_too(tmp_path, passes):
    for data in (b"", b"\xef\xbb\xbf", b"\n \n"):
        path = tmp_path / "notes.txt"
        path.write_bytes(data)
        os.utime(path, ns=(0, len(data)))
        before = len(passes)
        assert [] == read(path, skip_blank=True) == read(path, skip_blank=True)
        assert before + 1 == len(passes)


# Not believed


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


def test_an_index_is_made_for_a_file_of_the_year_2300(file, passes):
    """Such a time is, in nanoseconds, more than an int64 holds."""
    time = 10_413_792_000 * 10**9
    with suppress(OSError, OverflowError):
        os.utime(file, ns=(0, time))
    if file.stat().st_mtime_ns != time:
        pytest.skip("this system does not keep such times")
    assert read(file) == read(file)
    assert 1 == len(passes)


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


def test_a_file_that_kept_its_size_and_time_is_found_out_when_it_is_read(file, passes):
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
    monkeypatch.setattr(_index_cache, "_FORMAT", 2)
    read(file)
    monkeypatch.undo()
    index = index_of(file)
    assert 2 == struct.unpack_from("<I", index.read_bytes(), 16)[0]
    assert LINES == read(file)
    assert 1 == struct.unpack_from("<I", index.read_bytes(), 16)[0]


def test_an_index_of_which_the_system_gives_a_part_at_a_time_is_believed(file, passes, monkeypatch):
    class Short(io.FileIO):
        def read(self, size=-1):
            return super().read(min(size, 7))

        def readinto(self, memory):
            return super().readinto(memory[:7])

    read(file)
    monkeypatch.setattr(_index_cache, "open_regular", Short)
    assert LINES == read(file)
    assert 1 == len(passes)


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


# What cannot be written


def test_a_folder_that_cannot_be_written_is_one_warning_and_the_index_stays_in_memory(
    tmp_path, caplog
):
    """Its name is that of a file, so that even root cannot write into it."""
    for name in "abc":
        (tmp_path / name).write_bytes(DATA)
    (tmp_path / "no folder").write_bytes(b"")
    lines = LineFiles([tmp_path / name for name in "abc"], index=tmp_path / "no folder")
    assert LINES * 3 == [lines.line(i).text() for i in range(len(lines))]
    lines.close()
    (record,) = caplog.records
    assert logging.WARNING == record.levelno
    named = tmp_path / "no folder" / ".a."
    assert record.message.startswith(str(named))
    assert ": expected to keep an index of lines, got: " in record.message
    assert record.message.endswith("; going on with the index in memory")


@pytest.mark.parametrize("system", ["Windows", "another"])
def test_where_another_process_is_at_an_index_windows_waits_for_it(
    file, passes, caplog, monkeypatch, system
):
    """It replaces no file that is open, and opens none that is being replaced."""
    windows = system == "Windows"
    monkeypatch.setattr(_open_files, "_WINDOWS", windows)
    monkeypatch.setattr(_index_cache, "_WINDOWS", windows)
    monkeypatch.setattr(_open_files, "_PAUSE_SECONDS", 0)
    opened = _index_cache.open_regular

    def denied(path):
        try:
            raise PermissionError(errno.EACCES, "Access is denied")
        except PermissionError as error:
            raise SourceError("expected a file that can be read", path) from error

    monkeypatch.setattr(_index_cache, "open_regular", denied)
    monkeypatch.setattr(os, "replace", denied_at_first(os.replace))
    assert LINES == read(file)
    assert (windows, 0 if windows else 1) == (index_of(file).exists(), len(caplog.records))
    monkeypatch.setattr(_index_cache, "open_regular", opened)
    assert LINES == read(file)
    assert (1 if windows else 2) == len(passes)


def test_a_write_that_fails_names_the_index(file, caplog, monkeypatch):
    """As where the disk is full: the system names no file then."""

    def fsync(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(_index_cache.os, "fsync", fsync)
        assert LINES == read(file)
    (record,) = caplog.records
    reason = os.strerror(errno.ENOSPC)
    said = f"{index_of(file)}: expected to keep an index of lines, got: {reason}; going on"
    assert record.message.startswith(said)


def test_a_folder_that_no_system_has_is_one_warning_and_the_index_stays_in_memory(file, caplog):
    assert LINES == read(file, file.parent / "no\0folder")
    (record,) = caplog.records
    assert ": expected to keep an index of lines, got: " in record.message


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace"])
def test_a_failure_at_any_step_leaves_the_old_index_or_none_and_no_other_file(
    file, monkeypatch, caplog, step
):
    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    for had_one in (False, True):
        if had_one:
            read(file)
            os.utime(file, ns=(0, 0))
        with monkeypatch.context() as patch:
            if step == "fsync":
                patch.setattr(os, "fsync", fail)
            elif step == "replace":
                patch.setattr(os, "replace", fail)
            elif step == "write":
                patch.setattr(_index_cache, "_checksum", fail)
            else:
                patch.setattr(_index_cache.secrets, "token_hex", lambda _: "x" * 300)
            caplog.clear()
            assert LINES == read(file)
            assert 1 == sum(record.levelno == logging.WARNING for record in caplog.records)
        assert had_one == index_of(file).exists()
        assert {file, index_of(file)} >= set(file.parent.iterdir())


def test_an_interrupt_while_it_is_written_leaves_no_file(file, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read(file)
    assert [file] == list(file.parent.iterdir())


def test_an_interrupt_right_behind_the_opening_leaves_no_file(file, monkeypatch):
    """The file is there; nothing has been told of it yet."""
    real = Path.open

    def interrupted(path, mode="r", **options):
        opened = real(path, mode, **options)
        if mode != "xb":
            return opened
        opened.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(file)
    assert [file] == list(file.parent.iterdir())


@pytest.mark.parametrize("step", ["load", "fsync", "unlink"])
def test_what_a_signal_handler_raises_passes_as_it_is(file, monkeypatch, step):
    """It is not taken for an index that cannot be read or written."""
    if step == "load":
        read(file)
    rung = TimeoutError("rung")

    def ring(*args, **options):
        raise rung

    place = {"load": (_index_cache, "_fill"), "fsync": (os, "fsync"), "unlink": (Path, "unlink")}
    with monkeypatch.context() as patch:
        patch.setattr(*place[step], ring)
        with pytest.raises(TimeoutError) as caught:
            read(file)
    assert rung is caught.value
    assert {file, index_of(file)} >= set(file.parent.iterdir())


# Many at once

CHILD = """
import sys
from contextlib import suppress
from pathlib import Path
from threadloader.sources._lines import LineFiles

path, rounds = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(rounds):
    lines = LineFiles([path], index="beside")
    assert len(lines) == 2000, len(lines)
    assert all(lines.line(i).data == b"%d" % i * (i % 7) for i in range(0, 2000, 97))
    lines.close()
    for index in path.parent.glob(".*-index"):  # so that the next round builds it again
        with suppress(OSError):
            index.unlink()
"""


def test_processes_that_build_it_at_once_all_read_the_right_lines(tmp_path):
    path = tmp_path / "big.txt"
    path.write_bytes(b"".join(b"%d" % i * (i % 7) + b"\n" for i in range(2000)))
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    root = str(Path(__file__).resolve().parent.parent)
    children = [
        subprocess.Popen(
            [sys.executable, str(script), str(path), "40"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
        )
        for _ in range(2)
    ]
    assert ["ready\n"] * 2 == [child.stdout.readline() for child in children]
    for child in children:  # both begin now
        child.stdin.write("go\n")
        child.stdin.flush()
    # What one removes while the other looks for it may be told, but never as a wrong line.
    said = [child.communicate(timeout=60) for child in children]
    assert [0, 0] == [child.returncode for child in children], said


def test_sixteen_threads_read_what_one_reads(tmp_path):
    path = tmp_path / "big.txt"
    path.write_bytes("".join(f"{i} {'é' * (i % 50)}\n" for i in range(2000)).encode())
    expected = read(path)
    lines = LineFiles([path], index="beside")

    def mine(seed):
        order = list(range(2000))
        random.Random(seed).shuffle(order)
        return all(expected[i] == lines.line(i).text() for i in order)

    with ThreadPoolExecutor(16) as pool:
        assert [True] * 16 == list(pool.map(mine, range(16)))
    lines.close()


def test_of_many_files_only_some_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "kept_open", lambda: 2)
    for number in range(5):
        (tmp_path / f"{number}.txt").write_bytes(b"%d\n" % number * 2)
    for _ in range(2):
        lines = LineFiles([tmp_path / f"{i}.txt" for i in range(5)], index="beside")
        assert [str(i // 2) for i in range(10)] == [lines.line(i).text() for i in range(10)]
        handles = [file.reader._first.closed for file in lines._files]
        assert [False, False, True, True, True] == handles
        lines.close()


def test_a_long_pass_tells_how_far_it_is(file, monkeypatch, caplog):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    with caplog.at_level(logging.INFO, "threadloader"):
        lines = LineFiles([file], _chunk=len(DATA) // 2 + 1)
    lines.close()
    assert [f"{file}: looked for lines in 0 of 0 MiB"] * 2 == caplog.messages


def test_the_suffix_is_the_one_that_the_documents_name():
    assert ".threadloader-index" == SUFFIX


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
