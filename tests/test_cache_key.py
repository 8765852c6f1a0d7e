"""The key of values that differ is another one; of what cannot be told there is none."""

import ctypes
import functools
import math
import re
import tracemalloc
import zlib
from argparse import Namespace
from collections import OrderedDict, defaultdict
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ids import shown
from programs import defined

from threadloader.cache import _walk, key_of
from threadloader.cache._arrays import contents
from threadloader.cache._kinds import hides_state, installed, said
from threadloader.cache._walk import UntoldError
from threadloader.errors import ConfigError


class Chain(list):
    """A list with a method: its class counts as well."""

    def __call__(self, sample):
        return self[0](sample)


class Wrapping:
    """Looks like what it wraps, and does more."""

    def __init__(self, function, times):
        functools.update_wrapper(self, function)
        self.times = times


class Slots:
    """Has an attribute, or not yet."""

    __slots__ = ("n",)

    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)


def unassigned(*given):
    """Gives a function that closes over a variable, which has a value if one is given."""

    def cut(sample):
        return sample[:length]

    if given:
        (length,) = given
    return cut


def test_integers_of_any_size_are_seen():
    """Python writes none of more than 4,300 digits in decimal."""
    one, other = 10**5000, 10**5000 + 1
    for make in (lambda n: n, lambda n: {n}, lambda n: {(n,)}, lambda n: functools.partial(max, n)):
        assert key_of(make(one)) == key_of(make(one)) != key_of(make(other))
    assert key_of(range(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ("a", b"a"),
        (["a", "b"], ["ab"]),
        ([1], (1,)),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        (np.zeros(2), np.ones(2)),
        (np.float32(1), np.float64(1)),
        (functools.partial(math.pow, 1), functools.partial(math.pow, 2)),
        (functools.partial(max, key=len), functools.partial(min, key=len)),
        (math.sin, math.cos),
        (np.add, np.subtract),
        (np, math),
        (str.lower, str.upper),
        ("a".join, "b".join),
        (OrderedDict, dict),
        (functools.lru_cache(lambda x: 1), functools.lru_cache(lambda x: 2)),
        (None, ...),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (Path("a"), Path("b")),
        (np.array([None, 1]), np.array([None, 2])),
        (np.array(["a", [1]], object), np.array(["a", [2]], object)),
        (np.array([(1, "a")], "i4,O"), np.array([(1, "b")], "i4,O")),
        (np.dtype("<f4"), np.dtype(">f4")),
        (np.dtype("S3"), np.dtype("S4")),
        (np.dtype("i4,f4"), np.dtype("i4,f8")),
        (np.dtype("i4,f4"), np.dtype([("a", "i4"), ("f1", "f4")])),
        (np.dtype("i4,i8"), np.dtype("i4,i8", align=True)),
        (np.zeros(2, "<f4"), np.zeros(2, ">f4")),
        (np.zeros(1, "i4,f4"), np.zeros(1, "i4,i4")),
        (Namespace(a=[1]), Namespace(a=[2])),
        (SimpleNamespace(a=np.zeros(2)), SimpleNamespace(a=np.ones(2))),
        (SimpleNamespace(a=Slots()), SimpleNamespace(a=Slots(n=1))),
        (defaultdict(list), defaultdict(set)),
        (Wrapping(len, 1), Wrapping(len, 2)),
        (Wrapping(len, 1), Wrapping(max, 1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Chain([1]).append, Chain([2]).append),
        (Chain([1]).__call__, Chain([2]).__call__),
        (Slots(), Slots(n=1)),
        (unassigned(), unassigned(1)),
        (Chain([1]), Chain([2])),
        (Chain([1]), [1]),
    ],
    ids=shown,
)
def test_other_values_have_other_keys(one, other):
    assert key_of(one) == key_of(one)
    assert key_of(one) != key_of(other)


@dataclass
class Resize:
    size: int
    method: str = "area"

    def __call__(self, sample):
        return sample[: self.size]


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size):
        self.size = size


@pytest.mark.parametrize("kind", [Resize, Slotted])
def test_attributes_of_an_object_are_seen(kind):
    assert key_of(kind(1)) == key_of(kind(1))
    assert key_of(kind(1)) != key_of(kind(2))


def test_objects_inside_objects_are_seen():
    assert key_of([Resize(1), Resize(2)]) != key_of([Resize(1), Resize(3)])


def test_a_fingerprint_takes_the_place_of_everything_else():
    class Tokenizer:
        def __init__(self, name):
            self.name, self.loaded = name, object()

        def fingerprint(self):
            return self.name

    one, other = Tokenizer("a"), Tokenizer("a")
    other.loaded = 1
    assert key_of(one) == key_of(other) != key_of(Tokenizer("b"))
    with pytest.raises(
        ConfigError, match=r"Tokenizer: expected a str from its fingerprint\(\), got"
    ):
        key_of(Tokenizer(1))


