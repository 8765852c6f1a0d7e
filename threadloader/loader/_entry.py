"""Who has entered a loader, and what one of its own threads has left there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _runtime
from .._runtime import Lock, Runtime
from ..errors import BusyError

if TYPE_CHECKING:
    from ._batches import Batches

__all__ = ["Door"]


class Door:
    """Lets one user in at a time.

    Whoever leaves names the batches they leave, and the next one is let in only if those are still
    the open ones: two threads may both close what one of the loader's own threads has left behind,
    and when the second is done, the first may have entered again.

    Args:
        runtime: where locks come from.

    Attributes:
        batches: what is open, or None. Written by whoever is in, and by `let_in`.
        inside: who is in, or None. Written under the lock.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._turn = runtime.turn
        self._forks = _runtime.forks
        self._lock: Lock = runtime.turn()
        self.batches: Batches | None = None
        self.inside: object | None = None
        # Written under the lock: whether one of the loader's own threads has left. It cannot wait
        # for itself, so whoever enters next closes the batches.
        self._unclosed = False

    def _guard(self) -> Lock:
        """Give the lock. It may be taken again: a signal's handler in its lines may leave."""
        if self._forks != _runtime.forks:  # the thread that held it may be missing in this child
            self._lock, self._forks = self._turn(), _runtime.forks
        return self._lock

    def let_out(self, batches: Batches, *, unclosed: bool) -> None:
        """Note that somebody leaves, and whether they cannot close the batches themselves."""
        with self._guard():
            if self.batches is batches:
                self._unclosed = unclosed

    def unclosed(self) -> Batches | None:
        """Give the batches that must be closed before anybody enters; None if there are none."""
        with self._guard():
            return self.batches if self._unclosed else None

    def enter(self, who: object) -> None:
        """Let somebody in.

        Raises:
            BusyError: somebody is in.
        """
        with self._guard():
            if self.inside is not None:
                text = "this Loader is open already; make another for a second user, or leave it "
                text += "first: without a `with`, by loader.__exit__(None, None, None)"
                if self.batches is not None and self.batches._closed_at is not None:
                    text = "this Loader is closed, but its `with` is not left yet; leave it first, "
                    text += "or, without a `with`, call loader.__exit__(None, None, None)"
                elif self.batches is not None and self.batches._run.forks != _runtime.forks:
                    text = "this Loader was open when this process was forked; make another here: "
                    text += "copy.copy(loader)"
                raise BusyError(text)
            self.inside, self._unclosed = who, False

    def let_in(self, batches: Batches | None) -> None:
        """Let the next one in, now that these batches are closed, unless somebody is in by now."""
        with self._guard():
            if self.batches is batches:
                self.batches = self.inside = None
