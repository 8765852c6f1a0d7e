"""Which thread makes a result: the worker that left last, or the feeder where reads wait.

G3, G7 and G9 of the engine's docstring. All orders of the hand-over are in test_protocol.py.
"""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from numbered_jobs import WAIT, Job, results

from threadloader import Loader, StalledError
from threadloader._runtime import RUNTIME
from threadloader.config import LoaderConfig
from threadloader.engine import Engine, _feeder, _finishing, _shared
from threadloader.engine._slots import Slot
from threadloader.engine._watch import Watch
from threadloader.jobs import Pause, Policy
from threadloader.loader._recipe import make_recipe
from threadloader.sources import ArraySource

RETRY = Policy(1, 0.0, True, Pause(RUNTIME.lock(), RUNTIME.wait))
KNOWN = _feeder._Costs(part=5e-3, finish=0.2e-3)


def this_thread(number):
    return threading.current_thread().name.rpartition("-")[2]


def light(*args, **kwargs):
    """A job that the feeder may finish; its value is the thread that has."""
    job = Job(*args, finish=this_thread, **kwargs)
    job.light = True
    return job


@pytest.fixture
def has_time(monkeypatch):
    """The feeder has time for each job that is light."""
    monkeypatch.setattr(_feeder, "_has_time", lambda *known: True)


@pytest.mark.usefixtures("has_time")
@pytest.mark.parametrize("parts", [1, 3])
def test_the_feeder_finishes_what_is_light(make_engine, parts):
    """One job at a time: it asks for none while another is in work."""
    stream = make_engine(3).stream(iter([light(n, parts) for n in range(9)]), depth=1)
    assert ["feeder"] * 9 == [outcome.value for outcome in results(stream, 9)]


@pytest.mark.usefixtures("has_time")
def test_a_worker_finishes_what_is_not(make_engine):
    """The user's code never runs in the feeder, which all else waits for."""
    jobs = [Job(n, 2, finish=this_thread) for n in range(9)]
    stream = make_engine(2).stream(iter(jobs), depth=2)
    assert {outcome.value for outcome in results(stream, 9)} <= {"0", "1"}


@pytest.mark.usefixtures("has_time")
def test_nobody_waits_for_the_feeder_while_it_asks_for_a_job(make_engine):
    """G3: the part ends when the feeder is in the iterator of jobs; so its worker goes on."""
    asked, gate = threading.Event(), threading.Event()

    def jobs():
        yield light(0, do=lambda number, part: asked.wait(WAIT))
        asked.set()
        assert gate.wait(WAIT)

    stream = make_engine(1).stream(jobs(), depth=2)
    try:
        assert "0" == stream.result(0).value
    finally:
        gate.set()


@pytest.mark.parametrize("asking", [False, True])
def test_what_the_feeder_has_taken_out_is_not_done_twice(asking):
    """G3: it takes it out just before its worker, which sees that it asks, would take it back."""
    taken = []

    class Handed(list):
        def append(self, slot):
            taken.append(slot)

    shared = _shared.Shared(RUNTIME, 1, 5.0)
    shared.handed, shared.asking = Handed(), asking
    slot = Slot(RUNTIME)
    assert _finishing.hand_over(shared, slot)
    assert [slot] == taken
    assert shared.inbox.empty() is asking


@pytest.mark.usefixtures("has_time")
def test_what_a_finish_raises_in_the_feeder_reaches_the_consumer(make_engine):
    """G7: as of a worker; the feeder goes on."""

    def finish(number):
        if number == 1:
            raise OSError(f"job {number}")
        return number

    told, jobs = [], [light(n, 2) for n in range(3)]
    for job in jobs:
        job.finish_with, job.failed = finish, told.append
    stream = make_engine(2).stream(iter(jobs), depth=1)
    outcomes = results(stream, 3)
    assert [0, None, 2] == [outcome.value for outcome in outcomes]
    assert ("job 1", None) == (str(outcomes[1].error), outcomes[1].part)
    assert [None] == told


