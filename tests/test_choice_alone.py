"""Dear batches, too, are left to the loop where threads only hold each other up."""

import pytest
from numbered_jobs import Job, results

from threadloader import Loader
from threadloader._runtime import RUNTIME, Runtime
from threadloader.engine import Engine
from threadloader.engine._slots import Slot, Worker
from threadloader.loader import _supply
from threadloader.loader._choice import ALONE, CHEAP_SECONDS, DEAREST_SECONDS, Choice

THREADS = 0.04


def chosen(alone, here, work=0.3, until=60.0):
    """Lets threads make batches of so much work; gives the part of them that the consumer made."""
    choice, now, made = Choice(), 0.0, {False: 0, True: 0}
    while now < until:
        wait = here if choice.here else THREADS
        made[choice.here] += 1
        now += wait
        choice.note(now, wait, 1, 8, work, 1, 0.0, float("inf") if choice.here else alone)
        now += 1e-3
    return made[True] / sum(made.values())


def test_the_loop_makes_dear_batches_where_one_thread_is_done_sooner():
    assert THREADS > CHEAP_SECONDS
    assert chosen(alone=0.015, here=0.02) > 0.9


@pytest.mark.parametrize("alone", [ALONE * THREADS, 0.3, float("inf")])
def test_where_it_would_hardly_be_it_is_not_tried(alone):
    """Here it would be, so that a trial would be won."""
    assert 0 == chosen(alone, here=0.02)


def test_where_a_trial_may_cost_more_than_half_a_second_none_begins():
    assert 0 == chosen(alone=0.015, here=0.02, work=DEAREST_SECONDS)


def test_where_samples_are_of_unlike_cost_a_trial_ends_with_its_first_batch():
    """Some are quick: by these a batch looks cheap, and takes 0.4 s. Four trials in the minute."""
    made = chosen(alone=0.015, here=0.4) * 60.0 / THREADS
    assert 0 < made < 6


def test_what_looks_so_and_is_not_goes_back_to_the_threads():
    assert 0 < chosen(alone=0.015, here=0.05) < 0.1


@pytest.mark.parametrize(("seconds", "least"), [([9, 1, 5], 1), ([0, 2, 2], 0), ([4, 4, 4], 4)])
def test_a_job_tells_what_a_part_took_in_its_quickest_claim(make_engine, seconds, least):
    now, runtime = [0.0], Runtime()
    runtime.lap = lambda: now[0]

    def do(number, part):
        now[0] += seconds[part]

    stream = make_engine(1, runtime=runtime).stream(iter([Job(0, 3, do)]), depth=1)
    assert least == stream.result(0).quickest


def test_where_each_worker_has_one_part_the_least_of_their_times_counts():
    slot, job = Slot(RUNTIME), Job(0, 3)
    slot.hands, slot.singly = 3, True
    worker = Worker(lambda: False)
    assert [False, False, True] == [slot.leave(worker, seconds) for seconds in (5.0, 2.0, 3.0)]
    assert 2.0 == slot.conclude(worker, job, True, None, None).quickest


def test_a_job_that_fails_tells_nothing(make_engine):
    def do(number, part):
        raise ValueError

    (outcome,) = results(make_engine(1).stream(iter([Job(0, 2, do)]), depth=1), 1)
    assert float("inf") == outcome.quickest


@pytest.mark.parametrize(("processors", "asked"), [(0.5 * _supply.PROCESSORS, False), (2.0, True)])
def test_only_where_workers_keep_a_processor_busy_is_it_asked(monkeypatch, processors, asked):
    """Else they wait, and one thread would wait for one read after the other."""
    told, note = [], Choice.note

    def noting(self, *given):
        told.append(given[-1])
        return note(self, *given)

    monkeypatch.setattr(Engine, "processors", processors)
    monkeypatch.setattr(Choice, "note", noting)
    with Loader({"batch_size": 4, "num_workers": 2}, range(40)) as batches:
        assert 10 == len(list(batches))
    assert {asked} == {alone < float("inf") for alone in told}
