"""A state in a file is there whole or not at all, and damage is always seen.

Longer than other files: all that can happen to one file stands together.
"""

import contextlib
import errno
import gc
import io
import itertools
import json
import os
import stat
import sys
import threading
from dis import opname
from pathlib import Path

import numpy as np
import pytest
from campaigns import states as campaign
from damaged_states import accepted, cut, flipped
from denied import denied_at_first
from links import make_link

from threadloader import Loader, StateError
from threadloader.errors import _open_files
from threadloader.state import Cursor, Excluded, _file, dump, load, read, write

RUN = {"source": "x", "samples": 90, "seed": 2**64 - 1, "shuffle": True, "sampler": None}
WORLD = {"batch_size": 4, "shard_count": 2}
PLAIN = dump(Cursor(), RUN, WORLD, 0)
RICH = dump(
    Cursor(3, 16, 2, 47, 180, ((0, 3, 2), (1, 0, 9)), "f0" * 16),
    {**RUN, "source": 'a "täble"\n'},
    WORLD,
    1,
    Excluded.of("4-6 80"),
)
CONFIG = {"batch_size": 2, "num_workers": 0}


@pytest.fixture(scope="module", params=[PLAIN, RICH], ids=["plain", "rich"])
def saved(request, tmp_path_factory):
    """The bytes of a file that `write` made."""
    path = tmp_path_factory.mktemp("saved") / "run.state"
    write(request.param, path)
    return path.read_bytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in which the disk is not waited for."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    return tmp_path


def test_a_file_cut_at_any_byte_is_refused_as_damaged(saved, tmp_path):
    assert [] == accepted(cut(saved), tmp_path / "cut.state")


def test_a_file_with_any_bit_flipped_is_refused_as_damaged(saved, tmp_path):
    """Whatever it stands in: a value, a name, the form, the version, the checksum."""
    flips = flipped(saved)
    assert 8 * len(saved) == len(flips)
    assert [] == accepted(flips, tmp_path / "flipped.state")


def test_a_file_with_more_behind_it_is_refused_as_damaged(saved, tmp_path):
    longer = [(byte, saved + bytes([byte])) for byte in range(256)]
    longer += [("twice", saved + saved), ("a hole", saved + bytes(4096))]
    assert [] == accepted(longer, tmp_path / "longer.state")


def test_a_hole_in_a_file_is_refused_as_damaged(saved, tmp_path):
    """As a file system leaves it that lost a block, or swapped two."""
    holes = []
    for size in (1, 16, 64, 512):
        for first in range(0, len(saved), size):
            hole = bytes(len(saved[first : first + size]))
            holes.append(((first, size), saved[:first] + hole + saved[first + size :]))
    half = len(saved) // 2
    holes.append(("swapped", saved[half:] + saved[:half]))
    assert [] == accepted(holes, tmp_path / "hole.state")


def test_the_same_values_in_another_form_are_no_file_of_a_state(tmp_path):
    """Else a flipped blank would not show. The hint says what to do with a file of one's own."""
    path = tmp_path / "own.json"
    path.write_text(json.dumps(PLAIN), encoding="utf-8")
    with pytest.raises(StateError, match=r"damaged.*save\(\) writes"):
        read(path)


def test_a_damaged_file_is_refused_by_the_loader_and_nothing_is_left_open(tmp_path):
    """As `resume`, before any thread starts, and by `load_state_dict`, which changes nothing."""
    source, path = np.arange(9), tmp_path / "run.state"
    with Loader({"batch_size": 2}, source) as batches:
        next(iter(batches))
        batches.save(path)
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 4
    path.write_bytes(text)
    with pytest.raises(StateError, match="damaged"):
        Loader({"batch_size": 2}, source, resume=path).__enter__()
    with Loader({"batch_size": 2}, source) as batches:
        before = batches.state_dict()
        with pytest.raises(StateError, match="damaged"):
            batches.load_state_dict(path)
        assert before == batches.state_dict()


