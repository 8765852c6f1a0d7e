"""Sources given in code: what is one, what is refused, arrays, and one for each thread."""

import collections
import gc
import threading
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leaks import Watch

from threadloader import Loader
from threadloader.collate import stack
from threadloader.errors import ClosedError, CollateError, ConfigError
from threadloader.sources import (
    ArraySource,
    _given,
    as_source,
    column,
    fingerprint,
    has_fingerprint,
    open_source,
    per_thread,
    sample_fingerprint,
)

Pair = collections.namedtuple("Pair", "image label")

DTYPES = [
    *("?", "i1", "u1", "i2", ">u4", "i8", ">i8", "u8", "f2", "f4", ">f4", "f8", "g", "F", "D", "G"),
    *("S1", "S5", "U1", "U5", ">U3", "V3", "M8[D]", "M8[ns]", ">M8[s]", "m8[s]"),
    [("id", "i4"), ("box", ">f4", (2, 2)), ("name", "U3")],
    np.dtype([("flag", "?"), ("value", "f8")], align=True),
]


def same(expected, actual):
    """Tell whether two nests of arrays have the same structure, dtypes, shapes and bytes."""
    if isinstance(expected, dict):
        return list(expected) == list(actual) and all(same(expected[k], actual[k]) for k in actual)
    if isinstance(expected, tuple | list):
        return (
            type(expected) is type(actual)
            and len(expected) == len(actual)
            and all(map(same, expected, actual))
        )
    if isinstance(expected, np.ndarray | np.generic):
        kinds = (expected.dtype, expected.shape), (actual.dtype, actual.shape)
        return kinds[0] == kinds[1] and content(expected) == content(actual)
    return type(expected) is type(actual) and expected == actual


def content(array):
    """Give the bytes that count: without those between fields, or unused ones of long doubles."""
    if array.dtype.names is not None:
        return [content(array[name]) for name in array.dtype.names]
    if array.dtype.char in "gG":
        return str(array.tolist())
    return array.tobytes()


def filled(shape, dtype):
    """Give an array of random bytes that mean something in every dtype."""
    dtype = np.dtype(dtype)
    numbers = np.random.default_rng(0).integers(0, 100, shape)
    if dtype.names is None:
        return numbers.astype(dtype if dtype.kind != "V" else "S3").view(dtype)
    array = np.zeros(shape, dtype)
    for name in dtype.names:
        array[name] = filled(array[name].shape, dtype[name].base)
    return array


# What is a source


class Squares:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index * index


class Frame:
    """A table of another library, as far as we look at it."""

    iloc = columns = property(lambda self: None)

    def __len__(self):
        return 2

    def __getitem__(self, name):
        raise KeyError(name)

    def to_dict(self, orient):
        raise NotImplementedError


class Series:
    """A column of another library, whose ``[]`` goes by label."""

    iloc = property(lambda self: None)

    def __len__(self):
        return 2

    def __getitem__(self, label):
        raise KeyError(label)


class ArrowTable:
    """A table of pyarrow, as far as we look at it: its length is that of a column."""

    __module__ = "pyarrow.lib"
    column_names = property(lambda self: ["a", "b"])

    def __len__(self):
        return 2

    def __getitem__(self, column):
        return (1, 2)


class Dataset:
    """The base of torch's datasets, as far as we look at it."""

    __module__ = "torch.utils.data.dataset"

    def __getitem__(self, index):
        raise NotImplementedError


class IterableDataset(Dataset):
    """A stream of torch, whose class may have a length."""

    __module__ = "torch.utils.data.dataset"

    def __iter__(self):
        raise NotImplementedError


class ChainDataset(IterableDataset):
    """Streams of torch, one after the other, of which each may have no length."""

    __module__ = "torch.utils.data.dataset"

    def __len__(self):
        raise TypeError


class Sparse:
    """A sparse matrix, as far as we look at it."""

    nnz = property(lambda self: 3)

    def __len__(self):
        raise TypeError("sparse array length is ambiguous; use getnnz() or shape[0]")

    def __getitem__(self, index):
        return Sparse()

    def toarray(self):
        raise NotImplementedError


class DictOfKeys(dict):
    """One of which `len` counts what is not 0."""

    __module__ = "scipy.sparse._dok"
    nnz = property(len)

    def __len__(self):
        return 3


class Tensor:
    """An array of another library, as far as we look at it."""

    def __init__(self, *shape):
        self.shape = shape

    def __array__(self):
        raise NotImplementedError


