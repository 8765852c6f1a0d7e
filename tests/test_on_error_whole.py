"""What fails as one of many read at once is read alone: the same samples come, or an error."""

import signal
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from bad_samples import AllAtOnce, Failing, Whole

from threadloader import CollateError, Loader
from threadloader.jobs import UncutError
from threadloader.jobs._cut import cut, join


def test_what_was_read_row_by_row_is_read_as_a_whole_until_that_goes_well():
    """The storage fails at the first read of all rows, and at that behind the rows one by one."""

    class Table(Whole):
        reads = 0

        def take(self, indices):
            self.reads += 1
            if self.reads in (1, 6):
                raise OSError(f"read {self.reads} failed")
            return super().take(indices)

    for on_error in ({"retry": 1, "backoff": 0}, {"skip": 9}):
        config = {"batch_size": 4, "shuffle": False, "num_workers": 0, "on_error": on_error}
        with Loader(config, source=Table(4)) as batches:
            assert [[0, 1, 2, 3]] == [batch.tolist() for batch in batches]


def test_a_whole_that_never_goes_well_is_raised():
    class Table(Whole):
        def take(self, indices):
            if len(indices) > 1:
                raise OSError("too many at once")
            return {"x": super().take(indices), "unit": "metres"}

    on_error = {"retry": 2, "backoff": 0, "skip": 9}
    with Loader({"batch_size": 4, "on_error": on_error}, source=Table(4)) as batches:
        with pytest.raises(OSError, match="too many at once"):
            next(iter(batches))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_source_that_gives_too_few_at_once_is_told_so_under_a_policy(workers):
    class Short:
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            return indices[:-1]

    config = {"batch_size": 3, "num_workers": workers, "on_error": {"retry": 1, "backoff": 0}}
    with Loader(config, Short()) as batches, pytest.raises(CollateError) as raised:
        next(iter(batches))
    assert "the source's __getitems__: expected 1 samples, got 0" in str(raised.value)


@pytest.mark.parametrize("given", [None, 3, "abc", b"abc", {"a": 1, "b": 2, "c": 3}, np.array(3)])
def test_getitems_that_gives_no_list_of_samples_is_told_what_to_return(given):
    class Wrong:
        def __len__(self):
            return 6

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            return given

    with Loader({"batch_size": 3}, Wrong()) as batches, pytest.raises(CollateError) as raised:
        next(iter(batches))
    got = "None" if given is None else type(given).__name__
    expected = f"the source's __getitems__: expected a list of 3 samples, got {got}; return a list"
    assert expected in str(raised.value)


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_that_fail_together_alone_ask_no_budget_and_their_reads_are_counted(workers):
    """Each is good by itself, so none could be left out: no budget would help."""

    class Joint:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return np.int64(index)

        def take(self, indices):
            if len(indices) > 1 and 2 in indices:
                raise ValueError("cannot merge these reads")
            return {"x": np.asarray(indices), "unit": "metres"}  # which is no row

    on_error = {"skip": 5, "retry": 2, "backoff": 0}
    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": on_error}
    with Loader(config, Joint()) as batches:
        epoch = iter(batches)
        with pytest.raises(ValueError, match="cannot merge") as raised:
            next(epoch)
        assert "on_error" not in "".join(raised.value.__notes__)
        assert [4, 5, 6, 7] == next(epoch)["x"].tolist()
        # After the rows had been read one by one: again, and three times more.
        assert (0, 4) == (batches.stats().skipped, batches.stats().retried)


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_that_are_good_alone_are_joined_where_they_fail_together(workers):
    """As from storage that fails now and then: of many rows nearly always one does."""

    class Flaky:
        def __init__(self):
            self.good = [True] * 8  # each item is of the worker that has the batch

        def __len__(self):
            return 8

        def __getitem__(self, index):
            self.good[index] = not self.good[index]
            if not self.good[index]:
                raise OSError("each first time")
            return index

        def take(self, indices):
            rows = [self[index] for index in indices.tolist()]
            return {"x": np.array(rows), "name": list(map(str, rows))}

    on_error = {"skip": 5, "retry": 1, "backoff": 0}
    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": on_error}
    # One epoch: the next one has the same samples first.
    with Loader({**config, "num_epochs": 1}, Flaky()) as batches:
        got = [(batch["x"].tolist(), batch["name"]) for batch in batches]
        assert (0, 0) == (batches.stats().skipped, batches.stats().failed)
    assert [([0, 1, 2, 3], ["0", "1", "2", "3"]), ([4, 5, 6, 7], ["4", "5", "6", "7"])] == got


Couple = namedtuple("Couple", "x names")


@pytest.mark.parametrize(
    "whole",
    [
        np.arange(12).reshape(4, 3),
        {"x": np.arange(4), "names": list("abcd")},
        OrderedDict(x=np.array(["a", "bb", "c", "d"]), y=(np.zeros((4, 0)),)),
        Couple(np.arange(4.0), [1, None, "a", b""]),
        (),
        {},
    ],
    ids=repr,
)
def test_what_was_cut_row_by_row_is_joined_to_the_same(whole):
    joined = join(cut(whole, 4, 1))
    assert (type(whole), repr(whole)) == (type(joined), repr(joined))


