"""One pass over a file that finds where its lines begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SourceError
from ._files import FileReader
from ._progress import ProgressLog

__all__ = ["IntArray", "first_byte", "scan", "tell"]

IntArray = npt.NDArray[np.int64]

_BOM = b"\xef\xbb\xbf"

# What a byte says about its line: 0 white space, 2 something else, and 1 perhaps part of
# a white space character beyond ASCII (then the line is decoded to decide).
_CLASSES = np.full(256, 2, np.uint8)
for _character in map(chr, range(0x3001)):  # U+3000 is the last one that is white space
    if _character.isspace():
        _encoded = _character.encode()
        _CLASSES[list(_encoded)] = 0 if len(_encoded) == 1 else 1


def tell(progress: ProgressLog, reader: FileReader, what: str, done: int) -> None:
    """Log that ``done`` bytes of a file are passed, if the last log is long enough ago."""
    part, whole = done / 2**20, reader.size / 2**20
    progress.tell("%s: %s in %.0f of %.0f MiB", reader.path, what, part, whole)


def first_byte(reader: FileReader) -> int:
    """Give where the text begins: after a byte order mark, if there is one.

    A mark of UTF-16, as PowerShell writes, is a SourceError: no text in UTF-8 begins so.
    """
    begin = reader.read(0, min(len(_BOM), reader.size))
    if begin[:2] in (b"\xff\xfe", b"\xfe\xff"):
        got = f"the byte order mark of UTF-16, {begin[:2].hex(' ')}"
        raise SourceError(f"expected UTF-8, got {got}; convert the file to UTF-8", reader.path)
    return len(_BOM) if begin == _BOM else 0


def scan(
    reader: FileReader, begin: int, skip_blank: bool, chunk: int
) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Find where lines begin; the first does at ``begin``. ``chunk`` bytes are read at once.

    Returns:
        The offsets at which lines begin, followed by the size of the file if the last line
        has a line end, and by one more than that otherwise. And with ``skip_blank`` the
        class of each line: 0 blank, 2 not, 1 to be decided by its text.
    """
    offsets = [np.array([begin], np.int64)]
    classes = [np.zeros(0, np.uint8)]
    unfinished = np.uint8(0)  # class of the line that goes on in the next chunk
    progress = ProgressLog()
    for start in range(begin, reader.size, chunk):
        raw = reader.read(start, min(chunk, reader.size - start))
        data = np.frombuffer(raw, np.uint8)
        after_ends = np.flatnonzero(data == ord("\n")) + 1
        offsets.append(after_ends.astype(np.int64) + start)
        if skip_blank:
            found, unfinished = _classify(data, after_ends, unfinished)
            classes.append(found)
        tell(progress, reader, "looked for lines", start + len(raw))
    last = next((int(part[-1]) for part in reversed(offsets) if part.size), begin)
    if last < reader.size:
        offsets.append(np.array([reader.size + 1], np.int64))
        classes.append(np.array([unfinished], np.uint8))
    return _joined(offsets), _joined(classes)


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Put arrays together. Each is freed once it is copied: of a large index little is there twice.

    The last one comes first, so that none is looked for; memory that is not written to yet is none.
    """
    end = sum(map(len, parts))
    whole = np.empty(end, parts[0].dtype)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole


def _classify(
    data: npt.NDArray[np.uint8], after_ends: npt.NDArray[np.intp], unfinished: np.uint8
) -> tuple[npt.NDArray[np.uint8], np.uint8]:
    """Give the classes of the lines that end in a chunk, and of the one that goes on after it."""
    cuts = np.concatenate([np.zeros(1, np.intp), after_ends])
    goes_on = cuts[-1] < len(data)
    found = np.maximum.reduceat(_CLASSES[data], cuts if goes_on else cuts[:-1])
    found[0] = max(found[0], unfinished)
    return (found[:-1], found[-1]) if goes_on else (found, np.uint8(0))
