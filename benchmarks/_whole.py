"""Whole batches as the items of a data set: how arrays go fastest through most loaders.

A loader that knows samples only is given a data set whose item number i is the i-th batch of
the epoch, gathered from the arrays at once; the order of the samples is drawn here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ._protocol import Batch, Job

__all__ = ["Endless", "Order", "Shuffled", "WholeBatches", "gathered"]


def gathered(arrays: dict[str, np.ndarray], indices: np.ndarray) -> Batch:
    """Gather rows of arrays; "clip" spares a second look at indices that are known to fit."""
    return {name: array.take(indices, 0, mode="clip") for name, array in arrays.items()}


class Order:
    """The order of a job's samples, a new one each epoch.

    Args:
        job: whose.
    """

    def __init__(self, job: Job) -> None:
        self._samples, self._size = len(job.source), job.batch_size
        self._random = np.random.default_rng(0)
        self.shuffle()

    def shuffle(self) -> None:
        """Draw the order of another epoch."""
        self._order = self._random.permutation(self._samples)

    def __len__(self) -> int:
        """Give the number of batches of an epoch."""
        return (self._samples + self._size - 1) // self._size

    def __getitem__(self, number: int) -> np.ndarray:
        """Give the indices of a batch, int64 ``(rows,)``."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self._order[number * self._size : (number + 1) * self._size]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[number] for number in range(len(self)))

    @property
    def samples(self) -> np.ndarray:
        """The indices of the epoch, int64 ``(samples,)``."""
        return self._order


class Shuffled:
    """Indices of samples, or of whole batches, in a new order each time."""

    def __init__(self, order: Order, *, whole: bool) -> None:
        self._order = order
        self._whole = whole

    def __iter__(self) -> Iterator[Any]:
        self._order.shuffle()
        # What is on its way belongs to the order before, which a new one leaves as it is.
        return iter(list(self._order) if self._whole else self._order.samples.tolist())


class Endless:
    """One epoch after another, so that a loader need not begin each anew.

    Args:
        epochs: gives the items of the next epoch each time it is iterated.
    """

    def __init__(self, epochs: Iterable[Any]) -> None:
        self._epochs = epochs

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self._epochs


class WholeBatches:
    """The batches of an epoch, by number; safe in several threads.

    Args:
        job: any; of arrays a batch is gathered at once, else sample by sample.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.order = Order(job)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, number: int) -> Batch:
        return self.of(self.order[number])

    def of(self, indices: np.ndarray) -> Batch:
        """Give the batch of some indices."""
        if self.job.arrays is not None:
            return gathered(self.job.arrays, indices)
        return self.job.batch(indices.tolist())
