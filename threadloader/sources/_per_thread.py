"""A source of its own for each thread: for objects that threads must not share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from threadloader.errors import ClosedError, ConfigError, Problem

from ._closing import close_all

__all__ = ["PerThread"]

_OPTIONAL = ("take", "take_into", "__getitems__", "column", "fingerprint")
"""Methods that the objects may offer, each asked of the calling thread's own."""

_OF_OPEN = ("sample_bytes", "locate")
"""What is asked of the calling thread's object if it has one, and never opens one: neither the
size of a sample nor where a failed one stands is worth that, and opening may wait for ever."""

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

    All is written under the lock of its `_Process`. ``closed`` is also read without
    it: it goes from False to True once, and a thread that reads it too early goes on
    with the object that it holds, as if it had come a moment before.
    """

    def __init__(self, opener: int) -> None:
        self.opener = opener
        self.forks = _forks
        self.length: int | None = None
        self.made: list[Any] = []
        self.closed = False


class _Process:
    """What a process has made.

    A fork begins with none. What its parent made has one place in a file for both of them, and
    perhaps a lock that is held by a thread which the fork has not: it is not even closed there.
    """

    def __init__(self) -> None:
        # Guards the opening and what is in it. A raw lock, held for a few lines of
        # our own: no factory, no close() and no waiting inside.
        self.lock = threading.Lock()
        self.opening: _Opening | None = None


class PerThread:
    """A source over objects that a factory makes, one in each thread that reads.

    It is made by `threadloader.sources.per_thread`. An object is made at a thread's
    first use; what else than ``len`` and ``[]`` is offered (``take``, ``take_into``,
    ``__getitems__``, ``column``, ``fingerprint``) is what the objects offer. ``sample_bytes``
    and ``locate`` are what the calling thread's object offers: without one there is neither.

    Args:
        factory: makes an object; what it raises is passed on.
        adapt: makes a source of such an object.

    Raises:
        ConfigError: the factory cannot be called.
    """

    def __init__(self, factory: Callable[[], Any], adapt: Callable[[Any], Any]) -> None:
        if not callable(factory):
            raise ConfigError(
                Problem(
                    "source",
                    "a callable without arguments in per_thread",
                    type(factory).__name__,
                    "give the function that opens the source, not what it gives",
                )
            )
        self._factory = factory
        self._adapt = adapt
        self._local = threading.local()
        # By `_forks`. Kept of the parents as well, whose objects would else be freed here,
        # which closes some. Two threads at once get the same one: a dict's setdefault is whole.
        self._processes = {_forks: _Process()}
        self._lent = False  # under the lock of the process

    def lend(self) -> PerThread:
        """Give a source to somebody who closes it: this one, or one of its own if it has a user.

        Two loaders at once, for training and for testing, say, each close theirs.
        """
        with self._here().lock:
            lent, self._lent = self._lent, True
        return PerThread(self._factory, self._adapt).lend() if lent else self

    def _here(self) -> _Process:
        return self._processes.get(_forks) or self._processes.setdefault(_forks, _Process())

    def mine(self) -> Any:
        """Give the calling thread's own source, made now if this is its first use.

        Raises:
            ClosedError: this was closed, and the thread is left over from before.
        """
        opening = self._known()
        if opening is not None and not opening.closed:
            return self._local.source
        thread, here = threading.get_ident(), self._here()
        with here.lock:
            if here.opening is None:
                # A worker that comes back late from a slow read must not open
                # again what nobody would close; the thread that opened may.
                if opening is not None and opening.opener != thread:
                    raise ClosedError(
                        "this source was closed while a thread still read from it; "
                        "the thread that opened it can use it again"
                    )
                here.opening = _Opening(thread)
            opening = here.opening
        made = self._factory()
        with here.lock:
            late = opening.closed
            if not late:
                opening.made.append(made)
        if late:
            _close(made)
            raise ClosedError("this source was closed while a thread still opened its part of it")
        self._local.source = self._adapt(made)
        self._local.opening = opening
        return self._local.source

    def _known(self) -> _Opening | None:
        """Give the opening that the calling thread's own source is of, if it has one."""
        opening: _Opening | None = getattr(self._local, "opening", None)
        return opening if opening is not None and opening.forks == _forks else None

    def __len__(self) -> int:
        here = self._here()
        # Counted once, by the thread that opens: no other needs an object for it.
        with here.lock:
            known = None if here.opening is None else here.opening.length
        if known is not None:
            return known
        length = len(self.mine())
        opening: _Opening = self._local.opening
        with here.lock:
            opening.length = length
        return length

    def __getitem__(self, index: int) -> Any:
        return self.mine()[index]

    def __getattr__(self, name: str) -> Any:
        """Give what the objects offer; a method is bound to no thread."""
        own = self.mine if name in _OPTIONAL else self._open if name in _OF_OPEN else None
        offered = None if own is None else getattr(own(), name, None)
        if name == "sample_bytes" and offered is not None:
            return offered
        if own is None or not callable(offered):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def method(*args: Any) -> Any:
            return getattr(own(), name)(*args)  # of the thread that calls it

        return method

    def _open(self) -> Any:
        """Give the calling thread's own source, if it has one that is open.

        Raises:
            AttributeError: it has none, so that what would be asked of it is not offered.
        """
        opening = self._known()
        if opening is None or opening.closed:
            raise AttributeError("expected a thread that has read here, got one without an object")
        return self._local.source

    def close(self) -> None:
        """Close each object that the factory made, if it has ``close()``.

        It runs in the thread that closes the loader, not in the one that made the
        object. Each is closed even when one of them raises; the last exception is
        raised, with the others as its context. Harmless when nothing is open. A fork
        closes what it made itself, and nothing of its parent's.
        """
        here = self._here()
        with here.lock:
            opening, here.opening, self._lent = here.opening, None, False
            if opening is None:
                return
            opening.closed = True
            made, opening.made = opening.made, []
        # A map of a file stays open as long as something refers to it.
        self._local.source = None
        close_all([partial(_close, each) for each in made])


def _close(made: Any) -> None:
    close = getattr(made, "close", None)
    if callable(close):
        close()
