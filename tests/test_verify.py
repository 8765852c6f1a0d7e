"""What is to blame is found and said, whether runs differ or not; and nothing else is blamed."""

import random
import re
from pathlib import Path

import faults
import numpy as np
import pytest
from frameworks import framework
from verified import CONFIG, DOCUMENT, Box, found, report_of, unhurried

from threadloader import LoaderConfig, verify
from threadloader.verify import _case, _causes, _run, _stress

as_it_was = pytest.fixture(unhurried, autouse=True)


FAULTS = [
    # source, transform, collate; the cause; what its sentences must name
    (None, faults.global_numpy, None, "transform global-random", "numpy.random"),
    (None, faults.global_random, None, "transform global-random", "the module random"),
    (None, faults.clock, None, "transform clock", "with the clock stopped"),
    (None, faults.of_the_date, None, "transform clock", "with the clock stopped"),
    (None, faults.imported_clock, None, "transform clock", "with the clock stopped"),
    (None, faults.counter, None, "transform own-state", "(calls)"),
    (None, faults.Augment, None, "transform own-state", "(Augment.draws)"),
    (None, faults.closed_over, None, "transform own-state", "(draws)"),
    (None, faults.of_the_system, None, "transform not-repeatable", "a generator without a seed"),
    (None, faults.of_its_address, None, "transform not-repeatable", "its address, id()"),
    (None, faults.never_filled, None, "transform not-repeatable", "that was never filled"),
    (None, faults.half_filled, None, "transform not-repeatable", "that was never filled"),
    (None, faults.Scratch, None, "transform not-thread-safe", "with a lock around "),
    (None, faults.HandedOut, None, "transform reused-buffer", "what transform"),
    (None, faults.Seeding, None, "transform global-random", "called in 8 threads at once"),
    (faults.Kept, faults.in_place, None, "transform in-place", "after the transform had run"),
    (faults.SharedHandle, None, None, "source not-thread-safe", "per_thread(open_it)"),
    (faults.FailingHandle, None, None, "source not-thread-safe", "with a lock around "),
    (faults.Batched, None, None, "source not-thread-safe", "with a lock around "),
    (faults.Buffered, None, None, "source reused-buffer", "overwritten by the next call"),
    (faults.Counting, None, None, "source own-state", "(Counting.reads)"),
    (faults.CountingEach, None, None, "source own-state", "(CountingEach.reads)"),
    (faults.Random, None, None, "source global-random", "the module random"),
    (faults.Drawn, None, None, "source reopened", "opened a second time, source"),
    (faults.Growing, None, None, "source reopened", "its length was another one"),
    (faults.Renamed, None, None, "source reopened", "its fingerprint was another one"),
    (faults.BoundToThread, None, None, "source other-thread", "raised RuntimeError in a new"),
    (faults.HaltedInThread, None, None, "source other-thread", "raised KeyboardInterrupt in a"),
    (None, None, faults.shuffled, "collate global-random", "the module random"),
    (None, None, faults.Numbered, "collate own-state", "(Numbered.number)"),
    (None, None, faults.OneBatch, "collate reused-buffer", "several batches are ready"),
    (None, None, faults.SharedRows, "collate not-thread-safe", "with a lock around "),
]


def made(thing):
    """A new object of a class or of a factory; a function of samples as it is."""
    factory = isinstance(thing, type) or thing is faults.closed_over
    return thing() if factory else thing


@pytest.mark.parametrize(
    ("source", "transform", "collate", "cause", "says"),
    FAULTS,
    ids=lambda it: getattr(it, "__name__", "") if it is None or callable(it) else "",
)
def test_each_fault_is_found_with_its_cause(source, transform, collate, cause, says):
    """Whatever run shows it first; and the report says so in words, with the evidence."""
    report = report_of(source or faults.Source, transform=made(transform), collate=made(collate))
    assert [tuple(cause.split())] == found(report)
    text = re.sub(r"\s+", " ", str(report))
    assert says in text
    # Memory that is written again is wrong in every run; whether it differs is up to the threads.
    assert re.match("the config: (DIFFERS from num_workers 0: |UNSAFE: the same )", text)
    assert " shown by: " in text
    assert " what to do: " in text


