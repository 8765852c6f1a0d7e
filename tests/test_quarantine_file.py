"""Lines join a quarantine file beside others' and behind a torn one; another file is refused."""

import errno
import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from bad_samples import Failing, lines

from threadloader import ConfigError, Loader, quarantine
from threadloader.quarantine import Quarantine


def test_a_torn_last_line_is_cut_off_by_the_next(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 9}\n{"index": 1, "pa', "utf-8")
    config = {"batch_size": 4, "on_error": {"skip": 9, "quarantine": str(path)}}
    with Loader(config, source=Failing(4, {2})) as batches:
        list(batches)
    assert [9, 2] == [line["index"] for line in lines(path)]


@pytest.mark.parametrize("last", ['{"index": 7}', "7", '{"path": null, "index": 7}'])
def test_a_last_line_without_its_end_stays(last, tmp_path):
    """As somebody may write it by hand, and `exclude` takes it."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 9}\n' + last, "utf-8")
    config = {"batch_size": 4, "on_error": {"skip": 9, "quarantine": str(path)}}
    with Loader(config, source=Failing(4, {2})) as batches:
        list(batches)
    assert ['{"index": 9}', last] == path.read_text("utf-8").split("\n")[:2]
    assert 2 == lines(path)[2]["index"]


DATA = [b'{"a": 1}\n', b'{"index": "a"}\n', b'{"index": true}\n', b"[1, 2]\n", b'"a"\n', b"1.5\n"]
"""Lines of JSON that are no list of samples: data of the user's, perhaps."""


@pytest.mark.parametrize(
    "content",
    [b"x" * 50, bytes(50), b"{" + bytes(50), b"PK\x03\x04", b"{\n  'a': 1}", b"\xff{}", *DATA],
)
def test_a_quarantine_that_is_another_file_is_refused(content, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="quarantine: expected lines of JSON with an index, got"):
        Loader({"on_error": {"skip": 1, "quarantine": str(path)}}, source=range(4)).__enter__()
    assert content == path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"\n", b'{"index": 9, "pa', b'{"in', b"7\n", b"12"])
def test_a_quarantine_that_another_run_or_a_hand_has_begun_is_taken(content, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    Quarantine(path).add([{"index": 3}])
    assert b'{"index": 3}' == path.read_bytes().splitlines()[-1]


def test_two_that_add_at_once_do_not_cut_off_each_others_lines(tmp_path, monkeypatch):
    """One has seen a torn line, and would cut it off; until it is done nobody else adds a line."""
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 9}\n{"index": 1, "pa', "utf-8")
    one, other = Quarantine(path), Quarantine(path)
    real = quarantine.is_torn

    def meanwhile(line):
        with pytest.raises(OSError, match="another process has held it"):
            other.add([{"index": 3}])
        return real(line)

    monkeypatch.setattr(quarantine, "_HELD_SECONDS", 0)
    monkeypatch.setattr(quarantine, "is_torn", meanwhile)
    one.add([{"index": 2}])
    other.add([{"index": 3}])
    assert [9, 2, 3] == [line["index"] for line in lines(path)]


def test_who_waits_for_the_file_adds_when_it_is_free(tmp_path, monkeypatch):
    """It finds the file held, pauses until the other one is done, and asks again."""
    path = tmp_path / "bad.jsonl"
    one, other = Quarantine(path), Quarantine(path)
    paused, done = threading.Event(), threading.Event()
    waiting = threading.Thread(target=other.add, args=([{"index": 3}],))

    def write(file, text):
        waiting.start()
        assert paused.wait(30)
        Quarantine._write(one, file, text)

    def sleep(seconds):
        paused.set()
        assert done.wait(30)

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0)
    monkeypatch.setattr(quarantine, "time", clock)
    monkeypatch.setattr(one, "_write", write)
    one.add([{"index": 2}])
    done.set()
    waiting.join()
    assert [2, 3] == [line["index"] for line in lines(path)]


def test_a_disk_without_locks_will_do(tmp_path, monkeypatch):
    def refuse(file, *, held):
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "bad.jsonl"
    monkeypatch.setattr(quarantine, "_lock", refuse)
    Quarantine(path).add([{"index": 1}])
    Quarantine(path).add([{"index": 2}])
    assert [1, 2] == [line["index"] for line in lines(path)]


