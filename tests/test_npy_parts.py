"""An array in several files is the one that was cut, and parts that do not fit are told."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from links import make_link
from npy_files import EACH_WAY, header_of, open_, save, told

from threadloader.errors import ClosedError, SourceError
from threadloader.sources import ArraySource, _npy_rows, npy, open_source
from threadloader.sources.npy import NpySource, open_npy

__all__ = ["open_"]  # the fixture


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
    assert (8, 24) == _npy_rows.as_bytes(array, 24).shape
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
