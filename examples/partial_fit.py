"""Trains scikit-learn's SGDClassifier on handwritten digits, batch by batch.

    python examples/partial_fit.py [--epochs N] [--workers N]

``partial_fit`` is how scikit-learn learns from more data than fits into memory. The
loader gives it batches, in another order in each epoch. Needs scikit-learn.
"""

import argparse
import sys
from pathlib import Path

from needs import PROGRAM, run  # first: it says what is missing

# isort: split
import numpy as np

from threadloader import Loader

CONFIG = Path(__file__).resolve().with_suffix(".json")
# Every sixth of the 1,797 images is kept to test with; the file has no order that matters.
TESTS = list(range(5, 1797, 6))


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
        sys.exit(f"{PROGRAM}: expected scikit-learn, got: {error}; pip install scikit-learn")

    loader = Loader(CONFIG, transform=prepare)
    if options.workers is not None:
        loader = loader.replace(num_workers=options.workers)
    to_test = loader.replace(sampler={"type": "subset", "indices": TESTS}, batch_size=len(TESTS))
    with to_test as batches:
        x, y = next(iter(batches))
    # The mean of the weights of all steps: the last step alone swings to and fro.
    model = SGDClassifier(loss="log_loss", average=True, random_state=loader.config.seed)
    with loader.replace(exclude=TESTS) as batches:
        for epoch in batches.epochs(options.epochs):
            for images, labels in epoch:
                model.partial_fit(images, labels, classes=np.arange(10))
            print(f"epoch {epoch.number + 1:2}  test accuracy {model.score(x, y):.3f}", flush=True)
        print(batches.stats())
    return 0


if __name__ == "__main__":
    run(main)
