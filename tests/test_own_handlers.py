"""An exception of the user's own that a signal handler raises while files or objects are read."""

import codecs
import copy
import errno
import inspect
import io
import json
import operator
import os
import signal
import sqlite3
import tarfile
import zipfile
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from threadloader import Loader, fingerprint, transforms
from threadloader.cache import _key, _kinds
from threadloader.cache._kinds import buffered
from threadloader.cache._walk import Walk
from threadloader.config._file import read as read_file
from threadloader.config._file import split
from threadloader.config._text import parse
from threadloader.errors import _callables, _open_files, shown
from threadloader.fingerprint import digest
from threadloader.loader._arguments import count_of, state_of
from threadloader.loader._sampling import Samplings
from threadloader.loader._schedule import Sampling
from threadloader.quarantine import Quarantine, is_torn
from threadloader.samplers import _configured, _indices
from threadloader.sources import (
    _csv_columns,
    _csv_rows,
    _labels,
    _lines,
    _named,
    _npy_header,
    _paths,
    _sqlite_database,
    _tar_headers,
    as_source,
    columns,
    files,
    open_source,
)
from threadloader.sources._dtypes import to_array
from threadloader.sources._files import FileReader
from threadloader.sources._open_file import open_regular
from threadloader.sources._paths import is_there
from threadloader.sources._sqlite_connections import Connections
from threadloader.sources._sqlite_files import check_beside
from threadloader.sources.columns import read_numbers
from threadloader.sources.csv_file import CsvOptions, CsvSource
from threadloader.state import NOTHING, Cursor, Excluded
from threadloader.transforms import bind


class Deadline(ValueError):
    """Of a kind that a file's damage has as well."""


@pytest.fixture
def deadline():
    def ring(number, frame):
        raise Deadline("job deadline")

    before = signal.signal(signal.SIGINT, ring)
    yield
    signal.signal(signal.SIGINT, before)


def ringing(function):
    """Give a function that does the same, and is interrupted before it has begun."""

    def rings(*args, **options):
        signal.raise_signal(signal.SIGINT)
        return function(*args, **options)

    return rings


DATABASE = {"path": "data.db", "query": "SELECT id FROM t", "key": "id"}
PLACES = {
    "npz, its table": ({"type": "npz", "path": "x.npz"}, zipfile.ZipFile, "_RealGetContents"),
    "npz, a member": ({"type": "npz", "path": "x.npz"}, zipfile.ZipExtFile, "read"),
    "npz, a name": ({"type": "npz", "path": "x.npz"}, codecs, "charmap_decode"),
    "npy, its header": ({"type": "npy", "path": "x.npy"}, _npy_header.ast, "literal_eval"),
    "npy, its shape": ({"type": "npy", "path": "x.npy"}, _npy_header.np, "empty"),
    "a path": ({"type": "text", "path": "*.txt"}, os.path, "realpath"),
    "a folder": ({"type": "text", "path": "*.txt"}, os, "scandir"),
    "sqlite, its query": ({"type": "sqlite", **DATABASE}, _sqlite_database, "closing"),
}


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("place", PLACES)
def test_it_comes_out_itself_and_is_not_told_as_a_fault_of_the_file(place, tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=np.arange(9))
    np.save(tmp_path / "x.npy", np.arange(9))
    (tmp_path / "a.txt").write_text("a\n")
    database = sqlite3.connect(tmp_path / "data.db")
    database.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1);")
    database.close()
    source, where, name = PLACES[place]
    source = {**source, "path": str(tmp_path / source["path"])}
    loader = Loader({"source": source, "root": str(tmp_path), "num_workers": 0})
    monkeypatch.setattr(where, name, ringing(getattr(where, name)))
    with pytest.raises(Deadline, match="job deadline"):
        loader.__enter__()


class Bytes(bytes):
    """Bytes whose decoding is interrupted before it has begun."""

    def removeprefix(self, prefix):
        return Bytes(super().removeprefix(prefix))

    def decode(self, *args):
        return ringing(super().decode)(*args)


def numbers(folder):
    """Reads a list of numbers, with an object in it."""
    (folder / "list").write_text('{"index": 3}\n')
    return partial(read_numbers, "list", folder, None, torn=is_torn)


def torn(folder):
    """Reads a list whose last line looks like one of a quarantine file that was cut."""
    (folder / "list").write_text('{"index": 3')
    return partial(read_numbers, "list", folder, None, torn=is_torn)


def quarantine(folder):
    (folder / "list").write_text('{"index": 3}\n')
    return partial(Quarantine, folder / "list")


def new_quarantine(folder):
    return partial(Quarantine, folder / "new")


def torn_quarantine(folder):
    (folder / "list").write_text('{"index": 3')
    return partial(Quarantine, folder / "list")


def cells(folder):
    """Reads what may be numbers, in a file of comma-separated values."""
    (folder / "x.csv").write_text("a\n1\n")
    return partial(open_source, {"type": "csv", "path": "x.csv", "dtypes": {"a": "int64"}}, folder)


def opening(folder):
    (folder / "x.txt").touch()
    return partial(open_regular, folder / "x.txt")


