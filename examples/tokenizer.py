"""Trains on text that the workers tokenise by Hugging Face's fast tokenizer.

    python examples/tokenizer.py [--epochs N] [--workers N] [--folder FOLDER]

The tokenizer (byte pairs, 1,000 tokens) is trained on the text itself first, in a second.
There is one, and all workers use it: it is written in Rust and does not mind threads,
while one for each worker costs its memory again and again. Needs tokenizers.

Prints the loss in nats per byte, so that other tokenizers can be compared with
this one (a token of more bytes is harder to guess), and the data wait.
"""

import argparse
import sys
from glob import escape
from pathlib import Path
from typing import Any

from needs import PROGRAM, run  # first: it says what is missing

# isort: split
import numpy as np
from english import english, write_whole
from guesser import IGNORED, Guesser
from waiting import wait

from threadloader import Loader

CONFIG = Path(__file__).resolve().with_suffix(".json")
VOCABULARY = 1000
BEFORE = range(-3, 1)  # what the model sees: this token and the three before it
BEGIN = 0  # the token before the first; it also pads


def trained(lines: list[str]) -> Any:
    """Gives a tokenizer trained on some lines.

    Raises:
        ImportError: the package is not installed.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<begin>"],  # gets the number 0, BEGIN
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def main(argv: list[str] | None = None) -> int:
    """Writes the text where it is not yet, trains the tokenizer, and then the model."""
    parser = argparse.ArgumentParser(description="Trains on text tokenised in the workers.")
    parser.add_argument("--epochs", type=int, help="epochs (num_epochs of the config)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    parser.add_argument("--folder", type=Path, help="where the text goes (data, beside this file)")
    options = parser.parse_args(argv)
    if (1 if options.epochs is None else options.epochs) < 1 or (options.workers or 0) < 0:
        parser.error("expected --epochs >= 1 and --workers >= 0")

    text = english()
    try:
        tokenizer = trained(text.split("\n"))
    except ImportError as error:
        sys.exit(f"{PROGRAM}: expected tokenizers, got: {error}; pip install tokenizers")

    def encode(line: str) -> dict[str, np.ndarray]:
        """Gives the tokens of a line, ``x``, and those that follow, ``y``: ``(length,)`` int64."""
        tokens = np.array([BEGIN, *tokenizer.encode(line).ids], np.int64)
        return {"x": tokens[:-1], "y": tokens[1:]}

    loader = Loader(CONFIG, transform=encode)
    if options.workers is not None:
        loader = loader.replace(num_workers=options.workers)
    source = loader.config.source
    path = CONFIG.parent / source["path"]
    if options.folder:
        path = options.folder.resolve() / path.name
        # A path may be a pattern, and this one means itself.
        loader = loader.replace(source={**source, "path": escape(str(path))})
    write_whole(path, text.encode())

    sizes = np.array([len(tokenizer.id_to_token(token)) for token in range(VOCABULARY)])
    model = Guesser(VOCABULARY, BEFORE, np.random.default_rng(loader.config.seed), hidden=64)
    with loader as batches:
        before = batches.stats()
        for epoch in batches.epochs(options.epochs):
            loss, tokens, read = 0.0, 0, 0
            for batch in epoch:
                summed, count = model.step(batch["x"], batch["y"])
                loss, tokens = loss + summed, tokens + count
                read += int(sizes[batch["y"][batch["y"] != IGNORED]].sum())
            now = batches.stats()
            part, before = now.since(before), now
            print(
                f"epoch {epoch.number + 1}  loss {loss / read:.3f} nats per byte"
                f"  {read / tokens:.2f} bytes per token"
                f"  {tokens / part.elapsed_seconds:8,.0f} tokens/s"
                f"  data wait {wait(part)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    run(main)
