"""Which engine a thread belongs to: waiting there for that engine's end would never end."""

from __future__ import annotations

import threading

__all__ = ["here", "inside"]

here = threading.local()
"""In our threads, `here.shared` is what the threads of their engine share."""


def inside(shared: object) -> bool:
    """Tell whether the calling thread is one of those that share this."""
    return getattr(here, "shared", None) is shared
