"""When the files that a config names were last written to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import by_handler
from ._fingerprint import sha256
from ._paths import expand, real
from ._sqlite_files import beside

__all__ = ["log_status", "stamp"]


def stamp(
    spec: Mapping[str, Any],
    base: str | Path = ".",
    root: str | Path | None = None,
    *,
    written: bool = False,
) -> str:
    """Give a text that changes when a file of a source is written to, its size unchanged or not.

    It has the number of files, and a checksum of their paths, sizes and times: when the contents
    changed and, unless `written`, when the status did, which nobody can set. A fingerprint
    tells data from other data on any machine; it looks at sizes and some rows. This tells a file
    from its own earlier state, on one machine: for samples that are kept from one run to the
    next. Ask for it *before* the source is opened: a file that is written to in between then
    belongs to a state that does not come back. Arguments and errors are those of `open_source`,
    but that a missing file is none.
    """
    base = base if isinstance(base, Path) else Path(base)
    files = _files_of(spec, base, None if root is None else base / root)
    statuses = [_status(file) for file in files]  # None: opening the source says what is wrong
    states = [() if it is None else _state_of(it, written=written) for it in statuses]
    # Only by its path a file differs from one of its size, written in the same tick of the clock.
    paths = _paths_of(files)
    if spec["type"] == "sqlite":
        # What SQLite has written last may stand in a log beside a database.
        logs = [
            log_status(file) for file, it in zip(files, statuses, strict=True) if it is not None
        ]
        # Not when its status changed: a mere reader that is root sets the log's owner, to the same.
        states += [() if log is None else _state_of(log, written=True) for log in logs]
    digest = sha256()
    for each in states:
        digest.update(f"{each}\n".encode())
    for path in paths:
        digest.update(f"{path}\n".encode("utf-8", "surrogatepass"))
    return f"{len(states)} files, sha256 of paths, sizes and times {digest.hexdigest()}"


def _state_of(status: os.stat_result, *, written: bool) -> tuple[int, ...]:
    # Unpacking an archive can set the time of the contents to what it was, not that of the status.
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return status.st_size, *(times[:1] if written else times)


def _paths_of(files: Iterable[Path]) -> Iterator[str]:
    """Give the path of each file itself, links followed."""
    folders: dict[Path, str] = {}  # a folder of a million files is looked up once
    for file in files:
        if os.path.islink(file):  # noqa: PTH114 - False of what no system can have
            yield real(file)
            continue
        folder = folders.get(file.parent)
        if folder is None:
            folder = folders[file.parent] = real(file.parent)
        yield os.path.join(folder, file.name)  # noqa: PTH118 - as above, the text of a path


def log_status(database: Path) -> os.stat_result | None:
    """Give the status of the write-ahead log of an SQLite database, or of the link to one.

    None where nothing is in the log: those who only read make an empty log, and leave it there.
    """
    status = _status(beside(database, "-wal"))
    return status if status is not None and status.st_size else None


def _status(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except (OSError, ValueError) as error:
        if by_handler(error):
            raise
        return None


def _files_of(spec: Mapping[str, Any], base: Path, root: Path | None) -> list[Path]:
    if "folder" in spec:
        patterns, label = spec.get("pattern", "**/*"), spec.get("label")
        found = sorted(expand(base / spec["folder"], patterns, root, overlapping=True))
        return [*found, base / label["csv"]] if isinstance(label, Mapping) else found
    if spec.get("path") is None:
        # Where there are no fields either, opening the source says so.
        names = (spec.get("fields") or {}).values()
        return [file for each in names for file in expand(base, each, root)]
    return expand(base, spec["path"], root)
