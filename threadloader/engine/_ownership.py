"""Which engine a thread belongs to: waiting there for that engine's end would never end."""

from __future__ import annotations

import threading
from typing import Any

from .. import _runtime

__all__ = ["end_if_forked", "forked", "here"]


class _Here(threading.local):
    # In the class: each `next` reads it, and an attribute that is missing takes ten times as long.
    shared: object = None
    ended: object = None


here = _Here()
"""In our threads, `here.shared` is what the threads of their engine share; elsewhere None. A feeder
that may stop its engine itself, at its end, has it in `here.ended` instead."""


def forked(shared: Any) -> bool:
    """Tell whether this process is a fork of the one whose threads share this."""
    return bool(shared.forks != _runtime.forks)


def end_if_forked(shared: Any, error: BaseException | None) -> None:
    """End the calling thread if it is the only one left, in a child that was forked in it.

    There is nobody to wait for there, and another thread's lock may be held for ever. What the
    code that forked has raised gets out, as it would from a thread of the user's own.
    """
    if forked(shared):
        raise SystemExit if error is None else error
