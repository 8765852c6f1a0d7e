"""A source of its own for each thread: for objects that threads must not share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import ClosedError, ConfigError, Problem, from_signal, misfit
from ._closing import close_each

__all__ = ["PerThread"]

_OPTIONAL = ("take", "take_into", "__getitems__", "column", "fingerprint")
"""Methods that the objects may offer; each call goes to the calling thread's own object."""

_OF_OPEN = ("sample_bytes", "locate")
"""Asked of the calling thread's open object only: not worth opening one, which may take long."""

_forks = 0
"""How many forks lie between the process that imported this and the current one. Counted, since
each read asks for it, and a call of the system for that may cost as much as the read."""


def _forked() -> None:
    global _forks  # noqa: PLW0603 - in a process that has one thread yet
    _forks += 1


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows cannot fork
    os.register_at_fork(after_in_child=_forked)


class _Opening:
    """The time from one opening of the source to the next close, for all threads.

    Its attributes have no lock. ``closed`` goes from False to True once, and a thread that reads
    False just before that goes on with its object, as if it had come a moment earlier. Threads
    that write ``length`` at the same time all write the same number. ``lent`` is the lock that its
    user holds, written by `PerThread.lend`; None where it is nobody's.
    """

    def __init__(self, opener: int) -> None:
        self.opener = opener
        self.lent: Any = None
        self.forks = _forks
        self.length: int | None = None
        self.closed = False


class _Part:
    """One thread's share of an opening: its object, and the source made of it; None once closed.

    The thread holds the lock during each call of the object, and so does a thread that closes it.
    Closing only tries the lock: it never waits for a read. Reentrant: a call may close inside.
    """

    def __init__(self, opening: _Opening) -> None:
        self.opening = opening
        self.made: Any = None
        self.source: Any = None
        self.lock = threading.RLock()
        self.closing = False  # whether a close of the object has begun; written under the lock

    def close(self) -> bool:
        """Close the object, if it is open; False if another thread is in a call of it."""
        if not self.lock.acquire(blocking=False):
            return self.closing  # True: the thread that holds the lock is closing the object
        # Nested: called by a signal handler or finalizer during a close, which goes on after this.
        nested, over = self.closing, False
        try:
            if not nested:
                self.closing = True
                if callable(close := getattr(self.made, "close", None)):
                    close()
                over = True
        except BaseException as error:
            # An exception of a signal handler may have come before anything was closed.
            over = not from_signal(error)
            raise
        finally:
            if over:
                self.made = self.source = None
            self.closing = nested
            self.lock.release()
        return True


class _Process:
    """What one process has opened.

    A fork begins with none. Objects that its parent made share their place in a file with the
    parent, and may hold locks of threads that the fork does not have: it does not even close them.
    """

    def __init__(self) -> None:
        # Held while the opening is looked at and replaced: no factory, no close() and no waiting
        # inside. Closing waits neither for this lock nor for another: `_closing` says why.
        self.lock = threading.Lock()
        self.opening: _Opening | None = None
        self.parts: dict[_Part, None] = {}

    def end(self, part: _Part, warnings: list[str]) -> None:
        """Close a part, or leave it to a thread in a call of it, and add that to ``warnings``."""
        kind, left = type(part.made).__name__, False
        try:
            left = not part.close()
        finally:
            if left or part.made is None:  # after an interrupt it stays: the next close takes it
                self.parts.pop(part, None)
        if left:
            warnings.append(
                f"per_thread: an object of the class {kind} stays open, since a thread is still "
                "in a call of it; that closes it when it comes back"
            )


