"""Starts the process of one run, waits for what it says, and leaves none behind."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from typing import IO, Any

from .._children import answer_in, child_command, child_environment, last_words
from ..errors import LoaderError, by_handler

__all__ = ["BenchError", "in_process"]

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

PATIENCE_SECONDS = 10.0
"""How long a process may take to end when it has said what came of it, or was told to end."""

_LOOK_SECONDS = 0.2
"""How long to wait between two looks whether a process that says nothing has ended."""


class BenchError(LoaderError, RuntimeError):
    """A run could not be made.

    Attributes:
        usage: whether the fault lies in what was asked for: a package or a function that is
            not there.
    """

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


def in_process(spec: dict[str, Any]) -> dict[str, Any]:
    """Measure one run in a process of its own, and give what `_child.run` says there.

    Raises:
        BenchError: it failed, could not be started, or ended without a word.
    """
    child, noise = _begun()
    with noise:
        assert child.stdin is not None
        assert child.stdout is not None
        done = False
        try:
            with contextlib.suppress(OSError):  # it has ended already; below it is asked why
                child.stdin.write(json.dumps(spec).encode() + b"\n")
                child.stdin.flush()
            said = _said(child)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(PATIENCE_SECONDS)
                done = bool(said)
        finally:
            if done:
                _end_rest(child)
            else:
                _end(child)
            # Last: if an interrupt of the lines above has left the process running, it ends
            # itself when its stdin ends.
            child.stdout.close()
            with contextlib.suppress(OSError):
                child.stdin.close()
        if not said:
            raise BenchError(last_words(child.returncode, noise))
    answer: dict[str, Any] = json.loads(said)
    if "error" in answer:
        raise BenchError(answer["error"], usage=answer.get("usage", False))
    return answer


def _begun() -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start a process; give it, and the file that what it prints goes to."""
    try:
        with contextlib.ExitStack() as undo:
            noise = undo.enter_context(tempfile.TemporaryFile())
            child = subprocess.Popen(
                child_command("threadloader.bench._child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=noise,
                env=child_environment(),
                # A Ctrl-C of the terminal is for this process alone, which ends the child and all
                # that it has started. (Windows has no such groups; there it reaches them all.)
                start_new_session=os.name != "nt",
            )
            undo.pop_all()
    except OSError as error:
        if by_handler(error):
            raise
        hint = (
            "raise the limits of the system (ulimit -n, ulimit -u, the space for temporary files)"
        )
        if error.errno == errno.ENOTSUP:
            hint = "run it outside of the bundle"
        elif "temporary directory" in str(error):  # so `tempfile` says that it has found none
            hint = "name a folder that can be written to in the environment, as TMPDIR"
        text = f"expected a process of its own for each run, got: {error}; {hint}"
        raise BenchError(text) from error
    return child, noise


def _said(child: subprocess.Popen[bytes]) -> bytes:
    """Give what a process answers, or nothing when it has ended without an answer.

    Its pipe does not end with it: what user code has forked holds it open, perhaps for long.
    """
    assert child.stdout is not None
    if os.name == "nt":
        lines = map(answer_in, child.stdout)  # pragma: no cover - Windows has no forks
        return next(filter(None, lines), b"")  # pragma: no cover
    said, over = b"", False
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while not (answer := answer_in(said)):
            ready = selector.select(0 if over else _LOOK_SECONDS)
            part = os.read(child.stdout.fileno(), 1 << 16) if ready else b""
            if not part and (ready or over):
                return b""
            said += part
            over = child.poll() is not None  # what it has said is in the pipe by now
    return answer


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started: by SIGTERM and, if that is not enough, SIGKILL."""
    for number in (signal.SIGTERM, _KILL):
        _send(child, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE_SECONDS)
            _end_rest(child)  # the signal that ended the process may not have ended them
            return


def _end_rest(child: subprocess.Popen[bytes]) -> None:
    """End the processes that an ended one has left behind: they would take time from the next run.

    They get a second: multiprocessing's resource tracker, which does not heed SIGTERM, may be
    removing shared memory.
    """
    if os.name == "nt":
        return  # pragma: no cover - Windows
    _send(child, signal.SIGTERM)
    for _ in range(20):
        try:
            os.killpg(child.pid, 0)
        except OSError:  # there is nothing left
            return
        time.sleep(0.05)
    _send(child, _KILL)


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and all that it has started, as far as there are any."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: ended ones alone
        if os.name == "nt":
            child.kill()  # pragma: no cover - Windows
        else:
            os.killpg(child.pid, number)
