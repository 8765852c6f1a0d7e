"""The file that lists samples which failed and were left out.

A line of it is a JSON object: ``index``, the dataset index; ``path``, where the sample
stands, as its source says, or null; ``error``, the exception's type and message;
``traceback``. The option `exclude` takes such a file, so that what one run left out the next
does not try.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import ConfigError, Problem

__all__ = ["Quarantine"]

_BEGIN = b'{"index": '
"""What each line that is written here begins with."""

_LONGEST = 1 << 20
"""Bytes of a line that are looked at. Chosen: a line here is far shorter."""


class Quarantine:
    """A quarantine file. It is open only while lines are added.

    Args:
        path: the file; it is made with the first line.
        option: the option that names it, as a JSON pointer.

    Raises:
        ConfigError: it cannot be such a file.
    """

    def __init__(self, path: Path, option: str = "/on_error/quarantine") -> None:
        if "\0" in str(path):
            raise ConfigError(Problem(option, "a path that a system can have", repr(str(path))))
        there = path.exists()
        if not path.parent.is_dir():
            raise ConfigError(Problem(option, "a file in a folder that is there", str(path)))
        if there and not path.is_file():
            raise ConfigError(Problem(option, "a file", f"{path}, which is none"))
        if not os.access(path if there else path.parent, os.W_OK | (os.R_OK if there else 0)):
            raise ConfigError(Problem(option, "a file that can be written", str(path)))
        if there and not _may_be_one(path):
            hint = "name another file, which need not be there"
            raise ConfigError(Problem(option, "lines of JSON", f"another file, {path}", hint))
        self._path = path

    def add(self, failures: Iterable[Mapping[str, Any]]) -> None:
        """Add a line for each failure: all in one write, so that shards may share the file.

        A killed write leaves a torn last line, which the next one cuts off. What else there is
        stays: a last line that is whole but for its end gets that.

        Args:
            failures: what stands in the lines, plain JSON values.

        Raises:
            OSError: the system cannot write them.
        """
        lines = "".join(json.dumps(dict(failure)) + "\n" for failure in failures).encode()
        with self._path.open("ab+", buffering=0) as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    before, end, last = self._path.read_bytes().rpartition(b"\n")
                    if _is_torn(last):
                        file.truncate(len(before + end))
                    else:
                        lines = b"\n" + lines
            if file.write(lines) != len(lines):
                raise OSError(f"{self._path}: a part of a line was written; is the disk full?")


def _may_be_one(path: Path) -> bool:
    """Tell whether a file is empty, or its first line is a JSON value, or one of ours cut short."""
    with path.open("rb") as file:
        first = file.readline(_LONGEST)
    return not first.strip() or _is_torn(first) or _is_json(first)


def _is_torn(line: bytes) -> bool:
    """Tell whether this is one of our lines, cut short: what a killed write leaves."""
    return line[: len(_BEGIN)] == _BEGIN[: len(line)] and not _is_json(line)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):  # ValueError: no JSON, or not UTF-8
        return False
    return True
