"""The npy source gives what numpy has in memory: samples, batches and columns, mapped or not."""

import gc
import os
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from npy_files import ARRAYS, EACH_WAY, open_, raw, save, told

from threadloader.errors import ClosedError, SourceError
from threadloader.sources import ArraySource, column, npy

__all__ = ["open_"]  # the fixture


@EACH_WAY
def test_samples_and_batches_are_those_of_arrays_in_memory(tmp_path, open_, mapped):
    source, plain = open_(mapped, fields=save(tmp_path, **ARRAYS)), ArraySource(ARRAYS)
    assert 6 == len(source)
    assert [told(plain[i]) for i in range(6)] == [told(source[i]) for i in range(6)]
    for indices in ([5, 0, 0, 3], [1, 2, 3, 4], [], np.array([4], np.uint8)):
        assert told(plain.take(indices)) == told(source.take(indices))


@EACH_WAY
@pytest.mark.parametrize("at_once", [1, 64, 1 << 20])
def test_a_column_is_a_field_of_every_sample(tmp_path, open_, monkeypatch, mapped, at_once):
    """Whatever is read at once."""
    monkeypatch.setattr(npy, "_COLUMN_BYTES", at_once)
    arrays = {**ARRAYS, "boxes": np.zeros(6, [("at", ">i2"), ("size", "f4", 2)])}
    source = open_(mapped, fields=save(tmp_path, **arrays))
    assert told(arrays) == told({field: source.column(field) for field in arrays})
    assert source.column("none") is None is source.column(0)
    assert open_(mapped, path="labels.npy").column("labels") is None
    nothing = open_(mapped, fields=save(tmp_path, x=np.zeros((0, 3))))
    assert (0, 3) == nothing.column("x").shape
    source.close()
    with pytest.raises(ClosedError):
        source.column("labels")


def test_for_a_column_no_other_file_is_read(tmp_path, open_):
    source = open_(fields=save(tmp_path, **ARRAYS))
    os.truncate(tmp_path / "images.npy", 1)
    assert ARRAYS["labels"].tolist() == column(source, "labels", "").tolist()
    with pytest.raises(SourceError):
        source[0]


@EACH_WAY
def test_a_column_takes_little_memory_besides(tmp_path, open_, mapped):
    """To take all rows at once would take 40 MB for their numbers."""
    source = open_(mapped, fields=save(tmp_path, x=np.ones(1_000_000, np.int8)))
    tracemalloc.start()
    try:
        values = source.column("x")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert values.all()
    assert peak < 12 << 20


@EACH_WAY
def test_one_file_gives_rows_without_a_name(tmp_path, open_, mapped):
    save(tmp_path, **ARRAYS)
    source = open_(mapped, path="images.npy")
    assert told(ARRAYS["images"][2].copy()) == told(source[2])
    assert told(ARRAYS["images"][[2, 0]]) == told(source.take([2, 0]))


@EACH_WAY
@pytest.mark.parametrize(
    "dtype", ["?", "<i2", ">f8", "S3", "<U2", ">U2", "M8[D]", "V3", "V0", "c16", "f2"]
)
@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 0), (4, 1, 2), (0, 3), (0,)])
def test_any_dtype_and_shape_arrives_as_saved(tmp_path, open_, mapped, dtype, shape):
    size = int(np.prod(shape))
    array = np.arange(size).astype("S3" if dtype[0] == "V" else dtype)
    array = np.zeros(size, "V0") if dtype == "V0" else array.view(dtype)
    array = array.reshape(shape)
    save(tmp_path, x=array)
    source, plain = open_(mapped, path="x.npy"), ArraySource(array)
    assert [told(plain[i]) for i in range(len(array))] == [
        told(source[i]) for i in range(len(source))
    ]
    indices = np.arange(len(array))[::-1]
    assert told(plain.take(indices)) == told(source.take(indices))


@EACH_WAY
def test_records_arrive_as_saved(tmp_path, open_, mapped):
    records = np.zeros(2, [("id", "<i4"), ("box", ">f4", (2,)), ("name", "U2")])
    records["id"] = 1, 2
    save(tmp_path, r=records)
    source = open_(mapped, path="r.npy")
    assert told(ArraySource(records)[1]) == told(source[1])
    assert told(records[::-1].copy()) == told(source.take([1, 0]))


@EACH_WAY
@pytest.mark.parametrize("write", ["1.0", "2.0", "3.0"])
def test_every_version_of_the_format_is_read(tmp_path, open_, mapped, write):
    version = tuple(map(int, write.split(".")))
    with (tmp_path / "x.npy").open("wb") as file:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *args, **options: None)
            np.lib.format.write_array(file, np.arange(5), version)
    assert [4, 0] == open_(mapped, path="x.npy").take([4, 0]).tolist()


@EACH_WAY
def test_samples_are_memory_of_their_own(tmp_path, open_, mapped):
    source = open_(mapped, fields=save(tmp_path, **ARRAYS))
    for give in (lambda: source[1]["images"], lambda: source.take([1])["images"]):
        give()[...] = 99
        assert 4 == give().reshape(-1)[0]


