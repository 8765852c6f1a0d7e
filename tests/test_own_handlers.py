"""An exception of the user's own, raised by a signal handler while files are opened and read."""

import codecs
import json
import os
import signal
import sqlite3
import zipfile
from functools import partial

import numpy as np
import pytest

from threadloader import Loader
from threadloader.quarantine import Quarantine
from threadloader.sources import _csv_columns, _npy_header, open_source, sqlite
from threadloader.sources.columns import read_numbers


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
    "sqlite, its query": ({"type": "sqlite", **DATABASE}, sqlite, "closing"),
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


def numbers(folder):
    """Reads a list of numbers, with an object in it."""
    (folder / "list").write_text('{"index": 3}\n')
    return partial(read_numbers, "list", folder, None)


def torn(folder):
    """Reads a list whose last line looks like one of a quarantine file that was cut."""
    (folder / "list").write_text('{"index": 3')
    return partial(read_numbers, "list", folder, None)


def quarantine(folder):
    (folder / "list").write_text('{"index": 3}\n')
    return partial(Quarantine, folder / "list")


def torn_quarantine(folder):
    (folder / "list").write_text('{"index": 3')
    return partial(Quarantine, folder / "list")


def cells(folder):
    """Reads what may be numbers, in a file of comma-separated values."""
    (folder / "x.csv").write_text("a\n1\n")
    return partial(open_source, {"type": "csv", "path": "x.csv", "dtypes": {"a": "int64"}}, folder)


FILES = {
    "a list": (numbers, json, "loads"),
    "a torn line of a list": (torn, json, "loads"),
    "a quarantine file's path": (quarantine, os, "access"),
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