class Shaped(Tensor):
    """One whose shape is an array."""

    def __init__(self):
        super().__init__()
        self.shape = np.array([2, 3])


class Shapeless(Tensor):
    """A sample that becomes an array, and cannot say of which shape."""

    @property
    def shape(self):
        raise RuntimeError("not known yet")

    @shape.setter
    def shape(self, shape):
        pass


def test_a_source_that_has_columns_and_gives_samples_by_number_is_one():
    """As tables of other libraries than pandas do."""
    more = {"columns": ("a", "b"), "to_dict": dict, "__getitem__": Squares.__getitem__}
    source = type("Table", (Squares,), more)()
    assert source is as_source(source)


@pytest.mark.parametrize(
    "data",
    [
        *([], ["a"], range(3), b"ab", Squares()),
        *(("a", "b"), (), (np.int8(1), Tensor()), [Tensor(2)], (Shapeless(), Shapeless())),
    ],
    ids=lambda d: type(d).__name__,
)
def test_what_has_length_and_items_is_taken_as_it_is(data):
    assert as_source(data) is data


@pytest.mark.parametrize("table", [Frame, ArrowTable])
def test_a_table_with_an_item_of_its_own_for_each_row_is_taken_as_it_is(table):
    data = type("Rows", (table,), {"__getitem__": lambda self, index: index})()
    assert as_source(data) is data


def test_a_stream_of_torch_with_an_item_of_its_own_is_taken_as_it_is():
    data = type("Rows", (Squares, IterableDataset), {})()
    assert as_source(data) is data


def test_a_dataset_of_torch_is_taken_as_it_is():
    data = type("Rows", (Squares, Dataset), {})()
    assert as_source(data) is data


def test_a_sparse_matrix_with_a_length_of_its_own_is_taken_as_it_is():
    data = type("Rows", (Sparse,), {"__len__": lambda self: 3})()
    assert as_source(data) is data


def test_samples_of_no_shape_raise_nothing_when_they_are_looked_at(monkeypatch):
    """What each of many raises would be looked into, whether it is a signal handler's."""
    data = (type("Sample", (), {"__array__": Tensor.__array__})(),) * 3
    asked = []
    monkeypatch.setattr(_given, "from_signal", asked.append)
    assert as_source(data) is data
    assert [] == asked


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "got NoneType"),
        (3, "got int; give an array, a dict or tuple of arrays, a list of samples, or"),
        ("train.npz", "a file is named in the config"),
        ("x", '"path": ...}; for the characters of a string give list(...)'),
        (
            Path("train.npz"),
            'Path; a file is named in the config, as in {"type": "text", "path": ...}',
        ),
        (
            {"type": "npz", "path": "x.npz"},
            "arrays or samples, got an object of options; it stands in the config, as in Loader({",
        ),
        ({"type": "train", "x": np.zeros(3)}, "(field 'type'), got str; give numpy.asarray"),
        (Squares, "the class Squares; give an object of it"),
        ((i for i in range(3)), "a stream cannot be indexed: give a list"),
        (map(str, [1]), "a stream cannot be indexed"),
        (Frame(), 'its [] gives columns: give its rows, as df.to_dict("records") does, or a dict'),
        (type("Named", (Frame,), {})(), "got Named; its [] gives columns"),
        (Series(), "got Series; its [] goes by label, not by position: give its values, as s.to_n"),
        (ArrowTable(), "its [] gives columns: give its rows, as table.to_pylist() does, or an ob"),
        (type("RecordBatch", (ArrowTable,), {})(), "got RecordBatch; its [] gives columns"),
        (Sparse(), "got Sparse; its rows are matrices: give its toarray(), or an object of your"),
        (DictOfKeys(), "got DictOfKeys; its rows are matrices: give its toarray(), or an object"),
        ({"x": Sparse()}, "expected a numpy array (field 'x'), got Sparse; give its toarray()"),
        (
            type("Stream", (IterableDataset,), {"__len__": lambda self: 3})(),
            "with __len__ and __getitem__, got Stream; this cannot be indexed: give a list of its",
        ),
        (ChainDataset(), "got ChainDataset; this cannot be indexed: give a list of its samples"),
        ({1, 2}, "got set; this cannot be indexed: give a list"),
        (np.float64(3), "got float64; give an array, a dict or tuple of arrays, a list of samples"),
        (
            type("Stored", (), {"__getitem__": lambda self, at: at, "shape": (3, 2)})(),
            "got Stored; it has no len(): give an object of your own whose __len__ gives its shape",
        ),
        (
            {"train": type("Rows", (list,), {"__getitems__": lambda self, at: at})(range(3))},
            "a numpy array (field 'train'), got Rows; give it alone: it has samples of its own",
        ),
        (
            {"x": type("Stored", (), {"shape": (3, 2), "chunks": (1, 2)})()},
            "got Stored; give numpy.asarray(...) of it if it fits into memory, else an object of",
        ),
        ({}, "expected at least one array, got none"),
        ({"x": [1, 2]}, "expected a numpy array (field 'x'), got list; give numpy.asarray"),
        ({"x": np.zeros(3), "y": range(3)}, "(field 'y'), got range"),
        ((np.zeros(3), [1, 2, 3]), "expected a numpy array (field 1), got list"),
        (
            (Tensor(2, 3), Tensor(2)),
            "got Tensor; give numpy.asarray(...) of it, or list(...) of a tuple of samples",
        ),
        ((Shaped(), Shaped()), "a numpy array (field 0), got Shaped; give numpy.asarray"),
        (
            (np.array(1), np.array(2)),
            "got an array of shape (); give one sample a row, or list(...) of a tuple of samples",
        ),
        (Pair(np.array(1), np.array(2)), "(field 'image'), got an array of shape ()"),
        ((np.ma.masked, 1), "an array without a mask (field 0), got MaskedConstant"),
        (
            {"x": np.zeros((3, 2)), "y": np.zeros(4)},
            "got 3 in field 'x' and 4 in field 'y'; the first dimension counts the samples",
        ),
        (Pair(np.zeros(2), np.zeros(1)), "2 in field 'image' and 1 in field 'label'"),
        (np.array(5), "at least one dimension, the samples (the array), got an array of shape ()"),
        ({"x": np.array(["a", None], object)}, "fixed width (field 'x'), got dtype object"),
        (np.zeros(2, [("a", "i4"), ("b", "O")]), "expected numbers, or strings of a fixed width"),
        (np.ma.array([1, 2], mask=[True, False]), "the mask would be lost"),
        (np.zeros((2, 2)).view(np.matrix), "got matrix; give numpy.asarray"),
    ],
)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of numpy.matrix
def test_what_is_no_source_is_refused_with_what_to_do(data, said):
    with pytest.raises(ConfigError) as caught:
        as_source(data)
    assert said in str(caught.value)
    assert "source" == caught.value.problems[0].pointer


