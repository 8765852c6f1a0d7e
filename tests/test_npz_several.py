"""Several npz files are one source, whose rows follow one another as the files do."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from links import make_link
from npy_files import ARRAYS
from npy_files import raw as npy
from npz_files import archive, content, opened, refused
from sampler_kinds import needs_64_bits

from threadloader.errors import SourceError
from threadloader.sources import fingerprint, open_source
from threadloader.sources.npz import NpzSource

RECORDS = np.zeros(6, [("id", "<i4"), ("box", ">f4", (2,))])
RECORDS["id"] = range(6)
ROWS = {
    **ARRAYS,
    "swapped": np.arange(6).astype(">i4"),
    "records": RECORDS,
    "columns": np.asfortranarray(np.arange(12.0).reshape(6, 2)),
    # What lies between its fields is kept, too.
    "padded": np.full(96, 7, "u1").view(np.dtype([("id", "u1"), ("v", "<f8")], align=True)),
    "nothing": np.zeros((6, 2), "V0"),
    "wide": np.zeros((6, 0), "f2"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("several")


def save_parts(folder, cuts, **arrays):
    """Save arrays in files, cut at these rows; gives their paths."""
    paths = []
    ends = [*sorted(cuts), 6]
    for number, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
        paths.append(str(folder / f"part-{number}.npz"))
        np.savez(paths[-1], **{name: array[first:last] for name, array in arrays.items()})
    return paths


def several(paths, **options):
    return open_source({"type": "npz", "path": paths, **options})


def refused_several(folder, *names, **options):
    with pytest.raises(SourceError) as caught:
        several([str(folder / name) for name in names], **options)
    return caught.value


@given(cuts=st.lists(st.integers(0, 6), max_size=4))
def test_wherever_they_are_cut_the_arrays_are_those_of_one_file(folder, cuts):
    """Each dtype and byte order stays as it was saved; a file may have no rows."""
    np.savez(folder / "whole.npz", **ROWS)
    whole, source = opened(folder / "whole.npz"), several(save_parts(folder, cuts, **ROWS))
    assert content(whole) == content(source)
    assert [str(whole[row]) for row in range(6)] == [str(source[row]) for row in range(6)]


def test_a_sample_is_located_by_its_own_file_and_the_row_there(tmp_path):
    first, _, last = paths = save_parts(tmp_path, [2, 2], **ARRAYS)
    source = several(paths)
    expected = [f"{first}[0]", f"{first}[1]", *(f"{last}[{row}]" for row in range(4))]
    assert expected == [source.locate(row) for row in range(6)]


def test_files_of_a_pattern_are_sorted(tmp_path):
    for name in ("a10", "b", "a2"):
        np.savez(tmp_path / f"{name}.npz", x=np.array([name], "U3"))
    source = open_source({"type": "npz", "path": "*.npz"}, tmp_path)
    assert ["a10", "a2", "b"] == [source[row]["x"].item() for row in range(3)]


def test_fields_are_chosen_from_each(tmp_path):
    np.savez(tmp_path / "a.npz", x=[1], about=["first"])
    np.savez(tmp_path / "b.npz", other=[0, 0, 0], x=[2])
    source = several([str(tmp_path / "a.npz"), str(tmp_path / "b.npz")], fields={"y": "x"})
    assert [{"y": 1}, {"y": 2}] == [source[0], source[1]]


def test_the_fingerprint_has_the_sizes_in_as_many_characters_for_any_number_of_files(tmp_path):
    """It stands in each state."""
    paths = save_parts(tmp_path, [2], **ARRAYS)
    size = sum(Path(path).stat().st_size for path in paths)
    said = fingerprint(several(paths))
    assert said.startswith(f"npz, 2 files of {size} bytes, dict, 6 samples, field 'images'")
    assert said != fingerprint(several(paths[::-1]))
    assert fingerprint(several(paths[:1])) == fingerprint(several(paths[0]))
    (tmp_path / "other").mkdir()
    many = several(save_parts(tmp_path / "other", [2] * 5, **ARRAYS))
    assert len(said) == len(fingerprint(many))
    assert said.rpartition(" ")[2] != fingerprint(many).rpartition(" ")[2]


def test_a_file_with_other_arrays_is_refused_where_none_are_chosen(tmp_path):
    np.savez(tmp_path / "a.npz", x=[1], y=[2])
    np.savez(tmp_path / "b.npz", y=[2], z=[3])
    error = refused_several(tmp_path, "a.npz", "b.npz")
    assert (str(tmp_path / "b.npz"), "") == (error.path, error.place)
    assert error.message == (
        f"expected the arrays of {tmp_path / 'a.npz'}, 'x', 'y', got 'y', 'z'; "
        'choose what all files have with "fields"'
    )


@pytest.mark.parametrize("other", [np.zeros((1, 2), "f4"), np.zeros((1, 3))])
def test_rows_of_another_dtype_or_shape_are_refused_and_never_cast(tmp_path, other):
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 2)))
    np.savez(tmp_path / "b.npz", x=other)
    error = refused_several(tmp_path, "a.npz", "b.npz")
    assert (str(tmp_path / "b.npz"), "field 'x'") == (error.path, error.place)
    assert error.message == (
        f"expected rows of float64 (2,), as {tmp_path / 'a.npz'} has, "
        f"got {other.dtype} {other.shape[1:]}; name files that belong together"
    )


def test_of_texts_of_another_width_it_says_how_they_are_saved_in_one(tmp_path):
    """numpy gives an array of texts the width of the longest."""
    np.savez(tmp_path / "a.npz", x=["one"])
    np.savez(tmp_path / "b.npz", x=["eleven"])
    hint = "got <U6 (); save texts in one width, as by names.astype('<U6')"
    assert refused_several(tmp_path, "a.npz", "b.npz").message.endswith(hint)
    assert refused_several(tmp_path, "b.npz", "a.npz").message.endswith(
        hint.replace("6 ()", "3 ()")
    )


@pytest.mark.parametrize("other", ["S3", ">U3", ("<U5", (2,))], ids=str)
def test_other_rows_of_text_are_told_as_any_other_rows(tmp_path, other):
    np.savez(tmp_path / "a.npz", x=np.zeros(1, "<U3"))
    np.savez(tmp_path / "b.npz", x=np.zeros(1, other))
    error = refused_several(tmp_path, "a.npz", "b.npz")
    assert error.message.endswith("; name files that belong together")


def test_a_file_that_lacks_a_chosen_array_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", x=[1])
    np.savez(tmp_path / "b.npz", y=[1])
    error = refused_several(tmp_path, "a.npz", "b.npz", fields=["x"])
    assert (str(tmp_path / "b.npz"), "/fields") == (error.path, error.option)


def test_a_pattern_that_finds_nothing_and_a_file_that_comes_twice_are_refused(tmp_path):
    assert "a file that matches this pattern" in refused(tmp_path / "*.npz").message
    np.savez(tmp_path / "a.npz", x=[1])
    assert "each file once" in refused_several(tmp_path, "a.npz", "*.npz").message


def test_while_they_are_put_together_one_field_is_in_memory_twice_and_no_more(tmp_path):
    size = 1 << 20
    paths = save_parts(tmp_path, [3], **{name: np.ones((6, size), np.uint8) for name in "abcd"})
    tracemalloc.start()
    try:
        source = several(paths)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 4 * 6 * size < most < 5.5 * 6 * size
    assert 6 == len(source)


@needs_64_bits
@pytest.mark.parametrize(("dtype", "shape"), [("V0", (1 << 62,)), ("f8", ((1 << 59) + 5, 0))])
def test_more_rows_than_the_system_counts_are_refused(tmp_path, dtype, shape):
    """Of rows without bytes, a file may say that it has any number."""
    member = npy(np.zeros((0,) * len(shape), dtype), shape=shape)
    for name in ("a", "b"):
        archive(tmp_path / f"{name}.npz", x=member)
    error = refused_several(tmp_path, "a.npz", "b.npz")
    assert (str(tmp_path / "a.npz"), "field 'x'") == (error.path, error.place)
    got = (2 * shape[0], *shape[1:])
    assert error.message.startswith(f"expected fewer rows in all files, got an array {got} of ")


def test_a_link_to_one_of_them_is_the_same_file(tmp_path):
    np.savez(tmp_path / "a.npz", x=[1])
    make_link(tmp_path / "b.npz", tmp_path / "a.npz")
    assert "each file once" in refused_several(tmp_path, "*.npz").message


def test_a_path_may_be_of_any_kind_of_path(tmp_path):
    np.savez(tmp_path / "a.npz", x=[1])

    class Own:
        def __fspath__(self):
            return str(tmp_path / "a.npz")

    assert 1 == len(NpzSource(Own()))
