"""How many bytes a batch has, for the bound in bytes and what is told of it."""

import math
import signal
import sys
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pytest

from threadloader.sizes import nbytes

Pair = namedtuple("Pair", "x y")
X, Y = np.zeros((2, 3), np.float32), np.arange(2, dtype=np.int64)
BOTH = 24 + 16


def test_the_size_of_a_batch_is_that_of_what_it_holds():
    batch = {"x": np.zeros((2, 3), np.float32), "y": ["ab", b"c"], "z": (np.int64(1), 2)}
    texts = sys.getsizeof("ab") + sys.getsizeof(b"c")
    assert 24 + texts + 8 + 8 == nbytes(batch)


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, MappingProxyType])
def test_every_mapping_is_looked_into(kind):
    """A `collate` in code may give any."""
    assert BOTH == nbytes(kind({"x": X, "y": kind({"y": Y})}))


@pytest.mark.parametrize("batch", [[X, Y], (X, [Y]), Pair(X, Y)], ids=type)
def test_lists_and_tuples_are_looked_into(batch):
    assert BOTH == nbytes(batch)


@pytest.mark.parametrize(
    ("text", "width"),
    [("a", 1), ("é", 1), ("字", 2), ("😀", 4), (b"a", 1), (bytearray(b"a"), 1)],
    ids=repr,
)
def test_texts_and_bytes_count_as_the_memory_that_they_take(text, width):
    """A character takes 1, 2 or 4 bytes, by the widest of its text."""
    assert [sys.getsizeof(text * n) for n in (1, 100)] == [nbytes(text * n) for n in (1, 100)]
    assert 900 * width == nbytes(text * 1000) - nbytes(text * 100)


def test_a_text_of_a_class_of_its_own_counts_as_one():
    class Word(str):
        __slots__ = ()

        def __sizeof__(self):
            raise RuntimeError("not asked")

    assert 200 <= nbytes(Word("字" * 100)) < 400


def test_a_memoryview_counts_as_what_it_shows():
    assert 3 == nbytes(memoryview(b"abc"))


@dataclass
class Sample:
    x: object
    y: object = None
    kind: ClassVar[np.ndarray] = X


@dataclass(slots=True)
class Slotted(Sample):
    z: object = field(init=False)  # never set


@pytest.mark.parametrize("kind", [Sample, Slotted])
def test_the_fields_of_dataclasses_are_looked_into(kind):
    missing = 8 * (kind is Slotted)
    assert BOTH + missing == nbytes(kind(X, {"y": Y}))
    assert 24 + 8 + missing == nbytes([kind(X)])


def test_a_dataclass_that_tells_its_size_counts_as_that():
    @dataclass
    class Own:
        x: object
        nbytes: int = 7

    assert [7, 24 + 8] == [nbytes(Own(X)), nbytes(Own(X, -1))]


def test_a_dataclass_that_holds_itself_is_looked_into_once():
    sample = Sample(X)
    sample.y = [sample]
    assert 24 == nbytes(sample)


def test_the_class_of_a_dataclass_is_no_sample():
    assert 8 == nbytes(Sample)


def test_a_view_counts_as_what_it_shows():
    """What it is a part of may be the whole data set, or a group of batches."""
    assert 24 == nbytes(np.zeros((1000, 3), np.float32)[5:7])


@pytest.mark.parametrize("batch", [7, None, object()], ids=type)
def test_what_tells_nothing_counts_as_eight(batch):
    assert 8 == nbytes(batch)


class Telling:
    """Has something for its `nbytes`."""

    def __init__(self, size):
        self.nbytes = size


@pytest.mark.parametrize("size", [0, 7, 2**70, np.int64(7), np.uint8(7)], ids=repr)
def test_what_tells_its_size_counts_as_that(size):
    assert int(size) == nbytes(Telling(size))
    assert int is type(nbytes([Telling(size)]))


@pytest.mark.parametrize(
    "size",
    [None, -1, -(2**70), np.int8(-5), 1.5, math.nan, math.inf, "7", b"7", len, X, Telling],
    ids=repr,
)
def test_a_size_that_is_no_number_of_bytes_counts_as_eight(size):
    """As of an object of the collate's own, which may have anything of this name."""
    assert 8 == nbytes(Telling(size))
    assert 8 + 24 == nbytes({"own": Telling(size), "x": X})


@pytest.mark.parametrize("kind", [lambda it: [it], lambda it: (it,), lambda it: {"x": it}])
def test_what_is_nested_deeper_than_any_batch_counts_as_eight(kind):
    batch = X
    for _ in range(3000):
        batch = kind(batch)
    assert 24 + 8 == nbytes([X, batch])


def test_what_an_array_of_objects_holds_is_counted():
    """Its own bytes are the addresses of these."""
    rows = np.empty(2, object)
    rows[:] = X, X.copy()
    pairs = np.array([(1, X)], [("number", int), ("row", object)])
    assert (2 * X.nbytes, X.nbytes + 8) == (nbytes([rows]), nbytes(pairs))


def test_what_holds_itself_is_looked_into_once():
    """However often, so that there is an end."""
    batch = [X]
    batch += [batch, {"again": batch}, batch]
    assert 24 == nbytes(batch)
    shared = [X]
    for _ in range(60):  # two to the power of 60 ways lead to it
        shared = [shared, shared]
    assert 24 == nbytes(shared)


def test_what_makes_what_it_holds_when_it_is_asked_has_an_end():
    class Endless(UserDict):
        def values(self):
            return [X, Endless()]

    assert 0 < nbytes(Endless()) < 10_000


def test_what_does_not_say_its_bytes_is_counted_as_any_other():
    """As a sparse tensor, which raises where it is asked."""

    class Sparse:
        @property
        def nbytes(self):
            raise RuntimeError("nbytes is not defined for sparse tensors")

    assert nbytes([Sparse(), X]) == nbytes([object(), X])


def test_what_a_signal_handler_raises_meanwhile_passes(rung):
    class Slow:
        @property
        def nbytes(self):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TimeoutError, match="rung"):
        nbytes(Slow())


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_what_raises_when_it_is_asked_counts_as_one_that_does_not_say(kind):
    """An OSError without a number, too, as of a file of h5py's that was closed."""

    class Closed:
        @property
        def nbytes(self):
            raise kind("closed")

    class Unread(UserDict):
        def values(self):
            raise kind("closed")

    assert nbytes(object()) == nbytes(Closed()) == nbytes(Unread())