@pytest.mark.usefixtures("has_time")
def test_a_finish_that_hangs_in_the_feeder_is_told_as_one_in_a_worker_is(caplog):
    """G6, G11: a sample's own class may do anything when it is stacked."""
    begun, go_on = threading.Event(), threading.Event()

    def stuck_in_here(number):
        begun.set()
        assert go_on.wait(WAIT)

    job = light(3)
    job.finish_with = stuck_in_here
    engine = Engine(1, 0.05, RUNTIME, stall_seconds=0.05, stall_raises=True)
    engine.start()
    try:
        stream = engine.stream(iter([job]), depth=1)
        stream.prefetch()
        assert begun.wait(WAIT)
        with pytest.raises(StalledError, match="threadloader-feeder is at job 3") as caught:
            stream.result(0)
        assert "in stuck_in_here" in str(caught.value)
        assert "no worker" not in str(caught.value)
        assert engine.stop()
        text = caplog.records[0].getMessage()
        assert text.startswith("the feeder has not ended within 0.05 s; it is at job 3")
        assert "in stuck_in_here" in text
    finally:
        go_on.set()
        engine._feeder.join(WAIT)
    assert engine._shared.finishing is None


def test_a_feeder_that_fills_one_slot_after_the_other_is_no_stall():
    """G11: ten looks would be one. At each ninth it has taken another slot out."""
    shared, looks = _shared.Shared(RUNTIME, 1, 5.0), []
    shared.handed.extend(map(Slot, [shared.runtime] * 11))

    def wait(tick):
        looks.append(tick)
        if len(looks) % 9 == 0:
            shared.handed.popleft()
        return None if shared.handed else "filled"

    watch = Watch(shared, threading.current_thread(), 10.0, raises=True)
    assert "filled" == watch.wait(SimpleNamespace(wait=wait))
    assert 99 == len(looks)


@pytest.mark.usefixtures("has_time")
def test_what_fails_in_the_feeder_s_own_lines_reaches_the_consumer(make_engine, monkeypatch):
    """G7: what was handed over is not lost with the feeder."""

    def failing(*args):
        raise MemoryError("no memory")

    monkeypatch.setattr(_feeder, "finish_handed", failing)
    engine = make_engine(2)
    stream = engine.stream(iter([light(0), light(1)]), depth=2)
    assert "no memory" == str(stream.result(0).error)
    engine.stop()


@pytest.mark.parametrize(
    ("change", "parts", "delay", "waits"),
    [
        ({"part": float("inf")}, 32, 0.0, True),
        ({"part": _feeder.READ_SECONDS}, 32, 0.0, True),
        ({"finish": 2e-3}, 32, 0.0, True),
        ({}, 6, 0.0, True),
        ({}, 32, 0.3e-3, True),
        ({}, 32, 0.0, False),
    ],
    ids=["unknown", "quick reads", "slow finish", "few parts", "a loop in Python", "computing"],
)
def test_the_feeder_has_no_time_where(change, parts, delay, waits):
    shared = _shared.Shared(RUNTIME, 32, 5.0)
    shared.running = 0.0
    assert _feeder._has_time(shared, KNOWN, 32)
    shared.gil_delay, shared.running = delay, 0.0 if waits else 0.2
    assert not _feeder._has_time(shared, KNOWN._replace(**change), parts)


def test_whether_the_feeder_has_time_is_asked_of_the_last_job_alone():
    """Claims follow a dear one longer."""
    costs = _feeder._Costs().after(5e-3, 1e-3).after(1e-6, 1e-3)
    assert costs.most == _feeder.FADING * 5e-3
    shared = _shared.Shared(RUNTIME, 8, 5.0)
    shared.running = 0.0
    assert not _feeder._has_time(shared, costs, 32)


@pytest.mark.parametrize(
    ("config", "given", "wanted"),
    [
        ({}, {}, True),
        ({"collate": {"type": "pad"}}, {}, True),
        ({}, {"policy": RETRY}, True),
        ({}, {"transform": lambda sample, key, position: sample}, True),
        ({}, {"collate": lambda samples: samples}, False),
        ({}, {"source": ArraySource(np.arange(4))}, False),
        ({"fingerprint": True}, {}, False),
    ],
    ids=["stack", "pad", "on_error", "transform", "collate", "arrays", "fingerprint"],
)
def test_a_batch_is_light_where_the_package_alone_puts_it_together(config, given, wanted):
    """Anything else in the feeder could hold up all workers."""
    made = {"source": [1, 2], "transform": None, "collate": None, "policy": None, "locate": None}
    recipe, _ = make_recipe(LoaderConfig(**config), **made | given)
    assert recipe.light is wanted


@pytest.mark.usefixtures("has_time")
def test_a_collate_of_the_user_s_never_runs_in_the_feeder():
    def collate(samples):
        return this_thread(0)

    config = {"num_workers": 2, "batch_size": 2, "shuffle": False}
    with Loader(config, list(range(64)), collate=collate) as batches:
        assert "feeder" not in set(batches)
