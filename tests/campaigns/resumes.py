"""The campaign `resumes`: runs are cut at random and go on, and the oracle says what must come.

    python3 tools/campaign resumes --count 100000 --seed 1

Each chain is one run, cut 1 to 6 times, over changing worlds and batch sizes (`cuts`). A
failure tells the chain.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from cuts import Chain

from .cases import none_or_some, some


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the campaign."""
    parser.add_argument("--count", type=some, default=100_000, help="cuts (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the runs (default: 1)")
    parser.add_argument(
        "--workers",
        type=none_or_some,
        nargs="+",
        default=[0, 0, 0, 0, 1, 2, 8],
        help="numbers of workers, which the chains have in turn (default: 0 0 0 0 1 2 8)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Cut, and print what came of it; give the exit code."""
    began, chains = time.monotonic(), 0
    cuts: Counter[int] = Counter()
    os.fsync = lambda handle: None  # the disk is for another campaign
    while cuts.total() < arguments.count:
        workers = arguments.workers[chains % len(arguments.workers)]
        # Far from the seeds of the test of every day, and of other seeds.
        chain = arguments.seed * 10**9 + chains, 1 + chains % 6
        with tempfile.TemporaryDirectory() as folder:
            try:
                cuts[workers] += Chain(*chain, Path(folder), workers).cuts
            except Exception:
                traceback.print_exc()
                called = ", ".join(map(str, chain))
                print(f"resumes: Chain({called}, folder, {workers}) failed")
                return 1
        chains += 1
    with_workers = ", ".join(f"{n:,} with {workers}" for workers, n in sorted(cuts.items()))
    print(
        f"resumes: {cuts.total():,} cuts of {chains:,} runs in {time.monotonic() - began:.0f} s, "
        f"0 failed; by workers: {with_workers}"
    )
    return 0


def main(args: list[str]) -> int:
    """Give the exit code."""
    parser = argparse.ArgumentParser("tools/campaign resumes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_arguments(parser)
    return run(parser.parse_args(args))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
