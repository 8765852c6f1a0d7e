"""Which files are samples, in what order, under which names; and what is said of them."""

import json
import logging
import os
from pathlib import Path

import pytest
from folders import opened, paths, refused, write
from hypothesis import given
from hypothesis import strategies as st
from links import make_link
from opened_sources import samples

from threadloader.errors import ConfigError, SourceError
from threadloader.sources import _progress, _spelling
from threadloader.sources._open_file import unreadable
from threadloader.sources._paths import real
from threadloader.sources.files import open_files


def test_a_sample_is_the_data_and_the_relative_path(tmp_path):
    write(tmp_path, {"b/x.bin": b"\0\1", "a.bin": b""})
    assert [
        {"data": b"", "path": "a.bin"},
        {"data": b"\0\1", "path": "b/x.bin"},
    ] == samples(opened(tmp_path))


def test_files_are_sorted_folder_by_folder_by_their_bytes(tmp_path):
    names = ["Z", "a/2", "a/10", "a-b/1", "a", "é", "ż", "y", "😀", "ﬀ"]
    names = [f"{name}/x.txt" if name == "a" else f"{name}.txt" for name in names]
    write(tmp_path, dict.fromkeys(names, b""))
    assert [
        "Z.txt",
        "a/10.txt",
        "a/2.txt",
        "a/x.txt",
        "a-b/1.txt",
        "y.txt",
        "é.txt",
        "ż.txt",
        "ﬀ.txt",
        "😀.txt",
    ] == paths(opened(tmp_path, pattern="**/*.txt"))


@given(
    st.sets(
        st.lists(
            st.sampled_from(["a", "B", "a1", "a10", "a2", "é", "a-", "世"]), min_size=1, max_size=3
        ).map(lambda parts: "/".join([*parts, "f"])),
        min_size=1,
        max_size=8,
    )
)
def test_any_files_come_once_in_the_order_of_their_encoded_parts(tmp_path_factory, names):
    folder = write(tmp_path_factory.mktemp("any"), dict.fromkeys(names, b""))
    expected = sorted(names, key=lambda name: [part.encode() for part in name.split("/")])
    assert expected == paths(opened(folder))


def test_several_patterns_find_a_file_once(tmp_path):
    write(tmp_path, dict.fromkeys(["b.png", "a.jpg", "c.txt"], b""))
    assert ["a.jpg", "b.png"] == paths(opened(tmp_path, pattern=["*.png", "*.jpg", "[ab].*"]))


def test_hidden_files_and_other_letter_cases_are_left_out(tmp_path):
    write(tmp_path, dict.fromkeys([".x.png", ".git/y.png", "a.PNG", "b.png"], b""))
    assert ["b.png"] == paths(opened(tmp_path, pattern="**/*.png"))


@pytest.mark.skipif(os.name != "nt", reason="elsewhere another case is another name")
@pytest.mark.parametrize("pattern", ["CAT/*.x", ["cat/1.x", "CAT/2.X"], "cat/1.X", "cat/1.x."])
def test_a_name_that_the_disk_spells_otherwise_is_refused(tmp_path, pattern):
    """Windows finds it, but the path in the sample and the order would be others than elsewhere."""
    write(tmp_path, dict.fromkeys(["cat/1.x", "cat/2.x"], b""))
    said = r"expected a name as the disk has it, got .*; write '(cat|1\.x)'"
    with pytest.raises(SourceError, match=said):
        opened(tmp_path, pattern=pattern)
    assert ["cat/1.x", "cat/2.x"] == paths(opened(tmp_path, pattern=["cat/1.x", "c*/2.x"]))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("CAT", "write 'cat'"), ("dög. ", "write 'DÖG'"), ("CAT~1", "see how the folder lists it")],
)
def test_a_system_that_takes_any_case_is_asked_how_a_name_is_spelt(
    tmp_path, monkeypatch, name, hint
):
    write(tmp_path, dict.fromkeys(["cat/1", "DÖG/1"], b""))
    monkeypatch.setattr(_spelling, "_ANY_CASE", True)
    with monkeypatch.context() as patch:
        patch.setattr(_spelling, "is_there", lambda path: True)
        with pytest.raises(SourceError) as caught:
            opened(tmp_path, pattern=f"{name}/*")
    assert f"expected a name as the disk has it, got {name!r}; {hint}" == caught.value.message
    assert ["cat/1"] == paths(opened(tmp_path, pattern=["cat/1", "c[a]t/1"]))


