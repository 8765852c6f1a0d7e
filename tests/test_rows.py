"""Large arrays are written into their rows as they come, and the batch is what stack gives."""

import itertools
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import Interrupt, Sweep

from threadloader import CollateError, Loader
from threadloader.collate import RowsMaker, _rows, stack

BOUND = _rows.LARGE_BYTES  # before it is made smaller below
SHAPES = [(), (3,), (4096,), (64, 64), (5000,)]
DTYPES = ["f4", "f8", "u1", ">i4", "U40"]


@pytest.fixture(autouse=True, scope="module")
def _soon():
    """Arrays count as large from 16 KiB on: what is written and what not is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_rows, "LARGE_BYTES", 16 << 10)
        yield


@st.composite
def leaves(draw):
    kind = draw(st.integers(0, 9))
    if kind < 7:
        shape, dtype = draw(st.sampled_from(SHAPES)), np.dtype(draw(st.sampled_from(DTYPES)))
        return np.full(shape, draw(st.integers(0, 9)), dtype)
    return draw(st.sampled_from([1, 2.5, "text", None]))


def structures(leaf):
    return st.one_of(
        leaf,
        st.fixed_dictionaries({"x": leaf, "y": leaf}),
        st.tuples(leaf, leaf),
        st.fixed_dictionaries({"deep": st.fixed_dictionaries({"x": st.tuples(leaf)})}),
        st.lists(leaf, min_size=2, max_size=2),
    )


def outcome(make):
    """Gives a batch as something to compare, or what is wrong with the samples."""
    try:
        return plain(make())
    except CollateError as error:
        return str(error), error.rows


def plain(value):
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        assert value.flags.writeable
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value), [plain(item) for item in value]
    return value


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_the_batch_and_the_errors_are_those_of_stack(data):
    """Whatever the samples are, alike or not, and in whatever order their rows come."""
    one = data.draw(structures(leaves()))
    samples = [one] * data.draw(st.integers(1, 5))
    if data.draw(st.booleans()):
        samples[data.draw(st.integers(0, len(samples) - 1))] = data.draw(structures(leaves()))
    rows = RowsMaker().rows(len(samples))
    put = [None] * len(samples)
    for row in data.draw(st.permutations(range(len(samples)))):
        put[row] = rows.put(row, samples[row])
    assert outcome(lambda: stack(samples)) == outcome(lambda: rows.stack(put))


def test_nothing_is_copied_a_second_time():
    rows = RowsMaker().rows(3)
    put = [rows.put(row, {"x": np.full(9999, row)}) for row in range(3)]
    batch = rows.stack(put)
    assert batch["x"] is put[0]["x"].base


def test_arrays_are_written_from_the_bound_on(monkeypatch):
    monkeypatch.setattr(_rows, "LARGE_BYTES", BOUND)
    large = np.zeros(128 << 10, np.uint8)
    rows = RowsMaker().rows(1)
    put = rows.put(0, (large, large[1:]))
    assert put[0].base is not None
    assert put[0] is not large
    assert put[1].base is large


def test_the_sample_itself_is_left_as_it_is():
    array = np.zeros(9999)
    sample = {"x": array}
    RowsMaker().rows(2).put(0, sample)
    assert sample["x"] is array


def test_after_a_small_sample_nobody_looks_any_more():
    maker = RowsMaker()
    rows = maker.rows(2)
    rows.put(0, {"x": np.zeros(3)})
    assert maker.rows(2) is None


def test_memory_is_made_by_what_was_given():
    made = []

    def empty(shape, dtype):
        made.append((shape, dtype))
        return np.empty(shape, dtype)

    rows = RowsMaker(empty).rows(2)
    for row in range(2):
        rows.put(row, np.zeros((50, 70)))
    assert [((2, 50, 70), np.dtype("f8"))] == made


def test_threads_that_write_at_once_make_one_batch():
    """All of them find no memory yet; one of them gives it, for all."""
    ready = threading.Barrier(4)

    def empty(shape, dtype):
        ready.wait(30)
        return np.empty(shape, dtype)

    rows, put = RowsMaker(empty).rows(4), [None] * 4

    def fill(row):
        put[row] = rows.put(row, np.full(5000, row))

    threads = [threading.Thread(target=fill, args=(row,)) for row in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(np.repeat([[0], [1], [2], [3]], 5000, axis=1), rows.stack(put))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_loader_gives_the_same_batches_of_large_samples(workers):
    class Images:
        def __len__(self):
            return 20

        def __getitem__(self, index):
            return {"image": np.full((80, 80), index, np.float32), "label": index}

    seen = []
    with Loader({"batch_size": 6, "num_workers": workers}, source=Images()) as batches:
        for batch in batches:
            indices = batches.info.indices
            seen += indices.tolist()
            assert np.array_equal(indices, batch["label"])
            assert (batch["image"] == indices[:, np.newaxis, np.newaxis]).all()
            assert (len(indices), 80, 80) == batch["image"].shape
    assert list(range(20)) == sorted(seen)


def test_a_thread_that_finds_the_memory_finds_what_is_written_too():
    """1. A worker stores the memory. 2. Another one writes its row. 3. The first goes on."""
    rows, put = RowsMaker().rows(2), [None, None]

    def fill(row):
        put[row] = rows.put(row, np.full(5000, row))

    class Stored(dict):
        def setdefault(self, path, made):
            found = super().setdefault(path, made)
            other = threading.Thread(target=fill, args=(1,))
            other.start()
            other.join()
            return found

    rows._memories = Stored()
    fill(0)
    assert np.array_equal(np.repeat([[0], [1]], 5000, axis=1), rows.stack(put))


@pytest.mark.parametrize("second", [np.full(4097, 9), np.full(3, 9), "text"], ids=str)
def test_of_a_row_that_is_written_again_nothing_is_left_of_the_first_time(second):
    """As after a Ctrl-C without workers, if the source then gives something else."""
    rows, good = RowsMaker().rows(2), {"x": np.full(4096, 1), "y": 1}
    rows.put(0, {"x": np.full(4096, 7), "y": 7})
    samples = [{"x": second, "y": 2}, good]
    put = [rows.put(row, sample) for row, sample in enumerate(samples)]
    assert outcome(lambda: stack(samples)) == outcome(lambda: rows.stack(put))


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 14),
    reason="CPython's issue 148874: a lock may stay held by a `with`, and this waits for it",
)
def test_a_ctrl_c_at_any_line_leaves_rows_that_can_be_written_again():
    """Without workers the loop's thread writes them, and then asks for the same batch again."""
    samples = [{"x": np.full(5000, row)} for row in range(2)]
    heard = 0
    for at in itertools.count(1):
        rows = RowsMaker().rows(2)
        with Interrupt() as interrupt:
            sweep = Sweep(at, interrupt)
            try:
                with sweep:
                    rows.put(0, samples[0])
            except KeyboardInterrupt:
                heard += 1
        put = [rows.put(row, sample) for row, sample in enumerate(samples)]
        assert plain(stack(samples)) == plain(rows.stack(put)), sweep.where
        if not sweep.where:
            break
    assert heard > 10
