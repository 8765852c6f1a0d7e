"""What a signal handler raises passes, whatever it has done; all else is a sample's failure."""

import asyncio
import gc
import signal
import weakref
from contextlib import contextmanager
from functools import partial, wraps

import pytest

from threadloader import Loader, WorkerError
from threadloader.errors import _handlers


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


def traced(function):
    """A decorator: all that it makes has the same code."""

    @wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@contextmanager
def around():
    yield


def decorated(error):
    return traced(plain(error))


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
@pytest.mark.parametrize("handler", [plain, of_any_arguments, bound, with_more, calling, decorated])
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


@pytest.mark.parametrize("decorator", [traced, around()], ids=["of the user's", "of contextlib"])
def test_what_shares_a_decorator_with_a_handler_is_none(ring, decorator):
    """Its code is that of the decorator, as the handler's is. No signal has come."""

    class Bad(Ringing):
        @decorator
        def __getitem__(self, index):
            if index == 5:
                raise ValueError("bad")
            return index

    ring(decorator(lambda number, frame: None))
    with Loader({**CONFIG, "on_error": {"skip": 1}}, Bad()) as batches:
        assert [[0, 1, 2, 3], [4, 6, 7]] == [batch.tolist() for batch in batches]


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


def rung(handler):
    """Give what a handler raises outside of any loader."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        signal.raise_signal(signal.SIGINT)
    except Stop as error:
        return error
    finally:
        signal.signal(signal.SIGINT, before)


def a_batch_fails(error):
    """Have samples 2 to 5 raise this, and give what the batches of two samples came to."""

    def transform(sample):
        if 2 <= sample < 6:
            raise error
        return sample

    came = []
    with Loader({**CONFIG, "batch_size": 2}, list(range(8)), transform=transform) as batches:
        epoch = iter(batches)
        while len(came) < 8:
            try:
                came.append(next(epoch).tolist())
            except StopIteration:
                break
            except Stop:
                came.append("failed")
    return came


def test_what_a_handler_raised_once_is_the_samples_that_raises_it_again():
    """Its traceback ends with the handler: of that time, in a stack that has been left."""
    error = rung(plain(Stop("of long ago")))
    assert [[0, 1], "failed", "failed", [6, 7]] == a_batch_fails(error)


def test_what_a_handler_raised_in_the_main_program_itself_is_no_handlers_later(run_child):
    """The frame that caught it then is still running, and was not called by anybody."""
    child = run_child("""
import signal
from threadloader import Loader

def handler(number, frame):
    raise late

late = TimeoutError("late")
signal.signal(signal.SIGINT, handler)
try:
    signal.raise_signal(signal.SIGINT)
except TimeoutError:
    pass

def transform(sample):
    if sample == 1:
        raise late
    return sample

config = {"batch_size": 1, "num_workers": 0, "shuffle": False}
with Loader(config, [0, 1, 2], transform=transform) as batches:
    epoch = iter(batches)
    for _ in range(3):
        try:
            print(next(epoch))
        except TimeoutError as error:
            print(error)
""")
    assert ("", ["[0]", "late", "[2]"]) == (child.stderr, child.stdout.splitlines())


def test_of_an_exception_that_is_raised_again_only_the_frames_of_this_time_are_looked_at(
    monkeypatch,
):
    """A traceback has those of each time, and grows: so would the time that it takes."""
    looked = []
    real = _handlers._handles
    monkeypatch.setattr(_handlers, "_handles", lambda frame: looked.append(1) or real(frame))
    error = Stop("one object")
    for _ in range(3):
        a_batch_fails(error)
    looked.clear()
    a_batch_fails(error)
    again = len(looked)
    looked.clear()
    a_batch_fails(Stop("another"))
    assert again == len(looked) > 0


class Shadowed(Stop):
    """Has no traceback to show."""

    @property
    def __traceback__(self):
        raise RuntimeError("not to be had")


class Nameless(type):
    """A class of classes that say nothing of themselves."""

    def __getattribute__(cls, name):
        raise RuntimeError(f"{name}: not to be had")


def hidden():
    """Made here, since pytest looks at what a module has."""

    class Hidden(Stop, metaclass=Nameless):
        pass

    return Hidden()


def refusing():
    class Refusing(Stop, metaclass=Nameless):
        def add_note(self, text):
            raise hidden()

    return Refusing()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("make", "kind"), [(Shadowed, Stop), (hidden, Stop), (refusing, WorkerError)]
)
def test_an_exception_may_be_of_any_class(make, kind, workers):
    """Its batch is passed, whatever its class answers."""

    def transform(sample):
        if sample == 1:
            raise make()
        return sample

    came = []
    config = {**CONFIG, "batch_size": 1, "num_workers": workers}
    with Loader(config, [0, 1, 2], transform=transform) as batches:
        epoch = iter(batches)
        for _ in range(3):
            try:
                came.append(next(epoch).tolist())
            except kind:
                came.append("failed")
    assert [[0], "failed", [2]] == came


def test_a_handler_is_seen_behind_a_generator(ring):
    """By whom that was called cannot be told any more."""

    class Generating(Ringing):
        def __getitem__(self, index):
            def samples():
                yield Ringing.__getitem__(self, index)

            return next(samples())

    with Loader(CONFIG, Generating()) as batches:
        epoch = iter(batches)
        rows = [next(epoch).tolist()]
        ring(plain(Stop()))
        with pytest.raises(Stop):
            next(epoch)
        assert ROWS == rows + [batch.tolist() for batch in epoch]


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
