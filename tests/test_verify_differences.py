"""A difference is told with its place: the run, the batch, the field, the row and the value."""

import itertools
import threading

import faults
import numpy as np
import pytest
from faults import SAMPLES
from verified import CONFIG, found, report_of, unhurried

from threadloader import Loader
from threadloader.verify import Plan, _record, _run
from threadloader.verify._compare import differing

as_it_was = pytest.fixture(unhurried, autouse=True)


def test_what_differs_only_after_a_resume_is_seen(monkeypatch):
    """A source that counts the reads of each sample: only a run that begins anew differs.

    (One batch ahead: else samples of two epochs are read at the same time.)
    """
    monkeypatch.setattr(_run, "AHEAD_BYTES", 0)
    report = report_of(faults.CountingEach, {**CONFIG, "prefetch_batches": 1})
    assert "resumed with" in report.difference.run
    assert {True: False, False: True} == {len(run.legs) > 1: same for run, same in report.runs}
    assert [("source", "own-state")] == found(report)


def test_a_race_is_not_seen_without_a_second_worker():
    """What was the same is said too: the runs with at most one worker."""
    report = report_of(faults.SharedHandle)
    alone = [same for run, same in report.runs if max(leg.workers for leg in run.legs) < 2]
    assert [True, True] == alone
    assert not all(same for _, same in report.runs)


def test_an_error_that_comes_only_with_workers_is_a_difference():
    report = report_of(faults.BoundToThread)
    assert "error" == report.difference.kind
    assert report.difference.what.startswith("expected a batch, got RuntimeError: used in another")


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        (
            {"x": np.array([[1, 2], [3, 4], [5, 6]]), "y": np.array([7, 8, 9])},
            {"x": np.array([[1, 2], [3, 0], [0, 0]]), "y": np.array([7, 8, 9])},
            [
                (
                    "batch['x']",
                    "3 of 6 values differ, the first at [1, 1]: expected 4, got 0",
                    (1, 2),
                )
            ],
        ),
        (
            (np.array([0.0, 1.0, 2.0]), ["a", "b", "c"]),
            (np.array([-0.0, 1.0, 2.0]), ["a", "d", "c"]),
            [
                (
                    "batch[0]",
                    "1 of 3 values differs, the first at [0]: expected 0.0, got -0.0",
                    (0,),
                ),
                ("batch[1][1]", "expected 'b', got 'd'", (1,)),
            ],
        ),
        (
            np.zeros(3, np.float32),
            np.zeros((3, 1), np.float64),
            [("batch", "expected float32 (3,), got float64 (3, 1)", ())],
        ),
        ({"a": 1}, {"b": 1}, [("batch", "expected the keys ['a'], got ['b']", ())]),
        ([1, 2], [1], [("batch", "expected 2 items, got 1", ())]),
        ([1, 2], (1, 2), [("batch", "expected list, got tuple", ())]),
        ({"n": 3}, {"n": 4}, [("batch['n']", "expected 3, got 4", ())]),
        (
            np.array(1.5),
            np.array(2.5),
            [("batch", "1 of 1 values differs: expected 1.5, got 2.5", ())],
        ),
        (np.int64(1), np.array(1, np.int64), [("batch", "expected int64 (), got int64 ()", ())]),
        (
            np.array([None, "a", 1], object),
            np.array([None, "b", 1], object),
            [("batch", "object (3,), its values differ", (1,))],
        ),
        ([[1, 2], [3]], [[1, 2], [4]], [("batch[1][0]", "expected 3, got 4", ())]),
        (
            ["a" * 90] * 3,
            ["b"] * 3,
            [("batch[0]", f"expected '{'a' * 55} ..., got 'b'", (0, 1, 2))],
        ),
        (
            (["a", "b", "c"], ["r", "s", "t"], ["x", "y", "z"]),  # as many fields as rows
            (["a", "b", "c"], ["q", "s", "t"], ["x", "y", "z"]),
            [("batch[1][0]", "expected 'r', got 'q'", (0,))],
        ),
    ],
    ids=str,
)
def test_the_fields_and_rows_that_differ_are_named(there, here, expected):
    assert expected == [tuple(field) for field in differing(there, here, rows=3)]
    assert [] == differing(there, there, rows=3)


class Noted(dict):
    """A dict with an attribute."""

    def __init__(self, note):
        super().__init__(x=1)
        self.note = note


class Lines(list):
    """Texts, a row each, with an attribute."""

    def __init__(self, note):
        super().__init__("abc")
        self.note = note


