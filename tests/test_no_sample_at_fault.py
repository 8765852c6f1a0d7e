"""Only for its own failure is a sample left out: not for a signal, an exit, too many open files."""

import bdb
import contextlib
import errno
import os
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bad_samples import AllAtOnce, Failing, Whole, raising

from threadloader import BusyError, ClosedError, Loader, SourceError, WorkerError, per_thread
from threadloader.jobs import Policy
from threadloader.sources import _sqlite_errors


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_would_end_the_program_is_never_left_out(kind, workers):
    def transform(sample):
        if sample == 1:
            raise kind
        return sample

    config = {"batch_size": 2, "num_workers": workers, "on_error": {"retry": 2, "skip": 9}}
    with Loader(config, source=range(2), transform=transform) as batches:
        with pytest.raises(RuntimeError, match=kind.__name__):
            next(iter(batches))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["row", "whole", "kept"])
def test_who_leaves_the_debugger_ends_the_loop(kind, workers):
    """With "q" at the prompt of a `breakpoint()`: no sample is at fault."""
    left = []

    class Broken(Failing):
        def __getitem__(self, index):
            if index == 1:
                left.append(index)
                raise bdb.BdbQuit
            return index

        if kind == "whole":

            def __getitems__(self, indices):
                return [self[index] for index in indices]

        if kind == "kept":  # what is left is read as a whole, once more

            def take(self, indices):
                if 0 in indices:
                    raise ValueError("sample 0 is bad")
                if len(indices) > 1:
                    raise bdb.BdbQuit(left.append(1))
                return indices

    config = {"batch_size": 4, "num_workers": workers, "shuffle": False, "num_epochs": 1}
    config["on_error"] = {"retry": 2, "backoff": 0, "skip": 9}
    with Loader(config, Broken(4)) as batches, pytest.raises(bdb.BdbQuit):
        next(iter(batches))
    assert [1] == left


class Panicked(BaseException):
    """What a library written in Rust raises where it gives up: no `Exception`."""


def test_what_is_no_exception_is_left_out_once_it_is_made_one():
    """In the transform; else it is neither tried again nor left out."""
    tried = []

    def panicking(sample):
        tried.append(sample)
        if sample == 1:
            raise Panicked
        return sample

    def catching(sample):
        try:
            return panicking(sample)
        except Panicked as error:
            raise ValueError("it gives up") from error

    on_error = {"retry": 2, "backoff": 0, "skip": 9}
    config = {"batch_size": 2, "shuffle": False, "num_workers": 0, "on_error": on_error}
    with Loader(config, source=range(2), transform=panicking) as batches:
        with pytest.raises(Panicked):
            next(iter(batches))
    assert [0, 1] == tried
    with Loader(config, source=range(2), transform=catching) as batches:
        assert [[0]] == [batch.tolist() for batch in batches]


