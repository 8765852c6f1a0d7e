"""An index of lines that is kept in a file saves the pass over the data, for all who read it."""

import io
import logging
import os
import random
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from line_indexes import DATA, LINES, file, index_of, passes, read
from links import make_link

from threadloader.errors import SourceError
from threadloader.sources import _index_cache, _lines, _progress
from threadloader.sources._index_cache import SUFFIX
from threadloader.sources._lines import LineFiles
from threadloader.sources._paths import expand
from threadloader.sources.text import open_text

__all__ = ["file", "passes"]  # the fixtures


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


def test_an_index_is_made_for_a_file_of_the_year_2300(file, passes):
    """Such a time is, in nanoseconds, more than an int64 holds."""
    time = 10_413_792_000 * 10**9
    with suppress(OSError, OverflowError):
        os.utime(file, ns=(0, time))
    if file.stat().st_mtime_ns != time:
        pytest.skip("this system does not keep such times")
    assert read(file) == read(file)
    assert 1 == len(passes)


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
