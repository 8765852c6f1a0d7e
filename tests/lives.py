"""The lives of runs that are killed, and what is looked at after each kill.

`killed` is the program that is killed; `campaigns.kills` draws runs and the moments of kills.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import killed
import numpy as np

from threadloader.state import read

__all__ = ["PROGRAM", "Count", "Run", "Server"]

PROGRAM = str(Path(killed.__file__).resolve())
NAMES = {
    killed.ENTERING: "while entering the loader",
    killed.WAITING: "in next",
    killed.RECORDING: "in the record",
    killed.SAVING: "in a save",
}


@dataclass
class Count:
    """What came of some runs.

    Attributes:
        kills: lives that were killed.
        fresh: how many of those had an interpreter of their own.
        runs: runs that were killed until they were done.
        lives: lives in all, those that came to their end too.
        batches: batches recorded, those that came twice too.
        again: batches that came twice: recorded, and not in the state when the kill came.
        phases: what a life was at when it was killed, by name.
        stateless: kills before there was a state.
        temporaries: kills that left a temporary file behind.
        chains: how many runs were killed so many times.
    """

    kills: int = 0
    fresh: int = 0
    runs: int = 0
    lives: int = 0
    batches: int = 0
    again: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    stateless: int = 0
    temporaries: int = 0
    chains: Counter[int] = field(default_factory=Counter)


class Server:
    """Gives lives: forks of one warm process, or processes of their own."""

    def __enter__(self) -> Server:
        root = Path(PROGRAM).parent.parent
        # One thread: a process that has more should not be forked.
        self._env = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._env,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def live(self, job: dict, delay: float | None = None) -> tuple[int, float]:
        """Gives the exit code of a life, -9 if it was killed, and its seconds."""
        self._process.stdin.write(json.dumps({**job, "delay": delay}) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return told["code"], told["seconds"]

    def live_fresh(self, job: dict, delay: float | None = None) -> tuple[int, float]:
        """Gives the same for a process of its own."""
        began = time.monotonic()
        child = subprocess.Popen([sys.executable, PROGRAM, json.dumps(job)], env=self._env)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(delay)
        child.kill()
        return child.wait(), time.monotonic() - began


class Run:
    """One run, drawn at random, in a folder of its own."""

    def __init__(
        self, folder: Path, draw: random.Random, workers: list[int], disk: float = 1.0
    ) -> None:
        self.folder = folder
        self.draw = draw
        self.workers = workers
        size, n = draw.randint(1, 4), draw.randint(12, 60)
        config = {
            "batch_size": size,
            "seed": draw.getrandbits(64),
            "shuffle": draw.random() < 0.8,
            "num_epochs": draw.randint(2, 3),
            "drop_last": draw.random() < 0.5,
            "fingerprint": draw.random() < 0.5,
        }
        self.job = {
            "folder": str(folder),
            "source": draw.choice(["array", "list", "file"]),
            "n": n,
            "config": config,
            # A killed process leaves the system all that it wrote, so the disk is not needed
            # for the proof; without it a life is not in a save for nearly all of its time.
            "disk": draw.random() < disk,
        }
        folder.mkdir()
        (folder / "phase").write_bytes(bytes([killed.ENTERING]))
        np.save(folder / "values.npy", np.arange(n) * 3 + 1)
        self.expected, self.states = self.uninterrupted()
        self.lives = 0
        self.saved = 0  # batches that the state counts
        self.recorded: list = []
        self.left: set[str] = set()  # temporary files

    def uninterrupted(self) -> tuple[list, list]:
        """What the run delivers when nothing happens to it, and the state behind each batch."""
        with killed.loader(self.job, num_workers=0) as batches:
            states = [batches.state_dict()]
            sequence = []
            for entry in killed.entries(batches):
                sequence.append(entry)
                states.append(batches.state_dict())
        return sequence, states

    def next_job(self, **more: object) -> dict:
        """The next life: how many threads it has is no matter."""
        self.lives += 1
        config = {**self.job["config"], "num_workers": self.draw.choice(self.workers)}
        config["prefetch_batches"] = self.draw.choice([1, 3, 16])
        (self.folder / "phase").write_bytes(bytes([killed.ENTERING]))
        return {**self.job, "config": config, "record": f"record.{self.lives}", **more}

    def look(self, count: Count, code: int) -> None:
        """Look at what a life has left.

        Raises:
            AssertionError: it is not what is promised.
        """
        assert code in (0, -signal.SIGKILL), f"the life ended with {code}"
        path = self.folder / f"record.{self.lives}"
        lines = path.read_text("ascii").split("\n")[:-1] if path.exists() else []
        entries = [json.loads(line) for line in lines]  # a line that was cut has no end
        recorded = self.recorded[: self.saved] + entries
        assert self.expected[: len(recorded)] == recorded, "another sequence"
        state = self.folder / "run.state"
        before, self.saved = self.saved, 0
        if state.exists():
            there = read(state)
            self.saved = there["shard"]["batches"]
            assert self.states[self.saved] == there, "another state"
        assert self.saved >= before, "an older state"
        behind = len(recorded) - self.saved
        assert behind in ((0, 1) if code else (0,)), "a state that does not fit the record"
        self.recorded = recorded
        left = {file.name for file in self.folder.iterdir() if file.suffix == ".tmp"}
        there_before, self.left = self.left, left
        count.lives += 1
        count.batches += len(entries)
        if code:
            count.kills += 1
            count.again += behind
            count.phases[NAMES[(self.folder / "phase").read_bytes()[0]]] += 1
            count.stateless += not state.exists()
            count.temporaries += bool(left - there_before)
        else:
            assert self.expected == recorded, "the run ended early"
            assert set() == left, "temporary files are left over"
