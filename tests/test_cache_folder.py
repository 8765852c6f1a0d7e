"""What a run has kept in a folder the next one finds, within its bounds, and nowhere else."""

import contextlib
import errno
import logging
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_samples import COUNT, files, filled, numbers, read
from links import make_link
from samples import same, samples

from threadloader.cache import Folder, _shelf
from threadloader.cache._base import MISSING
from threadloader.errors import ConfigError


@given(st.lists(samples, min_size=1, max_size=4))
@settings(max_examples=60)
def test_the_next_run_finds_what_was_kept(tmp_path_factory, kept):
    folder = tmp_path_factory.mktemp("cache")
    for run in range(2):
        cache = Folder(folder, "key", len(kept))
        for index, sample in enumerate(kept):
            assert same(sample, cache.get(index, kept.__getitem__))
        cache.close()
        stats = cache.stats()
        assert (run * len(kept), 0) == (stats.hits, stats.damaged)
        assert sum(path.stat().st_size for path in files(folder)) == stats.bytes


def test_a_run_that_finds_everything_writes_nothing(tmp_path):
    filled(tmp_path)
    before = files(tmp_path)
    assert (COUNT, 0, 0) == numbers(read(tmp_path))
    assert before == files(tmp_path)


def test_two_keys_live_side_by_side(tmp_path, caplog):
    """What is kept for one source or transform is never taken for another's; the log says so."""
    caplog.set_level(logging.INFO, "threadloader")
    filled(tmp_path)
    assert (0, COUNT, 0) == numbers(filled(tmp_path, key="another"))
    assert (0, 1, 0) == numbers(filled(tmp_path, indices=[0], key="a third"))
    assert (COUNT, 0, 0) == numbers(read(tmp_path))
    begun = [record for record in caplog.messages if "begun anew; what" in record]
    assert ["(folders: 1)" in begun[0], "(folders: 2)" in begun[1]] == [True, True]
    assert 2 == len(begun)


def test_another_number_of_samples_is_another_key(tmp_path):
    filled(tmp_path)
    cache = Folder(tmp_path, "key", COUNT + 1)
    assert cache.find(0) is MISSING
    cache.close()


@pytest.mark.parametrize(
    ("limit", "expected"), [(1, 1), (64, 8), (256, 32), (1024, 64), (None, 64)]
)
def test_an_eighth_of_what_the_process_may_have_open_is_held_open(monkeypatch, limit, expected):
    resource = pytest.importorskip("resource")
    soft = resource.RLIM_INFINITY if limit is None else limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert expected == _shelf.most_open(_shelf._MOST_OPEN)


