"""The numbers are exact under a clock that the test moves."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadloader import Loader
from threadloader.engine import _shared
from threadloader.stats import Stats, Tally, _stats, band


def test_stats_and_the_engine_call_the_same_delay_a_gil_that_is_held():
    """Rooms do not know each other, and `"auto"` acts where `stats` says what to set."""
    assert _shared.HELD_SECONDS == _stats.HELD_SECONDS


def feed(tally, events):
    """Plays (called, now) pairs as deliveries of 4 samples with 2 batches ready."""
    for called, now in events:
        tally = tally.waited(called, now).plus(1, samples=4, ready=2)
    return tally


def test_waiting_is_the_time_inside_next_after_the_first_batch():
    """First next 0 to 3; then 1 s of training and 1 s of waiting, three times; asked at 10."""
    tally = feed(Tally(), [(100.0, 103.0), (104.0, 105.0), (106.0, 107.0), (108.0, 109.0)])
    stats = tally.stats(110.0, prefetch_batches=3)
    assert 3.0 == stats.first_batch_seconds
    assert 3.0 == stats.data_wait_seconds
    assert 10.0 == stats.elapsed_seconds
    assert 3.0 / 7.0 == stats.data_wait_fraction
    assert "poor" == stats.data_wait_band
    assert (4, 16) == (stats.batches, stats.samples)
    assert 1.6 == stats.samples_per_second
    assert 0.4 == stats.batches_per_second
    assert 2.0 == stats.batches_ready


def test_the_end_of_an_epoch_and_a_failed_batch_count_as_waiting():
    tally = feed(Tally(), [(0.0, 1.0)]).waited(2.0, 4.0).waited(5.0, 6.0, failed=1)
    stats = tally.stats(6.0, prefetch_batches=3)
    assert (3.0, 1, 1) == (stats.data_wait_seconds, stats.failed, stats.batches)


def test_an_error_before_the_first_batch_belongs_to_its_time():
    stats = feed(Tally().waited(1.0, 2.0, failed=1), [(3.0, 7.0)]).stats(7.0, prefetch_batches=3)
    assert (6.0, 0.0, 0.0) == (
        stats.first_batch_seconds,
        stats.data_wait_seconds,
        stats.data_wait_fraction,
    )


def test_nothing_is_divided_by_nothing():
    """No next yet, and a clock that does not move."""
    assert 0.0 == Tally().stats(5.0, prefetch_batches=3).data_wait_fraction
    stats = feed(Tally(), [(1.0, 1.0), (1.0, 1.0)]).stats(1.0, prefetch_batches=3)
    assert (0.0, 0.0, 0.0) == (
        stats.data_wait_fraction,
        stats.samples_per_second,
        stats.batches_per_second,
    )


def test_before_the_first_batch_no_wait_is_praised():
    assert "Data wait: no batch yet" == str(Tally().stats(5.0, prefetch_batches=3))
    assert "Data wait: no batch yet | 1 failed" == str(
        Tally().waited(1.0, 2.0, 1).stats(5.0, prefetch_batches=3)
    )


def test_what_was_lost_is_told_before_the_first_batch():
    lost = Tally().tried(3, 2).waited(1.0, 2.0, 1)
    told = "Data wait: no batch yet | 3 skipped | 2 retried | 1 failed"
    assert told == str(lost.stats(5.0, prefetch_batches=3))


@given(steps=st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=8))
def test_a_fraction_is_never_outside_of_0_to_1(steps):
    tally, now = Tally(), 0.0
    for work, wait in steps:
        tally = feed(tally, [(now + work, now + work + wait)])
        now += work + wait
    assert 0.0 <= tally.stats(now, prefetch_batches=3).data_wait_fraction <= 1.0


@pytest.mark.parametrize(
    ("fraction", "name"),
    [
        (0.0, "excellent"),
        (0.0099, "excellent"),
        (0.01, "good"),
        (0.0499, "good"),
        (0.05, "fair"),
        (0.1999, "fair"),
        (0.2, "poor"),
        (1.0, "poor"),
    ],
)
def test_a_band_includes_its_lower_bound(fraction, name):
    assert name == band(fraction)


def test_an_interval_is_the_difference_of_two_snapshots():
    tally = feed(Tally(), [(0.0, 1.0), (2.0, 3.0)])
    earlier = tally.stats(4.0, prefetch_batches=3)
    interval = feed(tally, [(5.0, 5.5)]).stats(6.0, prefetch_batches=3).since(earlier)
    assert (
        Stats(
            batches=1,
            samples=4,
            elapsed_seconds=2.0,
            data_wait_seconds=0.5,
            ready_sum=2,
            prefetch_batches=3,
        )
        == interval
    )
    assert 0.25 == interval.data_wait_fraction


@pytest.mark.parametrize(
    ("earlier", "kind", "what"),
    [
        (5, TypeError, "an earlier snapshot of the run, as stats() gave it, got int"),
        (None, TypeError, "an earlier snapshot of the run, as stats() gave it, got NoneType"),
        (Stats(batches=3, elapsed_seconds=4.0), ValueError, "an earlier snapshot of the run, got"),
    ],
)
def test_an_interval_begins_at_an_earlier_snapshot(earlier, kind, what):
    with pytest.raises(kind, match=re.escape(f"since: expected {what}")):
        Stats(batches=2, elapsed_seconds=3.0).since(earlier)


def test_an_interval_that_begins_before_the_first_batch_has_its_part_of_that_time():
    """Begun at 0, failed at 1, looked at at 10, the first batch at 11, the next at 18, 20."""
    tally = Tally().waited(0.0, 1.0, failed=1)
    earlier = tally.stats(10.0, prefetch_batches=3)
    tally = feed(tally, [(5.0, 11.0), (12.0, 18.0)])
    interval = tally.stats(20.0, prefetch_batches=3).since(earlier)
    assert (10.0, 1.0) == (interval.elapsed_seconds, interval.first_batch_seconds)
    assert (6.0, 6.0 / 9.0, "poor") == (
        interval.data_wait_seconds,
        interval.data_wait_fraction,
        interval.data_wait_band,
    )


def test_an_interval_in_which_no_batch_came_has_no_first_batch():
    """Nor has one whose first batch came before it, by the clock of another thread."""
    tally = Tally().waited(0.0, 1.0, failed=1)
    earlier = tally.stats(10.0, prefetch_batches=3)
    assert 0.0 == tally.stats(20.0, prefetch_batches=3).since(earlier).first_batch_seconds
    late = feed(tally, [(2.0, 9.0)]).stats(20.0, prefetch_batches=3)
    assert 0.0 == late.since(earlier).first_batch_seconds


def test_a_line_begins_with_the_data_wait():
    stats = Stats(
        batches=10,
        samples=1234,
        failed=1,
        elapsed_seconds=2.0,
        first_batch_seconds=0.012,
        data_wait_seconds=0.002,
        ready_sum=25,
        prefetch_batches=3,
    )
    assert str(stats) == (
        "Data wait: 0.1% (excellent) | first batch 12.0 ms | 617 samples/s "
        "| 2.5 of 3 batches ready | 1,234 samples in 2.0 s | 1 failed"
    )


@pytest.mark.parametrize(
    ("fraction", "told"),
    [
        (0.00999, "0.9% (excellent)"),
        (0.01, "1.0% (good)"),
        (0.0499999, "4.9% (good)"),
        (0.1999, "19.9% (fair)"),
        (0.2, "20.0% (poor)"),
        (1.0, "100.0% (poor)"),
    ],
)
def test_the_number_of_a_data_wait_lies_in_the_band_beside_it(fraction, told):
    stats = Stats(batches=10, elapsed_seconds=1.0, data_wait_seconds=fraction)
    assert f"Data wait: {told}" == str(stats).partition(" | ")[0]


def test_where_nothing_is_prepared_ahead_a_line_tells_of_no_batches_that_are_ready():
    stats = Stats(batches=10, samples=20, elapsed_seconds=2.0, ready_sum=25)
    assert str(stats) == "Data wait: 0.0% (excellent) | 10 samples/s | 20 samples in 2.0 s"


def test_a_line_tells_of_cache_pinning_and_fingerprint():
    line = str(
        Stats(
            batches=1,
            cache_hits=3,
            cache_misses=1,
            not_pinned="torch is missing",
            fingerprint="f00d",
        )
    )
    assert line.endswith(
        " | 75.0% from the cache | not pinned: torch is missing | fingerprint f00d"
    )


def test_as_dict_is_json_and_holds_the_derived_numbers():
    numbers = json.loads(json.dumps(Stats(batches=1, elapsed_seconds=2.0).as_dict()))
    assert (0.5, "excellent") == (numbers["batches_per_second"], numbers["data_wait_band"])


def test_a_sampler_that_fails_stands_in_the_place_of_no_batch():
    """So batches and failed ones are all that there were to be."""
    tries = []

    def sampler(epoch, n):
        tries.append(epoch)
        if len(tries) < 4:
            raise OSError("not yet")
        return range(n)

    with Loader({"batch_size": 2, "num_epochs": 1}, range(10), sampler=sampler) as batches:
        epoch = iter(batches)
        for _ in range(3):
            with pytest.raises(OSError, match="not yet"):
                next(epoch)
        got = len(list(epoch))
    assert (5, 5, 0) == (got, batches.stats().batches, batches.stats().failed)
