"""What is told of a failure is true and whole, and no second failure hides it."""

import threading
import traceback

import numpy as np
import pytest

from threadloader import CollateError, ConfigError, Loader, SourceError, WorkerError, per_thread
from threadloader.collate import stack
from threadloader.jobs import BatchJob
from threadloader.loader._failure import is_wrapped, note_beside


class Unprintable(Exception):
    def __repr__(self):
        raise self


class NotesRefused(Exception):
    def add_note(self, note):
        raise RuntimeError("no notes")


def test_a_close_that_failed_is_told_beside_the_exception_of_the_body():
    error = KeyError("the body's")
    note_beside(error, OSError("disk gone"))
    assert error.__notes__[0].endswith("and closing the source failed: OSError('disk gone')")


def test_a_close_that_failed_with_what_was_wrapped_is_told_by_that():
    error, wrapper = KeyError("the body's"), WorkerError("SystemExit was raised; see its cause")
    wrapper.__cause__ = SystemExit("tape drive is on fire")
    note_beside(error, wrapper)
    assert error.__notes__[0].endswith("failed: SystemExit('tape drive is on fire')")


class Unset(ConfigError):
    def __init__(self, *reasons):
        pass


@pytest.mark.parametrize(
    "error", [ConfigError("no version"), Unset("no version"), Unset()], ids=repr
)
@pytest.mark.parametrize("named", [True, False], ids=["a file", "a dict"])
def test_a_config_error_of_the_source_s_own_is_told_as_it_is(error, named, tmp_path):
    """It has no problems in a document; and the source is closed, and the loader free."""
    closed = []

    class Rows(list):
        def fingerprint(self):
            raise error

        def close(self):
            closed.append(1)

    config = {"batch_size": 2}
    if named:
        (tmp_path / "c.json").write_text('{"batch_size": 2}', encoding="utf-8")
        config = tmp_path / "c.json"
    loader = Loader(config, per_thread(lambda: Rows([1])))
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            loader.__enter__()
        assert error is caught.value
    assert 2 == len(closed)
    assert str(error) == ("no version" if error.args else "")


def test_a_close_that_failed_with_what_cannot_be_printed_is_told_by_its_type():
    error = KeyError("the body's")
    note_beside(error, Unprintable())
    assert error.__notes__[0].endswith("and closing the source failed: Unprintable")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_close_that_failed_leaves_where_the_sample_stands(workers):
    class Rows(list):
        def __getitem__(self, index):
            raise ValueError("bad sample")

        def close(self):
            raise OSError("disk gone")

    source = per_thread(lambda: Rows(range(4)))
    config = {"shuffle": False, "num_workers": workers}
    with pytest.raises(ValueError, match="bad sample") as caught, Loader(config, source) as batches:
        next(iter(batches))
    first, second = caught.value.__notes__
    assert "raised for sample 0" in first
    assert "and closing the source failed: OSError('disk gone')" in second


@pytest.mark.parametrize("kind", [SystemExit, StopIteration, GeneratorExit, KeyboardInterrupt])
def test_what_would_be_taken_for_an_end_is_wrapped_when_closing_raises_it(kind):
    class Rows(list):
        def close(self):
            raise kind

    batches = Loader({"num_workers": 0}, per_thread(lambda: Rows([1, 2]))).__enter__()
    list(batches)
    told = "was raised while the source was closed; see its cause"
    with pytest.raises(WorkerError, match=told) as caught:
        batches.close()
    assert type(caught.value.__cause__) is kind


def test_an_exception_of_the_body_that_takes_no_note_passes():
    note_beside(NotesRefused(), OSError("disk gone"))


class TestRowsOfACollateError:
    """They are of the batch that it was collated for, which need not be the loader's."""

    FRAMES = 4

    def frames(self, sample):
        """Stack what a sample is made of; that of sample 5 is damaged."""
        last = [0.0] * (2 if sample == 5 else 1)
        return stack([np.zeros(1)] * (self.FRAMES - 1) + [np.array(last)])

    def error_of(self, batch_size, num_workers, **given):
        config = {"batch_size": batch_size, "shuffle": False, "num_workers": num_workers}
        with pytest.raises(CollateError) as caught, Loader(config, range(8), **given) as batches:
            list(batches)
        return caught.value

    @pytest.mark.parametrize("num_workers", [0, 2])
    @pytest.mark.parametrize("batch_size", [2, 8])
    def test_of_a_transform_are_no_samples_of_the_batch(self, batch_size, num_workers):
        error = self.error_of(batch_size, num_workers, transform=self.frames)
        assert (error.rows, error.samples) == ((0, 3), ())
        assert error.__notes__[-1].startswith("threadloader: raised for sample 5 (row ")

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_that_the_batch_has_not_are_no_samples(self, num_workers):
        def collate(samples):
            raise CollateError("wrong", [0, 9])

        error = self.error_of(2, num_workers, collate=collate)
        assert (error.rows, error.samples) == ((0, 9), ())

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_of_the_batch_are_told_as_samples(self, num_workers):
        def collate(samples):
            raise CollateError("wrong", [1, 0])

        assert self.error_of(2, num_workers, collate=collate).samples == (1, 0)


