"""A source of its own for each thread: for objects that threads must not share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from ..errors import ClosedError, ConfigError, Problem, from_signal, misfit
from ._closing import close_each

__all__ = ["PerThread"]

_OPTIONAL = ("take", "take_into", "__getitems__", "column", "fingerprint")
"""Methods that the objects may offer, each asked of the calling thread's own."""

_OF_OPEN = ("sample_bytes", "locate")
"""Asked of the calling thread's object if it has one: none is worth an opening, which may wait."""

_forks = 0
"""How many forks lie between the process that imported this and the one that it is in. Counted
since it is asked at each read, and a call of the system for that may cost as much as the read."""


def _forked() -> None:
    global _forks  # noqa: PLW0603 - in a process that has one thread yet
    _forks += 1


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_forked)


class _Opening:
    """What was made from one opening to the next close.

    Nothing here has a lock. ``closed`` goes from False to True once, and a thread that reads it
    too early goes on with the object that it holds, as if it had come a moment before. Threads
    that write ``length`` at once have all counted the same.
    """

    def __init__(self, opener: int) -> None:
        self.opener = opener
        self.forks = _forks
        self.length: int | None = None
        self.closed = False


class _Part:
    """What one thread has of an opening: an object, and the source made of it; None once closed.

    Its thread holds the lock in each call of the object, and whoever closes it does then, which
    so need not wait for a read that never ends. Reentrant: one may close inside of a call.
    """

    def __init__(self, opening: _Opening) -> None:
        self.opening = opening
        self.made: Any = None
        self.source: Any = None
        self.lock = threading.RLock()
        self.closing = False  # whether a close of the object has begun; written under the lock

    def close(self) -> bool:
        """Close the object, if it is open; say whether no other thread is in a call of it."""
        if not self.lock.acquire(blocking=False):
            return self.closing  # then it closes the object, and is in no other call of it
        # A signal's handler, or a finalizer, in the middle of that: it goes on after this.
        nested, over = self.closing, False
        try:
            if not nested:
                self.closing = True
                _close(self.made)
                over = True
        except BaseException as error:
            # What a signal handler raises may have come before anything was closed.
            over = not from_signal(error)
            raise
        finally:
            if over:
                self.made = self.source = None
            self.closing = nested
            self.lock.release()
        return True


class _Process:
    """What a process has made.

    A fork begins with none. Objects that its parent made share their place in a file with it, and
    may hold locks of threads that do not exist in the fork: they are not even closed there.
    """

    def __init__(self) -> None:
        # Held while the opening is looked at and replaced: no factory, no close() and no waiting
        # inside. Closing needs neither it nor another: `_closing` says why.
        self.lock = threading.Lock()
        self.opening: _Opening | None = None
        self.parts: dict[_Part, None] = {}

    def end(self, part: _Part, told: list[str]) -> None:
        """Close an object, or leave it to its thread, if that is in a call of it, and tell so."""
        kind, left = type(part.made).__name__, False
        try:
            left = not part.close()
        finally:
            if left or part.made is None:  # or else an interrupt came: it is closed the next time
                self.parts.pop(part, None)
        if left:
            told.append(
                f"per_thread: an object of the class {kind} stays open, since a thread is still "
                "in a call of it; that closes it when it comes back"
            )


