"""The files source: which files, in what order, with which labels; and damage, as an error."""

import csv
import io
import logging
import os
import struct
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from frameworks import framework
from hypothesis import given
from hypothesis import strategies as st
from links import make_link

from threadloader import Loader
from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import _decode, _progress, _spelling, files
from threadloader.sources._open_file import unreadable
from threadloader.sources._paths import real
from threadloader.sources.files import open_files


def opened(folder, root=None, decoders=None, **options):
    return open_files({"type": "files", "folder": "data", **options}, folder, root, decoders)


def write(folder, contents):
    """Write files below data/, by their relative paths."""
    for name, data in contents.items():
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def samples(source):
    with closing(source):
        return [source[i] for i in range(len(source))]


def paths(source):
    return [sample["path"] for sample in samples(source)]


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def refused(folder, kind=SourceError, **options):
    with pytest.raises(kind) as caught:
        samples(opened(folder, **options))
    return str(caught.value)


# Which files, in what order


def test_a_sample_is_the_data_and_the_relative_path(tmp_path):
    write(tmp_path, {"b/x.bin": b"\0\1", "a.bin": b""})
    assert [
        {"data": b"", "path": "a.bin"},
        {"data": b"\0\1", "path": "b/x.bin"},
    ] == samples(opened(tmp_path))


def test_a_file_of_the_year_2300_is_read_until_it_changes(tmp_path):
    """Such a time is, in nanoseconds, more than an int64 holds."""
    file = write(tmp_path, {"a.txt": b"one"}) / "data" / "a.txt"
    for later in (0, 1):
        time = (10_413_792_000 + later) * 10**9
        with suppress(OSError, OverflowError):
            os.utime(file, ns=(0, time))
        if file.stat().st_mtime_ns != time:
            pytest.skip("this system does not keep such times")
        if not later:
            source = opened(tmp_path)
            assert b"one" == source[0]["data"]
    with pytest.raises(SourceError, match="changed since"):
        source[0]


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


def test_an_archive_of_arrays_for_each_sample_is_told_what_to_do(tmp_path):
    """That it is of "type": "npz" would not do: it is one file; and no such decoding is known."""
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", x=np.arange(3))
    assert 'got a zip archive, as numpy.savez does; decode it as "bytes", and give what' in refused(
        tmp_path, decode="npy"
    )


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
    assert "outside" in refused(tmp_path, root=root)
    assert "outside" in refused(tmp_path, root=root, pattern=["out.txt"])
    (tmp_path / "data" / "out.txt").unlink()
    make_link(tmp_path / "data" / "up", tmp_path)
    assert "outside" in refused(tmp_path, root=root, pattern="*/*.txt")
    (tmp_path / "other").mkdir()
    assert "outside" in refused(tmp_path, root=tmp_path / "other")


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


# Labels


TREE = {"dog/1": b"", "cat/2": b"", "cat/deep/er/1": b"", "Ant/1": b"", "é/1": b""}


def labels(source):
    return {sample["path"]: sample["label"] for sample in samples(source)}


def test_the_first_folder_names_the_class(tmp_path):
    source = opened(write(tmp_path, TREE), label="folder")
    assert ("Ant", "cat", "dog", "é") == source.classes
    assert {"Ant/1": 0, "cat/2": 1, "cat/deep/er/1": 1, "dog/1": 2, "é/1": 3} == labels(source)


def test_classes_can_be_listed_in_another_order(tmp_path):
    write(tmp_path, TREE)
    source = opened(tmp_path, label="folder", classes=["é", "dog", "emu", "cat", "Ant"])
    assert {"Ant/1": 4, "cat/2": 3, "cat/deep/er/1": 3, "dog/1": 1, "é/1": 0} == labels(source)
    assert "got 'dog'; did you mean 'dogs'?" in refused(
        tmp_path, label="folder", classes=["é", "dogs", "cat", "Ant"]
    )
    assert "each class once" in refused(
        tmp_path, ConfigError, label="folder", classes=[*sorted({"Ant", "cat", "dog", "é"}), "cat"]
    )


def test_a_file_without_a_folder_has_no_class(tmp_path):
    write(tmp_path, {**TREE, "stray": b""})
    assert "stray: expected a folder that names its class" in refused(tmp_path, label="folder")
    assert 5 == len(samples(opened(tmp_path, pattern="*/**/*", label="folder")))


@pytest.mark.parametrize("label", [None, {"csv": "l.csv", "file": "f", "label": "y", "as": "int"}])
def test_classes_without_a_label_that_is_a_class_are_a_config_error(tmp_path, label):
    assert "/source/classes: expected null" in refused(
        write(tmp_path, {"a": b""}), ConfigError, label=label, classes=["x"]
    )


