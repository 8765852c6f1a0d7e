"""Gives the files that a source's option ``path`` names, all of which must be there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import by_handler
from ._open_file import none_there
from ._paths import expand

__all__ = ["named_files"]


def named_files(spec: Mapping[str, Any], base: Path, root: Path | None) -> list[Path]:
    """Give what ``path``, names and patterns of a config's source, means, as `expand` does.

    They are looked at before any is opened, which may take long, so that one error names all that
    are missing. Whatever else is wrong with a file, opening it says.
    """
    files = expand(base, spec["path"], root, through_links=True)
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
        raise none_there(missing) from causes.pop()
    return files
