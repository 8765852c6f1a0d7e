"""A state in a file: there whole, or not at all.

Each run imports this file before its first batch. So paths are text here: importing `pathlib`
takes 3 ms (CPython 3.11 on an AMD EPYC).
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from io import FileIO
from typing import Any, BinaryIO

from ..errors import ConfigError, Problem, StateError, by_handler, once_free
from ._state import FORMAT, Excluded, checksum, hashed

__all__ = ["read", "write"]
_ATTEMPTS = 100
"""Most tries of a write. Chosen: more than there can be runs whose first save takes a file of ours
for a left-over."""

_LONGEST = 64
"""Bytes of the file's own name in that of a temporary one. Chosen: what is added is some 40, and
there are file systems where a name has 143 at most."""

_WINDOWS = os.name == "nt"

_BEGIN = f'{{\n "format": "{FORMAT}",\n'.encode()
"""What every file of a state begins with."""


def write(
    state: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    tidy: bool = False,
    newer: Callable[[str], bool] = lambda place: False,
) -> str:
    """Write a state to a file: it is there whole, or the file is as it was.

    When this returns, the system says that the state is on the disk. A symbolic link is
    followed, and a file that is replaced hands on its permissions.

    Args:
        state: what `dump` gave.
        path: the file.
        tidy: first remove what processes that were killed while writing have left behind
            for the same shard.
        newer: asked last: whether a newer state stands in the file by now, and is to stay.

    Returns:
        The file's whole path, links followed.

    Raises:
        OSError: the system cannot write it, or what stands there is no regular file: a rename
            would put one in place of a device.
        ConfigError: no file can have this name.
    """
    place, mode = _place(path)
    folder, name = os.path.split(place)
    prefix = f"{_short(name)}.{state['shard']['index']}."
    text = _text(state)
    if tidy:
        _tidy(folder, prefix)
    numbers: list[int] = []
    try:
        # Before anything is replaced: a folder that may not be opened is told while the file is
        # as it was.
        _open_folder(folder, numbers)
        _replace(place, os.path.join(folder, prefix), mode, text, newer)
        for number in numbers:
            _flush(number)
    except OSError as error:
        if error.filename is None and not by_handler(error):
            error.filename = place  # of what is open the system gives no name
        raise
    finally:
        for number in numbers:
            os.close(number)
    return place


def _replace(
    place: str, prefix: str, mode: int | None, text: bytes, newer: Callable[[str], bool]
) -> None:
    """Write a file under a name of its own, and put it in place of another, if not a newer one."""
    for again in reversed(range(_ATTEMPTS)):  # pragma: no branch - the last attempt raises
        # A name of its own: two runs, or two threads, that save at once do not mix.
        temporary = f"{prefix}{os.getpid()}-{os.urandom(4).hex()}.tmp"
        file: BinaryIO | None = None
        try:
            with open(temporary, "xb") as file:
                # On Windows `fchmod` is there from Python 3.13 on; what it makes read-only stays.
                if mode is not None and hasattr(os, "fchmod") and not _WINDOWS:
                    # Not every file system has permissions.
                    _attempt(os.fchmod, file.fileno(), mode)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if newer(place):
                _attempt(os.unlink, temporary)
            else:
                once_free(os.replace, temporary, place)
            break
        except BaseException as error:
            if file is not None:
                file.close()  # a Ctrl-C came before; on Windows what is open cannot be removed
            _attempt(os.unlink, temporary)  # where it cannot be, the first error is the one to tell
            # Another run has tidied up at that moment; or the folder is gone: the last try says so.
            if not (again and isinstance(error, FileNotFoundError)) or by_handler(error):
                raise


def _attempt(call: Callable[..., Any], *given: Any) -> Any:
    """Call the system; None where it refuses, which must not keep a state from being saved."""
    try:
        return call(*given)
    except OSError as error:
        if by_handler(error):
            raise
        return None


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the file of a state; `load` says whether it fits.

    Raises:
        StateError: it is damaged; or this is no path but the text of a state.
        OSError: the system cannot read it, or it is no regular file: a pipe may wait for its
            other end for ever, and a device may never end.
        ConfigError: no file can have this name.
    """
    if isinstance(path, str) and path.lstrip()[:1] == "{" and '"checksum"' in path:
        raise StateError("expected a state or a path, got a state as JSON; give json.loads(text)")
    path = _name(path)
    try:
        # Looked at before it is opened: opening a pipe waits for its other end.
        found = once_free(os.stat, path)
        _refuse_others(found.st_mode, path)
        file = once_free(FileIO, path)
    except ValueError as error:
        if by_handler(error):
            raise
        raise _no_name(path, error) from None
    with file:
        data = b""
        # A read may give less than it was asked for.
        while len(data) < len(_BEGIN) and (part := file.read(len(_BEGIN) - len(data))):
            data += part
        # A file named by mistake may be the weights of a model, too large for the memory: it is
        # read only if it begins like a state.
        size = found.st_size
        if data == _BEGIN:
            data += file.readall()
            size = len(data)
    sound = False
    try:
        state = json.loads(data)
        # Looked at before anything else: a flipped bit in the version, too, is damage.
        sound = state["checksum"] == checksum(state, Excluded.of(state["exclude"]))
        whole = sound and _text(state) == data
    # Not UTF-8, not JSON, absurdly deep, or JSON of something else.
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        if by_handler(error):
            raise
        whole = False
    if not whole:
        hint = "use an older one, or begin the run anew"
        if sound or (data[:1] == b"{" and data[: len(_BEGIN)] != _BEGIN[: len(data)]):
            hint = f"if json.dump wrote it, give what json.load reads from it; else {hint}"
        raise StateError(
            f"{path}: the state is damaged: expected what save() writes, got "
            f"{size} bytes that are not; {hint}"
        )
    return dict(state)


