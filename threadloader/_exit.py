"""Ends a process that has run user code, without waiting for the threads and processes it left."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from typing import NoReturn

__all__ = ["leave"]

_PATIENCE_SECONDS = 1.0
"""How long processes may take to end, all together, when they were told to."""


def leave(code: int = 0) -> NoReturn:
    """End this process, whose answer has been given, without waiting for what user code has left.

    Python itself would wait for threads, however long they run; they end with the process. Child
    processes that wait for work from here would never end, so they are ended. Exit functions
    are called, such as those that remove a temporary folder.
    """
    try:
        multiprocessing = sys.modules.get("multiprocessing")  # there are no children without it
        if multiprocessing is not None:
            # multiprocessing ends its daemons itself, a pool's in their order: one of them may hold
            # the lock of a queue that an exit function waits for.
            children = [each for each in multiprocessing.active_children() if not each.daemon]
            for child in children:
                child.terminate()
            deadline = time.monotonic() + _PATIENCE_SECONDS
            for child in children:
                child.join(max(0.0, deadline - time.monotonic()))
                if child.is_alive():  # it has a handler of its own; the exit functions would wait
                    child.kill()
        atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.__stdout__, sys.stderr)):
            with contextlib.suppress(Exception):  # it is closed, or nobody reads it any more
                stream.flush()
    finally:  # whatever came in between, as a Ctrl-C
        os._exit(code)
