"""From its numbers alone bench chooses the fewest workers that are enough, and names the limit."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import rates, rows

from threadloader.bench._choice import choose, compared, findings

# The choice: a function of numbers.


@given(rates)
def test_the_fewest_workers_within_5_percent_of_the_best_are_chosen(rates):
    near = [workers for workers, rate in rates.items() if rate >= 0.95 * max(rates.values())]
    assert min(near) == choose(rows(rates)).num_workers


@given(rates, st.randoms())
def test_with_a_step_the_fewest_that_hardly_wait_are_chosen(rates, random):
    """Among those within 5% of the best rate; where none of them is fed, they all count."""
    waits = {workers: random.choice([0.0, 0.009, 0.01, 0.5]) for workers in rates}
    near = {workers for workers, rate in rates.items() if rate >= 0.95 * max(rates.values())}
    fed = {workers for workers in near if waits[workers] < 0.01}
    assert min(fed or near) == choose(rows(rates, waits)).num_workers


@given(rates, st.floats(0.1, 10))
def test_the_choice_does_not_depend_on_the_unit(rates, factor):
    """Twice as fast a machine chooses alike. (Rates at the very bound may be rounded across.)"""
    best = max(rates.values())
    rates = {n: rate for n, rate in rates.items() if abs(rate / best - 0.95) > 1e-6}
    faster = {workers: rate * factor for workers, rate in rates.items()}
    assert choose(rows(rates)).num_workers == choose(rows(faster)).num_workers


@pytest.mark.parametrize(
    ("rates", "waits", "expected"),
    [
        ({2: 10}, None, "Nothing else was measured."),
        (
            {0: 10, 2: 20.4, 4: 21},
            None,
            "The fewest within 5% of the best rate: 20 samples/s; the best, 21, took 4 workers.",
        ),
        (
            {0: 5, 1: 2000},
            {0: 0.5, 1: 0.001},
            (
                "The fewest with a data wait below 1%: 0.1%, and 2,000 samples/s, the best rate of"
                " all."
            ),
        ),
        (
            {0: 9, 1: 9.1},
            {0: 0.5, 1: 0.4},
            (
                "No setting within 5% of the best rate has a data wait below 1%. This is the fewest"
                " workers among them: 50.0%, and 9 samples/s; the best, 9, took 1 worker."
            ),
        ),
    ],
)
def test_the_choice_says_why(rates, waits, expected):
    assert expected == choose(rows(rates, waits)).why


# What the numbers say.


def said(rows, step_seconds=0.0, cores=2, gil=True):
    return " ".join(findings(rows, step_seconds=step_seconds, cores=cores, gil=gil))


@pytest.mark.parametrize(
    ("rates", "busy", "cores", "expected"),
    [
        ({0: 100, 2: 190, 8: 800}, {0: 0.1, 2: 0.1, 8: 0.2}, 2, "the rest was waiting"),
        ({0: 100, 2: 190, 8: 800}, {0: 0.1, 2: 0.1, 8: 0.2}, 2, "still rising at 8"),
        ({0: 100, 2: 190, 4: 191}, {0: 1.0, 2: 1.9, 4: 1.9}, 2, "the limit of this machine"),
        ({0: 100, 2: 190}, {0: 1.0, 2: 1.9}, 8, "1.9 of 8 cores are busy then, one for each"),
        ({0: 100, 2: 140}, {0: 1.0, 2: 1.4}, 2, "1.4 of 2 cores are busy then: the rest of the"),
        ({0: 100, 4: 90}, {0: 1.0, 4: 1.0}, 2, "code that holds the GIL"),
        ({0: 100, 4: 90}, {0: 1.0, 4: 1.9}, 2, "the threads contend for memory or for the GIL"),
        ({0: 100, 4: 90}, {0: 0.1, 4: 0.1}, 2, "one thread in at a time, or the storage gives no"),
        ({0: 1e6, 4: 3e5}, {0: 1.0, 4: 1.0}, 2, "handing it from thread to thread costs as much"),
        ({2: 100, 4: 99}, {2: 1.9, 4: 1.9}, 2, "are busy with 2 workers already"),
        ({0: 100, 4: 99}, {0: 0.99, 4: 0.99}, 1, "1.0 of 1 core is busy with no workers already"),
        ({0: 100, 1: 99}, {0: 0.99, 1: 0.99}, 2, "One worker does what the loop itself would do"),
        ({0: 100, 4: 90}, {0: 1.0, 4: 1.0}, 2, "This holds for loading alone."),
        ({0: 100, 4: 105}, {0: 1.0, 4: 1.0}, 2, "More workers than 0 do not help (1.05 times at"),
        ({0: 100, 4: 107}, {0: 1.0, 4: 1.0}, 2, "More workers than 0 help little (1.07 times at"),
    ],
)
def test_without_a_step_the_bottleneck_is_told_by_rates_and_cores(rates, busy, cores, expected):
    seconds = {workers: 10 / rate for workers, rate in rates.items()}
    assert expected in said(rows(rates, cpu_cores=busy, batch_seconds=seconds), cores=cores)


@pytest.mark.parametrize(
    ("rates", "busy"),
    [
        ({0: 100, 2: 190}, {0: 0.4, 2: 0.8}),
        ({0: 100, 2: 140}, {0: 1.0, 2: 1.2}),
        ({0: 100, 4: 90}, {0: 0.4, 4: 0.4}),
        ({0: 100, 4: 90}, {0: 0.9, 4: 1.0}),
    ],
)
@pytest.mark.parametrize("gil", [True, False])
def test_where_few_cores_are_busy_other_programs_are_named_as_a_cause(rates, busy, gil):
    """Pushed off the processor by them, threads take as little of it as those that wait."""
    seconds = {workers: 10 / rate for workers, rate in rates.items()}
    assert "or other programs took the processor" in said(
        rows(rates, cpu_cores=busy, batch_seconds=seconds), gil=gil
    )


def test_the_gil_is_named_only_where_there_is_one():
    """Whatever else the numbers are; the same numbers name it with a GIL, some of them."""
    named = set()
    for busy in (0.1, 1.0, 1.5, 1.9):
        for rate in (50, 150, 300):
            told = rows(
                {0: 100, 4: rate},
                cpu_cores={0: min(busy, 1), 4: busy},
                batch_seconds={0: 0.1, 4: 0.1},
            )
            assert "GIL" not in said(told, gil=False)
            named.add("GIL" in said(told, gil=True))
    assert {True, False} == named


@pytest.mark.parametrize(
    ("waits", "ready", "steps", "expected"),
    [
        ({0: 0.001, 4: 0.0}, {0: None, 4: 3}, {0: 0.01, 4: 0.01}, "loading is not the bottleneck"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 0}, {0: 0.01, 4: 0.01}, "still above 1%: try more of them"),
        ({0: 0.2, 4: 0.5}, {0: None, 4: 0}, {0: 0.01, 4: 0.01}, "to hand a batch over takes as lo"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 0.6}, {0: 0.01, 4: 0.01}, "although 0.6 batches were"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 2}, {0: 0.01, 4: 0.01}, "although 2.0 batches were ready"),
        ({0: 0.5, 4: 0.2}, {0: None, 4: 2}, {0: 0.01, 4: 0.01}, "or other programs take the cores"),
        (
            {0: 0.5, 4: 0.0},
            {0: None, 4: 2},
            {0: 0.011, 4: 0.02},
            "gets slower beside the workers: 11 ms alone, 20 ms with 4 workers",
        ),
        ({0: 0.5, 4: 0.0}, {0: None, 4: 2}, {0: 0.01, 4: 0.0109}, ""),
        (
            {0: 0.5, 4: 0.0},
            {0: None, 4: 2},
            {0: 0.012, 4: 0.013},
            "With no workers a step took 12 ms, and not 10 ms (--step-ms)",
        ),
    ],
)
def test_with_a_step_the_bottleneck_is_told_by_waits_and_steps(waits, ready, steps, expected):
    told = said(
        rows({0: 100, 4: 100}, waits, batches_ready=ready, step_seconds=steps), step_seconds=0.01
    )
    assert expected in told
    assert bool(expected) == bool(told)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_bound_in_bytes_is_named_where_it_may_be_what_keeps_batches_back(bounded):
    waits, ready = {0: 0.5, 4: 0.2}, {0: None, 4: 2}
    measured = rows({0: 100, 4: 100}, waits, batches_ready=ready)
    told = " ".join(findings(measured, step_seconds=0.01, cores=2, gil=True, bounded=bounded))
    assert bounded == ("which a larger max_bytes, or more of prefetch_batches evens out" in told)
    assert "more of prefetch_batches evens out, or the loop" in told


def test_workers_beyond_which_the_wait_rises_are_told():
    told = said(
        rows({1: 100, 2: 100, 4: 100}, {1: 0.5, 2: 0.3, 4: 0.4}, batches_ready={1: 0, 2: 0, 4: 0}),
        step_seconds=0.01,
    )
    assert "The wait is lowest with 2 workers, 30.0%, and more of them do not lower it: at " in told


def test_a_step_that_was_never_taken_alone_is_compared_with_what_was_asked_for():
    told = said(
        rows({2: 100, 4: 100}, {2: 0.0, 4: 0.0}, step_seconds={2: 0.01, 4: 0.02}), step_seconds=0.01
    )
    assert "beside the workers: 10 ms asked for, 20 ms with 4 workers" in told


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({0: 0.009, 4: 0.009}, False),
        ({0: 0.008, 4: 0.01}, True),
        ({2: 0.009, 4: 0.009}, False),
        ({2: 0.01, 4: 0.008}, True),
        ({2: 0.02, 4: 0.02}, False),
    ],
    ids=str,
)
def test_a_step_that_is_not_as_long_as_asked_is_told(steps, expected):
    """A longer one without workers alone: beside them it may be longer for their sake."""
    waits = dict.fromkeys(steps, 0.5)
    told = said(rows(dict.fromkeys(steps, 100), waits, step_seconds=steps), step_seconds=0.01)
    assert expected == ("a step took 8 ms, and not 10 ms (--step-ms)" in told)


def test_runs_that_differ_and_reads_from_storage_are_told():
    noisy = replace(
        rows({2: 100})[0], samples_per_second_runs=(90, 100, 110), storage_bytes=3 << 20
    )
    told = said([noisy])
    assert "Up to 3 MiB of a run came from storage" in told
    assert "With 2 workers the runs differ by ±10%" in told


@pytest.mark.parametrize(
    "waits", [None, {0: 0.0, 4: 0.0}, {0: 0.5, 4: 0.2}], ids=["no step", "fed", "starved"]
)
@given(part=st.floats(0.01, 1), noise=st.floats(0, 100))
def test_kept_samples_are_told_and_nothing_is_drawn_from_them(waits, part, noise):
    """Whatever else the numbers are: no setting is chosen, and no cause is named."""
    told = rows({0: 100, 4: 300}, waits, cached_fraction={0: None, 4: part})
    told = [replace(row, samples_per_second_runs=(100, 100 + noise)) for row in told]
    (kept,) = findings(told, step_seconds=0.01 if waits else 0.0, cores=2, gil=True)
    assert kept.startswith(f"With 4 workers {part:.0%} of the samples came from the config's cache")
    assert "none. Samples came from the config's cache." == str(choose(told))


def test_hardly_any_kept_sample_changes_nothing():
    few = rows({0: 100, 4: 300}, cached_fraction={0: 0.0, 4: 0.009})
    assert said(rows({0: 100, 4: 300})) == said(few)
    assert 4 == choose(few).num_workers


@pytest.mark.parametrize(
    ("there", "expected"), [(50, "2.00 times as many."), (98, "no difference that these runs")]
)
def test_two_loaders_are_compared_at_their_best(there, expected):
    told = compared(rows({0: 10, 4: 100}), rows({0: 1, 1: there}))
    assert "threadloader with 4 workers loads 100 samples/s" in told
    assert f"DataLoader with 1 process {there}: {expected}" in told


@pytest.mark.parametrize(
    ("cpu", "rates", "says", "not_says"),
    [
        (
            1.2,
            {1: 100, 2: 150},
            " busy then: the rest of the time threads wait",
            "limit of this machine",
        ),
        (None, {1: 100, 2: 150}, "The rate is still rising at 2", "busy"),
        (1.2, {1: 100, 2: 150, 4: 150}, " busy then: the rest", "still rising"),
    ],
)
def test_a_gain_is_told_with_what_is_known_of_the_processor(cpu, rates, says, not_says):
    """A system that does not tell the time of processors is not said to wait."""
    told = said(rows(rates, cpu_cores=dict.fromkeys(rates, cpu)))
    assert says in told
    assert not_says not in told
