"""The children of `bench` and `verify`: how one is started, and asked, and ends with its parent.

The question is a line on stdin, which stays open for as long as the one who asked is there. When
that one ends, by whatever signal, so does this process: nobody would read its answer.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ._stdout import to_stderr

__all__ = [
    "answer_in",
    "answered",
    "child_command",
    "child_environment",
    "current_folder",
    "last_words",
]

_MARK = b"\x1ethreadloader: "
"""What stands before an answer."""


def child_command(child: str) -> list[str]:
    """Give the command that starts a child, for `subprocess.Popen`: it runs the module's ``main``.

    It has the modules of this process, wherever they came from, and nothing of the current folder
    beyond that; and the options of this interpreter, so that user code does there what it does
    here: its asserts, what is an error and not a warning, the GIL.

    Raises:
        OSError: ENOTSUP: in a bundle, as of PyInstaller, or in a program that Python is a part of,
            there is no Python to start.
    """
    # A bundle would start itself, again and again; a program with Python inside may know of none.
    if getattr(sys, "frozen", False) or not sys.executable:
        raise OSError(errno.ENOTSUP, "this program is a bundle, with no Python to start")
    path = list(_absolute(sys.path))
    code = f"import sys; sys.path[:] = {path!r}; from {child} import main; main()"
    return [sys.executable, *_options(), "-P", "-c", code]


def answer_in(said: bytes) -> bytes:
    """Give the text of the answer in what a child has said so far, or nothing.

    Code that Python runs before ours, as a ``sitecustomize``, may have printed before it.
    """
    _, mark, answer = said.rpartition(_MARK)
    return answer if mark and answer.endswith(b"\n") else b""


def last_words(code: int | None, noise: IO[bytes]) -> str:
    """Say how a child ended that gave no answer; `noise` is what it wrote to stderr."""
    if code == -getattr(signal, "SIGKILL", signal.SIGTERM):
        return "the process was killed; the system does that when memory runs out"
    noise.seek(0)
    lines = noise.read().decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"the process ended with code {code}: {said}"


def current_folder() -> str:
    """Give the current folder as a place of modules; "" where it is gone, and none is found."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _absolute(path: Iterable[str]) -> Iterator[str]:
    """Give absolute paths, without those below a current folder that is there no more."""
    for part in path:
        try:
            yield str(Path(part).absolute())
        except FileNotFoundError:
            continue


def child_environment(**more: str) -> dict[str, str]:
    """Give the environment of a child: that of this process, and more.

    Where this interpreter does not heed variables ``PYTHON...`` (``-E``, ``-I``), the child is
    given none of them; nor is it given the option, since it has to heed PYTHONHASHSEED.
    """
    own = dict(os.environ)
    if sys.flags.ignore_environment:
        own = {name: value for name, value in own.items() if not name.startswith("PYTHON")}
    return own | more


def _options() -> list[str]:
    """Give the options of this interpreter that change what code does.

    By hand: what `subprocess` has for it is private, leaves out most of ``-X``, and fails where a
    program has emptied `sys.warnoptions`.
    """
    flags = sys.flags
    counted = {"O": flags.optimize, "B": flags.dont_write_bytecode, "b": flags.bytes_warning}
    counted |= {"S": flags.no_site, "s": flags.no_user_site}
    options = [f"-{letter * count}" for letter, count in counted.items() if count]
    options += [f"-W{option}" for option in sys.warnoptions]
    for name, value in getattr(sys, "_xoptions", {}).items():  # of CPython alone
        options.append(f"-X{name}" if value is True else f"-X{name}={value}")
    return options


def answered(answer: Callable[[Any], Any], told: Callable[[BaseException], Any]) -> None:
    """Answer the question for which this child has been started; both are plain JSON values.

    If `answer` raises, `told` makes the answer of what it raised.
    """
    question, out = _asked()
    if not question:
        return  # pragma: no cover - its parent was killed
    try:
        said = answer(json.loads(question))
    except KeyboardInterrupt:  # where a Ctrl-C reaches it, the one who asked says so
        os._exit(130)
    except BaseException as error:  # noqa: BLE001 - a SystemExit of user code as well
        said = told(error)
    with open(out, "wb") as stdout:  # noqa: PTH123 - it has no path
        stdout.write(_MARK + json.dumps(said).encode() + b"\n")


def _asked() -> tuple[bytes, int]:
    """Take the question, and from then on end with the one who asked.

    User code finds nothing on stdin, and what it prints goes to stderr: neither gets in between.

    Returns:
        The question, a line of JSON, or nothing where the one who asked has ended; and the file
        descriptor that the answer is written to.
    """
    answer, question = os.dup(1), os.dup(0)
    os.dup2(2, 1)
    # A sample that prints has not failed by that: as `check` and `order` have it.
    sys.stdout = to_stderr()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    text = bytearray()
    while not text.endswith(b"\n"):
        part = os.read(question, 65536)
        if not part:
            return b"", answer  # pragma: no cover - its parent was killed
        text += part
    threading.Thread(target=_end_with, args=(question,), daemon=True).start()
    return bytes(text), answer


def _end_with(question: int) -> None:  # pragma: no cover - it ends by SIGKILL
    """Wait until the one who asked has ended, then end this process; a group leader, its group."""
    while os.read(question, 4096):
        pass
    if hasattr(os, "getpgid") and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)  # it leads a group: all that it has started
    os._exit(1)
