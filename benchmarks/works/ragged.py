"""Ragged tokens: padded, a mask added, 15% of them hidden with labels for what they were."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np

from .._check import WrongBatches
from .._measure import loop, plain_loop
from .._protocol import Case, Job, Metric, Mlm, named

SHORT = "Ragged tokens"
TITLE = "Ragged int32 tokens (16 to 256 a sample): pad, mask and hide 15%, batches of 64"
LIMIT = "one thread: a straightforward numpy collate"
METRICS = (Metric("samples_per_second", "samples/s", "/s"),)

ASKED = Mlm(vocabulary=30_000, padding=0, mask=1, probability=0.15, ignored=-100)
"""Tokens of the source are 2 to vocabulary - 1."""


def cases(quick: bool) -> list[Case]:
    """Give none and one worker."""
    return [
        Case(named(workers), {"samples": 256 if quick else 12_800, "workers": workers})
        for workers in (0, 1)
    ]


_own = threading.local()


def collate(samples: list[Any]) -> dict[str, np.ndarray]:
    """Pad, mask and hide, as one writes it: a handful of numpy calls for the whole batch.

    Args:
        samples: dicts of ``tokens``, int32 ``(length,)``, and ``index``.

    Returns:
        ``tokens`` int32 and ``labels`` int32 ``(batch, longest)``, ``mask`` bool of the same
        shape, ``index`` int64 ``(batch,)``.
    """
    if not hasattr(_own, "random"):  # a generator is no more than one thread's
        _own.random = np.random.default_rng()
    tokens = [sample["tokens"] for sample in samples]
    lengths = np.array([len(part) for part in tokens])
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(mask.shape, ASKED.padding, np.int32)
    padded[mask] = np.concatenate(tokens)
    return {
        **hide(padded, mask, _own.random),
        "mask": mask,
        "index": np.array([sample["index"] for sample in samples]),
    }


def hide(
    padded: np.ndarray, mask: np.ndarray, random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Hide 15% of the tokens in place: 80% as the mask token, 10% at random, 10% as they are."""
    draw = random.random(mask.shape, np.float32)
    chosen = mask & (draw < ASKED.probability)
    labels = np.where(chosen, padded, np.int32(ASKED.ignored))
    padded[chosen & (draw < 0.8 * ASKED.probability)] = ASKED.mask
    other = chosen & (draw >= 0.9 * ASKED.probability)
    padded[other] = random.integers(2, ASKED.vocabulary, np.count_nonzero(other), np.int32)
    return {"tokens": padded, "labels": labels}


class Tokens:
    """The samples, in memory."""

    def __init__(self, samples: int) -> None:
        random = np.random.default_rng(0)
        self.lengths = random.integers(16, 257, samples)
        tokens = random.integers(2, ASKED.vocabulary, self.lengths.sum(), np.int32)
        self.tokens = np.split(tokens, np.cumsum(self.lengths)[:-1])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"tokens": self.tokens[index], "index": index}


def job(options: dict[str, Any]) -> Job:
    """Give the tokens."""
    source = Tokens(options["samples"])
    return Job(
        source=source,
        batch_size=64,
        workers=options["workers"],
        cost="cheap",
        collate=collate,
        mlm=ASKED,
        check=partial(_check, source),
    )


def _check(source: Tokens, batch: dict[str, np.ndarray]) -> None:
    """Hold a batch against its samples: what was not chosen is there, what was is in a label."""
    index, tokens, labels = batch["index"], batch["tokens"], batch["labels"]
    mask = batch["mask"] if "mask" in batch else batch["tokens_mask"]
    lengths = source.lengths[index]
    expected = np.arange(lengths.max()) < lengths[:, None]
    if not np.array_equal(expected, mask.astype(bool)):
        raise WrongBatches("a batch: expected the mask to tell data from padding")
    original = np.zeros(expected.shape, np.int64)
    original[expected] = np.concatenate([source.tokens[one] for one in index])
    chosen = labels != ASKED.ignored
    if not np.array_equal(original[~chosen], tokens[~chosen]):
        raise WrongBatches("a batch: expected tokens that were not chosen to be as they were")
    if not np.array_equal(original[chosen], labels[chosen]) or (chosen & ~expected).any():
        raise WrongBatches("a batch: expected a label to be the token that was chosen")
    for name, part, share in (
        ("chosen", chosen.sum() / expected.sum(), ASKED.probability),
        ("hidden of the chosen", (tokens[chosen] == ASKED.mask).mean(), 0.8),
    ):
        if abs(part - share) > 0.05:  # four standard deviations of a batch, or more
            raise WrongBatches(f"a batch: expected {share:.0%} {name}, got {part:.0%}")


measure, limit = loop, plain_loop