def test_a_collate_that_fails_is_raised():
    """It is no sample's fault that two of them do not fit together."""
    source = [np.zeros(2), np.zeros(3)]
    config = {"batch_size": 2, "shuffle": False, "on_error": {"skip": 9}}
    with Loader(config, source=source) as batches:
        with pytest.raises(ValueError, match="shape") as caught:
            next(iter(batches))
    assert not any("permits" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("kind", [Failing, AllAtOnce, Whole])
def test_what_a_signal_handler_raises_is_neither_tried_again_nor_left_out(kind, rung):
    """Without workers it runs in the main thread. The same batch comes whole afterwards."""

    class Rung(kind):
        rings = 1

        def __getitem__(self, index):
            if self.rings:
                self.rings -= 1
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    config = {"num_workers": 0, "shuffle": False, "on_error": {"skip": 3, "retry": 2}}
    with Loader(config, source=Rung(3)) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        assert [0, 1, 2] == next(epoch).tolist()
        assert (0, 0) == (batches.stats().retried, batches.stats().skipped)


@pytest.mark.parametrize("skip", [{}, {"skip": 5}])
def test_what_was_tried_before_a_signal_does_not_count(skip, rung):
    """The batch is made anew, and each of its samples may be tried as often as before."""

    class Flaky(Failing):
        rings, reads = 1, 0

        def __getitem__(self, index):
            if index == 1 and self.rings:
                self.rings -= 1
                signal.raise_signal(signal.SIGINT)
            if index == 0:
                self.reads += 1
                if self.reads % 2:
                    raise OSError("a second read is always good")
            return super().__getitem__(index)

    on_error = {"retry": 1, "backoff": 0, **skip}
    config = {"num_workers": 0, "shuffle": False, "on_error": on_error}
    with Loader(config, source=Flaky(2)) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        assert [0, 1] == next(epoch).tolist()
        assert (1, 0) == (batches.stats().retried, batches.stats().skipped)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_the_budget_is_not_named_where_it_permits_nothing(kind):
    """Such an exception of the source's is never left out, whatever is left of the budget."""
    config = {"num_workers": 0, "on_error": {"skip": 2}}
    with (
        Loader(config, source=Failing(1), transform=raising(kind)) as batches,
        pytest.raises(WorkerError) as caught,
    ):
        next(iter(batches))
    assert "permits" not in str(caught.value)


def test_a_signal_passes_while_a_failure_is_told(rung):
    """A handler's exception is not one of the failed sample's, which cannot be printed."""
    rings = iter([True])

    class Ringing(type):
        def __getattribute__(cls, name):
            if name == "__module__" and next(rings, False):
                signal.raise_signal(signal.SIGINT)
            return super().__getattribute__(name)

    class Odd(Exception, metaclass=Ringing):
        pass

    config = {"num_workers": 0, "num_epochs": 1, "on_error": {"skip": 1}}
    with Loader(config, source=Failing(1), transform=raising(Odd)) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        assert [] == list(epoch)
        assert 1 == batches.stats().skipped


def test_errors_that_are_each_other_s_cause_are_left_out_as_others_are():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert Policy(0, 0.0, True, None).leaves_out(one, padding=False)
    assert not Policy(0, 0.0, False, None).leaves_out(one, padding=False)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [ClosedError, BusyError])
def test_a_source_that_is_closed_or_a_loader_that_is_busy_has_no_bad_samples(kind, workers):
    class Closing:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index >= 4:
                raise kind("no more")
            return index

    config = {"batch_size": 4, "shuffle": False, "num_workers": workers, "on_error": {"skip": 8}}
    with Loader(config, Closing()) as batches:
        epoch = iter(batches)
        assert [0, 1, 2, 3] == next(epoch).tolist()
        with pytest.raises(kind, match="no more"):
            next(epoch)
        assert 0 == batches.stats().skipped


@pytest.mark.parametrize("cache", [None, {"max_samples": 8}])
def test_a_factory_that_fails_in_one_worker_has_no_bad_samples(cache):
    """Which ones it would be is a matter of which thread is faster."""
    made = []

    def connect():
        made.append(threading.current_thread())
        if len(made) > 2:  # the thread that enters, and one worker
            raise ConnectionError("too many connections")
        return range(64)

    config = {"batch_size": 4, "num_workers": 3, "on_error": {"skip": 64}, "cache": cache}
    with Loader(config, per_thread(connect)) as batches:
        with pytest.raises(ConnectionError, match="too many connections"):
            [list(batches) for _ in range(64)]  # in some the worker that has one may be faster
        assert 0 == batches.stats().skipped


def test_an_opening_that_failed_is_told_once_of_its_own_thread():
    """What fails in that thread later may be a sample, which came from a cache."""

    def connect():
        raise ConnectionError("too many connections")

    source = per_thread(connect)
    assert source.opened()
    with pytest.raises(ConnectionError):
        source[0]
    with ThreadPoolExecutor(1) as other:
        assert other.submit(source.opened).result()
    assert [False, True] == [source.opened(), source.opened()]