def test_a_mapping_of_arrays_such_as_an_open_npz_is_a_source(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.arange(3.0))
    with np.load(tmp_path / "a.npz") as file:
        source = as_source(file)
    assert {"x": 1, "y": 1.0} == source[1]


def test_an_unknown_type_in_the_config_names_the_known_ones():
    with pytest.raises(
        ConfigError, match=r'/source/type: expected one of "npz", .*"sqlite", got \'np\''
    ):
        open_source({"type": "np"})
    with pytest.raises(ConfigError, match="got None"):
        open_source({})


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


class Delegating:
    """Changes what `[]` gives, and has all else of another object."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[index] * 10

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Slotted:
    """Likewise, and even its `__dict__` is the other object's."""

    __slots__ = ("inner",)
    __init__ = Delegating.__init__
    __len__ = Delegating.__len__
    __getitem__ = Delegating.__getitem__
    __getattr__ = Delegating.__getattr__


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


def test_labels_of_another_object_are_not_taken_for_those_of_the_samples():
    class Doubled(Delegating):
        def __getitem__(self, index):
            return {"y": 2 * self.inner[index]["y"]}

    source = as_source(Doubled(as_source({"y": np.arange(3)})))
    assert [0, 2, 4] == list(column(source, "y", "/sampler/field"))


def test_a_take_of_indices_is_offered():
    class Whole(Squares):
        def take(self, indices):
            return indices * indices

    class Compiled(Squares):
        take = staticmethod(max)  # compiled code does not say what it takes

    for source in (Whole(), Compiled(), as_source(np.zeros(2)), per_thread(Whole)):
        assert as_source(source) is source


# Arrays


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 2)])
def test_a_sample_is_the_row_and_a_batch_the_stacked_samples(dtype, shape):
    array = filled(shape, dtype)
    indices = np.array([6, 0, 0, 3])
    for data in (array, {"x": array, "y": np.arange(7)}, (array,), Pair(array, array)):
        source = as_source(data)
        assert 7 == len(source)
        assert same(stack([source[i] for i in indices]), source.take(indices))
    assert same(array[indices], as_source(array).take(indices))
    assert content(array[3, ...]) == content(np.asarray(as_source(array)[3]))


