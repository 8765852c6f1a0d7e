"""Without workers, small batches of a source that builds whole ones are made when asked for."""

import contextvars
import signal
import threading
from itertools import pairwise

import numpy as np
import pytest
from clocked import stats_of
from hypothesis import given, settings
from hypothesis import strategies as st
from taken import Taken

from threadloader import ClosedError, Loader, SourceError
from threadloader.loader._choice import Choice
from threadloader.loader._recipe import PIECE_BYTES

CONFIG = {"batch_size": 2, "num_workers": 0, "shuffle": False, "num_epochs": 1}


class Wide(Taken):
    """Four batches of two samples are made together, as a *piece*."""

    sample_bytes = PIECE_BYTES // 8
    in_memory = True

    @property
    def sizes(self):
        """Of each call, how many batches it made."""
        return [len(rows) // 2 for rows in self.taken]


def test_a_piece_is_made_at_a_time():
    source = Wide(64)
    with Loader(CONFIG, source=source) as batches:
        ahead = [sum(source.sizes) - number for number, _ in enumerate(batches)]
    assert [1, 2, 4, 4, 4, 4] == source.sizes[:6]
    assert 4 == max(ahead), "no more than a piece is read before it is asked for"


@pytest.mark.parametrize(
    ("told", "batches"), [(np.int64(PIECE_BYTES // 8), 4), (True, 1), (0, 1), (-4, 1), ("4 MiB", 1)]
)
def test_a_piece_is_of_as_many_batches_as_the_bytes_of_a_sample_allow(told, batches):
    """In any kind of integer; what is none, or tells nothing, counts as not told."""
    source = type("Told", (Wide,), {"sample_bytes": told})(64)
    with Loader(CONFIG, source=source) as loaded:
        list(loaded)
    assert batches == max(source.sizes)


@given(bad=st.sets(st.integers(0, 79), max_size=4))
@settings(max_examples=30, deadline=None)
def test_an_error_comes_at_the_place_of_its_batch(bad):
    with Loader(CONFIG, source=Wide(80, bad)) as batches:
        epoch, got, notes, places = iter(batches), [], [], []
        while len(got) < 40:
            try:
                got.append(next(epoch)["x"].tolist())
            except OSError as error:
                notes.append(f"step {len(got)}, epoch 0" in error.__notes__[0])
                places.append(batches.state_dict()["world"]["step"] == len(got))
                got.append(None)
        assert next(epoch, None) is None
        stats = batches.stats()
    expected = [None if {i, i + 1} & bad else [i, i + 1] for i in range(0, 80, 2)]
    assert expected == got
    failed = expected.count(None)
    assert [True] * failed == notes == places
    assert (40 - failed, failed) == (stats.batches, stats.failed)


@pytest.mark.parametrize(
    ("bad", "sizes"),
    [
        # The second piece of the fourth job fails; then come its batches, and jobs anew.
        (12, [1, 2, 4, 4, 4, 1, 1, 1, 1, 1, 2, 4, 4, 4, 2]),
        # The first piece does, which is made as the job's result.
        (8, [1, 2, 4, 4, 1, 1, 1, 1, 1, 2, 4, 4, 4, 4, 2]),
    ],
)
def test_of_a_piece_that_fails_its_own_batches_alone_are_made_one_by_one(bad, sizes):
    source = Wide(64, bad={2 * bad})
    with Loader(CONFIG, source=source) as batches:
        epoch = iter(batches)
        for _ in range(bad):
            next(epoch)
        with pytest.raises(OSError, match="damaged"):
            next(epoch)
        assert 31 - bad == len(list(epoch))
    assert sizes == source.sizes


def test_an_interrupt_while_a_piece_is_made_loses_nothing():
    class Interrupted(Wide):
        def take(self, indices):
            if len(self.taken) == 4:  # the second piece of a job
                self.taken.append([])
                signal.raise_signal(signal.SIGINT)
            return super().take(indices)

    with Loader(CONFIG, source=Interrupted(64)) as batches:
        epoch, got, places = iter(batches), [], []
        while len(got) < 32:
            try:
                got.append(next(epoch)["x"].tolist())
            except KeyboardInterrupt:
                places.append(batches.state_dict()["world"]["step"])
        assert 0 == batches.stats().failed
    assert [11] == places
    assert [[i, i + 1] for i in range(0, 64, 2)] == got


def test_what_a_signal_handler_raises_while_a_piece_is_made_comes_as_it_is():
    """Though the source takes it for an error of its own."""

    class Alarm(Exception):
        pass

    def handler(number, frame):
        raise Alarm

    class Alarmed(Wide):
        def take(self, indices):
            if len(self.taken) == 4:
                self.taken.append([])
                try:
                    signal.raise_signal(signal.SIGINT)
                except Alarm as error:
                    raise SourceError("cannot be read") from error
            return super().take(indices)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with Loader(CONFIG, source=Alarmed(64)) as batches:
            epoch = iter(batches)
            got = [next(epoch)["x"].tolist() for _ in range(11)]
            with pytest.raises(Alarm):
                next(epoch)
            got += [batch["x"].tolist() for batch in epoch]
    finally:
        signal.signal(signal.SIGINT, before)
    assert [[i, i + 1] for i in range(0, 64, 2)] == got


def test_an_exception_that_is_no_error_is_delivered_as_in_a_worker():
    class Gone(BaseException):
        pass

    class Leaving(Wide):
        def take(self, indices):
            if 20 in indices:
                raise Gone
            return super().take(indices)

    with Loader(CONFIG, source=Leaving(64)) as batches:
        epoch = iter(batches)
        assert [[i, i + 1] for i in range(0, 20, 2)] == [
            next(epoch)["x"].tolist() for _ in range(10)
        ]
        with pytest.raises(Gone) as caught:
            next(epoch)
        assert "step 10, epoch 0" in caught.value.__notes__[0]
        assert 21 == len(list(epoch))


def test_leaving_the_with_meanwhile_ends_the_iterator():
    class Closing(Wide):
        def take(self, indices):
            if len(self.taken) == 4:
                batches.close()
            return super().take(indices)

    with Loader(CONFIG, source=Closing(64)) as batches:
        epoch = iter(batches)
        got = [next(epoch)["x"].tolist() for _ in range(12)]  # the one that was asked for comes
        with pytest.raises(ClosedError):
            next(epoch)
    assert [[i, i + 1] for i in range(0, 24, 2)] == got


@pytest.mark.parametrize(("bad", "failed"), [((), 0), ((24,), 1)])
def test_the_time_that_they_take_is_waited(bad, failed):
    """That of a piece which fails, and of its batches that are made one by one, too."""
    now = [0.0]

    class Slow(Wide):
        def take(self, indices):
            now[0] += 1.0
            return super().take(indices)

    source = Slow(64, bad)
    stats = stats_of(CONFIG, source, now, 32)
    assert 1.0 == stats.first_batch_seconds
    assert len(source.taken) - 1.0 == stats.data_wait_seconds
    assert failed == stats.failed


def test_those_that_lie_ready_are_those_of_the_piece():
    with Loader({**CONFIG, "drop_last": True}, source=Wide(2 * 18)) as batches:
        ready = [0, *(batches.stats().ready_sum for _ in batches)]
    # Jobs of 1, 2, 4, 8 and 3 batches, the last but one in two pieces.
    expected = [0, 0, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 2, 1]
    assert expected == [after - before for before, after in pairwise(ready)]


def test_the_last_piece_may_be_smaller():
    source = Wide(2 * (1 + 2 + 4 + 6))
    with Loader(CONFIG, source=source) as batches:
        assert 13 == len(list(batches))
    assert [1, 2, 4, 4, 2] == source.sizes


def test_of_a_smaller_piece_that_fails_its_own_batches_are_made_one_by_one():
    """Where five batches are a piece: jobs of 1, 2, 4 and 5 + 3."""
    source = type("Narrower", (Wide,), {"sample_bytes": PIECE_BYTES // 10})(2 * 20, bad={24})
    with Loader(CONFIG, source=source) as batches:
        epoch = iter(batches)
        for _ in range(12):
            next(epoch)
        with pytest.raises(OSError, match="damaged"):
            next(epoch)
        assert 7 == len(list(epoch))
    assert [1, 2, 4, 5, 3, 1, 1, 1, 1, 2, 2] == source.sizes


def test_a_source_whose_calls_may_be_dear_is_asked_for_as_much_as_by_a_worker():
    source = type("Dear", (Wide,), {"in_memory": False})(64)
    with Loader(CONFIG, source=source) as batches:
        assert 32 == len(list(batches))
    assert [1, 2, 4, 7, 6, 6, 6] == source.sizes


def test_with_workers_they_are_made_so_where_the_loop_makes_them_and_in_no_context_of_its():
    """As in a worker: else a batch might depend on who makes it."""
    seen = contextvars.ContextVar("seen", default="nothing")

    class Here(Choice):
        def note(self, *noted):
            changed, self.here = not self.here, True
            return changed

    class Seeing(Wide):
        def take(self, indices):
            who = threading.current_thread() is threading.main_thread()
            self.seen = [*getattr(self, "seen", ()), (who, seen.get(), len(indices) // 2)]
            return super().take(indices)

    seen.set("the loop's")
    source = Seeing(200)
    with Loader({**CONFIG, "num_workers": 1}, source=source) as batches:
        batches._supply.choice = Here()
        got = [batch["x"].tolist() for batch in batches]
    assert [[i, i + 1] for i in range(0, 200, 2)] == got
    assert {"nothing"} == {value for _, value, _ in source.seen}
    assert 4 == max(count for who, _, count in source.seen if who)


def test_with_workers_what_is_written_down_behind_a_job_is_so_for_as_many_as_without():
    """A group of a worker's is no larger than its memory may be; here it waits for nobody."""

    class Here(Choice):
        looks = 0

        def note(self, *noted):
            self.looks += 1
            changed, self.here = not self.here, True
            return changed

        def series(self):
            return 1 << 15

    with Loader({**CONFIG, "num_workers": 1}, source=Wide(2 * 4000)) as batches:
        batches._supply.choice = choice = Here()
        assert 4000 == len(list(batches))
    # Jobs of 1, 2, 4 and so on up to 2048 batches, the one that is over, and the threads' own.
    assert choice.looks < 20
