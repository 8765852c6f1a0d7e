"""Names as the disk has them, on systems that find a file by several spellings of its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath

from ..errors import SourceError
from ._paths import MAGIC, inside, is_there, listing

__all__ = ["check_spelling"]

_ANY_CASE = os.name == "nt" or sys.platform == "darwin"


def check_spelling(folder: Path, patterns: Sequence[str], root: Path | None) -> None:
    """Refuse a name in a pattern that the disk has in another spelling, on systems that find it.

    Such a name would stand in samples, and decide in which order they come. A letter and its accent
    may be two characters on the disk: that is no other spelling. Each pattern is checked up to its
    first name with a ``*``, ``?`` or ``[``. A folder on the way that cannot be listed or lies
    outside of root is a SourceError, too.
    """
    if not _ANY_CASE:
        return
    listed: dict[Path, dict[str, str]] = {}
    for pattern in patterns:
        there = folder
        for part in PurePath(pattern).parts:
            if MAGIC & set(part) or not is_there(there / part):
                break
            if there not in listed:
                names = [name for name, _, _ in listing(inside(there, root), None)]
                listed[there] = dict(zip(map(_composed, names), names, strict=True))
            if _composed(part) not in listed[there]:
                raise _misspelt(there / part, listed[there])
            there /= part


def _composed(name: str) -> str:
    import unicodedata  # imported when it is asked for

    return unicodedata.normalize("NFC", name)


def _misspelt(path: Path, names: dict[str, str]) -> SourceError:
    meant = _composed(path.name).rstrip(". ").casefold()
    near = [name for composed, name in names.items() if composed.casefold() == meant]
    hint = f"write {near[0]!r}" if near else "see how the folder lists it"
    return SourceError(f"expected a name as the disk has it, got {path.name!r}; {hint}", path)
