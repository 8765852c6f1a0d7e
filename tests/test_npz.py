"""The npz source gives each array as it was saved, or says which file or field it cannot give."""

import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from npy_files import ARRAYS
from npy_files import raw as npy
from npz_files import archive, content, good, opened, refused

from threadloader import Loader
from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import _npz_archive, as_source, fingerprint, npz, open_source

__all__ = ["good"]  # the fixture


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


def test_a_relative_path_starts_at_the_base(good):
    spec = {"type": "npz", "path": good.name}
    assert 6 == len(open_source(spec, good.parent))


def test_the_file_may_not_lie_outside_of_the_root(good, tmp_path):
    assert 6 == len(npz.open_npz({"path": good.name}, good.parent, good.parent))
    with pytest.raises(SourceError, match='inside the folder "root"'):
        npz.open_npz({"path": good.name}, good.parent, tmp_path)


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


def test_of_a_thousand_wrong_names_the_nearest_of_a_few_is_looked_for(tmp_path, monkeypatch):
    """Among thousands that takes a while for each."""
    looked = []
    monkeypatch.setattr(_npz_archive, "nearest", lambda name, known: looked.append(name) or "")
    np.savez(tmp_path / "x.npz", a=np.arange(3))
    names = [f"n{number}" for number in range(1000)]
    with pytest.raises(SourceError, match="'n999'"):
        open_source({"type": "npz", "path": "x.npz", "fields": names}, tmp_path)
    assert names[:10] == looked