def test_a_sample_that_fails_in_a_thread_that_has_its_own_source_is_left_out():
    """Also behind a cache, from which a thread may have read alone."""

    def bad(sample, rng):
        if sample == 5:
            raise ValueError("bad")
        return sample

    config = {"batch_size": 4, "num_workers": 2, "on_error": {"skip": 9}, "num_epochs": 2}
    cache = {"max_samples": 8}
    with Loader({**config, "cache": cache}, per_thread(lambda: range(8)), transform=bad) as batches:
        epochs = [sorted(int(one) for batch in batches for one in batch) for _ in range(2)]
    assert [[0, 1, 2, 3, 4, 6, 7]] * 2 == epochs


@pytest.mark.parametrize("number", [errno.EMFILE, None])
def test_a_database_that_too_many_open_files_keep_shut_has_no_bad_samples(
    number, tmp_path, monkeypatch
):
    """SQLite says only that it could not open it; the system is asked why."""
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
        database.execute("create table p(id integer primary key, x int)")
        database.executemany("insert into p values(?, ?)", [(i, i) for i in range(8)])
    source = {"type": "sqlite", "path": str(tmp_path / "x.db"), "query": "select id, x from p"}
    config = {"source": {**source, "key": "id"}, "batch_size": 4, "on_error": {"skip": 8}}
    refused = sqlite3.OperationalError("unable to open database file")
    refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN

    def connect(*args, **options):
        if threading.current_thread() is not threading.main_thread():
            raise refused
        return real(*args, **options)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    opened = []

    def opening(path, mode):
        opened.append(open(path, mode))  # noqa: SIM115
        if number is not None and sum(not file.closed for file in opened) == 3:
            opened[-1].close()
            raise OSError(number, "too many")  # SQLite wants as many at once
        return opened[-1]

    monkeypatch.setattr(_sqlite_errors, "open", opening, raising=False)
    with Loader({**config, "num_workers": 1}) as batches:
        if number is None:  # it is gone, or may not be read: that may be the samples' fault
            assert [] == list(batches)
            assert 8 == batches.stats().skipped
        else:
            hint = "open fewer files" if os.name == "nt" else r"limit of open files \(ulimit -n\)"
            with pytest.raises(SourceError, match=hint):
                next(iter(batches))
            assert 0 == batches.stats().skipped
    assert opened
    assert all(file.closed for file in opened)


def test_what_a_handler_raises_while_the_system_is_asked_is_not_its_answer(rung, monkeypatch):
    def opening(path, mode):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(_sqlite_errors, "open", opening, raising=False)
    refused = sqlite3.OperationalError("unable to open database file")
    refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    with pytest.raises(TimeoutError, match="rung"):
        _sqlite_errors.in_words(refused)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_process_with_too_many_files_open_has_no_bad_samples(number, wrapped, tmp_path):
    """A list of them would keep sound ones out of all later runs."""

    class Opening:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            try:
                if index == 2:
                    raise OSError(number, "too many")
            except OSError as error:
                if wrapped:
                    raise ValueError("no sample") from error
                raise
            return index

    on_error = {"skip": 4, "retry": 1, "backoff": 0, "quarantine": str(tmp_path / "bad.jsonl")}
    config = {"batch_size": 2, "shuffle": False, "num_workers": 0, "on_error": on_error}
    with Loader(config, Opening()) as batches:
        epoch = iter(batches)
        assert [0, 1] == next(epoch).tolist()
        kind = ValueError if wrapped else OSError
        with pytest.raises(kind, match=r"no sample|too many") as caught:
            next(epoch)
        assert caught.value.__notes__[0].endswith('; "on_error" leaves out no sample for that')
        assert (0, 1) == (batches.stats().skipped, batches.stats().failed)
    assert not (tmp_path / "bad.jsonl").exists()
