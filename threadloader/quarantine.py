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


class Quarantine:
    """A quarantine file. It is open only while lines are added.

    Args:
        path: the file; it is made with the first line.
        option: the option that names it, as a JSON pointer.

    Raises:
        ConfigError: it cannot be such a file.
    """

    def __init__(self, path: Path, option: str = "/on_error/quarantine") -> None:
        there = path.exists()
        if not path.parent.is_dir():
            raise ConfigError(Problem(option, "a file in a folder that is there", str(path)))
        if there and not path.is_file():
            raise ConfigError(Problem(option, "a file", f"{path}, which is none"))
        if not os.access(path if there else path.parent, os.W_OK):
            raise ConfigError(Problem(option, "a file that can be written", str(path)))
        self._path = path

    def add(self, failures: Iterable[Mapping[str, Any]]) -> None:
        """Add a line for each failure: all in one write, so that shards may share the file.

        A killed write leaves a torn last line, which the next one cuts off.

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
                    file.truncate(self._path.read_bytes().rfind(b"\n") + 1)
            if file.write(lines) != len(lines):
                raise OSError(f"{self._path}: a part of a line was written; is the disk full?")
