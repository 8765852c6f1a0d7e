"""What cannot be opened is told with its place and the reason, and nothing of it stays open."""

import errno
import functools
import io

import numpy as np
import pytest
from npy_files import EACH_WAY, open_, save

from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import _labels, _npy_rows, columns, npy, npz, open_source, read_numbers
from threadloader.sources.npy import NpySource

__all__ = ["open_"]  # the fixture


@pytest.mark.parametrize(
    ("spec", "place", "got"),
    [
        ({}, "/source", "neither"),
        ({"path": "x.npy", "fields": {"x": "x.npy"}}, "/source", "both"),
        ({"fields": {}}, "/source/fields", "none"),
    ],
)
def test_a_contradiction_is_a_config_error(open_, spec, place, got):
    with pytest.raises(ConfigError) as caught:
        open_(**spec)
    assert [(place, got)] == [(each.pointer, each.got) for each in caught.value.problems]


@EACH_WAY
def test_differing_lengths_name_both_files(tmp_path, open_, mapped):
    fields = save(tmp_path, x=np.arange(3), y=np.arange(4))
    with pytest.raises(SourceError) as caught:
        open_(mapped, fields=fields)
    assert str(tmp_path / "y.npy") == caught.value.path
    assert (
        f"expected as many rows as {tmp_path / 'x.npy'} has, 3, got 4; "
        "name files that belong together"
    ) == caught.value.message


@EACH_WAY
def test_only_regular_files_within_the_root_are_read(tmp_path, open_, mapped):
    save(tmp_path, x=np.arange(3))
    (tmp_path / "in").mkdir()
    for path, root, said in (
        ("none.npy", None, "expected a file, found none"),
        ("in", None, "got a folder"),
        ("[y].npy", None, "expected a file that matches this pattern, found"),
        ("x.npy", tmp_path / "in", 'inside the folder "root"'),
    ):
        for spec in ({"path": path}, {"fields": {"x": path}}):
            with pytest.raises(SourceError, match=said):
                open_(mapped, root, **spec)
    assert 3 == len(open_(mapped, tmp_path, path="x.npy"))


@EACH_WAY
def test_all_files_that_are_not_there_are_told_at_once(tmp_path, open_, mapped):
    save(tmp_path, x=np.arange(6.0))
    with pytest.raises(SourceError) as caught:
        open_(mapped, fields={"y": "y.npy", "x": "x.npy", "z": "z.npy"})
    y, z = (str(tmp_path / name) for name in ("y.npy", "z.npy"))
    assert y == caught.value.path
    assert caught.value.message.startswith(f"expected a file, found none, nor at {z!r}; a relative")


@EACH_WAY
def test_a_file_that_is_not_there_has_its_cause_and_is_told_once(tmp_path, open_, mapped):
    with pytest.raises(SourceError) as caught:
        open_(mapped, fields={"x": "z.npy", "y": "z.npy"})
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert caught.value.message.startswith("expected a file, found none; a relative path")


@EACH_WAY
def test_damage_does_not_hide_a_file_that_is_not_there_before_it(tmp_path, open_, mapped):
    (tmp_path / "x.npy").write_bytes(b"damaged")
    with pytest.raises(SourceError, match="found none") as caught:
        open_(mapped, fields={"z": "z.npy", "x": "x.npy"})
    assert str(tmp_path / "z.npy") == caught.value.path


@EACH_WAY
def test_if_one_file_cannot_be_opened_the_others_are_closed(tmp_path, open_, mapped, monkeypatch):
    fields = save(tmp_path, x=np.arange(6))
    made = []
    for kind in ("Positioned", "Mapped"):
        real = getattr(npy, kind)

        def opened(path, real=real, **options):
            made.append(real(path, **options))
            return made[-1]

        monkeypatch.setattr(npy, kind, opened)
    (tmp_path / "y.npy").write_bytes(b"damaged")
    with pytest.raises(SourceError, match="numpy's format"):
        open_(mapped, fields={**fields, "y": "y.npy"})
    assert 1 == len(made)
    with pytest.raises(ClosedError):
        made[0].one(0)


class Failing(io.FileIO):
    """A file on storage that fails."""

    def _fail(self, *args):
        raise OSError(errno.EIO, "Input/output error")

    read = readall = readinto = seek = _fail


@pytest.mark.parametrize(
    "opens",
    [
        lambda folder: npz.NpzSource(folder / "x"),
        lambda folder: NpySource(folder / "x", mapped=True),
        lambda folder: read_numbers("x", folder, None),
        lambda folder: _labels._Table(folder / "x", "file", "label"),
    ],
    ids=["npz", "mapped npy", "numbers", "labels"],
)
def test_a_file_whose_reading_fails_is_named(tmp_path, monkeypatch, opens):
    (tmp_path / "x").write_bytes(b"something")
    for room in (npz, _npy_rows, columns, _labels):
        monkeypatch.setattr(room, "open_regular", Failing)
    with pytest.raises(SourceError, match="expected a file that can be read, got: Input") as told:
        opens(tmp_path)
    assert str(tmp_path / "x") == told.value.path


@pytest.mark.parametrize(
    "opens",
    [npz.NpzSource, functools.partial(NpySource, mapped=True)],
    ids=["npz", "mapped npy"],
)
def test_a_file_in_which_the_system_cannot_seek_is_named(tmp_path, monkeypatch, opens):
    """Once it cannot, a file says from then on that it is one without places."""

    class Unsought(io.FileIO):
        places = True

        def seek(self, *args):
            self.places = False
            raise OSError(errno.EIO, "Input/output error")

        def tell(self):
            return self.seek(0, 1)

        def seekable(self):
            return self.places

    (tmp_path / "x").write_bytes(b"something")
    for room in (npz, _npy_rows):
        monkeypatch.setattr(room, "open_regular", Unsought)
    with pytest.raises(SourceError, match="expected a file that can be read, got: Input") as told:
        opens(tmp_path / "x")
    assert str(tmp_path / "x") == told.value.path


def test_the_other_format_of_numpy_is_told_by_its_type(tmp_path):
    """The file is sound: to copy it again would not help."""
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    with pytest.raises(SourceError, match='it is of "type": "npz"') as caught:
        open_source({"type": "npy", "path": "a.npz"}, tmp_path)
    assert "again" not in str(caught.value)