def test_where_the_limit_cannot_be_asked_for_as_many_are_held_open_as_ever(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert 64 == _shelf.most_open(_shelf._MOST_OPEN)


@given(st.integers(0, 1500), st.permutations(range(COUNT)))
@settings(max_examples=60)
def test_the_bound_is_never_passed(tmp_path_factory, max_bytes, order):
    """Over several runs; and the bytes that are told are those of the files."""
    folder = tmp_path_factory.mktemp("cache")
    for _ in range(2):
        stats = filled(folder, order, max_bytes=max_bytes)
        size = sum(path.stat().st_size for path in files(folder))
        assert stats.bytes == size <= max_bytes or 0 == stats.samples
        assert size <= max_bytes


def test_files_that_nobody_can_use_count_for_the_bound(tmp_path):
    """Else each run with a damaged file would fill the folder once more."""
    filled(tmp_path)
    (index,) = files(tmp_path, ".index")
    index.write_bytes(b"?" + index.read_bytes()[1:])
    size = sum(path.stat().st_size for path in files(tmp_path))
    cache = Folder(tmp_path, "key", COUNT)
    cache.close()
    assert (0, size) == (cache.stats().samples, cache.stats().bytes)


def test_a_full_folder_says_so_once(tmp_path, caplog):
    caplog.set_level(logging.INFO, "threadloader")
    filled(tmp_path, max_bytes=400)
    assert 1 == sum("does not fit into max_bytes" in message for message in caplog.messages)


@pytest.mark.parametrize("broken", [False, True], ids=["full", "a write that fails"])
def test_what_is_logged_of_a_write_is_logged_where_the_others_may_write(
    tmp_path, monkeypatch, caplog, broken
):
    """A handler that hangs would hold up all workers, and not one."""
    cache, held = Folder(tmp_path, "key", COUNT, 1 << 20 if broken else 1), []

    def handle(record):
        held.append(cache._writing.locked())
        return False

    def fail(index, record):
        raise OSError(errno.ENOSPC, "no space")

    if broken:
        monkeypatch.setattr(cache, "_write", fail)
    monkeypatch.setattr(logging.getLogger("threadloader"), "filters", [handle])
    caplog.set_level(logging.INFO, "threadloader")
    cache._keep(0, b"something")
    cache.close()
    assert [False] == held


@pytest.mark.parametrize(
    "sample",
    [
        np.zeros(2, "i4,f4"),
        pytest.param(
            np.zeros(1, np.longdouble),
            marks=pytest.mark.skipif(np.longdouble(0).nbytes == 8, reason="it is a double here"),
        ),
        np.zeros(1, np.dtype("f4", metadata={"unit": "m"})),
    ],
    ids=["structured", "long double", "metadata"],
)
def test_what_a_file_cannot_describe_is_counted_and_cannot_be_written_to(tmp_path, sample):
    cache = Folder(tmp_path, "key", 1)
    cache.get(0, lambda index: np.zeros(1, "f4"))  # a dtype that is equal to one with metadata
    cache.close()
    cache = Folder(tmp_path, "other", 1)
    for _ in range(2):
        found = cache.get(0, lambda index: sample)
        assert same(sample, found)
        assert sample.dtype.metadata == found.dtype.metadata
        assert found is sample or not found.flags.writeable
    cache.close()
    assert (0, 2) == (cache.stats().samples, cache.stats().uncacheable)


def test_only_so_many_files_are_held_open(tmp_path, monkeypatch):
    """Of more segments than that, the others are opened to be read."""
    for index in range(COUNT):
        filled(tmp_path, [index])
    monkeypatch.setattr(_shelf, "most_open", lambda most: 2)
    cache = Folder(tmp_path, "key", COUNT)
    opened = [segment for segment in cache._shelf._segments if not segment._file.closed]
    cache.close()
    assert (2, COUNT) == (len(opened), len(cache._shelf._segments))
    assert (COUNT, 0, 0) == numbers(read(tmp_path))


def test_a_sub_folder_that_is_a_link_is_refused(tmp_path):
    """Whoever made the link would say where we write."""
    filled(tmp_path / "one")
    (sub,) = (tmp_path / "one").iterdir()
    (tmp_path / "away").mkdir()
    (tmp_path / "two").mkdir()
    make_link(tmp_path / "two" / sub.name, tmp_path / "away")
    with pytest.raises(ConfigError, match=r"/cache/folder.*is a link"):
        Folder(tmp_path / "two", "key", COUNT)
    assert [] == list((tmp_path / "away").iterdir())


@pytest.mark.parametrize("tag", [0xA0000003, 0x9000001A, 0])
def test_a_sub_folder_that_is_a_junction_of_windows_is_refused(tmp_path, monkeypatch, tag):
    """That of a folder which is kept in a cloud is another tag."""

    def lstat(path):
        return SimpleNamespace(st_mode=stat.S_IFDIR | 0o755, st_reparse_tag=tag)

    monkeypatch.setattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", 0xA0000003, raising=False)
    monkeypatch.setattr(Path, "lstat", lstat)
    refused = pytest.raises(ConfigError, match=r"/cache/folder.*is a link")
    with refused if tag == 0xA0000003 else contextlib.nullcontext():
        Folder(tmp_path, "key", COUNT).close()


@pytest.mark.parametrize("name", ["file", "file/below", "with\0nul"])
def test_a_folder_that_cannot_be_made_is_an_error_of_the_config(tmp_path, name):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="/cache/folder: expected a folder that can be made"):
        Folder(tmp_path / name, "key", COUNT)


def test_the_error_names_what_stands_in_the_place_of_a_folder(tmp_path):
    filled(tmp_path)
    (sub,) = tmp_path.iterdir()
    for file in files(sub):
        file.unlink()
    sub.rmdir()
    sub.write_bytes(b"")
    with pytest.raises(ConfigError) as told:
        Folder(tmp_path, "key", COUNT)
    assert f"got {sub}: a file, or a link that leads nowhere" in str(told.value)


def test_nothing_is_written_outside_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled(Path("kept"))
    assert ["kept"] == [path.name for path in tmp_path.iterdir()]
    (sub,) = (tmp_path / "kept").iterdir()
    assert [".data", ".index"] == sorted(path.suffix for path in sub.iterdir())


@pytest.mark.parametrize("power", [57, 59, 62])
def test_more_samples_than_memory_has_places_for_are_an_error_of_the_config(tmp_path, power):
    """More than the address space has, than a number can say, and than that."""
    expected = rf"/cache/folder: expected {2 ** (power - 26):,}\.0 GiB of memory, 16 bytes for each"
    with pytest.raises(ConfigError, match=expected):
        Folder(tmp_path / "kept", "key", 2**power)
    assert not (tmp_path / "kept").exists()
