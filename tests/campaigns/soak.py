"""The campaign `soak`: random runs for minutes or hours, while memory is measured.

    python3 tools/campaign soak --minutes 5
    python3 tools/campaign soak --minutes 120 --seed 2

Runs have errors, breaks and resumes, over sources of every kind, and each batch is held to the
oracle (`rounds`). Once a second what must not grow is looked at: threads, open files, objects
of the library; and the memory that the process has (RSS) is written down. A line is fitted to
what came after the warm-up. The campaign fails when the upper bound of its slope, at 95%, is
above the limit, which is 2 MiB over the whole run unless told otherwise: 1 MiB an hour in
two hours.

The C library is told to have one arena and to give back what is free before each measurement,
else what it keeps for later in each of its arenas would hide a leak, or look like one. For the
same reason what CPython and numpy keep is filled before the first round (`fill_caches`). The
measurements themselves lie in memory that is there from the start: as a list they would grow by
half a MiB an hour.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import sys
import tempfile
import time
import traceback
from array import array
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np
from leaks import files, kinds, of_library, resident, tasks, threads, wait_for_tasks
from rounds import Soak

__all__ = ["GROWTH", "Slope", "main", "slope"]

MEBIBYTE = 1 << 20
GROWTH = 2.0
"""MiB that the limit allows over the whole run. Chosen: makes 1 MiB an hour in two hours."""
WARM_UP = 0.25
"""Part of the run, at most ten minutes, in which memory may still find its size."""
BLOCKS = 20
"""Means that the line is fitted to: measurements side by side are not independent."""
QUANTILE = 1.734
"""Of Student's distribution with 18 degrees of freedom, for a one-sided bound of 95%."""
ARENAS = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}


class Slope:
    """A fitted line.

    Attributes:
        slope: MiB an hour.
        bound: its upper bound at 95%.
    """

    def __init__(self, slope: float, bound: float) -> None:
        self.slope = slope
        self.bound = bound


class Points:
    """Measurements, in memory that does not grow with them.

    Attributes:
        last: bytes at the last one, 0 before the first.
        most: bytes at the highest.
    """

    def __init__(self, most: int) -> None:
        self._numbers = array("d", [0.0]) * (2 * most)  # written to, so the pages are there
        self._count = 0
        self.last = 0
        self.most = 0

    def add(self, second: float, size: int) -> None:
        """Write one down.

        Raises:
            IndexError: they are more than was said.
        """
        self._numbers[2 * self._count] = second
        self._numbers[2 * self._count + 1] = size
        self._count += 1
        self.last, self.most = size, max(self.most, size)

    def rows(self) -> list[tuple[float, int]]:
        """Give all, as a list."""
        numbers = self._numbers[: 2 * self._count]
        return [(a, int(b)) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]