def by_table(folder, text, **options):
    (folder / "labels.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    table = {"csv": "labels.csv", "file": "file", "label": "y", **options}
    return {"label": table}


def test_a_table_gives_labels_and_says_which_files_are_samples(tmp_path, caplog):
    write(tmp_path, {"b/1": b"", "a": b"", "c": b"", "not listed": b""})
    text = '\ufeffy,note,file\r\nwolf,,c\r\n"a, b","two\nlines",./b/1\n\nwolf,,a\n'
    with caplog.at_level(logging.INFO, "threadloader"):
        source = opened(tmp_path, **by_table(tmp_path, text))
    assert ("a, b", "wolf") == source.classes
    assert {"a": 1, "b/1": 0, "c": 1} == labels(source)
    assert "1 of 4 files have no row: left out" in caplog.text


def test_a_table_gives_numbers_where_it_is_asked_to(tmp_path):
    write(tmp_path, {"a": b"", "b": b""})
    text = f"file,y\na, {'0' * 5000}7 \nb,-9223372036854775808\n"
    source = opened(tmp_path, **by_table(tmp_path, text, **{"as": "int"}))
    assert () == source.classes
    assert {"a": 7, "b": -(2**63)} == labels(source)
    text = "file,y\na,1e-3\nb,-.5\n"
    found = labels(opened(tmp_path, **by_table(tmp_path, text, **{"as": "float"})))
    assert {"a": 0.001, "b": -0.5} == found


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("int", value) for value in ("1.0", "1_0", "9223372036854775808", "x", "٣", "0x1")),
        *(("float", value) for value in ("nan", "inf", "1e999", "1_0.0", "x", "1,5")),
    ],
)
def test_a_label_that_is_no_such_number_names_its_line(tmp_path, kind, value):
    write(tmp_path, {"a": b"", "b": b""})
    options = by_table(tmp_path, f'file,y\nb,1\na,"{value}"\n', **{"as": kind})
    assert f"labels.csv: line 3: expected {'an integer' if kind == 'int' else 'a finite'}" in (
        refused(tmp_path, **options)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: expected one column 'file', got none"),
        (
            "files,y\n",
            "line 1: expected one column 'file', got 'files', 'y'; did you mean 'files'?",
        ),
        ("file;y\n", "got 'file;y'; separate the columns by commas, and not by ';'"),
        ("file,y,y\n", "line 1: expected one column 'y', got 'file', 'y', 'y'"),
        ("file,y\n", "labels.csv: expected a row for each file, got none; write a line"),
        ("file,y\na\n", "line 2: expected 2 fields, got 1; correct the line"),
        ("file,y\na,1,2\n", "line 2: expected 2 fields, got 3"),
        ("file,y\na,\n", "line 2: expected a value, got an empty 'y'; correct the line"),
        ("file,y\n,1\n", "line 2: expected a value, got an empty 'file'"),
        ("file,y\na,1\n./a,1\n", "line 3: expected one row for each file, got another for 'a'"),
        ("file,y\na,1\nA,1\n", "line 3: expected a file that the pattern finds, got 'A'; paths"),
        ('file,y\n\na,"1\n2"\n"A\n",1\n', "line 5: expected a file that the pattern finds"),
        ("file,y\nb,1\n", "file that the pattern finds, got 'b'; did you mean 'b.npy'?"),
        ('file,y\na,"1\n', "line 2: expected csv, got: unexpected end of data; close the"),
        (
            b"file,y\na,\xff\n",
            "line 2: expected UTF-8, got the byte 0xff (invalid start byte); con",
        ),
        (b"\x1f\x8b", "line 1: expected text in UTF-8, got a file compressed by gzip; unpack"),
    ],
)
def test_a_table_that_does_not_fit_names_its_line(tmp_path, text, said):
    write(tmp_path, {"a": b"", "b.npy": b""})
    assert said in refused(tmp_path, **by_table(tmp_path, text))


def test_a_field_of_a_table_that_is_too_long_is_told_with_what_to_do(tmp_path):
    """Whatever its column: the csv reader takes none of more characters."""
    write(tmp_path, {"a": b"", "b": b""})
    most = csv.field_size_limit()
    long = f"file,y,says\na,1,{'x' * most}\nb,1,{'x' * (most + 1)}\n"
    said = refused(tmp_path, **by_table(tmp_path, long))
    expected = f"line 3: expected fields of at most {most:,} characters, got a longer one; leave"
    assert expected in said


def test_a_byte_of_a_table_that_is_not_utf_8_names_its_line(tmp_path):
    """However far ahead of the rows the bytes are read."""
    write(tmp_path, {"a": b""})
    rows = [b"file,y", *(b"%d,1" % number for number in range(2, 2001)), b"x,\xff", b"z,1"]
    said = refused(tmp_path, **by_table(tmp_path, b"\n".join(rows)))
    assert "labels.csv: line 2001: expected UTF-8, got the byte 0xff" in said


def test_a_table_may_not_lie_outside_of_root(tmp_path):
    write(tmp_path, {"a": b""})
    options = by_table(tmp_path, "file,y\na,1\n")
    assert "labels.csv: expected a path inside" in refused(
        tmp_path, root=tmp_path / "data", **options
    )


# Decoding


