"""Trains a small network on handwritten digits with JAX.

    python examples/jax_digits.py [--epochs N] [--workers N]

The loader's threads prepare batches while JAX, which computes on its own, works on the
step before: a batch's arrays go into a jitted function as they are. Needs jax.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from needs import PROGRAM, run  # first: it says what is missing

# isort: split
import numpy as np

from threadloader import Loader

CONFIG = Path(__file__).resolve().with_suffix(".json")
# Every sixth of the 1,797 images is kept to test with; the file has no order that matters.
TESTS = list(range(5, 1797, 6))
LAYERS = (64, 256, 10)
RATE = 0.2


def prepare(sample: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Gives the pixels, ``(64,)`` float32 in 0..1, and the digit, int32: runs in the workers."""
    pixels = sample["images"].reshape(-1).astype(np.float32)
    return pixels / np.float32(16), sample["labels"].astype(np.int32)


def main(argv: list[str] | None = None) -> int:
    """Trains, and tests after every epoch."""
    parser = argparse.ArgumentParser(description="Trains a small network on digits with JAX.")
    parser.add_argument("--epochs", type=int, help="epochs (num_epochs of the config)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    options = parser.parse_args(argv)
    if (1 if options.epochs is None else options.epochs) < 1 or (options.workers or 0) < 0:
        parser.error("expected --epochs >= 1 and --workers >= 0")
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        sys.exit(f"{PROGRAM}: expected jax, got: {error}; pip install jax")

    def logits(weights: list[Any], x: Any) -> Any:
        for weight, shift in weights[:-1]:
            x = jax.nn.relu(x @ weight + shift)
        weight, shift = weights[-1]
        return x @ weight + shift

    def loss(weights: list[Any], x: Any, y: Any) -> Any:
        chances = jax.nn.log_softmax(logits(weights, x))
        return -jnp.take_along_axis(chances, y[:, None], axis=1).mean()

    @jax.jit
    def step(weights: list[Any], x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, slope: w - RATE * slope, weights, slopes), value

    loader = Loader(CONFIG, transform=prepare)
    if options.workers is not None:
        loader = loader.replace(num_workers=options.workers)
    to_test = loader.replace(sampler={"type": "subset", "indices": TESTS}, batch_size=len(TESTS))
    with to_test as batches:
        x, y = next(iter(batches))
    rng = np.random.default_rng(loader.config.seed)
    weights: list[Any] = [
        (jnp.asarray(rng.normal(0, (2 / wide) ** 0.5, (wide, high)), "float32"), jnp.zeros(high))
        for wide, high in pairwise(LAYERS)
    ]
    print(f"jax {jax.__version__} on {jax.devices()[0].platform}")
    with loader.replace(exclude=TESTS) as batches:
        for epoch in batches.epochs(options.epochs):
            values = []
            for images, labels in epoch:
                weights, value = step(weights, images, labels)
                values.append(value)  # not looked at yet: that would wait for the device
            mean = float(jnp.stack(values).mean())
            accuracy = float((logits(weights, x).argmax(axis=1) == y).mean())
            print(
                f"epoch {epoch.number + 1:2}  loss {mean:.4f}  test accuracy {accuracy:.3f}",
                flush=True,
            )
        print(batches.stats())
    return 0


if __name__ == "__main__":
    run(main)
