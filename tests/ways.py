"""The ways in which a loader is left: each function is one life, from `Loader` to nothing left.

`lifecycle` plays them by the thousand and looks at what is left. A function is called with a
`Life`, which says how many workers it has and the like, and asserts what it must see itself.
Classes stand outside of the functions, and nothing here refers to itself: what is found in
cycles is then the library's. Longer than other files, as a collection is.
"""

import contextlib
import gc
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np
from leaks import join_ours, warned

from threadloader import Batches, ClosedError, Loader, StateError, WorkerError
from threadloader._runtime import Runtime
from threadloader.errors import BusyError
from threadloader.sources import per_thread

WAIT = 30.0
"""Seconds until a wait counts as a hang. Chosen: nothing honest takes so long."""


class Stop(Exception):
    """What a body is left with."""


class Numbers:
    """Sample i is i; `close` may fail."""

    def __init__(self, n: int, error: str = "") -> None:
        self.n, self.error = n, error

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index

    def close(self) -> None:
        if self.error:
            raise OSError(self.error)


class Lists(Numbers):
    """The same, read in lists."""

    def __getitems__(self, indices: list[int]) -> list[int]:
        return list(indices)


class Calling(Numbers):
    """Reading a sample calls a function first."""

    def __init__(self, n: int, function: Callable[[int], object]) -> None:
        super().__init__(n)
        self.function = function

    def __getitem__(self, index: int) -> int:
        self.function(index)
        return index


class Gate:
    """Whoever comes says so, and waits until it is opened."""

    def __init__(self) -> None:
        self.inside, self.open = threading.Event(), threading.Event()

    def __call__(self, index: int = 0) -> None:
        self.inside.set()
        assert self.open.wait(WAIT)


class Raising:
    """Raises a new exception at one sample; then it can be a read, a transform or a collate."""

    def __init__(self, kind: type[BaseException], at: int) -> None:
        self.kind, self.at = kind, at

    def __call__(self, it: Any) -> Any:
        if it == self.at or (isinstance(it, list) and self.at in it):
            raise self.kind("planned")
        return np.asarray(it) if isinstance(it, list) else it


class Unmeasured:
    """A source whose length cannot be told."""

    def __len__(self) -> int:
        raise Stop

    def __getitem__(self, index: int) -> int:
        return index


class Few(Runtime):
    """A system that starts so many threads and no more."""

    def __init__(self, left: int) -> None:
        self.left = left

    def thread(self, target: Any, args: Any, name: str) -> Any:
        made = super().thread(target, args, name)
        self.left -= 1
        if self.left < 0:
            made.start = no_thread  # type: ignore[method-assign]
        return made


def no_thread() -> None:
    raise RuntimeError("can't start new thread")


