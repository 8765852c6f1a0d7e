"""Links are found like files, give no data twice, and fail only where they are meant."""

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from links import make_link
from trees import found, refused, tree

from threadloader.errors import SourceError
from threadloader.sources import _paths, open_source
from threadloader.sources._paths import expand

__all__ = ["tree"]  # the fixture


def test_a_file_that_comes_by_a_linked_folder_too_is_refused(tree):
    make_link(tree / "other", tree / "sub")
    error, first = refused(tree, "*/a.npy", None), tree / "other" / "a.npy"
    assert f"each file once, got it by '*/a.npy', as {first}, and by '*/a.npy'" in error.message
    assert str(tree / "sub" / "a.npy") == error.path


@pytest.mark.parametrize(
    "path",
    ["a?.npy", ["a2.npy", "a3.npy"], ["a3.npy", "[a]2.npy"], ["a[3].npy", "sub/../a2.npy"]],
)
@pytest.mark.parametrize("target", ["a2.npy", "sub/../a2.npy", "on/way.npy"])
def test_a_file_that_comes_by_a_link_to_it_too_is_refused_where_links_count(tree, path, target):
    (tree / "on").mkdir()
    make_link(tree / "on" / "way.npy", "../a2.npy")
    make_link(tree / "a3.npy", target)
    assert 2 == len(expand(tree, path, None))
    message = refused(tree, path, None, through_links=True).message
    assert message.startswith("expected each file once, got it by ")
    assert message.endswith("patterns that neither overlap nor find a link to it")


def test_links_to_files_that_do_not_come_themselves_are_found_where_links_count(tree):
    make_link(tree / "a3.npy", "sub/a.npy")
    make_link(tree / "a4.npy", "gone.npy")
    files = ["a2.npy", "a3.npy", "a4.npy"]
    assert files == [file.name for file in expand(tree, "a?.npy", None, through_links=True)]
    assert files == [file.name for file in expand(tree, files, None, through_links=True)]


@pytest.mark.skipif(os.name == "nt", reason="there it also says how a name is spelt")
def test_only_links_are_followed_where_links_count(tree, monkeypatch):
    """To follow each of a million files would take longer than the search."""
    followed = []
    real = os.path.realpath

    def follow(path):
        followed.append(path)
        return real(path)

    monkeypatch.setattr(_paths.os.path, "realpath", follow)
    expand(tree, ["a*.npy", "B.npy"], None, through_links=True)
    assert [tree] == followed


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "text"},
        {"type": "jsonl"},
        {"type": "csv", "header": False},
        {"type": "tokens", "dtype": "uint8", "window": 1},
    ],
    ids=lambda spec: spec["type"],
)
def test_a_link_beside_its_file_does_not_give_the_data_twice(tmp_path, spec):
    (tmp_path / "a.bin").write_bytes(b"1\n2\n")
    make_link(tmp_path / "latest.bin", "a.bin")
    with pytest.raises(SourceError, match=r"latest\.bin: expected each file once"):
        open_source({**spec, "path": "*.bin"}, tmp_path)


def test_every_file_is_found_once_in_a_tree_of_links_that_lead_round(tree):
    make_link(tree / "sub" / "round", tree)
    assert ["sub/a.npy", "sub/deep/a.npy"] == found(tree, "sub/**/a.npy")


def test_a_link_that_leads_nowhere_is_found_and_not_passed_over(tree):
    make_link(tree / "a3.npy", tree / "gone.npy")
    assert ["a2.npy", "a3.npy"] == found(tree, "a?.npy")


@pytest.mark.parametrize("target", ["odd.txt", "a.npy/x"], ids=["to itself", "through a file"])
def test_a_link_to_nowhere_is_no_fault_of_its_folder_and_fails_by_its_name(tree, target):
    make_link(tree / "odd.txt", target)
    assert ["a2.npy"] == found(tree, "a?.npy")
    assert ["sub/a.npy", "sub-1/a.npy"] == found(tree, "*/a.npy")
    assert ["b.txt", "odd.txt"] == found(tree, "*.txt", tree)
    with pytest.raises(SourceError) as caught:
        open_source({"type": "text", "path": "*.txt"}, tree)
    assert str(tree / "odd.txt") == caught.value.path


class Locked:
    """What a listing has of a link into a folder that others have locked."""

    name = "locked"
    link = True

    def is_dir(self):
        raise PermissionError(13, "Permission denied")

    def is_symlink(self):
        return self.link


def test_a_link_into_a_locked_folder_fails_where_it_is_meant_and_only_there(tree, monkeypatch):
    """It may be a file or a folder: neither is passed over."""
    real = os.scandir

    def scandir(path):
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        with real(path) as entries:
            return contextlib.nullcontext([*entries, *([Locked()] if Path(path) == tree else [])])

    monkeypatch.setattr(_paths.os, "scandir", scandir)
    assert ["a2.npy"] == found(tree, "a?.npy")
    assert ["b.txt", "locked"] == found(tree, "[bl]*")
    assert str(tree / "locked") == refused(tree, "*/a.npy", None).path
    monkeypatch.setattr(Locked, "link", False)  # that is no link, then: what is in it is unknown
    assert str(tree) == refused(tree, "a?.npy", None).path


@pytest.mark.parametrize("tag", [None, 0xA0000003, 0xA000000C], ids=["none", "junction", "link"])
def test_a_junction_is_told_by_its_tag_where_python_does_not_tell_it(monkeypatch, tag):
    """As in Python 3.11 on Windows, where a link to a folder mostly is one."""

    class Entry:
        def stat(self, *, follow_symlinks):
            assert not follow_symlinks
            return SimpleNamespace(**({} if tag is None else {"st_reparse_tag": tag}))

    monkeypatch.setattr(_paths.stat, "IO_REPARSE_TAG_MOUNT_POINT", 0xA0000003, raising=False)
    assert (tag == 0xA0000003) == _paths._is_junction(Entry())
