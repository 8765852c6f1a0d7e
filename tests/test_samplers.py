"""Each kind of sampler gives what it says: exact chances, no index that is not there, for ever."""

import functools

import numpy as np
import pytest

from threadloader import ConfigError
from threadloader import samplers as room
from threadloader.samplers import Kept, checked

NOTHING = np.empty(0, np.int64)


def kept_of(n, excluded=()):
    return Kept(n, np.array(sorted(set(excluded)), np.int64))


def told(error):
    (problem,) = error.value.problems
    return problem.pointer, problem.expected, problem.got


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
            (np.array([[0, 1]]), "int64 of shape (1, 2)"),
            (np.empty((0, 3), np.int64), "int64 of shape (0, 3)"),
            (np.array(1), "int64 of shape ()"),
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
        ids=str,
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

    @pytest.mark.parametrize("sampler", [5, "012", b"012", {0: 1}, {0}, iter([0])], ids=repr)
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
