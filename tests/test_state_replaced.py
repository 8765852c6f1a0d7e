"""A state's file that others read or replace is whole; they are waited for where that helps."""

import errno
import io
import itertools
import os
import threading

import numpy as np
import pytest
from denied import denied_at_first
from links import make_link
from two_states import CONFIG, PLAIN, RICH, folder

from threadloader import Loader
from threadloader.errors import _open_files
from threadloader.state import _file, read, write

__all__ = ["folder"]  # the fixture


def test_a_save_whose_temporary_another_ones_first_save_removed_is_done_again(folder, monkeypatch):
    """Two runs on one file: one is between its write and its rename when the other tidies up."""
    path = folder / "run.state"
    replace = os.replace
    hits = []

    def after_the_other(file, target):
        if not hits:
            hits.append(file)
            write(RICH, path, tidy=True)
        return replace(file, target)

    monkeypatch.setattr(os, "replace", after_the_other)
    write(RICH, path)
    assert 1 == len(hits)
    assert RICH == read(path)
    assert ["run.state"] == [file.name for file in folder.iterdir()]


@pytest.fixture
def windows(folder, monkeypatch):
    """Gives a list of errors, each of which a rename raises before one works, as on Windows."""
    refused, real = [], os.replace

    def replace(source, target):
        if refused:
            raise refused.pop()
        real(source, target)

    monkeypatch.setattr(_open_files, "_WINDOWS", True)
    monkeypatch.setattr(_open_files, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.delattr(os, "fchmod", raising=False)  # what is made read-only stays there
    return refused


def test_a_state_that_somebody_reads_is_replaced_as_soon_as_that_is_over(windows, folder):
    """Windows replaces no file that is open."""
    write(PLAIN, folder / "run.state")
    windows += [PermissionError(errno.EACCES, "Access is denied") for _ in range(3)]
    write(RICH, folder / "run.state")
    assert (RICH, [folder / "run.state"]) == (read(folder / "run.state"), list(folder.iterdir()))


def test_a_state_that_is_just_replaced_is_read_as_soon_as_that_is_over(folder, monkeypatch):
    """Windows opens no file that another one is put in place of."""
    write(PLAIN, folder / "run.state")
    monkeypatch.setattr(_open_files, "_WINDOWS", True)
    monkeypatch.setattr(_open_files, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(_file, "FileIO", denied_at_first(io.FileIO))
    assert PLAIN == read(folder / "run.state")
    monkeypatch.setattr(_file, "FileIO", denied_at_first(io.FileIO))
    monkeypatch.setattr(_open_files, "_WINDOWS", False)
    with pytest.raises(PermissionError):
        read(folder / "run.state")


def test_a_state_that_fuse_does_not_find_while_it_is_replaced_is_read(folder, monkeypatch):
    """As by sshfs and bindfs, whoever opens a name meets the file that was there before."""
    write(PLAIN, folder / "run.state")
    monkeypatch.setattr(_open_files, "_PAUSE_SECONDS", 0)
    gone = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    monkeypatch.setattr(_file, "FileIO", denied_at_first(io.FileIO, gone))
    assert PLAIN == read(folder / "run.state")


def test_a_replacing_that_finds_nothing_is_not_waited_for(folder, monkeypatch):
    """It is tried a hundred times: with a pause each, that took minutes."""

    def replace(source, target):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(_open_files.time, "sleep", None)
    with pytest.raises(FileNotFoundError):
        write(PLAIN, folder / "run.state")


def test_a_state_that_is_missing_is_told_at_once(folder, monkeypatch):
    """A link that leads nowhere, too."""
    monkeypatch.setattr(_open_files.time, "sleep", None)
    with pytest.raises(FileNotFoundError):
        read(folder / "run.state")
    make_link(folder / "run.state", "nowhere")
    with pytest.raises(FileNotFoundError):
        read(folder / "run.state")


@pytest.mark.parametrize("name", ["stat", "replace"])
def test_what_a_handler_raises_while_a_file_is_waited_for_passes(
    windows, folder, monkeypatch, name
):
    """It may be of the class of what Windows says, but has no number of the system's."""
    write(PLAIN, folder / "run.state")
    calls = []

    def refused(*args, **options):
        calls.append(args)
        raise PermissionError("a handler's own")

    monkeypatch.setattr(os, name, refused)
    with pytest.raises(PermissionError, match="a handler's own"):
        read(folder / "run.state") if name == "stat" else write(RICH, folder / "run.state")
    assert 1 == len(calls)


def test_a_state_that_may_not_be_looked_at_for_a_moment_is_read(windows, folder, monkeypatch):
    """As it is while another one is put in its place."""
    write(PLAIN, folder / "run.state")
    monkeypatch.setattr(os, "stat", denied_at_first(os.stat))
    assert PLAIN == read(folder / "run.state")


def test_a_state_that_stays_open_is_left_as_it_is(windows, folder, monkeypatch):
    """After a second, by a clock that each look at it moves."""
    write(PLAIN, folder / "run.state")
    clock = itertools.count(0.0, 0.25)
    monkeypatch.setattr(_open_files.time, "monotonic", lambda: next(clock))
    windows += [PermissionError(errno.EACCES, "Access is denied") for _ in range(9)]
    with pytest.raises(PermissionError):
        write(RICH, folder / "run.state")
    assert 9 - 4 == len(windows)
    assert (PLAIN, [folder / "run.state"]) == (read(folder / "run.state"), list(folder.iterdir()))


def test_elsewhere_a_file_that_cannot_be_replaced_is_told_at_once(windows, folder, monkeypatch):
    monkeypatch.setattr(_open_files, "_WINDOWS", False)
    windows += [PermissionError(errno.EACCES, "Permission denied") for _ in range(2)]
    with pytest.raises(PermissionError):
        write(PLAIN, folder / "run.state")
    assert 1 == len(windows)


def test_threads_that_save_at_once_leave_one_whole_file(folder):
    """While batches are delivered; whoever reads in between finds a state that there was."""
    path = folder / "run.state"
    source = np.arange(200)
    failed, done, there = [], threading.Event(), threading.Barrier(5)

    def save(batches):
        there.wait()
        while not done.is_set():
            batches.save(path)

    def look():
        there.wait()
        while not done.is_set():
            if path.exists():
                state = read(path)
                if state["world"]["position"] != 2 * state["shard"]["batches"] % 200:
                    failed.append(state)

    def guarded(work, *args):
        try:
            work(*args)
        except BaseException as error:
            failed.append(error)
            raise

    with Loader(CONFIG, source) as batches, Loader(CONFIG, source) as other:
        threads = [
            threading.Thread(target=guarded, args=args)
            for args in [(save, batches), (save, batches), (save, other), (look,)]
        ]
        for thread in threads:
            thread.start()
        there.wait()
        try:
            for _ in batches:
                other.save(path)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        last = batches.state_dict()
        batches.save(path)
    assert [] == failed
    assert last == read(path)
    assert ["run.state"] == [file.name for file in folder.iterdir()]


def test_of_two_threads_that_save_the_older_state_is_never_written_last(folder):
    """What a save has written, a run that goes on from the file begins behind."""
    path, done, behind = folder / "run.state", threading.Event(), []

    def save():
        while not done.is_set():
            batches.save(path)

    with Loader({"batch_size": 1, "shuffle": False}, range(300)) as batches:
        threads = [threading.Thread(target=save) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in batches:
                batches.save(path)
                if read(path)["shard"]["batches"] < batches.info.step + 1:
                    behind.append(batches.info.step)
        finally:
            done.set()
            for thread in threads:
                thread.join()
    assert [] == behind


def test_two_shards_that_save_to_one_file_leave_a_state_of_one_of_them(folder):
    """The world part is that of both; the counts are kept for the one that saved."""
    path = folder / "run.state"

    def config(shard):
        return {**CONFIG, "shuffle": False, "shard": {"index": shard, "count": 2}}

    for shard in (0, 1):
        with Loader(config(shard), np.arange(12)) as batches:
            next(iter(batches))
            batches.save(path)
    for shard, batch in [(0, [4, 5]), (1, [6, 7])]:
        with Loader(config(shard), np.arange(12), resume=path) as batches:
            assert shard == batches.state_dict()["shard"]["batches"]
            assert batch == next(iter(batches)).tolist()
    assert ["run.state"] == [file.name for file in folder.iterdir()]
