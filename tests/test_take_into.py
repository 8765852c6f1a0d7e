"""`take_into` gives what `take` gives, in memory that the caller has made."""

import io
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.buffers import Pool
from threadloader.sources import ArraySource, as_source, open_source, per_thread

DTYPES = [
    "f4",
    ">f8",
    "?",
    "c8",
    ">U3",
    "S5",
    "M8[us]",
    "V7",
    "U0",
    [("a", "i1"), ("b", ">f8", (2,)), ("c", "S3")],
    {"names": ["a", "b"], "formats": ["i2", ">i4"], "offsets": [1, 8], "itemsize": 16},
]


def values(dtype, shape):
    """Values that differ from each other where the dtype has room for that."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * int(np.prod(shape))
    raw = np.random.default_rng(7).integers(65, 90, size, np.uint8)
    if dtype.kind in "U?" and size:
        return (raw[: int(np.prod(shape))] % 7).astype(dtype).reshape(shape)
    if not dtype.itemsize:  # what asks for such an array by itself is given one character a value
        return np.zeros(shape, [("a", dtype)])["a"]
    return np.frombuffer(raw, dtype).reshape(shape) if size else np.zeros(shape, dtype)


def shifted(array):
    """The same values, one byte behind where the dtype wants them to begin."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    there = np.ndarray(array.shape, array.dtype, memory, 1)
    there[...] = array
    return there


def locked(array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = {
    "rows in one piece": lambda array: array,
    "columns in one piece": np.asfortranarray,
    "every second row, backwards": lambda array: np.repeat(array, 2, axis=0)[::-2],
    "part of each row": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "one row for all": lambda array: np.broadcast_to(array[:1], array.shape),
    "unaligned": shifted,
    "read-only": locked,
}


class Maker:
    """An `empty` that remembers what it made, full of what was there before."""

    def __init__(self):
        self.pool = Pool(1 << 20, least_bytes=1)
        self.made = []

    def __call__(self, shape, dtype):
        array = self.pool.empty(shape, dtype)
        array.view(np.uint8)[...] = 0xA5 if array.size and array.dtype.itemsize else 0
        self.made.append(array)
        return array


def plain_indexing(array, rows):
    return np.ascontiguousarray(array[np.array(rows, np.intp)])


def told(batch):
    if isinstance(batch, dict):
        return {name: told(field) for name, field in batch.items()}
    if isinstance(batch, list):
        return batch
    return batch.dtype, batch.shape, repr(batch.tolist()), batch.flags.c_contiguous


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(9,), (5, 3), (4, 2, 3), (3, 0)])
def test_rows_are_those_of_plain_indexing(dtype, shape, layout):
    """Whatever the dtype and the layout in memory, in new memory and in used."""
    array = LAYOUTS[layout](values(dtype, shape))
    source, empty = ArraySource(array), Maker()
    for rows in ([2, 0, 2, 1], [], [1]):
        expected = told(plain_indexing(array, rows))
        assert expected == told(source.take_into(rows, empty))
        assert expected == told(source.take(rows))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_in_one_piece_go_straight_into_the_memory(dtype):
    """The array that ``empty`` made is the batch, if its values have any bytes at all."""
    array, empty = values(dtype, (5, 3)), Maker()
    batch = ArraySource(array).take_into([2, 0], empty)
    expected = [id(batch)] if array.dtype.itemsize else []
    assert expected == [id(made) for made in empty.made]


@given(st.data())
def test_any_rows_of_several_fields(data):
    """Each field is one call of ``empty``; any rows in range, in any order."""
    n = data.draw(st.integers(1, 20))
    fields = {"x": values("f4", (n, 3)), "y": values(">i8", (n,)), "z": values("S5", (n, 2)).T.T}
    rows = data.draw(st.lists(st.integers(0, n - 1), max_size=30))
    empty = Maker()
    batch = ArraySource(fields).take_into(np.array(rows, np.int64), empty)
    assert {name: told(plain_indexing(field, rows)) for name, field in fields.items()} == told(
        batch
    )
    assert list(fields) == list(batch)
    assert 3 == len(empty.made)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("wrong", [-1, 4, 2**40, -(2**63)])
def test_rows_that_there_are_not_are_refused_before_memory_is_made(direct, wrong):
    """None is cut to the first or the last row."""
    array = np.arange(8.0).reshape(4, 2)
    empty = Maker()
    with pytest.raises(IndexError, match=f"expected an index of 0 .. 3, got {wrong}$"):
        ArraySource(array if direct else array[:, ::-1]).take_into([1, wrong, 0], empty)
    assert [] == empty.made


@pytest.mark.parametrize("dtype", ["u8", ">i8", "i2", "u1"])
def test_rows_may_be_of_any_dtype_of_integers(dtype):
    """Byte order and width of the indices do not count; a huge unsigned one is refused."""
    source = ArraySource(np.arange(10, 14))
    assert [13, 10] == source.take(np.array([3, 0], dtype)).tolist()
    with pytest.raises(IndexError, match="expected an index"):
        source.take(np.array([3, np.iinfo(dtype).max], dtype))


