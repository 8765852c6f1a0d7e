"""The npy source: rows as numpy has them, from many threads, and from damaged files."""

import contextlib
import errno
import functools
import io
import os
import random
import signal
import sys
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from links import make_link

from threadloader.errors import ClosedError, ConfigError, SourceError
from threadloader.sources import (
    ArraySource,
    _files,
    _labels,
    _npy_header,
    _npy_rows,
    column,
    columns,
    npy,
    npz,
    open_source,
    read_numbers,
)
from threadloader.sources._files import FileReader
from threadloader.sources.npy import NpySource, open_npy

ARRAYS = {
    "images": np.arange(24, dtype=np.uint8).reshape(6, 2, 2),
    "labels": np.arange(6, dtype=np.int64),
    "names": np.array(["zero", "one", "two", "three", "four", "five"]),
}
EACH_WAY = pytest.mark.parametrize("mapped", [False, True], ids=["by position", "mapped"])

needs_preadv = pytest.mark.skipif(not hasattr(os, "preadv"), reason="this system has no preadv")


@pytest.fixture
def open_(tmp_path):
    """Opens sources in the test's folder and closes them at its end."""
    opened = []

    def open_(mapped=False, root=None, **spec):
        opened.append(open_npy({"type": "npy", "mmap": mapped, **spec}, tmp_path, root))
        return opened[-1]

    yield open_
    for source in opened:
        source.close()


def save(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return {name: f"{name}.npy" for name in arrays}


def raw(array, **header):
    """Give the bytes of an array as a file; with what its header says replaced."""
    file = io.BytesIO()
    said = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, {**said, "shape": array.shape, **header})
    return file.getvalue() + array.tobytes()


def told(value):
    """Tell all about an array, a scalar, or a dict of them."""
    if isinstance(value, dict):
        return {name: told(each) for name, each in value.items()}
    return type(value), value.dtype, value.shape, value.tobytes()


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


def split(folder, name, array, cuts):
    """Save an array part by part, cut before these rows; give a pattern for the files."""
    for number, part in enumerate(np.split(array, cuts)):
        np.save(folder / f"{name}-{number}.npy", part)
    return f"{name}-*.npy"


@EACH_WAY
@given(data=st.data())
def test_an_array_in_several_files_is_the_one_that_was_cut(tmp_path_factory, mapped, data):
    """Parts without rows included, and another number of files for each field."""
    folder, rows = tmp_path_factory.mktemp("cut"), data.draw(st.integers(1, 12))
    arrays = {name: array[:rows] for name, array in BOXED.items()}
    cuts = st.lists(st.integers(0, rows), max_size=4).map(sorted)
    fields = {name: split(folder, name, it, data.draw(cuts)) for name, it in arrays.items()}
    indices = data.draw(st.lists(st.integers(0, rows - 1), max_size=20))
    plain = ArraySource(arrays)
    spec = {"type": "npy", "fields": fields, "mmap": mapped}
    with contextlib.closing(open_source(spec, folder)) as source:
        assert rows == len(source)
        assert [told(plain[i]) for i in range(rows)] == [told(source[i]) for i in range(rows)]
        assert told(plain.take(indices)) == told(source.take(indices))
        assert told(arrays) == told({name: source.column(name) for name in arrays})


BOXED = {
    "x": np.arange(48, dtype=">i2").reshape(12, 2, 2),
    "y": np.array(list("abcdefghijkl")),
    "z": np.arange(12.0),
}


@EACH_WAY
def test_files_follow_one_another_as_they_are_listed(tmp_path, open_, mapped):
    split(tmp_path, "x", np.arange(6), [2, 3])
    source = open_(mapped, path=["x-2.npy", "x-[01].npy"])
    assert [3, 4, 5, 0, 1, 2] == source.take(range(6)).tolist()
    assert f"{tmp_path / 'x-1.npy'}[0]" == source.locate(5)
    source.close()
    reads = [lambda: source[0], lambda: source.take([0]), lambda: source.take([0, 5])]
    for read in (*reads, *([lambda: source.take([])] if mapped else [])):
        with pytest.raises(ClosedError):
            read()


