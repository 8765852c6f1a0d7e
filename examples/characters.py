"""Trains a model of the next character on English text that every CPython carries.

    python examples/characters.py [--epochs N] [--workers N] [--folder FOLDER]

The text is that of Python's own help topics. A `transform`, run in the workers, turns
a line into numbers; the lines of a batch differ in length, so the config asks for the
``pad`` collate, and the loss counts what its mask says is text.

Prints the loss in bits per character (7 is guessing blindly among 128 characters),
characters per second, and the data wait of each epoch.
"""

import argparse
import math
import sys
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Any

import needs  # noqa: F401 (first: it says what is missing)

# isort: split
import numpy as np
from english import english, write_whole

from threadloader import Loader, LoaderConfig, LoaderError

CONFIG = Path(__file__).resolve().with_suffix(".json")
CHARACTERS = 128  # ASCII; anything else is read as "?"
NEWLINE = 10  # begins and ends a line
CONTEXT = 8  # characters that the model looks back
FEATURES = 16  # numbers by which it knows a character
HIDDEN = 128
RATE = 0.003


def encode(line: str) -> dict[str, np.ndarray]:
    """Gives the characters of a line, ``x``, and those that follow, ``y``: ``(length,)`` int64."""
    codes = np.frombuffer(f"\n{line}\n".encode("ascii", "replace"), np.uint8).astype(np.int64)
    return {"x": codes[:-1], "y": codes[1:]}


class Model:
    """Features of the last characters, one hidden layer, chances of the next (trained by Adam).

    D. Kingma, J. Ba, *Adam: A Method for Stochastic Optimization*, 2015.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        shapes = [(CHARACTERS, FEATURES), (CONTEXT * FEATURES, HIDDEN), (HIDDEN, CHARACTERS)]
        self.weights = [
            rng.standard_normal(shape, dtype=np.float32) * np.float32(shape[0] ** -0.5)
            for shape in shapes
        ]
        self.means = [np.zeros_like(weight) for weight in self.weights]
        self.squares = [np.zeros_like(weight) for weight in self.weights]
        self.steps = 0

    def step(self, x: np.ndarray, y: np.ndarray, mask: np.ndarray) -> float:
        """Learns from one batch.

        Args:
            x: the characters, ``(batch, longest)`` int64.
            y: the characters that follow them, like ``x``.
            mask: true where there is text, like ``x``.

        Returns:
            The loss in bits, summed over the characters of the batch.
        """
        features, first, second = self.weights
        start = np.full((len(x), CONTEXT - 1), NEWLINE)
        windows = np.lib.stride_tricks.sliding_window_view(np.hstack([start, x]), CONTEXT, axis=1)
        seen, wanted = windows[mask], y[mask]  # (characters, CONTEXT) and (characters,)
        inputs = features[seen].reshape(len(seen), -1)
        hidden = np.maximum(inputs @ first, 0)
        logits = hidden @ second
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(wanted))
        bits = -np.log2(np.maximum(chances[rows, wanted], 1e-30)).sum(dtype=np.float64)

        chances[rows, wanted] -= 1
        slope = chances / np.float32(len(wanted))
        below = (slope @ second.T) * (hidden > 0)
        # Each feature of each character seen gets the sum of the slopes of its places.
        places = (seen[:, :, None] * FEATURES + np.arange(FEATURES)).astype(np.intp)
        sums = np.bincount(places.ravel(), (below @ first.T).ravel(), minlength=features.size)
        self._move([sums.reshape(features.shape), inputs.T @ below, hidden.T @ slope])
        return float(bits)

    def _move(self, slopes: list[np.ndarray]) -> None:
        self.steps += 1
        rate = np.float32(RATE * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps))
        for weight, mean, square, slope in zip(
            self.weights, self.means, self.squares, slopes, strict=True
        ):
            mean += np.float32(0.1) * (slope - mean)
            square += np.float32(0.001) * (slope * slope - square)
            weight -= rate * mean / (np.sqrt(square) + np.float32(1e-8))


def train(config: LoaderConfig, epochs: int) -> None:
    """Trains a model from a config, printing a line per epoch."""
    model = Model(np.random.default_rng(config.seed))
    with Loader(config, transform=encode) as batches:
        before = batches.stats()
        for epoch in batches.epochs(epochs):
            bits, characters = 0.0, 0
            for batch in epoch:
                bits += model.step(batch["x"], batch["y"], batch["x_mask"])
                characters += int(batch["x_mask"].sum())
            now = batches.stats()
            part, before = now.since(before), now
            print(
                f"epoch {epoch.number + 1:2}  loss {bits / characters:.3f} bits per character"
                f"  {characters / part.elapsed_seconds:9,.0f} characters/s"
                f"  data wait {wait(part)}",
                flush=True,
            )


def wait(stats: Any) -> str:
    """Gives the data wait of some statistics in words: ``0.4% (excellent)``."""
    # Rounded down, as the bands are: 0.96% is still excellent, and 1.0% is not.
    return f"{math.floor(stats.data_wait_fraction * 1000) / 10:.1f}% ({stats.data_wait_band})"


def main(argv: list[str] | None = None) -> int:
    """Writes the text where it is not yet, and trains."""
    parser = argparse.ArgumentParser(description="Trains a model of the next character.")
    parser.add_argument("--epochs", type=int, default=4, help="epochs (4)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    parser.add_argument("--folder", type=Path, help="where the text goes (data, beside this file)")
    options = parser.parse_args(argv)
    if options.epochs < 1 or (options.workers or 0) < 0:
        parser.error("expected --epochs >= 1 and --workers >= 0")

    config = Loader(CONFIG).config
    source: dict[str, Any] = dict(config.source)
    text = CONFIG.parent / source["path"]
    if options.folder:
        text = options.folder.resolve() / text.name
    # A LoaderConfig has no folder that a path could start at; and a path may be a pattern.
    source["path"] = escape(str(text))
    workers = config.num_workers if options.workers is None else options.workers
    config = replace(config, source=source, num_workers=workers)
    try:
        write_whole(text, english().encode())
    except OSError as error:
        raise OSError(f"cannot write the text: {error}; name a --folder of your own") from error
    print(f"{text.stat().st_size:,} bytes of English in {text.name}")
    train(config, options.epochs)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LoaderError, OSError) as error:
        sys.exit(f"characters.py: {error}")
    except KeyboardInterrupt:
        print("\ninterrupted: the loader is closed", file=sys.stderr)
        sys.exit(130)
