"""A file's label is the first folder on its path, or what a table says of it, or an error."""

import csv
import logging

import pytest
from folders import opened, refused, write
from opened_sources import samples

from threadloader.errors import ConfigError

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
    text = '\ufeff\r\ny,note,file\r\nwolf,,c\r\n"a, b","two\nlines",./b/1\n\nwolf,,a\n'
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
        ("\n\nfiles,y\n", "line 3: expected one column 'file', got 'files', 'y'; did you"),
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
