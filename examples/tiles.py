"""Trains a classifier on a folder of real images, one folder for each class.

    python examples/tiles.py [--epochs N] [--workers N] [--folder FOLDER]

The images are tiles cut from the two photographs that scikit-learn carries, a temple in
China and a flower: which one is a tile of? The workers read and decode the files and
flip every other image by chance. Needs scikit-learn and Pillow. (The test shows new tiles,
not new photographs: how well it knows others, it does not say. The classifier is so small
that nearly all of the time is loading, and the data wait says so.)
"""

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from needs import PROGRAM, run  # first: it says what is missing

# isort: split
import numpy as np
from english import write_whole

from threadloader import Loader

CONFIG = Path(__file__).resolve().with_suffix(".json")
SIDE = 32  # pixels
TEST_EVERY = 5  # every fifth tile is kept to test with
CELLS = 4  # what the classifier sees: colours of so many by so many cells, mean and spread
INPUTS = CELLS * CELLS * 3 * 2
RATE = 0.1


def write_tiles(folder: Path) -> None:
    """Cuts the photographs into tiles: ``train/china/000.png``, ``test/flower/004.png``.

    Raises:
        ImportError: scikit-learn or Pillow is not installed.
    """
    from PIL import Image
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images()
    for name, pixels in zip(photographs.filenames, photographs.images, strict=True):
        high, wide, _ = pixels.shape
        corners = [
            (y, x) for y in range(0, high - SIDE + 1, SIDE) for x in range(0, wide - SIDE + 1, SIDE)
        ]
        for number, (y, x) in enumerate(corners):
            part = "test" if number % TEST_EVERY == TEST_EVERY - 1 else "train"
            file = io.BytesIO()
            Image.fromarray(pixels[y : y + SIDE, x : x + SIDE]).save(file, "PNG")
            write_whole(folder / part / Path(name).stem / f"{number:03}.png", file.getvalue())


def prepare(sample: dict[str, Any]) -> dict[str, Any]:
    """Gives ``x``, mean and spread of the colours of each cell, float32, and ``y``, the class."""
    cell = SIDE // CELLS
    cells = sample["data"].astype(np.float32).reshape(CELLS, cell, CELLS, cell, 3)
    means, spreads = cells.mean(axis=(1, 3)) / 127.5 - 1, cells.std(axis=(1, 3)) / 32
    return {"x": np.concatenate([means, spreads], axis=None), "y": sample["label"]}


def augment(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Flips every other image, left to right, and prepares it: runs in the workers."""
    if rng.bit_generator.random_raw() & 1:
        sample["data"] = sample["data"][:, ::-1]
    return prepare(sample)


class Classifier:
    """Logistic regression: one weight for each input and class, trained by gradients."""

    def __init__(self, classes: int) -> None:
        self.weights = np.zeros((INPUTS + 1, classes), np.float32)

    def chances(self, x: np.ndarray) -> np.ndarray:
        """Gives the chances of each class, ``(batch, classes)``."""
        logits = x @ self.weights[:-1] + self.weights[-1]
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        """Learns from one batch and gives its mean loss in nats, as it was before."""
        slope, rows = self.chances(x), np.arange(len(y))
        loss = -np.log(np.maximum(slope[rows, y], 1e-30)).mean()
        slope[rows, y] -= 1
        slope *= np.float32(RATE / len(y))
        self.weights[:-1] -= x.T @ slope
        self.weights[-1] -= slope.sum(axis=0)
        return float(loss)


def accuracy(model: Classifier, loader: Loader) -> float:
    """Gives the part of a loader's images, 0..1, that are recognised."""
    right = samples = 0
    with loader as batches:
        for batch in batches:
            right += int((model.chances(batch["x"]).argmax(axis=1) == batch["y"]).sum())
            samples += len(batch["y"])
    return right / samples


def main(argv: list[str] | None = None) -> int:
    """Writes the tiles where they are not yet, trains, and tests."""
    parser = argparse.ArgumentParser(description="Trains a classifier on a folder of images.")
    parser.add_argument("--epochs", type=int, help="epochs (num_epochs of the config)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    parser.add_argument("--folder", type=Path, help="where the tiles go (data/made/tiles)")
    options = parser.parse_args(argv)
    if (1 if options.epochs is None else options.epochs) < 1 or (options.workers or 0) < 0:
        parser.error("expected --epochs >= 1 and --workers >= 0")

    loader, tests = Loader(CONFIG, transform=augment), Loader(CONFIG, transform=prepare)
    if options.workers is not None:
        loader, tests = (it.replace(num_workers=options.workers) for it in (loader, tests))
    source = loader.config.source
    folder = (options.folder or CONFIG.parent / source["folder"] / "..").resolve()
    if options.folder:
        loader = loader.replace(source={**source, "folder": str(folder / "train")})
    tests = tests.replace(source={**source, "folder": str(folder / "test")}, shuffle=False)
    try:
        write_tiles(folder)
    except ImportError as error:
        told = f"expected scikit-learn and Pillow, got: {error}; pip install scikit-learn pillow"
        sys.exit(f"{PROGRAM}: {told}")
    # Not what else lies there, as what a file manager leaves.
    classes = sorted(path.name for path in (folder / "train").iterdir() if any(path.glob("*.png")))

    model = Classifier(len(classes))
    with loader as batches:
        print(f"tiles of {', '.join(classes)}: {len(batches)} batches an epoch")
        for epoch in batches.epochs(options.epochs):
            loss = sum(model.step(batch["x"], batch["y"]) for batch in epoch) / len(batches)
            print(f"epoch {epoch.number + 1:2}  loss {loss:.4f}", flush=True)
        print(batches.stats())
    print(f"test accuracy: {accuracy(model, tests):.3f}")
    return 0


if __name__ == "__main__":
    run(main)