@EACH_WAY
@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            np.zeros((2, 4)),
            r"expected rows of float64 \(3,\), as .*x-0\.npy has, got float64 \(4,\)",
        ),
        (np.zeros((2, 3), ">f8"), "expected rows of float64 .*, got >f8 "),
        (np.zeros(2), r"got float64 \(\); name files that belong together"),
    ],
)
def test_files_of_one_array_have_rows_of_one_kind(tmp_path, open_, mapped, other, said):
    save(tmp_path, **{"x-0": np.zeros((2, 3)), "x-1": np.zeros((1, 3)), "x-2": other})
    with pytest.raises(SourceError, match=said) as caught:
        open_(mapped, path="x-*.npy")
    assert str(tmp_path / "x-2.npy") == caught.value.path


@EACH_WAY
def test_files_that_are_not_there_are_told_for_all_arrays(tmp_path, open_, mapped):
    save(tmp_path, x=np.arange(3), y=np.zeros((3, 2)))
    with pytest.raises(SourceError, match=r"found none, nor at .*4") as caught:
        open_(mapped, fields={"a": ["x.npy", "3.npy"], "b": ["x.npy", "y.npy", "4.npy"]})
    assert str(tmp_path / "3.npy") == caught.value.path


@EACH_WAY
def test_another_number_of_rows_is_told_of_the_fields(tmp_path, open_, mapped):
    """One file of an array does not say how many there are, and may be in both."""
    split(tmp_path, "x", np.arange(6), [3])
    for names, said in (
        (("x-*.npy", "x-0.npy"), "as the 2 files from .*x-0.npy on have, 6, got 3;"),
        (("x-0.npy", "x-*.npy"), "as .*x-0.npy has, 3, got 6 in 2 files;"),
    ):
        with pytest.raises(SourceError, match=said) as caught:
            open_(mapped, fields=dict(zip("ab", names, strict=True)))
        assert "/fields/b" == caught.value.option


@EACH_WAY
@pytest.mark.parametrize(
    "names",
    ["none-*.npy", ["x-0.npy", "x-*.npy"], "none.npy", ["x-0.npy", "y.npy"], "damaged.npy"],
    ids=str,
)
def test_a_fault_of_a_field_is_told_at_it(tmp_path, open_, mapped, names):
    """Though other fields name the same files, or a pattern has found them."""
    split(tmp_path, "x", np.arange(6), [3])
    save(tmp_path, y=np.zeros((6, 2)))
    (tmp_path / "damaged.npy").write_bytes(b"damaged")
    with pytest.raises(SourceError) as caught:
        open_(mapped, fields={"x": "x-*.npy", "a/b~": names})
    assert "/fields/a~1b~0" == caught.value.option
    with pytest.raises(SourceError) as caught:
        open_(mapped, path=names)
    assert caught.value.option == ""


@EACH_WAY
@pytest.mark.parametrize("rows", [(), (3,)])
def test_what_lies_between_fields_of_records_is_that_of_the_files(tmp_path, open_, mapped, rows):
    """And not what was in memory before, which differs from run to run."""
    kind = np.dtype([("a", "u1"), ("b", "f8")], align=True)
    array = np.frombuffer(bytes(range(240)) * kind.itemsize, kind)[: 12 * (3 if rows else 1)]
    array = array.reshape(12, *rows)
    source = open_(mapped, path=split(tmp_path, "x", array, [4, 5]))

    def empty(shape, dtype=float):
        made = np.empty(shape, dtype)
        made.reshape(-1).view(np.uint8)[:] = 0xAB
        return made

    order = [11, 0, 4, 5]
    stored = np.frombuffer(array.tobytes(), f"V{array.nbytes // 12}")
    assert stored[order].tobytes() == source.take_into(order, empty).tobytes()


