"""A signal handler that puts another in its place, or cancels a task, is a handler all the same."""

import asyncio
import gc
import signal
import weakref
from functools import partial

import pytest

from threadloader import Loader


class Stop(Exception):
    """Raised by a handler of the user's."""


def plain(error):
    def handler(number, frame):
        signal.signal(number, signal.SIG_IGN)
        raise error

    return handler


def of_any_arguments(error):
    def handler(*_):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise error

    return handler


def bound(error):
    class Handlers:
        def handler(self, number, frame):
            signal.signal(number, signal.SIG_IGN)
            raise error

    return Handlers().handler


def with_more(error):
    def handler(error, number, frame):
        signal.signal(number, signal.SIG_IGN)
        raise error

    return partial(handler, error)


def calling(error):
    def stop():
        raise error

    def handler(number, frame):
        signal.signal(number, signal.SIG_IGN)
        stop()

    return handler


class Ringing:
    """Sample i is i; the first read of sample 5 is interrupted."""

    rings = 1

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5 and self.rings:
            self.rings = 0
            signal.raise_signal(signal.SIGINT)
        return index


@pytest.fixture
def ring():
    """Gives what installs a handler, for the time of the test."""
    before = signal.getsignal(signal.SIGINT)
    yield partial(signal.signal, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


ROWS = [[0, 1, 2, 3], [4, 5, 6, 7]]
CONFIG = {"batch_size": 4, "shuffle": False, "num_workers": 0}


@pytest.mark.parametrize("on_error", ["raise", {"skip": 3}, {"retry": 3}], ids=str)
@pytest.mark.parametrize("error", [KeyboardInterrupt, Stop])
@pytest.mark.parametrize("handler", [plain, of_any_arguments, bound, with_more, calling])
def test_what_it_raises_passes_and_consumes_no_batch(handler, error, on_error, ring):
    with Loader({**CONFIG, "on_error": on_error}, Ringing()) as batches:
        epoch = iter(batches)
        rows = [next(epoch).tolist()]
        ring(handler(error))
        with pytest.raises(error):
            next(epoch)
        rows += [batch.tolist() for batch in epoch]
        assert ROWS == rows
        assert (0, 0) == (batches.stats().skipped, batches.stats().retried)


def test_a_ctrl_c_that_cancels_a_task_in_a_read_passes(ring):
    """The handler of `asyncio.run` raises nothing; the runner does, when the task has ended."""

    class Awaiting(Ringing):
        def __getitem__(self, index):
            async def read():
                sample = Ringing.__getitem__(self, index)
                await asyncio.sleep(0)
                return sample

            return asyncio.run(read())

    ring(signal.default_int_handler)
    with Loader(CONFIG, Awaiting()) as batches:
        epoch = iter(batches)
        rows = [next(epoch).tolist()]
        with pytest.raises(KeyboardInterrupt):
            next(epoch)
        assert ROWS == rows + [batch.tolist() for batch in epoch]


def test_a_function_with_a_number_and_another_frame_is_none():
    """What it raises is its sample's."""

    def transform(sample):
        return fail(sample, None) if sample == 5 else sample

    def fail(number, frame):
        raise Stop(f"{number}, {frame}")

    config = {**CONFIG, "on_error": {"skip": 1}}
    with Loader(config, list(range(8)), transform=transform) as batches:
        next(epoch := iter(batches))
        assert [4, 6, 7] == next(epoch).tolist()


@pytest.mark.parametrize("wrong", [0, 5])
def test_looking_for_one_leaves_the_exception_in_no_cycle(wrong):
    """Of a batch that begins a series, and of one in it."""

    def transform(sample):
        if sample == wrong:
            raise Stop("of the sample")
        return sample

    gc.disable()
    try:
        with Loader(CONFIG, list(range(8)), transform=transform) as batches:
            epoch, failed = iter(batches), None
            for _ in range(2):
                try:
                    next(epoch)
                except Stop as error:
                    failed = weakref.ref(error)
            assert failed is not None
            assert failed() is None
    finally:
        gc.enable()