def test_no_folder_outside_of_the_root_is_listed_for_the_spelling(tmp_path, monkeypatch):
    write(tmp_path, {"data/in/x": b""})
    (tmp_path / "secret" / "Names").mkdir(parents=True)
    make_link(tmp_path / "data" / "out", tmp_path / "secret")
    monkeypatch.setattr(_spelling, "_ANY_CASE", True)
    monkeypatch.setattr(_spelling, "is_there", lambda path: True)
    with pytest.raises(SourceError, match='inside the folder "root"'):
        _spelling.check_spelling(tmp_path / "data", ["out/NAMES/*"], tmp_path / "data")


def test_letters_and_accents_apart_are_the_same_name(tmp_path, monkeypatch):
    """As a disk of macOS may have them."""
    monkeypatch.setattr(_spelling, "_ANY_CASE", True)
    monkeypatch.setattr(_spelling, "listing", lambda folder, _: [("e\u0301", False, False)])
    monkeypatch.setattr(_spelling, "is_there", lambda path: True)
    _spelling.check_spelling(tmp_path, ["\u00e9", "\u00e9/*"], None)


def test_a_folder_with_special_characters_is_no_pattern(tmp_path):
    name = "a[1]" if os.name == "nt" else "a[1]*"  # a star is in no name there
    (tmp_path / name).mkdir()
    (tmp_path / name / "x").write_bytes(b"1")
    spec = {"type": "files", "folder": name}
    assert ["x"] == paths(open_files(spec, tmp_path))


def test_nothing_found_is_an_error(tmp_path):
    write(tmp_path, {"a.png": b""})
    assert "expected a file that matches this pattern, found none" in refused(
        tmp_path, pattern="*.jpg"
    )
    assert "nowhere/data, found none" in refused(tmp_path / "nowhere").replace("\\", "/")


@pytest.mark.parametrize("label", [None, "folder"])
@pytest.mark.parametrize(
    "pattern", [".png", ["png"], ["a/0.png", "a/1.png"], ["**/*.png", "a/1.png"]]
)
def test_a_pattern_that_is_the_name_of_no_file_is_said_to_be_none(tmp_path, pattern, label):
    """As an ending alone is; it was taken for a file that lies in no folder."""
    error = refused(write(tmp_path, {"a/0.png": b""}), pattern=pattern, label=label)
    assert "expected a file of this name, found none; a pattern without *, ? and [" in error


@pytest.mark.parametrize("label", [None, "folder"])
@pytest.mark.parametrize("pattern", ["0.png", ["a/0.png"], "*.png"])
def test_a_folder_that_is_none_is_told_whatever_the_pattern(tmp_path, pattern, label):
    """Neither the pattern is to blame nor the place of a file in the folder."""
    error = refused(tmp_path, pattern=pattern, label=label)
    assert "expected the folder" in error
    assert "found none; a relative path starts at the folder of the config file" in error
    make_link(tmp_path / "data", "nowhere")
    assert error == refused(tmp_path, pattern=pattern, label=label)
    (tmp_path / "data").unlink()
    (tmp_path / "data").write_bytes(b"")
    error = refused(tmp_path, pattern=pattern, label=label)
    assert "got a file; name the folder that it is in" in error


