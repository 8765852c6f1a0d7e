"""The npz source: what it loads, and that a damaged file is an error, never other data."""

import errno
import io
import os
import random
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import as_source, fingerprint, npz, open_source

ARRAYS = {
    "images": np.arange(24, dtype=np.uint8).reshape(6, 2, 2),
    "labels": np.arange(6, dtype=np.int64),
    "names": np.array(["zero", "one", "two", "three", "four", "five"]),
}


def opened(path, **options):
    return open_source({"type": "npz", "path": str(path), **options}, Path())


def content(source):
    """Give all that a source of this kind can tell about its arrays."""
    batch = source.take(np.arange(len(source)))
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in batch.items()}


def npy(array, **header):
    """Give the bytes of an array as a file; with what its header says replaced."""
    file = io.BytesIO()
    said = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, {**said, "shape": array.shape, **header})
    return file.getvalue() + array.tobytes()


def archive(path, method=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("npz") / "good.npz"
    np.savez(path, **ARRAYS)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_it_loads_every_array_under_its_own_name(tmp_path, save):
    save(tmp_path / "a.npz", **ARRAYS)
    source = opened(tmp_path / "a.npz")
    assert 6 == len(source)
    assert {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in ARRAYS.items()
    } == content(source)
    sample = source[2]
    assert (ARRAYS["images"][2].tolist(), 2) == (sample["images"].tolist(), sample["labels"])


def test_fields_are_chosen_and_renamed(good):
    assert ["labels"] == list(opened(good, fields=["labels"])[0])
    assert {"y": 3} == opened(good, fields={"y": "labels"})[3]
    assert ["b", "a"] == list(opened(good, fields={"b": "images", "a": "images"})[0])


@pytest.mark.parametrize("before", [TimeoutError("no answer"), KeyboardInterrupt()], ids=repr)
def test_a_damaged_file_is_told_where_another_error_is_being_handled(good, tmp_path, before):
    cut = tmp_path / "cut.npz"
    cut.write_bytes(good.read_bytes()[:-30])
    try:
        raise before
    except type(before):
        assert "a zip archive of arrays" in str(refused(cut))


def test_a_relative_path_starts_at_the_base(good):
    spec = {"type": "npz", "path": good.name}
    assert 6 == len(open_source(spec, good.parent))


def test_the_file_may_not_lie_outside_of_the_root(good, tmp_path):
    assert 6 == len(npz.open_npz({"path": good.name}, good.parent, good.parent))
    with pytest.raises(SourceError, match='inside the folder "root"'):
        npz.open_npz({"path": good.name}, good.parent, tmp_path)


def test_the_name_is_no_pattern(good):
    assert "a file, found none" in str(refused(good.with_name("g[o]od.npz")))


@pytest.mark.parametrize("dtype", ["?", "<i2", ">f8", "S3", "<U2", "M8[D]", "V3", "c16", "f2"])
@pytest.mark.parametrize("order", "CF")
def test_any_dtype_and_order_arrives_as_saved(tmp_path, dtype, order):
    array = np.asarray(np.arange(12).reshape(4, 3).astype("S3" if dtype == "V3" else dtype))
    array = array.view(dtype) if dtype == "V3" else array
    np.savez(tmp_path / "a.npz", x=np.asarray(array, order=order))
    batch = opened(tmp_path / "a.npz").take(np.arange(4))["x"]
    assert (array.dtype, array.tobytes()) == (batch.dtype, batch.tobytes())


def test_records_and_empty_arrays_arrive_as_saved(tmp_path):
    records = np.zeros(2, [("id", "<i4"), ("box", ">f4", (2,)), ("größe", "U2")])
    records["id"] = 1, 2
    np.savez(tmp_path / "a.npz", r=records, e=np.zeros((2, 0)), z=np.zeros((2, 3), "V0"))
    batch = opened(tmp_path / "a.npz", fields=["r", "e"]).take([0, 1])
    assert (records.dtype, records.tobytes()) == (batch["r"].dtype, batch["r"].tobytes())
    assert (2, 0) == batch["e"].shape
    nothing = opened(tmp_path / "a.npz", fields=["z"]).take([0])["z"]
    assert ((1, 3), np.dtype("V0")) == (nothing.shape, nothing.dtype)


def test_what_is_no_array_is_left_out(tmp_path):
    path = archive(tmp_path / "a.npz", x=npy(np.arange(3)))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("README.txt", "about x")
    assert {"x": 1} == opened(path)[1]


def test_the_fingerprint_has_the_size_of_the_file_and_the_data(good, tmp_path):
    said = fingerprint(opened(good))
    assert said.startswith(f"npz, {good.stat().st_size} bytes, dict, 6 samples, field 'images'")
    np.savez(tmp_path / "b.npz", **{**ARRAYS, "labels": np.arange(1, 7, dtype=np.int64)})
    assert said != fingerprint(opened(tmp_path / "b.npz"))


def test_a_sample_is_located_by_file_and_row(good):
    assert f"{good}[4]" == opened(good).locate(4)


def test_no_file_is_open_after_opening(good, monkeypatch):
    files = []
    real = npz.open_regular
    monkeypatch.setattr(npz, "open_regular", lambda path: files.append(real(path)) or files[-1])
    opened(good).close()
    with pytest.raises(SourceError):
        opened(good, fields=["nothing"])
    assert [True, True] == [file.closed for file in files]


# What is refused


def refused(path, **options):
    with pytest.raises(SourceError) as caught:
        opened(path, **options)
    assert str(path) == caught.value.path
    return caught.value


def test_a_missing_file_says_where_relative_paths_start(tmp_path):
    error = refused(tmp_path / "no.npz")
    assert f"{tmp_path / 'no.npz'}: expected a file, found none; a relative path starts at " in str(
        error
    )


def test_what_is_no_regular_file_is_refused(tmp_path):
    assert "got a folder" in str(refused(tmp_path))
    assert "expected a file that can be read, got: " in str(refused("nul\0byte"))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert "a pipe, socket or device" in str(refused(tmp_path / "pipe"))
    if os.name != "nt" and Path("/dev/zero").exists():
        assert "a pipe, socket or device" in str(refused("/dev/zero"))


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


def test_an_archive_without_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz")
    assert "expected at least one array, got none" in str(refused(tmp_path / "a.npz"))


def test_a_missing_field_names_the_nearest(good):
    error = refused(good, fields={"y": "label"})
    assert "/fields" == error.option
    assert (
        "expected arrays of the names that are in the file, 'images', 'labels', 'names', "
        "got 'label' (did you mean 'labels'?)"
    ) == error.message


def test_all_missing_fields_are_named_at_once(good):
    error = refused(good, fields={"y": "label", "x": "imges", "n": "names"})
    assert error.message.endswith(
        "got 'label' (did you mean 'labels'?); 'imges' (did you mean 'images'?)"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([], "at least one field"),
        ({}, "at least one field"),
        (["labels", "labels"], "each field once"),
    ],
)
def test_an_empty_or_doubled_choice_is_a_config_error(good, fields, said):
    with pytest.raises(ConfigError, match=rf"/source/fields: expected {said}"):
        opened(good, fields=fields)


