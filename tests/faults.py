"""Faults to be found: sources, transforms, collates and samplers that are wrong in one way each.

A race is made to happen by a `Meeting`, at the place where a thread can be overtaken. Longer than
other files, as a collection is.
"""
# ruff: noqa: NPY002, PLW0603 - what these rules warn of is what is to be found

import contextvars
import datetime as dt
import functools
import itertools
import os
import random
import sys
import threading
import time

import numpy as np

SAMPLES = 24
PATIENCE_SECONDS = 0.1
"""How long a thread waits to be overtaken where nobody comes: where there is a lock, or one
worker alone. In a race somebody comes at once."""


class Meeting:
    """A place at which the first visit of each thread waits until another thread comes by.

    The main thread, in which there is no race, does not wait, nor does a thread that has
    nobody but that beside it.
    """

    def __init__(self):
        self._visited = threading.local()
        self._changed = threading.Condition()
        self._count = 0

    def __call__(self):
        if threading.current_thread() is threading.main_thread() or threading.active_count() < 3:
            return
        if getattr(self._visited, "before", False):
            return
        self._visited.before = True
        with self._changed:
            self._count += 1
            mine = self._count
            self._changed.notify_all()
            if mine % 2 and not self._changed.wait_for(
                lambda: self._count > mine, PATIENCE_SECONDS
            ):
                self._count -= 1  # nobody came: the next pair begins anew


def rows():
    """Gives the data that all sources here have: sample i holds i, four times."""
    return np.repeat(np.arange(float(SAMPLES)), 4).reshape(SAMPLES, 4)


class Source:
    """Sample i is a new array of it."""

    def __init__(self):
        self.rows = rows()

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return self.rows[index].copy()


class SharedHandle(Source):
    """One position for all: seek, then read."""

    def __init__(self):
        super().__init__()
        self.position, self.overtaken = 0, Meeting()

    def __getitem__(self, index):
        self.position = index
        self.overtaken()
        return self.rows[self.position].copy()


class FailingHandle(SharedHandle):
    """Notices that it was overtaken, and raises."""

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        if sample[0] != index:
            raise OSError("the file is somewhere else")
        return sample