def _place(path: str | os.PathLike[str]) -> tuple[str, int | None]:
    """Give the place that a path leads to, and the permissions of the file that is there."""
    path, place = _name(path), None
    try:
        place = _followed(path)
        mode = os.stat(place).st_mode  # where links lead in a circle, this says so
    except (FileNotFoundError, ValueError) as error:
        if by_handler(error):
            raise
        if isinstance(error, ValueError):
            raise _no_name(path, error) from None
        if place is None:
            text = "the working folder, to which this path is relative, is gone; give a whole path"
            raise FileNotFoundError(errno.ENOENT, text, path) from None
        return place, None
    _refuse_others(mode, path)
    return place, stat.S_IMODE(mode)


def _followed(path: str) -> str:
    """Give where the links of a path lead; where they lead in a circle, a link of it."""
    # Unless strict, `realpath` takes a link that it cannot look at for a file, which the rename
    # would replace, and swallows what a signal handler raises.
    found: str | None = _attempt(lambda: os.path.realpath(path, strict=True))
    # None: mostly there is no such file yet. Twice, since the first may have taken a link for one.
    return found or os.path.realpath(os.path.realpath(path))


def _refuse_others(mode: int, path: str) -> None:
    """Refuse what is no regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "expected a regular file", path)


def _name(path: Any) -> str:
    """Give a path as text; the system would take others, even the number of an open file."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    # Not left to the system: Python says it on Windows by an OSError that has no number.
    nul = isinstance(name, str) and "\0" in name
    if isinstance(name, str) and name and not nul:
        return name
    got = repr(name) if isinstance(name, str) else type(path).__name__
    hint = "no name has a NUL character" if nul else "give a str or a pathlib.Path"
    raise ConfigError(Problem("path", "the name of a file", got, hint))


def _no_name(path: str, error: ValueError) -> ConfigError:
    return ConfigError(Problem("path", "the name of a file", repr(path), str(error)))


def _short(name: str) -> str:
    """Give a name, or, if it is long, its beginning and a hash: a temporary name is longer."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST:
        return name
    begin = data[: _LONGEST - 9].decode(errors="ignore")  # no half of a character
    return f"{begin}~{hashed(data)[:8]}"


def _text(state: Mapping[str, Any]) -> bytes:
    """Give the one form in which a state stands in a file, as of `json.dumps` with an indent of 1.

    That one is written in Python, and leaves functions in a cycle each time: a run that saves at
    every step, with the collection of garbage turned off, would run out of memory.
    """
    return (_lines(dict(state), "\n") + "\n").encode()


def _lines(value: Any, begin: str) -> str:
    inner = f"{begin} "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{json.dumps(key)}: {_lines(it, inner)}" for key, it in value.items()]
        return f"{{{','.join(parts)}{begin}}}"
    if isinstance(value, list) and value:
        return f"[{','.join([inner + _lines(it, inner) for it in value])}{begin}]"
    return json.dumps(value, allow_nan=False)


def _tidy(folder: str, prefix: str) -> None:
    left_over = re.compile(re.escape(prefix) + r"\d+-[0-9a-f]{8}\.tmp")
    for name in _attempt(os.listdir, folder) or ():
        if left_over.fullmatch(name):
            _attempt(os.unlink, os.path.join(folder, name))


def _open_folder(folder: str, numbers: list[int]) -> None:
    """Open a folder, and add its file descriptor to a list."""
    if not hasattr(os, "O_DIRECTORY"):  # a folder cannot be opened there, or need not be
        return  # pragma: no cover - Windows
    # Added where no bytecode lies in between: a Ctrl-C there would lose it for good.
    numbers.extend(map(os.open, (folder,), (os.O_RDONLY | os.O_DIRECTORY,)))


def _flush(number: int) -> None:
    """Flush a folder: the new name is on the disk, too."""
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # a file system that cannot do it
            raise
