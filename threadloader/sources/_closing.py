"""Several things closed, each even when closing another raises; and what is closed, told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from threadloader.errors import ClosedError

__all__ = ["close_all", "closed_error"]


def close_all(closes: Sequence[Callable[[], object]]) -> None:
    """Call each of these, one after the other.

    Args:
        closes: what closes the things.

    Raises:
        BaseException: the last that they raise, with the others as its context.
    """
    # By halves: so the interpreter itself chains what they raise, in a few frames that hold
    # none of it. An ExitStack keeps the exception in its own frame, and all of this in a cycle.
    if len(closes) > 1:
        middle = len(closes) // 2
        try:
            close_all(closes[:middle])
        finally:
            close_all(closes[middle:])
    elif closes:
        closes[0]()


def closed_error(path: object) -> ClosedError:
    """Give what is raised where a source that has been closed is read."""
    return ClosedError(f"{path}: expected an open source, got one that has been closed")
