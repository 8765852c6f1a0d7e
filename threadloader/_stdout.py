"""Keeps stdout for the answer of a command: what anything else prints meanwhile goes to stderr.

User code prints by `sys.stdout`, by `sys.__stdout__`, and by the descriptor 1 itself: in C, in the
processes that it starts, in its exit functions.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any, TextIO, cast

__all__ = ["answering", "lead_nowhere", "to_stderr"]


@contextlib.contextmanager
def answering() -> Iterator[TextIO | None]:
    """Within, stdout is stderr for all but the answer; afterwards it is what it was.

    Yields:
        What the answer is written to; None where there is no stdout.
    """
    stdout = sys.stdout
    sys.stdout = to_stderr()
    try:
        with _kept(stdout) as answer:
            yield answer
    finally:
        sys.stdout = stdout


def to_stderr() -> TextIO:
    """Give a stream that writes to stderr, and loses what that does not take.

    It is a stream of its own: closing it does not close stderr.
    """
    return io.TextIOWrapper(
        cast("IO[bytes]", _ToStderr()),
        encoding="utf-8",
        errors="backslashreplace",
        newline="\n",  # stderr makes of it what the system has for an end of a line
        write_through=True,
    )


@contextlib.contextmanager
def _kept(stdout: TextIO | None) -> Iterator[TextIO | None]:
    """Have descriptor 1 lead to stderr; yield what writes to where it led before."""
    if sys.__stdout__ is None:  # closed at the start: by now 1 may be anybody's file
        yield stdout
        return
    _flush(stdout)
    kept = os.dup(1)
    try:
        _to_stderr()
        if stdout is None or _number(stdout) != 1:
            yield stdout  # a caller has put something of its own in its place, as tests do
        elif stdout is sys.__stdout__:
            with open(
                kept, "w", encoding=stdout.encoding, errors=stdout.errors, closefd=False
            ) as answer:
                yield answer
        else:  # one that ends there by ways of its own
            yield cast("TextIO", _Own(stdout, kept))
    finally:
        _flush(sys.__stdout__)  # what was printed there meanwhile belongs to stderr
        os.dup2(kept, 1)
        os.close(kept)


class _Own:
    """Writes to a stream of the program's own, and has 1 lead to ``kept`` meanwhile."""

    def __init__(self, stream: TextIO, kept: int) -> None:
        self.encoding = getattr(stream, "encoding", None)
        self.fileno = stream.fileno
        self._stream, self._kept = stream, kept

    def write(self, text: str) -> None:
        _flush(sys.__stdout__)  # what was printed there up to now belongs to stderr
        os.dup2(self._kept, 1)
        try:
            self._stream.write(text)
            if (flush := getattr(self._stream, "flush", None)) is not None:
                flush()
        except (OSError, KeyboardInterrupt):  # the latter: no one reads the pipe
            lead_nowhere(1)  # what is left in its buffer would fail once more when Python ends
            _flush(self._stream)
            raise
        finally:
            _to_stderr()

    def flush(self) -> None:
        """Do nothing: all was flushed while 1 led to where it belongs."""


class _ToStderr(io.RawIOBase):
    """Writes to `sys.stderr`, whatever that is by then; if it leads here, to `sys.__stderr__`."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        written = bytes(data)
        with self._stderr() as stderr:
            if stderr is not None:
                # Where nobody reads it, or the disk is full, nobody misses it: a sample that
                # prints has not failed by that.
                with contextlib.suppress(OSError, ValueError):
                    stderr.write(written.decode(errors="backslashreplace"))
        return len(written)

    def fileno(self) -> int:
        with self._stderr() as stderr:
            return super().fileno() if stderr is None else stderr.fileno()

    @contextlib.contextmanager
    def _stderr(self) -> Iterator[TextIO | None]:
        """Give `sys.stderr`; to a write that has come here through that, `sys.__stderr__`."""
        if getattr(self._thread, "inside", False):
            yield sys.__stderr__
            return
        self._thread.inside = True
        try:
            yield sys.stderr
        finally:
            self._thread.inside = False


def _to_stderr() -> None:
    if sys.__stderr__ is not None:
        os.dup2(2, 1)
    else:  # it was closed: by now 2 may be anybody's file
        lead_nowhere(1)


def lead_nowhere(number: int) -> None:
    """Have a descriptor lead to where all that is written is lost.

    Raises:
        OSError: the system has no such device.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _number(stream: TextIO) -> int:
    """Give the descriptor that a stream writes to; -1 for none."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # it is in memory, or closed
        return -1


def _flush(stream: TextIO | None) -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):  # nobody reads it, or as above
        stream.flush()  # type: ignore[union-attr]
