"""Gives the files that a source's option ``path`` names, all of which must be there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import by_handler
from ._open_file import none_there
from ._paths import expand

__all__ = ["check_there", "named_files"]


def named_files(spec: Mapping[str, Any], base: Path, root: Path | None) -> list[Path]:
    """Give what ``path``, names and patterns of a config's source, means, as `expand` does.

    If some are not there, it is a SourceError; see `check_there`.
    """
    files = expand(base, spec["path"], root, through_links=True)
    check_there(files)
    return files


def check_there(files: Iterable[Path], options: Mapping[Path, str] | None = None) -> None:
    """Raise one SourceError for all of some files that are missing, before any is opened.

    To open them may take long. Whatever else is wrong with a file, opening it says. ``options``
    says which option names a file, where that is not the path.
    """
    missing: list[Path] = []
    causes: list[BaseException] = []
    for file in files:
        try:
            file.stat()
        except (OSError, ValueError) as error:
            if by_handler(error):
                raise
            if isinstance(error, FileNotFoundError):
                missing.append(file)
                causes = causes or [error]
    if missing:  # the cause is popped, since a variable of it would make a cycle
        raise none_there(missing, (options or {}).get(missing[0], "")) from causes.pop()
