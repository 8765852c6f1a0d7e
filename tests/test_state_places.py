"""What may stand in the place of a state's file, and what not: names, links, permissions."""

import contextlib
import errno
import json
import os
import socket
import stat
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from links import make_link
from stopped import config
from two_states import CONFIG, PLAIN, RICH

from threadloader import ConfigError, Loader, LoaderConfig, StateError
from threadloader._children import child_command, current_folder
from threadloader.config import Base
from threadloader.errors import Problem
from threadloader.loader import based
from threadloader.state import Cursor, _file, dump, read, write

STATE, OTHER = (
    dump(
        Cursor(),
        {"source": source, "samples": 9, "seed": 0, "shuffle": True, "sampler": None},
        {"batch_size": 2, "shard_count": 1},
        0,
    )
    for source in ("x", "y")
)

needs_fifos = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")

CHILD = """
import sys
from threadloader import Loader

def told(go_on):
    try:
        go_on()
    except OSError as error:
        print(error.errno, error.strerror, error.filename == sys.argv[1])

told(Loader({}, range(6), resume=sys.argv[1]).__enter__)
with Loader({}, range(6)) as batches:
    told(lambda: batches.load_state_dict(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in which the disk is not waited for; it is the working one, for short names."""
    monkeypatch.setattr(os, "fsync", lambda number: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class AsBytes(os.PathLike):
    def __fspath__(self):
        return b"run.state"


def fifo(path):
    os.mkfifo(path)


def device(path):
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError as error:
        pytest.skip(f"only root makes a device: {error}")


def listening(path):
    with socket.socket(socket.AF_UNIX) as it:
        it.bind(path)


def loop(path):
    make_link(Path(path), path)


@needs_fifos
@pytest.mark.parametrize("put", [fifo, device, listening])
@pytest.mark.parametrize("linked", [False, True])
def test_a_save_leaves_what_is_no_regular_file_as_it_is(folder, put, linked):
    """Also where a link leads to it; a rename would have put a file in its place."""
    put("run.state")
    path, before = Path("run.state"), os.lstat("run.state")
    if linked:
        path = Path("link.state")
        make_link(path, "run.state")
    names = set(os.listdir())
    with Loader(CONFIG, np.arange(6)) as batches:
        with pytest.raises(OSError, match="expected a regular file") as caught:
            batches.save(path)
    now = os.lstat("run.state")
    assert (errno.EINVAL, str(path)) == (caught.value.errno, caught.value.filename)
    assert (before.st_ino, before.st_mode) == (now.st_ino, now.st_mode)
    assert names == set(os.listdir())


@pytest.fixture
def gone(tmp_path, monkeypatch):
    """The working folder, which is deleted."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()


no_deleting = pytest.mark.skipif(os.name == "nt", reason="Windows keeps the working folder")


@no_deleting
@pytest.mark.usefixtures("gone")
def test_a_relative_path_in_a_folder_that_is_gone_is_named_by_the_error():
    with pytest.raises(FileNotFoundError, match="the working folder, to which") as caught:
        write(STATE, "run.state")
    assert (errno.ENOENT, "run.state") == (caught.value.errno, caught.value.filename)


@no_deleting
@pytest.mark.usefixtures("gone")
@pytest.mark.parametrize("config", [CONFIG, LoaderConfig(**CONFIG)], ids=["dict", "LoaderConfig"])
def test_a_run_in_a_folder_that_is_gone_goes_on_and_is_saved_elsewhere(config, tmp_path):
    with Loader(config, source=range(4)) as batches:
        assert 2 == len(list(batches))
        batches.save(tmp_path / "run.state")
        assert batches.state_dict() == read(tmp_path / "run.state")


@no_deleting
@pytest.mark.usefixtures("gone")
@pytest.mark.parametrize(
    "options",
    [
        {"on_error": {"skip": 1, "quarantine": "here"}},
        {"exclude": "here"},
        {"cache": {"folder": "here"}},
        {"sampler": {"type": "weighted", "weights": "here"}},
        {"source": {"type": "text", "path": "here"}},
        {"source": {"type": "text", "path": ["here"]}, "cache": {"max_samples": 1}},
        {"source": {"type": "files", "folder": "here"}},
        {"source": {"type": "npy", "fields": {"x": "here"}}},
        {"source": {"type": "text", "path": __file__}, "root": "here"},
    ],
    ids=" and ".join,
)
def test_a_relative_path_of_a_config_is_relative_to_no_folder_that_is_gone(options):
    source = None if "source" in options else np.arange(4)
    with pytest.raises(FileNotFoundError, match="the working folder, to which") as caught:
        Loader({**CONFIG, **options}, source=source).__enter__()
    assert (errno.ENOENT, "here") == (caught.value.errno, caught.value.filename)


@no_deleting
@pytest.mark.usefixtures("gone")
def test_a_child_has_the_modules_of_all_folders_that_are_there(monkeypatch):
    """It is started all the same, by `verify` and `bench`."""
    monkeypatch.setattr(sys, "path", ["", "here", os.sep])
    assert f"sys.path[:] = [{os.sep!r}]" in child_command("tells")[-1]
    assert "" == current_folder()


@no_deleting
@pytest.mark.usefixtures("gone")
def test_a_path_from_the_root_is_found_though_the_working_folder_is_gone(tmp_path):
    (tmp_path / "a.txt").write_text("a\nb\n")
    source = {"type": "text", "path": str(tmp_path / "*.txt")}
    with Loader({**CONFIG, "source": source, "root": str(tmp_path), "shuffle": False}) as batches:
        assert [["a", "b"]] == list(batches)


@no_deleting
@pytest.mark.usefixtures("gone")
def test_a_loader_that_is_given_a_working_folder_that_is_gone_knows_it():
    """As `verify` and `bench` do for a config in code."""
    loader = based(Loader(CONFIG, source=[1]), Base.working().path)
    with pytest.raises(FileNotFoundError, match=r"the working folder, .+ is gone"):
        loader._base / "here"


@needs_fifos
def test_a_link_in_a_circle_is_the_systems_error(folder):
    """For a save, which leaves it, and for who goes on."""
    loop("run.state")
    for use in (lambda path: write(STATE, path), read):
        with pytest.raises(OSError) as caught:  # noqa: PT011 (the number is looked at)
            use("run.state")
        assert errno.ELOOP == caught.value.errno
    assert ["run.state"] == os.listdir()
    assert os.path.islink("run.state")


@needs_fifos
def test_a_fifo_is_no_state_and_is_not_waited_for(run_child, tmp_path):
    """Nobody writes to it; the test has a child, which can be ended."""
    os.mkfifo(tmp_path / "run.state")
    child = run_child(CHILD, str(tmp_path / "run.state"), timeout=30)
    expected = f"{errno.EINVAL} expected a regular file True\n"
    assert (0, 2 * expected, "") == (child.returncode, child.stdout, child.stderr)


@needs_fifos
def test_a_device_is_no_state():
    """One that never ends would be read until there is no memory left."""
    with pytest.raises(OSError, match="expected a regular file") as caught:
        read(os.devnull)
    assert (errno.EINVAL, os.devnull) == (caught.value.errno, caught.value.filename)


@pytest.mark.skipif(os.name == "nt", reason="folders are not opened there")
def test_a_folder_is_no_state(folder):
    """The root too, which has no name beside which one could write."""
    for path in (str(folder), "/"):
        for use in (lambda path: write(STATE, path), read):
            with pytest.raises(IsADirectoryError):
                use(path)
    assert [] == os.listdir()


@pytest.mark.parametrize("use", [lambda path: write(STATE, path), read], ids=["write", "read"])
def test_a_name_that_no_file_can_have_is_told(use):
    with pytest.raises(ConfigError) as caught:
        use("run\0.state")
    (problem,) = caught.value.problems
    expected = ("path", "the name of a file", "'run\\x00.state'", "no name has a NUL character")
    assert expected == (problem.pointer, problem.expected, problem.got, problem.hint)


@pytest.mark.parametrize("use", [lambda path: write(STATE, path), read], ids=["write", "read"])
@pytest.mark.parametrize(
    ("path", "got"),
    [("", "''"), (None, "NoneType"), (5, "int"), (b"run.state", "bytes"), (AsBytes(), "AsBytes")],
)
def test_what_names_no_file_is_told(folder, use, path, got):
    """The system takes bytes, and the number of an open file."""
    with pytest.raises(ConfigError) as caught:
        use(path)
    expected = Problem("path", "the name of a file", got, "give a str or a pathlib.Path")
    assert (expected,) == caught.value.problems
    assert [] == os.listdir()


@pytest.mark.parametrize("path", [None, 5, b"run.state", ""])
def test_a_save_to_what_names_no_file_is_a_wrong_argument(folder, path):
    with Loader(CONFIG, np.arange(6)) as batches:
        with pytest.raises(ConfigError, match="path: expected the name of a file, got"):
            batches.save(path)


def test_an_empty_name_to_resume_from_is_a_wrong_argument(folder):
    """Before anything is opened, as of an empty name of a config."""
    with pytest.raises(ConfigError) as caught:
        Loader(CONFIG, np.arange(6), resume="")
    (problem,) = caught.value.problems
    expected = ("resume", "a state, or the path of a file of one", '""')
    assert expected == (problem.pointer, problem.expected, problem.got)


@pytest.mark.parametrize(
    "name",
    ["n" * 64, "n" * 65, "n" * 230, "n" * 255, "é" * 127, "e" + "é" * 127, "\U0001f40d" * 63],
    ids=lambda name: f"{name[:2]} {len(name)}",
)
def test_a_state_has_any_name_that_the_system_can_hold(folder, name):
    """The temporary file beside it has a shorter one."""
    try:
        Path(name).write_bytes(b"")
    except OSError as error:
        pytest.skip(f"this file system does not: {error}")
    write(STATE, name, tidy=True)
    assert STATE == read(name)
    assert [name] == os.listdir()


def test_what_a_killed_save_left_is_told_from_that_of_a_name_alike(folder, monkeypatch):
    """Long names that differ at their end alone; the first save removes what is its own."""

    class Killed(BaseException):
        pass

    def killed(file, target):
        raise Killed

    names = ["n" * 99 + end for end in "ab"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        patch.setattr(os, "unlink", lambda file: None)
        for name in names:
            with pytest.raises(Killed):
                write(STATE, name)
    assert 2 == len(os.listdir())
    write(STATE, names[0], tidy=True)
    assert 2 == len(os.listdir())
    write(STATE, names[1], tidy=True)
    assert names == sorted(os.listdir())


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="the system opens no folder")
def test_a_folder_that_may_not_be_opened_is_told_before_the_file_is_replaced(tmp_path, monkeypatch):
    path = tmp_path / "run.state"
    with Loader(config(), np.arange(4)) as batches:
        batches.save(path)
        before = path.read_bytes()
        next(iter(batches))
        monkeypatch.setattr(os, "open", Mock(side_effect=PermissionError(13, "denied", "folder")))
        with pytest.raises(PermissionError):
            batches.save(path)
        monkeypatch.undo()
        assert before == path.read_bytes()
        assert ["run.state"] == os.listdir(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="files have no such permissions here")
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o400])
@pytest.mark.parametrize("umask", [0o077, 0o022])
def test_a_file_that_is_replaced_hands_on_its_permissions(folder, mode, umask):
    """Whatever the process would give a new one, which has those."""
    before = os.umask(umask)
    try:
        write(STATE, "run.state")
        assert 0o666 & ~umask == stat.S_IMODE(os.stat("run.state").st_mode)
        os.chmod("run.state", mode)
        write(OTHER, "run.state")
    finally:
        os.umask(before)
    assert mode == stat.S_IMODE(os.stat("run.state").st_mode)
    assert OTHER == read("run.state")


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="files have no such permissions here")
def test_where_permissions_cannot_be_set_a_state_is_saved_all_the_same(folder, monkeypatch):
    """As on some file systems that have none."""

    def refused(number, mode):
        raise PermissionError(errno.EPERM, "no permissions here")

    write(STATE, "run.state")
    monkeypatch.setattr(os, "fchmod", refused)
    write(OTHER, "run.state")
    assert OTHER == read("run.state")
    assert ["run.state"] == os.listdir()


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
