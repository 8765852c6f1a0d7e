"""Measures a classifier on several processes, exactly as one process would.

    python examples/evaluate_ranks.py [--ranks W] [--samples N] [--workers N]
    python examples/evaluate_ranks.py --rank R --ranks W --folder FOLDER [--samples N] [--workers N]

The first form starts W processes of the second form, the ranks, and waits for them. Each
evaluates its shard and writes a result for every row: which sample it was, whether it was
a real row, its loss, and whether the digit was recognised. Here they are files in a
folder; a cluster has a folder that all see, or your framework gathers arrays.

Three things make the metric of all ranks that of one process, to the last bit:

- ``batches.info.valid`` tells the padding apart. It repeats samples so that all ranks make
  the same number of steps; counted, it would shift the mean, as the last line shows.
- ``batches.info.indices`` says which sample a row is, so the results can be put into the
  order of the source. A sum of floats depends on its order: sums of ranks, added up, come
  near and no nearer.
- The result of a sample does not depend on the batch that it came in: see `evaluate`.
"""

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from needs import run  # first: it says what is missing

# isort: split
import numpy as np

from threadloader import Loader
from threadloader.sources import open_source

CONFIG = Path(__file__).resolve().with_suffix(".json")
LEARN_EVERY = 6  # every sixth image makes the classifier, the others measure it
WIDTH = 150.0  # squared distance that divides a chance by e: the best of twelve from 10 to 1000
Results = dict[str, np.ndarray]


