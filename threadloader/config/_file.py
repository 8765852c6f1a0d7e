"""A config file: its name, the section of it that is meant, and the places in it."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from .._schema import Place, show
from ..errors import ConfigError, Problem, by_handler

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "DEEPEST",
    "LARGEST_TEXT",
    "Document",
    "Spot",
    "follow",
    "half_in",
    "keys",
    "read",
    "split",
]

LARGEST_TEXT = 4 * 1024 * 1024  # bytes, or characters of a string
DEEPEST = 64  # arrays and objects in one another
_HALF = "[\ud800-\udfff]"  # half of a character, a lone surrogate, which UTF-8 cannot say

# How a shell hands over what another program writes: `check <(make-config)`.
_HANDED_OVER = r"/dev/stdin|(?:/dev|/proc/self)/fd/\d+"
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}

# Where a value begins; for an object also key -> (where the key begins, its value's
# spot), for an array the spots of its items.
Spot = int | tuple[int, Any]


def half_in(text: str) -> str:
    """The first lone surrogate in a text; "" where there is none."""
    # Most texts are ASCII, and need no pattern, which takes 0.7 ms of a program's first loader.
    found = None if str.isascii(text) else re.search(_HALF, text)
    return "" if found is None else found[0]


class Document:
    """A JSON text that has been read.

    Attributes:
        value: the value, as `json` would give it; but ``None`` in place of a number
            that is refused, and the first value of a key that comes twice.
        problems: what is refused in it while the reading goes on, by position.
        refused: the paths of refused values, and of keys with a lone surrogate.
    """

    def __init__(
        self,
        value: Any,
        problems: list[Problem],
        refused: set[Place],
        spot: Spot,
        place: Callable[[int], tuple[int, int]],
    ) -> None:
        self.value = value
        self.problems = problems
        self.refused = refused
        self._spot = spot
        self._place = place

    def place(self, path: Place, *, at_key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of a value or of its key.

        Args:
            path: keys and positions from the root. What does not exist stands
                where the value that should contain it begins.
            at_key: whether the place of the key is wanted, where there is one.
        """
        spot, key_at = self._spot, -1
        for name in path:
            inside = None if isinstance(spot, int) else spot[1]
            key_at = -1
            if isinstance(inside, dict) and name in inside:
                key_at, spot = inside[name]
            elif isinstance(inside, list) and isinstance(name, int) and name < len(inside):
                spot = inside[name]
            else:
                break
        start = spot if isinstance(spot, int) else spot[0]
        return self._place(key_at if at_key and key_at >= 0 else start)


def split(config: object) -> tuple[str, list[str]]:
    """The file and the keys of the section that ``train.json#/training`` names.

    Raises:
        ConfigError: it is no path, names no file, or what follows the ``#`` is no JSON pointer.
    """
    from pathlib import Path, PurePath  # only where there is a file: see `Base`

    # On Windows a path turns the slashes of the pointer round; as_posix turns them back.
    name = config.as_posix() if isinstance(config, PurePath) else config
    name = os.fspath(name) if isinstance(name, os.PathLike) else name
    if not isinstance(name, str):
        expected = "a path, a mapping or a LoaderConfig"
        hint = "give data as the source: Loader({...}, source=...), with the options in the mapping"
        raise ConfigError(Problem("config", expected, show(config), hint))
    cut = len(name)
    if "#" in name:
        # Of the names up to a #, the longest that is a file; else the longest whose folder exists.
        cuts = sorted([cut, *(match.start() for match in re.finditer("#", name))], reverse=True)
        files = (cut for cut in cuts if _leads_to(Path(name[:cut]), folder=False))
        in_folders = (cut for cut in cuts if _leads_to(Path(name[:cut]).parent, folder=True))
        cut = next(chain(files, in_folders, cuts[-1:]))
    if not cut:
        hint = "give its path, as in train.json; where a variable has it, see that this is set"
        raise ConfigError(Problem("config", "the name of a file", show(name), hint))
    fragment = name[cut + 1 :]
    if (fragment and fragment[0] != "/") or re.search("~(?![01])", fragment):
        expected = "a JSON pointer after the #, as in train.json#/training"
        got = f"{show(fragment)} after {name[:cut]}"
        raise ConfigError(Problem("config", expected, got))
    return name[:cut], keys(fragment)


def _leads_to(path: Path, *, folder: bool) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode) == folder
    except (OSError, ValueError) as error:  # there is none, or none that may be looked at
        if by_handler(error):
            raise
        return False


def keys(fragment: str) -> list[str]:
    """The keys of a JSON pointer."""
    return [key.replace("~1", "/").replace("~0", "~") for key in fragment.split("/")[1:]]


def read(file: str) -> bytes:
    """The bytes of a file; of one that is too large, only enough to see that.

    Raises:
        OSError: the system cannot read it, or it is no regular file: opening a FIFO
            waits for a writer who may never come, and a device never ends.
        ConfigError: no file can have this name.
    """
    from pathlib import Path

    try:
        # The name as it was given: a Path drops a slash at its end.
        mode = os.stat(file).st_mode  # noqa: PTH116
        if stat.S_ISDIR(mode):  # else Windows would say that permission is denied
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
        kind = _KINDS.get(stat.S_IFMT(mode))
        if kind and not re.fullmatch(_HANDED_OVER, file):
            raise OSError(errno.EINVAL, f"expected a regular file, got {kind}", file)
        with Path(file).open("rb") as stream:
            return stream.read(LARGEST_TEXT + 1)
    except FileNotFoundError as error:
        # An error that a signal handler raised names another file, or none.
        if error.filename == file and not Path(file).is_absolute():
            try:
                at = f"starts at the current folder, {Path.cwd()}"
            except OSError as gone:
                if by_handler(gone):
                    raise
                at = "starts at the current folder, which is gone; give a whole path"
            note = f"threadloader: expected a config file, found none; a relative path {at}"
            error.add_note(note)
        raise
    except ValueError as error:  # a name that no file can have
        if by_handler(error):
            raise
        expected = "the name of a file"
        raise ConfigError(Problem("config", expected, show(file), str(error))) from None


def follow(value: Any, names: list[str]) -> tuple[Place, Any]:
    """How far names lead into a value: the path, and what stands there."""
    path: list[str | int] = []
    for name in names:
        step: str | int = name
        if isinstance(value, list) and len(name) < 10 and name.isdecimal():
            step = int(name) if str(int(name)) == name and int(name) < len(value) else name
        if not (isinstance(value, dict) and name in value) and not isinstance(step, int):
            break
        value = value[step]
        path.append(step)
    return tuple(path), value
