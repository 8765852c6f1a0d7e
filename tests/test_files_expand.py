"""Names and patterns become files: which, in what order, and each of them once."""

import errno
import fnmatch
import logging
import os
import random
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from trees import found, plant, refused, tree

from threadloader.errors import ConfigError
from threadloader.sources import _open_file, _paths, _progress
from threadloader.sources._paths import expand

__all__ = ["tree"]  # the fixture


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("a.npy", ["a.npy"]),
        ("*.npy", ["B.npy", "a.npy", "a10.npy", "a2.npy", "é.npy"]),
        ("a?.npy", ["a2.npy"]),
        ("[!a]*.npy", ["B.npy", "é.npy"]),
        ("[a-b].*", ["a.npy", "b.txt"]),
        ("b.*", ["b.txt"]),
        (".*", [".hidden.npy"]),
        ("*/a.npy", ["sub/a.npy", "sub-1/a.npy"]),
        (".[g]it/*", [".git/a.npy"]),
        ("sub/**", ["sub/a.npy", "sub/deep/a.npy", "sub/deep/b.npy"]),
        ("**/a.npy", ["a.npy", "sub/a.npy", "sub/deep/a.npy", "sub-1/a.npy"]),
        ("**/deep/**/*", ["sub/deep/a.npy", "sub/deep/b.npy"]),
        ("**/**/b.npy", ["sub/deep/b.npy"]),
        ("sub/../[b]*", ["sub/../b.txt"]),
        (["sub/*.npy", "b.txt", "*/deep/b*"], ["sub/a.npy", "b.txt", "sub/deep/b.npy"]),
    ],
)
def test_names_and_patterns_find_these_files_in_this_order(tree, path, files):
    assert files == found(tree, path)


def test_a_name_is_kept_where_it_stands_even_if_there_is_no_such_file(tree):
    assert ["z.npy", "a.npy", "B.npy"] == found(tree, ["z.npy", "a.npy", "[B]*"])


def test_an_absolute_pattern_has_no_need_of_the_base(tree, tmp_path):
    assert [tree / "a2.npy"] == expand(tmp_path / "elsewhere", str(tree / "a?.npy"), None)


def test_a_bracket_in_brackets_is_a_bracket(tmp_path):
    plant(tmp_path, ["scan[1].npy", "scan1.npy"])
    assert ["scan[1].npy"] == found(tmp_path, "scan[[]1].npy")


@pytest.mark.parametrize("others", [["scan1/x1.npy"], []])
@pytest.mark.parametrize(
    ("path", "there", "means"),
    [
        ("scan1/x[1].npy", "scan1/x[1].npy", "scan1/x[[]1].npy"),
        ("scan[1]/x1.npy", "scan[1]/x1.npy", "scan[[]1]"),
        ("scan[1]/*.npy", "scan[1]/y.npy", "scan[[]1]"),
    ],
)
def test_a_name_that_brackets_make_the_pattern_of_another_is_refused(
    tmp_path, others, path, there, means
):
    """Whether that finds another file, which is not the one that was meant, or none."""
    plant(tmp_path, [there, *others])
    error = refused(tmp_path, path, None)
    assert "expected a pattern, got the very name of a file or folder" in error.message
    assert error.message.endswith(f"to mean it, write {means!r}")


@pytest.mark.parametrize("path", ["*.npy", "?.npy", "[[]*.npy", "[*.npy"])
def test_a_pattern_that_finds_the_file_of_its_own_name_is_one(tmp_path, path):
    try:
        plant(tmp_path, [path, "a.npy"])
    except OSError:
        pytest.skip("this system has no such names")
    assert path in found(tmp_path, path)


@pytest.mark.parametrize("path", ["*.csv", "**/no/*", "A.[n]py", "su[b]"])
def test_a_pattern_that_finds_nothing_is_refused(tree, path):
    error = refused(tree, path, None)
    assert str(tree / path) == error.path
    assert "expected a file that matches this pattern, found none" in error.message


@pytest.mark.parametrize("path", ["a{0..9}.*", "no{a,b}/*.npy"])
def test_who_writes_braces_is_told_that_they_stand_for_themselves(tree, path):
    """Other programs take them for a list of names."""
    hint = 'braces stand for themselves: write "*" for what differs, or a list of names'
    assert refused(tree, path, None).message.endswith(hint)
    assert not refused(tree, "no*", None).message.endswith(hint)


