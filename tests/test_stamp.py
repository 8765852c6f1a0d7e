"""A stamp changes when a file of the source is written to, and not otherwise."""

import os

import pytest

from threadloader.errors import SourceError
from threadloader.sources import _KINDS
from threadloader.sources._stamp import stamp

SPECS = {
    "npz": ({"path": "a.npz"}, ["a.npz"]),
    "npy": ({"fields": {"x": "a.npy", "y": "b.npy"}}, ["a.npy", "b.npy"]),
    "csv": ({"path": ["a.csv", "b*.csv"]}, ["a.csv", "b1.csv", "b2.csv"]),
    "jsonl": ({"path": "*.jsonl"}, ["a.jsonl", "b.jsonl"]),
    "text": ({"path": "a.txt"}, ["a.txt"]),
    "tokens": ({"path": "a.bin"}, ["a.bin"]),
    "files": ({"folder": "data", "pattern": ["**/*.png", "x/*"]}, ["data/x/a.png", "data/b.png"]),
    "tar": ({"path": "a.tar"}, ["a.tar"]),
    "sqlite": ({"path": "a.db"}, ["a.db", "a.db-wal"]),
}


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


def test_a_file_that_is_missing_is_left_to_the_opening(tmp_path):
    assert stamp({"type": "npz", "path": "a.npz"}, tmp_path)
    with pytest.raises(SourceError, match="found none"):
        stamp({"type": "text", "path": "*.txt"}, tmp_path)


def test_a_pattern_may_not_leave_the_root(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "in").mkdir()
    with pytest.raises(SourceError, match='inside the folder "root"'):
        stamp({"type": "text", "path": "../a*.txt"}, tmp_path / "in", ".")
