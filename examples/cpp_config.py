"""Trains from the config of a C++ trainer, as it stands, and prints what that program prints.

    python examples/cpp_config.py [--epochs N] [--config FILE]

The options of the loader stand in the trainer's own file, in its section "training",
beside a learning rate that the loader does not know, and with // comments:
``unknown="ignore"`` passes over what belongs to others (a misspelt option of the
loader's own is an error all the same). The text is cut into windows of characters; the
model guesses the next one.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from needs import PROGRAM, run  # first: it says what is missing

# isort: split
import numpy as np
from english import english
from guesser import Guesser
from waiting import wait

from threadloader import Loader

CONFIG = Path(__file__).resolve().with_name("cpp_trainer.json")
WINDOW = 64  # characters of a sample
CHARACTERS = 128  # ASCII; anything else is read as "?"


class Windows:
    """A text as windows of characters, each with the characters that follow.

    Args:
        codes: the text, ``(characters,)`` uint8.
    """

    def __init__(self, codes: np.ndarray) -> None:
        self.codes = codes

    def __len__(self) -> int:
        return (len(self.codes) - 1) // WINDOW

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        window = self.codes[index * WINDOW : (index + 1) * WINDOW + 1].astype(np.int64)
        return window[:-1], window[1:]


def without_comments(text: str) -> str:
    """Gives JSON without its comments, of both kinds; what stands in strings stays."""
    pattern = r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda match: match[1] or "", text, flags=re.DOTALL)


def guesser(sizes: dict[str, Any], rate: Any, seed: int) -> Guesser:
    """Makes the model of the trainer's own options.

    Raises:
        KeyError: one of them is missing.
        ValueError: one of them is wrong.
    """
    context, features, hidden = (sizes[name] for name in ("context", "features", "hidden"))
    if any(type(size) is not int or size < 1 for size in (context, features, hidden)):
        raise ValueError(f"{sizes}, and not integers from 1 on")
    if type(rate) not in (int, float):
        raise ValueError(f"a learning rate of {rate!r}")
    seen, rng = range(1 - context, 1), np.random.default_rng(seed)
    return Guesser(CHARACTERS, seen, rng, rate=rate, features=features, hidden=hidden)


def main(argv: list[str] | None = None) -> int:
    """Trains, printing a line every epoch."""
    parser = argparse.ArgumentParser(description="Trains from the config of a C++ trainer.")
    parser.add_argument("--epochs", type=int, help="epochs (num_epochs of the config)")
    parser.add_argument("--config", type=Path, default=CONFIG, help="the file (cpp_trainer.json)")
    options = parser.parse_args(argv)
    if options.epochs is not None and options.epochs < 1:
        parser.error("expected --epochs >= 1")

    source = Windows(np.frombuffer(english().encode("ascii", "replace"), np.uint8))
    loader = Loader(f"{options.config}#/training", source, unknown="ignore")
    try:
        whole: dict[str, Any] = json.loads(without_comments(options.config.read_text("utf-8-sig")))
        model = guesser(whole["model"], whole["training"]["learning_rate"], loader.config.seed)
    except (ValueError, KeyError, TypeError) as error:
        told = f"{options.config}: expected the options of the model, got {error!r}"
        sys.exit(f"{PROGRAM}: {told}")
    with loader as batches:
        before = batches.stats()
        for epoch in batches.epochs(options.epochs):
            loss, tokens = 0.0, 0
            for x, y in epoch:
                summed, count = model.step(x, y)
                loss, tokens = loss + summed, tokens + count
            now = batches.stats()
            part, before = now.since(before), now
            print(
                f"epoch {epoch.number + 1} | loss {loss / tokens:.4f}"
                f" | {tokens / part.elapsed_seconds:,.0f} tokens/s"
                f" | batch size {loader.config.batch_size} | time {part.elapsed_seconds:.2f} s"
                f" | data wait {wait(part)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    run(main)
