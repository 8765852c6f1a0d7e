"""A stamp changes when a file of the source is written to, and not otherwise."""

import os
import signal
import time
from pathlib import Path

import pytest
from links import make_link

from threadloader import Loader
from threadloader.errors import ConfigError, SourceError
from threadloader.sources import _KINDS, _stamp
from threadloader.sources._stamp import stamp

SPECS = {
    "npz": ({"path": ["a.npz", "b*.npz"]}, ["a.npz", "b1.npz", "b2.npz"]),
    "npy": ({"fields": {"x": "a.npy", "y": ["b*.npy"]}}, ["a.npy", "b1.npy", "b2.npy"]),
    "csv": ({"path": ["a.csv", "b*.csv"]}, ["a.csv", "b1.csv", "b2.csv"]),
    "jsonl": ({"path": "*.jsonl"}, ["a.jsonl", "b.jsonl"]),
    "text": ({"path": "a.txt"}, ["a.txt"]),
    "tokens": ({"path": "a.bin"}, ["a.bin"]),
    "files": ({"folder": "data", "pattern": ["**/*.png", "x/*"]}, ["data/x/a.png", "data/b.png"]),
    "tar": ({"path": "a.tar"}, ["a.tar"]),
    "sqlite": ({"path": ["a.db", "b*.db"]}, ["a.db", "b1.db", "b2.db", "a.db-wal", "b2.db-wal"]),
}


TICK = 5.0
"""Seconds after which a file system has no time of status: FAT counts in twos."""


def until_status_changed(file, change):
    """Change a file until the time of its status is another one: the system's clock is coarse.

    Windows, exFAT and NTFS by FUSE have no such time, or let it be set.
    """
    before, deadline = file.stat().st_ctime_ns, time.monotonic() + TICK
    while file.stat().st_ctime_ns == before:
        if time.monotonic() > deadline:
            pytest.skip("this file system has no time that nobody can set")
        change()


def test_every_kind_has_its_case():
    assert set(_KINDS) == set(SPECS)


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_each_file_counts_by_size_and_time(kind, tmp_path):
    """Also when it has the same size as before; contents and other files do not count."""
    options, names = SPECS[kind]
    spec = {"type": kind, **options}
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"some")
        os.utime(tmp_path / name, ns=(0, 10**18))
    seen = {stamp(spec, tmp_path)}
    (tmp_path / "other.file").write_bytes(b"")
    assert seen == {stamp(spec, tmp_path)}
    for number, name in enumerate(names, 1):
        os.utime(tmp_path / name, ns=(0, 10**18 + number * 10**9))
        seen.add(stamp(spec, tmp_path))
        (tmp_path / name).write_bytes(b"longer")
        os.utime(tmp_path / name, ns=(0, 10**18 + number * 10**9))
        seen.add(stamp(spec, tmp_path))
    assert 1 + 2 * len(names) == len(seen)


def test_each_file_of_a_pattern_counts_within_the_root(tmp_path):
    (tmp_path / "in").mkdir()
    seen = set()
    for name in ("a.npy", "b.npy"):
        (tmp_path / "in" / name).write_bytes(b"some")
        for spec in ({"path": "in/*.npy"}, {"fields": {"x": "in/*.npy"}}):
            seen.add(stamp({"type": "npy", **spec}, tmp_path, tmp_path / "in"))
    assert 2 == len(seen)
    for spec in ({"path": "in/../*"}, {"fields": {"x": "in/../*"}}):
        (tmp_path / "out.npy").write_bytes(b"some")
        with pytest.raises(SourceError, match='inside the folder "root"'):
            stamp({"type": "npy", **spec}, tmp_path, tmp_path / "in")


def test_a_name_that_no_system_has_is_an_error_of_the_source(tmp_path):
    """As without a cache, where the opening says it."""
    config = {"source": {"type": "npy", "fields": {"x": "a" * 5000}}}
    for more in ({}, {"cache": {"folder": str(tmp_path / "kept")}}):
        with pytest.raises(SourceError, match="expected"):
            Loader({**config, **more}).__enter__()


@pytest.mark.parametrize("exchanged", [False, True], ids=["written to", "exchanged"])
def test_a_file_of_the_same_size_and_time_is_another_one(tmp_path, exchanged):
    """As whoever unpacks an archive, or copies with times, leaves it."""
    file, other = tmp_path / "a.txt", tmp_path / "b.txt"
    for each, content in ((file, b"some"), (other, b"else")):
        each.write_bytes(content)
        os.utime(each, ns=(0, 10**18))
    spec = {"type": "text", "path": "a.txt"}
    before = stamp(spec, tmp_path)

    def change():
        if exchanged:
            os.replace(file, tmp_path / "c.txt")
            os.replace(other, file)
            os.replace(tmp_path / "c.txt", other)
        else:
            file.write_bytes(b"else")
            os.utime(file, ns=(0, 10**18))

    until_status_changed(file, change)
    assert before != stamp(spec, tmp_path)


