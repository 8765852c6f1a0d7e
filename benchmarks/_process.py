"""Makes one run in a process of its own, ends it when it hangs, and leaves none behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

__all__ = ["in_process"]

CHILD = Path(__file__).resolve().parent / "_child.py"
ROOT = CHILD.parent.parent

ENVIRONMENT = {
    # A step of matrix products is that of one thread: the other cores are for loading.
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    # The checkout comes before a threadloader that is installed.
    "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    # What pip has installed is compiled, and so is the checkout, before the first run.
    "PYTHONDONTWRITEBYTECODE": "",
}


def in_process(
    python: str, spec: dict[str, Any], timeout: float, environment: Mapping[str, str] = {}
) -> dict[str, Any]:
    """Make a run.

    Args:
        python: the interpreter.
        spec: what `_child` is to do.
        timeout: seconds after which the process, and all that it has started, is ended.
        environment: variables of its own, added to those there are.

    Returns:
        What it answered: for a run ``numbers`` and ``how``, else what was asked for
        (``machine`` and ``versions``, or ``cases``); or ``cannot``, ``error`` or ``timeout``
        with a sentence.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as noise:
        answer = Path(folder) / "answer.json"
        try:
            child = subprocess.Popen(
                [python, "-P", str(CHILD), spec.get("module", "")],
                cwd=ROOT,
                env={**os.environ, **ENVIRONMENT, **environment},
                stdin=subprocess.PIPE,
                stdout=noise,
                stderr=noise,
                # A Ctrl-C of the terminal is for this process; it ends that one, with all that
                # one has started.
                start_new_session=os.name != "nt",
            )
        except OSError as error:
            return {"error": f"no process could be started: {error.strerror or error}"}
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(json.dumps({**spec, "answer": str(answer)}).encode(), timeout)
        finally:
            late = child.poll() is None
            _end(child)
        if late:
            return {"timeout": f"gave no answer within {timeout:g} s"}
        try:
            found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {"error": _last_words(child.returncode, noise)}
        return found


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started, also what it has left behind."""
    if os.name == "nt":
        child.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _last_words(code: int, noise: IO[bytes]) -> str:
    """Say how a process ended that gave no answer."""
    noise.seek(0)
    lines = noise.read().decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"the process ended with code {code}: {said}"