def test_what_is_written_is_read(saved, tmp_path):
    path = tmp_path / "again.state"
    path.write_bytes(saved)
    state = read(path)
    write(state, tmp_path / "copy.state")
    assert saved == (tmp_path / "copy.state").read_bytes()


def test_saving_leaves_no_garbage_in_a_cycle(tmp_path):
    """A loop may save at every step, with the collection of garbage turned off."""
    with Loader({"batch_size": 2, "exclude": [3, 5]}, range(40), skip_steps=2) as batches:
        batches.save(tmp_path / "state")  # what is imported at first leaves some
        gc.collect()
        gc.disable()
        try:
            batches.save(tmp_path / "state")
            assert 0 == gc.collect()
        finally:
            gc.enable()
        text = (tmp_path / "state").read_text("ascii")
        assert f"{json.dumps(batches.state_dict(), indent=1)}\n" == text


def test_a_state_is_small(saved):
    """But for the two lists that a person makes, it fits into one block of a disk."""
    assert len(saved) <= 4096


def test_a_system_that_reads_a_few_bytes_at_a_time_makes_no_state_damaged(tmp_path, monkeypatch):
    class Short(io.FileIO):
        def read(self, size=-1):
            return super().read(min(size, 3) if size > 0 else size)

    with Loader({"batch_size": 2}, list(range(9))) as batches:
        next(iter(batches))
        batches.save(tmp_path / "state")
        expected = batches.state_dict()
    monkeypatch.setattr(_file, "FileIO", Short)
    assert expected == _file.read(tmp_path / "state")


class Disk:
    """The system's calls that `write` makes, one of which fails.

    `steps` names them in order. The file's own write leaves half of the text behind, as a
    full disk does.
    """

    def __init__(self, monkeypatch, fail, error):
        self.steps = []
        self.fail, self.error = fail, error
        disk = self

        class File(io.FileIO):
            def write(self, text):
                if disk.fails("write"):
                    super().write(text[: len(text) // 2])
                    raise disk.error
                return super().write(text)

            def flush(self):
                disk.step("flush")

            def close(self):
                super().close()
                disk.step("close")

        def opened(path, mode="r", *args, **options):
            disk.step("open")
            file = File(path, mode)
            try:
                disk.step("opened")
            except BaseException:
                file.close()
                raise
            return file

        monkeypatch.setattr(_file, "open", opened, raising=False)
        for name in ("fsync", "replace", "open"):
            monkeypatch.setattr(os, name, self.around(name, getattr(os, name)))

    def around(self, name, call):
        if name == "open":
            name = "open the folder"

        def around(*args, **options):
            self.step(name)
            result = call(*args, **options)
            if name != "open the folder":  # else its number would be lost, and it stay open
                self.step(f"{name}, done")
            return result

        return around

    def fails(self, step):
        self.steps.append(step)
        return len(self.steps) == self.fail

    def step(self, name):
        if self.fails(name):
            raise self.error


def steps_of_a_save(folder):
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch, 0, None)
        write(PLAIN, folder / "run.state")
    return disk.steps


NEEDED = ["open", "write", "flush", "fsync", "replace"]
FAULTS = {
    "no space": lambda: OSError(errno.ENOSPC, "no space left"),
    "Ctrl-C": KeyboardInterrupt,
    "no memory": MemoryError,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("before", [True, False], ids=["replaced", "new"])
def test_a_save_that_fails_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path, before, fault):
    """Whole, and nothing beside it; up to the rename it is the old one; the error is the fault."""
    path = tmp_path / "run.state"
    steps = steps_of_a_save(tmp_path)
    assert NEEDED == list(dict.fromkeys(step for step in steps if step in NEEDED))
    path.unlink()
    for number, step in enumerate(steps, 1):
        if before:
            write(PLAIN, path)
        error = FAULTS[fault]()
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, number, error)
            with pytest.raises(type(error)) as caught:
                write(RICH, path)
        assert error is caught.value, step
        assert fault != "no space" or str(path.resolve()) == error.filename, step
        assert {path.name} >= {file.name for file in tmp_path.iterdir()}, step
        renamed = number >= steps.index("replace, done") + 1
        old = PLAIN if before else None
        assert (RICH if renamed else old) == (read(path) if path.exists() else None), step
        if path.exists():
            path.unlink()


