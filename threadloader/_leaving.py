"""How a process ends that was started to answer one question, by user code."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn

__all__ = ["leave"]


def leave() -> NoReturn:
    """End this process, whose answer has been given, without waiting for what user code has left.

    Python itself would wait for threads, however long they run; they end with the process. Of
    its other processes those that wait for work from here would never end, so they are ended.
    What is to be done at the exit is done, as to remove a temporary folder.
    """
    multiprocessing = sys.modules.get("multiprocessing")  # where nobody did, it has none
    if multiprocessing is not None:
        for left in multiprocessing.active_children():
            left.terminate()
    atexit._run_exitfuncs()
    os._exit(0)
