"""What depends on the time is told from what does not: by stopping every clock that can be."""

import copy
import datetime as dt
import functools
import itertools
import os
import pickle
import time
from datetime import datetime as imported

import numpy as np
import pytest

from threadloader import verify
from threadloader.verify import _cause_texts
from threadloader.verify._clock import clock_ahead, stopped_clock
from threadloader.verify._probe import repeated


@pytest.fixture(autouse=True)
def as_it_was():
    """Fails a test that leaves a clock stopped."""
    clocks = (time.time, time.strftime, dt.datetime, imported)
    yield
    assert clocks == (time.time, time.strftime, dt.datetime, imported)


@pytest.mark.parametrize("asked", [(), ("%H:%M",)], ids=["for nothing", "for a format"])
@pytest.mark.parametrize(
    "name",
    [
        *("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
        *("clock_gettime", "clock_gettime_ns"),
        *("localtime", "gmtime", "asctime", "ctime", "strftime"),
    ],
)
def test_each_clock_of_time_is_stopped(name, asked, monkeypatch):
    """This one goes on with each look, as the real ones do sooner or later."""
    ticks = itertools.count()
    monkeypatch.setattr(time, name, lambda *asked: next(ticks), raising=False)
    assert repeated(lambda: getattr(time, name)(*asked), None).by_clock


@pytest.mark.parametrize(
    "now",
    [
        lambda: dt.datetime.now().microsecond,
        lambda: dt.datetime.now(tz=dt.UTC).microsecond,
        lambda: dt.datetime.today().microsecond,
        lambda: imported.now(dt.UTC).microsecond,
    ],
    ids=["now", "of a zone", "today", "imported"],
)
def test_the_clock_of_datetime_is_stopped(now):
    """Also where the function's module has imported the class."""
    assert repeated(now, now).by_clock


def test_the_clock_is_stopped_in_the_module_of_what_a_partial_calls():
    def late(sample):
        return imported.now().microsecond

    assert repeated(lambda: late(0), functools.partial(late)).by_clock


def test_a_stopped_datetime_makes_and_knows_real_ones():
    """Whoever has one from before, or asks of what kind it is, notices nothing."""
    before = dt.datetime(2024, 2, 3, 4, 5, 6)
    with stopped_clock(None):
        stopped = dt.datetime
        assert {before} == {
            stopped(2024, 2, 3, hour=4, minute=5, second=6),
            stopped.fromisoformat("2024-02-03T04:05:06"),
            stopped.strptime("2024-02-03 04:05:06", "%Y-%m-%d %H:%M:%S"),
            stopped.combine(dt.date(2024, 2, 3), dt.time(4, 5, 6)),
            copy.deepcopy(before),
            np.datetime64(before, "us").item(),
        }
        made = [stopped.now(), stopped.now(dt.UTC), stopped.today(), stopped(2024, 1, 1)]
        assert all(isinstance(it, stopped) for it in made)
        assert isinstance(before, dt.datetime)
        assert not isinstance(dt.date(2024, 2, 3), dt.datetime)
        assert issubclass(type(before), stopped)
    assert {type(before)} == {type(it) for it in made}
    assert made == pickle.loads(pickle.dumps(made))


def test_what_fails_only_with_the_clock_stopped_is_not_blamed_on_it():
    """It divides by the time that has passed, and draws without a seed."""

    def timed():
        began = time.perf_counter()
        drawn = os.urandom(8)
        assert 1 / (time.perf_counter() - began)
        return drawn

    found = repeated(timed, None)
    assert (True, False) == (found.tried, found.by_clock)


# A clock of whole seconds, or minutes, stands still for the experiment: it is moved.


@pytest.mark.parametrize(
    "now",
    [
        lambda: int(time.time()),
        lambda: time.time_ns() // 10**9,
        lambda: time.localtime().tm_min,
        lambda: time.gmtime().tm_sec,
        lambda: time.ctime(),  # noqa: PLW0108 - it is looked up when it is called
        lambda: time.asctime(),  # noqa: PLW0108 - as above
        lambda: time.strftime("%M"),
        lambda: dt.datetime.now().second,
        lambda: dt.datetime.now(tz=dt.UTC).minute,
        lambda: dt.datetime.today().second,
        lambda: imported.now(dt.UTC).minute,
    ],
    ids=itertools.count(),
)
def test_a_clock_that_stands_for_long_is_moved_ahead(now):
    """Whether or not its next second comes meanwhile."""
    assert 61.5 == repeated(now, now).ahead


def test_a_glance_moves_the_clock_by_little():
    """Who keeps from then when to go on may wait for so long."""
    assert 1.5 == repeated(lambda: int(time.time()), None, 3).ahead


def test_what_is_asked_for_a_given_time_has_it_whatever_the_clock():
    given = time.gmtime(86_400)
    calls = [
        lambda: (time.gmtime(5), time.localtime(5), time.ctime(5)),
        lambda: (time.asctime(given), time.strftime("%c", given)),
    ]
    assert [0, 0] == [repeated(call, None, 3).ahead for call in calls]


def test_clocks_that_tell_how_long_to_wait_are_not_moved():
    before = (time.monotonic, time.perf_counter, time.monotonic_ns)
    with clock_ahead(None, 60.0):
        assert before == (time.monotonic, time.perf_counter, time.monotonic_ns)


def test_what_only_fails_with_the_clock_ahead_is_not_blamed_on_it():
    """Its licence has run out, say."""
    began = time.time()

    def licensed():
        assert time.time() < began + 30
        return 1

    assert 0 == repeated(licensed, None).ahead


@pytest.mark.parametrize("then", [(), (0, 1)], ids=["once", "twice"])
def test_what_differs_by_itself_when_the_clock_is_ahead_is_not_blamed_on_it(then):
    results = iter([0, 0, 0, 1, *then])
    found = repeated(lambda: next(results, 0), None, 3)
    assert (0, 0) == (found.differs, found.ahead)


def test_a_transform_that_counts_the_seconds_depends_on_the_time():
    """Whether a second ended between two runs, or all were the same."""
    report = verify.run(
        {"batch_size": 8},
        source=lambda: list(range(64)),
        transform=lambda sample: sample + int(time.time()),
    )
    assert [("transform", "clock")] == [(cause.part, cause.kind) for cause in report.causes]


def test_a_call_is_repeated_for_as_long_as_is_asked_for(monkeypatch):
    """The simulated clock goes on with each look; what is called changes at its second 1."""
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) / 1000)

    def seconds():
        return int(time.monotonic())

    brief, long = repeated(seconds, None), repeated(seconds, None, seconds=2.5)
    assert (0, True) == (brief.differs, long.differs > 0)


