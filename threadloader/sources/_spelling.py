"""Names as the disk has them, on systems that find a file by several spellings of its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath

from ..errors import SourceError
from ._paths import MAGIC, is_there, listing

__all__ = ["check_spelling"]

_ANY_CASE = os.name == "nt" or sys.platform == "darwin"


def check_spelling(folder: Path, patterns: Sequence[str]) -> None:
    """Refuse a name in a pattern that the disk has in another spelling, on systems that find it.

    Such a name would stand in samples, and decide in which order they come.

    Args:
        folder: below it the patterns are.
        patterns: each up to its first name with a ``*``, ``?`` or ``[``.

    Raises:
        SourceError: there is one, or a folder on the way cannot be listed.
    """
    if not _ANY_CASE:
        return
    listed: dict[Path, set[str]] = {}
    for pattern in patterns:
        there = folder
        for part in PurePath(pattern).parts:
            if MAGIC & set(part) or not is_there(there / part):
                break
            if there not in listed:
                listed[there] = {name for name, _, _ in listing(there, None)}
            if part not in listed[there]:
                _refuse_spelling(there / part, listed[there])
            there /= part


def _refuse_spelling(path: Path, names: Collection[str]) -> None:
    import unicodedata  # imported when it is asked for

    def composed(name: str) -> str:
        return unicodedata.normalize("NFC", name)

    name = composed(path.name)
    if name in map(composed, names):  # a disk may have letters and their accents apart
        return
    near = [it for it in names if composed(it).casefold() == name.rstrip(". ").casefold()]
    hint = f"write {near[0]!r}" if near else "see how the folder lists it"
    raise SourceError(f"expected a name as the disk has it, got {path.name!r}; {hint}", path)
