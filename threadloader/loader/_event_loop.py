"""Whether the thread that asks runs an event loop, as in a coroutine or a notebook."""

from __future__ import annotations

import sys

__all__ = ["in_event_loop"]


def in_event_loop() -> bool:
    """Tell whether the calling thread runs one of asyncio's: none can be run inside of it.

    In a worker `asyncio.run` works. So user code that calls it, in a read say, must not be run in
    such a thread by the loader's own choice.
    """
    # It runs none before the module is there; nor, with another thread importing it, all of it.
    running = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    return running is not None and running() is not None
