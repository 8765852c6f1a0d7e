"""Logs what is seldom said: most runs have no need of `logging`, which is a tenth of an import."""

from __future__ import annotations

import os
import sys
import threading
from typing import Literal

from ._handlers import by_handler, from_signal, traceback_of

__all__ = ["log"]


def log(
    how: Literal["info", "warning", "error"], message: str, *values: object, aside: bool = False
) -> None:
    """Log one record; `logging` is imported only now.

    Where no file can be opened any more, `logging` cannot be imported. What is more than an info
    is written to the standard error then, as `logging` itself does unless it is told otherwise.

    Args:
        how: the method of the log.
        message: as `logging` has it, with ``%s`` and the like.
        values: what stands in their places; paths and exceptions come in one line that is safe for
            a terminal, whatever they quote.
        aside: in the midst of a batch, which what the log's own handlers raise must not cost:
            `threading.excepthook` is told of it.
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
        try:
            getattr(logging.getLogger("threadloader"), how)(message, *values, stacklevel=2)
        except BaseException as error:
            if not aside or from_signal(error):
                raise
            _tell(error)


def _tell(error: BaseException) -> None:
    """Tell `threading.excepthook`; in a frame that the error's traceback does not lead to (G10)."""
    told = type(error), error, traceback_of(error), threading.current_thread()
    try:
        threading.excepthook(threading.ExceptHookArgs(told))
    except BaseException as problem:  # of a hook of the user's own, which may log, too
        if from_signal(problem):
            raise