ARRAYS = [
    np.arange(6, dtype=">i2").reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(["a", "ü"]),
    np.zeros((2, 0)),
    np.zeros((3, 2), "V0"),
    np.zeros(2, [("a", "<i4"), ("b", "f2", (2,))]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_arrive_as_saved_in_memory_of_their_own(tmp_path, array):
    write(tmp_path, {"a.npy": npy(array)})
    (sample,) = samples(opened(tmp_path, decode="npy"))
    found = sample["data"]
    assert (array.dtype, array.shape, array.tobytes()) == (
        found.dtype,
        found.shape,
        found.tobytes(),
    )
    assert found.flags.writeable
    assert found.flags.c_contiguous


def test_an_array_cut_anywhere_is_an_error_that_names_the_file(tmp_path):
    whole = npy(np.arange(4, dtype=np.int64))
    write(tmp_path, {"a.npy": b""})
    for length in range(len(whole)):
        (tmp_path / "data" / "a.npy").write_bytes(whole[:length])
        assert f"{tmp_path / 'data' / 'a.npy'}: expected " in refused(tmp_path, decode="npy")
    (tmp_path / "data" / "a.npy").write_bytes(whole + b"\0")
    assert "expected 32 bytes for shape (4,) of int64, got 33" in refused(tmp_path, decode="npy")


def test_a_changed_byte_of_an_array_is_an_error_or_another_array_of_its_size():
    decode, _ = _decode.decoder_of("npy", None, None)
    whole = npy(np.arange(4, dtype=np.int64))
    for at in range(len(whole)):
        for flip in (1, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[at] ^= flip
            with suppress(SourceError):
                assert 32 == decode(bytes(changed)).nbytes


def test_pickled_objects_are_refused(tmp_path):
    data = npy(np.array([{}, 1], object), allow_pickle=True)
    assert "never unpickled" in refused(write(tmp_path, {"a": data}), decode="npy")


def test_text_is_utf_8_without_its_mark(tmp_path):
    write(tmp_path, {"a": b"\xef\xbb\xbfh\xc3\xa9\r\n", "b": b""})
    assert ["hé\r\n", ""] == [each["data"] for each in samples(opened(tmp_path, decode="text"))]
    for data in (b"ab\xff", b"\xef\xbb\xbf\xff"):
        write(tmp_path, {"b": data})
        at = data.index(b"\xff")
        assert f"{tmp_path / 'data' / 'b'}: expected UTF-8, got the byte 0xff at {at}" in refused(
            tmp_path, decode="text"
        )


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("json", b'{"a": [1, 2.5, null, "\xc3\xa9"]}', {"a": [1, 2.5, None, "é"]}),
        ("json", b"\xef\xbb\xbf 3 ", 3),
        ("int", b" -12\n", -12),
        ("int", b"\xef\xbb\xbf7\n", 7),
        ("int", b"+9223372036854775807", 2**63 - 1),
    ],
)
def test_json_and_integers_are_decoded(kind, data, value):
    assert value == _decode.decoder_of(kind, None, None)[0](data)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("json", b"", "expected strict JSON, got: Expecting value"),
        ("json", b"{} {}", "expected strict JSON, got: Extra data"),
        ("json", b'{"a": 1, "a": 2}', "the key 'a' twice"),
        ("json", b"[NaN]", "NaN, which JSON does not have"),
        ("json", b"1e999", "1e999, too large for a float"),
        ("json", b"\xff", "expected UTF-8"),
        ("json", b"[" * 100_000, "expected "),
        ("int", b"", "expected an integer that int64 holds, got ''; correct it, or decode"),
        ("int", b"1.0", "expected an integer"),
        ("int", b"1_0", "expected an integer"),
        ("int", b"9223372036854775808", "expected an integer"),
        ("int", "٣".encode(), "expected an integer that int64 holds, got '٣'"),
    ],
)
def test_what_cannot_be_decoded_names_file_and_place(kind, data, said):
    decoder, _ = _decode.decoder_of(kind, None, None)
    with pytest.raises(SourceError) as caught:
        _decode.apply(decoder, data, "shard.tar", "member 'x'")
    assert str(caught.value).startswith("shard.tar: member 'x': ")
    assert said in str(caught.value)


def test_an_unknown_decoder_is_a_config_error(tmp_path):
    """That of images is none here: it needs another package, so the loader hands it in."""
    write(tmp_path, {"a": b""})
    said = refused(tmp_path, ConfigError, decode="image")
    assert '/source/decode: expected one of "bytes", "text", "npy", "json", "int", got' in said
    assert said.endswith("image_decoder}), which threadloader.adapters.pillow has")


def test_decoding_a_text_runs_no_python_of_a_codec(tmp_path):
    """CPython 3.11 puts an error of its own in the place of what a signal handler raises there."""
    write(tmp_path, {"a": b"\xef\xbb\xbfmarked"})
    ran = []

    def noted(frame, event, arg):
        ran.append(frame.f_globals.get("__name__", ""))

    source = opened(tmp_path, decode="text")
    sys.settrace(noted)
    try:
        sample = source[0]
    finally:
        sys.settrace(None)
    assert "marked" == sample["data"]
    assert [] == [name for name in ran if name.startswith("encodings")]


def test_the_maker_of_a_decoder_is_called_once_at_opening_with_its_options(tmp_path):
    write(tmp_path, {"a": b"12", "b": b"3"})
    calls = []

    def make(**options):
        calls.append((options, threading.current_thread()))
        return len

    source = opened(
        tmp_path, decode="image", decoders={"image": make}, image_mode="L", max_pixels=9
    )
    assert [({"mode": "L", "max_pixels": 9}, threading.current_thread())] == calls
    assert "decode image (L)" in source.fingerprint()
    assert [2, 1] == [sample["data"] for sample in samples(source)]
    assert 1 == len(calls)


# Files that change, threads


def test_a_file_deleted_replaced_or_changed_meanwhile_is_an_error_that_names_it(tmp_path):
    write(tmp_path, {"a": b"12", "b": b"34", "c": b"56", "d": b"78"})
    source = opened(tmp_path)
    folder = tmp_path / "data"
    (folder / "a").unlink()
    (folder / "b").write_bytes(b"345")
    os.utime(folder / "c", ns=(1, 1))
    gone, grown, other = (pytest.raises(SourceError) for _ in range(3))
    with gone as caught:
        source[0]
    assert f"{folder / 'a'}: expected the file that was there when the source was opened" in str(
        caught.value
    )
    with grown as caught:
        source[1]
    assert f"{folder / 'b'}: expected the file as it was when the source was opened, 2 " in str(
        caught.value
    )
    with other as caught:
        source[2]
    assert "got 2 bytes, changed since" in str(caught.value)
    assert b"78" == source[3]["data"]
    source.close()