def test_no_rows_of_no_samples():
    """An empty source gives an empty batch."""
    batch = ArraySource(np.empty((0, 3), np.float32)).take_into([], Maker())
    assert ((0, 3), np.float32) == (batch.shape, batch.dtype)


@pytest.fixture
def folder(tmp_path):
    """Files of several kinds with 12 samples each."""
    x, y = values("f4", (12, 3)), np.arange(12)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y.astype(">i8"))
    np.save(tmp_path / "none.npy", np.empty((12, 0), np.int16))
    (tmp_path / "t.bin").write_bytes(np.arange(12 * 4 + 1, dtype="<u2").tobytes())
    text = io.StringIO()
    for n in range(12):
        text.write(f"{n},{n / 2},name {n}\n")
    (tmp_path / "c.csv").write_text("i,f,name\n" + text.getvalue())
    return tmp_path


SPECS = {
    "npz": {"type": "npz", "path": "a.npz"},
    "npy": {"type": "npy", "fields": {"x": "x.npy", "y": "y.npy", "none": "none.npy"}},
    "npy, mapped": {
        "type": "npy",
        "fields": {"x": "x.npy", "y": "y.npy", "none": "none.npy"},
        "mmap": True,
    },
    "tokens": {"type": "tokens", "path": "t.bin", "dtype": "uint16", "window": 4},
    "tokens with targets": {
        "type": "tokens",
        "path": "t.bin",
        "dtype": "uint16",
        "window": 4,
        "targets": True,
    },
    "csv": {"type": "csv", "path": "c.csv", "dtypes": {"i": "int64", "f": "float64"}},
}


@pytest.mark.parametrize("kind", SPECS)
def test_files_fill_memory_that_was_made_for_them(folder, kind):
    """Each kind that has ``take`` gives the same in memory that was used before."""
    source, empty = open_source(SPECS[kind], folder), Maker()
    try:
        for rows in ([11, 0, 5, 5], [3], [], list(range(12))):
            batch = source.take_into(rows, empty)
            assert told(source.take(rows)) == told(batch)
            fields = batch.values() if isinstance(batch, dict) else [batch]
            for field in fields:
                if isinstance(field, np.ndarray) and field.size:
                    assert any(np.shares_memory(field, array) for array in empty.made)
    finally:
        source.close()


def test_a_source_for_each_thread_offers_what_its_objects_offer():
    """`take_into` goes through to the thread's own."""
    source, empty = per_thread(lambda: np.arange(10, 20)), Maker()
    assert [13, 10] == source.take_into([3, 0], empty).tolist()
    source.close()
    assert not hasattr(per_thread(lambda: [1, 2]), "take_into")


class Counting:
    """Numbers that it builds batches of, and how often it was asked in which way."""

    sample_bytes = 8

    def __init__(self):
        self.asked = Counter()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return np.float64(index)

    def take(self, indices):
        self.asked["take"] += 1
        return np.array(indices, float)

    def take_into(self, indices, empty):
        self.asked["take_into"] += 1
        batch = empty((len(indices),), np.float64)
        batch[:] = indices
        return batch


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_has_the_objects_of_each_thread_build_batches_in_its_memory(workers):
    made = []

    def opened():
        made.append(Counting())
        return made[-1]

    with Loader({"batch_size": 2, "num_workers": workers}, per_thread(opened)) as batches:
        assert list(range(8)) == sorted(np.concatenate(list(batches)).tolist())
    asked = sum((each.asked for each in made), Counter())
    assert {"take_into"} == set(asked)


class WithoutTake(Counting):
    take = None


@pytest.mark.parametrize("workers", [0, 2])
def test_without_take_beside_it_it_is_never_asked(workers):
    source = WithoutTake()
    with Loader({"batch_size": 4, "num_workers": workers}, source) as batches:
        assert list(range(8)) == sorted(np.concatenate(list(batches)).tolist())
    assert not source.asked


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"on_error": {"skip": 1}}], ids=str)
def test_the_indices_that_it_is_given_are_read_only(workers, options):
    class Seeing(Counting):
        def take_into(self, indices, empty):
            self.asked[indices.dtype.name, indices.flags.writeable] += 1
            return super().take_into(indices, empty)

    source = Seeing()
    with Loader({"batch_size": 2, "num_workers": workers, **options}, source) as batches:
        assert 4 == len(list(batches))
    assert {("int64", False), "take_into"} == set(source.asked)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_indices_of_what_is_left_of_a_batch_are_read_only(workers):
    class Failing(Counting):
        take = Counting.take

        def __getitem__(self, index):
            if index == 3:
                raise ValueError("damaged")
            return super().__getitem__(index)

        def take_into(self, indices, empty):
            self.asked[indices.tolist() == [2], indices.flags.writeable] += 1
            if 3 in indices:
                raise ValueError("damaged")
            return super().take_into(indices, empty)

    source, config = Failing(), {"batch_size": 2, "shuffle": False, "on_error": {"skip": 1}}
    with Loader({**config, "num_workers": workers}, source) as batches:
        assert [[0, 1], [2], [4, 5], [6, 7]] == [batch.tolist() for batch in batches]
    assert {(True, False), (False, False)} == {it for it in source.asked if len(it) == 2}


