"""The jobs of a run, from any cursor on, epoch after epoch."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import LoaderConfig
from ..jobs import BatchInfo, BatchJob, Recipe
from ..order import Deal, Order, key
from ..state import Cursor

__all__ = ["behind", "jobs"]


def behind(deal: Deal, length: int, cursor: Cursor, steps: int) -> tuple[int, int, int]:
    """Give the epoch, position and step at which a run stands some steps behind a cursor."""
    position = deal.after(length, cursor.position, steps)
    if position is None:
        return cursor.epoch + 1, 0, 0
    return cursor.epoch, position, cursor.step + steps


def jobs(
    recipe: Recipe, deal: Deal, length: int, config: LoaderConfig, cursor: Cursor, end: int | None
) -> Iterator[BatchJob]:
    """Give the jobs from a cursor on, epoch after epoch, up to `end`.

    Drawn by the feeder. It holds nothing of `Batches`, which would keep a dropped one alive.
    """
    while end is None or cursor.epoch < end:
        order = Order(length, seed=config.seed, epoch=cursor.epoch, shuffle=config.shuffle)
        transform_key = key("transform", config.seed, cursor.epoch)
        step = -1
        for step, share in enumerate(deal.shares(order, cursor.position)):
            info = BatchInfo(cursor.epoch, cursor.step + step, share.indices, share.valid)
            after = behind(deal, length, cursor, step + 1)
            yield BatchJob(recipe, info, share.positions, transform_key, after)
        if step < 0 and cursor.position == 0:
            return  # no epoch has any step: there will never be a job
        cursor = Cursor(cursor.epoch + 1)