class Bomb:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_pickled_objects_are_refused_and_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(2), y=np.array([Bomb(), Bomb()]))
    error = refused(tmp_path / "a.npz")
    assert "field 'y'" == error.place
    assert "got Python objects, which are never unpickled" in error.message
    assert 2 == len(opened(tmp_path / "a.npz", fields=["x"]))


def test_a_single_value_and_differing_lengths_name_the_field(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.arange(4), scale=2.0)
    assert "field 'scale': expected one sample a row, got a single value" in str(
        refused(tmp_path / "a.npz")
    )
    error = refused(tmp_path / "a.npz", fields=["x", "y"])
    assert "field 'y'" == error.place
    assert "expected as many rows as field 'x' has, 3, got 4; choose" in error.message


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
        (b"\x93NUMPY\x01\x00\xff\xff{}", "expected a header of 65535 bytes (at most 10000), got 2"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", "expected a header of 4294967295 bytes"),
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
def test_any_bytes_are_an_array_or_a_refusal(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.npz"
    for content in (data, b"\x93NUMPY\x01\x00" + data):
        archive(path, x=content)
        with pytest.raises(SourceError):
            opened(path)


def test_what_a_signal_handler_raises_while_it_is_read_passes_as_it_is(good, monkeypatch):
    rung = TimeoutError("rung")

    def ring(*args):
        raise rung

    monkeypatch.setattr(npz, "read_header", ring)
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

    monkeypatch.setattr(npz.zipfile, "_EndRecData", ring)
    with pytest.raises(TimeoutError) as caught:
        opened(good)
    assert rung is caught.value


def test_given_in_code_it_is_taken_as_it_is(good):
    source = opened(good)
    assert as_source(source) is source


def test_the_other_format_of_numpy_is_told_by_its_type(tmp_path):
    """The file is sound: to copy it again would not help."""
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(SourceError, match='it is of "type": "npy"') as caught:
        open_source({"type": "npz", "path": "a.npy"}, tmp_path)
    assert "again" not in str(caught.value)


def test_closed_it_holds_no_array_any_more_and_refuses_reads(tmp_path):
    """A loop that is over keeps its `batches`, while the next one loads its own data."""
    np.savez(tmp_path / "a.npz", x=np.ones((4, 1 << 18)))
    config = {"source": {"type": "npz", "path": str(tmp_path / "a.npz")}, "num_workers": 0}
    tracemalloc.start()
    try:
        with Loader(config) as batches:
            assert tracemalloc.get_traced_memory()[0] > 8 << 20
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()
    assert batches.stats().batches == 0
    source = open_source(config["source"])
    source.close()
    for read in (lambda: source[0], lambda: source.take([0]), source.fingerprint):
        with pytest.raises(ClosedError, match=r"a\.npz: expected an open source"):
            read()


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


def test_of_a_thousand_wrong_names_the_nearest_of_a_few_is_looked_for(tmp_path, monkeypatch):
    """Among thousands that takes a while for each."""
    looked = []
    monkeypatch.setattr(npz, "nearest", lambda name, known: looked.append(name) or "")
    np.savez(tmp_path / "x.npz", a=np.arange(3))
    names = [f"n{number}" for number in range(1000)]
    with pytest.raises(SourceError, match="'n999'"):
        open_source({"type": "npz", "path": "x.npz", "fields": names}, tmp_path)
    assert names[:10] == looked