@pytest.mark.parametrize("label", [None, "folder"])
def test_a_folder_with_a_name_that_no_system_has_is_told(tmp_path, label):
    """And not that the file should lie in one."""
    error = refused(tmp_path / ("x" * 300), pattern="0.png", label=label)
    assert "x/data/0.png: expected a file that can be read, got: " in error.replace("\\", "/")


def test_a_name_that_a_table_does_not_list_may_be_anything(tmp_path):
    write(tmp_path, {"a/0.png": b"0", "t.csv": "file,label\na/0.png,x\n"})
    (tmp_path / "data" / "sub.png").mkdir()
    label = {"csv": "data/t.csv", "file": "file", "label": "label"}
    assert ["a/0.png"] == paths(opened(tmp_path, pattern=["a/0.png", "sub.png"], label=label))


def test_a_pattern_is_not_blamed_for_a_link_in_a_circle(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "loop").symlink_to("loop")
    error = refused(tmp_path, pattern="loop/0.png", label="folder")
    assert "expected a file that can be read, got: " in error


@pytest.mark.parametrize("pattern", ["../*", "a/../../*", "/*"])
def test_a_pattern_stays_below_the_folder(tmp_path, pattern):
    assert "/source/pattern: expected a pattern below the folder" in refused(
        write(tmp_path, {"a/x": b""}), ConfigError, pattern=pattern
    )


def test_links_are_followed_and_only_inside_of_root(tmp_path):
    write(tmp_path, {"a.txt": b"a"})
    (tmp_path / "outside.txt").write_bytes(b"secret")
    make_link(tmp_path / "data" / "in.txt", "a.txt")
    root = tmp_path / "data"
    assert ["a.txt", "in.txt"] == paths(opened(tmp_path, root))
    make_link(tmp_path / "data" / "out.txt", tmp_path / "outside.txt")
    assert ["a.txt", "in.txt", "out.txt"] == paths(opened(tmp_path))
    outside = 'expected a path inside the folder "root"'
    assert outside in refused(tmp_path, root=root)
    assert outside in refused(tmp_path, root=root, pattern=["out.txt"])
    (tmp_path / "data" / "out.txt").unlink()
    make_link(tmp_path / "data" / "up", tmp_path)
    assert outside in refused(tmp_path, root=root, pattern="*/*.txt")
    (tmp_path / "other").mkdir()
    assert outside in refused(tmp_path, root=tmp_path / "other")


def test_a_name_that_the_locale_does_not_have_is_told_with_what_to_do(tmp_path):
    """As under LC_ALL=C without UTF-8 mode."""
    error = UnicodeEncodeError("ascii", "d\xe4.npz", 1, 2, "ordinal not in range(128)")
    told = unreadable(tmp_path / "x", error).message
    assert r"the encoding of the system, ascii, got '\xe4'; set PYTHONUTF8=1, or a UTF-8" in told


def test_within_a_root_such_a_name_is_told_alike(tmp_path, monkeypatch):
    """There every link is followed, before a file is opened."""

    def realpath(path):
        raise UnicodeEncodeError("ascii", "d\xe4.npz", 1, 2, "ordinal not in range(128)")

    monkeypatch.setattr(os.path, "realpath", realpath)
    with pytest.raises(SourceError, match=r"ascii, got .* set PYTHONUTF8=1, or a UTF-8 locale"):
        real(tmp_path)
    with pytest.raises(ConfigError, match=r"ascii, got .* set PYTHONUTF8=1, or a UTF-8 locale"):
        real(tmp_path, "/root")


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname != "Linux", reason="names are Unicode")
@pytest.mark.parametrize(
    "options",
    [
        {"source": {"type": "text", "path": "\N{SNOWMAN}*.txt"}},
        {"source": {"type": "text", "path": "a.txt"}, "root": "\N{SNOWMAN}"},
        {
            "source": {"type": "text", "path": "a.txt"},
            "on_error": {"skip": 1, "quarantine": "\N{SNOWMAN}"},
        },
    ],
)
def test_wherever_a_config_has_such_a_name_it_is_told_alike(tmp_path, run_child, options):
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "c.json").write_text(json.dumps(options))
    done = run_child(
        "import sys\nfrom threadloader.cli import main\nmain(['check', sys.argv[1]])",
        str(tmp_path / "c.json"),
        env={"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"},
    )
    told = (
        "a name in the encoding of the system, ascii, got '\\u2603'; set PYTHONUTF8=1, or a UTF-8"
    )
    assert told in done.stdout, (done.stdout, done.stderr)