# What is said where nothing was found claims only what was tried.


def said(found):
    return "; ".join(_cause_texts.repeat("transform", "transform(source[0])", found).evidence)


def test_a_clock_is_not_excluded_that_cannot_be_stopped():
    report = verify.run(
        {"batch_size": 8},
        source=lambda: list(range(64)),
        transform=lambda sample: sample + np.random.default_rng().random(),
    )
    (cause,) = report.causes
    evidence = "; ".join(cause.evidence)
    assert "not-repeatable" == cause.kind
    assert "not the cause" not in evidence
    assert "with the clocks of time and datetime stopped, it still differed" in evidence
    assert "a clock that was not stopped (numpy.datetime64('now'), datetime.now()" in cause.advice


def test_what_could_not_be_tried_is_not_said_to_have_been():
    """After its first call it is steady by itself."""
    results = iter([1.0])
    text = said(repeated(lambda: next(results, 0.0), None))
    assert "from some call on it always gave the same, so nothing could be tried" in text
    assert "stopped, it" not in text


def test_a_random_state_that_was_put_back_in_vain_is_said_to_have_been():
    def drawn():
        return np.random.random() + np.random.default_rng().random()  # noqa: NPY002

    assert "with that put back before each call, or with the clocks of " in said(
        repeated(drawn, None)
    )