def slope(points: Iterable[tuple[float, int]]) -> Slope:
    """Fit a line to the means of `BLOCKS` blocks.

    Args:
        points: seconds and bytes, at least one a block, in the order of time.

    Raises:
        ValueError: they are too few.
    """
    all_points = list(points)
    if len(all_points) < BLOCKS:
        raise ValueError(f"expected at least {BLOCKS} measurements, got {len(all_points)}")
    cuts = [len(all_points) * block // BLOCKS for block in range(BLOCKS + 1)]
    blocks = [all_points[a:b] for a, b in pairwise(cuts)]
    hours = [fmean(second for second, _ in block) / 3600 for block in blocks]
    sizes = [fmean(size for _, size in block) / MEBIBYTE for block in blocks]
    hour, size = fmean(hours), fmean(sizes)
    spread = sum((x - hour) ** 2 for x in hours)
    found = sum((x - hour) * (y - size) for x, y in zip(hours, sizes, strict=True)) / spread
    left = sum((y - size - found * (x - hour)) ** 2 for x, y in zip(hours, sizes, strict=True))
    return Slope(found, found + QUANTILE * (left / (BLOCKS - 2) / spread) ** 0.5)


def fill_caches() -> None:
    """Have what CPython and numpy keep for later at its full size.

    numpy keeps 7 pieces of memory of each size up to 1,023 bytes, 3.4 MiB that rounds of random
    sizes fill ever more slowly. CPython's table of interned strings grows when the names of new
    files have filled it, by half a MiB at once: some 4,000 rounds behind the start.
    """
    for size in range(1, 1024):
        [np.zeros(size, np.uint8) for _ in range(7)]  # freed together, so that 7 are kept
    for number in range(1 << 17):
        sys.intern(f"name {number}")


def give_back() -> Callable[[int], int]:
    """Give what makes the C library give back free memory; nothing where it cannot."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim or (lambda keep: 0)


def soak(options: argparse.Namespace) -> int:
    """Soak, print what came of it, give the exit code."""
    os.fsync = lambda handle: None  # type: ignore[assignment]  # the disk is for another campaign
    seconds, trim = options.minutes * 60, give_back()
    warm = min(WARM_UP * seconds, 600)
    before: dict[str, object] | None = None
    points, behind = Points(int(seconds / options.every) + 2 + BLOCKS), 0
    leaking: list[bytes] = []
    fill_caches()
    with tempfile.TemporaryDirectory() as folder:
        soak, alone = Soak(options.seed, Path(folder)), tasks()
        began = looked = told = time.monotonic()
        # On a slow machine it goes on until there are enough for a line.
        while (now := time.monotonic()) - began < seconds or behind < BLOCKS:
            try:
                soak.round()
                if options.leak:  # a planted one
                    leaking.append(random.randbytes(options.leak))
                if now - looked < options.every:
                    continue
                soak.let_go(len(soak.held))
                wait_for_tasks(alone)
                after = facts()
                if before is None and now - began >= warm:  # what is made once is there by now
                    before = after
                assert before in (None, after), f"left behind: were {before}, are {after}"
            except Exception:
                traceback.print_exc()
                print(f"soak: failed after {now - began:.0f} s; seed {options.seed}", flush=True)
                return 1
            trim(0)
            looked = now
            points.add(now - began, resident())
            behind += now - began >= warm
            if now - told > 60:
                told = now
                print(line(soak, now - began, points), file=sys.stderr, flush=True)
        seconds = time.monotonic() - began
    fitted = slope((second, size) for second, size in points.rows() if second >= warm)
    limit = options.limit if options.limit is not None else GROWTH * 3600 / seconds
    good = fitted.bound <= limit
    print(
        f"{line(soak, seconds, points)}; slope after {warm:.0f} s: {fitted.slope:.2f} MiB an hour,"
        f" at 95% at most {fitted.bound:.2f} of {limit:.2f}; threads, files and objects constant;"
        f" seed {options.seed}; {'0 failed' if good else 'FAILED: memory grows'}"
    )
    if options.json:
        Path(options.json).write_text(
            json.dumps({"points": points.rows()}) + "\n", encoding="ascii"
        )
    return int(not good)


def facts() -> dict[str, object]:
    """Give what must be the same between two rounds, whatever they were."""
    gc.collect()
    objects = kinds([thing for thing in gc.get_objects() if of_library(thing)])
    # A part of the schema is made when a config first has that option, and kept.
    objects.pop("threadloader._schema.Schema", None)
    return {"threads": threads(), "files": files(), "objects": objects}


def line(soak: Soak, seconds: float, points: Points) -> str:
    """Say how far it is."""
    count = soak.count
    told = ", ".join(
        f"{count[what]:,} {what}"
        for what in ("rounds", "batches", "samples", "errors", "breaks", "resumes")
    )
    last, most = points.last / MEBIBYTE, points.most / MEBIBYTE
    return f"soak: {seconds:.0f} s, {told}; RSS {last:.1f} MiB, at most {most:.1f}"


def main(args: list[str]) -> int:
    """Give the exit code: that of a process of its own, which has one arena."""
    parser = argparse.ArgumentParser("tools/campaign soak", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the rounds (default: 1)")
    parser.add_argument("--limit", type=float, help="MiB an hour (default: 2 MiB over the run)")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between measurements (1)")
    parser.add_argument("--json", metavar="FILE", help="write each measurement")
    parser.add_argument("--leak", type=int, default=0, help="bytes to leak each round: a trial")
    options = parser.parse_args(args)
    if not resident():
        print("soak: this system does not say how much memory a process has", file=sys.stderr)
        return 2
    for name in ("minutes", "every"):
        if not getattr(options, name) > 0:
            got = getattr(options, name)
            parser.error(f"--{name}: expected a number above 0, got {got:g}")
    if os.name == "nt" or os.environ.items() >= ARENAS.items():
        return soak(options)
    command = [sys.executable, "-m", "campaigns.soak", *args]
    return os.execve(command[0], command, {**os.environ, **ARENAS})  # in its place: ended with it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
