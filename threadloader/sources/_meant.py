"""What may have been meant by a path that leads to nothing."""

from __future__ import annotations

import errno
import re
from pathlib import Path

__all__ = ["escaped", "starts"]

_ESCAPED = r"[\b\f\n\r\t]"
"""What JSON makes of a single backslash and the letter behind it."""

_TWICE = "in JSON a backslash is written twice, or as /"


def starts(path: str) -> str:
    """Say what to do where a path leads to nothing."""
    hint = "a relative path starts at the folder of the config file, or without one at the current"
    itself = {
        r"{.*}": 'braces stand for themselves: write "*" for what differs, or a list of names',
        r"(^|[/\\])~|\$": '"~" and "$" stand for themselves: write the whole path',
        _ESCAPED: _TWICE,
    }
    texts = [text for sign, text in itself.items() if re.search(sign, path)]
    return "; ".join([f"{hint} folder", *texts])


def escaped(path: Path, error: Exception) -> str:
    """Say what to do, behind a semicolon, about a name that Windows takes for none of a file."""
    wrong = getattr(error, "errno", None) == errno.EINVAL and re.search(_ESCAPED, str(path))
    return f"; {_TWICE}" if wrong else ""
