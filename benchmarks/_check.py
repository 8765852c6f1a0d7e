"""Whether a loader gives what was asked for: each sample once per epoch, and the right batches."""

from __future__ import annotations

import numpy as np

from ._protocol import Batch, Job

__all__ = ["Watched", "WrongBatches", "all_rows", "same_batch"]


class WrongBatches(Exception):  # noqa: N818 - what is wrong is the batches
    """A loader does not give what was asked for; its speed means nothing."""


def same_batch(job: Job, batch: Batch) -> None:
    """Hold a batch against what a plain loop makes of the same samples.

    Raises:
        WrongBatches: fields, dtypes, shapes or values differ.
    """
    got = {name: np.asarray(value) for name, value in batch.items()}
    if job.check is not None:
        job.check(got)
        return
    expected = job.batch(np.asarray(batch["index"]).tolist())
    if got.keys() != expected.keys():
        raise WrongBatches(f"a batch: expected the fields {set(expected)}, got {set(got)}")
    for name, value in expected.items():
        form, found = _form(value), _form(got[name])
        if form != found or not np.array_equal(value, got[name]):
            differs = "other values" if form == found else f"{found[0]} {found[1]}"
            raise WrongBatches(f"field {name}: expected {form[0]} {form[1]}, got {differs}")


def _form(array: np.ndarray) -> tuple[np.dtype, tuple[int, ...]]:
    """Give dtype and shape; numpy's own integer, of 32 bits on some systems, counts as int64."""
    dtype = np.dtype(np.int64) if array.dtype == np.dtype(int) else array.dtype
    return dtype, array.shape


class Watched:
    """Counts how often each sample of an epoch comes, a byte each."""

    def __init__(self, job: Job) -> None:
        # Not `zeros`, whose pages come when they are written, and would count as the loader's.
        self._came = np.full(len(job.source), 0, np.uint8)

    def take(self, batch: Batch) -> None:
        """Count a batch.

        Raises:
            WrongBatches: it has an index that is none of the source's.
        """
        indices = np.asarray(batch["index"])
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(self._came):
            raise WrongBatches(
                f"a batch: expected indices 0 to {len(self._came) - 1}, got"
                f" {indices.min()} to {indices.max()}"
            )
        np.add.at(self._came, indices, 1)

    def judge(self) -> None:
        """Judge the epoch.

        Raises:
            WrongBatches: a sample did not come, or came again.
        """
        missing, again = np.flatnonzero(self._came == 0), np.flatnonzero(self._came > 1)
        told = [f"{len(missing)} did not come (the first: {missing[0]})"] if len(missing) else []
        told += [f"{len(again)} came again (the first: {again[0]})"] if len(again) else []
        if told:
            raise WrongBatches(
                f"an epoch: expected each of {len(self._came)} samples once, but"
                f" {' and '.join(told)}"
            )


def all_rows(rows: int, epochs: int, job: Job) -> None:
    """Hold the number of rows of whole epochs against the source.

    Raises:
        WrongBatches: they are more or fewer.
    """
    expected = epochs * len(job.source)
    if rows != expected:
        raise WrongBatches(f"{epochs} timed epochs: expected {expected} rows, got {rows}")
