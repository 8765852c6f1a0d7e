"""What fails or is left out in every run alike is no difference, hides none, and is told."""

import importlib
import itertools
import random
import signal

import faults
import numpy as np
import pytest
from verified import CONFIG, found, report_of, unhurried

from threadloader import WorkerError, verify
from threadloader.verify import Plan, _parts, _report
from threadloader.verify._record import told

as_it_was = pytest.fixture(unhurried, autouse=True)


@pytest.mark.parametrize("collate", [None, faults.stacked])
def test_samples_that_fail_at_random_and_are_left_out_are_not_blamed_on_the_order(collate):
    """Other samples come, since others fail. What makes them fail is the cause."""
    config = {**CONFIG, "on_error": {"skip": 10**6}}
    report = report_of(config=config, transform=faults.flaky, collate=collate)
    assert [("transform", "global-random")] == found(report)


def test_a_sample_that_is_left_out_in_a_worker_alone_is_looked_at():
    """It is told beside the dataset indices that came."""
    config = {**CONFIG, "on_error": {"skip": 9}}
    report = report_of(config=config, transform=faults.bad_in_a_thread)
    assert ("order", [("transform", "other-thread")]) == (report.difference.kind, found(report))
    assert report.difference.what.endswith("; left out 5")
    assert "transform(source[5]) raised ValueError in a new thread" in report.causes[0].evidence


def test_another_order_where_samples_are_left_out_may_still_be_that_of_the_source():
    """Another length, another order, whatever fails."""
    config = {**CONFIG, "on_error": {"skip": 9}}
    assert [("source", "reopened")] == found(report_of(faults.Growing, config))


def test_a_sample_that_fails_in_every_run_is_an_error_and_no_difference():
    report = report_of(transform=faults.bad_sample)
    assert ("errors", None, ()) == (report.result, report.difference, report.causes)
    assert (0, 5) in {(failure.epoch, failure.step) for failure in report.failures}  # a cut's place
    assert [0, 1] == [failure.epoch for failure in report.failures]
    for failure in report.failures:
        assert failure.error.startswith("ValueError: bad sample; threadloader: raised for sample 5")
    text = str(report)
    assert "ERRORS: 12 batches of 2 epochs, 40 samples, in 9 runs, " in text
    assert ": 2 batches cannot be made, in every run alike\n" in text


def test_what_is_no_exception_ends_no_verification():
    """As the panics of libraries in Rust: the loader goes on behind it, and so does `verify`."""

    def panics(sample):
        if int(sample) == 7:
            raise BaseException("panic")
        return sample

    report = verify.run(CONFIG, source=lambda: list(range(20)), transform=panics)
    assert ("errors", 32, None) == (report.result, report.samples, report.difference)
    assert [0, 1] == [failure.epoch for failure in report.failures]


def test_what_a_signal_handler_raises_in_a_run_ends_the_verification(rung):
    with pytest.raises(TimeoutError, match="rung"):
        report_of(transform=lambda sample: signal.raise_signal(signal.SIGINT))


@pytest.mark.parametrize("collate", [None, faults.stacked])
def test_a_failing_sample_does_not_hide_a_difference(collate):
    """Some batches fail in all runs, others differ: both are told."""

    def both(sample):
        return faults.bad_sample(sample) + random.random()

    report = report_of(transform=both, collate=collate)
    assert ("differs", 2) == (report.result, len(report.failures))
    assert [("transform", "global-random")] == found(report)


def test_where_every_batch_fails_the_parts_are_looked_at_all_the_same():
    """Nothing came that names samples; the errors do."""

    def odd(sample):
        random.random()
        return 1 / (int(sample) % 2)

    def now_and_then(sample):
        return 1 / (random.random() > 0.3)

    report = verify.run({"batch_size": 8}, source=lambda: list(range(32)), transform=odd)
    assert ("errors", 0) == (report.result, report.samples)
    assert [("transform", "global-random")] == [(it.part, it.kind) for it in report.dangers]
    config = {"batch_size": 64, "num_workers": 0}
    report = verify.run(config, source=lambda: list(range(128)), transform=now_and_then)
    assert ("differs", 0) == (report.result, report.samples)
    assert [("transform", "global-random")] == found(report)