@pytest.mark.parametrize(
    ("there", "here", "kind"),
    [
        ({"a": {1: 2}}, {"a": {True: 2}}, "dict"),
        ({"a": Noted(1)}, {"a": Noted(2)}, "Noted"),
        ({"a": Lines(1)}, {"a": Lines(2)}, "Lines"),
    ],
)
def test_what_differs_besides_items_is_told_where_it_is(there, here, kind):
    expected = f"the same items, but other keys or attributes of the {kind}"
    assert [("batch['a']", expected, ())] == [tuple(it) for it in differing(there, here, rows=3)]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long doubles have no unused bytes")
@pytest.mark.parametrize("kind", [np.longdouble, np.clongdouble])
def test_unused_bytes_of_long_doubles_are_no_difference(kind):
    there, here = np.ones(4, kind), np.ones(4, kind)
    here[2] = 2
    for values, byte in ((there, 0), (here, 255)):
        size = np.dtype(np.longdouble).itemsize
        values.view(np.uint8).reshape(-1, size)[:, 10:] = byte
    (field,) = differing(there, here, rows=4)
    assert (True, (2,)) == (field.what.startswith("1 of 4 values differs, the first"), field.rows)


class OneWrong:
    """Sample 14 is another one for workers; it is in the fifth batch."""

    def __call__(self, sample):
        main = threading.current_thread() is threading.main_thread()
        return sample if main or sample[0] != 14 else sample + np.array([0, 0, 1, 0])


@pytest.mark.parametrize("kept", [True, False])
def test_the_first_difference_is_told_to_the_value(kept, monkeypatch):
    """Epoch, step, row, dataset index, value; also of a batch that is made anew to be compared."""
    if not kept:
        monkeypatch.setattr(_record, "KEPT_BYTES", 0)
    with Loader({**CONFIG, "num_workers": 0}, source=faults.rows()) as batches:
        info = next(batches.info for _ in batches if 14 in batches.info.indices)
    report = report_of(transform=OneWrong())
    row = info.indices.tolist().index(14)
    first = report.difference
    assert (0, 4, (row,), (14,)) == (first.epoch, first.step, first.rows, first.indices)
    assert f"the first at [{row}, 2]: expected 14.0, got 15.0" in first.what
    assert f"epoch 0, step 4, row {row} (dataset index 14)" in str(report)


def test_what_is_not_kept_and_not_repeatable_is_said_to_be_not_known(monkeypatch):
    monkeypatch.setattr(_record, "KEPT_BYTES", 0)
    report = report_of(transform=faults.global_random)
    assert report.difference.what.startswith("not known: ")
    assert [("transform", "global-random")] == found(report)


@pytest.mark.parametrize(
    ("first", "later", "epochs", "place", "what"),
    [
        (8, 4, 1, (0, 1), "expected a batch, got the end"),
        (4, 8, 1, (0, 1), "expected the end, got a batch"),
        (8, 4, 2, (1, 0), "expected epoch 0, step 1, got a batch"),
        (4, 8, 2, (0, 1), "expected epoch 1, step 0, got a batch"),
    ],
)
def test_a_run_with_other_steps_is_a_difference(first, later, epochs, place, what):
    """A source that has grown or shrunk since the first run."""
    lengths = itertools.chain([first], itertools.repeat(later))
    config = {**CONFIG, "shuffle": False}
    report = report_of(lambda: faults.rows()[: next(lengths)], config, plan=Plan(epochs=epochs))
    got = report.difference
    assert ("steps", *place, what) == (got.kind, got.epoch, got.step, got.what)


def test_other_indices_are_a_difference_of_the_order():
    """Another length, another order; if it grows with each opening, that is the cause."""
    report = report_of(faults.Growing)
    assert ("order", [("source", "reopened")]) == (report.difference.kind, found(report))
    lengths = itertools.chain([SAMPLES], itertools.repeat(SAMPLES // 2))
    report = report_of(lambda: list(range(next(lengths))))
    assert ("order", [("", "unknown")]) == (report.difference.kind, found(report))
    assert "it may be a fault of threadloader" in report.causes[0].says


def test_a_state_that_is_refused_is_a_difference_of_the_run():
    report = report_of(faults.Renamed)
    assert ("run", "the whole run") == (report.difference.kind, report.difference.where)
    assert report.difference.what.startswith("StateError: the state is of another run; source: ")


def test_a_batch_that_cannot_be_copied_is_told_with_its_place():
    """A memory view has a digest, but no copy."""
    numbers = itertools.count()

    def counted(samples):
        return {"bytes": memoryview(b"%d" % next(numbers))}

    report = report_of(collate=counted)
    got = report.difference
    assert ("content", 0, 0) == (got.kind, got.epoch, got.step)
