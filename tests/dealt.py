"""Whole epochs of a shard, put together from what `Deal` gives a loader, to hold them against.

`oracle.py` tells what they should be.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from threadloader.order import Deal, Row
from threadloader.order._deal import Share


def shares(deal: Deal, order: Any, start: int = 0) -> Iterator[Share]:
    """What the shard gets in each step, from `start` to the end of the epoch."""
    for indices, positions in deal.blocks(order, start):
        for here, there in zip(indices, positions, strict=True):
            yield Share(here, there, np.ones(deal.batch_size, np.bool_))
    tail = deal.tail(order, start)
    if tail is not None:
        yield tail


def after(deal: Deal, n: int, start: int, steps: int) -> int | None:
    """The world's position after some steps; None when the epoch is over for every shard."""
    if steps >= deal.world_steps(n, start):
        return None
    return start + steps * deal.global_batch


def rows(deal: Deal, n: int, position: int) -> Iterator[Row]:
    """Every row of a position, the real one first: each shard of the world is looked through."""
    step, behind = divmod(position, deal.global_batch)
    full = n // deal.global_batch
    if step < full:
        yield Row(step, *divmod(behind, deal.batch_size), True)
    shards = [deal._replace(shard_index=shard) for shard in range(deal.shard_count)]
    parts = [each._tail(n, 0)[:2] for each in shards]
    for shard, (first, last) in enumerate(parts):
        if first <= position < last:
            yield Row(full, shard, position - first, True)
    for shard, (first, last) in enumerate(parts):
        for padding in range(max(first, n), last):
            if (padding - n) % n == position:
                yield Row(full, shard, padding - first, False)
