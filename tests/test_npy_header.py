"""Any bytes are read as numpy reads them or refused; a header that lies costs no memory."""

import random
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from npy_files import EACH_WAY, header_of, open_, raw, save, told

from threadloader.errors import SourceError
from threadloader.sources import _npy_header, open_source, read_numbers
from threadloader.sources.npy import NpySource

__all__ = ["open_"]  # the fixture


def test_what_a_signal_handler_raises_in_the_header_passes_as_it_is(tmp_path, open_, monkeypatch):
    save(tmp_path, x=np.arange(4))
    rung = TimeoutError("rung")

    def parsing(*args):
        raise rung

    monkeypatch.setattr(_npy_header, "_parse", parsing)
    with pytest.raises(TimeoutError) as caught:
        open_(path="x.npy")
    assert rung is caught.value


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


DECODED = {"type": "files", "folder": ".", "pattern": "huge.npy", "decode": "npy"}


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


def test_what_a_damaged_header_shows_has_nothing_that_a_terminal_obeys(tmp_path):
    (tmp_path / "x.npy").write_bytes(header_of("'<f8'", "('\x1b[31m',)"))
    with pytest.raises(SourceError) as told:
        NpySource(tmp_path / "x.npy")
    assert "\x1b" not in str(told.value)
    assert r"\x1b[31m" in str(told.value)
