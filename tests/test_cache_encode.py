"""Samples become bytes and come back, and bytes that are no sample are refused."""

import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import arrays, same, samples

from threadloader.cache import _encode
from threadloader.cache._encode import DamagedError, decode, encode
from threadloader.cache._samples import DEEPEST, ForeignError, freeze


def written(sample):
    return b"".join(encode(freeze(sample)))


@given(samples, st.integers(0, 40))
@settings(max_examples=300)
def test_a_sample_comes_back_to_the_last_bit(sample, begin):
    """Wherever its bytes begin; and its arrays cannot be written."""
    found = decode(bytes(begin) + written(sample), begin)
    assert same(sample, found)
    if isinstance(found, np.ndarray):
        assert not found.flags.writeable
        assert found.flags.c_contiguous


@given(arrays, arrays)
def test_contents_begin_at_a_multiple_of_16(one, other):
    """Those of each array, whatever was before it."""
    at, begins = 0, []
    for part in encode(freeze([1, one, other])):
        if isinstance(part, memoryview):
            begins.append(at % 16)
        at += len(part)
    assert [0, 0] == begins


def test_numbers_are_little_endian_on_every_machine():
    """The bytes of one sample, written down once."""
    sample = {"x": np.array([1, 2], np.int16), "y": (258, 0.5, "é", None, True)}
    text = (
        "44 0200000000000000"  # a dict of 2
        " 73 0100000000000000 78"  # "x"
        " 41 03 3c6932 01 0200000000000000 000000000000000000000000000000"  # <i2, (2,), zeros
        " 0100 0200"
        " 73 0100000000000000 79"
        " 55 0500000000000000"
        " 69 0200000000000000 0201"
        " 64 000000000000e03f"
        " 73 0200000000000000 c3a9"
        " 4e 54"
    )
    assert text.replace(" ", "") == written(sample).hex()


def test_the_byte_order_of_an_array_comes_back():
    for order in "<>":
        array = np.array([1, 2], f"{order}u4")
        found = decode(written(array))
        assert (array.dtype, [1, 2]) == (found.dtype, found.tolist())
        assert not found.flags.writeable


def test_raw_bytes_come_back():
    """As numpy saves what another package has made, such as bfloat16."""
    array = np.array([b"ab", b"\0c"], "V2")
    found = decode(written(array))
    assert (array.dtype, array.tobytes()) == (found.dtype, found.tobytes())


LONG = np.zeros(2, np.longdouble), np.longdouble(1), np.zeros(2, np.clongdouble)
LONG_IS_DOUBLE = np.longdouble(0).nbytes == 8  # as on Windows


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, "i4,f4"),
        np.zeros(2, {"names": ["a"], "formats": ["V3"], "itemsize": 3}),
        np.zeros(2, np.dtype((np.record, 4))),
        np.zeros(2, np.dtype(("i4", {"low": ("i2", 0), "high": ("i2", 2)}))),
        np.zeros((2, 0), "V0"),
        *([] if LONG_IS_DOUBLE else LONG),
    ],
    ids=lambda array: str(array.dtype),
)
def test_a_dtype_that_a_name_does_not_describe_is_refused(array):
    """Whatever was written before: numpy takes some of these for equal to one that is written."""
    for alike in ("V4", "i4"):
        written(np.zeros(1, alike))
    with pytest.raises(ForeignError, match="dtype"):
        written(array)


def test_a_named_tuple_is_refused():
    """Its class would be lost."""
    with pytest.raises(ForeignError, match=r"a named tuple \(struct_time\)"):
        encode(time.gmtime(0))


@given(st.binary(max_size=60))
@settings(max_examples=300)
def test_any_bytes_are_a_sample_or_damaged(data):
    """Nothing else is raised; and a sample that is read is one that can be written."""
    try:
        sample = decode(data)
    except DamagedError:
        return
    encode(sample)


@given(samples, st.data())
@settings(max_examples=300)
def test_changed_bytes_are_a_sample_or_damaged(sample, data):
    changed = bytearray(written(sample))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(changed))
    except DamagedError:
        pass


@given(samples)
def test_less_or_more_than_a_sample_is_damaged(sample):
    data = written(sample)
    for wrong in (data[:-1], data + b"N", data[: len(data) // 2]):
        with pytest.raises(DamagedError):
            decode(wrong)


@pytest.mark.parametrize("tag", [b"L", b"U", b"D", b"s", b"b", b"i", b"t", b"y"])
def test_a_length_that_lies_takes_no_memory(tag):
    tracemalloc.start()
    with pytest.raises(DamagedError):
        decode(tag + struct.pack("<Q", 1 << 60) + bytes(100))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100_000


@pytest.mark.parametrize("shape", [(1 << 60,), (1 << 40, 1 << 40), (1 << 63, 0), (64, 1 << 60)])
def test_a_shape_that_lies_is_damaged(shape):
    head = b"A\x03<f4" + struct.pack(f"<B{len(shape)}Q", len(shape), *shape)
    with pytest.raises(DamagedError):
        decode(head + bytes(64))


def nested(depth):
    """Gives so many containers inside each other, of all three kinds in turn."""
    value = 1
    for level in range(depth):
        value = [[value], (value,), {"x": value}][level % 3]
    return value


def test_as_many_containers_as_a_sample_may_have_come_back():
    deepest = nested(DEEPEST)
    assert deepest == decode(written(deepest))
    with pytest.raises(ForeignError, match="containers"):
        freeze([deepest])
    one_more = b"L" + struct.pack("<Q", 1) + written(deepest)
    with pytest.raises(DamagedError, match="containers"):
        decode(one_more)


def test_containers_without_end_are_damaged():
    deep = (b"L" + struct.pack("<Q", 1)) * 100_000 + b"N"
    with pytest.raises(DamagedError, match="containers"):
        decode(deep)


@pytest.mark.parametrize("name", [b"|O", b"<f4,<f4", b"<U99999999999", b"(2)i4", b"", b"\xff"])
def test_a_dtype_that_is_not_ours_is_damaged(name):
    with pytest.raises(DamagedError):
        decode(b"A" + bytes([len(name)]) + name + b"\x00" + bytes(64))


class Registered:
    """Looks like the dtype float8_e5m2 of the package ml_dtypes, which numpy cannot read again."""

    isbuiltin, str, itemsize, char = 2, "<f1", 1, "f"

    def newbyteorder(self, order):
        return self


def test_a_dtype_that_another_package_has_registered_is_not_kept():
    with pytest.raises(ForeignError, match="an array or scalar of dtype"):
        _encode._stored(Registered())


def test_a_character_that_there_is_not_is_damage():
    with pytest.raises(DamagedError):
        decode(b"a\x03<U1\xff\xff\xff\xff")
