"""A source's fingerprint says what is known of its data, and never by another's word alone."""

import numpy as np
import pytest
from dtypes import DTYPES, filled
from own_sources import Delegating, Pair, Slotted, Squares

from threadloader import Loader
from threadloader.errors import ConfigError
from threadloader.sources import (
    ArraySource,
    as_source,
    fingerprint,
    has_fingerprint,
    per_thread,
    sample_fingerprint,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_fingerprint_does_not_depend_on_layout_or_byte_order(dtype):
    array = filled((100, 3), dtype)
    expected = fingerprint(as_source(array))
    assert expected == fingerprint(as_source(np.asfortranarray(array)))
    assert expected == fingerprint(as_source(array.byteswap().view(array.dtype.newbyteorder())))


def test_a_fingerprint_is_the_same_for_ever():
    data = {"x": np.arange(3000, dtype="i4").reshape(1000, 3), "y": filled(1000, DTYPES[-2])}
    assert (
        "dict, 1000 samples, field 'x' i4 (3,), "
        "field 'y' {'id': i4, 'box': f4 (2, 2), 'name': U3} (), sha256 "
        "4f703b33c16be442f0eb52ac67d20b17a21651f50e0c85a412f5d1eced07d4f4"
    ) == fingerprint(as_source(data))


@pytest.mark.parametrize("kind", ["aligned record", "long double"])
def test_a_fingerprint_leaves_out_bytes_that_mean_nothing(kind):
    dtype = DTYPES[-1] if kind == "aligned record" else np.dtype("g")
    prints = set()
    for garbage in (0, 0xA5):
        array = np.full(10 * dtype.itemsize, garbage, np.uint8).view(dtype)
        for name in dtype.names or [...]:
            array[name] = 1
        prints.add(fingerprint(as_source(array)))
    assert 1 == len(prints)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 1000])
def test_a_fingerprint_reads_64_rows_from_the_first_to_the_last(n):
    def told(row):
        array = np.zeros((n, 2))
        array[row, 1] = 1
        return fingerprint(as_source(array)) != fingerprint(as_source(np.zeros((n, 2))))

    seen = [row for row in range(n) if told(row)]
    assert min(n, 64) == len(seen)
    assert (0, n - 1) == (seen[0], seen[-1])
    assert max(np.diff([0, *seen])) - min(np.diff(seen), default=0) <= 1


def test_a_fingerprint_tells_structure_dtype_shape_and_length_apart():
    x = np.zeros((4, 4))
    data = [x, (x,), {"x": x}, {"z": x}, Pair(x, x), (x, x), x.astype("f4"), x[:3], x[:, :3]]
    data += [x.reshape(4, 2, 2), x.astype("S8")]
    assert len(data) == len({fingerprint(as_source(each)) for each in data})


def test_without_its_own_a_fingerprint_is_class_and_length():
    assert "own_sources.Squares, 4 samples" == fingerprint(Squares())


def test_an_own_fingerprint_counts_and_must_be_a_str():
    class Own(Squares):
        answer = "v1"

        def fingerprint(self):
            return self.answer

    source = Own()
    assert "v1" == fingerprint(source)
    source.answer = 5
    with pytest.raises(ConfigError, match=r"expected a str from its fingerprint\(\), got int"):
        fingerprint(source)


class Known(list):
    """Says what its data is."""

    def fingerprint(self):
        return "known"


def test_texts_of_numpy_stand_in_a_state_as_plain_ones():
    """torch.save and others know no `numpy.str_`."""

    class Named(list):
        def fingerprint(self):
            return np.str_("mine")

    def sampler(epoch, n):
        return range(n)

    sampler.name = np.str_("every one")
    with Loader({"num_workers": 0}, Named([1, 2]), sampler=sampler) as batches:
        run = batches.state_dict()["run"]
    assert {"mine", "every one"} <= set(map(str, run.values()))
    assert not [value for value in run.values() if isinstance(value, np.str_)]


@pytest.mark.parametrize(("kind", "known"), [(Known, True), (list, False)])
def test_one_for_each_thread_says_what_its_data_is_if_they_do(kind, known):
    source = as_source(per_thread(lambda: kind([1, 2])))
    assert known == has_fingerprint(source)


def test_a_take_that_takes_a_number_does_not_hide_what_the_data_is():
    class Indexer(Known):
        def take(self, n):
            return self[:n]

    assert has_fingerprint(as_source(Indexer([1, 2])))


class Doubled(Known):
    """Says of its samples what is true of the base class's."""

    def __getitem__(self, index):
        return 2 * super().__getitem__(index)


class DoubledRows(ArraySource):
    """Its base class tells the rows as they were given to it."""

    def __getitem__(self, index):
        return 2 * super().__getitem__(index)


class More(Known):
    """Has the samples of its base class."""


@pytest.mark.parametrize("wrapped", [lambda make: make(), per_thread], ids=["own", "per_thread"])
@pytest.mark.parametrize(
    ("make", "said", "known"),
    [
        (lambda: Delegating(Known([1, 2])), "own_sources.Delegating, known", False),
        (lambda: Slotted(Known([1, 2])), "own_sources.Slotted, known", False),
        (lambda: Delegating([1, 2]), "own_sources.Delegating, 2 samples", False),
        (lambda: Doubled([1, 2]), f"{__name__}.Doubled, known", True),
        (lambda: DoubledRows(np.arange(2)), f"{__name__}.DoubledRows, array, 2 samples", False),
        (lambda: ArraySource(np.arange(2)), "array, 2 samples", True),
        (lambda: More([1, 2]), "known", True),
    ],
    ids=["wrapper", "slots", "wrapper of a list", "own items", "own rows", "rows", "subclass"],
)
def test_what_another_says_its_data_is_counts_with_the_class_or_not_at_all(
    wrapped, make, said, known
):
    """Else kept samples of the one would be taken for the other's."""
    source = as_source(wrapped(make))
    assert known == has_fingerprint(source)
    assert said == sample_fingerprint(source)[: len(said)]


def test_what_an_object_is_given_to_say_of_its_data_is_its_own():
    source = Delegating(Known([1, 2]))
    source.fingerprint = lambda: "mine"
    assert ("mine", True) == (sample_fingerprint(source), has_fingerprint(source))


def test_a_fingerprint_that_is_none_says_nothing():
    source = type("Silent", (Known,), {"fingerprint": None})([1, 2])
    assert (f"{__name__}.Silent, 2 samples", False) == (
        fingerprint(source),
        has_fingerprint(source),
    )