class Interrupt(BaseException):
    """A Ctrl-C at a chosen instruction."""


def interrupted_at(number, function, *args):
    """Calls a function and interrupts it at an instruction of the room; says whether it came."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if "threadloader" not in frame.f_code.co_filename:
            return None
        frame.f_trace = trace  # now already: CPython 3.13 looks for it in the next line
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        # CPython 3.14 has NOT_TAKEN behind jumps, which no `try` covers and no signal comes to.
        if event == "opcode" and opname[frame.f_code.co_code[frame.f_lasti]] != "NOT_TAKEN":
            count += 1
            if count == number:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*args)
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.fixture
def folders_closed(monkeypatch):
    """Closes folders: an interrupt between the call that opens one and the store loses its number.

    Nothing in Python can close that gap, and it is one instruction wide.
    """
    opened, numbers = os.open, []

    def kept(*args, **options):
        numbers.append(opened(*args, **options))
        return numbers[-1]

    monkeypatch.setattr(os, "open", kept)
    yield
    for number in numbers:
        with contextlib.suppress(OSError):
            os.close(number)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # between `open` and `with`
def test_an_interrupt_at_any_instruction_leaves_the_old_file_or_the_new_one(folder, folders_closed):
    path = folder / "run.state"
    interrupted_at(0, write, PLAIN, path)  # CPython 3.12 does not count the first time
    number = 1
    while True:
        write(PLAIN, path)
        came = interrupted_at(number, write, RICH, path)
        assert {path.name} == {file.name for file in folder.iterdir()}
        assert read(path) in ((PLAIN, RICH) if came else (RICH,))
        if not came:
            break
        number += 1
    assert number > 100


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBADF])
@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="folders cannot be opened here")
def test_a_file_system_that_cannot_flush_a_folder_is_no_error(tmp_path, monkeypatch, number):
    """Some network file systems say so; the file itself has been flushed."""
    fsync, flushed = os.fsync, []

    def flush(handle):
        flushed.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        if flushed[-1] == "folder":
            raise OSError(number, "not for folders")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", flush)
    write(RICH, tmp_path / "run.state")
    assert ["file", "folder"] == flushed
    assert RICH == read(tmp_path / "run.state")


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_is_followed(tmp_path, there):
    """It stays a link; the file it leads to, in another folder, is replaced, or made."""
    (tmp_path / "disk").mkdir()
    target = tmp_path / "disk" / "run.state"
    make_link(tmp_path / "run.state", Path("disk") / "run.state")
    if there:
        write(PLAIN, target)
    write(RICH, tmp_path / "run.state", tidy=True)
    assert (tmp_path / "run.state").is_symlink()
    assert not target.is_symlink()
    assert RICH == read(target) == read(tmp_path / "run.state")
    assert ["run.state"] == [file.name for file in target.parent.iterdir()]


@pytest.mark.parametrize(("there", "last"), [(True, 1), (False, 1), (False, 2)])
def test_a_symbolic_link_that_cannot_be_looked_at_stays_one(tmp_path, monkeypatch, there, last):
    """A timer's handler raises while the path is followed, at the first look at the link or later.

    There is a second one where the file that it leads to is not there yet.
    """
    target, link = tmp_path / "target", tmp_path / "run.state"
    make_link(link, target)
    if there:
        write(PLAIN, target)
    lstat, looks = os.lstat, []

    def look(path, **options):
        looks.append(os.fspath(path))
        if looks.count(str(link)) == last:
            looks.clear()
            raise TimeoutError("time is up")
        return lstat(path, **options)

    monkeypatch.setattr(os, "lstat", look)
    with contextlib.suppress(TimeoutError):
        write(RICH, link)
    monkeypatch.undo()
    assert link.is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="folders have no such permission there")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_the_systems_error(tmp_path):
    path = tmp_path / "run.state"
    write(PLAIN, path)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            write(RICH, path, tidy=True)
    finally:
        tmp_path.chmod(0o700)
    assert PLAIN == read(path)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no such folder here")
def test_a_folder_that_nobody_can_write_is_the_systems_error():
    with pytest.raises(OSError):  # noqa: PT011 (which one differs with the kernel)
        write(PLAIN, "/proc/self/fd/run.state", tidy=True)


def test_a_missing_folder_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write(PLAIN, tmp_path / "none" / "run.state", tidy=True)


def test_a_folder_in_the_files_place_is_the_systems_error(tmp_path):
    (tmp_path / "run.state").mkdir()
    with pytest.raises(OSError):  # noqa: PT011 (which one differs with the system)
        write(PLAIN, tmp_path / "run.state")
    assert ["run.state"] == [file.name for file in tmp_path.iterdir()]


def test_a_path_may_be_a_str_or_path_like(tmp_path):
    with Loader(CONFIG, np.arange(6)) as batches:
        next(iter(batches))
        batches.save(str(tmp_path / "one"))
        batches.save(tmp_path / "other")
        state = batches.state_dict()
    assert state == read(str(tmp_path / "one")) == read(tmp_path / "other")
    for path in (str(tmp_path / "one"), tmp_path / "other"):
        with Loader(CONFIG, np.arange(6), resume=path) as batches:
            assert state == batches.state_dict()


def left_over(path, monkeypatch, shard=0):
    """What a process leaves beside a path that is killed before the rename; its name."""

    class Killed(BaseException):
        pass

    def killed(file, target):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        patch.setattr(os, "unlink", lambda file: None)
        before = set(path.parent.iterdir())
        with pytest.raises(Killed):
            write(dump(Cursor(), RUN, WORLD, shard), path)
    (left,) = set(path.parent.iterdir()) - before
    return left.name


def test_the_first_save_removes_what_killed_ones_left_for_the_same_shard_and_file(
    folder, monkeypatch
):
    """And nothing else: another shard's, another file's, or a file of the user's alike in name."""
    path = folder / "run.state"
    for _ in range(3):
        left_over(path, monkeypatch)
    others = {left_over(path, monkeypatch, shard) for shard in (1, 10)}
    others |= {left_over(folder / name, monkeypatch) for name in ("run.state.0", "a.run.state")}
    for name in ("run.state.0.mine.tmp", "run.state.tmp", "run.state.0.12-0123456g.tmp"):
        (folder / name).write_text("mine", encoding="utf-8")
        others.add(name)
    with Loader(CONFIG, np.arange(6)) as batches:
        batches.save(path)
        assert others | {"run.state"} == {file.name for file in folder.iterdir()}
        later = left_over(path, monkeypatch)
        batches.save(path)
        assert later in {file.name for file in folder.iterdir()}


