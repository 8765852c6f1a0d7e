"""The machine and what lies on it: memory of processes, sizes and versions of packages."""

from __future__ import annotations

import compileall
import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

__all__ = ["Memory", "commit", "compiled", "installed_bytes", "machine", "version"]

ROOT = Path(__file__).resolve().parent.parent


class Memory:
    """Resident memory above what it is when this is made, in bytes.

    Attributes:
        told: whether the system tells it. Linux alone does, if it can be made to forget the peak
            up to now, which imports have left.
    """

    def __init__(self) -> None:
        self.told = True
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            self.told = False
        self._before = _peak()

    def above_start(self) -> int:
        """Give the peak of this process above the start."""
        return max(0, _peak() - self._before)

    def of_children(self) -> int:
        """Give what all processes under this one have to themselves, now."""
        return sum(_private(child) for child in _descendants(os.getpid()))


def _peak() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _private(process: int) -> int:
    """Give the memory that no other process shares."""
    total = 0
    with contextlib.suppress(OSError):  # it has just ended
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
        for line in rollup.splitlines():
            if line.startswith("Private_"):
                total += int(line.split()[1]) * 1024
    return total


def _descendants(process: int) -> Iterator[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may hold anything; the parent is the second behind it.
            stat = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(folder.name)] = int(stat[1])
    found = {process}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return
        yield from more
        found |= more


def installed_bytes(package: str, module: str, over: Collection[str] = ("numpy",)) -> int:
    """Give the size of the files of a package and of all that it needs, without compiled ones.

    Args:
        package: the distribution.
        module: what is imported; where it is that of this checkout, its folder and the schema
            that is built into it are all.
        over: distributions that count as there already.
    """
    folder = _in_checkout(module)
    if folder is not None:
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        files.append(ROOT / "config_schema.json")
        return sum(path.stat().st_size for path in files)
    seen = {_plain(name) for name in over}
    found = _distribution(package, module)
    waiting, total = [] if found is None else [found.name], 0
    while waiting:
        name = waiting.pop()
        if _plain(name) in seen:
            continue
        seen.add(_plain(name))
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # of other systems
            found = importlib.metadata.distribution(name)
            total += _files_bytes(found)
            waiting += [
                re.split(r"[\s\[<>=!~;(@]", line, maxsplit=1)[0]
                for line in found.requires or ()
                if "extra ==" not in line
            ]
    return total


def _files_bytes(found: importlib.metadata.Distribution) -> int:
    total = 0
    for file in found.files or ():
        if file.suffix != ".pyc":
            with contextlib.suppress(OSError):
                total += Path(str(file.locate())).stat().st_size
    return total


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def version(package: str, module: str) -> str | None:
    """Give the version of a package, "" for that of this checkout, None for none installed."""
    if _in_checkout(module) is not None:
        return ""
    found = _distribution(package, module)
    return None if found is None else found.version


def compiled(module: str) -> None:
    """Compile a module of this repository, as pip has done with what is installed."""
    folder = _in_checkout(module)
    if folder is not None:
        compileall.compile_dir(folder, quiet=2)


def _in_checkout(module: str) -> Path | None:
    """Give the folder of a module of this repository."""
    folder = ROOT / module
    return folder if (folder / "__init__.py").exists() else None


def _distribution(package: str, module: str) -> importlib.metadata.Distribution | None:
    """Find what is installed under a name, or under another one that brings the same module."""
    top = module.partition(".")[0]
    names = [package]
    if importlib.util.find_spec(top) is not None:
        names += importlib.metadata.packages_distributions().get(top, ())
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.distribution(name)
    return None


def machine() -> dict[str, Any]:
    """Say what is measured on: plain JSON values; ``load``: how much others do there now."""
    from ._synthetic import cores

    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores(),
        "python": f"{platform.python_implementation()} {platform.python_version()}{free}",
        "gil": bool(gil),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or "unknown"


def commit() -> str:
    """Give the commit that is measured, "+" behind it where files differ; "" outside of git."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        named = _git("rev-parse", "--short=12", "HEAD")
        return named + ("+" if _git("status", "--porcelain") else "")
    return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
