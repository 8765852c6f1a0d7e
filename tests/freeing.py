"""When an object that nobody refers to is gone."""

import gc
import sys


def free_at_once() -> None:
    """Free what nobody refers to, where the interpreter has put that off.

    Without the GIL, an object that one thread has made and another has dropped is freed when
    the first one runs again, and an idle worker does not; or by the garbage collector. With
    the GIL it is gone already, and nothing is done, so that no cycle is overlooked.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        gc.collect()
