"""The campaign `aliasing`: batches that somebody holds are never written again.

    python3 tools/campaign aliasing --count 100000 --seed 1

Loaders of drawn kinds (arrays that are gathered, in groups or one by one; samples that are
written into their rows as they come) give batches whose memory is used again. The consumer
keeps the last 64 of them, or views of them alone, each with its checksum; some it hands to a
thread, which then has the last reference; and where torch can be imported, some as tensors
alone. Each is looked at once more when it is let go. How many batches lay where an earlier one
of the same loader had lain is counted as well: where none did, nothing was tried.
"""

from __future__ import annotations

import argparse
import queue
import random
import sys
import time
import zlib
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from threadloader import Loader
from threadloader.buffers import LEAST_BYTES

from .cases import some

KEPT = 64
"""Batches that the consumer keeps."""

ROWS = 4
WIDTH = LEAST_BYTES // (4 * ROWS)
"""float32 in a sample, so that a batch is just large enough for its memory to be used again."""

SAMPLES = 64

SHIFT = 64
"""Floats by which the content of one sample is behind that of the sample before."""


class Samples:
    """Samples that differ, made as they are read."""

    def __init__(self) -> None:
        self._line = np.arange(WIDTH + SHIFT * SAMPLES, dtype=np.float32)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> np.ndarray:
        return self._line[SHIFT * index : SHIFT * index + WIDTH]


def sums(array: Any) -> int:
    """Give the checksum of an array, or a tensor, however it lies."""
    return zlib.crc32(np.ascontiguousarray(array))


class Holder:
    """What is kept: a view of a batch, and what is to be found in it."""

    __slots__ = ("found", "view")

    def __init__(self, batch: np.ndarray, draw: random.Random, torch: Any, count: Counter) -> None:
        ways = ["whole", "rows", "transposed", "memoryview", *(["tensor"] if torch else [])]
        way = draw.choice(ways)
        count[f"as {way}"] += 1
        if way == "rows":
            self.view: Any = batch[draw.randrange(ROWS) :, 7:]
        elif way == "transposed":
            self.view = batch.T[::3]
        elif way == "memoryview":
            self.view = memoryview(batch)
        elif way == "tensor":
            self.view = torch.from_numpy(batch)[1:]
        else:
            self.view = batch
        self.found = sums(self.view)

    def changed(self) -> bool:
        """Whether what is found there is something else by now."""
        return sums(self.view) != self.found


def expected(batch: np.ndarray, indices: np.ndarray) -> bool:
    """Whether a batch is of these samples, as far as its first and last column say."""
    begins = SHIFT * indices
    return bool((batch[:, 0] == begins).all() and (batch[:, -1] == begins + WIDTH - 1).all())


def run(count: int, seed: int, told: Counter) -> int:
    """Take batches of several loaders; give how many were found changed."""
    torch = _torch()
    draw = random.Random(seed)
    wrong = 0
    handed: queue.SimpleQueue[Holder | None] = queue.SimpleQueue()
    found: list[bool] = []

    def last_holder() -> None:
        kept: deque[Holder] = deque()
        while (holder := handed.get()) is not None:
            kept.append(holder)
            del holder
            if len(kept) > KEPT // 4:
                found.append(kept.popleft().changed())
        found.extend(holder.changed() for holder in kept)

    pool = ThreadPoolExecutor(1)
    holding = pool.submit(last_holder)
    kept: deque[Holder] = deque()
    addresses: set[int] = set()
    samples = Samples()
    array = np.stack([samples[index] for index in range(SAMPLES)])
    try:
        while told["batches"] < count:
            config = {
                "batch_size": ROWS,
                "num_workers": draw.choice([0, 1, 2, 4]),
                "prefetch_batches": draw.choice([1, 3, 8]),
                "seed": draw.randrange(1000),
            }
            source = draw.choice([samples, array])
            told["loaders"] += 1
            addresses.clear()
            with Loader(config, source) as batches:
                for epoch in batches.epochs(draw.choice([2, 20])):
                    for batch in epoch:
                        told["batches"] += 1
                        told["used again"] += batch.ctypes.data in addresses
                        addresses.add(batch.ctypes.data)
                        wrong += not expected(batch, batches.info.indices)
                        holder = Holder(batch, draw, torch, told)
                        del batch
                        if draw.random() < 0.25:
                            told["held by a thread alone"] += 1
                            handed.put(holder)
                        else:
                            kept.append(holder)
                        del holder
                        if len(kept) > KEPT:
                            wrong += kept.popleft().changed()
    finally:
        handed.put(None)
        pool.shutdown()
        holding.result()  # whatever has ended it
    return wrong + sum(found) + sum(holder.changed() for holder in kept)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def main(args: list[str]) -> int:
    """Give the exit code."""
    parser = argparse.ArgumentParser("tools/campaign aliasing", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=some, default=100_000, help="batches (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of what is drawn (default: 1)")
    options = parser.parse_args(args)
    began, told = time.monotonic(), Counter[str]()
    wrong = run(options.count, options.seed, told)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    numbers = ", ".join(f"{told[what]:,} {what}" for what in sorted(told))
    print(
        f"aliasing: {wrong} changed; {numbers}; seed {options.seed}, "
        f"{time.monotonic() - began:.0f} s, GIL {'on' if gil else 'off'}"
    )
    if not told["used again"]:
        print("aliasing: no memory was used again, so nothing was tried", file=sys.stderr)
        return 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