def test_a_lock_does_not_outlive_the_write(tmp_path, monkeypatch):
    """Whoever was forked meanwhile has the file open as well, and does not hold it for ever."""
    path = tmp_path / "bad.jsonl"
    monkeypatch.setattr(quarantine, "_HELD_SECONDS", 0)
    inherited = []
    real = Quarantine._write

    def forked(self, file, text):
        inherited.append(os.dup(file.fileno()))
        return real(self, file, text)

    with monkeypatch.context() as patch:
        patch.setattr(Quarantine, "_write", forked)
        Quarantine(path).add([{"index": 1}])
    try:
        Quarantine(path).add([{"index": 2}])
    finally:
        os.close(*inherited)
    assert [1, 2] == [line["index"] for line in lines(path)]


SHARE = """
import subprocess
import sys

code = '''
import sys
from contextlib import ExitStack
from pathlib import Path
from threadloader.quarantine import Quarantine
first, path = int(sys.argv[1]), Path(sys.argv[2])
for index in range(first, first + 100):
    Quarantine(path).add([{"index": index, "path": "x" * (index % 7)}])
    if index % 5 == 0:
        with path.open("ab+", buffering=0) as file:  # closing gives the lock back, as a kill does
            Quarantine(path)._hold(file)
            Quarantine(path)._write(file, b'{"index": 7, "pa')  # what another has torn goes first
'''
each = [sys.executable, "-c", code]
runs = [subprocess.Popen([*each, first, sys.argv[1]]) for first in ("0", "1000", "2000")]
sys.exit(any([run.wait() for run in runs]))
"""


def test_processes_share_a_quarantine_file(tmp_path, run_child):
    """Each adds a line at a time, and now and then leaves one as a kill does: none is lost."""
    path = tmp_path / "bad.jsonl"
    child = run_child(SHARE, str(path))
    assert ("", 0) == (child.stderr, child.returncode)
    Quarantine(path).add([{"index": 5000}])
    expected = [*range(100), *range(1000, 1100), *range(2000, 2100), 5000]
    assert expected == sorted(line["index"] for line in lines(path))


@pytest.mark.parametrize("cut", [1, 9, 10, 16, 21, 24, 25, 27, 28])
@pytest.mark.parametrize("zeros", [0, 1, 80])
def test_a_torn_last_line_does_not_stop_the_next_run(tmp_path, cut, zeros):
    """Which leaves out what the others name; its own first failure cuts the line off.

    Zeros are what some file systems have where the power failed before the bytes were written.
    """
    line = rb'{"index": 1, "path": "a\\b"}'
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"index": 3}\n' + line[:cut] + bytes(zeros or cut == len(line)))
    options = {"skip": 9, "quarantine": str(path)}
    config = {"batch_size": 4, "shuffle": False, "exclude": str(path), "on_error": options}
    with Loader(config, source=Failing(6, {5})) as batches:
        assert [[0, 1, 2, 4]] == [batch.tolist() for batch in batches]
    assert [3, 5] == [line["index"] for line in lines(path)]


@pytest.mark.parametrize("count", [1, 2])
def test_of_several_shards_none_excludes_what_the_others_add_meanwhile(tmp_path, count):
    """They would leave out different samples, each by the file as it was when it was entered."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"index": 3}\n')
    options = {"skip": 9, "quarantine": f"{tmp_path}/./bad.jsonl"}
    config = {"exclude": str(path), "on_error": options, "shard": {"index": 0, "count": count}}
    with ExitStack() as stack:
        if count > 1:
            said = "/exclude: expected another file than the quarantine of this run, to which its"
            stack.enter_context(pytest.raises(ConfigError, match=said))
        stack.enter_context(Loader(config, source=range(9)))


@pytest.mark.parametrize("own", ["bad.jsonl", "folder/../bad.jsonl", "link.jsonl"])
def test_a_quarantine_that_is_the_excluded_file_by_another_name_is_that_file(tmp_path, own):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"index": 3}\n')
    (tmp_path / "folder").mkdir()
    if own == "link.jsonl":
        (tmp_path / own).symlink_to(path)
    config = {
        "exclude": str(path),
        "on_error": {"skip": 9, "quarantine": own},
        "shard": {"index": 0, "count": 2},
    }
    (tmp_path / "train.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="/exclude: expected another file than the quarantine"):
        Loader(tmp_path / "train.json", source=range(9)).__enter__()


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_with_another_end_stay(end, tmp_path):
    """As an editor may write them."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(end.join(['{"index": 7}', '{"index": 8}']).encode())
    Quarantine(path).add([{"index": 9}])
    assert [7, 8, 9] == [line["index"] for line in lines(path)]


