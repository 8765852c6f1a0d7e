"""A working folder that is gone."""

from __future__ import annotations

import errno
from pathlib import Path, PosixPath
from typing import Any

__all__ = ["Gone"]


class Gone(PosixPath):  # Windows does not delete a folder that somebody works in
    """A working folder that is gone: joining a relative path to it fails, an absolute one not."""

    def __truediv__(self, path: Any) -> Any:
        joined = Path(self, path)
        if not joined.is_absolute():
            text = "the working folder, to which this path is relative, is gone; give a whole path"
            raise FileNotFoundError(errno.ENOENT, text, path)
        return joined
