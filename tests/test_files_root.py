"""What lies outside of the root is refused, by whatever name or link it is reached."""

import os
import re
from pathlib import Path

import pytest
from links import make_link
from trees import found, plant, refused, tree

from threadloader.errors import ConfigError
from threadloader.sources import _paths
from threadloader.sources._paths import expand, inside

__all__ = ["tree"]  # the fixture


@pytest.mark.parametrize("path", ["a.npy", "*.npy", "sub/**", "sub/../a.npy", "z.npy"])
def test_what_lies_in_the_root_is_found_as_without_one(tree, path):
    assert found(tree, path) == found(tree, path, tree)


@pytest.mark.parametrize("path", ["../x.npy", "../*", "sub/../../tree2/x.npy", "..", "../tree2/x"])
def test_a_path_that_leaves_the_root_is_refused_and_both_are_named(tree, path):
    plant(tree.parent, ["x.npy", "tree2/x.npy"])
    error = refused(tree, path, tree)
    assert (tree / path.removesuffix("/*")) == Path(error.path)
    assert f'inside the folder "root", {os.path.realpath(tree)}, got one outside' in error.message


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ("\\\\?\\C:\\data", "C:\\data"),
        ("\\\\?\\Volume{0}\\data", "\\\\?\\Volume{0}\\data"),
        ("\\\\server\\share", "\\\\server\\share"),
        ("\\\\?\\UNC\\server\\share", "\\\\server\\share"),
    ],
)
def test_what_says_that_a_path_is_to_be_taken_as_it_is_is_no_part_of_it(monkeypatch, there, told):
    monkeypatch.setattr(os.path, "realpath", lambda path: there)
    assert told == _paths.real(Path("data"))


def test_a_root_that_no_system_can_have_is_told_as_the_root(tree):
    # Windows follows it, to nothing.
    expected = "a folder" if os.name == "nt" else "a path that can be followed"
    with pytest.raises(ConfigError, match=f"/root: expected {expected}"):
        expand(tree, "x.npy", tree / "\0")


@pytest.mark.parametrize("root", ["none", "a.npy"])
def test_a_root_that_is_no_folder_is_told_as_the_root(tree, root):
    """And not the path as one outside of it."""
    real = re.escape(os.path.realpath(tree / root))
    with pytest.raises(ConfigError, match=f"/root: expected a folder, got {real}, which is none"):
        expand(tree, "a.npy", tree / root)


@pytest.mark.parametrize("name", ["outside/a.npy", "outside/*", "*/a.npy", "l?nk.npy", "link.npy"])
def test_a_link_that_leaves_the_root_is_refused(tmp_path, name):
    plant(tmp_path, ["real/a.npy", "root/in/b.npy"])
    root = tmp_path / "root"
    make_link(root / "outside", tmp_path / "real")
    make_link(root / "link.npy", tmp_path / "real" / "a.npy")
    real = os.path.realpath(tmp_path / "real")
    assert f"got one outside, which is {real}" in refused(root, name, root).message
    assert 1 == len(expand(root, name, tmp_path))
    assert ["in/b.npy"] == found(root, "**/b.npy", root)


def test_a_folder_outside_of_the_root_is_not_even_listed(tmp_path, monkeypatch):
    plant(tmp_path, ["secret/a.npy", "root/in/a.npy"])
    root = tmp_path / "root"
    make_link(root / "out", tmp_path / "secret")
    listed = []
    real = os.scandir
    monkeypatch.setattr(_paths.os, "scandir", lambda path: listed.append(Path(path)) or real(path))
    refused(root, "*/*.npy", root)
    refused(root, "../secret/*", root)
    assert {root, root / "in"} == set(listed)


def test_the_root_may_itself_be_a_link(tree):
    make_link(tree.parent / "root", tree)
    assert tree / "a.npy" == inside(tree / "a.npy", tree.parent / "root")
    assert ["a2.npy"] == found(tree, "a?.npy", tree.parent / "root")


def test_without_a_root_nothing_is_refused(tree):
    assert tree / ".." / "x" == inside(tree / ".." / "x", None)