@pytest.mark.parametrize("make", [Counting, lambda: ArraySource(np.arange(8.0))])
def test_a_take_of_an_object_itself_is_used_and_not_that_of_its_class(make):
    """As Python has it; and with it goes the class's way to build batches in given memory."""
    source = make()
    source.take = lambda indices: np.array(indices, float) + 100
    with Loader({"batch_size": 2, "num_workers": 0, "shuffle": False}, source) as batches:
        assert [100.0, 101.0] == next(iter(batches)).tolist()


class NotIntoMemory(Counting):
    take_into = None


class NotThisOne(Counting):
    def __init__(self):
        super().__init__()
        self.take_into = None


@pytest.mark.parametrize("wrapped", [lambda kind: kind(), per_thread], ids=["own", "per thread"])
@pytest.mark.parametrize("kind", [NotIntoMemory, NotThisOne])
def test_none_says_that_a_method_is_not_offered(kind, wrapped):
    """As for special methods in Python: the class before has one, and it is not asked."""
    with Loader({"batch_size": 2, "num_workers": 0}, wrapped(kind)) as batches:
        assert list(range(8)) == sorted(np.concatenate(list(batches)).tolist())


def test_a_class_whose_take_means_something_else_offers_none_into_memory():
    """With its ``take`` goes what is beside it."""

    class First(list):
        def take(self, n):
            return self[:n]

        def take_into(self, n, target):
            target.extend(self[:n])

    assert not hasattr(as_source(First([1, 2])), "take_into")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(9,), (5, 3), (4, 2, 3), (3, 0)])
def test_batches_that_are_made_together_are_those_that_take_gives(dtype, shape, layout):
    """Any of them, in any order; what one holds is not in the memory of another."""
    source = ArraySource({"x": LAYOUTS[layout](values(dtype, shape)), "y": np.arange(shape[0])})
    rows = np.array([[2, 0], [1, 1], [0, 2], [2, 2]])
    made = source.take_batches(rows, Maker())
    for first, last in ((1, 4), (0, 1), (3, 4), (0, 4)):
        batches = made(first, last)
        assert [told(source.take(batch)) for batch in rows[first:last]] == list(map(told, batches))
        for name in ("x", "y"):
            fields = [batch[name] for batch in batches]
            assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(fields, 2))


@pytest.mark.parametrize("wrong", [-1, 4, 2**40, -(2**63)])
def test_a_row_that_there_is_not_is_refused_before_any_batch_is_made(wrong):
    source = ArraySource(np.arange(8.0).reshape(4, 2))
    with pytest.raises(IndexError, match=f"expected an index of 0 .. 3, got {wrong}$"):
        source.take_batches(np.array([[0, 1], [2, wrong]]), np.empty)


def test_of_groups_that_go_from_thread_to_thread_each_field_comes_from_the_pool(monkeypatch):
    """Though none has a MiB; and what the loop gathers by itself does not."""
    asked, real = [], Pool.empty

    def empty(self, shape, dtype):
        rows = int(np.prod(shape[:-1]))  # of a batch, or of several one after the other
        asked.append((rows, (array := real(self, shape, dtype)).base is not None))
        return array

    monkeypatch.setattr(Pool, "empty", empty)
    data = {f"c{number}": np.zeros((6000, 98), np.float32) for number in range(8)}
    with Loader({"batch_size": 32, "num_epochs": 1}, source=data) as batches:
        batches._supply.choice = None
        for _ in batches:
            pass
        assert {True} == {pooled for rows, pooled in asked if rows > 1000}
        assert max(rows for rows, _ in asked) > 1000
        asked.clear()
    with Loader({"batch_size": 32, "num_epochs": 1, "num_workers": 0}, source=data) as batches:
        for _ in batches:
            pass
    assert {False} == {pooled for _, pooled in asked}


@pytest.mark.parametrize(("rows", "pooled"), [(1, False), (64, True), (640, True)])
def test_a_piece_comes_from_the_pool_from_a_mib_on(monkeypatch, rows, pooled):
    seen, real = [], ArraySource.take_batches

    def take_batches(self, indices, empty):
        seen.append(empty is not np.empty)
        return real(self, indices, empty)

    monkeypatch.setattr(ArraySource, "take_batches", take_batches)
    source = np.zeros((640 * 20, 784), np.float32)
    with Loader({"batch_size": rows, "num_epochs": 1, "num_workers": 0}, source=source) as batches:
        for _ in batches:
            pass
    assert {pooled} == set(seen)
