"""Costs of a known size: a wait, Python code, products of matrices."""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["Rows", "burn", "cores", "fastest", "products", "rounds_of", "seconds_of"]

SIDE = 256
"""Of the matrices that are multiplied: some tenths of a millisecond a product."""


def cores() -> int:
    """Give how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def burn(rounds: int) -> int:
    """Run Python code that holds the GIL for all of its time."""
    state = 1
    for _ in range(rounds):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
    return state


@functools.cache
def _matrices() -> tuple[np.ndarray, np.ndarray]:
    return np.full((SIDE, SIDE), 0.5, np.float32), np.empty((SIDE, SIDE), np.float32)


def products(rounds: int) -> None:
    """Multiply matrices; numpy lets the GIL go for it."""
    left, out = _matrices()
    for _ in range(rounds):
        np.matmul(left, left, out=out)


def seconds_of(work: Callable[[int], object], rounds: int) -> float:
    """Give how long so many rounds take, the shortest of some trials."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        work(rounds)
        best = min(best, time.perf_counter() - began)
    return best


def fastest(ways: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """Give the way that takes least time here and now, by the median of some trials in turn."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(21):
        for way, times in zip(ways, taken, strict=True):
            began = time.perf_counter()
            way()
            times.append(time.perf_counter() - began)
    return min(zip(ways, taken, strict=True), key=lambda pair: statistics.median(pair[1]))[0]


@functools.cache
def rounds_of(work: Callable[[int], object], milliseconds: float) -> int:
    """Give how many rounds take so long where nothing else runs.

    It is found once, in a process like those of the runs, so that all do the same work.
    """
    rounds, best = 1, 0.0
    while best < 0.02:  # long enough for any clock
        rounds *= 2
        best = seconds_of(work, rounds)
    return max(1, round(rounds * milliseconds / 1000 / best))


class Rows:
    """A source of small arrays, float32 ``(64,)``, each of which may take its time to come.

    Args:
        samples: how many there are.
        milliseconds: a sample waits for so long, without the GIL.
    """

    def __init__(self, samples: int, *, milliseconds: float = 0.0) -> None:
        self._samples = samples
        self._seconds = milliseconds / 1000
        self._table = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> dict[str, object]:
        if self._seconds:
            time.sleep(self._seconds)
        return {"x": self._table[index % 256], "index": index}