def test_what_source_and_transform_share_is_found_by_one_lock_around_both(monkeypatch):
    """Each is safe by itself; whole runs differ unless one lock is around both."""
    monkeypatch.setattr(_causes, "TRIES", 1)
    shared = faults.TwoLocks()
    report = report_of(lambda: shared, transform=shared.change)
    assert [("", "not-thread-safe")] == found(report)
    assert "the source and the transform share something" in report.causes[0].says
    assert "around the source and the transform, 0 of 1" in report.causes[0].evidence[0]


def test_a_lock_around_whole_runs_shows_what_calls_alone_do_not():
    """Samples that cannot be compared: only the batches made of them tell, under a lock."""
    handle = faults.SharedHandle

    class Opaque(handle):
        def __getitem__(self, index):
            return Box(super().__getitem__(index))

    report = report_of(Opaque, collate=unpacked)
    assert [("source", "not-thread-safe")] == found(report)
    assert "with a lock around the source, 0 of 3" in report.causes[0].evidence[0]


def test_a_lock_around_the_collate_is_tried_where_calls_alone_show_nothing(monkeypatch):
    """The runs differ, and not with the lock."""
    monkeypatch.setattr(_causes, "_in_threads", lambda *looked_at: iter(()))
    report = report_of(collate=faults.SharedRows())
    assert [("collate", "not-thread-safe")] == found(report)
    assert "with a lock around the collate, 0 of 3" in report.causes[0].evidence[0]


def unpacked(boxes):
    return np.stack([box.values for box in boxes])


def test_what_does_not_come_again_is_not_explained():
    """A difference without a cause says what was tried, and blames nobody."""
    report = report_of(transform=faults.Once())
    assert [("", "unknown")] == found(report)
    assert ("not found", ("0 of 3 further runs with 8 workers differed",)) == (
        report.causes[0].says,
        report.causes[0].evidence,
    )


def test_a_context_that_only_the_main_thread_has_is_found():
    """Workers begin with an empty context; the transform looks for what the main thread set."""
    token = faults.scale.set(2.0)
    try:
        report = report_of(transform=faults.scaled)
    finally:
        faults.scale.reset(token)
    assert [("transform", "other-thread")] == found(report)
    assert "in another thread" in report.causes[0].says


def test_torch_random_numbers_are_global_state():
    """What torch's own generator gives is found by its name."""
    torch = framework("torch")
    report = report_of(transform=lambda sample: sample + torch.rand(1).numpy())
    assert [("transform", "global-random")] == found(report)
    assert "the global random state of torch" in report.causes[0].says


@pytest.mark.parametrize(
    ("alone", "locked", "kind"),
    [(0, 0, "not-thread-safe"), (0, 2, "other-thread"), (2, 0, "not-repeatable")],
)
def test_threads_are_blamed_where_one_alone_is_right_and_a_lock_helps(
    monkeypatch, alone, locked, kind
):
    """What a clock of whole seconds does to the calls in several threads is no race."""

    def stressed(calls, seconds, *, lock=False, count=8):
        return _stress.Stress(100, alone if count == 1 else locked if lock else 3)

    monkeypatch.setattr(_causes, "stressed", stressed)
    case = _case.Case(LoaderConfig(), Path(), faults.Source)
    shown = _causes.faults(case, [0, 1]).causes
    assert [("source", kind)] == [(cause.part, cause.kind) for cause in shown]


def test_threads_are_not_blamed_for_what_differs_without_them():
    """What depends on where its sample lies in memory; a lock was advised."""

    def by_address(sample):
        return sample + (sample.__array_interface__["data"][0] >> 4) % 8

    rows = np.arange(256.0).reshape(64, 4)
    report = verify.run(CONFIG, source=lambda: [row.copy() for row in rows], transform=by_address)
    assert "differs" == report.result
    assert {"not-thread-safe", "other-thread"}.isdisjoint(cause.kind for cause in report.causes)