@pytest.mark.parametrize("path", ["https://example.org/x.npy", "s3://bucket/*.tar"])
def test_who_writes_an_address_is_told_that_none_is_read(tree, path):
    file = [] if "*" in path else expand(tree, path, None)
    error = _open_file.none_there(file) if file else refused(tree, path, None)
    assert error.message.endswith("; no address is read: copy the files to this machine first")
    assert "is read" not in refused(tree, "C:/no*", None).message


@pytest.mark.parametrize("path", ["data\temp.npy", "new\n*", "\bin/x"])
def test_who_writes_one_backslash_in_json_is_told_that_it_takes_two(tree, path):
    """What is printed then looks like what was meant."""
    (file,) = expand(tree, path, None) if "*" not in path else (None,)
    error = _open_file.none_there([file]) if file else refused(tree, path, None)
    assert error.message.endswith("; in JSON a backslash is written twice, or as /")
    error = _open_file.unreadable(tree / path, OSError(errno.EINVAL, "Invalid name"))
    assert error.message.endswith(": Invalid name; in JSON a backslash is written twice, or as /")


@pytest.mark.skipif(os.name == "nt", reason="there it stands between folders")
def test_who_writes_backslashes_between_folders_is_told_what_they_are(tree):
    hint = '; a backslash is part of a name here: write "/" between folders'
    assert refused(tree, "no\\*.npy", None).message.endswith(hint)


@pytest.mark.parametrize("path", ["~/no*", "~me/no/*", "$HOME/no*", "${DATA}*"])
def test_who_writes_what_a_shell_replaces_is_told_that_nobody_does_here(tree, path):
    hint = '"~" and "$" stand for themselves: write the whole path'
    assert refused(tree, path, None).message.endswith(hint)
    assert "stand for themselves" not in refused(tree, "no~*", None).message


@pytest.mark.parametrize(
    ("path", "folder", "got"),
    [
        ("no/*.npy", "no", "found none; a relative path starts at the folder of the"),
        ("a.npy/*", "a.npy", "got a file; name the folder that it is in"),
        ("a.npy/no/**", "a.npy/no", "found none; a relative path starts at the folder of the"),
    ],
)
def test_a_folder_that_is_none_is_no_pattern_without_a_match(tree, path, folder, got):
    error = refused(tree, path, None)
    assert str(tree / path) == error.path
    assert error.message.startswith(f"expected the folder {tree / folder}, {got}")


@pytest.mark.parametrize("path", ["*\0/x", "\0/*"])
def test_a_name_that_no_system_has_is_refused(tree, path):
    refused(tree, path, None)
    if os.name != "nt":  # it follows what cannot be, and says so when the file is opened
        refused(tree, "\0", tree)


def test_two_dots_behind_a_pattern_are_refused(tree):
    assert 'expected ".." before the first of' in refused(tree, "*/../a.npy", None).message


def test_no_name_at_all_is_a_config_error(tree):
    with pytest.raises(ConfigError, match="/source/path: expected at least one file"):
        expand(tree, [], None)


@pytest.mark.parametrize(
    "path",
    [
        ["a.npy", "a.npy"],
        ["a*.npy", "a2.npy"],
        ["*/a.npy", "sub/*"],
        ["a.npy", "sub/../a.npy"],
        ["b.txt", "./b.txt"],
    ],
)
def test_a_file_that_comes_twice_is_refused_and_both_names_are_said(tree, path):
    message = refused(tree, path, None).message
    assert f"expected each file once, got it by {path[0]!r} and by {path[1]!r}" in message


@pytest.mark.parametrize("call", ["scandir", "path.realpath"])
def test_what_a_signal_handler_raises_in_a_search_passes_as_it_is(tree, monkeypatch, call):
    rung = TimeoutError("rung")

    def ring(path):
        raise rung

    with monkeypatch.context() as patch:
        patch.setattr(f"os.{call}", ring)
        with pytest.raises(TimeoutError) as caught:
            expand(tree, "a?.npy", None)
    assert rung is caught.value


def test_a_folder_that_cannot_be_listed_is_an_error(tree, monkeypatch):
    real = os.scandir

    def scandir(path):
        if Path(path).name == "deep":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(_paths.os, "scandir", scandir)
    assert ["sub/a.npy", "sub-1/a.npy"] == found(tree, "*/a.npy")
    error = refused(tree, "**/a.npy", None)
    assert str(tree / "sub" / "deep") == error.path
    assert "expected a folder that can be listed, got: Permission denied" == error.message