@pytest.mark.parametrize("layout", ["Fortran", "strided", "backwards", "unaligned", "read-only"])
def test_any_layout_in_memory_gives_contiguous_writable_batches(layout):
    plain = np.arange(60.0).reshape(10, 6)
    other = {
        "Fortran": np.asfortranarray(plain),
        "strided": np.repeat(plain, 2, axis=1)[:, ::2],
        "backwards": plain[::-1].copy()[::-1],
        "unaligned": np.frombuffer(b"." + plain.tobytes(), np.uint8)[1:].view("f8").reshape(10, 6),
        "read-only": plain.copy(),
    }[layout]
    other.flags.writeable = False
    source = as_source(other)
    batch = source.take(np.array([9, 1]))
    assert same(plain[[9, 1]], batch)
    assert batch.flags.c_contiguous
    assert batch.flags.writeable
    assert source[2].flags.writeable
    assert same(plain[2], source[2])


def test_a_batch_of_an_unusual_layout_does_not_copy_the_whole_array():
    array = np.asfortranarray(np.zeros((100_000, 8)))
    source = as_source(array)
    tracemalloc.start()
    source.take(np.arange(10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < array.nbytes / 50


@given(st.data())
def test_take_equals_indexing_for_any_arrays(data):
    n = data.draw(st.integers(1, 6))
    array = data.draw(
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3).flatmap(
            lambda shape: hnp.arrays(hnp.scalar_dtypes(), (n, *shape))
        )
    )
    indices = data.draw(hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(0, n - 1)))
    assert same(array[indices], as_source(array).take(indices))


SWAPPED = np.dtype("i4").newbyteorder()  # which is not this machine's


@pytest.mark.parametrize(
    "array", [np.zeros((3, 2)), np.zeros(3, [("a", "i4")]), np.zeros(3, SWAPPED), np.zeros(3, "U2")]
)
def test_writing_into_a_sample_never_spoils_the_data(array):
    before = array.tobytes()
    sample = as_source({"x": array})[1]["x"]
    assert not np.shares_memory(sample, array)
    sample["a" if array.dtype.names else ...] = 1
    assert before == array.tobytes()


@pytest.mark.parametrize("index", [-1, 3, 2**63, np.int64(-1), np.int8(3)])
def test_an_index_out_of_range_never_wraps(index):
    source = as_source(np.arange(3))
    with pytest.raises(IndexError, match=rf"expected an index of 0 .. 2, got {index}"):
        source[index]
    with pytest.raises(IndexError):
        source.take(np.array([index]))


@pytest.mark.parametrize("index", [True, np.True_, 1.0, "1", None, slice(2)])
def test_an_index_that_is_no_integer_is_refused(index):
    with pytest.raises(TypeError):
        as_source(np.arange(3))[index]


@pytest.mark.parametrize(
    "indices", [np.array([1.0]), np.array([True]), np.array([[1]]), np.array(1), ["a"], 1]
)
def test_indices_that_are_no_integers_in_a_row_are_refused(indices):
    with pytest.raises(TypeError, match="expected integers in one row as indices"):
        as_source(np.arange(3)).take(indices)


def test_no_indices_give_an_empty_batch():
    assert same(np.zeros((0, 2)), as_source(np.zeros((3, 2))).take([]))


def test_no_samples_are_a_source_of_length_0():
    source = as_source({"x": np.zeros((0, 2))})
    assert 0 == len(source)
    assert same({"x": np.zeros((0, 2))}, source.take(np.zeros(0, np.int64)))
    with pytest.raises(IndexError, match="since there are no samples, got 0"):
        source[0]
    assert fingerprint(source).startswith("dict, 0 samples")


