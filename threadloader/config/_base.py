"""The folder that relative paths of a config start at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..errors import by_handler

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Base"]


class Base:
    """The folder that relative paths of a config start at; ``base / path`` is a `Path`.

    `pathlib` is imported when a path is asked for. It takes a fifth of the time that importing
    threadloader takes, and a loader of arrays in memory needs no path.

    Args:
        folder: its path; None for a working folder that is gone.
    """

    __slots__ = ("_folder",)

    def __init__(self, folder: str | Path | None) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how `copy` and `pickle` make another: its oldest protocols read no slots."""
        return type(self), (self._folder,)

    @classmethod
    def working(cls) -> Base:
        """The working folder, at which relative paths of a config in code start."""
        try:
            return cls(os.getcwd())  # noqa: PTH109 (see above)
        except FileNotFoundError as error:
            if by_handler(error):
                raise
            return cls(None)

    @property
    def path(self) -> Path:
        """The folder."""
        from pathlib import Path

        if self._folder is None:
            from ._missing_cwd import Gone

            return Gone()
        # A `Path` may be a `Gone`, which a command has passed on.
        return Path(self._folder) if isinstance(self._folder, str) else self._folder

    def __truediv__(self, path: str) -> Path:
        return self.path / path

    def bound(self, root: str | None) -> Path | None:
        """The folder that a config's ``root`` names, which no file it names may leave, if any."""
        return None if root is None else self.path / root
