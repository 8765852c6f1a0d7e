"""The file that lists samples which failed and were left out.

A line of it is a JSON object: ``index``, the dataset index; ``path``, where the sample
stands, as its source says, or null; ``error``, the exception's type and message;
``traceback``. The option `exclude` takes such a file, so that the next run does not try what
this one left out.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from .errors import ConfigError, Problem, by_handler, unencoded

if sys.platform == "win32":  # pragma: no cover - on Windows alone
    import msvcrt
else:
    try:
        import fcntl
    except ImportError:  # pragma: no cover - a system without
        fcntl = None  # type: ignore[assignment]  # a module's name, which has no other type

__all__ = ["Quarantine", "is_torn"]

_BEGIN = b'{"index": '
"""What each line that is written here begins with."""

_CUT_SHORT = re.compile(r'("(?:[^"\\]|\\.)*+\\?|n|nu|nul|u[0-9a-f]{0,4})?')
"""Matches the rest of a torn line from where reading it as JSON fails: a text, null or an escape,
cut short. (Nothing is tried twice, *+, or a long line would take hours.)"""

_OPTION = "/on_error/quarantine"
"""The option that names the file, as a JSON pointer."""

_LONGEST = 1 << 20
"""Bytes of a first line that are looked at, at most. Chosen: a line here is far shorter."""

_HELD_SECONDS = 10.0
"""How long somebody else may hold the file. Chosen: long; it is held for one write."""

_PAUSE_SECONDS = 0.01
"""The wait before a lock that somebody holds is tried again. Chosen: a write takes less."""

_FAR = (1 << 31) - 2
"""The byte that is locked on Windows: past any end, since nobody can read what is locked there."""


class Quarantine:
    """A quarantine file. It is open only while lines are added.

    Args:
        path: the file; it is made with the first line.

    Raises:
        ConfigError: the path cannot be that of such a file.
    """

    def __init__(self, path: Path) -> None:
        try:
            wrong = _wrong_with(path)
        except (OSError, ValueError) as error:  # ValueError: NUL, or half of a character
            if by_handler(error):
                raise
            wrong = Problem(_OPTION, "a path that a system can have", repr(str(path)))
            if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
                wrong = Problem(_OPTION, *unencoded(error))
            elif isinstance(error, OSError):
                wrong = Problem(_OPTION, "a file that can be written", f"{path}: {error.strerror}")
        if wrong:
            raise ConfigError(wrong)
        self._path = path

    def add(self, failures: Iterable[Mapping[str, Any]]) -> None:
        """Add a line for each failure: all in one write, so that shards may share the file.

        A killed write leaves a torn last line, which the next write cuts off. All else stays: a
        last line that lacks only its line end is given one. While one process looks and writes,
        a lock keeps the others out, where the system and its disk have locks.

        Args:
            failures: what the lines hold, plain JSON values.

        Raises:
            OSError: the lines cannot be written, or somebody else holds the file, which it names.
        """
        lines = "".join(json.dumps(dict(failure)) + "\n" for failure in failures).encode()
        try:
            with self._path.open("ab+", buffering=0) as file:
                held = self._hold(file)
                try:
                    self._write(file, lines)
                finally:
                    # Closing is not enough: a child forked meanwhile has it open, and so locked.
                    if held:
                        _lock(file, held=False)
        except OSError as error:
            if not by_handler(error):
                if error.filename is None:  # an error about an open file has none
                    error.filename = str(self._path)
                error.add_note(f'threadloader: of "{_OPTION[1:]}"; next tries to write again')
            raise

    def _hold(self, file: FileIO) -> bool:
        """Wait until nobody else adds lines; tell whether there is a lock to keep them out."""
        until = time.monotonic() + _HELD_SECONDS
        while True:
            try:
                return _lock(file, held=True)
            except OSError as error:
                if by_handler(error):
                    raise
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    return False  # a disk without locks
                if time.monotonic() >= until:
                    held = f"another process has held it for {_HELD_SECONDS:g} s"
                    text = f"{held}; end that, or let it go on"
                    raise OSError(error.errno, text, str(self._path)) from error
            # Tried again and again: the system's own wait for a lock has no bound.
            time.sleep(_PAUSE_SECONDS)

    def _write(self, file: FileIO, lines: bytes) -> None:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                data = self._path.read_bytes()
                last = data.splitlines(keepends=True)[-1]
                if not last.endswith(b"\r") and is_torn(last):  # "\r" ends a line, too
                    end = file.truncate(len(data) - len(last))
                else:
                    lines = b"\n" + lines
        # All or nothing: when the caller tries again, it gives all of them again.
        written = 0
        try:
            written = file.write(lines)
        finally:
            if written != len(lines):
                file.truncate(end)
        if written != len(lines):
            text = f"expected to write {len(lines)} bytes, wrote {written}; free space on the disk"
            raise OSError(errno.ENOSPC, text, str(self._path))


def _wrong_with(path: Path) -> Problem | None:
    """Say what keeps a path from being a quarantine file, if anything does."""
    mode = _mode(path)
    if not stat.S_ISDIR(_mode(path.parent)):
        return Problem(_OPTION, "a file in a folder that is there", str(path))
    if mode and not stat.S_ISREG(mode):
        return Problem(_OPTION, "a file", f"{path}, which is none")
    if not mode and not os.access(path.parent, os.W_OK | os.X_OK):
        return Problem(_OPTION, "a file in a folder that can be written to", str(path))
    if mode and not _may_be_quarantine(path):
        hint = "name another file, which need not be there"
        return Problem(_OPTION, "lines of JSON with an index", f"another file, {path}", hint)
    return None


def _mode(path: Path) -> int:
    """Give the mode of what a path leads to; 0 where nothing is."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        if by_handler(error):
            raise
        return 0


