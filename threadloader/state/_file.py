"""A state in a file: there whole, or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import StateError
from ._state import Excluded, checksum

__all__ = ["read", "write"]


def write(state: Mapping[str, Any], path: str | os.PathLike[str], *, tidy: bool = False) -> None:
    """Write a state to a file: it is there whole, or the file is as it was.

    When this returns, the state is on the disk. A symbolic link is followed.

    Args:
        state: what `dump` gave.
        path: the file.
        tidy: first remove what a process that was killed while it wrote has left behind
            for the same shard.

    Raises:
        OSError: the system cannot write it.
    """
    place = Path(os.path.realpath(path))
    prefix = f"{place.name}.{state['shard']['index']}."
    if tidy:
        for left in place.parent.iterdir():
            if left.name.startswith(prefix) and left.name.endswith(".tmp"):
                left.unlink(missing_ok=True)
    # A name of its own: two runs, or two threads, that save at once do not mix.
    temporary = place.with_name(f"{prefix}{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(_text(state))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened, or need not be
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the file of a state; `load` says whether it fits.

    Raises:
        StateError: it is damaged.
        OSError: the system cannot read it.
    """
    data = Path(path).read_bytes()
    try:
        state = json.loads(data)
        # Looked at before anything else: a flipped bit in the version, too, is damage.
        expected = checksum(state, Excluded.of(state["exclude"]))
        whole = state["checksum"] == expected and _text(state) == data
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        whole = False  # not UTF-8, not JSON, absurdly deep, or JSON of something else
    if not whole:
        raise StateError(
            f"{os.fspath(path)}: the state is damaged: expected what save() writes, got "
            f"{len(data)} bytes that are not; use an older one, or begin the run anew"
        )
    return dict(state)


def _text(state: Mapping[str, Any]) -> bytes:
    """Give the one form in which a state stands in a file."""
    return (json.dumps(state, indent=1, allow_nan=False) + "\n").encode()
