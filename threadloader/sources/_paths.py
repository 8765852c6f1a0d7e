"""Finds the files that names and patterns of a config mean, within the folder that bounds them.

The rules of patterns, the same on every machine:

- ``*`` is any run of characters, ``?`` one character, ``[abc]`` and ``[a-z]`` one of these,
  ``[!abc]`` any other. None of them goes over the end of a name, and upper and lower
  case differ everywhere. A name that has such a character itself is written with
  brackets around it: ``scan[[]1].npy``. Where that is forgotten, ``scan[1].npy`` means
  ``scan1.npy``: an error if there is a file or folder of the very name ``scan[1].npy``.
- ``**`` in place of a folder's name is any number of folders, also none; at the end of
  a pattern it is every file below. It does not go into folders that are links.
- A name that begins with a dot is found only by a part that begins with one.
- What a pattern finds is sorted by its path, folder by folder, each name by its UTF-8
  bytes: ``A, B, a, a10, a2``, since digits are characters like others. It finds no folders.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

from ..errors import ConfigError, Problem, SourceError, by_handler, unencoded
from ._open_file import escaped, starts, too_many_hint, unreadable
from ._progress import ProgressLog

__all__ = ["MAGIC", "expand", "inside", "is_there", "listing", "real", "why_not"]

MAGIC = frozenset("*?[")

_LONGEST = 4096
"""Characters of the pattern for one name, of 255 at most; many brackets take Python minutes."""


def expand(
    base: Path,
    path: str | Sequence[str],
    root: Path | None,
    *,
    through_links: bool = False,
    overlapping: bool = False,
) -> list[Path]:
    """Give the files that names and patterns mean.

    Args:
        base: the folder to which relative names and patterns are relative.
        path: a name or pattern, or several.
        root: the folder that no file may lie outside of; None for no bound.
        through_links: a link counts as the file that it leads to, which may come only once.
        overlapping: a file that several patterns find by one path comes once, and is no error.

    Returns:
        The files, in the order given; those of one pattern are sorted. A plain name is among them
        whether there is such a file or not. Links are followed only to look where they lead.

    Raises:
        SourceError: a pattern finds nothing, a file comes twice or lies outside of
            root, or a folder cannot be listed.
        ConfigError: there is no name at all, or root is no folder.
    """
    names = [path] if isinstance(path, str) else list(path)
    if not names:
        raise ConfigError(Problem("/source/path", "at least one file", "an empty list"))
    files: list[Path] = []
    seen: dict[tuple[str, str], tuple[str, Path]] = {}
    folders: dict[Path, str] = {}  # where each folder really is, found out once
    for name in names:
        for file, is_link in _files_of(base, name, root):
            if through_links and is_link:
                folder, name_there = os.path.split(real(file))
            else:  # following links costs some calls for each folder on the way
                if file.parent not in folders:
                    folders[file.parent] = real(file.parent)
                folder, name_there = folders[file.parent], file.name
                if os.name == "nt" and file == base / name and not is_link:  # spelt, not listed
                    name_there = PurePath(real(file)).name
            where = folder, os.path.normcase(name_there)
            if where in seen:
                before, same = seen[where]
                if overlapping and same == file:
                    continue
                other = f", as {same}," if before == name and same != file else ""
                raise SourceError(
                    f"expected each file once, got it by {before!r}{other} and by {name!r}; "
                    "name it once, by patterns that neither overlap nor find a link to it",
                    file,
                )
            seen[where] = name, file
            files.append(file)
    return files


def inside(path: Path, root: Path | None, option: str = "") -> Path:
    """Give a path back if it lies within a root, after following every link; it need not exist.

    A root of None is no bound. It is no defence against somebody who changes links meanwhile. A
    path outside is a SourceError, or, of an option beside the source, a ConfigError at its JSON
    pointer `option`; so is a root that is no folder.
    """
    if root is not None:
        bound = real(root, "/root")
        there = real(path, option)
        outside = not PurePath(there).is_relative_to(bound)
        # A root that is not there yet may be made with what it bounds, as the folder of a cache.
        if (outside or os.path.lexists(bound)) and not os.path.isdir(root):  # noqa: PTH112
            got = f"{bound}, which is none"
            raise ConfigError(Problem("/root", "a folder", got, "name one that is there"))
        if outside:
            leads = "" if there == str(path) else f", which is {there}"
            expected = f'a path inside the folder "root", {bound}'
            hint = "move it there, or name a wider root"
            if option:
                raise ConfigError(Problem(option, expected, f"{path}{leads}", hint))
            raise SourceError(f"expected {expected}, got one outside{leads}; {hint}", path)
    return path


def real(path: Path, option: str = "") -> str:
    """Give a path with every link followed; it need not exist. Errors are as of `inside`."""
    try:
        # Windows may leave the prefix for "take this path literally": the same path without it.
        found = re.sub(r"^\\\\\?\\(?=[A-Za-z]:)", "", os.path.realpath(path))
        return re.sub(r"^\\\\\?\\UNC\\", r"\\\\", found)
    except (OSError, ValueError) as error:  # ValueError: a path that no system has, as with NUL
        if by_handler(error):
            raise
        reason, expected = getattr(error, "strerror", None) or error, "a path that can be followed"
        unfit = unencoded(error) if isinstance(error, UnicodeEncodeError) else None
        if option:
            raise ConfigError(
                Problem(option, *(unfit or (expected, f"{reason}: {path}")))
            ) from error
        if unfit:
            raise unreadable(path, error) from error
        raise SourceError(f"expected {expected}, got: {reason}", path) from error


def _files_of(base: Path, name: str, root: Path | None) -> list[tuple[Path, bool]]:
    """Give the file of a name, or the sorted ones of a pattern, each with whether it is a link."""
    parts = PurePath(name).parts
    anchored = bool(PurePath(name).anchor)  # an anchor may have a "?" that is no pattern
    first = next((i for i in range(anchored, len(parts)) if MAGIC & set(parts[i])), len(parts))
    if first == len(parts):
        file = inside(base / name, root)
        return [(file, os.path.islink(file))]  # noqa: PTH114 - of a long name is_symlink() raises
    pattern = base / name
    if ".." in parts[first:]:
        raise SourceError('expected ".." before the first of *, ? and [ only', pattern)
    start = base.joinpath(*parts[:first])
    found = sorted(
        _search(start, parts[first:], root),
        key=lambda found: [part.encode("utf-8", "surrogatepass") for part in found[0]],
    )
    _check_literal(start, parts[:first], parts[first:])
    if not found:
        real(pattern)  # first of all a name that the encoding of the system lacks
        text = "expected a file that matches this pattern, found none; leave out the pattern, if "
        raise SourceError(f"{text}there is none to be; {starts(name)}", pattern)
    return [(start.joinpath(*below), is_link) for below, is_link in found]


def _check_literal(start: Path, before: Sequence[str], parts: Sequence[str]) -> None:
    """Refuse a pattern that, taken literally, names a file or folder which it does not match."""
    there, spelt = start, list(before)
    for part in parts:
        there = there / part
        if not is_there(there):
            return
        spelt.append(re.sub(r"([*?[])", r"[\1]", part))
        if not _matcher(part)(part):
            raise SourceError(
                "expected a pattern, got the very name of a file or folder, which brackets make "
                f"the pattern of another one; to mean it, write {PurePath(*spelt).as_posix()!r}",
                there,
            )


def is_there(path: Path) -> bool:
    """Tell whether there is anything at a path; a link that leads nowhere counts."""
    return why_not(path) is None


def why_not(path: Path) -> OSError | ValueError | None:
    """Give the error of looking at a path; None if there is anything at it, as in `is_there`."""
    try:
        path.lstat()
    except (OSError, ValueError) as error:
        if by_handler(error):
            raise
        return error
    return None


def _search(
    start: Path, parts: Sequence[str], root: Path | None
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Give each file that a pattern finds below a folder: its path's names, whether it is a link.

    Each folder is listed once, with the set of places in the pattern that the next name may
    match; so a file is found once, even by several ways through the pattern.
    """
    steps = [None if part == "**" else _matcher(part) for part in parts]
    if steps[-1] is None:
        steps.append(_matcher("*"))
    todo: list[tuple[tuple[str, ...], set[int]]] = [((), {0})]
    listed = files = 0
    progress = ProgressLog()
    while todo:
        below, places = todo.pop()
        for place in sorted(places):  # "**" may be no folder at all
            while steps[place] is None:
                place += 1
                places.add(place)
        folder = inside(start.joinpath(*below), root)
        pattern = None if below else start.joinpath(*parts)
        for name, is_folder, is_link in listing(folder, pattern):
            then = set()
            for place in places:
                step = steps[place]
                if step is None:
                    if is_folder and not is_link and not name.startswith("."):
                        then.add(place)
                elif step(name):
                    then.add(place + 1)
            if not is_folder and len(steps) in then:
                if is_link:
                    inside(folder / name, root)
                files += 1
                yield (*below, name), is_link
            then.discard(len(steps))
            if is_folder is not False and then:
                todo.append(((*below, name), then))
        listed += 1
        progress.tell("%s: found %d files in %d folders so far", start, files, listed)


