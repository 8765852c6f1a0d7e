"""What is given as a source is one, or is refused with what to do instead."""

from pathlib import Path

import numpy as np
import pytest
from own_sources import Pair, Squares

from threadloader.errors import ConfigError
from threadloader.sources import _given, as_source, open_source


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


class PolarsFrame:
    """A table of polars, as far as we look at it: its length is that of a column."""

    __module__ = "polars.dataframe.frame"

    def __len__(self):
        return 2

    def __getitem__(self, row):
        return self

    def to_dicts(self):
        raise NotImplementedError


class Column:
    """A column of pyarrow, as far as we look at it: it becomes an array, and has no shape."""

    def __len__(self):
        return 2

    def __getitem__(self, row):
        return row

    def __array__(self):
        raise NotImplementedError


class Masking:
    """A variable of netCDF4, as far as we look at it."""

    def set_auto_mask(self, on):
        raise NotImplementedError

    def chunking(self):
        raise NotImplementedError


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
        ({"type": "train", "x": np.zeros(3)}, "(field 'type'), got str; give one value for each"),
        ({"x": np.zeros(3), "lr": 0.1}, "(field 'lr'), got float; give one value for each"),
        ({"x": np.zeros(3), "y": None}, "(field 'y'), got NoneType; give one value for each"),
        ({"x": np.zeros(3), "y": {}}, "(field 'y'), got dict; give what is in it as fields of"),
        (Squares, "the class Squares; give an object of it"),
        ((i for i in range(3)), "a stream cannot be indexed: give a list"),
        (map(str, [1]), "a stream cannot be indexed"),
        (Frame(), 'its [] gives columns: give its rows, as df.to_dict("records") does, or a dict'),
        (type("Named", (Frame,), {})(), "got Named; its [] gives columns"),
        (Series(), "got Series; its [] goes by label, not by position: give its values, as s.to_n"),
        (ArrowTable(), "its [] gives columns: give its rows, as table.to_pylist() does, or an ob"),
        (type("RecordBatch", (ArrowTable,), {})(), "got RecordBatch; its [] gives columns"),
        (
            PolarsFrame(),
            "its [] gives tables: give its rows, as df.to_dicts() does, or a dict of arr",
        ),
        (
            (Column(), Column()),
            "a numpy array (field 0), got Column; give numpy.asarray(...) of it",
        ),
        (
            {"x": type("Lazy", (), {"chunk_layout": None})()},
            "got Lazy; give numpy.asarray(...) of it if it fits into memory, else an object of",
        ),
        (
            {"x": Masking()},
            "got Masking; give its [:], which shows what is masked, if it fits into memory",
        ),
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