def test_what_cannot_be_removed_does_not_keep_a_state_from_being_saved(folder, monkeypatch):
    """A file of another user's, or one that is held open where that counts."""
    path = folder / "run.state"
    left = left_over(path, monkeypatch, shard=RICH["shard"]["index"])
    unlink = os.unlink

    def refused(file):
        if os.path.basename(file) == left:
            raise PermissionError(errno.EACCES, "not yours")
        unlink(file)

    monkeypatch.setattr(os, "unlink", refused)
    write(RICH, path, tidy=True)
    assert RICH == read(path)


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


def test_a_file_of_version_1_is_read_for_ever():
    """tests/goldens/state-1.state was written by the first version that wrote states."""
    path = Path(__file__).parent / "goldens" / "state-1.state"
    config = {"batch_size": 3, "seed": 11, "num_workers": 0, "num_epochs": 3, "exclude": [2, 3]}
    with Loader(config, list(range(12)), resume=path) as batches:
        now, then = batches.state_dict(), read(path)
        then["shard"]["skipped"] = 0  # not written yet, and 0 by what it means
        del now["checksum"], then["checksum"]
        assert then == now
        got = [[batch.tolist() for batch in epoch] for epoch in batches.epochs()]
    rest = [[[7, 5, 10], [1]], [[11, 4, 6], [10, 1, 0], [7, 5, 9], [8]]]
    assert rest == got