@pytest.mark.skipif(
    not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"), reason="numpy 2 has them"
)
def test_texts_of_any_length_are_seen():
    """They stand elsewhere, and the array has their addresses."""
    one, same, other = (np.array(["a" * 50, text], "T") for text in ("b" * 50, "b" * 50, "c" * 50))
    assert key_of(one) == key_of(same) != key_of(other)


def test_which_of_two_comes_again_counts():
    one, other = [], []
    assert key_of([one, other, one]) != key_of([one, other, other])


def test_what_holds_itself_has_a_key():
    endless = []
    endless.append(endless)
    assert key_of(endless) == key_of(endless) != key_of([[]])

    def again(sample):
        return again(sample)

    assert key_of(again) == key_of(again)


def test_what_lies_deep_is_seen():
    def nested(innermost):
        for _ in range(10_000):
            innermost = [innermost]
        return innermost

    assert key_of(nested([1])) == key_of(nested([1])) != key_of(nested([2]))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(9)[::-2],
        np.array(3),
        np.zeros((0, 3)),
        np.zeros(3, "S0"),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([(1, 2)], "i1,>f8"),
        np.float32(1),
        np.datetime64("2020-01-01"),
    ],
    ids=shown,
)
def test_contents_are_the_bytes_in_c_order(array):
    assert array.tobytes() == bytes(contents(array))


def test_what_is_under_a_mask_counts():
    """Code reads it by `data`, or by `numpy.asarray`."""

    def key(hidden, masked=True):
        return key_of(np.ma.array([1, hidden], mask=[False, masked]))

    assert key(2) == key(2)
    assert 3 == len({key(2), key(100), key(2, masked=False)})


def test_the_metadata_of_a_dtype_count():
    def key(scale, of):
        return key_of(of(np.dtype("i4", metadata={"scale": scale})))

    for of in (lambda dtype: dtype, lambda dtype: np.zeros(2, dtype)):
        assert key(1, of) == key(1, of) != key(2, of)


def test_an_array_is_told_without_a_copy():
    """It may be most of the memory."""
    array = np.ones(1 << 20)
    tracemalloc.start()
    try:
        key_of(array)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < array.nbytes


class Pickled:
    """Says by itself how it is pickled."""

    def __reduce__(self):
        raise TypeError("cannot pickle this")


@pytest.mark.parametrize(
    "method",
    [
        "__getattr__(self, name): raise KeyError(name)",
        "__getattr__(self, name): return None",
        "__getnewargs__(self): raise ValueError('not to be pickled')",
    ],
    ids=["raises", "answers", "refuses"],
)
def test_an_object_that_answers_pickling_in_its_own_way_is_known_by_its_attributes(method):
    """Nothing that it raises gets through."""
    text = f"class G:\n    n = 1\n    def {method}\nf = G()"
    assert key_of(defined(text)) == key_of(defined(text))
    assert key_of(defined(text)) != key_of(defined(text.replace("n = 1", "n = 2")))


def test_what_has_a_value_in_c_alone_is_known_by_that(monkeypatch):
    """An extension in a folder of the path, say, is not installed, and its objects have no dict."""
    assert [False, False, True, True] == [
        hides_state(it) for it in (Slots(n=1), Pickled(), zlib.compressobj(), np.random.PCG64())
    ]
    mine = {type(zlib.compressobj()).__module__}
    monkeypatch.setattr(_walk, "installed", lambda name: name not in mine and installed(name))
    with pytest.raises(UntoldError):
        key_of(zlib.compressobj(1))


def test_what_a_future_holds_is_seen():
    keys = []
    for value in (1, 1, 2):
        future = Future()
        future.set_result([value])
        keys.append(key_of(future))
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    "thing",
    [
        ctypes.pointer(ctypes.c_int(1)),
        ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1),
        zlib.compressobj(),
        Future(),
    ],
    ids=["pointer", "callback", "compressor", "future"],
)
def test_an_address_or_less_than_all_is_no_value(thing):
    """The next object may have the same address."""
    with pytest.raises(UntoldError):
        key_of(thing)


def test_what_a_structure_of_c_holds_counts_whatever_its_fields_are_called():
    class Point(ctypes.Structure):
        _fields_ = (("P", ctypes.c_int), ("X", ctypes.c_double))

    assert key_of(Point(1, 2)) == key_of(Point(1, 2)) != key_of(Point(1, 3))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<Value object at 0x7f>", False),
        ("< a.Value 0x7fcacb79aa50>", False),
        ("<cdata 'int[]' owning 8 bytes>", False),
        ("<cdata 'int[]' sliced length 2>", False),
        ("<cdata 'char[]' buffer len 2 from 'bytearray' object>", False),
        ("<cdata 'void *' handle to A()>", False),
        ("<cdata 'int' 5>", True),
        ("<Field type=c_int, ofs=0, size=4>", True),
        ("Mask(0xFFFFFF)", True),
    ],
)
def test_what_shows_an_address_says_nothing_of_its_value(text, value):
    class Shown:
        def __repr__(self):
            return text

    assert (text if value else None) == said(Shown())
