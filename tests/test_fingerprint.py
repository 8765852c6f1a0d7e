"""Fingerprints: other content, another digest; another layout, the same one."""

import array
import collections
import enum
import fractions
import hashlib
import importlib
import math
import mmap
import struct

import numpy as np
import pytest
from frameworks import framework
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from threadloader.fingerprint import chained, digest

Point = collections.namedtuple("Point", "x y")
Place = collections.namedtuple("Place", "x y")
Turned = collections.namedtuple("Point", "y x")
RECORD = np.dtype([("id", "i2"), ("box", "f4", (2,)), ("name", "U3")])

dtypes = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(endianness="?"),
    arrays.floating_dtypes(endianness="?"),
    arrays.complex_number_dtypes(endianness="?"),
    arrays.datetime64_dtypes(endianness="?"),
    arrays.timedelta64_dtypes(endianness="?"),
    arrays.unicode_string_dtypes(endianness="?", max_len=4),
    arrays.byte_string_dtypes(max_len=4),
    st.just(RECORD),
)
filled = arrays.arrays(dtypes, arrays.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
)
batches = st.recursive(
    st.one_of(filled, scalars),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.lists(inside, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inside, max_size=3),
        st.builds(Point, inside, inside),
    ),
    max_leaves=6,
)


def mapped(batch, change):
    """The same structure with each array put through a function."""
    if isinstance(batch, np.ndarray):
        return change(batch)
    if isinstance(batch, dict):
        return {key: mapped(value, change) for key, value in batch.items()}
    if isinstance(batch, Point):
        return Point(*(mapped(value, change) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(mapped(value, change) for value in batch)
    return batch


def backwards(values):
    """The same array in memory that is read backwards."""
    return np.flip(np.flip(values).copy())


def gapped(values):
    """The same array with strides that leave gaps, in a buffer full of other bytes."""
    room = np.empty((*values.shape, 3), values.dtype)
    room.view(np.uint8).fill(0x55)
    room[..., 1] = values
    return room[..., 1]


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


LAYOUTS = {
    "byte order": lambda values: values.astype(values.dtype.newbyteorder("S")),
    "Fortran order": np.asfortranarray,
    "gaps": gapped,
    "backwards": backwards,
    "read-only": read_only,
    "not aligned": lambda values: np.frombuffer(
        b"\0" + values.tobytes(), values.dtype, values.size, 1
    ).reshape(values.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@given(batch=batches)
def test_how_arrays_lie_in_memory_does_not_count(layout, batch):
    def relaid(values):
        # Of no dimension, as a row of one: some of numpy's functions know no other.
        return LAYOUTS[layout](values) if values.ndim else LAYOUTS[layout](values[None])[0, ...]

    assert digest(batch) == digest(mapped(batch, relaid))


def leaves(batch, path=()):
    """Lists the paths of everything in a batch, the batch itself included."""
    yield path
    items = batch.items() if isinstance(batch, dict) else ()
    if isinstance(batch, (list, tuple)):
        items = enumerate(batch)
    for key, value in items:
        yield from leaves(value, (*path, key))


def replaced(batch, path, change):
    """The same batch with what stands at one path put through a function."""
    if not path:
        return change(batch)
    if isinstance(batch, dict):
        return {
            key: replaced(value, path[1:], change) if key == path[0] else value
            for key, value in batch.items()
        }
    values = [
        replaced(value, path[1:], change) if number == path[0] else value
        for number, value in enumerate(batch)
    ]
    return Point(*values) if isinstance(batch, Point) else type(batch)(values)


def flipped(values, draw):
    """The same array with one bit of one value changed (of a bool: its lowest)."""
    values = np.array(values, order="C")
    bits = values.reshape(-1).view(np.uint8)
    if values.dtype == np.bool_:
        bits[draw(st.integers(0, len(bits) - 1))] ^= 1
    elif values.dtype.kind == "U":
        row = draw(st.integers(0, values.size - 1))
        values.reshape(-1)[row] = "a" if values.reshape(-1)[row] != "a" else "b"
    elif values.dtype.names:
        values["id"].reshape(-1)[0] ^= 1
    else:
        bits[draw(st.integers(0, len(bits) - 1))] ^= 1 << draw(st.integers(0, 7))
    return values


def changed(value, draw):
    """Something else than a value, as little as possible."""
    if isinstance(value, np.ndarray):
        return draw(
            st.sampled_from(
                [
                    flipped(value, draw),
                    value[None],
                    value.copy().view([("x", value.dtype)]),
                    [value],
                    np.concatenate([value.reshape(-1), value.reshape(-1)]),
                    value.copy().view(f"V{value.dtype.itemsize}"),
                ]
            )
        )
    if isinstance(value, bool):
        return draw(st.sampled_from([not value, int(value), np.bool_(value)]))
    if isinstance(value, int):
        return draw(st.sampled_from([value + 1, -value or None, str(value), value << 8 or ""]))
    if isinstance(value, float):
        bits = struct.unpack("<q", struct.pack("<d", value))[0]
        bit = draw(st.integers(0, 51))  # a quiet NaN stays one
        other = struct.unpack("<d", struct.pack("<q", bits ^ 1 << bit))[0]
        changed = not (math.isnan(value) and bit == 51)
        return draw(st.sampled_from([other, np.float64(value)] if changed else [None]))
    if isinstance(value, complex):
        return draw(st.sampled_from([complex(-value.real, value.imag), str(value)]))
    if isinstance(value, str):
        return draw(st.sampled_from([value + "a", value.encode("utf-8", "replace"), [value]]))
    if isinstance(value, bytes):
        return draw(st.sampled_from([value + b"\0", np.frombuffer(value, np.uint8), [value]]))
    if isinstance(value, dict):
        others = [[*value.items()], {**value, "new": None}, None]
        if len(value) > 1:
            others.append(dict(reversed(value.items())))
        return draw(st.sampled_from(others))
    if isinstance(value, Point):
        return draw(st.sampled_from([tuple(value), Place(*value), Turned(*value)]))
    if isinstance(value, list):
        return draw(st.sampled_from([tuple(value), [*value, None], [value]]))
    if isinstance(value, tuple):
        return draw(st.sampled_from([list(value), (*value, None), (value,)]))
    return False


@given(batches, st.data())
def test_any_change_of_one_thing_changes_the_digest(batch, data):
    """A bit, a dtype, a shape, a key, an order, a kind of container: wherever it stands."""
    path = data.draw(st.sampled_from(list(leaves(batch))))
    other = replaced(batch, path, lambda value: changed(value, data.draw))
    assert digest(batch) != digest(other)


@given(batches, batches)
def test_batches_that_are_written_otherwise_have_other_digests(one, other):
    """For what `repr` tells apart there is no collision."""
    plain = [repr(mapped(it, lambda v: v.astype(v.dtype.newbyteorder("=")))) for it in (one, other)]
    assert plain[0] == plain[1] or digest(one) != digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (np.float32(0), np.float32(-0.0)),
        (1, True),
        (1, 1.0),
        (np.int64(1), np.array(1)),
        (np.int64(1), 1),
        ("1", b"1"),
        ((), []),
        ([[], []], [[[]]]),
        ([1, [2]], [[1], 2]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: None}, {"1": None}),
        ({}, collections.OrderedDict()),
        (np.zeros(0, "f4"), np.zeros(0, "f8")),
        (np.zeros((0, 2)), np.zeros((2, 0))),
        (np.array(["a"], "U1"), np.array(["a"], "U2")),
        (np.array(["a"], "S1"), np.array(["b"], "S1")),
        (np.datetime64("NaT", "s"), np.datetime64("NaT", "ms")),
        (np.datetime64("NaT", "s"), np.timedelta64("NaT", "s")),
        (np.array([1, None], object), np.array([None, 1], object)),
        (np.zeros(1, [("a", "i4")]), np.zeros(1, [("b", "i4")])),
        (np.zeros(1, [("a", "i4"), ("b", "i4")]), np.zeros(1, [("b", "i4"), ("a", "i4")])),
        (np.zeros(1, [(("one", "a"), "i4")]), np.zeros(1, [(("two", "a"), "i4")])),
        (np.zeros(1, [("a", "i4", (2,))]), np.zeros(1, [("a", "i4", (1, 2))])),
    ],
    ids=repr,
)
def test_these_differ(one, other):
    assert digest(one) != digest(other)


def test_a_nan_counts_by_its_bits():
    quiet, other = (np.array([bits], "<u8").view("<f8") for bits in (0x7FF8 << 48, 0x7FF9 << 48))
    assert digest(quiet) == digest(quiet.copy())
    assert digest(quiet) != digest(other)


def test_bytes_between_the_fields_of_a_record_do_not_count():
    dtype = np.dtype([("a", "u1"), ("b", "<f8")], align=True)
    packed = np.dtype([("a", "u1"), ("b", "<f8")])
    clean, dirty = (np.full(3 * dtype.itemsize, byte, np.uint8).view(dtype) for byte in (0, 255))
    for values in (clean, dirty):
        values["a"], values["b"] = 1, 2.5
    assert clean.tobytes() != dirty.tobytes()
    assert digest(clean) == digest(dirty) == digest(clean.astype(packed))


def test_unused_bytes_of_long_doubles_do_not_count():
    """And used ones do; so for complex ones."""
    for kind in (np.longdouble, np.clongdouble):
        clean, dirty = np.full(2, 1.5, kind), np.full(2, 1.5, kind)
        if np.finfo(np.longdouble).nmant == 63:
            # Behind the values: what is written there is written with its unused bytes.
            size = np.dtype(np.longdouble).itemsize
            dirty.view(np.uint8).reshape(-1, size)[:, 10:] = 255
            assert clean.tobytes() != dirty.tobytes()
        assert digest(clean) == digest(dirty)
        assert digest(clean) != digest(np.nextafter(clean.real, 2).astype(kind))


def test_a_large_array_of_any_strides_is_read_in_blocks():
    """What is stored in another order gives what its copy in C order gives, across blocks."""
    values = np.arange(300_000, dtype=np.uint32).reshape(300, 1000).T
    assert digest(values.copy()) == digest(values) == digest(values.astype(">u4"))


@pytest.mark.parametrize(
    "same",
    [
        bytearray(b"\1\2"),
        memoryview(b"\1\2"),
        memoryview(b"\1_\2_")[::2],
        array.array("B", [1, 2]),
        np.array([1, 2], np.uint8).view(np.recarray),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_array_is_an_array_whoever_holds_it(same):
    assert digest([np.array([1, 2], np.uint8)]) == digest([same])


def test_maps_of_files_are_arrays(tmp_path):
    (tmp_path / "x").write_bytes(b"\1\2")
    with (
        open(tmp_path / "x", "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert digest(np.array([1, 2], np.uint8)) == digest(mapped)
    assert digest(np.array([1, 2], np.uint8)) == digest(np.memmap(tmp_path / "x", mode="r"))


class Tensor:
    """What holds an array and says so."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_what_gives_an_array_counts_as_that():
    assert digest([np.arange(3)]) == digest([Tensor(np.arange(3))])


def test_tensors_of_torch_are_arrays():
    torch = framework("torch")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert digest(values.T.copy()) == digest(torch.from_numpy(values).T)
    with pytest.raises(TypeError, match=r"batch\['x'\]: expected an array, got torch.Tensor, "):
        digest({"x": torch.ones(2, requires_grad=True)})


def test_arrays_of_jax_are_arrays():
    jax = framework("jax")
    assert digest(np.arange(3, dtype=np.int32)) == digest(jax.numpy.arange(3, dtype="int32"))
    small = [jax.numpy.ones(2, kind) for kind in ("bfloat16", "float8_e4m3fn", "float8_e5m2")]
    assert 3 == len({digest(values) for values in small})
    assert digest(small[0]) == digest(np.asarray(small[0]))


def test_strings_of_any_length_are_told_apart():
    kind = getattr(np.dtypes, "StringDType", None) if hasattr(np, "dtypes") else None
    if kind is None:
        pytest.skip("numpy 2 has them")
    one = np.array(["a", "long" * 9], kind())
    assert digest(one) == digest(one[::-1].copy()[::-1])
    assert digest(one) != digest(np.array(["a", "long" * 8], kind()))
    assert digest(one) != digest(np.array(["a", "long" * 9], kind(na_object=None)))


class Slotted(list):
    __slots__ = ("empty", "note")


def test_what_stands_in_the_slots_of_a_container_counts():
    one, other = Slotted([1]), Slotted([1])
    one.note, other.note = 1, 2
    assert digest(one) != digest(other)
    other.note = 1
    assert digest(one) == digest(other)


class Color(enum.IntEnum):
    RED = 1


class Kind(bytes, enum.Enum):
    ONE = b"1"


class Labelled(Tensor):
    columns = ("a", "b")


@pytest.mark.parametrize(
    ("batch", "place", "kind"),
    [
        ({"x": [1, fractions.Fraction(1, 2)]}, "batch['x'][1]", "fractions.Fraction"),
        ({frozenset(): 1}, "batch", "builtins.frozenset"),
        ((Color.RED,), "batch[0]", "test_fingerprint.Color"),
        ((Kind.ONE,), "batch[0]", "test_fingerprint.Kind"),
        (object(), "batch", "builtins.object"),
        (np.array([None, {1}], object), "batch[(1,)]", "builtins.set"),
        (np.ma.masked_array([1, 2], [True, False]), "batch", "MaskedArray"),
        ([Labelled(np.arange(2))], "batch[0]", "test_fingerprint.Labelled"),
        ([Tensor(np.array([{}]))], "batch[0]", "test_fingerprint.Tensor"),
        (iter(()), "batch", "tuple_iterator"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_anything_else_is_refused_with_its_place_and_type(batch, place, kind):
    """An unknown object may hold more than one sees; it is not pickled or printed."""
    with pytest.raises(TypeError) as refused:
        digest(batch)
    assert str(refused.value).startswith(f"{place}: expected arrays, numbers, ")
    assert f"{kind}; give what it holds as these, in the transform" in str(refused.value)


def test_what_gives_no_array_is_refused_with_its_place_and_reason():
    class Broken(Tensor):
        def __array__(self, *args, **options):
            raise OSError("the device is gone")

    with pytest.raises(TypeError, match=r"batch\['x'\]: expected an array, .*the device is gone"):
        digest({"x": Broken(np.arange(2))})


def test_a_dtype_of_another_package_counts_by_its_bits():
    package = "numpy._core" if hasattr(np, "_core") else "numpy.core"
    rational = importlib.import_module(f"{package}._rational_tests").rational
    half, third = np.array([rational(1, 2)]), np.array([rational(1, 3)])
    assert digest(half) == digest(half.copy())
    assert 3 == len({digest(half), digest(third), digest(half.view(np.int64))})


def test_a_batch_that_holds_itself_is_refused():
    batch = []
    batch.append(batch)
    with pytest.raises(TypeError, match="at most 64 containers inside each other"):
        digest(batch)


class Named(dict):
    """A dict that can hold more than its items."""


def test_what_a_container_of_a_class_holds_besides_counts():
    one, other, plain = Named(x=1), Named(x=1), {"x": 1}
    assert digest(one) == digest(other) != digest(plain)
    other.scale = 2
    assert digest(one) != digest(other)


def test_the_digest_is_the_same_everywhere_and_for_ever():
    """Of a batch with a value of every kind; the same on all machines and numpy versions."""
    batch = {
        "none": None,
        "bool": [True, False],
        "int": [0, -1, 127, 128, 2**70],
        "float": (0.1, -0.0, math.inf),
        "complex": 1j,
        "text": "h\u00e9\ud800",
        "bytes": b"\0\xff",
        "point": Point(1, 2),
        "scalars": [np.int8(-3), np.float16(0.5), np.datetime64("2024-05-06", "D")],
        "arrays": [np.arange(6).reshape(2, 3).astype(kind) for kind in ("i4", ">f8", "?", "c8")],
        "strings": [np.array(["a", "bcd"]), np.array([b"a", b"bcd"])],
        "record": np.array([(1, (2, 3), "x")], RECORD),
        "objects": np.array([None, "a"], object),
        "empty": np.zeros((0, 3), "u2"),
    }
    assert "6c6ff5504f68f628239ffad4e47f325a" == digest(batch).hex()
    assert "9ac5d3f84456689904e435a7254b4563" == chained(chained("", digest(batch)), digest(None))


def test_the_running_fingerprint_is_the_hash_of_the_one_before_and_the_digest():
    first = chained("", digest(1))
    assert hashlib.blake2b(digest(1), digest_size=16).hexdigest() == first
    whole = bytes.fromhex(first) + digest(2)
    assert hashlib.blake2b(whole, digest_size=16).hexdigest() == chained(first, digest(2))


@pytest.mark.parametrize(
    "wrong", ["00", "zz", "0" * 31, "0" * 34, "x" * 32, "A" * 32, "00 " * 16, " ", "\u0661" * 32]
)
def test_what_is_no_running_fingerprint_is_refused(wrong):
    with pytest.raises(ValueError, match="expected a running fingerprint, 32 hexadecimal"):
        chained(wrong, digest(1))