@EACH_WAY
def test_rows_larger_than_any_value_are_gathered_from_several_files(
    tmp_path, open_, mapped, monkeypatch
):
    """numpy has dtypes up to one byte less than 2 GiB; rows may have more."""
    assert _npy_rows._LARGEST == np.dtype(f"V{_npy_rows._LARGEST}").itemsize
    with pytest.raises(TypeError):
        np.dtype(f"V{_npy_rows._LARGEST + 1}")
    monkeypatch.setattr(_npy_rows, "_LARGEST", 23)
    array = np.arange(24.0).reshape(8, 3)
    assert (8, 24) == _npy_rows._as_bytes(array, 24).shape
    source = open_(mapped, path=split(tmp_path, "x", array, [3, 5]))
    order = [7, 0, 4, 3, 3, 2]
    assert (array[order] == source.take(order)).all()


def test_more_rows_than_are_counted_are_told(tmp_path, open_):
    """Of rows without bytes a small file may say that it has any number."""
    for name in "ab":
        (tmp_path / f"{name}.npy").write_bytes(header_of("'|u1'", f"({2**62}, 0)"))
    with pytest.raises(SourceError, match=r"fewer than 2\*\*63 rows in all files, got 9223"):
        open_(path=["a.npy", "b.npy"])


@EACH_WAY
def test_one_file_that_cannot_be_joined_closes_all(tmp_path, monkeypatch, mapped):
    closed, kind = [], npy.Mapped if mapped else npy.Positioned
    close = kind.close
    monkeypatch.setattr(kind, "close", lambda self: closed.append(self.path.name) or close(self))
    save(tmp_path, a=np.zeros(2), b=np.zeros((2, 1)))
    with pytest.raises(SourceError, match="belong together"):
        NpySource([tmp_path / "a.npy", tmp_path / "b.npy"], mapped=mapped)
    assert ["b.npy", "a.npy"] == closed


def test_of_more_files_than_may_be_open_some_are_opened_for_each_read(tmp_path, monkeypatch):
    array = np.arange(60).reshape(30, 2)
    split(tmp_path, "x", array, range(1, 30))
    split(tmp_path, "y", array, [10, 20])
    monkeypatch.setattr(npy, "kept_open", lambda: 7)
    fields = {"x": [f"x-{i}.npy" for i in range(30)], "y": "y-*.npy"}
    with contextlib.closing(open_npy({"fields": fields}, tmp_path)) as source:
        parts = [part for rows in source._rows for part in rows._parts]
        assert [True] * 7 + [False] * 26 == [part._reader._keep for part in parts]
        order = np.random.default_rng(0).permutation(30)
        batch = source.take(order)
        assert (array[order] == batch["x"]).all()
        assert (array[order] == batch["y"]).all()


@EACH_WAY
def test_an_array_in_several_files_is_gathered_as_one(tmp_path, open_, mapped):
    """What tells how many batches are made together, and memory that is used again."""
    arrays = {"x": np.arange(60.0).reshape(20, 3), "y": np.arange(20, dtype=np.uint8)}
    fields = {"x": split(tmp_path, "x", arrays["x"], [7, 12]), "y": save(tmp_path, **arrays)["y"]}
    source = open_(mapped, fields=fields)
    assert (25, mapped) == (source.sample_bytes, source.in_memory)
    for rows in ([3, 1], [19, 0, 8]):  # of one file, and of three
        made = []

        def empty(*given, made=made):
            made.append(np.empty(*given))
            return made[-1]

        batch = source.take_into(rows, empty)
        assert (arrays["x"][rows] == batch["x"]).all()
        assert any(np.shares_memory(batch["x"], each) for each in made)
        assert sum(each.nbytes for each in made) == 25 * len(rows)


@EACH_WAY
def test_a_link_to_a_file_of_the_same_array_is_refused(tmp_path, open_, mapped):
    save(tmp_path, x=np.arange(3))
    make_link(tmp_path / "y.npy", "x.npy")
    with pytest.raises(SourceError, match="expected each file once"):
        open_(mapped, path="*.npy")
    assert 3 == len(open_(mapped, fields={"x": "x.npy", "y": "y.npy"}))


