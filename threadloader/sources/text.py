"""Lines of text files as samples.

What a line is, and how it is found, stands in `_lines`. The text is UTF-8. A line that is
not is an error when it is read, never replaced or left out. Blank lines are samples too,
``""``, unless ``skip_blank`` leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._lines import LineFiles, line_options

__all__ = ["TextSource", "open_text"]


def open_text(spec: Mapping[str, Any], base: Path, root: Path | None = None) -> TextSource:
    """Open ``{"type": "text", "path": names or patterns, "skip_blank": false, "index": ...}``."""
    return TextSource(**line_options(spec, base, root))


class TextSource(LineFiles):
    """Samples are the lines of text files, as str, without their line ends; see `LineFiles`."""

    def __getitem__(self, index: int) -> str:
        """Give one line; a SourceError if it is not UTF-8."""
        return self.line(index).text()

    def fingerprint(self) -> str:
        """Tell these files from others: number of lines, sizes in bytes, ``skip_blank``."""
        return f"text, {super().fingerprint()}"