def looking(folder):
    return partial(is_there, folder / "x.txt")


def beside(folder):
    return partial(check_beside, folder / "x.db")


FILES = {
    "a file": (opening, Path, "open"),
    "what lies beside a database": (beside, Path, "lstat"),
    "what is at a path": (looking, Path, "lstat"),
    "a list": (numbers, json, "loads"),
    "a torn line of a list": (torn, json, "loads"),
    "a quarantine file's path": (new_quarantine, os, "access"),
    "a quarantine file": (quarantine, json, "loads"),
    "a torn line of a quarantine file": (torn_quarantine, json, "loads"),
    "cells": (cells, _csv_columns, "max"),
}


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("file", FILES)
def test_it_is_not_taken_for_one_of_what_is_read(file, tmp_path, monkeypatch):
    prepare, where, name = FILES[file]
    read = prepare(tmp_path)
    real = max if name == "max" else getattr(where, name)
    monkeypatch.setattr(where, name, ringing(real), raising=False)
    with pytest.raises(Deadline, match="job deadline"):
        read()


@pytest.mark.usefixtures("deadline")
def test_the_first_line_of_a_list_is_decoded_without_code_that_a_handler_interrupts(
    tmp_path, monkeypatch
):
    """CPython 3.11 puts an error of its own in the place of what is raised in a codec's code."""
    (tmp_path / "list").write_bytes(b"\xef\xbb\xbf3\n4\n")
    monkeypatch.setattr(codecs, "utf_8_decode", ringing(codecs.utf_8_decode))
    assert [3, 4] == read_numbers("list", tmp_path, None).tolist()


def rows(folder):
    (folder / "x.csv").write_text("a\n1\n")
    return CsvSource([folder / "x.csv"])


def table(folder):
    """Looks at the table of a database."""
    (folder / "data.db").write_bytes(b"none yet")
    return Connections(folder / "data.db")


def names_of_files(folder):
    (folder / "a").touch()
    return files._names(folder, "*", None)


EXCLUDING = SimpleNamespace(_n=9, now=Sampling(None, NOTHING), _make=lambda *what: None)
"""As a `Samplings`, of another list than that of a state."""


LOOPED = SimpleNamespace(is_dir=lambda: False, is_symlink=lambda: True)
"""As the entry of a folder that is a link to itself."""

NOTED = SimpleNamespace(add_note=lambda note: None)
"""As an error of a source."""


def listed(folder):
    (folder / "list").write_text("3\n")
    return read_numbers("list", folder, None)


class Many:
    def __call__(self, sample):
        return sample

    def many(self, samples, key, positions):
        return samples


LOST = {
    "a transform's many": (
        TypeError("my own"),
        lambda folder: bind(Many()),
        transforms,
        "signature",
    ),
    "columns": (KeyError("a"), rows, CsvOptions, "columns_of"),
    "a database": (FileNotFoundError(2, "my own"), table, Path, "stat"),
    "the files of a path": (
        FileNotFoundError(2, "my own"),
        lambda folder: _named.named_files({"path": "a"}, folder, None),
        Path,
        "stat",
    ),
    "a section's file": (
        FileNotFoundError(2, "my own"),
        lambda folder: split("c.json#/training"),
        Path,
        "stat",
    ),
    "a quarantine file": (
        FileNotFoundError(2, "my own"),
        lambda folder: Quarantine(folder / "q"),
        Path,
        "stat",
    ),
    "a config's folder": (
        FileNotFoundError(2, "my own"),
        lambda folder: read_file("gone.json"),
        Path,
        "cwd",
    ),
    "a config's name": (ValueError("my own"), lambda folder: read_file("c.json"), os, "stat"),
    "weights": (
        OverflowError("my own"),
        lambda folder: _configured._weights([1.0], 1),
        np,
        "array",
    ),
    "names of files": (
        UnicodeEncodeError("ascii", "\xe9", 0, 1, "my own"),
        names_of_files,
        files,
        "_utf8",
    ),
    "numbers": (
        OverflowError("my own"),
        lambda folder: to_array([1.0], np.dtype("float64")),
        np,
        "array",
    ),
    "what a function closes over": (
        ValueError("my own"),
        lambda folder: _key._cell(Walk(_key._tell), (lambda: folder).__closure__[0], None),
        Walk,
        "add",
    ),
    "a state's samples": (
        ValueError("my own"),
        lambda folder: Samplings._plan_at(EXCLUDING, Cursor(0, 1), Excluded.of("0")),
        EXCLUDING,
        "_make",
    ),
    "a file that is being replaced": (
        FileNotFoundError(2, "my own"),
        _open_files._is_there,
        os,
        "stat",
    ),
    "a folder's entry": (
        OSError(errno.ELOOP, "my own"),
        lambda folder: _paths._is_folder(LOOPED),
        LOOPED,
        "is_dir",
    ),
    "the numbers of a list": (OverflowError("my own"), listed, np, "array"),
    "a number as in a cell": (
        ValueError("my own"),
        lambda folder: columns._as_in_a_cell(b"01", whole=False),
        columns.re,
        "search",
    ),
    "the note of a sample": (
        TypeError("my own"),
        lambda folder: columns._note(NOTED, 0, "a"),
        NOTED,
        "add_note",
    ),
    "a state": (TypeError("my own"), lambda folder: state_of({}), copy, "deepcopy"),
    "a state's path": (
        FileNotFoundError(2, "my own"),
        lambda folder: state_of("a"),
        os.path,
        "abspath",
    ),
    "what a callable takes": (
        ValueError("my own"),
        lambda folder: _callables.misfit(print, "", 1),
        _callables,
        "signature",
    ),
    "whether a callable takes these": (
        TypeError("my own"),
        lambda folder: _callables.misfit(listed, "", folder),
        inspect.Signature,
        "bind",
    ),
    "an array that an object gives": (
        ValueError("my own"),
        lambda folder: digest(Memory()),
        np,
        "asarray",
    ),
    "a count": (
        TypeError("my own"),
        lambda folder: count_of("epochs", np.int8(1)),
        operator,
        "index",
    ),
    "a signature": (
        NameError("my own"),
        lambda folder: _callables.signature(listed),
        inspect,
        "signature",
    ),
    "an index": (
        TypeError("my own"),
        lambda folder: _indices._array([np.int8(0)], ""),
        operator,
        "index",
    ),
}


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("case", LOST)
def test_it_may_be_of_the_very_kind_by_which_a_fault_is_told(case, tmp_path, monkeypatch):
    own, opens, where, name = LOST[case]

    def ring(number, frame):
        raise own

    signal.signal(signal.SIGINT, ring)
    with monkeypatch.context() as patched:
        patched.setattr(where, name, ringing(getattr(where, name)))
        with pytest.raises(type(own)) as caught:
            opens(tmp_path)
    assert caught.value is own


