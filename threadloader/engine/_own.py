"""Which engine a thread belongs to: waiting there for that engine's end would never end."""

from __future__ import annotations

import threading

__all__ = ["here", "inside"]


class _Here(threading.local):
    # Of the class: each `next` looks here, and a miss takes ten times as long as this.
    shared: object = None


here = _Here()
"""In our threads, `here.shared` is what the threads of their engine share; elsewhere None."""


def inside(shared: object) -> bool:
    """Tell whether the calling thread is one of those that share this."""
    return here.shared is shared
