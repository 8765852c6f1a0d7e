"""Several things closed, each of them even when closing another one raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["close_all"]


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