def test_how_an_array_is_cut_is_part_of_its_fingerprint(tmp_path, open_):
    """As of the other kinds that span several files: of each the size is known."""
    array, told = np.arange(8), set()
    for number, cuts in enumerate([[], [2], [4], [2, 4]]):
        path = split(tmp_path, f"x{number}", array, cuts)
        plain, mapped = (open_(way, path=path).fingerprint() for way in (False, True))
        assert plain == mapped
        told.add(plain)
    assert 4 == len(told)
    assert "(3 files of 448 bytes)" in plain


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


@st.composite
def reads(draw):
    """Draw a number of rows, the width of a row, indices, and how reads are put together."""
    rows, width = draw(st.integers(1, 60)), draw(st.integers(0, 5))
    indices = draw(st.lists(st.integers(0, rows - 1), max_size=20))
    return rows, width, indices, draw(st.integers(0, 12)), draw(st.integers(1, 40))


@given(reads(), st.sampled_from(["u1", "<i4"]))
def test_a_batch_is_what_numpy_takes_however_the_reads_fall(tmp_path_factory, drawn, dtype):
    rows, width, indices, gap, together = drawn
    array = np.arange(rows * width, dtype=dtype).reshape(rows, width)
    path = tmp_path_factory.getbasetemp() / "any.npy"
    np.save(path, array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_files, "_GAP", gap)
        patch.setattr(_files, "_TOGETHER", together)
        source = NpySource(path)
        assert told(array[np.array(indices, np.intp)]) == told(source.take(indices))
        source.close()


def test_neighbouring_rows_are_one_read_and_far_ones_are_not(tmp_path, open_, monkeypatch, ranges):
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source = open_(path="x.npy")
    ranges.clear()  # of its header
    source.take([12, 50, 10, 11, 10])
    assert [(128 + 10 * 8192, 3 * 8192), (128 + 50 * 8192, 8192)] == sorted(ranges)
    ranges.clear()
    monkeypatch.setattr(_files, "_TOGETHER", 2 * 8192)
    source.take([10, 11, 12])
    assert [2 * 8192, 8192] == [length for _, length in ranges]


@needs_preadv
@pytest.mark.parametrize("most", [1, 20, 55])
def test_a_row_of_which_the_system_gives_a_part_comes_whole(tmp_path, open_, monkeypatch, most):
    array = np.random.default_rng(0).integers(0, 256, (100, 8192), np.uint8)
    save(tmp_path, x=array)
    source, preadv = open_(path="x.npy"), os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, into, at: preadv(file, [into[0][:most]], at))
    assert np.array_equal(array[[70, 3, 99]], source.take([70, 3, 99]))


@needs_preadv
def test_a_row_that_the_system_does_not_give_is_told_with_its_place(tmp_path, open_, monkeypatch):
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, pread, place = open_(path="x.npy"), os.pread, 128 + 70 * 8192

    def fail(read, file, what, at):
        if at == place:
            raise OSError(errno.EIO, "broken")
        return read(file, what, at)

    monkeypatch.setattr(os, "preadv", functools.partial(fail, os.preadv))
    assert 0 == source.take([3, 70, 99]).sum(), "once more, and it was there"
    monkeypatch.setattr(os, "pread", functools.partial(fail, pread))
    with pytest.raises(SourceError, match=rf"byte {place}: expected 8192 bytes, got: broken"):
        source.take([3, 70, 99])


@needs_preadv
@pytest.mark.parametrize("size", [127 + 71 * 8192, 129 + 100 * 8192, 9000])
def test_a_file_that_is_another_while_its_rows_are_read_is_told(tmp_path, open_, monkeypatch, size):
    """It is cut in one of them, or gets longer, and all rows are there as they were."""
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, preadv = open_(path="x.npy"), os.preadv

    def change(file, into, at):
        os.truncate(tmp_path / "x.npy", size)
        return preadv(file, into, at)

    monkeypatch.setattr(os, "preadv", change)
    with pytest.raises(SourceError, match=f"that it had when it was opened, got {size}"):
        source.take([3, 70, 50])


