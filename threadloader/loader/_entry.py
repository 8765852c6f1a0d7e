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
    """Lets one in at a time.

    Whoever leaves names the batches they leave, and nobody is let in unless those are still what is
    open: two threads may close what one of the loader's own has left behind, and when the second is
    done, the first may be in again.

    Args:
        runtime: where locks come from.

    Attributes:
        batches: what is open; None until it is. Written by who is in, and by `let_in`.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._turn = runtime.turn
        self._forks = _runtime.forks
        self._lock: Lock = runtime.turn()
        self.batches: Batches | None = None
        # Both written under the lock: who is in, or None; and whether one of the loader's own
        # threads has left, which cannot wait for itself, so that who enters next closes that.
        self._inside: object | None = None
        self._left = False

    def _guard(self) -> Lock:
        """Give the lock. It may be taken again: a signal's handler in its lines may leave."""
        if self._forks != _runtime.forks:  # whoever held it may not be there
            self._lock, self._forks = self._turn(), _runtime.forks
        return self._lock

    def let_out(self, batches: Batches, *, unclosed: bool) -> None:
        """Note whether somebody leaves what they cannot close."""
        with self._guard():
            if self.batches is batches:
                self._left = unclosed

    def unclosed(self) -> Batches | None:
        """Give what is to be closed before anybody enters."""
        with self._guard():
            return self.batches if self._left else None

    def enter(self, who: object) -> None:
        """Let somebody in.

        Raises:
            BusyError: somebody is in.
        """
        with self._guard():
            if self._inside is not None:
                text = "this Loader is open already; make another for a second user"
                if self.batches is not None and self.batches._closed_at is not None:
                    text = "this Loader is closed, but its `with` is not left yet; leave it first, "
                    text += "or, without a `with`, call loader.__exit__(None, None, None)"
                elif self.batches is not None and self.batches._run.forks != _runtime.forks:
                    text = "this Loader was open when this process was forked; make another here: "
                    text += "copy.copy(loader)"
                raise BusyError(text)
            self._inside, self._left = who, False

    def has(self, who: object) -> bool:
        """Tell whether it is they who are in."""
        return self._inside is who

    def let_in(self, batches: Batches | None) -> None:
        """Let the next one in, if nobody is by now: these have been closed."""
        with self._guard():
            if self.batches is batches:
                self.batches = self._inside = None