def test_a_newer_file_is_refused_as_such(tmp_path, monkeypatch):
    """Its checksum is right, so it is not damaged."""
    monkeypatch.setattr("threadloader.state._state.VERSION", 2)
    write(dump(Cursor(), RUN, WORLD, 0), tmp_path / "run.state")
    monkeypatch.undo()
    with pytest.raises(StateError, match="expected version 1, got 2"):
        load(read(tmp_path / "run.state"), RUN, WORLD, 0)


class TestTheCampaign:
    def test_it_damages_states_and_changes_runs(self, capsys):
        """Each cut and bit of a state, and some changes of what it is a state of."""
        assert 0 == campaign.main(["--count=2", "--seed=1", "--processes=1"])
        out = capsys.readouterr().out
        assert out.startswith("states: 2 run, 2 distinct, 0 failed, ")
        assert " 0 cut" not in out

    def test_every_field_of_a_run_is_changed(self):
        """By some change, alone."""
        changed = {field for fields in campaign.CHANGES.values() for field in fields}
        assert set(PLAIN["run"]) | {"order"} == changed

    def test_a_damage_that_is_taken_for_a_state_is_seen(self, monkeypatch, capsys):
        monkeypatch.setattr("damaged_states.read", lambda path: {})
        assert 1 == campaign.main(["--count=1", "--processes=1"])
        assert "not refused as damaged" in capsys.readouterr().err

    def test_another_run_that_is_taken_for_the_same_is_seen(self, monkeypatch, capsys):
        refuse = "threadloader.state._state._refuse_another_run"
        monkeypatch.setattr(refuse, lambda saved, run, allowed: None)
        assert 1 == campaign.main(["--count=1", "--processes=1"])
        assert "expected to be refused for" in capsys.readouterr().err


def test_a_save_hours_later_needs_no_file_of_the_package(tmp_path, run_child):
    """Meanwhile it may have been replaced by another version, or no file can be opened."""
    path = tmp_path / "run.state"
    child = run_child(
        "import sys\n"
        "from threadloader import Loader\n"
        "with Loader({'batch_size': 2}, range(6)) as batches:\n"
        "    next(iter(batches))\n"
        "    sys.meta_path.clear()  # nothing more can be imported\n"
        "    batches.save(sys.argv[1])\n",
        str(path),
    )
    assert "" == child.stderr
    assert 2 == read(path)["world"]["position"]


def test_the_text_of_a_state_is_no_path_of_one():
    """What a saved run has may be the text: then it is said how it becomes a state."""
    with Loader({"batch_size": 2}, range(6)) as batches:
        text = json.dumps(batches.state_dict())
        with pytest.raises(StateError, match=r"got a state as JSON; give json.loads\(text\)$"):
            batches.load_state_dict(text)


def test_nor_is_it_the_path_of_one_to_resume_from():
    with Loader({"batch_size": 2}, np.arange(6)) as batches:
        text = json.dumps(batches.state_dict())
    with pytest.raises(StateError, match=r"got a state as JSON; give json\.loads\(text\)"):
        Loader({"batch_size": 2}, np.arange(6), resume=text).__enter__()


def test_a_state_that_may_not_be_read_is_named_by_its_path(tmp_path, monkeypatch):
    """And not by how Python would write it down."""
    write(PLAIN, path := str(tmp_path / "run.state"))

    def opened(name, *args):
        raise PermissionError(errno.EACCES, "not yours", name)

    monkeypatch.setattr(_file, "FileIO", opened)
    with pytest.raises(PermissionError) as raised:
        read(path)
    assert path == raised.value.filename
