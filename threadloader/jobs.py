"""What is done for one batch: its samples are read, transformed and collated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import CollateError

__all__ = ["BatchInfo", "BatchJob", "InEpoch", "NoBatch", "Recipe"]


@dataclass(frozen=True, slots=True, eq=False)  # eq: arrays do not compare to one bool
class BatchInfo:
    """What one batch is.

    Attributes:
        epoch: number of its epoch, from 0.
        step: its number in the epoch, from 0.
        indices: int64, shape (rows,), read-only: the dataset index of each row.
        valid: bool, shape (rows,), read-only: False where a row is padding, which repeats
            a sample so that every shard makes the same number of steps.
        skipped: dataset indices left out because they failed.
        fingerprint: that of the content of all batches that this shard was given, up to
            this one; "" unless the config asks for it.
    """

    epoch: int
    step: int
    indices: NDArray[np.int64]
    valid: NDArray[np.bool_]
    skipped: tuple[int, ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a batch is made, the same for every batch of a run.

    Attributes:
        source: where samples come from.
        transform: (sample, key of the epoch, position) -> sample, or None.
        collate: samples -> batch.
        pin: batch -> batch in page-locked memory, or None.
        whole: "take" when the source builds whole batches, "getitems" when it reads all of a
            batch's samples at once, "" when it is read sample by sample.
        digest: batch -> fingerprint of its content, or None.
    """

    source: Any
    transform: Callable[[Any, int, int], Any] | None
    collate: Callable[[list[Any]], Any]
    pin: Callable[[Any], Any] | None = None
    whole: str = ""
    digest: Callable[[Any], bytes] | None = None


class InEpoch(NamedTuple):
    """What a job is in its epoch.

    Attributes:
        after: epoch, position and step at which the run stands once it is delivered.
        length: positions of the epoch's global order.
        last: whether this shard has no further step in the epoch.
    """

    after: tuple[int, int, int]
    length: int
    last: bool


class NoBatch:
    """Takes the place of the batches of an epoch in which this shard has no step."""

    parts = 1
    info = None

    def __init__(self, within: InEpoch) -> None:
        self.within = within

    def run(self, parts: Iterator[int]) -> None:
        """Do nothing."""
        for _ in parts:
            pass

    def finish(self) -> None:
        """Give nothing."""

    def describe(self, part: int | None) -> str:
        """Say what it is."""
        return "an epoch without a step"


class BatchJob:
    """One batch as a job of the engine. A part is a row, or all of them at once.

    Args:
        recipe: how it is made.
        info: what it is.
        positions: int64, shape (rows,), the rows' places in the global order.
        key: the epoch's key for transforms.
        within: what it is in its epoch.

    Attributes:
        samples: rows that are not padding.
        digest: fingerprint of the batch's content, once it is made; b"" without.
    """

    __slots__ = (
        "_indices",
        "_key",
        "_positions",
        "_recipe",
        "_row",
        "_samples",
        "digest",
        "info",
        "parts",
        "samples",
        "within",
    )

    def __init__(
        self,
        recipe: Recipe,
        info: BatchInfo,
        positions: NDArray[np.int64],
        key: int,
        within: InEpoch,
    ) -> None:
        self.info = info
        self.within = within
        self.digest = b""  # written by the worker that finishes, before the slot is filled
        self.samples = int(np.count_nonzero(info.valid))
        self._recipe = recipe
        # Python integers: a source need not know numpy's. Made here, in the feeder.
        self._indices: list[int] = [] if recipe.whole == "take" else info.indices.tolist()
        self._positions: list[int] = [] if recipe.transform is None else positions.tolist()
        self._key = key
        self.parts = 1 if recipe.whole else len(info.indices)
        # Where a batch that is read as a whole has got to with its transforms.
        self._row: int | None = None
        # Each row is written by the one worker that claimed it and read after all are done.
        self._samples: Any = [None] * len(info.indices)

    def run(self, parts: Iterator[int]) -> None:
        """Read and transform the samples of some rows."""
        source, transform = self._recipe.source, self._recipe.transform
        if self._samples is None:  # without workers, a Ctrl-C behind the finish runs it again
            self._samples = [None] * len(self.info.indices)
        if self._recipe.whole:
            for _ in parts:
                self._samples = self._read_whole()
            return
        samples, indices = self._samples, self._indices
        if transform is None:
            for row in parts:
                samples[row] = source[indices[row]]
        else:
            positions, key = self._positions, self._key
            for row in parts:
                samples[row] = transform(source[indices[row]], key, positions[row])

    def _read_whole(self) -> Any:
        source, transform = self._recipe.source, self._recipe.transform
        if self._recipe.whole == "take":
            return source.take(self.info.indices)
        samples = list(source.__getitems__(self._indices))
        if len(samples) != len(self._indices):
            raise CollateError(
                f"the source's __getitems__: expected {len(self._indices)} samples, "
                f"got {len(samples)}"
            )
        if transform is None:
            return samples
        for row, position in enumerate(self._positions):
            self._row = row
            samples[row] = transform(samples[row], self._key, position)
        return samples

    def finish(self) -> Any:
        """Collate the samples into the batch, and pin it where that is asked for."""
        batch, self._samples = self._samples, None
        if self._recipe.whole != "take":
            batch = self._recipe.collate(batch)
        if self._recipe.digest is not None:
            self.digest = self._recipe.digest(batch)
        return batch if self._recipe.pin is None else self._recipe.pin(batch)

    def describe(self, part: int | None) -> str:
        """Say which sample a part is; None: the whole batch."""
        info = self.info
        where = f"step {info.step}, epoch {info.epoch}"
        if self._recipe.whole and part is not None:
            part = self._row
        if part is None:
            named = ", ".join(map(str, info.indices[:8]))
            more = ", ..." if len(info.indices) > 8 else ""
            return f"the batch of {where} (samples {named}{more})"
        index = int(info.indices[part])
        text = f"sample {index} (row {part} of {where})"
        try:
            locate = getattr(self._recipe.source, "locate", None)
            return text if locate is None else f"{text}, {locate(index)}"
        except Exception as error:  # noqa: BLE001 (it must not hide what it describes)
            return f"{text} (its place could not be told: {type(error).__name__})"
