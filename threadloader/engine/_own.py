"""Whose a thread is: one of an engine's own cannot wait for that engine's end."""

from __future__ import annotations

import threading

__all__ = ["here", "inside"]

here = threading.local()
"""In our threads, `shared` says whose they are."""


def inside(shared: object) -> bool:
    """Tell whether the calling thread is one of those that share this."""
    return getattr(here, "shared", None) is shared
