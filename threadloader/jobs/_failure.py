"""A sample that was left out, in words: imported when one may be."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from ..errors import from_signal, name_of

__all__ = ["Failure", "failure_of"]

LONGEST_TEXT = 20_000
"""Characters of a message that are kept, and of a traceback: its last ones, which say most."""

MOST_FRAMES = 50
"""Frames of a traceback that are kept, likewise: an exception raised again and again has more."""

# From CPython 3.15 on, `traceback` imports a part of itself at its first use. In the midst of a
# sample, a fork beside that import would leave the module's lock held for ever: so it is used here.
traceback.format_exception(ValueError())


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample that was left out, in words: its exception would lead back to the batch.

    Attributes:
        index: its dataset index.
        path: where it stands, as its source says; None where that says nothing.
        error: the exception's type and message.
        traceback: how it came about, as Python prints it.
    """

    index: int
    path: str | None
    error: str
    traceback: str


def failure_of(index: int, path: str | None, error: BaseException) -> Failure:
    """Tell a sample's failure in words, whatever its exception does when it is printed.

    The exception loses its traceback, which leads to the job: somebody may keep the exception, and
    with it the job. What a signal handler raises meanwhile passes, but for what comes while
    `traceback` asks the exception for its text.
    """
    try:
        message = "".join(traceback.format_exception_only(error)).strip()[:LONGEST_TEXT]
        trace = "".join(traceback.format_exception(error, limit=-MOST_FRAMES))[-LONGEST_TEXT:]
    except Exception as problem:  # an exception may be made of anything
        if from_signal(problem):
            raise
        message = trace = f"{name_of(type(error))} (not printable: {name_of(type(problem))})"
    BaseException.with_traceback(error, None)  # whatever its class makes of an attribute
    return Failure(index, path, message, trace)
