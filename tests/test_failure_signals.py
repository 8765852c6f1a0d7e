"""A signal passes as it is and leaves nothing open; what a source raises itself is a failure."""

import json
import signal
import sys

import numpy as np
import pytest
from conftest import open_files, our_threads

from threadloader import ConfigError, Loader, SourceError, WorkerError
from threadloader.loader._failure import note_beside
from threadloader.loader._supply import Supply
from threadloader.sources.text import TextSource


def test_an_interrupt_while_a_config_error_is_worded_leaves_nothing_open(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(10))
    source = {"type": "npy", "path": "x.npy"}
    config = {"source": source, "sampler": {"type": "subset", "indices": [99]}}
    (tmp_path / "c.json").write_text(json.dumps(config), encoding="utf-8")
    loader = Loader(tmp_path / "c.json")

    def interrupt(frame, event, arg):
        if event == "call" and frame.f_code.co_name == "locate":
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            loader.__enter__()
    finally:
        sys.setprofile(None)
    assert str(tmp_path / "x.npy") not in open_files()
    with pytest.raises(ConfigError):  # and not that it is open already
        loader.__enter__()


def test_a_signal_passes_while_a_failed_close_is_told(rung):
    class Ringing(Exception):
        def __repr__(self):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TimeoutError, match="rung"):
        note_beside(KeyError("the body's"), Ringing())


def test_a_signal_in_a_close_leaves_no_thread(rung, monkeypatch):
    """It comes before the threads were told to end; whatever its handler raises, they are."""
    stop, rings = Supply.stop, iter([True])

    def ringing(supply, behind):
        if next(rings, False):
            signal.raise_signal(signal.SIGINT)
        return stop(supply, behind)

    monkeypatch.setattr(Supply, "stop", ringing)
    with pytest.raises(TimeoutError, match="rung"):
        with Loader({"batch_size": 1, "num_workers": 2}, range(4)) as batches:
            next(iter(batches))
    assert set() == our_threads()


def test_a_signal_at_the_first_line_of_a_source_s_close_leaves_no_file(monkeypatch, tmp_path):
    """The files that are left open are counted around every test."""
    close, rings = TextSource.close, iter([True])

    def ringing(source):
        if next(rings, False):
            signal.raise_signal(signal.SIGINT)
        close(source)
        closed.append(source)

    closed = []
    monkeypatch.setattr(TextSource, "close", ringing)
    (tmp_path / "a.txt").write_text("a\nb\n")
    with pytest.raises(KeyboardInterrupt):
        with Loader({"source": {"type": "text", "path": str(tmp_path / "a.txt")}}) as batches:
            next(iter(batches))
    assert 1 == len(closed)


def test_a_ctrl_c_passes_while_a_sample_is_described():
    """Without workers it comes in the main thread. The batch is asked for again."""

    class Failing(list):
        def __getitem__(self, index):
            raise OSError("no such sample")

        def locate(self, index):
            signal.raise_signal(signal.SIGINT)

    with Loader({"num_workers": 0}, Failing(range(3))) as batches:
        with pytest.raises(KeyboardInterrupt):
            next(iter(batches))


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None])
def test_a_keyboard_interrupt_that_no_handler_raises_is_the_source_s_own(handler):
    """Raised by code written in C, it has no raise of Python's behind it."""

    class Own(list):
        def __getitem__(self, index):
            (_ for _ in ()).throw(KeyboardInterrupt)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with Loader({"num_workers": 0}, Own(range(3))) as batches:
            with pytest.raises(WorkerError, match="KeyboardInterrupt was raised for sample"):
                next(iter(batches))
    finally:
        signal.signal(signal.SIGINT, before)


def begun():
    """Gives a generator that stands at its yield."""
    generator = (number for number in range(2))
    next(generator)
    return generator


@pytest.mark.parametrize(
    "made",
    [
        lambda: (number for number in ()),
        pytest.param(
            begun,
            marks=pytest.mark.skipif(sys.version_info >= (3, 13), reason="looks like a Ctrl-C"),
        ),
    ],
    ids=["new", "begun"],
)
def test_a_keyboard_interrupt_thrown_into_a_generator_is_the_source_s_own(made):
    """As one raises where a statement has no place, in a lambda say; Ctrl-C does what it did."""

    class Own(list):
        def __getitem__(self, index):
            return made().throw(KeyboardInterrupt) if index == 1 else index

    with Loader({"num_workers": 0, "batch_size": 1, "shuffle": False}, Own(range(3))) as batches:
        epoch = iter(batches)
        assert [0] == next(epoch).tolist()
        with pytest.raises(WorkerError, match="KeyboardInterrupt was raised for sample 1"):
            next(epoch)
        assert [2] == next(epoch).tolist()


@pytest.mark.parametrize("skip", [None, 3])
def test_a_signal_that_an_error_of_ours_was_made_of_passes_as_it_is(rung, skip):
    """A reader takes what the handler raised for the system's, and says where it was."""

    class Reader(list):
        rings = 1

        def __getitem__(self, index):
            try:
                if self.rings:
                    self.rings -= 1
                    signal.raise_signal(signal.SIGINT)
            except OSError as error:
                raise SourceError("cannot be read", "a.bin") from error
            return super().__getitem__(index)

    config = {"num_workers": 0, "shuffle": False, "on_error": {"retry": 1, "skip": skip}}
    with Loader(config, source=Reader([1, 2])) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        assert [1, 2] == next(epoch).tolist()
        assert (0, 0) == (batches.stats().retried, batches.stats().skipped)


def test_what_a_source_makes_of_a_signal_itself_is_its_failure(rung):
    """As one that gives each read a time of its own by a timer."""

    class SlowError(Exception):
        pass

    class Timed(list):
        def __getitem__(self, index):
            try:
                signal.raise_signal(signal.SIGINT)
            except TimeoutError as error:
                raise SlowError(f"sample {index}") from error

    with Loader({"num_workers": 0, "shuffle": False}, source=Timed([1])) as batches:
        with pytest.raises(SlowError, match="sample 0"):
            next(iter(batches))


def test_a_signal_passes_while_a_source_says_where_a_sample_stands(rung):
    """What its handler raises is no failure of the source. The batch is asked for again."""

    class Ringing(list):
        rung = False

        def __getitem__(self, index):
            raise ValueError(f"sample {index}")

        def locate(self, index):
            if not Ringing.rung:
                Ringing.rung = True
                signal.raise_signal(signal.SIGINT)
            return "here"

    with Loader({"num_workers": 0, "shuffle": False}, source=Ringing([1])) as batches:
        epoch = iter(batches)
        with pytest.raises(TimeoutError, match="rung"):
            next(epoch)
        with pytest.raises(ValueError, match="sample 0") as caught:
            next(epoch)
    assert ", here" in caught.value.__notes__[0]
