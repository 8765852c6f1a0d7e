"""How much is compared is what was asked for; what cannot be compared is said."""

import itertools
import re
import sys
import threading
from types import SimpleNamespace

import faults
import numpy as np
import pytest
from faults import SAMPLES
from hypothesis import given
from hypothesis import strategies as st
from verified import CONFIG, Box, report_of, unhurried

from threadloader import ConfigError, Loader, LoaderConfig, verify
from threadloader.fingerprint import chained, digest
from threadloader.verify import Plan, VerifyError, _record, _run
from threadloader.verify._plan import runs

as_it_was = pytest.fixture(unhurried, autouse=True)


def test_a_run_for_which_the_system_has_no_threads_is_not_compared(monkeypatch):
    """No batch of it differs: nothing is at fault in source or transform."""
    real = threading.Thread.start

    def start(self):
        if self.name == "threadloader-worker-5":
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    report = report_of(faults.Source)
    assert ("same", ()) == (report.result, report.causes)
    assert any("num_workers 8" in it and "no more threads" in it for it in report.not_compared)


def test_where_gevent_has_replaced_threads_the_runs_with_workers_are_not_compared(monkeypatch):
    """Nothing is at fault in source or transform; what to do is said with each."""
    gevent = SimpleNamespace(is_module_patched={"threading"}.__contains__)
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    report = report_of(faults.Source)
    assert ("same", ()) == (report.result, report.causes)
    assert any("num_workers 8" in it and "queue=False" in it for it in report.not_compared)


def test_a_sampler_in_code_may_have_an_order_of_any_length():
    """Of which as much is looked at as of a list that there may be."""
    many = min(10**12, sys.maxsize)
    source = type("Long", (), {"__len__": lambda _: many, "__getitem__": lambda _, index: index})
    report = report_of(source, sampler=faults.ascending, plan=Plan(batches=2))
    assert "same" == report.result


def test_a_sampler_in_code_takes_the_place_of_that_of_the_config():
    config = {**CONFIG, "sampler": {"type": "subset", "indices": [2]}}
    assert 2 == report_of(config=config).samples
    assert 2 * SAMPLES == report_of(config=config, sampler=faults.ascending).samples


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"names": "mine:source"}, r"names: expected a mapping, as \{.*\}, got str"),
        ({"plan": {"epochs": 2}}, r"plan: expected a verify\.Plan, got dict"),
    ],
    ids=["names", "plan"],
)
def test_an_argument_of_another_kind_is_told(given, told):
    with pytest.raises(ConfigError, match=told):
        report_of(**given)


def test_what_a_sampler_in_code_raises_is_raised():
    def raising(epoch, n):
        raise ValueError("no order")

    with pytest.raises(ValueError, match="no order") as caught:
        report_of(sampler=raising)
    assert ["threadloader: raised for the order of epoch 0"] == caught.value.__notes__


def test_the_runs_have_all_workers_and_depths_and_resumes():
    """0, 1, 2, 8 workers and those of the config; 1, 3, 16 ahead; cuts within and at an end."""
    made = runs((5, 2), 16, epochs=2, steps=10, whole=True, seed=0)
    legs = [leg for run in made for leg in run.legs]
    assert {0, 1, 2, 5, 8} == {leg.workers for leg in legs}
    assert {1, 2, 3, 16} == {leg.depth for leg in legs}
    cuts = [leg.until for leg in legs if leg.until]
    assert (0, 10) in cuts
    assert {0, 1} == {epoch for epoch, step in cuts if 0 < step < 10}
    for run in made:
        workers = [leg.workers for leg in run.legs]
        assert all(one != other for one, other in itertools.pairwise(workers))