def test_a_memory_map_stays_one(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = as_source({"x": mapped})
    assert np.shares_memory(mapped, source.arrays[0])
    assert type(source[1]["x"]) is np.ndarray
    assert [2, 3] == source[1]["x"].tolist()


def test_a_change_of_the_given_dict_does_not_reach_the_source():
    data = {"x": np.arange(3)}
    source = as_source(data)
    data["y"] = np.arange(1)
    del data["x"]
    assert {"x": 2} == source[2]


# Fingerprints


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
    assert f"{__name__}.Squares, 4 samples" == fingerprint(Squares())


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


# One for each thread


class Handle(Squares):
    """A source that only the thread that made it may read."""

    made = None  # replaced for each test

    def __init__(self):
        self.thread = threading.get_ident()
        self.closed = 0
        self.made.append(self)

    def __getitem__(self, index):
        assert self.thread == threading.get_ident()
        assert not self.closed
        return super().__getitem__(index)

    def close(self):
        self.closed += 1


@pytest.fixture
def made(monkeypatch):
    handles = []
    monkeypatch.setattr(Handle, "made", handles)
    return handles


def run(work):
    """Run in a thread of its own; give what it returns or raise what it raises."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_each_thread_reads_from_an_object_of_its_own(made):
    source = per_thread(Handle)
    assert [] == made
    assert 4 == len(source)
    barrier = threading.Barrier(4)

    def read():
        barrier.wait()
        return [source[i] for i in range(4)], len(source)

    with ThreadPoolExecutor(4) as pool:
        results = [future.result() for future in [pool.submit(read) for _ in range(4)]]
    assert [([0, 1, 4, 9], 4)] * 4 == results
    assert 5 == len(made)
    source.close()
    assert [1] * 5 == [handle.closed for handle in made]


def test_the_length_is_that_of_the_opening_thread_and_costs_others_no_object(made):
    source = per_thread(Handle)
    len(source)
    assert 4 == run(lambda: len(source))
    assert 1 == len(made)
    source.close()


def test_closing_twice_or_unused_does_nothing(made):
    source = per_thread(Handle)
    source.close()
    assert 0 == source[0]
    source.close()
    source.close()
    assert [1] == [handle.closed for handle in made]


def test_it_can_be_used_again_after_close(made):
    source = per_thread(Handle)
    for _ in range(2):
        assert 4 == len(source)
        assert 9 == run(lambda: source[3])
        source.close()
    assert [1] * 4 == [handle.closed for handle in made]


@pytest.mark.parametrize("workers", [0, 2])
def test_two_loaders_over_one_per_thread_each_close_what_was_made_for_them(workers):
    open_now = []

    class Data:
        def __len__(self):
            return 30

        def __getitem__(self, index):
            assert self in open_now
            return index

        def close(self):
            open_now.remove(self)

    def opened():
        data = Data()
        open_now.append(data)
        return data

    source = per_thread(opened)
    config = {"batch_size": 5, "num_workers": workers, "on_error": {"skip": 99}}
    with Loader(config, source) as train:
        for epoch in train.epochs(3):
            assert 30 == sum(map(len, epoch))
            before = list(open_now)
            with Loader(config, source) as test:
                assert 30 == sum(map(len, test))
            assert set(before) <= set(open_now)
        assert 0 == train.stats().skipped
    assert [] == open_now


def test_asking_where_a_sample_stands_opens_nothing(made, monkeypatch):
    """Nor does how large one is: not before a read, not in another thread, not after close."""
    monkeypatch.setattr(Handle, "locate", lambda self, index: "here", raising=False)
    monkeypatch.setattr(Handle, "sample_bytes", 8, raising=False)
    source = per_thread(Handle)

    def offered():
        return [name for name in ("locate", "sample_bytes") if hasattr(source, name)]

    assert [] == offered()
    source[0]
    locate = source.locate
    assert ("here", 8) == (locate(0), source.sample_bytes)
    assert [] == run(offered)
    with pytest.raises(AttributeError, match="got one without an object"):
        run(lambda: locate(0))
    assert ["locate", "sample_bytes"] == offered()
    source.close()
    assert [] == offered()
    with pytest.raises(AttributeError):
        locate(0)
    assert [1] == [handle.closed for handle in made]


def test_objects_without_close_are_left_alone():
    source = per_thread(lambda: [1, 2])
    assert 2 == source[1]
    source.close()


def test_every_object_is_closed_even_if_one_close_raises(made):
    source = per_thread(Handle)
    source[0]
    run(lambda: source[0])
    run(lambda: source[0])

    def fail():
        raise OSError("disk gone")

    made[0].close = made[1].close = fail
    with pytest.raises(OSError, match="disk gone"):
        source.close()
    assert 1 == made[2].closed


def test_closes_that_raise_come_as_one_and_leave_no_garbage(made):
    """The last is raised with the one before as its context, and in no cycle."""

    class Stubborn(Handle):
        def close(self):
            raise OSError(made.index(self))

    with Watch() as watch:
        source = per_thread(Stubborn)
        for _ in range(3):
            run(lambda: source[0])
        seen = []
        try:
            source.close()
        except OSError as error:
            step = error
            while step is not None:
                seen.append(step.args[0])
                step = step.__context__
        source = None
        made.clear()
        watch.look()
    assert [2, 1, 0] == seen


def test_an_object_made_while_closing_is_closed_at_once(made):
    """The thread is in the factory; close() returns; the factory returns."""
    entered, go_on = threading.Event(), threading.Event()

    def slow():
        entered.set()
        go_on.wait(60)
        return Handle()

    source = per_thread(slow)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: source[0])
        entered.wait(60)
        source.close()
        go_on.set()
        with pytest.raises(ClosedError, match="while a thread still opened"):
            reading.result()
    assert [1] == [handle.closed for handle in made]


def test_a_thread_left_over_from_before_close_does_not_open_again(made):
    """A worker reads; the opener closes; the worker comes back for more."""
    source = per_thread(Handle)
    len(source)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: source[0]).result()
        source.close()
        with pytest.raises(ClosedError, match="closed while a thread still read"):
            pool.submit(lambda: source[0]).result()
        assert 2 == len(made)
        len(source)  # opened again by the thread that opened it: now the other may read
        assert 0 == pool.submit(lambda: source[0]).result()
    source.close()
    assert [1] * 4 == [handle.closed for handle in made]


def test_what_the_factory_raises_passes():
    def factory():
        raise LookupError("no such table")

    with pytest.raises(LookupError, match="no such table"):
        len(per_thread(factory))


def test_a_factory_that_cannot_be_called_is_refused():
    with pytest.raises(ConfigError, match=r"expected a callable .* got list; give the function"):
        per_thread([1, 2])


def test_what_the_factory_makes_must_be_a_source():
    with pytest.raises(ConfigError, match="a stream cannot be indexed"):
        len(per_thread(lambda: iter([1])))


@pytest.mark.parametrize("name", ["take", "__getitems__", "fingerprint", "locate"])
def test_a_method_is_offered_exactly_when_the_objects_offer_it(name):
    offering = type("Offering", (Squares,), {name: lambda self, *args: (id(self), args)})
    source = per_thread(offering)
    without = per_thread(Squares)
    assert 0 == without[0] == source[0]
    assert not hasattr(without, name)
    assert not hasattr(source, "another")
    without.close()
    method = getattr(source, name)  # in this thread, but called in others
    here, there = method(3), run(lambda: (source[0], method(3))[1])
    assert (3,) == here[1] == there[1]
    assert here[0] != there[0]
    source.close()


def test_small_batches_are_taken_together_as_from_one_object_for_all():
    """Since the size of a sample is told; the batches stay the same."""
    asked = []

    class Rows:
        sample_bytes = 8

        def __len__(self):
            return 1000

        def __getitem__(self, index):
            return np.int64(index)

        def take(self, indices):
            asked.append(len(indices))
            return indices.copy()

    config = {"batch_size": 4, "shuffle": False, "num_workers": 2}
    with Loader(config, per_thread(Rows)) as batches:
        assert list(range(1000)) == np.concatenate(list(batches)).tolist()
    assert max(asked) > 4


def test_arrays_from_the_factory_are_array_sources():
    source = per_thread(lambda: {"x": np.arange(4)})
    assert same({"x": np.array([3, 1])}, source.take(np.array([3, 1])))
    assert fingerprint(as_source({"x": np.arange(4)})) == fingerprint(source)
    source.close()


def test_its_fingerprint_is_that_of_its_objects():
    source = per_thread(Squares)
    assert fingerprint(Squares()) == fingerprint(source)
    source.close()


def test_a_closed_memory_map_is_let_go(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6))
    maps = []

    def factory():
        array = np.load(tmp_path / "x.npy", mmap_mode="r")
        maps.append(weakref.ref(array))
        return array

    source = per_thread(factory)
    assert 5 == source[5]
    run(lambda: source[0])
    source.close()
    gc.collect()
    assert [None, None] == [ref() for ref in maps]


class Known(list):
    """Says what its data is."""

    def fingerprint(self):
        return "known"


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
        (lambda: Delegating(Known([1, 2])), f"{__name__}.Delegating, known", False),
        (lambda: Slotted(Known([1, 2])), f"{__name__}.Slotted, known", False),
        (lambda: Delegating([1, 2]), f"{__name__}.Delegating, 2 samples", False),
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