def test_many_threads_read_at_once_what_one_reads(tmp_path):
    write(tmp_path, {f"{i}.npy": npy(np.full(100, i)) for i in range(20)})
    source = opened(tmp_path, decode="npy")
    expected = [int(Path(source.locate(i)).stem) for i in range(20)]
    together = threading.Barrier(16)

    def read(start):
        together.wait(10)
        return [set(source[(start + i) % 20]["data"].tolist()) for i in range(40)]

    with ThreadPoolExecutor(16) as pool:
        for start, found in enumerate(pool.map(read, range(16))):
            assert [{expected[(start + i) % 20]} for i in range(40)] == found
    source.close()


def test_indices_end_at_the_length_and_a_closed_source_reads_no_more(tmp_path):
    source = opened(write(tmp_path, {"a": b"1"}))
    for index in (-1, 1):
        with pytest.raises(IndexError):
            source[index]
    source.close()
    source.close()
    with pytest.raises(ClosedError):
        source[0]
    assert str(tmp_path / "data" / "a") == source.locate(0)


def test_the_process_may_go_to_another_folder(tmp_path, monkeypatch):
    write(tmp_path, {"a": b"1"})
    monkeypatch.chdir(tmp_path)
    source = open_files({"type": "files", "folder": "data"}, Path())
    monkeypatch.chdir("/")
    assert b"1" == source[0]["data"]


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


# Images, by Pillow


def test_a_missing_pillow_is_an_error_that_names_the_command(monkeypatch):
    import sys

    from threadloader.adapters.pillow import image_decoder

    monkeypatch.setitem(sys.modules, "PIL", None)  # what importing it then raises is ImportError
    with pytest.raises(SourceError) as caught:
        image_decoder()
    assert 'expected Pillow, which "decode": "image" needs' in str(caught.value)
    assert "install it with: python3 -m pip install pillow" in str(caught.value)
    assert caught.value.option == "/decode"


@pytest.mark.parametrize("version", ["9.5.0", "9.5.0.post2", "10.3.0"])
def test_an_older_pillow_is_refused(version, monkeypatch):
    """Some files have other pixels there."""
    from threadloader.adapters.pillow import image_decoder

    monkeypatch.setitem(sys.modules, "PIL", SimpleNamespace(__version__=version, Image=None))
    with pytest.raises(SourceError, match=f"expected Pillow 10.4 or newer, .* got {version}; "):
        image_decoder()


@pytest.mark.parametrize("version", ["10.4.0", "10.10.0", "11.0.0.dev0", "13.0.0"])
def test_a_newer_pillow_is_taken(version, monkeypatch):
    from threadloader.adapters import pillow

    fake = SimpleNamespace(__version__=version, Image=SimpleNamespace(OPEN={}))
    monkeypatch.setitem(sys.modules, "PIL", fake)
    monkeypatch.setattr(pillow.importlib, "import_module", lambda name: None)
    assert callable(pillow.image_decoder())


@pytest.fixture
def pillow():
    framework("PIL")
    from PIL import Image

    from threadloader.adapters.pillow import image_decoder

    return Image, {"image": image_decoder}


PIXELS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)


def encoded(module, kind="PNG", pixels=PIXELS, mode=None):
    file = io.BytesIO()
    image = module.fromarray(pixels)
    (image.convert(mode) if mode else image).save(file, kind)
    return file.getvalue()


def test_images_become_arrays_of_height_width_and_channels(tmp_path, pillow):
    module, decoders = pillow
    for kind in ("BMP", "PNG", "PPM", "TIFF"):
        write(tmp_path, {f"a.{kind}": encoded(module, kind)})
    for sample in samples(opened(tmp_path, decode="image", decoders=decoders)):
        assert (PIXELS.dtype, PIXELS.tolist()) == (sample["data"].dtype, sample["data"].tolist())
        assert sample["data"].flags.writeable


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "WEBP"])
def test_images_that_lose_something_keep_their_shape(pillow, kind):
    module, decoders = pillow
    assert PIXELS.shape == decoders["image"]()(encoded(module, kind)).shape


@pytest.mark.parametrize(
    ("stored", "mode", "shape"),
    [
        ("1", "RGB", (6, 9, 3)),
        ("P", "RGB", (6, 9, 3)),
        ("LA", "L", (6, 9)),
        ("RGBA", "RGB", (6, 9, 3)),
        ("L", "RGBA", (6, 9, 4)),
        ("P", "keep", (6, 9)),
        ("RGBA", "keep", (6, 9, 4)),
        ("1", "keep", (6, 9)),
    ],
)
def test_the_mode_of_images(pillow, stored, mode, shape):
    module, decoders = pillow
    found = decoders["image"](mode=mode)(encoded(module, mode=stored))
    assert (shape, "bool" if (stored, mode) == ("1", "keep") else "uint8") == (
        found.shape,
        found.dtype,
    )


def test_16_bits_are_kept_and_never_cut_to_8(pillow):
    module, decoders = pillow
    data = encoded(module, pixels=np.arange(54, dtype=np.uint16).reshape(6, 9) * 1000)
    kept = decoders["image"](mode="keep")(data)
    assert 53_000 == int(kept.max())
    with pytest.raises(SourceError, match='read it with "image_mode": "keep"'):
        decoders["image"](mode="RGB")(data)


