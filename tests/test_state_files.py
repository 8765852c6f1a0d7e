"""A save leaves the new state whole or the old one, and nothing else that it could remove."""

import contextlib
import errno
import gc
import io
import json
import os
import stat
import sys
from dis import opname

import numpy as np
import pytest
from two_states import CONFIG, PLAIN, RICH, RUN, WORLD, folder

from threadloader import Loader
from threadloader.state import Cursor, _file, _saving, dump, read, write

__all__ = ["folder"]  # the fixture


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


def interrupted(place, monkeypatch, call, handler):
    """Saves twice behind one batch; in the second, at a call, `handler(batches, epoch)` comes.

    The first save tidies up: in the midst of another it would take that one's temporary file.
    """
    real = getattr(os, call)

    def meanwhile(*given):
        monkeypatch.setattr(os, call, real)
        handler(batches, epoch)
        return getattr(os, call)(*given)

    with Loader({"batch_size": 2}, range(40)) as batches:
        epoch = iter(batches)
        next(epoch)
        batches.save(place)
        monkeypatch.setattr(os, call, meanwhile)
        batches.save(place)


@pytest.fixture
def renamed(monkeypatch):
    """(Name, step) of each state that a rename has put in its place."""
    found, replace = [], os.replace

    def noting(source, target):
        replace(source, target)
        found.append((os.path.basename(target), read(target)["world"]["step"]))

    monkeypatch.setattr(os, "replace", noting)
    return found


@pytest.mark.parametrize(
    ("call", "stood"),
    [("fsync", [1, 2, 2]), ("replace", [1, 2, 1, 2])],
    ids=["while the disk is waited for", "right before the rename"],
)
def test_a_save_in_the_midst_of_another_one_is_not_undone(
    tmp_path, monkeypatch, renamed, call, stood
):
    """A signal's handler saves, and another thread has taken a batch. At once or right after."""

    def handler(batches, epoch):
        next(epoch)
        batches.save(tmp_path / "state")

    interrupted(tmp_path / "state", monkeypatch, call, handler)
    assert stood == [step for _, step in renamed]


def test_a_save_to_another_file_in_the_midst_changes_nothing(tmp_path, monkeypatch, renamed):
    def handler(batches, epoch):
        batches.save(tmp_path / "other")

    interrupted(tmp_path / "state", monkeypatch, "fsync", handler)
    assert [("state", 1), ("other", 1), ("state", 1)] == renamed


def test_a_newer_state_stands_though_no_other_can_be_written(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, "full")

    def handler(batches, epoch):
        next(epoch)
        batches.save(tmp_path / "state")
        monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="full"):
        interrupted(tmp_path / "state", monkeypatch, "fsync", handler)
    assert 2 == read(tmp_path / "state")["world"]["step"]


def test_a_thread_remembers_few_of_the_files_that_it_has_saved():
    saved = _saving._Saved()
    for number in range(100):
        assert not saved.since(number, f"{number}")
        saved.add(f"{number}")
        assert saved.since(number, f"{number}")
        assert not saved.since(number + 1, f"{number}")
    assert len(saved.files[1]) == _saving._LAST


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