@needs_preadv
def test_a_file_that_ended_in_a_row_is_told_though_it_has_its_size_again(
    tmp_path, open_, monkeypatch
):
    """Somebody writes it anew while it is read: what the row would be made of is of two files."""
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, preadv, size = open_(path="x.npy"), os.preadv, 128 + 100 * 8192
    place = 128 + 70 * 8192
    end = place + 8192 - 1  # the last byte of the row is not there

    def change(file, into, at):
        os.truncate(tmp_path / "x.npy", end)
        count = preadv(file, into, at)
        os.truncate(tmp_path / "x.npy", size)
        return count

    monkeypatch.setattr(os, "preadv", change)
    with pytest.raises(SourceError, match=f"byte {place}: expected 8192 bytes, got 8191, though"):
        source.take([3, 70])


@needs_preadv
@pytest.mark.parametrize("kind", [TimeoutError, ValueError])
def test_what_a_signal_handler_raises_beside_a_row_passes_as_it_is(
    tmp_path, open_, monkeypatch, kind
):
    save(tmp_path, x=np.zeros((100, 8192), np.uint8))
    source, preadv = open_(path="x.npy"), os.preadv
    raised = kind("rung")

    def handler(number, frame):
        raise raised

    def interrupted(*args):
        signal.raise_signal(signal.SIGINT)
        return preadv(*args)

    monkeypatch.setattr(os, "preadv", interrupted)
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(kind) as caught:
            source.take([3, 70])
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised is caught.value


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


def test_each_thread_has_a_handle_where_there_is_no_pread(tmp_path, open_, monkeypatch):
    monkeypatch.setattr(_npy_rows, "FileReader", functools.partial(FileReader, shared=False))
    source = open_(fields=save(tmp_path, **ARRAYS))
    with ThreadPoolExecutor(4) as pool:
        assert [3, 4] * 8 == list(pool.map(lambda i: source[i]["labels"], [3, 4] * 8))


def test_what_a_signal_handler_raises_passes_as_it_is(tmp_path, open_, monkeypatch):
    """While a file is mapped."""
    save(tmp_path, x=np.arange(4))
    rung = TimeoutError("rung")

    def mapping(*args, **options):
        raise rung

    monkeypatch.setattr(_npy_rows.mmap, "mmap", mapping)
    with pytest.raises(TimeoutError) as caught:
        open_(True, path="x.npy")
    assert rung is caught.value


def test_what_a_signal_handler_raises_in_the_header_passes_as_it_is(tmp_path, open_, monkeypatch):
    save(tmp_path, x=np.arange(4))
    rung = TimeoutError("rung")

    def parsing(*args):
        raise rung

    monkeypatch.setattr(_npy_header, "_parse", parsing)
    with pytest.raises(TimeoutError) as caught:
        open_(path="x.npy")
    assert rung is caught.value


# Fortran order


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


# Fingerprint and place


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


# What is refused


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


class Bomb:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


@EACH_WAY
def test_pickled_objects_and_single_values_are_refused(tmp_path, open_, mapped):
    np.save(tmp_path / "x.npy", np.array([Bomb(), Bomb()]), allow_pickle=True)
    with pytest.raises(SourceError, match="got Python objects, which are never unpickled"):
        open_(mapped, path="x.npy")
    save(tmp_path, x=np.array(3))
    with pytest.raises(SourceError, match="got a single value of shape"):
        open_(mapped, path="x.npy")