def wide_png(colour, channels, bits=16):
    """Makes a PNG of one pixel, each of its values of 16 bits, or of so many."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, bits, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0" + b"\x12\x34"[: bits // 8 or 1] * channels)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def wide_tiff(planes):
    """Makes a TIFF of one pixel, its three values of 16 bits in one plane, or in three."""
    # Behind a head of 8 bytes: bits of the values, places and sizes of three planes, the values.
    body = struct.pack("<9H", 16, 16, 16, 26, 28, 30, 2, 2, 2) + b"\x12\x34" * 3
    place, size, layout = ((1, 26), (1, 6), 1) if planes == 1 else ((3, 14), (3, 20), 2)
    tags = [
        (256, 1, 1), (257, 1, 1), (258, 3, 8), (259, 1, 1), (262, 1, 2), (273, *place),
        (277, 1, 3), (278, 1, 1), (279, *size), (284, 1, layout),
    ]  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 3, *value) for tag, *value in tags)
    return b"II*\0" + struct.pack("<I", 32) + body + struct.pack("<H", 10) + entries + bytes(4)


WIDE = {
    "PNG RGB": wide_png(2, 3),
    "PNG grey and alpha": wide_png(4, 2),
    "PNG RGBA": wide_png(6, 4),
    "TIFF": wide_tiff(1),
    "TIFF in planes": wide_tiff(3),
    "PPM": b"P6 1 1 65535\n" + b"\x12\x34" * 3,
    "PPM of 9 bits": b"P6 1 1 256\n" + b"\0\x12" * 3,
    "PPM in digits": b"P3 1 1 1023\n1 2 1023\n",
}


@pytest.mark.parametrize("mode", ["RGB", "keep"])
@pytest.mark.parametrize("name", WIDE)
def test_colours_of_more_than_8_bits_are_refused_and_never_cut(pillow, name, mode):
    _, decoders = pillow
    said = "got several channels of more bits, which Pillow cannot hold; convert it to npy, or to 8"
    with pytest.raises(SourceError, match=said):
        decoders["image"](mode=mode)(WIDE[name])


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (b"P6 1 1 255\n\x01\x02\xff", [[[1, 2, 255]]]),
        (b"P3 1 1 255\n1 2 255\n", [[[1, 2, 255]]]),
        (b"P5 1 1 65535\n\x12\x34", [[0x1234]]),
        (wide_png(0, 1), [[0x1234]]),
    ],
)
def test_colours_of_8_bits_and_all_greys_are_kept(pillow, data, pixels):
    _, decoders = pillow
    assert pixels == decoders["image"](mode="keep")(data).tolist()


def grey_tiff(values, signed=False, black=0):
    """Makes a TIFF of one row of grey, in the byte order that the values have."""
    order = ">" if values.dtype.str[0] == ">" else "<"
    head = b"MM\0*" if order == ">" else b"II*\0"
    tags = [
        (256, 4, values.size), (257, 4, 1), (258, 3, values.itemsize * 8), (259, 3, 1),
        (262, 3, int(black == 0)), (273, 4, 200), (277, 3, 1), (278, 4, 1), (279, 4, values.nbytes),
        (339, 3, 1 + signed),
    ]  # fmt: skip
    entries = b"".join(
        struct.pack(f"{order}HHI", tag, kind, 1)
        + (struct.pack(f"{order}I", value) if kind == 4 else struct.pack(f"{order}HH", value, 0))
        for tag, kind, value in tags
    )
    head += struct.pack(f"{order}IH", 8, len(tags)) + entries
    return head.ljust(200, b"\0") + values.tobytes()


def tiff(values, tags):
    """Makes a TIFF of 8 bits a value, with these tags besides; its values are at 200."""
    tags = {256: len(values), 257: 1, 258: 8, 259: 1, 262: 1, 277: 1} | tags
    if 324 not in tags:  # strips in the place of tiles
        tags = {273: 200, 278: 1, 279: len(values)} | tags
    entries = b"".join(
        struct.pack("<HHII", tag, 3, *(value if isinstance(value, tuple) else (1, value)))
        for tag, value in sorted(tags.items())
    )
    return (b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries).ljust(200, b"\0") + values


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiff_that_is_to_be_turned_stays_as_it_lies(pillow, orientation, compression):
    """As other formats do; Pillow turns it when it is loaded."""
    module, decoders = pillow
    file = io.BytesIO()
    tags = {274: orientation}
    module.fromarray(PIXELS).save(file, "TIFF", tiffinfo=tags, compression=compression)
    assert PIXELS.tolist() == decoders["image"]()(file.getvalue()).tolist()


def test_a_tiff_that_is_to_be_turned_by_its_xmp_stays_as_it_lies(pillow):
    module, decoders = pillow
    file = io.BytesIO()
    module.fromarray(PIXELS).save(file, "TIFF", tiffinfo={700: b'<x tiff:Orientation="6"/>'})
    assert PIXELS.tolist() == decoders["image"]()(file.getvalue()).tolist()


def test_greys_that_are_to_be_turned_stay_without_a_sign(pillow):
    _, decoders = pillow
    values = np.array([[1, 2**31, 2**32 - 1]], "<u4")
    data = tiff(values.tobytes(), {256: 3, 258: 32, 274: 6})
    assert values.tolist() == decoders["image"](mode="keep")(data).tolist()


@pytest.mark.parametrize(
    ("stored", "kept"),
    [("|u1", "uint8"), ("<u2", "uint16"), (">u2", "uint16"), ("<u4", "uint32")],
)
def test_greys_without_a_sign_are_kept_in_this_machines_byte_order(pillow, stored, kept):
    """So they stack with others, and what is above the middle does not become negative."""
    _, decoders = pillow
    values = np.array([1, np.iinfo(stored).max // 2 + 6, np.iinfo(stored).max - 5], stored)
    found = decoders["image"](mode="keep")(grey_tiff(values))
    assert (np.dtype(kept), [values.tolist()]) == (found.dtype, found.tolist())


@pytest.mark.parametrize("stored", ["<i2", ">i2", "<i4", ">i4"])
def test_signed_greys_are_kept(pillow, stored):
    _, decoders = pillow
    found = decoders["image"](mode="keep")(grey_tiff(np.array([-1, 5, -128], stored), signed=True))
    assert (np.dtype("int32"), [[-1, 5, -128]]) == (found.dtype, found.tolist())


@pytest.mark.parametrize("mode", ["keep", "L", "RGB"])
def test_signed_greys_of_8_bits_are_refused_and_never_taken_for_others(pillow, mode):
    _, decoders = pillow
    data = grey_tiff(np.array([-1, 5, -128], "i1"), signed=True)
    with pytest.raises(SourceError, match="got signed ones of 8, which Pillow takes for others"):
        decoders["image"](mode=mode)(data)


def bitmap_of_5_bits():
    """Makes a BMP of one pixel, its colours 1, 2 and 3 of 31."""
    head = struct.pack("<IHHI", 58, 0, 0, 54) + struct.pack(
        "<IiiHHIIiiII", 40, 1, 1, 1, 16, *[0] * 6
    )
    return b"BM" + head + struct.pack("<HH", 1 << 10 | 2 << 5 | 3, 0)


SCALED = {
    "BMP of 5 bits": (bitmap_of_5_bits(), [[[8, 16, 24]]]),
    "TIFF with white as 0": (
        grey_tiff(np.array([0, 9], "u1"), black=255),
        [[[255] * 3, [246] * 3]],
    ),
    "TIFF of a bit with white as 0": (
        tiff(b"\x40", {256: 2, 258: 1, 262: 0}),
        [[[255] * 3, [0] * 3]],
    ),
    "PBM": (b"P4 2 1\n\x40", [[[255] * 3, [0] * 3]]),
    "PBM in digits": (b"P1 2 1\n0 1\n", [[[255] * 3, [0] * 3]]),
    "PGM": (b"P5 1 1 7\n\3", [[[109] * 3]]),
    "PGM in digits": (b"P2 1 1 7\n3\n", [[[109] * 3]]),
    "PGM of 10 bits": (b"P5 1 1 1023\n\1\2", None),
    "PPM": (b"P6 1 1 15\n\0\1\x0f", [[[0, 17, 255]]]),
    "PNG of 4 bits": (wide_png(0, 1, bits=4), None),
}


@pytest.mark.parametrize("name", SCALED)
def test_what_is_kept_is_not_scaled(pillow, name):
    """Or inverted, as Pillow does so that it looks right: labels would be others."""
    _, decoders = pillow
    data, shown = SCALED[name]
    with pytest.raises(
        SourceError, match="got a file of fewer levels or with white as 0, which Pillow"
    ):
        decoders["image"](mode="keep")(data)
    if shown:
        assert shown == decoders["image"]()(data).tolist()


@pytest.mark.parametrize("mode", ["RGB", "L", "keep"])
def test_what_no_mode_can_read_is_not_sent_to_another(pillow, mode):
    """10 bits of grey: too many to convert, and scaled where they are kept."""
    _, decoders = pillow
    data, _ = SCALED["PGM of 10 bits"]
    with pytest.raises(SourceError, match=r"convert it to npy, or to 8 or 16 bits a value$"):
        decoders["image"](mode=mode)(data)


def test_colours_that_are_multiplied_by_their_alpha_are_refused_where_they_are_kept(pillow):
    """Pillow divides them."""
    _, decoders = pillow
    data = tiff(bytes([10, 20, 30, 100]), {256: 1, 262: 2, 277: 4, 338: 1})
    with pytest.raises(SourceError, match="got colours multiplied by it, which Pillow divides"):
        decoders["image"](mode="keep")(data)
    assert [[[25, 51, 76, 100]]] == decoders["image"](mode="RGBA")(data).tolist()


CHANNELS = {  # extra ones of no meaning that the file tells: 338 has a 0 for each
    "grey and one": (bytes([10, 20]), {277: 2, 338: 0}, 1, [[[10] * 3]]),
    "colours and one": (bytes([1, 2, 3, 4]), {262: 2, 277: 4, 338: 0}, 3, [[[1, 2, 3]]]),
    "colours and two": (bytes(range(5)), {262: 2, 277: 5, 338: (2, 0)}, 3, [[[0, 1, 2]]]),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels_that_pillow_leaves_out_are_refused_where_they_are_kept(pillow, name):
    module, decoders = pillow
    values, tags, kept, shown = CHANNELS[name]
    data = tiff(values, {256: 1} | tags)
    message = f"got {len(values)}, of which Pillow keeps {kept}; convert it to npy, or leave"
    if name == "grey and one" and int(module.__version__.partition(".")[0]) < 13:
        with pytest.raises(SourceError, match="cannot identify image file"):
            decoders["image"]()(data)
        return
    with pytest.raises(SourceError, match=message):
        decoders["image"](mode="keep")(data)
    assert shown == decoders["image"]()(data).tolist()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_that_a_tiff_tells_are_kept(pillow, channels):
    module, decoders = pillow
    values = np.arange(2 * 3 * channels, dtype=np.uint8).reshape(2, 3, channels)
    made = io.BytesIO()
    module.fromarray(values[..., 0] if channels == 1 else values).save(made, "TIFF")
    found = decoders["image"](mode="keep")(made.getvalue())
    assert values.reshape(found.shape).tolist() == found.tolist()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_grey_that_is_multiplied_by_its_alpha_is_refused_unless_it_is_kept(pillow, mode):
    module, decoders = pillow
    if int(module.__version__.partition(".")[0]) < 13:
        pytest.skip("an older Pillow does not know such a file")
    data = tiff(bytes([10, 100]), {256: 1, 277: 2, 338: 1})
    with pytest.raises(SourceError, match=r"got grey multiplied by it, .* read it with .*keep"):
        decoders["image"](mode=mode)(data)
    assert [[[10, 100]]] == decoders["image"](mode="keep")(data).tolist()


def bitmap_of_greys(bits, colours, oldest=False):
    """Makes a BMP of eight pixels with a palette of greys."""
    head = struct.pack("<IHHHH", 12, 8, 1, 1, bits)
    if not oldest:
        head = struct.pack("<IiiHHIIiiII", 40, 8, 1, 1, bits, 0, 0, 0, 0, len(colours), 0)
    palette = b"".join(bytes([grey] * 3 if oldest else [grey] * 3 + [0]) for grey in colours)
    start = 14 + len(head) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + 8, 0, 0, start) + head + palette + b"\0\1" * 4


@pytest.mark.parametrize("mode", ["keep", "L", "RGB"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bitmap_of_greys(4, range(16)), "a bit depth of 8 .*, got 4, which"),
        (bitmap_of_greys(4, range(16), oldest=True), "a bit depth of 8 .*, got 4, which"),
        (bitmap_of_greys(4, [0, 255]), "a bit depth of 1 .*, got 4, which"),
        (bitmap_of_greys(8, [0, 255]), "a bit depth of 1 .*, got 8, which"),
    ],
    ids=["16 greys", "16 greys, the oldest head", "4 bits, black and white", "8 bits, the same"],
)
def test_a_bmp_whose_bits_pillow_mistakes_is_refused(pillow, mode, data, said):
    """It goes by the greys of the palette alone: the pixels would be others."""
    _, decoders = pillow
    with pytest.raises(SourceError, match=said):
        decoders["image"](mode=mode)(data)


@pytest.mark.parametrize("oldest", [False, True])
@pytest.mark.parametrize(
    ("bits", "colours", "pixels"),
    [
        (8, range(256), [0, 1] * 4),
        (8, [0, 9], [0, 1] * 4),
        (4, [0, *range(2, 17)], [0, 0, 0, 1] * 2),
        (1, [0, 255], [False] * 8),
    ],
)
def test_other_bmps_of_greys_are_kept(pillow, bits, colours, pixels, oldest):
    _, decoders = pillow
    if oldest:  # a palette of all colours
        colours = [*colours, *[7] * (2**bits - len(colours))]
    found = decoders["image"](mode="keep")(bitmap_of_greys(bits, colours, oldest))
    assert [pixels] == found.tolist()


TILES = {257: 16, 322: 16, 323: 16, 324: 200, 325: 256}

LACKING = {
    "strips": tiff(b"ab", {257: 4}),
    "planes": tiff(b"ab", {262: 2, 277: 3, 284: 2}),
    "tiles": tiff(b"a" * 256, TILES | {256: 32}),
    "left out": tiff(b"ab", {273: 0}),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_tiff_that_lacks_strips_or_tiles_is_refused(pillow, name):
    """And is not made whole with zeros, or with the head of the file."""
    _, decoders = pillow
    with pytest.raises(SourceError, match="got a TIFF that lacks some strips or tiles"):
        decoders["image"]()(LACKING[name])


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (tiff(b"abcd", {256: 2, 257: 2, 278: 9}), [[[97] * 3, [98] * 3], [[99] * 3, [100] * 3]]),
        (tiff(b"a" * 256, TILES | {256: 1, 257: 1}), [[[97] * 3]]),
        # Behind the three values, at 204, stand the places of the planes.
        (
            tiff(
                b"abc\0" + struct.pack("<3H", 200, 201, 202),
                {256: 1, 262: 2, 273: (3, 204), 277: 3, 284: 2},
            ),
            [[[97, 98, 99]]],
        ),
    ],
    ids=["strip", "tile", "planes"],
)
def test_strips_and_tiles_that_reach_beyond_the_image_are_whole(pillow, data, pixels):
    """And planes of which each is one strip."""
    _, decoders = pillow
    assert pixels == decoders["image"]()(data).tolist()


def test_a_transparent_palette_is_read_without_a_warning(pillow):
    module, decoders = pillow
    file = io.BytesIO()
    module.fromarray(PIXELS).convert("P").save(file, "PNG", transparency=bytes(range(16)))
    assert PIXELS.shape == decoders["image"]()(file.getvalue()).shape


def test_an_image_with_too_many_pixels_is_refused_before_it_is_unpacked(pillow):
    module, decoders = pillow
    assert PIXELS.shape == decoders["image"](max_pixels=54)(encoded(module)).shape
    with pytest.raises(SourceError, match="expected at most 53 pixels, got 9 x 6"):
        decoders["image"](max_pixels=53)(encoded(module))


@pytest.mark.parametrize("most", [20, 40])
def test_an_image_beyond_the_limit_of_pillow_names_that_limit(pillow, monkeypatch, most):
    """Of which it warns, and beyond two of which it refuses."""
    module, decoders = pillow
    monkeypatch.setattr(module, "MAX_IMAGE_PIXELS", most)
    with pytest.raises(SourceError, match=r"own limit, got: .* and PIL\.Image\.MAX_IMAGE_PIXELS"):
        decoders["image"](max_pixels=54)(encoded(module))


@pytest.mark.filterwarnings("ignore::UserWarning:PIL.TiffImagePlugin")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "TIFF", "WEBP"])
def test_an_image_cut_anywhere_is_an_error_or_whole(pillow, kind):
    module, decoders = pillow
    decode, data = decoders["image"](), encoded(module, kind)
    expected = decode(data).tolist()
    refusals = 0
    for length in range(len(data)):
        try:
            assert expected == decode(data[:length]).tolist()
        except SourceError:
            refusals += 1
    assert refusals >= len(data) - 4  # some formats do without their last, empty bytes


def test_a_changed_byte_of_a_png_is_an_error_or_changes_nothing(pillow):
    module, decoders = pillow
    decode, data = decoders["image"](), encoded(module)
    expected = decode(data).tolist()
    for at in range(len(data)):
        for flip in (1, 0x80):
            changed = bytearray(data)
            changed[at] ^= flip
            with suppress(SourceError):
                assert expected == decode(bytes(changed)).tolist()


def test_what_is_no_image_is_told_without_an_address_in_memory(pillow):
    """So that it is told in the same words in every run."""
    _, decoders = pillow
    with pytest.raises(SourceError) as caught:
        decoders["image"]()(b"no image")
    told = "WEBP), got: cannot identify image file; copy the file again, convert it, or exclude "
    assert str(caught.value).endswith(f"{told}the sample")


def test_a_damaged_image_names_its_file(tmp_path, pillow):
    module, decoders = pillow
    write(tmp_path, {"a.png": encoded(module)[:-30]})
    assert f"{tmp_path / 'data' / 'a.png'}: expected a whole image (BMP, GIF, JPEG, " in refused(
        tmp_path, decode="image", decoders=decoders
    )


def test_formats_that_run_programs_are_refused(pillow):
    _, decoders = pillow
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    with pytest.raises(SourceError, match="cannot identify image file"):
        decoders["image"]()(postscript)


def test_a_file_that_cannot_be_read_names_the_path_and_the_reason(tmp_path, monkeypatch):
    class Torn(io.FileIO):
        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    with closing(opened(write(tmp_path, {"a.txt": "one"}))) as source:
        monkeypatch.setattr(files, "open_regular", Torn)
        with pytest.raises(SourceError, match=r"a\.txt: expected 3 bytes, got: Input/output error"):
            source[0]


def test_a_file_that_ends_early_though_it_is_as_it_was_is_told_as_that(tmp_path, monkeypatch):
    class Ending(io.FileIO):
        def read(self, size=-1):
            return super().read(2 - self.tell())

    with closing(opened(write(tmp_path, {"a.txt": "one"}))) as source:
        monkeypatch.setattr(files, "open_regular", Ending)
        with pytest.raises(SourceError, match=r"byte 0: expected 3 bytes, got 2, though the file"):
            source[0]


def test_what_a_signal_handler_raises_passes_as_it_is(tmp_path, monkeypatch):
    """While a file is read, and while it is looked at."""
    write(tmp_path, {"a.txt": "one"})
    rung = TimeoutError("rung")

    class Ringing(io.FileIO):
        def read(self, size=-1):
            raise rung

    with closing(opened(tmp_path)) as source, monkeypatch.context() as patch:
        patch.setattr(files, "open_regular", Ringing)
        with pytest.raises(TimeoutError) as caught:
            source[0]
    assert rung is caught.value
    real, rings = Path.stat, [rung]

    def stat(path, **options):
        if rings:
            raise rings.pop()
        return real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", stat)
        with pytest.raises(TimeoutError) as caught:
            opened(tmp_path)
    assert rung is caught.value


def test_a_file_that_has_become_a_folder_is_an_error(tmp_path):
    with closing(opened(write(tmp_path, {"a.txt": "one"}))) as source:
        (tmp_path / "data" / "a.txt").unlink()
        (tmp_path / "data" / "a.txt").mkdir()
        with pytest.raises(SourceError, match=r"a\.txt: expected a regular file"):
            source[0]


def test_a_config_alone_decodes_images(tmp_path):
    framework("PIL")
    from PIL import Image

    pixels = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    (tmp_path / "data").mkdir()
    Image.fromarray(pixels).save(tmp_path / "data" / "a.png")
    folder = str(tmp_path / "data")
    with Loader({"source": {"type": "files", "folder": folder, "decode": "image"}}) as batches:
        batch = next(iter(batches))
    assert np.array_equal(pixels[np.newaxis], batch["data"])


def test_a_file_that_two_patterns_find_by_two_ways_is_refused(tmp_path):
    """By one way it is one sample, however many patterns find it."""
    write(tmp_path, {"real/1": "one"})
    make_link(tmp_path / "data" / "link", "real")
    (sample,) = samples(opened(tmp_path, pattern=["real/*", "r*/1"]))
    assert "real/1" == sample["path"]
    with pytest.raises(SourceError, match="expected each file once"):
        opened(tmp_path, pattern=["real/*", "link/*"])
