"""A sampler in code is a row of indices, or a callable that gives one; all else is refused."""

import functools
import itertools
import random
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ids import shown
from made_samplers import kept_of, told, whole

from threadloader import ConfigError, Loader
from threadloader import samplers as room
from threadloader.samplers import checked


def naming(name):
    """A callable with a name attribute, if it is given one."""

    def sampler(epoch, n):
        return range(n)

    if name is not None:
        sampler.name = name
    return sampler


class Sampler:
    """Its name is that of its class."""

    def __call__(self, epoch, n):
        return range(n)


class TestIndices:
    """What counts as indices, whoever gives them."""

    @pytest.mark.parametrize(
        "indices",
        [
            [2, 0, 2],
            (2, 0, 2),
            np.array([2, 0, 2]),
            np.array([9, 2, 0, 2])[1:],
            np.array([2, 0, 2])[::-1],
            [np.int8(2), np.uint64(0), 2],
            (index for index in (2, 0, 2)),
            iter([2, 0, 2]),
            map(int, "202"),
            memoryview(np.array([2, 0, 2])),
        ],
        ids=lambda indices: type(indices).__name__,
    )
    def test_integers_in_one_row_are_taken(self, indices):
        """As an int64 array of its own, which nothing changes afterwards."""
        array = checked(indices, 3, "")
        assert ([2, 0, 2], np.int64) == (array.tolist(), array.dtype)

    @pytest.mark.parametrize("dtype", [f"{order}{kind}" for kind in ("i1", "u1") for order in "<>"])
    def test_integers_of_every_width_are_taken(self, dtype):
        for size in "1248":
            array = checked(np.array([2, 0, 1], dtype[:-1] + size), 300, "")
            assert ([2, 0, 1], np.int64) == (array.tolist(), array.dtype)

    def test_a_range_and_nothing_are_taken(self):
        assert [0, 2, 4] == checked(range(0, 5, 2), 5, "").tolist()
        for nothing in ([], (), np.array([]), iter(()), range(0)):
            assert (0, np.int64) == (len(checked(nothing, 0, "")), checked(nothing, 0, "").dtype)

    @pytest.mark.parametrize("dtype", ["?", "f4", "c8", "S1", "U1", "O", "V2", "M8[s]", "m8[s]"])
    def test_an_array_of_nothing_has_no_index_whatever_its_dtype(self, dtype):
        indices = checked(np.array([], dtype), 5, "")
        assert (0, np.int64) == (len(indices), indices.dtype)

    def test_an_array_that_is_given_is_copied(self):
        given = np.array([0, 1, 2])
        array = checked(given, 3, "")
        given[:] = 0
        assert [0, 1, 2] == array.tolist()

    @pytest.mark.parametrize(
        ("indices", "got"),
        [
            ([0, 1, -1], "-1 at position 2"),
            ([0, 5, 1, 6, -9], "5 at position 1 and 2 more"),
            (np.array([7], np.uint8), "7 at position 0"),
            (np.array([0, 2**64 - 1], np.uint64), "18446744073709551615 at position 1"),
            (np.array([-(2**63)]), "-9223372036854775808 at position 0"),
            ([0, 2**70], "1180591620717411303424 at position 1"),
            ([0, np.int8(-1), np.uint64(2)], "-1 at position 1"),
            ([0, int(1e300)], "an integer of 997 bits at position 1"),
            ([int(-1e300), 0], "a negative integer of 997 bits at position 0"),
        ],
        ids=str,
    )
    def test_an_index_that_is_not_there_is_an_error(self, indices, got):
        """Negative ones too: none is ever counted from the end, or wrapped."""
        with pytest.raises(ConfigError) as caught:
            checked(indices, 5, "sampler")
        assert ("sampler", "indices from 0 to 4", got) == told(caught)

    def test_an_empty_source_has_no_index(self):
        with pytest.raises(ConfigError, match="expected no index: the source is empty, got 0 at"):
            checked([0], 0, "sampler")

    @pytest.mark.parametrize(
        ("indices", "got"),
        [
            ([True, False], "bool at position 0"),
            ([2, True], "bool at position 1"),
            ([2, np.False_], f"{np.bool_.__name__} at position 1"),
            (np.array([True]), "bool of shape (1,)"),
            ([0, 1.0], "float at position 1"),
            (np.array([0.0]), "float64 of shape (1,)"),
            (np.array([[0, 1]], np.int64), "int64 of shape (1, 2)"),
            (np.empty((0, 3), np.int64), "int64 of shape (0, 3)"),
            (np.array(1, np.int64), "int64 of shape ()"),
            (np.array([0, 1], object), "object of shape (2,)"),
            ([[0, 1]], "list at position 0"),
            ([[0], [1, 2]], "list at position 0"),
            ([0, np.array([1, 2])], "ndarray at position 1"),
            ([None], "NoneType at position 0"),
            (["1"], "str at position 0"),
            ("01", "str"),
            (b"\0\1", "bytes"),
            (3, "int"),
            (None, "NoneType"),
            (object(), "object"),
        ],
        ids=shown,
    )
    def test_what_is_no_row_of_integers_is_refused(self, indices, got):
        with pytest.raises(ConfigError) as caught:
            checked(indices, 5, "sampler")
        assert ("sampler", "dataset indices: integers in one row", got) == told(caught)

    @pytest.mark.parametrize("kind", [ValueError, TypeError, RuntimeError])
    def test_what_a_generator_raises_is_its_own(self, kind):
        def broken():
            yield 0
            raise kind("mine")

        with pytest.raises(kind, match=r"^mine$"):
            checked(broken(), 5, "sampler")


