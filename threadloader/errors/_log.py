"""Logs what is seldom said: most runs have no need of `logging`, which is a tenth of an import."""

from __future__ import annotations

import os
import sys
from typing import Literal

from ._handlers import by_handler

__all__ = ["log"]


def log(how: Literal["info", "warning", "error"], message: str, *values: object) -> None:
    """Log one record; `logging` is imported only now.

    Where no file can be opened any more, `logging` cannot be imported. What is more than an info
    is written to the standard error then, as `logging` itself does unless it is told otherwise.

    Args:
        how: the method of the log.
        message: as `logging` has it, with ``%s`` and the like.
        values: what stands in their places; paths and exceptions come in one line that is safe for
            a terminal, whatever they quote.
    """
    from . import one_line

    quoting = (os.PathLike, BaseException)
    values = tuple(one_line(str(it)) if isinstance(it, quoting) else it for it in values)
    try:
        import logging
    except (OSError, ImportError) as error:
        if by_handler(error):
            raise
        if how != "info" and sys.stderr is not None:  # as in a program without a console
            sys.stderr.write(f"threadloader: {message % values}\n")
    else:
        getattr(logging.getLogger("threadloader"), how)(message, *values, stacklevel=2)