def prepare(samples: int | None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Gives the classifier and what it is measured on, the same in every process.

    Args:
        samples: how many samples to measure on, the first ones; None for all.

    Returns:
        The mean image of each digit, ``(10, 64)`` float64; and the arrays ``images``,
        ``(n, 8, 8)`` uint8, and ``labels``, ``(n,)`` uint8.
    """
    digits = open_source(Loader(CONFIG).config.source, CONFIG.parent)
    arrays = digits.take(np.arange(len(digits)))
    learn = np.arange(len(digits)) % LEARN_EVERY == LEARN_EVERY - 1
    pixels, labels = arrays["images"][learn].reshape(-1, 64), arrays["labels"][learn]
    means = np.stack([pixels[labels == digit].mean(axis=0) for digit in range(10)])
    return means, {name: array[~learn][:samples] for name, array in arrays.items()}


def evaluate(means: np.ndarray, image: np.ndarray, label: int) -> tuple[float, bool]:
    """Gives the loss of one sample, in nats, and whether its digit is recognised.

    One sample at a time, in arrays of the same shape each time, so that the same sums are
    made in the same order whatever else is in the batch. A product of the whole batch,
    ``images @ weights``, does not promise that: BLAS may add up in another order for another
    number of rows, and the last batch of a rank has other rows than that of one process.
    Seen: of a row of 64 floats times ten columns, 9 of the 10 results were others alone than
    among 128 rows (numpy 2.4.6 with its OpenBLAS, x86-64).
    """
    scores = (-((means - image.reshape(64)) ** 2).sum(axis=1) / WIDTH).tolist()
    best = max(scores)
    loss = best - scores[label] + math.log(sum(math.exp(score - best) for score in scores))
    return loss, scores.index(best) == label


def results_of(loader: Loader, means: np.ndarray) -> Results:
    """Evaluates what a loader gives, the shard of this process, by the mean images.

    Returns:
        For each row that the loader gave, padding too, in the order of the steps:
        ``indices`` int64, ``valid`` bool, ``losses`` float64, ``right`` bool.
    """
    indices: list[int] = []
    valid: list[bool] = []
    each: list[tuple[float, bool]] = []
    with loader as batches:
        for batch in batches:
            rows = zip(batch["images"], batch["labels"].tolist(), strict=True)
            each += [evaluate(means, image, label) for image, label in rows]
            indices += batches.info.indices.tolist()
            valid += batches.info.valid.tolist()
    return {
        "indices": np.array(indices, np.int64),
        "valid": np.array(valid, np.bool_),
        "losses": np.array([loss for loss, _ in each], np.float64),
        "right": np.array([right for _, right in each], np.bool_),
    }


def run_ranks(ranks: int, options: list[str]) -> Results:
    """Runs a process for each rank and gives the rows of all, rank after rank.

    Raises:
        ChildProcessError: a rank failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--ranks", str(ranks), "--folder", folder, *options]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(ranks):  # one by one: where one cannot start, the others end
                processes.append(subprocess.Popen([*command, "--rank", str(rank)]))  # noqa: PERF401
            codes = [process.wait() for process in processes]
        finally:  # after Ctrl-C, too, no rank is left behind
            for process in processes:
                process.kill()
                process.wait()
        failed = [f"{code} of rank {rank}" for rank, code in enumerate(codes) if code]
        if failed:
            told = f"expected exit code 0 of every rank, got {', '.join(failed)}"
            raise ChildProcessError(told)
        parts = []
        for rank in range(ranks):
            with np.load(Path(folder, f"rank-{rank}.npz")) as file:
                parts.append(dict(file))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def metrics_of(results: Results, n: int) -> tuple[float, float]:
    """Gives mean loss and accuracy of all n samples from their rows, in any order.

    A sample without a row makes them NaN; the rows of padding are passed over.
    """
    real = results["valid"]
    losses, right = np.full(n, np.nan), np.full(n, np.nan)
    losses[results["indices"][real]] = results["losses"][real]
    right[results["indices"][real]] = results["right"][real]
    return float(losses.mean()), float(right.mean())


def told(name: str, metrics: tuple[float, float]) -> str:
    """Gives the line of two metrics: as they are to the last bit, and as one reads them."""
    loss, accuracy = metrics
    return f"{name:24} loss {loss.hex()} ({loss:.6f})  accuracy {accuracy.hex()} ({accuracy:.4f})"


def main(argv: list[str] | None = None) -> int:
    """Evaluates in one process and in several, and compares; or is one of the several."""
    parser = argparse.ArgumentParser(description="Measures a classifier on several processes.")
    parser.add_argument("--ranks", type=int, default=4, help="processes (4)")
    parser.add_argument("--samples", type=int, help="measure on the first N samples (all)")
    parser.add_argument("--workers", type=int, help="threads (num_workers of the config)")
    parser.add_argument("--rank", type=int, help="be this rank alone, and write to --folder")
    parser.add_argument("--folder", type=Path, help="where a rank writes its results")
    options = parser.parse_args(argv)
    if options.ranks < 1 or (options.workers or 0) < 0:
        parser.error("expected --ranks >= 1 and --workers >= 0")
    if options.samples is not None and options.samples < 1:
        parser.error("expected --samples >= 1")
    if (options.rank is None) != (options.folder is None):
        parser.error("expected --rank and --folder together")
    if options.rank is not None and not 0 <= options.rank < options.ranks:
        parser.error("expected --rank from 0 to below --ranks")

    means, arrays = prepare(options.samples)
    loader = Loader(CONFIG, arrays)
    if options.workers is not None:
        loader = loader.replace(num_workers=options.workers)
    if options.rank is not None:
        shard = {**loader.config.shard, "index": options.rank, "count": options.ranks}
        results = results_of(loader.replace(shard=shard), means)
        np.savez(options.folder / f"rank-{options.rank}.npz", **results)
        return 0

    alone = results_of(loader, means)
    given = (("--samples", options.samples), ("--workers", options.workers))
    passed_on = [word for pair in given if pair[1] is not None for word in map(str, pair)]
    together = run_ranks(options.ranks, passed_on)
    n, rows, real = len(alone["indices"]), len(together["valid"]), int(together["valid"].sum())
    print(f"{n:,} samples on {options.ranks} ranks: {rows:,} rows, {rows - real} of them padding")
    expected, got = metrics_of(alone, n), metrics_of(together, n)
    counted = float(together["losses"].mean()), float(together["right"].mean())
    equal = real == n and expected == got  # of floats, and NaN is not equal to itself
    print(told("one process", expected))
    print(told(f"{options.ranks} ranks", got) + ("  equal" if equal else "  DIFFERENT"))
    print(told("if padding counted", counted) + f"  off by {counted[0] - expected[0]:+.1e}")
    return 0 if equal else 1


if __name__ == "__main__":
    run(main)
