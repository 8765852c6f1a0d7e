"""Lines of text files as samples.

What a line is, and how it is found, stands in `_lines`. The text is UTF-8. A line that is
not is an error when it is read, never replaced or left out. Blank lines are samples too,
``""``, unless ``skip_blank`` leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._lines import LineSource, open_lines

__all__ = ["TextSource", "open_text"]


def open_text(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> TextSource:
    """Open ``{"type": "text", "path": names or patterns, "skip_blank": false, "index": "memory"}``.

    Args:
        spec: the section of the config.
        base: the folder to which relative paths are relative.
        root: the folder that no file may lie outside of; None for no bound.

    Returns:
        The open source.

    Raises:
        SourceError: a file is missing, not a regular one, or cannot be read; a pattern
            finds none; or a file comes twice or lies outside of root.
        ConfigError: the list of files is empty.
    """
    return TextSource(open_lines(spec, base, root))


class TextSource(LineSource):
    """Samples are the lines of text files, as str, without their line ends.

    Lines are read by position: any number of threads may read at once.

    Args:
        lines: the lines of the files.
    """

    def __getitem__(self, index: int) -> str:
        """Give one line.

        Args:
            index: 0 .. ``len - 1``, counted through all files.

        Returns:
            The line, without its end.

        Raises:
            IndexError: there is no such line.
            SourceError: it is not UTF-8, or the file has changed since it was opened.
            ClosedError: the source has been closed.
        """
        return self._lines[index].text()

    def fingerprint(self) -> str:
        """Tell these files from others: number of lines, sizes in bytes, ``skip_blank``."""
        return f"text, {self._lines.fingerprint()}"