@pytest.mark.parametrize(
    "text",
    [
        "raised for sample 3, as a wrapper of another loader says",
        "KeyError was raised for sample 3 (row 0)",
        "bad; threadloader: raised for sample 3 (row 0)",
        "bad\nWorkerError: KeyError was raised for sample 3 (row 0)",
    ],
)
@pytest.mark.parametrize("kind", [ValueError, WorkerError])
def test_where_every_batch_fails_no_sample_is_read_that_is_left_out(kind, text):
    """Whatever the user's own error says."""
    read = []

    def broken(sample):
        read.append(int(sample))
        raise kind(text)

    config = {"batch_size": 8, "exclude": list(range(16))}
    verify.run(config, source=lambda: list(range(32)), transform=broken)
    assert min(read) >= 16


@pytest.mark.parametrize("digits", [25, 5000])
def test_an_error_that_names_what_is_no_sample_is_none_of_verify_s_own(digits):
    def broken(sample):
        raise ValueError(f"raised for sample {'9' * digits}")

    report = verify.run({"batch_size": 8}, source=lambda: list(range(32)), transform=broken)
    assert ("errors", 0) == (report.result, report.samples)


@pytest.mark.parametrize("kind", [ValueError, StopIteration])
def test_where_every_collate_fails_it_is_looked_at_with_the_samples_that_the_errors_name(kind):
    """In a note, or where the error would be taken for an end, in that which wraps it."""

    def collate(samples):
        random.random()
        assert min(samples) >= 16
        raise kind

    config = {"batch_size": 8, "exclude": list(range(16))}
    report = verify.run(config, source=lambda: list(range(32)), collate=collate)
    assert [("collate", "global-random")] == [(it.part, it.kind) for it in report.dangers]


@pytest.mark.parametrize("part", ["source", "transform"])
def test_what_fails_now_and_then_and_is_tried_again_is_no_danger(part):
    """It came the same in all runs, and was called not repeatable, as it had raised."""
    asked = itertools.count()

    def now_and_then(sample):
        if not next(asked) % 3:
            raise OSError("not now")
        return sample

    class Storage(list):
        def __getitem__(self, index):
            return now_and_then(super().__getitem__(index))

    given = {"source": lambda: Storage(range(40))}
    if part == "transform":
        given = {"source": lambda: list(range(40)), "transform": now_and_then}
    report = verify.run({**CONFIG, "on_error": {"retry": 9, "backoff": 0}}, **given)
    assert ("same", ()) == (report.result, report.dangers)


def test_what_a_signal_handler_raises_in_a_call_that_is_tried_again_passes(rung):
    calls = []

    def call():
        calls.append(1)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(TimeoutError):
        _parts.again(2, call)
    assert [1] == calls


SHRUNK = """
import os

class Shrunk:
    def __init__(self):
        self.whole = os.environ.get("PYTHONHASHSEED", "").isdigit()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index > 5 and not self.whole:
            raise ValueError("bad")
        return float(index)
"""


def damaged_to_three(sample):
    if 0 < sample < 4:
        raise ValueError("damaged")
    return sample


@pytest.mark.parametrize("seed", range(4))
def test_what_a_cut_leaves_out_of_info_is_no_difference(seed):
    """The cut falls behind an exception that came after batches of which nothing was left."""
    config = {"batch_size": 1, "shuffle": False, "seed": seed, "on_error": {"skip": 2}}
    report = verify.run(config, source=lambda: np.arange(5), transform=damaged_to_three)
    assert "errors" == report.result


def test_a_failure_is_told_with_its_step_behind_batches_that_were_passed_over():
    def transform(sample):
        if sample == 5:
            raise SystemExit(1)
        return damaged_to_three(sample)

    config = {"batch_size": 1, "shuffle": False, "on_error": {"skip": 99}}
    report = verify.run(config, source=lambda: np.arange(8), transform=transform)
    assert [(0, 5), (1, 5)] == [(failure.epoch, failure.step) for failure in report.failures]
    assert all("of step 5," in failure.error for failure in report.failures)