@pytest.mark.parametrize(
    "dtype",
    [
        ">i4",
        ">U2",
        "M8[D]",
        "V3",
        {"names": ["a"], "formats": ["<f4"], "offsets": [4], "itemsize": 16},
        np.dtype("i4", metadata={"unit": "m"}),
    ],
    ids=str,
)
def test_joined_rows_keep_their_dtype(dtype):
    """Its byte order, where its fields lie, and what is noted with it."""
    dtype = np.dtype(dtype)
    whole = np.zeros((4, 2), dtype)
    joined = join(cut(whole, 4, 1))
    assert (dtype, dtype.metadata, dtype.itemsize) == (
        joined.dtype,
        joined.dtype.metadata,
        joined.dtype.itemsize,
    )
    assert whole.tolist() == joined.tolist()


@pytest.mark.parametrize(
    "parts",
    [
        [np.zeros(1), np.zeros(1, np.float32)],
        [np.zeros((1, 2)), np.zeros((1, 3))],
        [np.zeros(2), np.zeros(2)],
        [{"x": np.zeros(1)}, {"y": np.zeros(1)}],
        [(np.zeros(1),), ()],
        [[np.zeros(1)], [np.zeros(1)]],
        [["a", "b"], ["a", "b"]],
        ["a", "b"],
        [np.ma.zeros(1), np.ma.zeros(1)],
        [np.zeros(1), [0]],
    ],
    ids=repr,
)
def test_what_may_be_more_than_rows_is_not_joined(parts):
    with pytest.raises(UncutError):
        join(parts)


@pytest.mark.parametrize("method", ["take", "__getitems__"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_whole_that_fails_and_is_good_row_by_row_was_tried_again(workers, method):
    """Nothing else tells of a storage that fails at times."""

    class AtTimes:
        failed = False

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return index

    def read(self, indices):
        if 0 in indices and not self.failed:
            self.failed = True
            raise OSError("once")
        return np.asarray(indices) if method == "take" else list(indices)

    setattr(AtTimes, method, read)
    on_error = {"retry": 2, "backoff": 0}
    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": on_error}
    # One epoch: the next one has the same samples first.
    with Loader({**config, "num_epochs": 1}, AtTimes()) as batches:
        assert list(range(8)) == np.concatenate(list(batches)).tolist()
        assert (0, 1) == (batches.stats().failed, batches.stats().retried)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [Failing, AllAtOnce])
def test_beside_a_sample_that_fails_the_others_are_transformed_as_ever(workers, kind):
    """Each with the generator that it has, also where all are read anew, one by one."""

    def batches_of(source, **more):
        config = {
            "batch_size": 4,
            "shuffle": False,
            "num_workers": workers,
            "num_epochs": 1,
            **more,
        }
        with Loader(config, source, transform=lambda sample, rng: sample + rng.random()) as batches:
            return [batch.tolist() for batch in batches]

    first, second = batches_of(kind(8))
    expected = [first[:2] + first[3:], second]
    assert expected == batches_of(kind(8, {2}), on_error={"skip": 1})


@pytest.mark.parametrize(
    ("fails", "retry", "skipped", "retried"), [(2, 1, 0, 1), (99, 1, 1, 1), (99, 0, 1, 0)]
)
def test_where_a_row_was_tried_again_or_left_out_the_whole_does_not_count(
    fails, retry, skipped, retried
):
    class OneRow:
        left = fails

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return index

        def __getitems__(self, indices):
            if 1 in indices and self.left:
                self.left -= 1
                raise OSError("a row")
            return list(indices)

    on_error = {"retry": retry, "backoff": 0, "skip": 1}
    config = {"batch_size": 4, "shuffle": False, "num_workers": 0, "on_error": on_error}
    with Loader(config, OneRow()) as batches:
        assert 4 - skipped == len(next(iter(batches)))
        assert (skipped, retried) == (batches.stats().skipped, batches.stats().retried)


def test_tries_of_a_run_that_a_ctrl_c_cut_short_do_not_count():
    """The batch is read anew, and as a whole this time."""

    class Cut:
        reads = 0

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return self.take([index])[0]

        def take(self, indices):
            self.reads += 1
            if self.reads <= 2:
                raise OSError("the whole, and then its first row")
            if self.reads == 4:
                signal.raise_signal(signal.SIGINT)
            return np.array(indices)

    on_error = {"retry": 2, "backoff": 0}
    config = {"batch_size": 4, "shuffle": False, "num_workers": 0, "on_error": on_error}
    with Loader(config, Cut()) as batches:
        epoch = iter(batches)
        with pytest.raises(KeyboardInterrupt):
            next(epoch)
        assert [0, 1, 2, 3] == next(epoch).tolist()
        assert 0 == batches.stats().retried
