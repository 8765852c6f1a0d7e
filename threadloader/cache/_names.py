"""The names of segments: a number that grows, and something random."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

__all__ = ["new_name", "segment_names"]

_NAME = re.compile(r"([0-9a-f]{8}-[0-9a-f]{16})\.index")


def segment_names(folder: Path) -> list[str]:
    """List the segments in a folder, those begun later last.

    Raises:
        OSError: it cannot be listed.
    """
    with os.scandir(folder) as entries:
        found = (_NAME.fullmatch(entry.name) for entry in entries)
        return sorted(match[1] for match in found if match)


def new_name(folder: Path) -> str:
    """Give the name of a new segment.

    It sorts after all there are, so that a sample prepared anew because its record was
    damaged is found in place of that one.

    Raises:
        OSError: the folder cannot be listed.
    """
    last = max((int(name[:8], 16) for name in segment_names(folder)), default=0)
    return f"{min(last + 1, 0xFFFFFFFF):08x}-{secrets.token_hex(8)}"
