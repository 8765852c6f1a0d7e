"""Trains a model that guesses hidden words: padded, masked, and split over processes.

    python examples/masked.py [--epochs N] [--workers N] [--shard R/W] [--folder FOLDER]
    python examples/masked.py --compare [--workers N] [--read-ms MS]
    torchrun --nproc-per-node 2 examples/masked.py

The sequences are the paragraphs of Python's own help topics, as numbers of words, in
several files. The workers read them, hide 15% of the common words for masked-language
modelling (all rare words have one number, which is never hidden), and pad those of a
batch to one length: masked.json says how. Each process of a launcher (or ``--shard 0/2``,
``--shard 1/2``) loads its part of every batch. Here every process trains a model of its
own; what they exchange is the matter of your framework.

``--workers 0`` loads in the training thread, to debug. ``--compare`` times the loading
alone, without workers and with them. The files are small and lie in the system's
memory, where no storage has to be waited for; ``--read-ms`` makes every read wait so
long, as real storage does.
"""

import argparse
import json
import re
import statistics
import time
from collections import Counter
from contextlib import closing
from glob import escape
from pathlib import Path
from typing import Any

from needs import run  # first: it says what is missing

# isort: split
import numpy as np
from english import english, write_whole
from guesser import Guesser
from waiting import wait

from threadloader import Loader
from threadloader.adapters.launcher import shard_of_process
from threadloader.sources import open_source

CONFIG = Path(__file__).resolve().with_suffix(".json")
FILES = 4
RARE, FIRST_WORD = 1, 3  # 0 pads, 2 is the mask: see masked.json
SHORTEST, LONGEST = 4, 128  # words of a sequence
AROUND = (-4, -3, -2, -1, 0, 1, 2, 3, 4)  # what the model sees of a sequence
REPEATS = 3  # times that --compare loads everything, each way in turn


def write_tokens(folder: Path, vocabulary: int) -> None:
    """Writes the paragraphs of the text as numbers of their words, in several files."""
    paragraphs = [re.findall(r"\w+|[^\w\s]", part) for part in english().lower().split("\n\n")]
    words = Counter(word for paragraph in paragraphs for word in paragraph)
    common = sorted(words, key=lambda word: (-words[word], word))[: vocabulary - FIRST_WORD]
    numbers = {word: number for number, word in enumerate(common, FIRST_WORD)}
    lines = [
        json.dumps({"tokens": [numbers.get(word, RARE) for word in paragraph[:LONGEST]]})
        for paragraph in paragraphs
        if len(paragraph) >= SHORTEST
    ]
    for part in range(FILES):
        text = "".join(line + "\n" for line in lines[part::FILES])
        write_whole(folder / f"part-{part}.jsonl", text.encode())


class Slow:
    """A source of which every read takes a while longer.

    Args:
        source: the source to read from.
        read_ms: milliseconds that the thread waits, computing nothing.
    """

    def __init__(self, source: Any, read_ms: float) -> None:
        self.source = source
        self.read_seconds = read_ms / 1000

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.read_seconds)
        return self.source[index]


def train(loader: Loader, epochs: int) -> None:
    """Trains a model, printing a line per epoch."""
    config = loader.config
    model = Guesser(config.transform["vocabulary"], AROUND, np.random.default_rng(config.seed))
    with loader as batches:
        before = batches.stats()
        for epoch in batches.epochs(epochs):
            loss, hidden, common = 0.0, 0, 0
            for batch in epoch:
                summed, count = model.step(batch["tokens"], batch["labels"])
                loss, hidden = loss + summed, hidden + count
                common += int((batch["tokens_mask"] & (batch["tokens"] != RARE)).sum())
            now = batches.stats()
            part, before = now.since(before), now
            print(
                f"epoch {epoch.number + 1:2}  loss {loss / max(hidden, 1):.3f} nats per hidden word"
                f"  {hidden / max(common, 1):.1%} of {common:,} common words hidden"
                f"  data wait {wait(part)}",
                flush=True,
            )


def compare(loader: Loader) -> None:
    """Times the loading alone, without workers and with them, in turns."""
    workers = loader.config.num_workers
    times: dict[int, list[float]] = {0: [], workers: []}
    for _ in range(REPEATS):
        for number, seconds in times.items():
            with loader.replace(num_workers=number) as batches:
                begin = time.perf_counter()
                samples = sum(len(batch["tokens"]) for batch in batches)
                seconds.append(time.perf_counter() - begin)
    alone, together = (statistics.median(seconds) for seconds in times.values())
    print(f"loading alone, {samples:,} sequences, median of {REPEATS} times in turns:")
    for number, seconds in ((0, alone), (workers, together)):
        print(f"  num_workers {number:2}  {seconds:.3f} s  {samples / seconds:8,.0f} sequences/s")
    print(f"ratio: {alone / together:.2f} (above 1: the workers load faster)")


def shard_of(text: str) -> Any:
    """Gives the option ``shard`` of ``"1/4"``, the second of four, or of ``"auto"``."""
    if text == "auto":
        return text
    index, slash, count = text.partition("/")
    if not slash or not index.isdecimal() or not count.isdecimal() or int(index) >= int(count):
        raise argparse.ArgumentTypeError(f"expected R/W with R below W, or auto, got {text!r}")
    return {"index": int(index), "count": int(count)}


def main(argv: list[str] | None = None) -> int:
    """Writes the tokens where they are not yet; trains, or compares."""
    parser = argparse.ArgumentParser(description="Trains a model that guesses hidden words.")
    parser.add_argument("--epochs", type=int, default=4, help="epochs (4)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    parser.add_argument("--shard", type=shard_of, help="part R of W, as 0/2, or auto (the config)")
    parser.add_argument("--compare", action="store_true", help="time the loading alone")
    parser.add_argument("--read-ms", type=float, default=0, help="what every read waits (0)")
    parser.add_argument("--folder", type=Path, help="where the files go (data/made/masked)")
    options = parser.parse_args(argv)
    if options.epochs < 1 or (options.workers or 0) < 0 or not 0 <= options.read_ms <= 1000:
        parser.error("expected --epochs >= 1, --workers >= 0, and --read-ms in 0..1000")
    if options.compare and options.workers == 0:
        parser.error("expected --workers >= 1 to compare with none")

    loader = Loader(CONFIG, shard=options.shard)
    if options.workers is not None:
        loader = loader.replace(num_workers=options.workers)
    source = loader.config.source
    pattern = CONFIG.parent / source["path"]
    if options.folder:
        pattern = options.folder.resolve() / pattern.name
        # The folder's name may be a pattern, and means itself.
        found = Path(escape(str(pattern.parent)), pattern.name)
        loader = loader.replace(source={**source, "path": str(found)})
    config = loader.config
    write_tokens(pattern.parent, config.transform["vocabulary"])
    with closing(open_source(config.source, CONFIG.parent)) as tokens:
        print(f"{len(tokens):,} sequences in {FILES} files, shard {told(config.shard)}")
        if options.read_ms:
            print(f"each read made to wait {options.read_ms} ms (--read-ms)")
        # The source is open already: the paths that the config names are not looked for again.
        loader = Loader(config, Slow(tokens, options.read_ms) if options.read_ms else tokens)
        if options.compare:
            compare(loader)
        else:
            train(loader, options.epochs)
    return 0


def told(shard: Any) -> str:
    """Gives a shard in words."""
    if shard == "auto":
        index, count = shard_of_process()
        return f"{index} of {count}" + (", by the launcher's environment" if count > 1 else "")
    return f"{shard['index']} of {shard['count']}"


if __name__ == "__main__":
    run(main)