def labels(folder, monkeypatch):
    (folder / "x.csv").write_text("file,label\na,b\n")
    monkeypatch.setattr(_labels, "open_regular", lambda path: Opened())
    return _labels._Table(folder / "x.csv", "file", "label")


class Opened(io.BytesIO):
    def readall(self):
        return Bytes(b"file,label\na,b\n")


def names(folder, monkeypatch):
    """Reads the names in a tar archive."""
    with tarfile.open(folder / "x.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    monkeypatch.setattr(_tar_headers, "Member", ringing(_tar_headers.Member))
    return open_source({"type": "tar", "path": "x.tar", "decode": {"txt": "text"}}, folder)


def text_of_rows(folder, monkeypatch):
    (folder / "x.csv").write_text("a\n1\n")
    with closing(FileReader(folder / "x.csv")) as reader:
        return _csv_rows._Rows(reader, CsvOptions()).decoded(Bytes(b"a\n"))


def header(folder, monkeypatch):
    parts = [b"\x93NUMPY\x03\x00", b"\x02\x00\x00\x00", Bytes(b"{}")]
    stream = SimpleNamespace(read=lambda size: parts.pop(0))
    return _npy_header.read_header(stream, RuntimeError, "damaged")


TEXTS = {
    "rows": text_of_rows,
    "a line that may be blank": lambda folder, monkeypatch: _lines._is_blank(Bytes(b"  ")),
    "labels": labels,
    "names in an archive": names,
    "the header of an array": header,
    "a config": lambda folder, monkeypatch: parse(Bytes(b"{}"), "c.json"),
}


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("text", TEXTS)
def test_what_a_handler_cannot_decode_is_not_taken_for_the_text_that_is_read(
    text, tmp_path, monkeypatch
):
    def ring(number, frame):
        b"mine: \xff".decode()

    signal.signal(signal.SIGINT, ring)
    with pytest.raises(UnicodeDecodeError) as caught:
        TEXTS[text](tmp_path, monkeypatch)
    assert b"mine: \xff" == caught.value.object


class Memory:
    def __array__(self, dtype=None, copy=None):
        return np.zeros(2)


class Rings(Memory):
    """An object that is interrupted while it shows itself."""

    def __array__(self, dtype=None, copy=None):
        return ringing(np.zeros)(2)

    def __repr__(self):
        return ringing(str)()


class Shaped(Memory):
    """An object that is interrupted while it says its shape."""

    @property
    def shape(self):
        return ringing(tuple)()


SHOWS = {
    "a shape": lambda: as_source((Shaped(), Shaped())),
    "an array": lambda: digest(Rings()),
    "an array, by its memory": lambda: digest(Memory()),
    "a value in a message": lambda: shown(Rings()),
    "its bytes": lambda: buffered(b"abc"),
}


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize("show", SHOWS)
def test_it_is_not_taken_for_what_an_object_raises_that_shows_itself(show, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(_kinds.re, "sub", ringing(_kinds.re.sub))
        # From Python 3.12 on a class may give its memory by code of its own.
        patched.setattr(fingerprint, "memoryview", ringing(memoryview), raising=False)
        with pytest.raises(Deadline) as caught:
            SHOWS[show]()
    assert "job deadline" == str(caught.value)