@EACH_WAY
@pytest.mark.parametrize("index", [-1, 6, 2**70, np.int64(6)])
def test_an_index_out_of_range_never_wraps(tmp_path, open_, mapped, index):
    source = open_(mapped, fields=save(tmp_path, **ARRAYS))
    for call in (source.__getitem__, source.locate):
        with pytest.raises(IndexError, match=rf"expected an index of 0 .. 5, got {index}"):
            call(index)
    with pytest.raises((IndexError, TypeError)):
        source.take([0, index])


@EACH_WAY
def test_sixteen_threads_at_once_read_what_one_reads(tmp_path, open_, mapped):
    array = np.random.default_rng(0).integers(0, 2**60, (500, 7))
    source = open_(mapped, fields=save(tmp_path, x=array, y=array[:, 0]))
    barrier = threading.Barrier(16)

    def read(seed):
        barrier.wait()
        order = np.random.default_rng(seed).permutation(500)
        singly = all((array[i] == source[i]["x"]).all() for i in order[:100])
        return singly and (array[order, 0] == source.take(order)["y"]).all()

    with ThreadPoolExecutor(16) as pool:
        assert [True] * 16 == list(pool.map(read, range(16)))


def test_fortran_order_is_mapped_and_refused_by_position(tmp_path, open_):
    array = np.asfortranarray(np.arange(12).reshape(4, 3))
    save(tmp_path, x=array)
    source = open_(True, path="x.npy")
    assert told(np.ascontiguousarray(array[[3, 1]])) == told(source.take([3, 1]))
    assert array[2].tolist() == source[2].tolist()
    with pytest.raises(SourceError, match=r'got Fortran order; .* or set "mmap" to true'):
        open_(path="x.npy")


@EACH_WAY
@pytest.mark.parametrize("shape", [(4,), (4, 1), (1, 4), (0, 4)])
def test_where_both_orders_are_the_same_either_is_read(tmp_path, open_, mapped, shape):
    array = np.arange(np.prod(shape)).reshape(shape)
    (tmp_path / "x.npy").write_bytes(raw(array, fortran_order=True))
    assert told(array) == told(open_(mapped, path="x.npy").take(np.arange(len(array))))


def test_the_fingerprint_tells_data_apart_and_not_the_way_of_reading(tmp_path, open_):
    fields = save(tmp_path, **ARRAYS)
    said = open_(fields=fields).fingerprint()
    mapped = open_(True, fields=fields)
    assert said == mapped.fingerprint()
    mapped.close()
    size = (tmp_path / "labels.npy").stat().st_size
    assert said.startswith("npy, 6 samples, field 'images' u1 (2, 2) (")
    assert f"field 'labels' i8 () ({size} bytes)" in said
    save(tmp_path, labels=np.arange(1, 7, dtype=np.int64))
    assert said != open_(fields=fields).fingerprint()
    assert open_(path="labels.npy").fingerprint().startswith(f"npy, 6 samples, i8 () ({size} b")
    save(tmp_path, e=np.zeros((0, 3)))
    assert open_(path="e.npy").fingerprint().startswith("npy, 0 samples, f8 (3,) (128 bytes), sha")


def test_a_sample_is_located_by_file_and_row(tmp_path, open_):
    save(tmp_path, **ARRAYS)
    assert f"{tmp_path / 'images.npy'}[4]" == open_(path="images.npy").locate(4)
    both = open_(fields={"a": "images.npy", "b": "labels.npy"})
    assert f"{tmp_path / 'images.npy'}[4], {tmp_path / 'labels.npy'}[4]" == both.locate(4)


@EACH_WAY
def test_reading_after_close_is_an_error_and_closing_twice_is_none(tmp_path, open_, mapped):
    source = open_(mapped, path=save(tmp_path, x=np.arange(6))["x"])
    kept = source[2], source.take([3])
    source.close()
    source.close()
    assert (2, [3]) == (kept[0], kept[1].tolist())
    for read in (lambda: source[0], lambda: source.take([0])):
        with pytest.raises(ClosedError, match="expected an open source, got one that has been"):
            read()


@EACH_WAY
@pytest.mark.parametrize("dtype", ["?", "<f8", ">i4", "S3", "<U2", ">U2", "V4", ">M8[s]", "m8[D]"])
def test_a_value_is_a_scalar_where_numpy_has_one_that_carries_the_dtype(
    tmp_path, open_, mapped, dtype
):
    save(tmp_path, values=np.zeros(2, dtype))
    value = open_(mapped, path="values.npy")[1]
    assert np.dtype(dtype) == value.dtype
    carried = np.zeros((), dtype)[()].dtype == np.dtype(dtype)
    assert carried == isinstance(value, np.generic)


def test_reading_a_header_once_more_leaves_nothing_for_the_collector(tmp_path, open_):
    """A folder may have a file, and so a header, for each sample."""
    spec = save(tmp_path, x=np.arange(4.0))
    open_(fields=spec).close()
    gc.collect()
    gc.disable()
    try:
        open_(fields=spec).close()
        assert 0 == gc.collect()
    finally:
        gc.enable()


def test_fields_that_somebody_renames_are_those_of_no_other_file(tmp_path, open_):
    """An array's dtype is an object that can be changed; a header is read for each file."""
    first = open_(fields=save(tmp_path, x=np.zeros(3, "i4,f8")))
    first[0]["x"].dtype.names = ("u", "v")
    again = open_(fields={"x": "x.npy"})
    assert ("f0", "f1") == again[0]["x"].dtype.names