def test_a_folder_that_vanishes_while_it_is_searched_is_an_error(tree, monkeypatch):
    """The folder above is listed; the folder is removed; then it is listed."""
    real = os.scandir

    def scandir(path):
        if Path(path).name == "deep":
            raise FileNotFoundError(2, "No such file or directory")
        return real(path)

    monkeypatch.setattr(_paths.os, "scandir", scandir)
    assert "expected a folder, found none any more" == refused(tree, "**/a.npy", None).message


def test_a_long_search_says_how_far_it_is(tree, monkeypatch, caplog):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    with caplog.at_level(logging.INFO, "threadloader"):
        expand(tree, "sub/**/a.npy", None)
    assert [
        f"{tree / 'sub'}: found {n} files in {n} folders so far" for n in (1, 2)
    ] == caplog.messages


@pytest.mark.skipif(os.name != "nt", reason="elsewhere these are other names")
@pytest.mark.parametrize(
    "path", ["A.npy", "a.npy.", "a.npy ", "sub/../a.NPY", "SUB/../a.npy", None]
)
def test_another_spelling_is_the_same_file_on_windows(tree, path):
    path = path or rf"\\?\{tree}\a.npy"
    for pair in (["a.npy", path], [path, "a.npy"], ["a?npy", path], [path, "a?npy"]):
        assert "expected each file once, got it by " in refused(tree, pair, tree).message


@pytest.mark.parametrize("path", ["{}", "{}/*", "**/{}"])
def test_a_pattern_that_is_too_long_for_a_name_is_refused(tree, path):
    """So many brackets take Python minutes, and longer, to read."""
    told = "at most 4,096 characters between two slashes, got one of 4,097"
    assert told in refused(tree, path.format("[" * 4097), None).message


names = st.sampled_from(["a", "b", "ab", "B", ".a", "a.b"])
trees = st.sets(st.lists(names, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8)


patterns = st.lists(
    st.sampled_from(["*", "**", "?", "a*", "[ab]", "[!a]", ".*", "a", "*b"]), min_size=1, max_size=4
).filter(lambda parts: set("".join(parts)) & set("*?["))


def fits(names, parts):
    """Tell whether the names on the way to a file fit the parts of a pattern."""
    if not parts:
        return not names
    if parts[0] == "**":
        if len(parts) == 1:
            return bool(names) and not any(name.startswith(".") for name in names)
        skipped = [not any(name.startswith(".") for name in names[:n]) for n in range(len(names))]
        return any(ok and fits(names[n:], parts[1:]) for n, ok in enumerate(skipped))
    return (
        bool(names)
        and fnmatch.fnmatchcase(names[0], parts[0])
        and (parts[0].startswith(".") or not names[0].startswith("."))
        and fits(names[1:], parts[1:])
    )


@given(trees, patterns, st.randoms(use_true_random=False))
def test_what_is_found_is_what_a_plain_reference_finds(files, parts, dice):
    """The tree is a fake listing; a name below which others lie is a folder, not a file."""
    assume(len(set(map(os.path.normcase, files))) == len(files))  # to Windows they are one
    folders = {parent for each in files for parent in PurePosixPath(each).parents}
    paths = {PurePosixPath(each) for each in files} | folders - {PurePosixPath()}

    def listing(folder, missing_is_empty):
        inside_it = PurePosixPath(folder.relative_to("/base").as_posix())
        entries = [
            (path.name, path in folders, False) for path in paths if path.parent == inside_it
        ]
        dice.shuffle(entries)  # systems list in any order
        return entries

    expected = sorted(
        (path.parts for path in paths - folders if fits(path.parts, parts)),
        key=lambda names: [name.encode() for name in names],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_paths, "listing", listing)
        if expected:
            assert ["/".join(each) for each in expected] == found(Path("/base"), "/".join(parts))
        else:
            refused(Path("/base"), "/".join(parts), None)


def test_the_order_does_not_hang_on_the_order_of_the_listing(tree, monkeypatch):
    expected = found(tree, "**/*.npy")
    real = _paths.listing

    def shuffled(*args, **options):
        entries = real(*args, **options)
        random.Random(len(entries)).shuffle(entries)
        return entries

    monkeypatch.setattr(_paths, "listing", shuffled)
    assert expected == found(tree, "**/*.npy")