def _matcher(part: str) -> Callable[[str], object]:
    if len(part) > _LONGEST:
        most = f"at most {_LONGEST:,} characters between two slashes"
        raise SourceError(f"expected a pattern of {most}, got one of {len(part):,}")
    expression = re.compile(fnmatch.translate(part)).match
    hidden = part.startswith(".")
    return lambda name: (hidden or not name.startswith(".")) and expression(name)


def listing(folder: Path, pattern: Path | None) -> list[tuple[str, bool | None, bool]]:
    """List a folder: name, whether it is a folder as `_is_folder` says, whether it is a link.

    ``pattern`` is the one whose search begins here; None: the folder was found on the way.
    """
    try:
        with os.scandir(folder) as entries:
            return [
                # A junction is what Windows has for a link to a folder.
                (each.name, _is_folder(each), each.is_symlink() or _is_junction(each))
                for each in entries
            ]
    except (OSError, ValueError) as error:  # ValueError: a path that no system has
        if by_handler(error):
            raise
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            if pattern is None:
                raise SourceError("expected a folder, found none any more", folder) from error
            got = f"found none; {starts(str(folder))}"
            if isinstance(error, NotADirectoryError) and is_there(folder):
                got = "got a file; name the folder that it is in"
            raise SourceError(f"expected the folder {folder}, {got}", pattern) from error
        reason = getattr(error, "strerror", None) or error
        got = f"{reason}{too_many_hint(error) or escaped(folder, error)}"
        raise SourceError(f"expected a folder that can be listed, got: {got}", folder) from error


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """Tell whether an entry is a folder; None: a link to a place that may not be looked at.

    If a pattern means such a link, it fails later by its own name. If none does, the link is no
    fault of the folder that it stands in.
    """
    try:
        return entry.is_dir()
    except OSError as error:
        if by_handler(error) or not entry.is_symlink():
            raise
        # A link to itself, or through a file, leads nowhere.
        return False if error.errno in (errno.ELOOP, errno.ENOTDIR) else None


def _is_junction(entry: os.DirEntry[str]) -> bool:
    asked: Callable[[], bool] | None = getattr(entry, "is_junction", None)  # from Python 3.12 on
    if asked is not None:
        return asked()
    # Only Windows has tags; there they come with the listing.
    junction = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    tag = getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", None) if junction else None
    return tag is not None and tag == junction
