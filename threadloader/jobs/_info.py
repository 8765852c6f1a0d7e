"""What one batch is, for whoever asks: imported then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BatchInfo"]


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays do not compare to one bool
class BatchInfo:
    """What one batch is.

    Attributes:
        epoch: number of its epoch, from 0.
        step: its number in the epoch, from 0; after a resume under another batch size or number of
            shards, from there.
        indices: int64, shape (rows,), read-only: the dataset index of each row.
        valid: bool, shape (rows,), read-only: False where a row is padding, which repeats
            a sample so that every shard makes the same number of steps.
        skipped: dataset indices left out because they failed: of this batch, and of batches
            just before it of which nothing was left.
        fingerprint: running fingerprint of all batches this shard has delivered, up to this
            one, resumes included; "" unless the config asks for one.
    """

    epoch: int
    step: int
    indices: NDArray[np.int64]
    valid: NDArray[np.bool_]
    skipped: tuple[int, ...] = ()
    fingerprint: str = ""
