"""Which engine a thread belongs to: waiting there for that engine's end would never end."""

from __future__ import annotations

import threading
from typing import Any

from .. import _runtime

__all__ = ["end_if_forked", "forked", "here"]


class _Here(threading.local):
    # Of the class: each `next` looks here, and a miss takes ten times as long as this.
    shared: object = None


here = _Here()
"""In our threads, `here.shared` is what the threads of their engine share; elsewhere None."""


def forked(shared: Any) -> bool:
    """Tell whether this process is a fork of the one whose threads share this."""
    return bool(shared.forks != _runtime.forks)


def end_if_forked(shared: Any, error: BaseException | None) -> None:
    """End the calling thread in a child that was forked in it, and that has no other one.

    There is nobody to wait for, and a lock of another thread's may be held for ever. What
    the code has raised that forked it gets out, as it would from a thread of the user's own.
    """
    if shared.forks != _runtime.forks:
        raise SystemExit if error is None else error
