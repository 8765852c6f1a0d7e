"""A way to read at once is used where it gives what `[]` gives, else it is not, or is an error."""

import numpy as np
import pytest
from own_sources import Delegating, Slotted, Squares

from threadloader import Loader
from threadloader.errors import CollateError
from threadloader.sources import ArraySource, as_source, fingerprint, per_thread


@pytest.mark.parametrize("method", ["other array", "first n"])
def test_a_take_of_another_meaning_is_not_offered(method):
    """Else a batch would be taken from the flattened array, or be the first n samples."""

    class Foreign(Squares):
        kind = "foreign"
        if method == "other array":

            def __array__(self):
                raise NotImplementedError

            def take(self, indices):
                raise NotImplementedError
        else:

            def take(self, n):
                raise NotImplementedError

    source = as_source(Foreign())
    assert not hasattr(source, "take")
    assert (4, 9, "foreign") == (len(source), source[3], source.kind)
    assert fingerprint(Foreign()) == fingerprint(source)


class Rows:
    """Ten rows that can be read in any way."""

    def __init__(self):
        self.rows = np.arange(10)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def __getitems__(self, indices):
        return [self.rows[index] for index in indices]

    def take(self, indices):
        return self.rows[indices]

    def column(self, field):
        return self.rows


class Given(Rows):
    """Has its way to read at once in its own `__dict__`."""

    def __init__(self):
        super().__init__()
        self.take = super().take


class Overriding(Rows):
    def __getitem__(self, index):
        return self.rows[index] * 10


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Delegating(np.arange(10)),
        lambda: Delegating(Rows()),
        lambda: Slotted(Given()),
        Overriding,
    ],
    ids=["array", "object", "slots", "subclass"],
)
@pytest.mark.parametrize("wrapped", [lambda make: make(), per_thread], ids=["own", "per_thread"])
@pytest.mark.parametrize("transform", [None, lambda sample: sample], ids=["plain", "transform"])
def test_what_indexing_gives_is_never_gone_round(workers, make, wrapped, transform):
    """What is read at once by the method of another object, or of a base class, is not that."""
    config = {"batch_size": 5, "shuffle": False, "num_workers": workers}
    with Loader(config, wrapped(make), transform=transform) as batches:
        assert list(range(0, 100, 10)) == np.concatenate(list(batches)).tolist()


@pytest.mark.parametrize("group", [False, True])
def test_a_take_may_give_fields_as_lists_of_lists(group):
    """As stacking gives what samples have as lists, in JSON for one."""

    class Named:
        sample_bytes = 8 if group else 0  # several batches are asked for by one call

        def __len__(self):
            return 12

        def __getitem__(self, index):
            return {"names": [f"a{index}", f"b{index}"], "deep": [[f"c{index}"]]}

    class Taking(Named):
        def __getitem__(self, index):
            return super().__getitem__(index)

        def take(self, indices):
            made = [[f"{letter}{index}" for index in indices] for letter in "abc"]
            return {"names": made[:2], "deep": [made[2:]]}

    seen = []
    for source in (Named(), Taking()):
        with Loader({"batch_size": 3, "shuffle": False}, source) as batches:
            seen.append(list(batches))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "given",
    [
        lambda rows: rows[:-1],
        lambda rows: {"x": rows, "y": np.append(rows, 0)},
        lambda rows: {"z": np.array(7)},
        lambda rows: (rows, {"z": np.array(7)}),
        lambda rows: {"x": rows, "name": ["a"] * 6},
        lambda rows: (rows, []),
        lambda rows: [{"x": row} for row in rows[:4]],
        lambda rows: [np.zeros(row) for row in range(6)][:4],
    ],
    ids=["short", "long", "no rows", "no rows within", "texts", "no texts", "samples", "ragged"],
)
@pytest.mark.parametrize("method", ["take", "take_into"])
def test_a_take_that_gives_another_number_of_rows_is_an_error(given, method):
    class Short(Rows):
        def take(self, indices):
            return given(super().take(indices))

    class Into(Rows):
        def take_into(self, indices, empty):
            return given(self.take(indices))

    source = Short() if method == "take" else Into()
    with Loader({"batch_size": 5}, source) as batches:
        with pytest.raises(
            CollateError, match=f"{method}: expected arrays and lists of 5 rows, got one of [046]"
        ):
            next(iter(batches))


@pytest.mark.parametrize("config", [{"num_workers": 0}, {"num_workers": 2}], ids=str)
def test_a_take_that_gives_nothing_is_an_error(config):
    class Forgetful(Rows):
        def take(self, indices):
            super().take(indices)

    with Loader({"batch_size": 5, **config}, Forgetful()) as batches:
        with pytest.raises(CollateError, match="take: expected a batch of 5 rows, got None"):
            next(iter(batches))


def test_several_batches_that_a_subclass_takes_with_too_few_rows_are_an_error():
    """Though what it inherits does not have its rows counted."""

    class Short(ArraySource):
        def take_into(self, indices, empty):
            return super().take_into(indices[::2], empty)

    with Loader({"batch_size": 4}, Short(np.arange(80))) as batches:
        with pytest.raises(CollateError, match=r"take_into: expected .* of 4 rows, got one of 2"):
            next(iter(batches))


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_subclass_calls_take_batches_is_not_asked(workers):
    """No source is to offer a method of this name."""

    class Other(ArraySource):
        def take_batches(self, indices, empty):
            return lambda first, last: [batch[:1] for batch in indices[first:last]]

    config = {"batch_size": 4, "num_workers": workers, "shuffle": False}
    with Loader(config, Other(np.arange(80))) as batches:
        assert list(range(80)) == np.concatenate(list(batches)).tolist()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("on_error", ["raise", {"skip": 1}])
def test_a_source_may_use_up_the_list_of_those_it_is_asked_for(workers, on_error):
    class Using(Rows):
        def __getitems__(self, indices):
            return [self[indices.pop()] for _ in range(len(indices))][::-1]

    config = {"batch_size": 5, "num_workers": workers, "on_error": on_error}
    with Loader(config, Using()) as batches:
        assert all(batch.tolist() == batches.info.indices.tolist() for batch in batches)


def test_a_take_without_parameters_is_not_offered():
    kind = type("Taken", (Rows,), {"take": lambda self: self.rows[:3]})
    assert not hasattr(as_source(kind()), "take")


def test_a_way_to_read_at_once_that_a_subclass_defines_is_offered():
    class Taking(Overriding):
        def take(self, indices):
            return self.rows[indices] * 10

    source = as_source(Taking())
    assert hasattr(source, "take")
    assert not hasattr(source, "__getitems__")


def test_a_way_to_read_at_once_that_an_object_is_given_is_offered():
    source = Overriding()
    source.__getitems__ = lambda indices: [source[index] for index in indices]
    assert hasattr(as_source(source), "__getitems__")


@pytest.mark.parametrize(("name", "transform"), [("take", None), ("__getitems__", int)])
def test_a_way_to_read_at_once_that_is_none_is_not_offered(name, transform):
    """Each with what would have it used."""
    kind = type("Without", (Rows,), {name: None})
    with Loader({"batch_size": 5, "shuffle": False}, kind(), transform=transform) as batches:
        assert list(range(10)) == np.concatenate(list(batches)).tolist()


def test_a_take_of_indices_is_offered():
    class Whole(Squares):
        def take(self, indices):
            return indices * indices

    class Compiled(Squares):
        take = staticmethod(max)  # compiled code does not say what it takes

    for source in (Whole(), Compiled(), as_source(np.zeros(2)), per_thread(Whole)):
        assert as_source(source) is source