@given(st.integers(1, 3), st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_a_run_is_cut_only_where_there_is_something_behind(epochs, steps, whole, seed):
    for run in runs((2, 3), 16, epochs=epochs, steps=steps, whole=whole, seed=seed):
        cuts = [leg.until for leg in run.legs[:-1]]
        assert None not in cuts
        assert None is run.legs[-1].until
        assert sorted(cuts) == cuts
        for epoch, step in cuts:
            assert 0 < step <= steps
            assert step < steps or (whole and epoch < epochs - 1)


@pytest.mark.parametrize(
    ("shard", "left_out"),
    [
        ("auto", ()),  # of a process that is alone
        ({"index": 0, "count": 1}, ()),
        ({"index": 0, "count": 2}, ("the batches of other shards",)),
    ],
    ids=str,
)
def test_what_other_shards_have_is_left_out_where_there_are_others(shard, left_out):
    report = report_of(config={**CONFIG, "shard": shard})
    assert left_out == report.not_compared


def test_large_batches_are_not_prepared_far_ahead(monkeypatch):
    """Where 16 batches would take too much memory, fewer are prepared, and that is said."""
    monkeypatch.setattr(_run, "AHEAD_BYTES", 2 * 4 * 4 * 8)
    report = report_of()
    assert 2 == max(leg.depth for run, _ in report.runs[3:] for leg in run.legs if leg.hurried)
    assert ("a prefetch of more than 2 batches: they are large",) == report.not_compared


def test_without_a_number_of_batches_time_decides(monkeypatch):
    """At least two of each epoch; and it is said what was left out."""
    monkeypatch.setattr(_record, "BUDGET_SECONDS", 0)
    report = report_of()
    assert ("same", 2, 6, 4) == (report.result, report.steps, report.of_epoch, report.batches)
    (said,) = report.not_compared
    assert said.startswith("4 of the 6 batches of each epoch, and a resume at an epoch's end; ")


@pytest.mark.parametrize(("batches", "whole"), [(3, False), (6, True), (99, True)])
def test_a_number_of_batches_bounds_each_epoch(batches, whole):
    report = report_of(plan=Plan(batches=batches, epochs=3))
    assert (min(batches, 6), 3 * min(batches, 6)) == (report.steps, report.batches)
    assert whole == (report.not_compared == ())


def test_one_epoch_is_said_to_show_less():
    report = report_of(plan=Plan(epochs=1))
    assert ("what only a second epoch shows; --epochs 2 compares that",) == report.not_compared


@pytest.mark.parametrize(
    ("plan", "num_epochs", "expected"),
    [
        (Plan(), None, 2),
        (Plan(), 7, 2),
        (Plan(), 1, 1),
        (Plan(epochs=3), 1, 3),
        (Plan(epochs=1), None, 1),
    ],
)
def test_a_run_has_two_epochs_unless_the_config_or_the_plan_says_otherwise(
    plan, num_epochs, expected
):
    assert expected == plan.epochs_of(LoaderConfig(num_epochs=num_epochs))


def test_the_fingerprint_is_that_of_a_run_of_these_epochs():
    """It is chained over the batches, whoever makes them."""
    expected = ""
    with Loader(CONFIG, source=faults.rows()) as batches:
        for epoch in batches.epochs(2):
            for batch in epoch:
                expected = chained(expected, digest(batch))
    assert expected == report_of().fingerprint


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"epochs": True}, {"batches": 1}, {"batches": 2.0}]
)
def test_what_is_out_of_bounds_is_refused_by_its_option(wrong):
    with pytest.raises(ConfigError) as refused:
        Plan(**wrong)
    assert [f"--{next(iter(wrong))}"] == [it.pointer for it in refused.value.problems]


def test_a_number_of_too_many_digits_is_refused_by_its_option():
    """Python does not write it."""
    with pytest.raises(ConfigError, match=r"--epochs: expected .*, got a value of type int"):
        Plan(epochs=10**5000)


class Unreadable:
    """Its samples cannot be read."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise ValueError("unreadable")


@pytest.mark.parametrize(
    ("source", "config", "says"),
    [
        (list, {}, "expected a batch, got none: the source is empty"),
        (lambda: [1, 2], {"drop_last": True}, "expected a batch, got none"),
        (lambda: [1, 2], {"exclude": [0, 1]}, "are left out (by exclude, on_error, the sampler,"),
        (Unreadable, {"on_error": {"skip": 9}}, "are left out (by exclude, on_error, the sam"),
        (lambda: [Box(1)] * 4, {}, "epoch 0, step 0: cannot be compared: batch: expected arrays, "),
    ],
)
def test_what_cannot_be_compared_is_an_error(source, config, says):
    with pytest.raises(VerifyError, match=re.escape(says)):
        verify.run({**CONFIG, **config}, source=source, collate=lambda samples: samples[0])


def test_what_cannot_be_compared_in_a_later_run_alone_is_an_error():
    """Workers are given another kind of batch than the main thread."""

    def collate(samples):
        here = threading.current_thread() is threading.main_thread()
        return np.stack(samples) if here else Box(samples)

    with pytest.raises(VerifyError, match="epoch 0, step 0: cannot be compared: batch: expected "):
        report_of(collate=collate)