class PerThread:
    """A source over objects that a factory makes, one in each thread that reads.

    It is made by `threadloader.sources.per_thread`; ``adapt`` makes a source of such an object.
    An object is made at a thread's first use. Beyond ``len`` and ``[]`` it offers those of
    ``take``, ``take_into``, ``__getitems__``, ``column`` and ``fingerprint`` that the objects
    offer. ``sample_bytes`` and ``locate`` are those of the calling thread's object: without one
    there is neither.
    """

    def __init__(self, factory: Callable[[], Any], adapt: Callable[[Any], Any]) -> None:
        advice = "give the function that opens the source, not what it gives"
        got: tuple[str, str] | None = type(factory).__name__, advice
        if callable(factory):
            got = misfit(factory, "say what it needs here, as in per_thread(lambda: opened(path))")
        if got is not None:
            expected = "a callable without arguments in per_thread"
            raise ConfigError(Problem("source", expected, *got))
        self._factory = factory
        self._adapt = adapt
        self._local = threading.local()
        # By `_forks`. Kept of the parents as well, whose objects would else be freed here,
        # which closes some. Two threads at once get the same one: a dict's setdefault is whole.
        self._processes = {_forks: _Process()}
        # Taken by the user that this has; nobody waits for it. It is given back by putting a fresh
        # one in its place, which is whole, and harmless a second time.
        self._lent = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how `copy` and `pickle` make another: that has no object yet, and no user."""
        return type(self), (self._factory, self._adapt)

    def lend(self) -> PerThread:
        """Give a source to somebody who closes it: this one, or one of its own if it has a user.

        Two loaders at once, for training and for testing, say, each close theirs. The thread that
        asks opens it, whatever it was to those who had it before.
        """
        if not self._lent.acquire(blocking=False):
            return PerThread(self._factory, self._adapt).lend()
        here = self._here()
        with here.lock:
            if here.opening is None or here.opening.closed:
                here.opening = _Opening(threading.get_ident())
        return self

    def _here(self) -> _Process:
        return self._processes.get(_forks) or self._processes.setdefault(_forks, _Process())

    def mine(self) -> Any:
        """Give the calling thread's own source, made now if this is its first use.

        A thread that is left over from before a close gets a ClosedError.
        """
        return self._part().source

    def opened(self) -> bool:
        """Tell whether the calling thread's last opening did not fail. Asked, it is forgotten."""
        failed, self._local.opens = getattr(self._local, "opens", False), False
        return not failed

    def _part(self) -> _Part:
        part: _Part | None = getattr(self._local, "part", None)
        if part is not None and part.opening.forks != _forks:
            part = None
        if part is not None and not part.opening.closed:
            return part
        thread, here = threading.get_ident(), self._here()
        with here.lock:
            if here.opening is None or here.opening.closed:
                # A worker that comes back late from a slow read must not open
                # again what nobody would close; the thread that opened may.
                if part is not None and part.opening.opener != thread:
                    raise _closed()
                here.opening = _Opening(thread)
            opening = here.opening
        part = _Part(opening)  # before there is an object that an interrupt could leave open
        self._local.opens = True
        part.made = made = self._factory()
        here.parts[part] = None
        if opening.closed:
            close_each(here.end, [part])
            raise ClosedError("this source was closed while a thread still opened its part of it")
        part.source = self._adapt(made)  # not the part's: that is None as soon as it is closed
        self._local.part, self._local.opens = part, False
        return part

    def __len__(self) -> int:
        # Counted once, by the thread that opens: no other needs an object for it.
        opening = self._here().opening
        known = None if opening is None or opening.closed else opening.length
        if known is not None:
            return known
        part = self._part()
        part.opening.length = length = len(part.source)
        return length

    def __getitem__(self, index: int) -> Any:
        part = self._part()
        try:
            with part.lock:
                if part.opening.closed:
                    raise _closed()
                return part.source[index]
        finally:
            # With the lock let go: whoever closes sees that, or it is seen here that they did.
            if part.opening.closed:
                part.close()

    def __getattr__(self, name: str) -> Any:
        """Give what the objects offer; a method is bound to no thread."""
        own = self._part if name in _OPTIONAL else self._open if name in _OF_OPEN else None
        offered = None if own is None else getattr(own().source, name, None)
        if name == "sample_bytes" and offered is not None:
            return offered
        if own is None or not callable(offered):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def method(*args: Any) -> Any:
            part = own()  # of the thread that calls it
            try:
                with part.lock:
                    if part.opening.closed:
                        raise _closed()
                    return getattr(part.source, name)(*args)
            finally:  # as in __getitem__
                if part.opening.closed:
                    part.close()

        return method

    def _open(self) -> _Part:
        """Give what the calling thread has; an AttributeError without an open object."""
        part: _Part | None = getattr(self._local, "part", None)
        if part is None or part.opening.forks != _forks or part.opening.closed:
            raise AttributeError("expected a thread that has read here, got one without an object")
        return part

    def close(self) -> None:
        """Close each object that the factory made, if it has ``close()``.

        Each is closed even when one of them raises; the last exception is raised, with the others
        as its context. A fork closes what it made itself, and nothing of its parent's. An object
        that another thread is in a call of stays open, since its ``close()`` might wait: that
        thread closes it. What an interrupt leaves open, a second time closes.
        """
        here = self._here()
        opening = here.opening
        if opening is not None:
            opening.closed = True
        # Behind that: who borrows it now would else go on with what is closed a moment later.
        self._lent = threading.Lock()
        parts = [part for part in here.parts.copy() if part.opening.closed]
        close_each(here.end, parts)


def _close(made: Any) -> None:
    close = getattr(made, "close", None)
    if callable(close):
        close()


def _closed() -> ClosedError:
    return ClosedError(
        "this source was closed while a thread still read from it; "
        "the thread that opened it can use it again"
    )