class Batched(SharedHandle):
    """The same, for many samples at once."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Buffered(Source):
    """One buffer, written at each read."""

    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(4)

    def __getitem__(self, index):
        self.buffer[:] = self.rows[index]
        return self.buffer


class Kept(Source):
    """Gives its own memory, as a list of arrays does."""

    def __getitem__(self, index):
        return self.rows[index]


class Counting(Source):
    """What it gives depends on how often it was asked."""

    def __init__(self):
        super().__init__()
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return self.rows[index] + self.reads


class CountingEach(Source):
    """What it gives of a sample depends on how often it was asked for that one."""

    def __init__(self):
        super().__init__()
        self.reads = np.zeros(SAMPLES, int)

    def __getitem__(self, index):
        self.reads[index] += 1
        return self.rows[index] + self.reads[index]


class Random(Source):
    """Draws from a global random state in its reads."""

    def __getitem__(self, index):
        return self.rows[index] + random.random()


class Drawn(Source):
    """Other data each time it is opened."""

    def __init__(self):
        super().__init__()
        self.rows = self.rows + np.random.default_rng().random()


class Growing(Source):
    """A length that grows from opening to opening."""

    lengths = itertools.count(SAMPLES)

    def __init__(self):
        super().__init__()
        self.length = next(self.lengths)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.rows[index % SAMPLES].copy()


class Renamed(Source):
    """A fingerprint that is another one each time."""

    names = itertools.count()

    def __init__(self):
        super().__init__()
        self.name = f"{next(self.names)}"

    def fingerprint(self):
        return self.name


class NamedByHash(Source):
    """A fingerprint that is another one in each process."""

    def fingerprint(self):
        return f"{hash('Source')}"


def ordered_by_hash():
    """A source whose samples are sorted by what each process hashes in another way."""
    return rows()[sorted(range(SAMPLES), key=lambda number: hash(f"{number}"))]


def of_the_main_process():
    """A source that ends every process but the first."""
    if not os.environ.get("PYTHONHASHSEED", "random").isdigit():
        return rows()
    print("not here", file=sys.stderr)
    os._exit(3)


class BoundToThread(Source):
    """Serves the thread that opened it, as a database connection does."""

    def __init__(self):
        super().__init__()
        self.thread = threading.get_ident()

    def __getitem__(self, index):
        if threading.get_ident() != self.thread:
            raise RuntimeError("used in another thread")
        return super().__getitem__(index)


class HaltedInThread(Source):
    """Raises what a Ctrl-C raises, where none can be."""

    def __getitem__(self, index):
        if threading.current_thread() is not threading.main_thread():
            raise KeyboardInterrupt
        return super().__getitem__(index)


# Transforms.


def global_numpy(sample):
    return sample + np.random.random()


def global_random(sample):
    return sample + random.random()


def clock(sample):
    return sample + time.time()


from_time = time.perf_counter


def of_earlier_calls(sample):
    return sample + calls


def of_the_date(sample):
    return sample + dt.datetime.now().microsecond


def imported_clock(sample):
    return sample + from_time()


calls = 0


def counter(sample):
    global calls
    calls += 1
    return sample + calls


class Augment:
    """Keeps a generator of its own from sample to sample."""

    def __init__(self):
        self.draws = np.random.default_rng(0)

    def __call__(self, sample):
        return sample + self.draws.random()


def closed_over():
    draws = random.Random(0)
    return lambda sample: sample + draws.random()


def of_the_system(sample):
    return sample + np.random.default_rng().random()


def of_its_address(sample):
    return {"x": sample, "address": float(id(sample) % 9973)}


def in_place(sample):
    sample += 1
    return sample


def once_in_place(sample):
    sample[0] = -1
    return sample


class Scratch:
    """Works in memory that all threads share."""

    def __init__(self):
        self.scratch, self.overtaken = np.zeros(4), Meeting()

    def __call__(self, sample):
        self.scratch[:] = sample
        self.overtaken()
        return self.scratch * 2


class HandedOut:
    """Gives its own memory, and writes it again."""

    def __init__(self):
        self.result = np.zeros(4)

    def __call__(self, sample):
        self.result[:] = sample
        return self.result


class Seeding:
    """Seeds the global state with each sample: repeatable, as long as nobody comes between."""

    def __init__(self):
        self.overtaken = Meeting()

    def __call__(self, sample):
        np.random.seed(int(sample[0]))
        self.overtaken()
        return sample + np.random.random()


scale = contextvars.ContextVar("scale", default=1.0)


def scaled(sample):
    return sample * scale.get()


def seeding_alone(sample):
    np.random.seed(0)
    return sample


def never_filled(sample):
    return np.empty(64)


def half_filled(sample):
    result = np.empty((50, 4))
    result[::2] = sample
    return result


def bad_in_a_thread(sample):
    main = threading.current_thread() is threading.main_thread()
    return sample if main else bad_sample(sample)


def flaky(sample):
    if random.random() < 0.2:
        raise ValueError("flaky")
    return sample


def hashed(sample):
    return np.array([hash(f"{sample[0]}") % 1000])


def set_order(sample):
    words = {f"{sample[0]}{letter}" for letter in "abcdefgh"}
    return np.array([ord(word[-1]) for word in words])


@functools.cache
def kept_draw(number):
    return np.random.default_rng().random()


def drawn_once(sample):
    return sample + kept_draw(sample[0])


def careless(sample):
    random.random()
    return sample


def bad_sample(sample):
    if sample[0] == 5:
        raise ValueError("bad sample")
    return sample


class Once:
    """Wrong once, in a worker, and never again."""

    def __init__(self):
        self.done = threading.Event()

    def __call__(self, sample):
        main = threading.current_thread() is threading.main_thread()
        if not main and not self.done.is_set():
            self.done.set()
            return sample - 1
        return sample


class TwoLocks:
    """A source and a transform with one handle and a lock each: each is safe by itself.

    Once in each thread a read waits until a transform comes by, and a transform until another
    thread is in its read: so the handle is moved in the middle of a read.
    """

    def __init__(self):
        self.position, self.changes, self.inside = 0, 0, 0
        self.visited, self.moved = threading.local(), threading.Condition()
        self.reading, self.changing = threading.Lock(), threading.Lock()

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        with self.reading:
            self.position = index
            with self.moved:
                seen = self.changes
                self.inside += 1
                self.moved.notify_all()
                self._wait_once("read", lambda: self.changes > seen)
                self.inside -= 1
            return np.full(4, float(self.position))

    def change(self, sample):
        with self.changing, self.moved:
            self._wait_once("change", lambda: self.inside)
            self.position = int(sample[0]) + 100
            self.changes += 1
            self.moved.notify_all()
        return sample * 2

    def _wait_once(self, what, until):
        if not hasattr(self.visited, what) and threading.active_count() > 2:
            setattr(self.visited, what, True)
            self.moved.wait_for(until, PATIENCE_SECONDS)


def noisy(sample, rng):
    """Draws as it should; no fault."""
    return sample + rng.random()


# Collates.


def stacked(samples):
    return np.stack(samples)


def shuffled(samples):
    random.shuffle(samples)
    return np.stack(samples)


class Numbered:
    """Numbers its batches as they come."""

    def __init__(self):
        self.number = 0

    def __call__(self, samples):
        self.number += 1
        return np.stack(samples), self.number


class OneBatch:
    """Gives its own memory, and writes it again."""

    def __init__(self):
        self.batches = {}

    def __call__(self, samples):
        batch = self.batches.setdefault(len(samples), np.zeros((len(samples), 4)))
        batch[:] = samples
        return batch


class SharedRows:
    """Collates in memory that all threads share."""

    def __init__(self):
        self.rows, self.overtaken = np.zeros((8, 4)), Meeting()

    def __call__(self, samples):
        self.rows[: len(samples)] = samples
        self.overtaken()
        return self.rows[: len(samples)].copy()


# Samplers.


def ascending(epoch, n):
    """No fault."""
    return range(n)


def permuted(epoch, n):
    return np.random.permutation(n)


def permuted_later(epoch, n):
    return np.random.permutation(n) if epoch else range(n)


def seeding(epoch, n):
    """Gives the same for the same epoch, and leaves its seed to everybody."""
    np.random.seed(epoch)
    return np.random.permutation(n)


class OneGenerator:
    """Goes on with its generator from epoch to epoch."""

    def __init__(self):
        self.generator = np.random.default_rng(7)

    def __call__(self, epoch, n):
        return self.generator.permutation(n)


def of_main_thread(epoch, n):
    here = threading.current_thread() is threading.main_thread()
    return range(n) if here else range(n - 1, -1, -1)


def by_hash(epoch, n):
    return sorted(range(n), key=lambda index: hash(f"{index}"))


class TurnedOnce:
    """Gives another order from its third call on, and by the time it is looked at always that."""

    def __init__(self):
        self.calls = itertools.count()

    def __call__(self, epoch, n):
        return range(n) if next(self.calls) < 2 else range(n - 1, -1, -1)
