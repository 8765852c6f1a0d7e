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
from glob import escape
from pathlib import Path

from needs import run  # first: it says what is missing

# isort: split
import numpy as np
from english import english, write_whole
from guesser import IGNORED, Guesser
from waiting import wait

from threadloader import Loader

CONFIG = Path(__file__).resolve().with_suffix(".json")
CHARACTERS = 128  # ASCII; anything else is read as "?"
BEFORE = range(-7, 1)  # what the model sees: this character and the seven before it


def encode(line: str) -> dict[str, np.ndarray]:
    """Gives the characters of a line, ``x``, and those that follow, ``y``: ``(length,)`` int64."""
    codes = np.frombuffer(f"\n{line}\n".encode("ascii", "replace"), np.uint8).astype(np.int64)
    return {"x": codes[:-1], "y": codes[1:]}


def train(loader: Loader, epochs: int) -> None:
    """Trains a model, printing a line per epoch."""
    model = Guesser(CHARACTERS, BEFORE, np.random.default_rng(loader.config.seed))
    with loader as batches:
        before = batches.stats()
        for epoch in batches.epochs(epochs):
            bits, characters = 0.0, 0
            for batch in epoch:
                wanted = np.where(batch["x_mask"], batch["y"], IGNORED)
                nats, count = model.step(batch["x"], wanted)
                bits, characters = bits + nats / math.log(2), characters + count
            now = batches.stats()
            part, before = now.since(before), now
            print(
                f"epoch {epoch.number + 1:2}  loss {bits / characters:.3f} bits per character"
                f"  {characters / part.elapsed_seconds:9,.0f} characters/s"
                f"  data wait {wait(part)}",
                flush=True,
            )


def main(argv: list[str] | None = None) -> int:
    """Writes the text where it is not yet, and trains."""
    parser = argparse.ArgumentParser(description="Trains a model of the next character.")
    parser.add_argument("--epochs", type=int, default=4, help="epochs (4)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    parser.add_argument("--folder", type=Path, help="where the text goes (data, beside this file)")
    options = parser.parse_args(argv)
    if options.epochs < 1 or (options.workers or 0) < 0:
        parser.error("expected --epochs >= 1 and --workers >= 0")

    loader = Loader(CONFIG, transform=encode)
    if options.workers is not None:
        loader = loader.replace(num_workers=options.workers)
    source = loader.config.source
    text = CONFIG.parent / source["path"]
    if options.folder:
        text = options.folder.resolve() / text.name
        # A path may be a pattern, and this one means itself.
        loader = loader.replace(source={**source, "path": escape(str(text))})
    write_whole(text, english().encode())
    print(f"{text.stat().st_size:,} bytes of English in {text.name}")
    train(loader, options.epochs)
    return 0


if __name__ == "__main__":
    run(main)
