"""Trains scikit-learn's SGDClassifier on handwritten digits, batch by batch.

    python examples/partial_fit.py [--epochs N] [--workers N]

``partial_fit`` is how scikit-learn learns from more data than fits into memory. The
loader gives it batches, in another order in each epoch. Needs scikit-learn.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs  # noqa: F401 (first: it says what is missing)

# isort: split
import numpy as np

from threadloader import Loader, LoaderError
from threadloader.sources import open_source

CONFIG = Path(__file__).resolve().with_suffix(".json")
TEST_EVERY = 6  # every sixth image is kept to test with; the file has no order that matters


class Part:
    """Some samples of a source.

    Args:
        source: the source to read from.
        indices: which of its samples, ``(n,)`` int64.
    """

    def __init__(self, source: Any, indices: np.ndarray) -> None:
        self.source = source
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return self.source[int(self.indices[index])]


def prepare(sample: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Gives the pixels, ``(64,)`` float64 in 0..1, and the digit, int64: runs in the workers."""
    return sample["images"].reshape(-1) / 16, sample["labels"].astype(np.int64)


def main(argv: list[str] | None = None) -> int:
    """Trains, and tests after every epoch."""
    parser = argparse.ArgumentParser(description="Trains SGDClassifier on handwritten digits.")
    parser.add_argument("--epochs", type=int, help="epochs (num_epochs of the config)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    options = parser.parse_args(argv)
    if (1 if options.epochs is None else options.epochs) < 1 or (options.workers or 0) < 0:
        parser.error("expected --epochs >= 1 and --workers >= 0")
    try:
        from sklearn.linear_model import SGDClassifier
    except ImportError as error:
        print(
            f"partial_fit: expected scikit-learn, got: {error}; pip install scikit-learn",
            file=sys.stderr,
        )
        return 1

    config = Loader(CONFIG).config
    if options.workers is not None:
        config = replace(config, num_workers=options.workers)
    digits = open_source(config.source, CONFIG.parent)
    kept = np.arange(len(digits)) % TEST_EVERY == TEST_EVERY - 1
    tests = [prepare(digits[int(index)]) for index in np.flatnonzero(kept)]
    x, y = (np.stack(column) for column in zip(*tests, strict=True))
    # The mean of the weights of all steps: the last step alone swings to and fro.
    model = SGDClassifier(loss="log_loss", average=True, random_state=config.seed)
    with Loader(config, Part(digits, np.flatnonzero(~kept)), transform=prepare) as batches:
        for epoch in batches.epochs(options.epochs):
            for images, labels in epoch:
                model.partial_fit(images, labels, classes=np.arange(10))
            print(f"epoch {epoch.number + 1:2}  test accuracy {model.score(x, y):.3f}", flush=True)
        print(batches.stats())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LoaderError, OSError) as error:
        sys.exit(f"partial_fit: {error}")
    except KeyboardInterrupt:
        print("\ninterrupted: the loader is closed", file=sys.stderr)
        sys.exit(130)
