"""Leaving a loader within the leaving of it, or after one that has failed."""

import signal
import sys
import threading

import pytest

from threadloader import ClosedError, Loader, per_thread

WAIT = 60.0


class Part:
    """Samples; closing it does what the class is told to."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return index

    def close(self):
        type(self).closing()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_source_that_closes_its_loader_while_it_is_closed_is_closed_once(num_workers):
    """As a signal's handler or a finalizer does, that comes in the midst of it."""
    closed = []

    class Closing(Part):
        @staticmethod
        def closing():
            closed.append(1)
            batches.close()

    def leave():
        nonlocal batches
        with Loader({"num_workers": num_workers}, per_thread(Closing)) as batches:
            next(iter(batches))
            made.append(len(closed))

    batches, made = None, []
    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert made == [0]
    assert closed
    assert len(closed) <= 1 + num_workers  # one for each thread that has asked


def test_a_loader_whose_closing_fails_twice_can_be_entered_again():
    """Interrupted again and again, it has not closed all; but nobody is shut out."""

    def interrupted():
        signal.raise_signal(signal.SIGINT)

    loader = Loader({"num_workers": 0}, list(range(4)))
    with pytest.raises(KeyboardInterrupt), loader as batches:
        batches._close_source = interrupted
    with loader as batches:
        assert [[0, 1, 2, 3]] == [sorted(batch) for batch in batches]


def test_what_shortens_the_switch_interval_behind_the_end_puts_it_back():
    """The loop's thread may be about to, while another one closes the loader."""
    before = sys.getswitchinterval()
    with Loader({"num_workers": 1, "switch_interval": "auto"}, list(range(4))) as batches:
        pass
    batches._supply._shorten(before / 10)
    assert before == pytest.approx(sys.getswitchinterval())


def test_who_waits_is_woken_when_the_sampler_never_comes_back():
    """Not by the feeder, which is in it, but by who leaves the `with`."""
    asked, never, told = threading.Event(), threading.Event(), []

    def sampler(epoch, n):
        if epoch:
            asked.set()
            never.wait()
        return range(n)

    def consume():
        try:
            for epoch in batches.epochs(2):
                list(epoch)
        except ClosedError as error:
            told.append(error)

    config = {"num_workers": 1, "close_timeout": 0.1}
    try:
        with Loader(config, list(range(4)), sampler=sampler) as batches:
            thread = threading.Thread(target=consume, daemon=True)
            thread.start()
            assert asked.wait(WAIT)
            while batches._supply.engine._shared.awaited is None:
                pass
        thread.join(WAIT)
        assert not thread.is_alive()
        assert 1 == len(told)
    finally:
        never.set()