def test_a_batch_that_cannot_be_described_is_told_as_a_batch(monkeypatch):
    """Its order has not failed, and would be asked for again."""

    def describe(self, part):
        raise RecursionError

    monkeypatch.setattr(BatchJob, "describe", describe)
    with Loader({"num_workers": 0}, [1], transform=lambda sample: 1 / 0) as batches:
        with pytest.raises(WorkerError, match="raised for a batch, and then RecursionError, when"):
            next(iter(batches))


@pytest.mark.parametrize("workers", [1, 2])
def test_where_a_sample_stands_is_asked_in_the_thread_whose_read_failed(workers):
    """It may wait for a lock that a read has which never comes back."""
    asked = []

    class Failing(list):
        def __getitem__(self, index):
            raise OSError("no such sample")

        def locate(self, index):
            asked.append(threading.current_thread().name)
            return "here"

    config = {"num_workers": workers, "stall_action": "raise"}
    with Loader(config, Failing(range(3))) as batches:
        with pytest.raises(OSError, match="no such") as caught:
            next(iter(batches))
    assert ", here" in caught.value.__notes__[0]
    assert all("threadloader-worker-" in name for name in asked)
    assert asked


@pytest.mark.parametrize("workers", [0, 2])
def test_nobody_asks_whether_the_cause_of_an_error_is_true(workers):
    class Untrue(Exception):
        def __bool__(self):
            raise RuntimeError("no truth value")

    class Rows(list):
        def __getitem__(self, index):
            if index == 1:
                raise SourceError("damaged") from Untrue("why")
            return index

    config = {"num_workers": workers, "batch_size": 1, "shuffle": False}
    with Loader(config, Rows(range(3))) as batches:
        epoch = iter(batches)
        assert [0] == next(epoch).tolist()
        with pytest.raises(SourceError, match="damaged") as caught:
            next(epoch)
        assert "raised for sample 1" in caught.value.__notes__[0]
        assert [2] == next(epoch).tolist()


def test_a_sample_that_fails_where_no_file_can_be_opened_any_more_is_told_as_ever(run_child):
    """In the loop's own thread, too: telling an error apart from a signal's imports nothing."""
    pytest.importorskip("resource", reason="the system has no limit of open files")
    child = run_child("""
import os, resource
from threadloader import Loader

class Files:
    def __len__(self):
        return 6

    def __getitem__(self, index):
        with open(__file__, "rb"):
            return index

with Loader({"batch_size": 2, "shuffle": False, "num_workers": 0}, Files()) as batches:
    each = iter(batches)
    print(next(each).tolist())
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, 0))
    except OSError:
        pass
    for _ in range(2):
        try:
            next(each)
        except OSError as error:
            print(error.filename == __file__, error.__notes__[0])
    print(next(each, "the end"))
""")
    assert "" == child.stderr
    assert [
        "[0, 1]",
        "True threadloader: raised for sample 2 (row 0 of step 1, epoch 0)",
        "True threadloader: raised for sample 4 (row 0 of step 2, epoch 0)",
        "the end",
    ] == child.stdout.splitlines()


def test_whether_an_exception_is_wrapped_is_asked_of_its_class_alone():
    class Hostile(Exception):
        @property
        def __class__(self):
            raise KeyError("asked")

    assert not is_wrapped(Hostile())


def steps_of(told):
    """The functions in a traceback."""
    return [frame.f_code.co_qualname for frame, _ in traceback.walk_tb(told)]


class Failing:
    """A source that raises one object for all that fails, as a class may keep it."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 400

    def __getitem__(self, index):
        raise self.error


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [ValueError, StopIteration])
def test_one_exception_for_all_that_fails_does_not_grow(workers, kind):
    """Each frame of its traceback keeps a batch."""
    config = {"batch_size": 4, "num_workers": workers, "shuffle": False}
    error = kind("bad")
    with Loader(config, source=Failing(error)) as batches:
        epoch = iter(batches)
        for _ in range(len(batches)):
            with pytest.raises((ValueError, WorkerError)):
                next(epoch)
    told = steps_of(error.__traceback__)
    assert "Failing.__getitem__" in told
    if not workers:  # else a worker may raise it while it is told
        assert told[-1] == "Failing.__getitem__"  # where a debugger begins
    # Of one raise some 9; of workers that raise it at the same moment several stay.
    assert len(told) < len(batches)


def test_who_keeps_the_traceback_of_one_raise_keeps_it_whole():
    """Also where the same object is raised again."""
    error = ValueError("bad")
    with Loader({"batch_size": 4, "num_workers": 0}, source=Failing(error)) as batches:
        epoch = iter(batches)
        with pytest.raises(ValueError, match="bad"):
            next(epoch)
        kept, before = error.__traceback__, steps_of(error.__traceback__)
        for _ in range(3):
            with pytest.raises(ValueError, match="bad"):
                next(epoch)
    assert before == steps_of(kept)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_the_loader_of_a_source_raises_is_told_to_its_end(workers):
    """It is raised in the same functions, for another run."""

    class Outer:
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return next(inner)

    config = {"batch_size": 4, "num_workers": workers, "shuffle": False}
    with Loader(config, source=Failing(ValueError)) as read:
        inner = iter(read)
        with Loader({**config, "num_workers": 0}, source=Outer()) as batches:
            epoch = iter(batches)
            for _ in range(3):
                with pytest.raises(ValueError) as caught:  # noqa: PT011 (each is a new one)
                    next(epoch)
                told = steps_of(caught.tb)
                read_by = f"{Outer.__qualname__}.__getitem__"
                assert told.index(read_by) < told.index("Failing.__getitem__")