class PerThread:
    """A source over objects that a factory makes, one in each thread that reads.

    It is made by `threadloader.sources.per_thread`; ``adapt`` makes a source of such an object.
    A thread's object is made at its first use. Beyond ``len`` and ``[]`` this offers those of
    ``take``, ``take_into``, ``__getitems__``, ``column`` and ``fingerprint`` that the objects
    offer. ``sample_bytes`` and ``locate`` are those of the calling thread's object: a thread
    without one has neither.
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
        # By `_forks`. Those of the parents are kept too: a fork that freed their objects would
        # close some. Two threads at once get the same one: a dict's setdefault is atomic.
        self._processes = {_forks: _Process()}
        # Held while somebody uses this source; nobody waits for it. To give it back, `close` puts
        # a fresh lock in its place, which is atomic, and harmless a second time.
        self._lent = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how `copy` and `pickle` make another, which has no object yet, and no user."""
        return type(self), (self._factory, self._adapt)

    def lend(self) -> PerThread:
        """Give this source to a user who will close it, or a new one like it if this has a user.

        So two loaders at once, for training and testing, say, each close their own. If it is not
        open, the calling thread counts as the one that opens it, whatever it was under earlier
        users.
        """
        lent = self._lent  # read once: a close may replace it, and never frees it
        if not lent.acquire(blocking=False):
            return PerThread(self._factory, self._adapt).lend()
        here = self._here()
        with here.lock:
            if here.opening is None or here.opening.closed:
                here.opening = _Opening(threading.get_ident())
            here.opening.lent = lent
        return self

    def closer(self) -> Callable[[], None]:
        """Give what closes this for its present user: called again, it closes no later user's."""
        return partial(self.close, self._here().opening)

    def _here(self) -> _Process:
        return self._processes.get(_forks) or self._processes.setdefault(_forks, _Process())

    def mine(self) -> Any:
        """Give the calling thread's own source, made now if this is its first use.

        A thread that is left over from before a close gets a ClosedError, unless it was the opener
        or another thread has opened the source again.
        """
        return self._part().source

    def opened(self) -> bool:
        """Tell whether the calling thread's last opening did not fail, and forget a failure."""
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
                # A worker that comes back late from a slow read must not open the source
                # again, since nobody would close it; the thread that opened it may.
                if part is not None and part.opening.opener != thread:
                    raise _closed()
                here.opening = _Opening(thread)
            opening = here.opening
        part = _Part(opening)  # made first: an interrupt must not leave an object without one
        self._local.opens = True
        part.made = made = self._factory()
        here.parts[part] = None
        if opening.closed:
            close_each(here.end, [part])
            raise ClosedError("this source was closed while a thread still opened its part of it")
        part.source = self._adapt(made)  # part.made is None by now if it was closed
        self._local.part, self._local.opens = part, False
        return part

    def __len__(self) -> int:
        # Counted once for an opening: other threads then need no object for it.
        opening = self._here().opening
        known = None if opening is None or opening.closed else opening.length
        if known is not None:
            return known
        part = self._part()
        try:  # as in `__getitem__`; by this very code `length_of` knows that `len` has refused
            with part.lock:
                if part.opening.closed:
                    raise _closed()
                part.opening.length = length = len(part.source)
        finally:
            if part.opening.closed:
                part.close()
        return length

    # Written out in each of these: a call more costs a fifth of a cheap sample's time.
    def __getitem__(self, index: int) -> Any:
        part = self._part()
        try:
            with part.lock:
                if part.opening.closed:
                    raise _closed()
                return part.source[index]
        finally:
            # After the lock is released: either close() finds it free, or this sees `closed`.
            if part.opening.closed:
                part.close()

    def __getattr__(self, name: str) -> Any:
        """Give what the objects offer; a method calls the object of the thread that calls it."""
        own = self._part if name in _OPTIONAL else self._open if name in _OF_OPEN else None
        offered = None if own is None else getattr(own().source, name, None)
        if name == "sample_bytes" and offered is not None:
            return offered
        if own is None or not callable(offered):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def method(*args: Any) -> Any:
            part = own()  # of the thread that calls this method
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
        """Give the calling thread's part; an AttributeError if it has no open object."""
        part: _Part | None = getattr(self._local, "part", None)
        if part is None or part.opening.forks != _forks or part.opening.closed:
            raise AttributeError("expected a thread that has read here, got one without an object")
        return part

    def close(self, opening: _Opening | None = None) -> None:
        """Close each object that the factory made, if it has ``close()``.

        Each is closed even when one of them raises; the last exception is raised, with the others
        as its context. A fork closes what it made itself, not what its parent made. While another
        thread is in a call of an object, that object stays open, since its ``close()`` might wait:
        that thread closes it. What an interrupt leaves open, a second call closes. ``opening`` is
        the one that is to end, None for the present one.
        """
        present = (here := self._here()).opening
        unlent = present is not None and present.lent is None  # its user has closed, and read on
        if opening is None or opening.forks != _forks or unlent:
            opening = present
        if opening is not None:
            opening.closed = True
        # After the flag is set: else a new user would go on with what is closed a moment later.
        if opening is None or opening.lent in (None, self._lent):
            self._lent = threading.Lock()
        parts = [part for part in here.parts.copy() if part.opening.closed]
        close_each(here.end, parts)


def _closed() -> ClosedError:
    return ClosedError(
        "this source was closed while a thread still read from it; "
        "the thread that opened it can use it again"
    )
