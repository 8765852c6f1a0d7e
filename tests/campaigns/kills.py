"""The campaign `kills`: a run is killed with SIGKILL at random moments until it is done.

    python3 tools/campaign kills --count 3000 --seed 1

Looked at after every kill:

- the file of the state is not there, or is whole, and holds what the state of an
  uninterrupted run is after as many batches;
- it counts the last batch of the record, or the one before it if the kill came in between;
- the record up to the batch that the state counts, followed by what the next life delivers,
  is the uninterrupted sequence: epoch, step, indices and content.

When the run is done its record is the whole sequence and no temporary file is left.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from lives import Count, Run, Server

from .cases import none_or_some, some

MOST_KILLS = 40
"""Of one run. Chosen: one whose lives are too short to get anywhere must end, too."""


class Kills:
    """Runs that are killed, one after the other, until there were enough kills.

    `disk` is the part of the runs in which a save waits for the disk.
    """

    def __init__(
        self, server: Server, folder: Path, seed: int, workers: list[int], disk: float = 0.25
    ) -> None:
        self.server = server
        self.folder = folder
        self.seed = seed
        self.workers = workers
        self.disk = disk
        self.count = Count()
        # With and without the disk: seconds until a life delivers, and for each batch.
        self.paces: dict[bool, tuple[float, float]] = {}

    def until(self, kills: int, fresh: bool = False) -> Count:
        """Kill until so many lives were killed in all; a run once begun is brought to its end."""
        while self.count.kills < kills:
            self.one(kills, fresh)
        return self.count

    def pace(self, run: Run, live: Callable[..., tuple[int, float]]) -> tuple[float, float]:
        """How long a life is: by one that is left alone and one with no batch.

        Measured again and again: the machine may have other things to do.
        """
        disk = run.job["disk"]
        if disk not in self.paces or self.count.runs % 10 == 0:
            whole, none = live(run.next_job())[1], live(run.next_job())[1]
            self.paces[disk] = none, max(0.0, whole - none) / len(run.expected)
            (run.folder / "run.state").unlink()
        return self.paces[disk]

    def one(self, most: int, fresh: bool) -> None:
        """One run, killed until it is done."""
        number = self.count.runs
        draw = random.Random(f"{self.seed}, {number}, {fresh}")
        run = Run(self.folder / str(number), draw, self.workers, self.disk)
        live = self.server.live_fresh if fresh else self.server.live
        begin, pace = self.pace(run, live)
        # A kill early in a life is as likely as a late one; in some runs all come early, so
        # that there are many.
        span = begin + pace * len(run.expected) * draw.choice([0.1, 0.3, 1.0])
        try:
            code, kills = -signal.SIGKILL, 0
            while code:
                last = kills == MOST_KILLS or self.count.kills >= most
                delay = None if last else draw.uniform(0, span)
                code, _ = live(run.next_job(), delay)
                before = self.count.kills
                run.look(self.count, code)
                kills += self.count.kills - before
                self.count.fresh += fresh * (self.count.kills - before)
        except BaseException as error:
            error.add_note(f"run {number} of seed {self.seed}, life {run.lives}, in {run.folder}")
            raise
        self.count.runs += 1
        self.count.chains[kills] += 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the campaign."""
    parser.add_argument("--count", type=some, default=3000, help="kills (default: 3000)")
    parser.add_argument(
        "--fresh", type=none_or_some, default=100, help="of these, of fresh processes (100)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the runs (default: 1)")
    parser.add_argument(
        "--workers",
        type=none_or_some,
        nargs="+",
        default=[0, 1, 2, 8],
        help="numbers of workers, of which each life draws one (default: 0 1 2 8)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Kill, and print what came of it; give the exit code."""
    began, total = time.monotonic(), 0
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    fresh = min(arguments.fresh, arguments.count)
    with Server() as server:
        for name, most in (("forked", arguments.count - fresh), ("fresh", fresh)):
            (folder / name).mkdir()
            kills = Kills(server, folder / name, arguments.seed, arguments.workers)
            try:
                count = kills.until(most, fresh=name == "fresh")
            except Exception:
                traceback.print_exc()
                print(f"kills: 1 failed, after {kills.count.kills:,} {name} ones; see {folder}")
                return 1
            total += count.kills
            print(f"{name}: {told(count)}", flush=True)
    shutil.rmtree(folder)
    print(f"kills: {total:,} in {time.monotonic() - began:.0f} s, 0 failed")
    return 0


def told(count: Count) -> str:
    """Say what came of some runs."""
    phases = ", ".join(f"{number:,} {name}" for name, number in sorted(count.phases.items()))
    chains = ", ".join(f"{number} of {kills}" for kills, number in sorted(count.chains.items()))
    return (
        f"{count.kills:,} kills of {count.lives:,} lives in {count.runs:,} runs; "
        f"{count.batches:,} batches, {count.again:,} of them twice; {phases}; "
        f"{count.stateless:,} before there was a state; "
        f"{count.temporaries:,} left a temporary file; runs by their kills: {chains}"
    )


def main(args: list[str]) -> int:
    """Give the exit code."""
    parser = argparse.ArgumentParser("tools/campaign kills", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_arguments(parser)
    arguments = parser.parse_args(args)
    if not hasattr(os, "fork"):
        print("kills: this system cannot fork", file=sys.stderr)
        return 2
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