class Closer:
    """Closes what it holds when it is dropped."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches

    def __del__(self) -> None:
        self.batches.close()


KINDS = (LookupError, StopIteration, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)
SOURCES = {
    "numbers": Numbers(24),
    "lists": Lists(24),
    "list": list(range(24)),
    "array": np.arange(24),
    "dict": {"x": np.arange(24), "y": np.arange(24.0)},
}
"""Shared by all lives, so that a reference that is left behind is seen."""


class Life:
    """What one life has: drawn.

    Attributes:
        workers, prefetch: of its loaders.
        logged: what the library has logged since it was emptied last.
        path: of a data file.
    """

    def __init__(self, draw: random.Random, least: int, logged: list[str], path: str) -> None:
        self.draw = draw
        self.workers = draw.randint(least, 8)
        self.prefetch = draw.choice([1, 2, 3, 8, 64])
        self.logged = logged
        self.path = path
        self.kept: BaseException | None = None
        self.config: dict[str, Any] = {
            "batch_size": draw.randint(1, 5),
            "shuffle": draw.random() < 0.5,
            "seed": draw.getrandbits(32),
            "num_workers": self.workers,
            "prefetch_batches": self.prefetch,
        }

    def loader(self, source: Any = None, given: Any = None, **more: Any) -> Loader:
        """Make a loader of one of the shared sources, or of another."""
        if source is None:
            source = SOURCES[self.draw.choice(list(SOURCES))]
        return Loader({**self.config, **more}, source, **(given or {}))

    def epoch(self, batches: Batches) -> Iterator[Any]:
        """Begin an epoch and take a part of it, perhaps none, never all."""
        epoch = iter(batches)
        for _ in range(self.draw.randint(0, len(batches) - 1)):
            next(epoch)
        return epoch


WAYS: dict[str, tuple[Callable[[Life], None], int]] = {}
"""By name: the function, and the least number of workers."""


def way(least: int = 0) -> Callable[[Callable[[Life], None]], Callable[[Life], None]]:
    def add(function: Callable[[Life], None]) -> Callable[[Life], None]:
        WAYS[function.__name__] = function, least
        return function

    return add


def fails(kinds: Any, call: Callable[..., object], *args: object) -> None:
    """See that a call raises."""
    try:
        call(*args)
    except kinds:
        return
    raise AssertionError(f"expected {kinds}, got nothing")


@way()
def end(life: Life) -> None:
    with life.loader() as batches:
        assert len(batches) == len(list(batches))


@way()
def end_of_epochs(life: Life) -> None:
    with life.loader() as batches:
        for epoch in batches.epochs(3):
            list(epoch)


@way()
def asked_again_after_the_end(life: Life) -> None:
    with life.loader() as batches:
        epoch = iter(batches)
        list(epoch)
        for _ in range(3):
            assert next(epoch, None) is None
    assert next(epoch, None) is None


@way()
def nothing_done(life: Life) -> None:
    with life.loader():
        pass


@way()
def never_entered(life: Life) -> None:
    fails(ClosedError, iter, life.loader())


@way()
def iterator_not_used(life: Life) -> None:
    with life.loader() as batches:
        iter(batches)


@way()
def break_(life: Life) -> None:
    with life.loader() as batches:
        for _ in batches:
            if life.draw.random() < 0.3:
                break


@way()
def break_of_epochs(life: Life) -> None:
    with life.loader() as batches:
        for epoch in batches.epochs():
            life.draw.random() < 0.5 and next(epoch)
            if life.draw.random() < 0.3:
                break


@way()
def return_(life: Life) -> None:
    def first() -> Any:
        with life.loader() as batches:
            for batch in batches:
                return batch
        return None

    assert first() is not None


def raised(life: Life, kind: type[BaseException]) -> None:
    with life.loader() as batches:
        life.epoch(batches)
        raise kind("planned")


@way()
def exception(life: Life) -> None:
    fails(Stop, raised, life, Stop)


@way()
def keyboard_interrupt(life: Life) -> None:
    fails(KeyboardInterrupt, raised, life, KeyboardInterrupt)


@way()
def system_exit(life: Life) -> None:
    fails(SystemExit, raised, life, SystemExit)


@way()
def generator_exit(life: Life) -> None:
    fails(GeneratorExit, raised, life, GeneratorExit)


@way()
def sys_exit(life: Life) -> None:
    def leave() -> None:
        with life.loader() as batches:
            life.epoch(batches)
            sys.exit(3)

    fails(SystemExit, leave)


@way()
def exception_that_is_kept(life: Life) -> None:
    """Its traceback keeps every frame: the threads must be gone all the same."""
    try:
        raised(life, Stop)
    except Stop as error:
        life.kept = error
    assert not [thread for thread in threading.enumerate() if "threadloader" in thread.name]
    life.kept = None


@way()
def ctrl_c_in_the_body(life: Life) -> None:
    def press() -> None:
        with life.loader() as batches:
            life.epoch(batches)
            signal.raise_signal(signal.SIGINT)

    fails(KeyboardInterrupt, press)


@way(1)
def ctrl_c_in_next(life: Life) -> None:
    if not hasattr(signal, "pthread_kill"):
        return
    gate, main = Gate(), threading.main_thread().ident

    def press(index: int) -> None:
        if not gate.inside.is_set():
            gate.inside.set()
            signal.pthread_kill(main, signal.SIGINT)
        assert gate.open.wait(WAIT)  # so next cannot return

    def take() -> None:
        with life.loader(Calling(24, press)) as batches:
            try:
                next(iter(batches))
            finally:
                gate.open.set()

    fails(KeyboardInterrupt, take)


def given(life: Life) -> Iterator[Any]:
    with life.loader() as batches:
        yield from batches


@way()
def generator_closed(life: Life) -> None:
    generator = given(life)
    next(generator)
    generator.close()


@way()
def generator_dropped(life: Life) -> None:
    next(given(life))


@way()
def generator_thrown_into(life: Life) -> None:
    generator = given(life)
    next(generator)
    fails(Stop, generator.throw, Stop)


@way()
def iterator_dropped(life: Life) -> None:
    with life.loader() as batches:
        for _ in range(life.draw.randint(1, 3)):
            next(iter(batches))


@way()
def second_iterator(life: Life) -> None:
    with life.loader() as batches:
        old = life.epoch(batches)
        new = iter(batches)
        fails(ClosedError, next, old)
        next(new)


@way()
def two_interleaved(life: Life) -> None:
    with life.loader() as one, life.loader() as two:
        for _ in zip_longest(one, two):
            pass


@way()
def nested_in_the_body(life: Life) -> None:
    with life.loader() as batches:
        for _ in batches:
            with life.loader(Numbers(4)) as inner:
                next(iter(inner))
            if life.draw.random() < 0.5:
                break


@way()
def nested_in_a_transform(life: Life) -> None:
    def inner(sample: int) -> int:
        with Loader({"num_workers": 1, "batch_size": 2, "shuffle": False}, Numbers(3)) as batches:
            return sample + sum(int(batch.sum()) for batch in batches)

    with life.loader(Numbers(3), {"transform": inner}) as batches:
        assert [3, 4, 5] == sorted(np.concatenate(list(batches)).tolist())


@way()
def closed_twice(life: Life) -> None:
    loader = life.loader()
    with loader as batches:
        epoch = life.epoch(batches)
        batches.close()
        batches.close()
        fails(ClosedError, next, epoch)
    loader.__exit__(None, None, None)


@way()
def closed_before_the_first_next(life: Life) -> None:
    with life.loader() as batches:
        epoch = iter(batches)
        batches.close()
        fails(ClosedError, next, epoch)
        fails(ClosedError, iter, batches)


@way()
def asked_when_left(life: Life) -> None:
    with life.loader() as batches:
        epoch = life.epoch(batches)
    fails(ClosedError, next, epoch)
    fails(ClosedError, iter, batches)
    assert batches.stats() is not None
    assert batches.state_dict()


def closed_inside(life: Life, where: str) -> None:
    box: list[Batches] = []

    def close(it: Any) -> Any:
        if box:
            box[0].close()
        return np.asarray(it) if isinstance(it, list) else it

    source, hooks = Numbers(24), {}
    if where == "source":
        source = Calling(24, close)
    else:
        hooks[where] = close
    with life.loader(source, hooks) as batches:
        box.append(batches)
        fails(ClosedError, list, batches)
        box.clear()


@way()
def closed_in_a_read(life: Life) -> None:
    closed_inside(life, "source")


@way()
def closed_in_a_transform(life: Life) -> None:
    closed_inside(life, "transform")


@way()
def closed_in_a_collate(life: Life) -> None:
    closed_inside(life, "collate")


def elsewhere(function: Callable[..., object], *args: object) -> None:
    """Call a function in another thread."""
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive(), "it does not end"


@way()
def closed_in_another_thread(life: Life) -> None:
    with life.loader() as batches:
        epoch = life.epoch(batches)
        elsewhere(batches.close)
        fails(ClosedError, next, epoch)


@way()
def left_in_another_thread(life: Life) -> None:
    loader = life.loader()
    life.epoch(loader.__enter__())
    elsewhere(loader.__exit__, None, None, None)


@way()
def lived_in_another_thread(life: Life) -> None:
    elsewhere(end, life)


@way(1)
def closed_during_next(life: Life) -> None:
    gate = Gate()
    with life.loader(Calling(24, gate)) as batches:
        epoch = iter(batches)
        closing = threading.Thread(target=closed_behind, args=(gate, batches))
        closing.start()
        # The one that closes waits for the worker: it may go on when the consumer is out.
        fails(ClosedError, next, epoch)
        gate.open.set()
        closing.join(WAIT)


def closed_behind(gate: Gate, batches: Batches) -> None:
    """Close when somebody has come to a gate."""
    assert gate.inside.wait(WAIT)
    batches.close()


@way(1)
def two_ask_at_once(life: Life) -> None:
    gate = Gate()
    with life.loader(Calling(24, gate)) as batches:
        epoch = iter(batches)
        # The first may not have come to its turn when the second asks: either is refused, or none.
        asking = [threading.Thread(target=refused_or_not, args=(epoch,)) for _ in range(2)]
        asking[0].start()
        assert gate.inside.wait(WAIT)
        asking[1].start()
        gate.open.set()
        for thread in asking:
            thread.join(WAIT)


def refused_or_not(epoch: Iterator[Any]) -> None:
    with contextlib.suppress(BusyError):
        next(epoch)


@way()
def closed_by_a_signal_handler(life: Life) -> None:
    if not hasattr(signal, "SIGUSR1"):
        return
    with life.loader() as batches:
        before = signal.signal(signal.SIGUSR1, lambda number, frame: batches.close())
        try:
            epoch = life.epoch(batches)
            signal.raise_signal(signal.SIGUSR1)
            fails(ClosedError, next, epoch)
        finally:
            signal.signal(signal.SIGUSR1, before)


@way()
def closed_by_a_finalizer(life: Life) -> None:
    loader = life.loader()
    batches = loader.__enter__()
    life.epoch(batches)
    closer = Closer(batches)
    del batches, closer
    loader.__exit__(None, None, None)


@contextlib.contextmanager
def dropping(life: Life) -> Iterator[None]:
    """See that what is dropped says so, once, and that its threads end."""
    with warned() as said:
        yield
        join_ours()
    told = [str(one) for one in said if type(one) is ResourceWarning]
    text = (
        "a loader was dropped without being closed; use `with Loader(...) as batches:` or call "
        "`batches.close()`"
    )
    assert [text] * bool(life.workers) == told


@way()
def dropped(life: Life) -> None:
    with dropping(life):
        life.epoch(life.loader().__enter__())


@way()
def dropped_before_an_epoch(life: Life) -> None:
    with dropping(life):
        life.loader().__enter__()


@way()
def dropped_in_a_cycle(life: Life) -> None:
    with dropping(life):
        cycle: list[Any] = [life.loader().__enter__()]
        life.epoch(cycle[0])
        cycle.append(cycle)
        del cycle
        gc.collect()


@way()
def entered_again(life: Life) -> None:
    loader = life.loader()
    for _ in range(2):
        with loader as batches:
            life.epoch(batches)
            fails(BusyError, loader.__enter__)


@way()
def state_loaded(life: Life) -> None:
    with life.loader(Numbers(24)) as batches:
        life.epoch(batches)
        state = batches.state_dict()
    with life.loader(Numbers(24)) as batches:
        batches.load_state_dict(state)
        if life.draw.random() < 0.5:
            next(iter(batches), None)


@way()
def state_loaded_behind_prepared_batches(life: Life) -> None:
    with life.loader() as batches:
        state = batches.state_dict()
        epoch = life.epoch(batches)
        fails(BusyError, batches.load_state_dict, state)
        del epoch
        batches.load_state_dict(state)


@way()
def state_refused(life: Life) -> None:
    fails(StateError, life.loader(given={"resume": {"version": 1}}).__enter__)


@way()
def no_length(life: Life) -> None:
    fails(Stop, life.loader(Unmeasured()).__enter__)


@way(1)
def no_more_threads(life: Life) -> None:
    loader = life.loader()
    loader._runtime = Few(life.draw.randint(0, life.workers))
    fails(RuntimeError, loader.__enter__)


def failing(life: Life, where: str) -> None:
    kind = life.draw.choice(KINDS)
    raising = Raising(kind, life.draw.randrange(24))
    source, hooks = Numbers(24), {}
    if where == "source":
        source = Calling(24, raising)
    else:
        hooks[where] = raising
    loader = life.loader(source, hooks)
    if life.draw.random() < 0.5:

        def taken() -> None:
            with loader as batches:
                list(batches)

        fails((kind, WorkerError), taken)
        return
    with loader as batches:  # all that is left comes behind it
        epoch, came, failed = iter(batches), 0, 0
        while True:
            try:
                next(epoch)
                came += 1
            except StopIteration:
                break
            except (kind, WorkerError):
                failed += 1
        assert (len(batches) - 1, 1) == (came, failed)


@way()
def failing_read(life: Life) -> None:
    failing(life, "source")


@way()
def failing_transform(life: Life) -> None:
    failing(life, "transform")


@way()
def failing_collate(life: Life) -> None:
    failing(life, "collate")


@way()
def failing_sampler(life: Life) -> None:
    def sampler(epoch: int, n: int) -> list[int]:
        if epoch:
            raise Stop
        return list(range(n))

    def take() -> None:
        with life.loader(given={"sampler": sampler}, num_epochs=3, shuffle=False) as batches:
            for epoch in batches.epochs():
                list(epoch)

    fails(Stop, take)


@way()
def failing_close(life: Life) -> None:
    def leave(kind: type[Exception] | None) -> None:
        with life.loader(per_thread(lambda: Numbers(24, "cannot close"))) as batches:
            life.epoch(batches)
            list(batches)
            if kind:
                raise kind

    fails(OSError, leave, None)
    fails(Stop, leave, Stop)


@way()
def file_source(life: Life) -> None:
    spec = {"type": "text", "path": life.path}
    with Loader({**life.config, "source": spec}) as batches:
        life.epoch(batches)


@way(1)
def worker_that_is_stuck(life: Life) -> None:
    gate = Gate()
    with life.loader(Calling(24, gate), close_timeout=0.001) as batches:
        iter(batches)
        assert gate.inside.wait(WAIT)
    assert any("is left behind; it is at sample" in text for text in life.logged)
    life.logged.clear()
    gate.open.set()
    join_ours()


@way()
def forked(life: Life) -> None:
    """The child has none of the threads; what it does is of no concern to the parent."""
    if not hasattr(os, "fork"):
        return
    with life.loader() as batches:
        epoch = life.epoch(batches)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if not child:
            code = 1
            try:
                if life.workers:
                    fails(ClosedError, next, epoch)
                batches.close()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert 0 == os.waitstatus_to_exitcode(status)
        next(epoch)