def test_a_fault_that_every_run_has_is_found_all_the_same(monkeypatch):
    """One buffer for all rows may be wrong in the same way in all runs. That is not OK."""
    monkeypatch.setattr(_run, "compared", lambda *run: (None, []))
    report = report_of(faults.Buffered)
    assert ("unsafe", [("source", "reused-buffer")]) == (report.result, found(report))
    assert str(report).startswith("the config: UNSAFE: the same 12 batches of 2 epochs, ")


def test_a_race_that_came_in_no_run_is_found_all_the_same(monkeypatch):
    """Calls in several threads are tried even where all runs were the same."""
    monkeypatch.setattr(_run, "compared", lambda *run: (None, []))
    monkeypatch.setattr(_causes, "GLANCE_SECONDS", 0.3)
    report = report_of(faults.SharedHandle)
    assert ("unsafe", [("source", "not-thread-safe")]) == (report.result, found(report))


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"transform": faults.careless}, "transform"),
        ({"transform": faults.seeding_alone}, "transform"),
        ({"collate": lambda samples: (random.random(), faults.stacked(samples))[1]}, "collate"),
    ],
)
def test_use_of_global_random_state_is_a_danger_even_if_nothing_differs(given, part):
    """It is said, with what to do; the batches are the same, and so it is no failure."""
    report = report_of(**given)
    assert ("same", ()) == (report.result, report.causes)
    assert [(part, "global-random")] == [(it.part, it.kind) for it in report.dangers]
    assert "  a danger: the " + part in str(report)


def test_a_collate_is_not_blamed_for_what_the_transform_before_it_changes():
    report = report_of(faults.Kept, transform=faults.in_place, collate=np.stack)
    assert [("transform", "in-place")] == found(report)


def test_a_change_in_place_that_changes_nothing_more_is_a_danger():
    """The second time it gives what it gave the first time, so no batch differs."""
    report = report_of(faults.Kept, transform=faults.once_in_place)
    assert ("same", [("transform", "in-place")]) == (
        report.result,
        [(it.part, it.kind) for it in report.dangers],
    )


@pytest.mark.parametrize(
    ("sampler", "kind", "says"),
    [
        (faults.permuted, "global-random", "with that put back before each call, it gave the same"),
        (faults.permuted_later, "global-random", "the order of epochs 0 and 1 gave something else"),
        (faults.OneGenerator, "own-state", "(OneGenerator.generator)"),
        (faults.of_main_thread, "other-thread", "gives something else in another thread"),
        (faults.TurnedOnce, "unknown", "which the sampler decides; asked for epochs 0 and 1"),
    ],
    ids=["permuted", "permuted later", "one generator", "of the main thread", "turned once"],
)
def test_a_sampler_in_code_that_gives_another_order_is_found_with_its_cause(sampler, kind, says):
    report = report_of(sampler=made(sampler))
    assert ("order", [("sampler", kind)]) == (report.difference.kind, found(report))
    assert says in re.sub(r"\s+", " ", str(report))


@pytest.mark.parametrize("sampler", [faults.ascending, [3, 1, 3], lambda epoch, n: iter([n - 1])])
def test_a_sampler_in_code_that_gives_the_same_is_no_fault(sampler):
    report = report_of(sampler=sampler)
    assert ("same", ()) == (report.result, report.dangers)


def test_a_sampler_in_code_that_seeds_global_state_is_a_danger():
    report = report_of(sampler=faults.seeding)
    dangers = [(it.part, it.kind) for it in report.dangers]
    assert ("same", [("sampler", "global-random")]) == (report.result, dangers)


class Taken(faults.Source):
    def take(self, indices):
        return self.rows[indices] + random.random()


class Gotten(faults.Source):
    def __getitems__(self, indices):
        return list(self.rows[indices] + random.random())


@pytest.mark.parametrize("source", [Taken, Gotten])
def test_a_fault_of_the_method_by_which_batches_are_read_is_found(source):
    """Read one by one, the samples are what they are."""
    assert [("source", "global-random")] == found(report_of(source))


def test_every_kind_of_cause_is_documented():
    for *_, cause, _ in FAULTS:
        assert f"`{cause.split()[1]}`" in DOCUMENT
    for kind in ("other-process", "unknown", "content", "order", "error", "steps", "run"):
        assert f"`{kind}`" in DOCUMENT
