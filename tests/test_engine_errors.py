"""Whatever a job, its iterator or the engine itself raises comes out at its place (G7)."""

import threading
from types import SimpleNamespace

import pytest
from numbered_jobs import WAIT, Job, results

from threadloader import _runtime
from threadloader._runtime import RUNTIME, Tickets
from threadloader.engine import ENDED, _feeder, _shared
from threadloader.engine._slots import Slot, Worker


def test_an_error_takes_the_place_of_its_result(make_engine):
    """G7: the jobs before and after a failing one are given as ever."""

    def do(number, part):
        if number == 2:
            raise ValueError("bad")
        return part

    stream = make_engine(3).stream(iter([Job(n, parts=2, do=do) for n in range(5)]), depth=5)
    got = results(stream, 5)
    assert [None, None, "bad", None, None] == [o.error and str(o.error) for o in got]
    assert 0 == got[2].part


@pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_no_exception_of_a_job_ends_a_thread(make_engine, error):
    """G7: whatever it is, it is the job's outcome, and the same worker does the next job."""

    def do(number, part):
        if number == 0:
            raise error("x")
        return part

    stream = make_engine(1).stream(iter([Job(0, do=do), Job(1, do=do)]), depth=2)
    first, second = results(stream, 2)
    assert error is type(first.error)
    assert (1, [0]) == second.value


@pytest.mark.parametrize(("first", "last"), [(3, 2), (2, 3)])
def test_the_lowest_failing_part_is_the_one_reported(make_engine, monkeypatch, first, last):
    """G7: of parts 2 and 3 it is part 2, whichever of them is written down first."""
    fail, written, begun = Slot.fail, threading.Event(), threading.Barrier(2)

    def failing(slot, worker, error):
        fail(slot, worker, error)
        written.set()

    def do(number, part):
        if part in (first, last):
            begun.wait(WAIT)  # behind a failure no higher part is begun
            assert part == first or written.wait(WAIT)
            raise ValueError(f"part {part}")

    monkeypatch.setattr(Slot, "fail", failing)
    outcome = make_engine(4).stream(iter([Job(0, parts=8, do=do)]), depth=1).result(0)
    assert (2, "part 2") == (outcome.part, str(outcome.error))


def test_an_error_of_the_finish_has_no_part(make_engine):
    """G7: it is the whole job's."""

    def finish(number):
        raise ValueError("collate")

    outcome = make_engine().stream(iter([Job(0, parts=3, finish=finish)]), depth=1).result(0)
    assert (None, "collate") == (outcome.part, str(outcome.error))


def test_an_error_of_the_iterator_of_jobs_comes_at_its_place(make_engine):
    """G7: the job before it is given, then the error, then the end."""

    def jobs():
        yield Job(0)
        raise OSError("order")

    stream = make_engine().stream(jobs(), depth=4)
    first, second, third = results(stream, 3)
    assert (0, [0]) == first.value
    assert "order" == str(second.error)
    assert ENDED is third


def test_an_error_in_the_engine_itself_reaches_the_consumer(make_engine, monkeypatch):
    """G7: out of memory in a worker's own lines, say: nobody waits for ever, and it goes on."""
    conclude, failures = Slot.conclude, [MemoryError("no memory")]

    def failing(self, *args):
        if failures:
            raise failures.pop()
        return conclude(self, *args)

    monkeypatch.setattr(Slot, "conclude", failing)
    stream = make_engine(1).stream(iter([Job(0), Job(1)]), depth=1)
    outcome = stream.result(0)
    assert (0, "no memory") == (outcome.job.number, str(outcome.error))
    assert (1, [0]) == stream.result(1).value


def test_an_error_in_the_feeder_itself_reaches_the_consumer(make_engine, monkeypatch):
    """G7: the same for the feeder, which then ends the engine."""

    def failing(shared, slot, dealt, *more):
        dealt.append(slot)
        raise MemoryError("no memory")

    monkeypatch.setattr(_feeder, "_deal_one", failing)
    engine = make_engine(2)
    assert "no memory" == str(engine.stream(iter([Job(0)]), depth=1).result(0).error)
    engine.stop()


def test_a_worker_that_fails_outside_of_a_job_ends_the_engine(make_engine, monkeypatch):
    """G7: what it has taken may be lost, so that nobody could wait for the others."""
    take, failures = Tickets.take, [MemoryError("no memory")]

    def failing(self):
        slot = take(self)
        if failures and slot is not _shared.STOP:
            raise failures.pop()
        return slot

    monkeypatch.setattr(Tickets, "take", failing)
    engine = make_engine(2)
    stream = engine.stream(iter([Job(0), Job(1)]), depth=1)
    outcome = stream.result(0)
    assert (None, "no memory") == (outcome.job, str(outcome.error))
    assert outcome is engine.failed
    assert not engine.usable
    assert stream.result(1) is ENDED
    engine.stop()


def test_a_slot_that_only_the_consumer_knows_is_filled_when_the_feeder_fails(
    make_engine, monkeypatch
):
    """G7: it is no longer in the inbox, and not dealt yet."""

    waiting, wait = threading.Event(), Slot.wait

    def waits(slot, timeout=None):
        waiting.set()
        return wait(slot, timeout)

    def failing(shared, slot, dealt, *more):
        assert waiting.wait(WAIT)
        raise MemoryError("no memory")

    engine = make_engine(1)
    monkeypatch.setattr(Slot, "wait", waits)
    monkeypatch.setattr(_feeder, "_deal_one", failing)
    outcome = engine.stream(iter([Job(0)]), depth=1).result(0)
    assert "no memory" == str(outcome.error)
    engine.stop()


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_fails_behind_an_end_is_not_told(cancelled):
    """G7: a part below it may have been claimed before, and not begun."""
    origin = SimpleNamespace(cancelled=False)
    slot, job = Slot(RUNTIME, origin), Job(0, parts=2)
    slot.hands, slot.singly = 2, True
    stopped = []
    late, quick = Worker(lambda: bool(stopped)), Worker(lambda: bool(stopped))
    assert [0] == list(slot.claims(late, 2))
    assert [1] == list(slot.claims(quick, 2))
    slot.fail(quick, OSError("the higher one"))
    stopped += [] if cancelled else [True]
    origin.cancelled = cancelled
    assert not slot.leave(late, 0.0)
    assert slot.leave(quick, 0.0)
    assert slot.conclude(late, job, slot.complete(late), None, None) is ENDED


def test_a_fork_that_comes_just_before_a_wait_is_seen_as_one_in_it(monkeypatch):
    """A signal's handler may run between the making of a slot and the wait for it."""
    slot = Slot(RUNTIME)
    monkeypatch.setattr(_runtime, "forks", _runtime.forks + 1)
    assert slot.wait() is None
