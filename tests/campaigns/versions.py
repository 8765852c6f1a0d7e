"""The campaign `versions`: runs give what is written down, in any version and in any way.

    python3 tools/campaign versions

Each run of `pinned` is played with every number of workers and of batches ahead, cut once and
gone on with another, and held against its line of `goldens/runs.json`, whatever Python, numpy
and processor it is. A failure tells the run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pinned

from .cases import some


def drifted(numbers: range, ways: int, folder: Path) -> list[str]:
    """Play runs, each in so many ways.

    Args:
        numbers: of the runs.
        ways: how many of `pinned.WAYS` each is played in, from its number on.
        folder: an empty folder, for the data files.

    Returns:
        A text for each that did not come to what is written down.
    """
    pinned.make_data(folder)
    expected, texts = pinned.goldens(), []
    for number in numbers:
        run = pinned.drawn(number)
        for way in range(number, number + ways):
            # Goes on with other workers and another depth: the second step has no divisor in
            # common with the number of ways, so that each is the second one once.
            lives = [pinned.WAYS[step % len(pinned.WAYS)] for step in (way, 5 * way + 7)]
            came = pinned.played(run, folder, *lives)
            if came != expected[number]:
                texts.append(f"run {number}, {lives}: expected {expected[number]}, got {came}")
                texts[-1] += f"\n    {run}"
    return texts


def write(folder: Path) -> None:
    """Write down what the runs come to here, without workers."""
    pinned.make_data(folder)
    lines = []
    for number in range(pinned.RUNS):
        came = pinned.played(pinned.drawn(number), folder, (0, 1))
        lines.append(json.dumps({"run": number, **came}))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    pinned.GOLDENS.write_text(text, encoding="utf-8", newline="\n")


def main(args: list[str]) -> int:
    """Give the exit code."""
    parser = argparse.ArgumentParser("tools/campaign versions", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    most, ways = pinned.RUNS, len(pinned.WAYS)
    parser.add_argument("--count", type=some, default=most, help=f"runs (default: {most}, all)")
    parser.add_argument("--ways", type=some, default=ways, help=f"of each (default: {ways}, all)")
    parser.add_argument("--write", action="store_true", help="write the file anew instead")
    options = parser.parse_args(args)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if options.write:
            write(Path(folder))
            return 0
        texts = drifted(range(min(options.count, most)), options.ways, Path(folder))
    print("\n".join(texts), end="\n" if texts else "", file=sys.stderr)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(
        f"versions: {len(texts)} drifted of {min(options.count, most) * options.ways:,}; "
        f"{platform.python_implementation()} {platform.python_version()}, GIL "
        f"{'on' if gil else 'off'}, numpy {np.__version__}, {platform.machine()}, "
        f"{time.monotonic() - began:.0f} s"
    )
    return int(bool(texts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
