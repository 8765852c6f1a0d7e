"""The turn: one thread at a time asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..errors import BusyError
from ._failure import ITS_OWN
from ._supply import Supply

__all__ = ["Turn", "is_free"]


class Turn:
    """The right to ask, which one thread has at a time.

    A thread takes it by trying its lock, and gives it back by putting a new lock in place: a store,
    since a call to release the lock could be interrupted after the delivery. So it writes::

        fresh = turn.take()
        try:
            turn.inside = True
            ...
        finally:
            turn.inside, turn.lock = False, fresh

    Its own thread may take the lock again, so an interrupt right after the taking does not shut
    that thread out (others are refused until it has asked once more). `inside` says that
    somebody is at work under it, so that nobody is let in twice.

    Attributes:
        new: makes a lock.
        lock: the present one; written by the thread that has the turn.
        inside: whether somebody is at work under it; likewise.
    """

    __slots__ = ("_supply", "inside", "lock", "new")

    def __init__(self, new: Callable[[], Any], supply: Supply) -> None:
        self.new = new
        self.lock = new()
        self.inside = False
        self._supply = supply

    def take(self) -> Any:
        """Take the turn.

        Returns:
            The lock to put in its place when leaving.

        Raises:
            BusyError: another thread has it, or this one has, further up its stack; or this is one
                of the loader's own threads.
            ClosedError: the ``with`` was left.
            WorkerError: a thread of the loader's own has failed.
        """
        if self._supply.inside():  # refused here: with the turn it would keep the loop out
            self._supply.check_open()
        fresh = self.new()
        if not self.lock.acquire(blocking=False) or self.inside:
            self.refuse()
        return fresh

    def refuse(self) -> NoReturn:
        """Say why the turn is not to be had.

        Raises:
            BusyError, ClosedError, WorkerError: as of `take`; always one of them.
        """
        self._supply.check_open()
        if self.is_mine():
            raise BusyError(ITS_OWN)
        raise BusyError(
            "another thread is using these batches; they serve one at a time: "
            "put a lock around next(), or give each thread a Loader with its own shard"
        )

    def is_mine(self) -> bool:
        """Tell whether this thread is at work under the turn, further up."""
        # The lock is read before `inside`: if another thread's turn ends in between, this lock
        # stays held by it. Read after, it could be the free lock of the next turn, and `inside`
        # that of the turn which has ended.
        lock = self.lock
        return self.inside and is_free(lock)

    def forked(self) -> bool:
        """In a forked child: give the turn back if another thread had it; tell whether one had."""
        if is_free(self.lock):  # nobody had it, or the thread that has forked
            return False
        self.inside, self.lock = False, self.new()
        return True


def is_free(lock: Any) -> bool:
    """Tell whether no other thread has a lock of `Runtime.turn`."""
    free: bool = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free