def test_a_link_that_leads_nowhere_is_an_error(tmp_path):
    write(tmp_path, {"a.txt": b"a"})
    make_link(tmp_path / "data" / "b.txt", "gone")
    assert f"{tmp_path / 'data' / 'b.txt'}: expected a file, got a link to one" in refused(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused_without_waiting(tmp_path):
    write(tmp_path, {"a": b""})
    os.mkfifo(tmp_path / "data" / "b")
    assert "a pipe, socket or device" in refused(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname != "Linux", reason="names are Unicode")
@pytest.mark.parametrize("below", ["", "one/two/"])
def test_a_name_that_is_not_unicode_is_an_error(tmp_path, below):
    """Its place is told from the folder on."""
    write(tmp_path, {f"{below}a": b""})
    folder = tmp_path / "data" / below
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_bytes(b"")
    assert f"{folder}{os.sep}\\udcff.txt: expected names in Unicode" in refused(tmp_path)
    assert "got one that is not; rename it" in refused(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname != "Linux", reason="names are Unicode")
def test_a_name_that_the_locale_cannot_read_need_not_be_another(tmp_path, run_child):
    """It is good UTF-8, but Python was told that the system's names are ASCII."""
    write(tmp_path, {"\N{SNOWMAN}": b""})
    done = run_child(
        "import sys\n"
        "from threadloader import Loader, LoaderError\n"
        "try:\n"
        "    Loader({'source': {'type': 'files', 'folder': sys.argv[1]}}).__enter__()\n"
        "except LoaderError as error:\n"
        "    print(error)\n",
        str(tmp_path / "data"),
        env={"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"},
    )
    assert "got one that is not; names are read as ascii: set PYTHONUTF8=1" in done.stdout
    assert "" == done.stderr


def test_the_fingerprint_tells_names_sizes_labels_and_options(tmp_path):
    write(tmp_path, {"a/1": b"1", "b/2": b"2"})

    def said(**options):
        source = opened(tmp_path, **options)
        source.close()
        return source.fingerprint()

    first = said()
    assert first.startswith("files, 2 files, decode bytes, 2 bytes, sha256 ")
    variants = [said(label="folder"), said(label="folder", classes=["b", "a"]), said(decode="text")]
    (tmp_path / "data" / "b" / "2").write_bytes(b"3")
    assert first == said()
    (tmp_path / "data" / "b" / "2").write_bytes(b"33")
    variants.append(said())
    (tmp_path / "data" / "b" / "2").rename(tmp_path / "data" / "b" / "3")
    variants.append(said())
    assert 6 == len({first, *variants})


def test_opening_that_takes_long_says_how_far_it_is(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(_progress, "_TELL_SECONDS", -1)
    write(tmp_path, {"a": b"", "b": b""})
    with caplog.at_level(logging.INFO, "threadloader"):
        opened(tmp_path).close()
    assert "looked at 1 of 2 files" in caplog.text


def test_a_file_that_two_patterns_find_by_two_ways_is_refused(tmp_path):
    """By one way it is one sample, however many patterns find it."""
    write(tmp_path, {"real/1": "one"})
    make_link(tmp_path / "data" / "link", "real")
    (sample,) = samples(opened(tmp_path, pattern=["real/*", "r*/1"]))
    assert "real/1" == sample["path"]
    with pytest.raises(SourceError, match="expected each file once"):
        opened(tmp_path, pattern=["real/*", "link/*"])
