"""What stands for the training step: a wait, Python code, or numpy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

__all__ = ["amount", "make_step"]

SIDE = 192
"""Side of the matrices that are multiplied: 0.1 to 0.5 ms a product, fine enough for a step."""


def make_step(kind: str, size: float) -> Callable[[], object] | None:
    """Give a function that is one training step, or None where there is none.

    Args:
        kind: "sleep", "gil" or "numpy".
        size: how much of it, as `amount` says; 0: no step.
    """
    if not size:
        return None
    if kind == "sleep":
        return lambda: time.sleep(size)
    work = _python if kind == "gil" else _products()
    return lambda: work(int(size))


def amount(kind: str, milliseconds: float, clock: Callable[[], float] | None = None) -> float:
    """Give how much work of a kind takes so long where nothing else runs.

    It is found once and then the same for all runs, so that a step that the workers slow
    down takes longer in the run, which shows it. `clock` gives seconds;
    None: the one that suits the kind.

    Returns:
        Seconds for "sleep", rounds of the loop for "gil", products for "numpy".
    """
    if kind == "sleep" or not milliseconds:
        return milliseconds / 1000
    work = _python if kind == "gil" else _products()
    if clock is None:
        # Python code is measured in processor time, to which other programs add nothing. Not
        # products, which have threads of their own, nor on Windows, which counts steps of 16 ms.
        alone = kind == "gil" and os.name != "nt"
        clock = time.thread_time if alone else time.perf_counter
    rounds, best = 1, 0.0
    while best < 0.01:  # long enough for any clock
        rounds *= 2
        best = min(_time(work, rounds, clock) for _ in range(5))
    return max(1, round(rounds * milliseconds / 1000 / best))


def _time(work: Callable[[int], None], rounds: int, clock: Callable[[], float]) -> float:
    began = clock()
    work(rounds)
    return clock() - began


def _python(rounds: int) -> None:
    """Python code, which holds the GIL for all of its time."""
    state = 1
    for _ in range(rounds):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF


def _products() -> Callable[[int], None]:
    """Products of matrices, for which numpy lets the GIL go."""
    left = np.full((SIDE, SIDE), 0.5, np.float32)
    out = np.empty_like(left)

    def work(rounds: int) -> None:
        for _ in range(rounds):
            np.matmul(left, left, out=out)

    return work