def test_a_difference_is_told_with_its_step_behind_batches_that_were_passed_over():
    numbers = itertools.count()
    config = {"batch_size": 1, "shuffle": False, "on_error": {"skip": 99}}

    def transform(sample):
        damaged_to_three(sample)
        return np.array([next(numbers)]) if sample == 5 else np.array([0])

    report = verify.run(config, source=lambda: np.arange(8), transform=transform)
    assert ("differs", 0, 5) == (report.result, report.difference.epoch, report.difference.step)


SKIPPING = {"batch_size": 2, "shuffle": False, "on_error": {"skip": 99}}


def test_a_batch_that_is_left_out_in_the_first_run_alone_is_a_difference():
    """That run has fewer batches than an epoch should have, and all the same its end counts."""
    opened = itertools.count()

    class Mended(list):
        def __init__(self):
            super().__init__(range(8))
            self.last = 8 if next(opened) else 6

        def __getitem__(self, index):
            if index >= self.last:
                raise ValueError("bad")
            return float(index)

    report = report_of(Mended, SKIPPING, plan=Plan(epochs=1))
    got = report.difference
    assert ("steps", 0, 3, "expected the end, got a batch") == (
        *(got.kind, got.epoch, got.step, got.what),
    )


def test_a_batch_that_is_left_out_in_all_runs_but_that_of_another_process_is_seen(
    tmp_path, monkeypatch
):
    """It is told that the first run was made to its end."""
    (tmp_path / "shrunk.py").write_text(SHRUNK, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    source = importlib.import_module("shrunk").Shrunk
    report = report_of(source, SKIPPING, names={"source": "shrunk:Shrunk"}, plan=Plan(epochs=1))
    assert [True] * (len(report.runs) - 1) + [False] == [same for _, same in report.runs]
    assert (0, 3, "expected the end, got a batch") == (
        *(report.difference.epoch, report.difference.step, report.difference.what),
    )


@pytest.mark.parametrize("plan", [Plan(), Plan(batches=99), Plan(batches=4)], ids=str)
def test_where_batches_are_left_out_epochs_are_compared_to_their_end(plan):
    """There are three of four; nothing that could come was not compared."""

    def bad(sample):
        if sample[0] < 2:
            raise ValueError("bad")
        return sample

    report = report_of(lambda: faults.rows()[:8], SKIPPING, transform=bad, plan=plan)
    assert ("same", 3, 4, 6) == (report.result, report.steps, report.of_epoch, report.batches)
    assert () == report.not_compared
    assert 2 == sum(len(run.legs) > 1 for run, _ in report.runs)


def test_a_budget_that_lasts_for_the_one_epoch_of_the_config_lasts_for_a_run():
    """In two epochs the damaged samples would be left out twice, once more than permitted."""
    config = {"batch_size": 2, "shuffle": False, "num_epochs": 1, "on_error": {"skip": 3}}
    report = verify.run(config, source=lambda: np.arange(8), transform=damaged_to_three)
    assert ("same", 1) == (report.result, report.epochs)


def raises(error):
    raise error


class Odd(Exception):
    """What cannot be printed."""

    def __init__(self, printed):
        super().__init__()
        self.printed = printed

    def __str__(self):
        return self.printed(self)


@pytest.mark.parametrize(
    ("printed", "why"),
    [(lambda error: raises(RuntimeError("no str")), "RuntimeError"), (str, "RecursionError")],
    ids=["raises", "recursive"],
)
def test_an_exception_that_cannot_be_printed_is_told_by_its_type(printed, why):
    report = report_of(transform=lambda sample: raises(Odd(printed)))
    (told, *_) = report.failures
    assert told.error.startswith(f"Odd (not printable: {why}); threadloader: raised for sample ")


def test_a_long_list_of_failures_is_cut():
    def bad(sample):
        raise ValueError("no")

    text = str(report_of(transform=bad))
    assert f"  ... and {12 - _report.SHOWN} more" in text


def test_what_only_wraps_an_exception_is_told_with_its_cause():
    error = WorkerError("StopIteration was raised")
    error.__cause__ = StopIteration(3)
    assert "WorkerError: StopIteration was raised; its cause: StopIteration: 3" == told(error)


def test_a_source_that_does_not_open_again_is_told_once_and_with_where():
    report = report_of([faults.Source()].pop)
    assert "--source: IndexError: pop from empty list" == report.difference.what