def test_files_that_differ_in_their_path_alone_are_others(tmp_path, monkeypatch):
    """As two that were written in the same tick of the clock; a link is where it leads to."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_bytes(b"some")
    status = (tmp_path / "a" / "1.txt").stat()
    monkeypatch.setattr(_stamp, "_status", lambda file: status)
    spec, link = {"type": "text", "path": "1.txt"}, tmp_path / "1.txt"
    assert stamp(spec, tmp_path / "a") == stamp(spec, tmp_path / "a") != stamp(spec, tmp_path / "b")
    make_link(link, "a/1.txt")
    assert stamp(spec, tmp_path) == stamp(spec, tmp_path / "a")
    link.unlink()
    make_link(link, "b/1.txt")
    assert stamp(spec, tmp_path) == stamp(spec, tmp_path / "b")
    make_link(tmp_path / "c", "a")
    assert stamp(spec, tmp_path / "c") == stamp(spec, tmp_path / "a")


def test_a_file_that_is_missing_is_left_to_the_opening(tmp_path):
    assert stamp({"type": "npz", "path": "a.npz"}, tmp_path)
    with pytest.raises(SourceError, match="found none"):
        stamp({"type": "text", "path": "*.txt"}, tmp_path)


@pytest.mark.parametrize("fields", [{}, {"fields": None}], ids=str)
def test_a_spec_that_names_no_file_is_left_to_the_opening(tmp_path, fields):
    """The loader says what is wrong, with a cache folder as well."""
    spec = {"type": "npy", **fields}
    stamp({**spec, "path": None}, tmp_path)
    config = {"source": spec, "cache": {"folder": str(tmp_path / "kept")}}
    with pytest.raises(ConfigError, match="got neither"):
        Loader(config).__enter__()


def test_a_pattern_may_not_leave_the_root(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "in").mkdir()
    with pytest.raises(SourceError, match='inside the folder "root"'):
        stamp({"type": "text", "path": "../a*.txt"}, tmp_path / "in", ".")


def test_a_log_in_which_nothing_is_does_not_count(tmp_path):
    """Those who only read a database make one, and leave it."""
    spec = {"type": "sqlite", "path": "a.db"}
    (tmp_path / "a.db").write_bytes(b"some")
    before = stamp(spec, tmp_path)
    (tmp_path / "a.db-wal").write_bytes(b"")
    assert before == stamp(spec, tmp_path)


def test_of_a_log_the_time_of_its_status_does_not_count(tmp_path):
    """SQLite sets it where root reads the database."""
    spec, log = {"type": "sqlite", "path": "a.db"}, tmp_path / "a.db-wal"
    (tmp_path / "a.db").write_bytes(b"some")
    log.write_bytes(b"some")
    before = stamp(spec, tmp_path)
    until_status_changed(log, lambda: log.chmod(0o600))
    assert before == stamp(spec, tmp_path)


def test_the_log_of_a_linked_database_stands_beside_the_database_itself(tmp_path):
    spec = {"type": "sqlite", "path": "link.db"}
    (tmp_path / "real.db").write_bytes(b"some")
    make_link(tmp_path / "link.db", "real.db")
    before = stamp(spec, tmp_path)
    (tmp_path / "link.db-wal").write_bytes(b"some")
    assert before == stamp(spec, tmp_path)
    (tmp_path / "real.db-wal").write_bytes(b"some")
    assert before != stamp(spec, tmp_path)


@pytest.mark.parametrize("path", [".", "no.db", "a\0b"])
def test_what_is_no_database_is_left_to_the_opening(tmp_path, path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert stamp({"type": "sqlite", "path": path})


@pytest.mark.parametrize("rings_at", ["a.db", "a.db-wal"])
def test_what_a_signal_handler_raises_is_no_state_of_a_file(tmp_path, rung, monkeypatch, rings_at):
    (tmp_path / "a.db").write_bytes(b"some")
    real = Path.stat

    def ringing(path, **options):
        if path.name == rings_at:
            signal.raise_signal(signal.SIGINT)
        return real(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", ringing)
        with pytest.raises(TimeoutError, match="rung"):
            stamp({"type": "sqlite", "path": "a.db"}, tmp_path)
