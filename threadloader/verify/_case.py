"""`Case`: the config with what was given in code, and how its source and batches are opened."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._command_line import given_by
from ..config import LoaderConfig
from ..errors import LoaderError, by_handler, from_signal
from ..jobs import samples_of
from ..loader import Batches, Loader, based, open_configured, read_by, transform_of, unlisted
from ..sources import as_source, fingerprint, stamp
from ..transforms import OffersMany, Transform, bind
from ._plan import Leg

__all__ = ["CODE", "PARTS", "Case", "hurried", "passing_over"]

PARTS = ("source", "transform", "collate")
"""The parts that a user may give in code and several threads call, so that a lock may help."""

CODE = (*PARTS, "sampler")
"""All parts that a user may give in code, and that may be to blame. One thread calls a sampler."""

HURRY_SECONDS = 1e-6
"""The switch interval of a hurried run: threads take turns about as often as they can."""


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Let threads take turns as often as they can, so that rare interleavings come sooner."""
    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(HURRY_SECONDS)  # a Ctrl-C may land right behind it
        yield
    finally:
        sys.setswitchinterval(before)


@contextlib.contextmanager
def passing_over() -> Iterator[None]:
    """Pass over what the user's code raises, but not what a signal handler does."""
    try:
        yield
    except Exception as error:
        if from_signal(error):
            raise


class Case:
    """The config and the parts given in code in its place, each as `run` takes them.

    Each run has its own workers, prefetch and number of epochs in place of the config's.
    """

    def __init__(
        self,
        config: LoaderConfig,
        base: Path,
        source: Callable[[], Any] | None = None,
        transform: Callable[..., Any] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        sampler: Any = None,
    ) -> None:
        self.config = config
        self.transform = transform
        self.collate = collate
        self.sampler = sampler
        self._base = base
        self._opener = source
        # The user's source that was opened last, if it has close(). It is closed when the next
        # one has come, unless that is the same object: then it is closed once, at the end.
        self._opened: Any = None

    @property
    def source_in_code(self) -> bool:
        """Whether the source is the user's, and not one of ours that the config names."""
        return self._opener is not None

    @property
    def retries(self) -> int:
        """How often a sample that fails is tried again."""
        policy = self.config.on_error
        return 0 if isinstance(policy, str) else int(policy["retry"])

    def stamp(self) -> str:
        """Give a text that changes when files of the config's source are written to; else ""."""
        if self.source_in_code or self.config.source is None:
            return ""
        try:
            return stamp(self.config.source, self._base, self.config.root, written=True)
        except (LoaderError, OSError) as error:  # opening says what is wrong
            if by_handler(error):
                raise
            return "no such files"

    def bound_transform(self) -> Transform | None:
        """Give the transform, in code or of the config, as the loader calls it, or None."""
        return bind(transform_of(self.config, self.transform))

    @contextlib.contextmanager
    def source(self) -> Iterator[Any]:
        """Open the source, as for one run."""
        if self._opener is not None:
            try:
                given = given_by(self._opener)
            except Exception as error:
                if self._opened is None or from_signal(error):
                    raise
                self.close()  # perhaps a process may open it only once, as with LMDB
                given = given_by(self._opener)
            if given is not self._opened:
                self.close()
            self._opened = given if callable(getattr(given, "close", None)) else None
            yield as_source(given)
            return
        opened = open_configured(self.config.source or {}, self._base, self.config.root)
        try:
            yield opened
        finally:
            opened.close()

    def close(self) -> None:
        """Close the user's source that is still open. A second time does nothing."""
        given, self._opened = self._opened, None
        if given is not None:
            with passing_over():
                given.close()

    @contextlib.contextmanager
    def batches(self, leg: Leg, guarded: Iterable[str] = ()) -> Iterator[Batches]:
        """Open the batches of a leg; one lock is around every call of the `guarded` parts."""
        config = dataclasses.replace(
            unlisted(self.config),
            num_workers=leg.workers,
            prefetch_batches=leg.depth,
            num_epochs=None,
            # Else a run would be given what another one has kept, and the user's cache be filled.
            cache=None,
            # A StalledError comes between two batches: it would shift all that follow.
            stall_action="log",
        )
        lock = threading.Lock()
        transform, collate = self.transform, self.collate
        if transform is not None and "transform" in guarded:
            several = isinstance(bind(transform), OffersMany)
            transform = (_GuardedSeveral if several else _guarded)(transform, lock)
        if collate is not None and "collate" in guarded:
            collate = _guarded(collate, lock)
        with contextlib.ExitStack() as stack:
            if leg.hurried:
                stack.enter_context(hurried())
            source = stack.enter_context(self.source())
            if "source" in guarded:
                source = _GuardedSource(source, lock)
            given = {"transform": transform, "collate": collate, "sampler": self.sampler}
            loader = Loader(config, source, **given)
            opened = None if self.source_in_code else ""
            yield stack.enter_context(based(loader, self._base, opened=opened))

    def reader(self, source: Any) -> Callable[[int], Any]:
        """Give a function that reads one sample, by the source's method that the loader uses."""
        plain = self.collate is None and self.config.collate["type"] == "stack"
        changed = self.transform is not None or self.config.transform is not None
        whole = read_by(source, plain=plain and not changed)
        if whole == "take":
            return lambda index: source.take(np.array([index], np.int64))
        if whole == "getitems":
            return lambda index: samples_of(source, [index])[0]
        return lambda index: source[index]


def _guarded(function: Callable[..., Any], lock: threading.Lock) -> Callable[..., Any]:
    @functools.wraps(function)  # the loader looks whether it has a parameter rng
    def locked(*args: Any, **options: Any) -> Any:
        with lock:
            return function(*args, **options)

    return locked


class _GuardedSeveral:
    """A transform that offers ``many``, called by one thread at a time."""

    def __init__(self, given: Any, lock: threading.Lock) -> None:
        self._given = given
        self._lock = lock

    def __call__(self, *args: Any, **options: Any) -> Any:
        with self._lock:
            return self._given(*args, **options)

    def many(self, samples: Any, key: int, positions: Any) -> list[Any]:
        with self._lock:
            return list(self._given.many(samples, key, positions))


class _GuardedSource:
    """A source that is read by one thread at a time."""

    def __init__(self, source: Any, lock: threading.Lock) -> None:
        self._source = source
        self._lock = lock
        for name in ("take", "__getitems__", "locate"):
            if hasattr(source, name):  # only then: the loader looks whether a source has them
                setattr(self, name, _guarded(getattr(source, name), lock))

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        with self._lock:
            return self._source[index]

    def fingerprint(self) -> str:
        return fingerprint(self._source)
