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
    """Open ``{"type": "text", "path": names or patterns, "skip_blank": false, "index": ...}``."""
    return TextSource(open_lines(spec, base, root))


class TextSource(LineSource):
    """Samples are the lines of text files, as str, without their line ends; see `LineSource`."""

    def __getitem__(self, index: int) -> str:
        """Give one line; a SourceError if it is not UTF-8."""
        return self._lines[index].text()

    def fingerprint(self) -> str:
        """Tell these files from others: number of lines, sizes in bytes, ``skip_blank``."""
        return f"text, {self._lines.fingerprint()}"