@EACH_WAY
@pytest.mark.parametrize(
    "header",
    [
        *({"shape": shape} for shape in ((4,), (2,), (10**18,), (10**30, 10**30), (-1,), [3], "3")),
        *({"shape": shape} for shape in ((True, 3), (3.0,), (3,) + (1,) * 80, (0, 10**30))),
        *({"descr": descr} for descr in ("<f4", "<i9", "nothing", 7, "|O")),
        {"descr": "(3,)<i8", "shape": (1,)},
        {"descr": "|S0", "shape": (10**12,)},
        *({"descr": f"|V{width}"} for width in (2**31, 2**32, 2**32 + 8)),  # numpy 1 keeps 32 bits
        {"descr": [("a", "|V4294967304")], "shape": (0,)},
        {"fortran_order": 1},
    ],
    ids=str,
)
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, open_, mapped, header):
    (tmp_path / "x.npy").write_bytes(raw(np.arange(3, dtype=np.int64), **header))
    tracemalloc.start()
    with pytest.raises(SourceError) as caught:
        open_(mapped, path="x.npy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(tmp_path / "x.npy") == caught.value.path
    assert peak < 4 << 20


@EACH_WAY
def test_rows_without_values_cost_no_memory_however_many_they_are(tmp_path, open_, mapped):
    many = min(10**15, sys.maxsize // 8)  # numpy counts bytes
    (tmp_path / "x.npy").write_bytes(raw(np.zeros(0), shape=(many, 0)))
    source = open_(mapped, path="x.npy")
    assert (many, (0,), (2, 0)) == (
        len(source),
        source[many // 10].shape,
        source.take([3, 4]).shape,
    )


@EACH_WAY
def test_a_file_cut_anywhere_or_longer_is_refused(tmp_path, mapped):
    path = tmp_path / "cut.npy"
    whole = raw(np.arange(6).reshape(3, 2))
    for data in [*(whole[:n] for n in range(len(whole))), whole + b"\0", whole * 2]:
        path.write_bytes(data)
        with pytest.raises(SourceError) as caught:
            NpySource(path, mapped=mapped)
        assert str(path) == caught.value.path
        assert "copy the file again" in caught.value.message


@EACH_WAY
@pytest.mark.filterwarnings("ignore")  # of numpy's and Python's parsers, over what they read
def test_a_changed_header_is_an_error_or_says_what_numpy_reads(tmp_path, mapped):
    """Nothing but the header can be checked: numpy's own reading of the same bytes is the rule."""
    whole = raw(np.arange(6, dtype="<i4").reshape(3, 2))
    dice = random.Random(0)
    path = tmp_path / "changed.npy"
    refusals = 0
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(dice.choice((1, 1, 2))):
            changed[dice.randrange(len(whole) - 24)] = dice.choice(
                b"\0\1\2 <>[](){}'\":,1230fiuO|\xff"
            )
        path.write_bytes(changed)
        try:
            source = NpySource(path, mapped=mapped)
        except SourceError:
            refusals += 1
            continue
        expected = np.load(path)
        taken = source.take(np.arange(len(source)))
        assert told(np.ascontiguousarray(expected)) == told(taken)
        source.close()
    assert 100 < refusals < 400


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_refusal(tmp_path_factory, data, mapped):
    path = tmp_path_factory.getbasetemp() / "any_bytes.npy"
    for content in (data, b"\x93NUMPY\x01\x00" + data):
        path.write_bytes(content)
        with pytest.raises(SourceError):
            NpySource(path, mapped=mapped)


# Files that change, and the end


@pytest.mark.parametrize("after", [b"", raw(np.arange(7.0))], ids=["empty", "grown"])
def test_a_file_of_another_size_than_at_opening_is_refused(tmp_path, open_, after):
    save(tmp_path, x=np.arange(6.0))
    source = open_(path="x.npy")
    (tmp_path / "x.npy").write_bytes(after)
    for read in (lambda: source[0], lambda: source.take([5, 1])):
        with pytest.raises(SourceError, match=f"expected the 176 bytes .* got {len(after)}; open"):
            read()


@pytest.mark.parametrize("size", [100, 300], ids=["cut", "grown"])
def test_a_mapped_file_of_another_size_than_at_opening_is_refused(tmp_path, open_, size):
    """In its last page, which the system fills with zeros."""
    save(tmp_path, x=np.arange(6.0))
    source = open_(True, fields={"x": "x.npy"})
    with contextlib.suppress(OSError):
        os.truncate(tmp_path / "x.npy", size)
    if (tmp_path / "x.npy").stat().st_size != size:
        pytest.skip("this system cuts no mapped file")
    for read in (lambda: source[0], lambda: source.take([5, 1]), lambda: source.column("x")):
        with pytest.raises(SourceError, match=f"expected the 176 bytes .* got {size}; open"):
            read()


def test_who_keeps_the_error_of_a_mapped_file_does_not_keep_the_file(tmp_path, open_, monkeypatch):
    """Its traceback leads to the frame that looked at the map."""
    save(tmp_path, x=np.arange(6.0))
    reads = [lambda: source[0], lambda: source.take([5, 1]), lambda: source.column("x")]

    def told(read):
        with pytest.raises(SourceError) as caught:
            read()
        return caught.value

    class Failing:
        def size(self):
            raise OSError(errno.EIO, "as of a share that is gone")

    source = open_(True, fields={"x": "x.npy"})
    (rows,) = source._rows
    there = weakref.ref(rows._opened[0])
    monkeypatch.setattr(rows, "sizes", (1,))
    kept = list(map(told, reads))
    rows._opened = Failing(), rows._opened[1]
    array = weakref.ref(rows._opened[1])
    kept += map(told, reads)
    source.close()
    assert (6, None, None) == (len(kept), there(), array())


CUT = """
import contextlib
import os
import sys
import numpy as np
from threadloader import Loader, SourceError

np.save(sys.argv[1], np.zeros(1 << 17))
source = {"type": "npy", "path": sys.argv[1], "mmap": True}
with Loader({"source": source, "batch_size": 1 << 17, "num_workers": 0}) as batches:
    (batch,) = batches
    with contextlib.suppress(OSError):
        os.truncate(sys.argv[1], 4096)
    if os.stat(sys.argv[1]).st_size != 4096:
        sys.exit("this system cuts no mapped file")
    try:
        next(iter(batches))
    except SourceError as error:
        print(error)
"""


def test_a_mapped_file_that_is_cut_between_two_epochs_does_not_end_the_process(run_child, tmp_path):
    done = run_child(CUT, str(tmp_path / "x.npy"))
    if "cuts no" in done.stderr:
        pytest.skip(done.stderr)
    assert (0, "") == (done.returncode, done.stderr)
    assert f"expected the {128 + (1 << 20)} bytes that it had when it was opened" in done.stdout


def test_what_the_system_says_of_a_mapped_file_is_told(tmp_path, open_, monkeypatch):
    """As of one that a server has removed."""

    class Gone:
        def size(self):
            raise OSError(errno.ESTALE, "Stale file handle")

    save(tmp_path, x=np.arange(6.0))
    source = open_(True, path="x.npy")
    monkeypatch.setattr(source._rows[0], "_opened", (Gone(), source._rows[0]._opened[1]))
    with pytest.raises(SourceError, match="expected a file that can be read, got: Stale"):
        source.take([0])


def test_a_file_that_shrinks_while_it_is_opened_is_not_mapped(tmp_path, monkeypatch):
    """Its header is read; it is cut; then it is mapped."""
    save(tmp_path, x=np.arange(6.0))
    path = tmp_path / "x.npy"
    real = _npy_rows._checked_header

    def cut(*args):
        header = real(*args)
        try:
            os.truncate(path, 100)
        except PermissionError:
            pytest.skip("this system cuts no open file")
        return header

    monkeypatch.setattr(_npy_rows, "_checked_header", cut)
    with pytest.raises(SourceError, match="expected a file that can be mapped, got: "):
        NpySource(path, mapped=True)


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
    with pytest.raises(SourceError, match="found none"):
        open_(mapped, fields={**fields, "y": "none.npy"})
    assert 1 == len(made)
    with pytest.raises(ClosedError):
        made[0].one(0)


DECODED = {"type": "files", "folder": ".", "pattern": "huge.npy", "decode": "npy"}


def header_of(descr, shape):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def test_a_file_that_too_many_open_ones_keep_from_being_mapped_says_what_to_do(
    tmp_path, monkeypatch
):
    np.save(tmp_path / "x.npy", np.arange(4))

    def refused(*args, **options):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(_npy_rows.mmap, "mmap", refused)
    with pytest.raises(SourceError, match=r"Too many open files; .*open fewer files"):
        NpySource(tmp_path / "x.npy", mapped=True)


@EACH_WAY
def test_a_header_that_python_2_has_written_is_read(tmp_path, open_, mapped):
    """Its long integers end with an L; the others must not."""
    data = np.arange(6, dtype="<i4").tobytes()
    (tmp_path / "x.npy").write_bytes(header_of("'<i4'", "(3L, 2L)") + data)
    assert [[0, 1], [2, 3], [4, 5]] == open_(mapped, path="x.npy").take([0, 1, 2]).tolist()
    (tmp_path / "y.npy").write_bytes(header_of("'<i4'", "(3L, 2L, L)") + data)
    with pytest.raises(SourceError, match=r"expected a dtype and a shape, got .*\(3L, 2L, L\)"):
        open_(mapped, path="y.npy")


@pytest.mark.parametrize(
    "shape",
    [f"(0x{'f' * 6000},)", f"(-0x{'f' * 6000},)", f"({'9' * 3000}, {'9' * 3000})"],
    ids=["hexadecimal", "negative", "a product"],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda folder: NpySource(folder / "huge.npy"),
        lambda folder: NpySource(folder / "huge.npy", mapped=True),
        lambda folder: open_source(DECODED, folder)[0],
        lambda folder: read_numbers("huge.npy", folder, None),
    ],
    ids=["by position", "mapped", "decoded", "numbers"],
)
def test_numbers_with_more_digits_than_python_prints_are_a_refusal(tmp_path, shape, read):
    (tmp_path / "huge.npy").write_bytes(header_of("'<f8'", shape))
    with pytest.raises(SourceError, match="expected a dtype and a shape, got "):
        read(tmp_path)


@EACH_WAY
def test_an_array_without_rows_takes_no_memory_for_a_value(tmp_path, open_, mapped):
    """A header of some bytes may say that one has gigabytes."""
    (tmp_path / "wide.npy").write_bytes(header_of("'|V100000000'", "(0,)"))
    tracemalloc.start()
    try:
        assert 0 == len(open_(mapped, path="wide.npy"))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


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


def test_a_map_that_the_system_cannot_count_is_a_refusal(tmp_path, monkeypatch):
    """As on one of 32 bits, above 2 GiB."""
    save(tmp_path, values=np.arange(3))

    def mmap(*args, **options):
        raise OverflowError("Python int too large to convert to C ssize_t")

    monkeypatch.setattr(_npy_rows.mmap, "mmap", mmap)
    with pytest.raises(SourceError, match=r'got: .* bytes, more .*set "mmap" to false'):
        NpySource(tmp_path / "values.npy", mapped=True)


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


def test_what_a_damaged_header_shows_has_nothing_that_a_terminal_obeys(tmp_path):
    (tmp_path / "x.npy").write_bytes(header_of("'<f8'", "('\x1b[31m',)"))
    with pytest.raises(SourceError) as told:
        NpySource(tmp_path / "x.npy")
    assert "\x1b" not in str(told.value)
    assert r"\x1b[31m" in str(told.value)


def test_the_other_format_of_numpy_is_told_by_its_type(tmp_path):
    """The file is sound: to copy it again would not help."""
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    with pytest.raises(SourceError, match='it is of "type": "npz"') as caught:
        open_source({"type": "npy", "path": "a.npz"}, tmp_path)
    assert "again" not in str(caught.value)