@pytest.mark.skipif(os.name == "nt", reason="there it is a name of no file until it is written")
def test_a_quarantine_that_the_system_refuses_is_an_error_of_the_config(tmp_path):
    path = str(tmp_path / ("x" * 300))
    with pytest.raises(ConfigError, match="/on_error/quarantine: expected a file that can be wr"):
        Loader({"on_error": {"skip": 1, "quarantine": path}}, source=range(4)).__enter__()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), ConfigError),
        (OSError(errno.ELOOP, "Too many levels of symbolic links"), ConfigError),
        (TimeoutError("rung"), TimeoutError),
    ],
    ids=["a folder that may not be searched", "links in a circle", "a signal handler"],
)
def test_whatever_looking_at_a_quarantine_raises(error, expected, tmp_path, monkeypatch):
    """The system's errors name the option; that of a signal handler passes as it is."""

    def refuse(*args, **options):
        raise error

    path = tmp_path / "bad.jsonl"
    monkeypatch.setattr(type(path), "stat", refuse)
    with pytest.raises(expected, match=str(error.strerror or error)):
        Quarantine(path)


def test_what_a_signal_handler_raises_while_the_file_is_held_passes(tmp_path, monkeypatch):
    def rung(file, *, held):
        raise TimeoutError("rung")

    quarantined = Quarantine(tmp_path / "bad.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "_lock", rung)
        with pytest.raises(TimeoutError, match="rung"):
            quarantined.add([{"index": 1}])
    quarantined.add([{"index": 2}])
    assert [{"index": 2}] == lines(tmp_path / "bad.jsonl")


@pytest.mark.parametrize("folder", ["none", "file"])
def test_a_quarantine_in_no_folder_is_refused(tmp_path, folder):
    (tmp_path / "file").touch()
    options = {"skip": 1, "quarantine": str(tmp_path / folder / "bad.jsonl")}
    with pytest.raises(ConfigError, match="/on_error/quarantine: expected a file in a folder"):
        Loader({"on_error": options}, source=range(4)).__enter__()


def test_a_quarantine_that_is_a_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="/on_error/quarantine: expected a file, got"):
        Loader({"on_error": {"skip": 1, "quarantine": str(tmp_path)}}, source=range(4)).__enter__()


def test_a_quarantine_that_no_system_can_have_is_refused():
    for name in ("a\0b", *([] if os.name == "nt" else ["a\ud800b"])):
        with pytest.raises(ConfigError, match="/on_error/quarantine: expected a path that a syst"):
            Quarantine(Path(name))


def test_a_quarantine_in_a_folder_that_may_not_be_written_to_is_refused(tmp_path, monkeypatch):
    # Whoever runs the tests as root may write everywhere.
    monkeypatch.setattr(os, "access", lambda asked, mode: asked != tmp_path)
    with pytest.raises(ConfigError, match="expected a file in a folder that can be written to"):
        Quarantine(tmp_path / "bad.jsonl")


def test_a_quarantine_that_may_not_be_written_is_refused_with_what_the_system_says(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"index": 1}\n')

    class Guarded(type(path)):
        def open(self, mode):
            assert "ab+" == mode  # as a line is added
            raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(ConfigError, match=r"can be written, got .*bad\.jsonl: Permission denied"):
        Quarantine(Guarded(path))
    assert '{"index": 1}\n' == path.read_text()


def test_a_quarantine_outside_of_root_is_refused(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    config = {"root": str(inside)}
    config["on_error"] = {"skip": 1, "quarantine": str(tmp_path / "bad.jsonl")}
    with pytest.raises(ConfigError) as caught:
        Loader(config, source=range(4)).__enter__()
    (told,) = caught.value.problems
    assert ("/on_error/quarantine", str(tmp_path / "bad.jsonl")) == (told.pointer, told.got)
    assert told.expected.startswith('a path inside the folder "root"')
