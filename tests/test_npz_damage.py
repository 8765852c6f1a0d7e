"""A damaged or foreign npz file is an error, never other data; what stops a read is no damage."""

import errno
import io
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from npy_files import raw as npy
from npz_files import archive, content, good, opened, refused

from threadloader.errors import SourceError
from threadloader.sources import _npz_archive, npz, open_source

__all__ = ["good"]  # the fixture


@pytest.mark.parametrize("before", [TimeoutError("no answer"), KeyboardInterrupt()], ids=repr)
def test_a_damaged_file_is_told_where_another_error_is_being_handled(good, tmp_path, before):
    cut = tmp_path / "cut.npz"
    cut.write_bytes(good.read_bytes()[:-30])
    try:
        raise before
    except type(before):
        assert "a zip archive of arrays" in str(refused(cut))


@pytest.mark.parametrize(
    "data", [b"", b"x", b"PK\5\6", b"not a zip archive" * 100, npy(np.ones(2))[1:]]
)
def test_what_is_no_archive_is_refused(tmp_path, data):
    (tmp_path / "a.npz").write_bytes(data)
    assert "expected an npz file (a zip archive of arrays)" in str(refused(tmp_path / "a.npz"))


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EMFILE])
def test_what_the_system_says_of_a_read_is_no_damage(good, monkeypatch, number):
    """Made again the file would be the same."""

    def read(self, size=-1):
        raise OSError(number, "not now")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", read)
    said = str(refused(good))
    assert "expected a file that can be read, got: not now" in said
    assert ("open fewer files" in said) == (number == errno.EMFILE)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_the_system_says_at_any_read_of_the_file_is_no_damage(tmp_path, monkeypatch, save):
    """zipfile makes of some that the file is no zip file."""

    class Failing(io.FileIO):
        left = 0

        def readinto(self, memory):
            Failing.left -= 1
            if not Failing.left:
                raise OSError(errno.EIO, "Input/output error")
            return super().readinto(memory)

    save(tmp_path / "a.npz", x=np.random.default_rng(0).random(5000))
    monkeypatch.setattr(npz, "open_regular", Failing)
    said = []
    while Failing.left <= 0:  # until one that fails would come behind the last
        Failing.left = len(said) + 1
        try:
            opened(tmp_path / "a.npz").close()
        except SourceError as error:
            said.append(error.message)
    assert len(said) > 3
    assert {"expected a file that can be read, got: Input/output error"} == set(said)


@pytest.mark.filterwarnings("ignore:Duplicate name")  # what zipfile says when it is written
def test_a_doubled_member_is_refused(tmp_path):
    path = archive(tmp_path / "a.npz", x=npy(np.zeros(2)))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("x.npy", npy(np.ones(2)))
    assert "field 'x': expected one array of this name, got several" in str(refused(path))


@pytest.mark.parametrize(
    "header",
    [
        {"shape": (4,)},
        {"shape": (2,)},
        {"shape": (10**18,)},
        {"shape": (10**30, 10**30)},
        {"shape": (-1,)},
        {"shape": (True, 3)},
        {"shape": (3.0,)},
        {"shape": [3]},
        {"shape": "3"},
        {"shape": (3,) + (1,) * 80},
        {"descr": "<f4"},
        {"descr": "<i9"},
        {"descr": "nothing"},
        {"descr": "|S0", "shape": (10**12,)},
        {"descr": "|V0", "shape": (10**30,)},
        {"shape": (0, 10**30)},
        {"descr": "(3,)<i8", "shape": (1,)},
        {"descr": 7},
        {"descr": [("a", "<i8"), ("a", "<i8")]},
        {"fortran_order": 1},
    ],
    ids=str,
)
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, header):
    path = archive(tmp_path / "a.npz", x=npy(np.arange(3, dtype=np.int64), **header))
    tracemalloc.start()
    error = refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "field 'x'" == error.place
    assert peak < 4 << 20


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "expected an array in numpy's format 1.0 to 3.0, got the bytes b''"),
        (b"hello, world", "expected an array in numpy's format"),
        (b"\x93NUMPY\x04\x00" + bytes(100), "expected an array in numpy's format"),
        (b"\x93NUMPY\x01\x00\x10\x27{}", "expected a header of 10000 bytes, got 2"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
            "expected a header of at most 10000 bytes, got one of 4294967295",
        ),
        (b"\x93NUMPY\x01\x00\x02\x00{}", "expected a dtype and a shape, got {}"),
        (b"\x93NUMPY\x01\x00\x02\x00][", "expected a dtype and a shape, got ][; "),
        (b"\x93NUMPY\x01\x00\x04\x00f(1)", "expected a dtype and a shape, got f(1); "),
        (b"\x93NUMPY\x01\x00\x10\x27" + b"-" * 9999 + b"1", "expected a "),
        (b"\x93NUMPY\x01\x00\x10\x27" + b"(" * 10000, "expected a dtype and a shape, got (((("),
        (b"\x93NUMPY\x03\x00\x02\x00\x00\x00\xff\xff", "expected a readable array, got: 'utf-8'"),
        (npy(np.arange(3.0))[:-1], "expected 24 bytes for shape (3,) of float64, got 23"),
        (npy(np.arange(3.0)) + b"\0", "expected 24 bytes for shape (3,) of float64, got 25"),
    ],
)
def test_a_member_that_is_no_whole_array_is_refused(tmp_path, data, said):
    error = refused(archive(tmp_path / "a.npz", x=data))
    assert "field 'x'" == error.place
    assert error.message.startswith(said)


