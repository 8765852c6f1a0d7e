"""When an object that nobody refers to is gone."""

import gc
import sys

AT_ONCE = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether it is gone at once. Without the GIL, an object that one thread has made and another
has dropped is freed when the first one runs again, and an idle worker does not; or by the
garbage collector."""


def free_at_once() -> None:
    """Free what nobody refers to, where the interpreter puts that off.

    Elsewhere nothing is done, so that no cycle is overlooked.
    """
    if not AT_ONCE:
        gc.collect()
