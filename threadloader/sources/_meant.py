"""What may have been meant by a path that leads to nothing."""

from __future__ import annotations

import re

__all__ = ["escaped", "starts"]


def starts(path: str) -> str:
    """Say what to do where a path leads to nothing."""
    hint = "a relative path starts at the folder of the config file, or without one at the current"
    itself = {
        r"{.*}": 'braces stand for themselves: write "*" for what differs, or a list of names',
        r"(^|[/\\])~|\$": '"~" and "$" stand for themselves: write the whole path',
    }
    texts = [text for sign, text in itself.items() if re.search(sign, path)]
    return "; ".join([f"{hint} folder", *texts]) + escaped(path)


def escaped(path: str) -> str:
    r"""Say what to do, behind a semicolon, about a path in which JSON has read a backslash.

    >>> escaped("C:\temp"), escaped("C:\\temp")
    ('; in JSON a backslash is written twice, or as /', '')
    """
    found = re.search(r"[\b\f\n\r\t]", path)
    return "; in JSON a backslash is written twice, or as /" if found else ""