def forge(path, offset, layout, value):
    """Overwrite a number in the first entry of the table of contents."""
    data = bytearray(path.read_bytes())
    struct.pack_into(layout, data, data.index(b"PK\1\2") + offset, value)
    path.write_bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("size", [0, 100, 0xFFFFFFF0])
def test_a_table_of_contents_that_lies_about_a_size_is_refused(tmp_path, method, size):
    path = archive(tmp_path / "a.npz", method, x=npy(np.arange(3), shape=(size // 8,)))
    forge(path, 24, "<I", size)
    assert "field 'x'" == refused(path).place


def test_a_member_that_ends_early_is_refused_even_if_its_checksum_is_right(tmp_path):
    data = npy(np.arange(3.0))
    path = archive(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, x=data[:-8])
    forge(path, 24, "<I", len(data))
    assert "field 'x': expected 24 bytes, got 16" in str(refused(path))


def test_a_wrong_checksum_is_refused(tmp_path):
    path = archive(tmp_path / "a.npz", x=npy(np.arange(3)))
    forge(path, 16, "<I", 12345)
    assert "Bad CRC-32" in str(refused(path))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path, method):
    path = archive(tmp_path / "a.npz", method, x=npy(np.arange(3)))
    assert "expected it stored or deflated" in str(refused(path))


def test_an_encrypted_member_is_refused(tmp_path):
    path = archive(tmp_path / "a.npz", x=npy(np.arange(3)))
    forge(path, 8, "<H", 1)
    assert "is encrypted" in str(refused(path))


def test_a_lost_entry_of_the_table_of_contents_is_noticed(tmp_path):
    """The comment of the first entry is made so long that it swallows the second."""
    path = archive(tmp_path / "a.npz", x=npy(np.arange(3)), y=npy(np.arange(3)))
    forge(path, 32, "<H", 46 + len("y.npy"))
    assert "expected the 2 members that the archive announces, got 1" in str(refused(path))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_cut_anywhere_is_refused(tmp_path, save):
    save(tmp_path / "whole.npz", x=np.arange(3), y=np.ones((3, 2)))
    whole = (tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "cut.npz"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        refused(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_changed_byte_is_an_error_or_changes_nothing(tmp_path, save):
    save(tmp_path / "whole.npz", x=np.arange(3), y=np.ones((3, 2)), n=np.array(["a", "b", "c"]))
    whole = (tmp_path / "whole.npz").read_bytes()
    expected = content(opened(tmp_path / "whole.npz"))
    dice = random.Random(0)
    path = tmp_path / "changed.npz"
    refusals = 0
    for _ in range(600):
        changed = bytearray(whole)
        for _ in range(dice.choice((1, 1, 2))):
            changed[dice.randrange(len(whole))] = dice.randrange(256)
        path.write_bytes(changed)
        try:
            assert expected == content(opened(path))
        except SourceError:
            refusals += 1
    assert 200 < refusals < 600


@given(st.binary(max_size=300))
def test_bytes_that_are_no_array_are_refused_whatever_they_are(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.npz"
    for member in (data, b"\x93NUMPY\x01\x00" + data):
        archive(path, x=member)
        with pytest.raises(SourceError):
            opened(path)


def test_what_a_signal_handler_raises_while_it_is_read_passes_as_it_is(good, monkeypatch):
    rung = TimeoutError("rung")

    def ring(*args):
        raise rung

    monkeypatch.setattr(_npz_archive, "read_header", ring)
    with pytest.raises(TimeoutError) as caught:
        opened(good)
    assert rung is caught.value


def test_what_a_signal_handler_raises_while_its_end_is_looked_for_passes_as_it_is(
    good, monkeypatch
):
    """Of any error of the system zipfile makes one of the file: that it is not a zip file."""
    rung = TimeoutError("rung")

    def ring(*args):
        raise rung

    monkeypatch.setattr(_npz_archive.zipfile, "_EndRecData", ring)
    with pytest.raises(TimeoutError) as caught:
        opened(good)
    assert rung is caught.value


def test_an_end_that_was_missed_is_looked_for_once_more(good, monkeypatch):
    """zipfile takes an OSError that a handler raises at a seek there for a file without an end."""
    plain, missed = zipfile._EndRecData, iter([None])
    monkeypatch.setattr(zipfile, "_EndRecData", lambda file: next(missed, file) and plain(file))
    opened(good)
    assert [] == list(missed)


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """As of an archive that makes gigabytes of a hundred kilobytes."""
    path = tmp_path / "x.npz"
    array = io.BytesIO()
    np.save(array, np.zeros(1000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", array.getvalue())
        file.writestr("b.npy", array.getvalue())
        # The table of contents has the second member at the place of the first.
        file.getinfo("b.npy").header_offset = file.getinfo("a.npy").header_offset
    with pytest.raises(SourceError, match=r"field '[ab]': expected bytes of its own"):
        open_source({"type": "npz", "path": str(path)})
