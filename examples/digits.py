"""Trains a small NumPy network on handwritten digits, first without threads, then with them.

    python examples/digits.py [--epochs N] [--workers N] [--read-ms MS]

The digits are a small file that lies in memory after the first read, so there would be
nothing to wait for. Real data is slower: the class `SmallBoard` below makes every
sample cost what it costs on the storage of a small board, 0.25 ms by default (4,000
random reads a second are what a memory card of application class A2 promises). The
loader knows nothing of it; it sees a source like any other.

What to look at: the data wait of the two runs, and that they train on the same
batches, so that their losses are the same to the last digit.
"""

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from needs import PROGRAM, run  # first: it says what is missing

# isort: split
import numpy as np
from waiting import wait

from threadloader import Loader
from threadloader.sources import open_source

CONFIG = Path(__file__).resolve().with_suffix(".json")
# The file has no order that matters, so every sixth image makes a fair test set: 299
# of 1,797. (People wrote more than one image each: the test shows new images, not new hands.)
TEST_EVERY = 6
LAYERS = (64, 1024, 1024, 10)
RATE = 0.1
MOMENTUM = 0.9


class SmallBoard:
    """A source, every sample of it as slow as on a small board's storage.

    Args:
        source: the source to read from.
        read_ms: milliseconds that a read takes; the thread waits and computes nothing.
    """

    def __init__(self, source: Any, read_ms: float) -> None:
        self.source = source
        self.read_seconds = read_ms / 1000

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        time.sleep(self.read_seconds)
        return self.source[index]


def prepare(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gives ``x``, ``(64,)`` float32 in 0..1, and ``y``, int64: runs in the workers."""
    return {
        "x": sample["images"].reshape(-1).astype(np.float32) / np.float32(16),
        "y": sample["labels"].astype(np.int64),
    }


class Network:
    """Layers of weights with a ramp between them, trained by gradients with momentum."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.weights = [
            rng.standard_normal((wide, high), dtype=np.float32) * np.float32((2 / wide) ** 0.5)
            for wide, high in pairwise(LAYERS)
        ]
        self.shifts = [np.zeros(high, np.float32) for high in LAYERS[1:]]
        self.speeds = [
            tuple(np.zeros_like(array) for array in layer)
            for layer in zip(self.weights, self.shifts, strict=True)
        ]

    def outputs(self, x: np.ndarray) -> list[np.ndarray]:
        """Gives what each layer reads, ``x`` first, and at last the logits, ``(batch, 10)``."""
        outputs = [x]
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            outputs.append(outputs[-1] @ weight + shift)
            if len(outputs) < len(LAYERS):
                np.maximum(outputs[-1], 0, out=outputs[-1])
        return outputs

    def step(self, x: np.ndarray, y: np.ndarray, rate: float) -> float:
        """Learns from one batch and gives its mean loss in nats, as it was before."""
        *inputs, logits = self.outputs(x)
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        loss = -np.log(np.maximum(chances[rows, y], 1e-30)).mean()
        slope = chances
        slope[rows, y] -= 1
        slope /= len(y)
        for layer in reversed(range(len(inputs))):
            below, weight = inputs[layer], self.weights[layer]
            changes = below.T @ slope, slope.sum(axis=0)
            slope = (slope @ weight.T) * (below > 0)
            places = (weight, self.shifts[layer])
            for array, change, speed in zip(places, changes, self.speeds[layer], strict=True):
                speed *= MOMENTUM
                speed -= np.float32(rate) * change
                array += speed
        return float(loss)

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> float:
        """Gives the part of the samples, 0..1, whose digit is recognised."""
        return float((self.outputs(x)[-1].argmax(axis=1) == y).mean())


def train(loader: Loader, network: Network, epochs: int) -> tuple[list[float], str]:
    """Trains a network, printing a line per epoch.

    Returns:
        The mean loss of each epoch, and the data wait of the run in words.
    """
    losses = []
    with loader as batches:
        before = batches.stats()
        for epoch in batches.epochs(epochs):
            rate = RATE * (1 - len(losses) / epochs)
            losses.append(sum(network.step(b["x"], b["y"], rate) for b in epoch) / len(batches))
            now = batches.stats()
            part, before = now.since(before), now
            print(
                f"  epoch {len(losses):2}  loss {losses[-1]:.4f}"
                f"  {part.samples_per_second:7,.0f} samples/s  data wait {wait(part)}",
                flush=True,
            )
        return losses, wait(batches.stats())


def main(argv: list[str] | None = None) -> int:
    """Trains twice, compares, and tests."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Trains a small network on handwritten digits."
    )
    parser.add_argument("--epochs", type=int, default=10, help="epochs of each run (10)")
    parser.add_argument("--workers", type=int, default=8, help="threads of the second run (8)")
    parser.add_argument("--read-ms", type=float, default=0.25, help="cost of a read (0.25)")
    options = parser.parse_args(argv)
    if options.epochs < 1 or options.workers < 1 or not 0 <= options.read_ms <= 1000:
        parser.error("expected --epochs and --workers >= 1, and --read-ms in 0..1000")

    digits = open_source(Loader(CONFIG).config.source, CONFIG.parent)
    to_test = list(range(TEST_EVERY - 1, len(digits), TEST_EVERY))
    source = SmallBoard(digits, options.read_ms)
    loader = Loader(CONFIG, source, transform=prepare).replace(exclude=to_test)
    loaders = [loader.replace(num_workers=workers) for workers in (0, options.workers)]
    tests = [prepare(digits[index]) for index in to_test]
    to_train = len(digits) - len(to_test)
    print(f"{len(digits)} digits: {to_train} to train on, {len(tests)}, every sixth, to test")
    if options.read_ms:
        cost = f"{options.read_ms} ms, as on a small board's storage (--read-ms)"
        print(f"each read made to wait {cost}")

    runs = []
    for loader in loaders:
        print(f"num_workers {loader.config.num_workers}:")
        network = Network(np.random.default_rng(loader.config.seed))
        runs.append(train(loader, network, options.epochs))

    (alone, slow), (together, fast) = runs
    gap = max(abs(a - b) for a, b in zip(alone, together, strict=True))
    print("losses of both runs: " + (f"differ by up to {gap:.1g}" if gap else "identical"))
    print(f"data wait: {slow} with num_workers 0, {fast} with num_workers {options.workers}")
    x, y = (np.stack([sample[name] for sample in tests]) for name in ("x", "y"))
    print(f"test accuracy: {network.accuracy(x, y):.3f}")
    return 0


if __name__ == "__main__":
    run(main)
