"""Opens regular files, and makes the errors, with the name, of those that cannot be read."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path

from ..errors import SourceError, by_handler, too_many, unencoded
from ._fields import listed

__all__ = [
    "escaped",
    "none_there",
    "not_utf8",
    "open_regular",
    "other_size",
    "read_all",
    "readable",
    "regular_status",
    "size_of",
    "starts",
    "time_of_change",
    "too_few",
    "too_many_hint",
    "unreadable",
]


_ESCAPED = r"[\b\f\n\r\t]"
"""What JSON makes of a single backslash and the letter behind it."""

_TWICE = "in JSON a backslash is written twice, or as /"

_BINARY = {
    b"\x1f\x8b": "a file compressed by gzip; unpack it first",
    b"PK\x03\x04": "a zip file, as .xlsx and .npz are; save what is in it as text",
    b"SQLite format 3\0": 'an SQLite database; take {"type": "sqlite"}',
    b"PAR1": "a Parquet file; save what is in it as text",
}
"""How files begin that are no text, and what to do with them."""


def starts(path: str) -> str:
    """Say what to do where a path leads to nothing."""
    hint = "a relative path starts at the folder of the config file, or without one at the current"
    hints = {
        r"{.*}": 'braces stand for themselves: write "*" for what differs, or a list of names',
        r"(^|[/\\])[a-z]\w+:[/\\]": "no address is read: copy the files to this machine first",
        r"(^|[/\\])~|\$": '"~" and "$" stand for themselves: write the whole path',
        _ESCAPED: _TWICE,
    }
    if os.name != "nt":
        hints[r"\\"] = 'a backslash is part of a name here: write "/" between folders'
    texts = [text for sign, text in hints.items() if re.search(sign, path)]
    return "; ".join([f"{hint} folder", *texts])


def escaped(path: Path, error: Exception) -> str:
    """Say what to do, behind a semicolon, about a name that Windows refuses; else give ""."""
    wrong = getattr(error, "errno", None) == errno.EINVAL and re.search(_ESCAPED, str(path))
    return f"; {_TWICE}" if wrong else ""


def too_many_hint(error: BaseException) -> str:
    """Say what to do, behind a semicolon, if opening failed as too many are open; else give ""."""
    hint = too_many(error)
    return f"; {hint}" if hint else ""


def none_there(paths: Sequence[Path], option: str = "") -> SourceError:
    """Give the error for files that are not there; its path, and option, is that of the first.

    >>> none_there([Path("a"), Path("b")]).message.partition(";")[0]
    "expected a file, found none, nor at 'b'"
    """
    if paths[0].is_symlink():
        text = "expected a file, got a link to one that is not there; make that, or the link anew"
        return SourceError(text, paths[0], option=option)
    # Kinds of source that take patterns have another message for one that matches nothing.
    pattern = '"*", "?" and "[" stand for themselves here: name one file; '
    hint = pattern if re.search(r"[*?[]", paths[0].name) else ""
    others = f", nor at {listed(map(str, paths[1:]))}" if len(paths) > 1 else ""
    text = f"expected a file, found none{others}; {hint}{starts(str(paths[0]))}"
    return SourceError(text, paths[0], option=option)


def regular_status(path: Path) -> os.stat_result:
    """Give the status of a regular file, without opening it.

    If it is missing, cannot be looked at, or is a folder, a pipe or a device: a SourceError.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a path that no system has, as with NUL
        if by_handler(error):
            raise
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, socket or device"
        raise SourceError(f"expected a regular file, got {kind}", path)
    return status


def time_of_change(status: os.stat_result) -> int:
    """Give the time of a file's last change, in nanoseconds, as far as an int64 holds it.

    A time after the year 2262, which a file system may have, is taken modulo 2**64: it is only
    ever compared.
    """
    return (status.st_mtime_ns + 2**63) % 2**64 - 2**63


def open_regular(path: Path) -> FileIO:
    """Open a file for reading bytes, without a buffer; the errors are those of `regular_status`.

    A file of 0 bytes that has content, since the system does not know its size (in ``/proc``, or in
    a folder that shows what lies elsewhere), is a SourceError: it would be taken for an empty one.
    """
    status = regular_status(path)  # before it is opened: opening a pipe waits for its other end
    try:
        file = path.open("rb", buffering=0)
    except (OSError, ValueError) as error:
        if by_handler(error):
            raise
        raise unreadable(path, error) from error
    if not status.st_size:
        with ExitStack() as undo:
            undo.callback(file.close)
            _check_empty(file, path)
            undo.pop_all()
    return file


def _check_empty(file: FileIO, path: Path) -> None:
    with readable(path):
        if not file.read(1):
            return
        if os.fstat(file.fileno()).st_size:
            file.seek(0)  # it has been written to since its size was looked at
            return
    text = "expected a file whose size the system knows, got one of 0 bytes that has content"
    raise SourceError(f"{text}; copy it to a disk first", path)


def read_all(file: FileIO, size: int) -> bytes:
    """Read so many bytes, by several reads if one gives less; fewer where the file ends."""
    data = b""
    while len(data) < size and (part := file.read(size - len(data))):
        data += part
    return data


def size_of(file: FileIO) -> int:
    """Give the size of an open file, which then stands at its start.

    Call it before the file is buffered: a buffer checks whether it can seek, and turns an error of
    the system into an `io.UnsupportedOperation` without its number.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def unreadable(path: Path, error: OSError | ValueError) -> SourceError:
    """Give the SourceError for a file on which the system raised this error."""
    if isinstance(error, FileNotFoundError):
        return none_there([path])
    if isinstance(error, UnicodeEncodeError):
        return SourceError("expected {}, got {}; {}".format(*unencoded(error)), path)
    reason = getattr(error, "strerror", None) or error
    hint = too_many_hint(error) or escaped(path, error)
    return SourceError(f"expected a file that can be read, got: {reason}{hint}", path)


def other_size(path: Path, before: int, now: int) -> SourceError:
    """Give the error for an open file whose size in bytes is no longer ``before``."""
    return SourceError(
        f"expected the {before} bytes that it had when it was opened, got {now}; "
        "open the source again when the file is complete",
        path,
    )


def too_few(path: Path, offset: int, length: int, got: int) -> SourceError:
    """Give the error for a read that ends early in an open file, though its size is the same."""
    text = f"expected {length} bytes, got {got}, though the file has the size that it had"
    hint = "if nothing writes to it, copy it to another disk"
    return SourceError(f"{text}; {hint}", path, f"byte {offset}")


@contextmanager
def readable(path: Path, done: str = "read") -> Iterator[None]:
    """Turn an error of the system in the ``with`` into a SourceError that names the file.

    ``done`` says what is done to it: a network disk may tell an error when the file is closed.
    """
    try:
        yield
    except SourceError:
        raise
    except OSError as error:
        if by_handler(error):
            raise
        got = error.strerror
        raise SourceError(f"expected a file that can be {done}, got: {got}", path) from error


def not_utf8(path: Path, error: UnicodeDecodeError) -> str:
    """Give the message for a piece of this file that is not UTF-8: expected, got, what to do."""
    try:
        with open_regular(path) as file:
            begin = read_all(file, max(map(len, _BINARY)))
    except (OSError, SourceError) as failed:  # it may be gone by now
        if by_handler(failed):
            raise
        begin = b""
    for magic, kind in _BINARY.items():
        if begin.startswith(magic):
            return f"expected text in UTF-8, got {kind}"
    got = f"the byte 0x{error.object[error.start]:02x} ({error.reason})"
    return f"expected UTF-8, got {got}; convert the file to UTF-8"
