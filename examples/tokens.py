"""Writes token shards and trains a model of the next token on them.

    python examples/tokens.py [--steps N] [--workers N] [--folder FOLDER]

A shard is a header of 256 int32 (magic number, version, count of tokens, the rest 0) and
then the tokens, uint16. The tokens are the bytes of Python's own help topics.
The config asks for windows with targets: ``x`` and, one token later, ``y``.
"""

import argparse
from glob import escape
from pathlib import Path

from needs import run  # first: it says what is missing

# isort: split
import numpy as np
from english import english, write_whole
from guesser import Guesser
from waiting import wait

from threadloader import Loader

CONFIG = Path(__file__).resolve().with_suffix(".json")
MAGIC, VERSION = 20240520, 1
SHARDS = 3
VOCABULARY = 256
BEFORE = range(-7, 1)  # what the model sees: this token and the seven before it
TELL = 100  # steps between two lines


def write_shard(path: Path, tokens: np.ndarray) -> None:
    """Writes one shard, little-endian as the format has it."""
    header = np.zeros(256, "<i4")
    header[:3] = MAGIC, VERSION, len(tokens)
    write_whole(path, header.tobytes() + tokens.astype("<u2").tobytes())


def main(argv: list[str] | None = None) -> int:
    """Writes the shards where they are not yet, and trains."""
    parser = argparse.ArgumentParser(description="Trains a model of the next token on shards.")
    parser.add_argument("--steps", type=int, help="steps (num_epochs of the config)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    parser.add_argument("--folder", type=Path, help="where the shards go (data/made/tokens)")
    options = parser.parse_args(argv)
    if (1 if options.steps is None else options.steps) < 1 or (options.workers or 0) < 0:
        parser.error("expected --steps >= 1 and --workers >= 0")

    loader = Loader(CONFIG)
    if options.workers is not None:
        loader = loader.replace(num_workers=options.workers)
    source = loader.config.source
    pattern = CONFIG.parent / source["path"]
    if options.folder:
        pattern = options.folder.resolve() / pattern.name
        # The folder's name may be a pattern, and means itself.
        found = Path(escape(str(pattern.parent)), pattern.name)
        loader = loader.replace(source={**source, "path": str(found)})
    tokens = np.frombuffer(english().encode(), np.uint8)
    for number, part in enumerate(np.array_split(tokens, SHARDS)):
        write_shard(pattern.parent / f"english_{number:06}.bin", part)

    config = loader.config
    model = Guesser(VOCABULARY, BEFORE, np.random.default_rng(config.seed), hidden=64)
    with loader as batches:
        print(f"{len(tokens):,} tokens in {SHARDS} shards, {len(batches)} steps an epoch")
        most = len(batches) * (config.num_epochs or 1)
        last = min(options.steps or most, most)
        if options.steps and last < options.steps:
            print(f"{last} steps: the config has no more epochs")
        loss, count, steps = 0.0, 0, 0
        before = batches.stats()
        epochs = batches.epochs(config.num_epochs or 1)
        for batch in (batch for epoch in epochs for batch in epoch):
            summed, guessed = model.step(batch["x"], batch["y"])
            loss, count, steps = loss + summed, count + guessed, steps + 1
            if steps % TELL == 0 or steps == last:
                now = batches.stats()
                part, before = now.since(before), now
                print(
                    f"step {steps:4}  loss {loss / count:.3f} nats per token"
                    f"  {count / part.elapsed_seconds:9,.0f} tokens/s"
                    f"  data wait {wait(part)}",
                    flush=True,
                )
                loss, count = 0.0, 0
            if steps == last:
                break
    return 0


if __name__ == "__main__":
    run(main)