class TestGiven:
    """Samplers that are given in code."""

    def test_who_gives_an_iterator_is_told_to_make_one_list_of_it(self):
        """Drawn from anew in each epoch, it would be empty from the second one on."""
        with pytest.raises(ConfigError, match=r"for an iterator: list\(it\), the same in every"):
            room.given((index for index in range(3)), 5, kept_of(5))

    def test_who_gives_what_draws_anew_each_time_is_told_of_what_does_not(self):
        """As a sampler of torch: a list of it would be another one after a resume."""

        class Drawing:
            def __iter__(self):
                return iter(random.sample(range(5), 5))

        hint = "or give a callable that gives the same whenever it is asked"
        with pytest.raises(ConfigError, match=hint):
            room.given(Drawing(), 5, kept_of(5))

    @pytest.mark.parametrize("sampler", [5, "012", b"012", {0: 1}, {0}, iter([0])], ids=shown)
    def test_neither_a_callable_nor_a_sequence_is_refused(self, sampler):
        with pytest.raises(ConfigError, match=r"a callable of \(epoch, n\), or a sequence"):
            room.given(sampler, 5, kept_of(5))

    @pytest.mark.parametrize(
        ("sampler", "name"),
        [
            (naming("mine"), "mine"),
            (naming(None), "naming.<locals>.sampler"),
            (functools.partial(functools.partial(naming("mine"), 1), 2), "mine"),
            (Sampler(), "Sampler"),
            (Sampler().__call__, "Sampler.__call__"),
            (max, "max"),
        ],
    )
    def test_a_callables_name_is_its_own(self, sampler, name):
        """Its attribute, or that of its function or class; without module and address."""
        assert name == room.given(sampler, 5, kept_of(5)).name

    def test_an_object_that_has_any_attribute_has_a_name(self):
        """Such as a mock: nothing is followed for ever."""

        class Any:
            def __getattr__(self, name):
                return self

            def __call__(self, epoch, n):
                return []

        expected = f"{type(self).__name__}.test_an_object_that_has_any_attribute_has_a_name"
        assert f"{expected}.<locals>.Any" == room.given(Any(), 5, kept_of(5)).name


@given(
    indices=st.builds(
        range, st.integers(0, 9), st.integers(-1, 10), st.sampled_from([1, 2, 7, -1, -3])
    ),
    excluded=st.sets(st.integers(0, 9)),
    asked=st.booleans(),
)
def test_a_range_is_the_order_that_its_list_is(indices, excluded, asked):
    kept = kept_of(10, excluded)
    orders = [
        room.given((lambda epoch, n, it=it: it) if asked else it, 10, kept).order(3)
        for it in (indices, list(indices))
    ]
    first, expected = ([order.n, *map(order.at, np.arange(order.n))] for order in orders)
    assert expected == first
    found, expected = ([order.find(it).tolist() for it in range(10)] for order in orders)
    assert expected == found


def test_a_range_takes_no_memory_however_long_it_is():
    n = min(10**15, sys.maxsize)
    tracemalloc.start()
    try:
        sampler = room.given(range(n - 1, -1, -1), n, kept_of(n, {n - 2}))
        last = sampler.order(0).at(np.array([0, 1, n - 2])).tolist()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ([n - 1, n - 3, 0], n - 1) == (last, sampler.length)
    assert peak < 100_000


@pytest.mark.parametrize(
    ("indices", "got"),
    [
        (range(-1, 3), r"-1 in range\(-1, 3\)"),
        (range(3, -2, -1), r"-1 in range\(3, -2, -1\)"),
        (range(11), r"10 in range\(0, 11\)"),
        (range(2**70, 2**70 + 1), str(2**70)),
    ],
    ids=str,
)
def test_a_range_that_leaves_the_source_is_refused(indices, got):
    for sampler in (indices, lambda epoch, n: indices):
        with pytest.raises(ConfigError, match=rf"sampler: expected indices from 0 to 9, got {got}"):
            room.given(sampler, 10, kept_of(10, ())).order(0)


@pytest.mark.parametrize(
    ("indices", "got"),
    [
        ([2**20_000], "an integer of 20001 bits at position 0"),
        (range(2**20_000, 2**20_000 + 1), "an integer of 20001 bits in a value of type range"),
    ],
    ids=["a list", "a range"],
)
def test_an_index_of_more_digits_than_python_writes_is_told_by_its_bits(indices, got):
    with pytest.raises(ConfigError, match=f"sampler: expected indices from 0 to 9, got {got}"):
        room.given(indices, 10, kept_of(10, ()))


def test_ranges_that_are_equal_have_one_name_and_others_have_another():
    """A state is refused where the name differs. A list of the same indices is another sampler."""
    kept, names = kept_of(5, {2}), {}
    for start, stop, step in itertools.product(range(5), range(-1, 6), (-3, -2, -1, 1, 2, 3)):
        indices = range(start, stop, step)
        name = room.given(indices, 5, kept).name
        assert name == names.setdefault(indices, name)
        assert name != room.given(list(indices), 5, kept).name
    assert len(names) == len(set(names.values()))
    assert "sequence, range(0, 6, 3)" == names[range(0, 4, 3)]


def test_one_index_may_stand_in_a_range_of_any_step():
    assert [4] == whole(room.given(range(4, 2**80, 2**80), 10, kept_of(10, {5}))).tolist()


def test_options_of_a_sampler_given_in_code_are_told_where_they_stand():
    with pytest.raises(ConfigError, match="its options stand in the config, as in"):
        Loader({}, range(4), sampler={"type": "subset", "indices": [1]}).__enter__()