def _lock(file: FileIO, *, held: bool) -> bool:
    """Take a file's lock, or give it back; tell whether the system has such locks.

    Raises:
        OSError: EAGAIN or EACCES, at once, where somebody else has it; others where the disk has
            no locks.
    """
    if sys.platform == "win32":  # pragma: no cover - on Windows alone
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK if held else msvcrt.LK_UNLCK, 1)
        return True
    if fcntl is None:  # pragma: no cover - a system without
        return False
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if held else fcntl.LOCK_UN)
    return True


def _may_be_quarantine(path: Path) -> bool:
    """Tell whether a file is empty, or its first line has an index, or is one of ours cut short."""
    with path.open("ab+") as file:  # opened as `add` does: an OSError if that cannot be
        file.seek(0)
        start = file.readline(_LONGEST)
    first = next(iter(start.splitlines(keepends=True)), b"")  # a line may end with a \r alone
    # Of zeros behind less than the whole beginning the file may be somebody's numbers.
    ours = first[: len(_BEGIN)] == _BEGIN[: len(first)] and is_torn(first)
    return not first.strip() or ours or _has_index(first)


def is_torn(line: bytes) -> bool:
    """Tell whether this is one of our lines, cut short: what a killed write leaves.

    Where the power failed, zeros may stand for what was not written; zeros alone may be anything.
    """
    bare = line.rstrip(b"\0")
    if not bare or bare[: len(_BEGIN)] != _BEGIN[: len(bare)]:
        return False
    try:
        json.loads(bare.decode())
    except json.JSONDecodeError as error:
        return _CUT_SHORT.fullmatch(error.doc, error.pos) is not None
    # Not UTF-8, too many digits, absurdly deep: none of ours.
    except (ValueError, RecursionError) as error:
        if by_handler(error):
            raise
        return False
    return len(bare) < len(line)


def _has_index(line: bytes) -> bool:
    """Tell whether a line is an index in JSON, as in a list made by hand, or an object with one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, or not UTF-8
        if by_handler(error):
            raise
        return False
    return type(value.get("index") if isinstance(value, dict) else value) is int
