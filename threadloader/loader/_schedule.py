"""Which samples each epoch has, and the jobs of a run, from any cursor on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..jobs import BatchInfo, BatchJob, InEpoch, NoBatch, Recipe
from ..order import Deal, key
from ..samplers import EpochOrder, Sampler
from ..state import Cursor, Excluded

__all__ = ["Plan", "Sampling", "jobs", "skipped"]


class Sampling(NamedTuple):
    """Which samples an epoch has.

    Attributes:
        sampler: gives its order.
        excluded: what is left out of that already.
    """

    sampler: Sampler
    excluded: Excluded


class Plan(NamedTuple):
    """The sampling of every epoch of a run.

    Attributes:
        now: what the config says.
        former: the sampling of an epoch that was begun under another list of excluded
            samples, and goes on with that.
        epoch: which epoch that is.
    """

    now: Sampling
    former: Sampling | None = None
    epoch: int = -1

    def of(self, epoch: int) -> Sampling:
        """Give the sampling of an epoch."""
        return self.former if self.former is not None and epoch == self.epoch else self.now


def jobs(
    recipe: Recipe, deal: Deal, plan: Plan, seed: int, cursor: Cursor, end: int | None
) -> Iterator[BatchJob | NoBatch]:
    """Give the jobs from a cursor on, epoch after epoch, up to `end`; at least one an epoch.

    Drawn by the feeder. It holds nothing of `Batches`, which would keep a dropped one alive.

    Raises:
        ValueError: a sampler gives fewer indices than this epoch was given already.
    """
    epoch, start, first = cursor.epoch, cursor.position, cursor.step
    while end is None or epoch < end:
        order: EpochOrder = plan.of(epoch).sampler.order(epoch)
        n = order.n
        if start > n:
            raise ValueError(
                f"expected a sampler that gives the same indices for epoch {epoch} again, got "
                f"{n} of them, where {start} were delivered already"
            )
        steps, world_steps = deal.steps(n, start), deal.world_steps(n, start)
        transform_key = key("transform", seed, epoch)
        for step, share in enumerate(deal.shares(order, start)):
            info = BatchInfo(epoch, first + step, share.indices, share.valid)
            done = step + 1
            after = (epoch, start + done * deal.global_batch, first + done)
            within = InEpoch(after if done < world_steps else (epoch + 1, 0, 0), n, done == steps)
            yield BatchJob(recipe, info, share.positions, transform_key, within)
        if not steps:
            yield NoBatch(InEpoch((epoch + 1, 0, 0), n, last=True))
        epoch, start, first = epoch + 1, 0, 0


def skipped(deal: Deal, plan: Plan, cursor: Cursor, steps: int) -> Cursor:
    """Leave out the next steps of a run, those of the whole world.

    Args:
        deal: how orders are dealt.
        plan: which samples each epoch has.
        cursor: where the run stands.
        steps: how many; they may reach into later epochs.

    Returns:
        The cursor behind them, which remembers that they were left out.

    Raises:
        ValueError: no epoch has a step.
    """
    if not steps:
        return cursor
    skip = (cursor.epoch, cursor.step, steps)
    epoch, position, step = cursor.epoch, cursor.position, cursor.step
    while steps:
        sampler = plan.of(epoch).sampler
        n = sampler.order(epoch).n if sampler.length is None else sampler.length
        there = deal.world_steps(n, position)
        if steps < there:
            position, step = position + steps * deal.global_batch, step + steps
            break
        if not there and not position:
            raise ValueError(f"expected an epoch with steps to leave out, got {n} samples")
        steps -= there
        epoch, position, step = epoch + 1, 0, 0
    return cursor._replace(epoch=epoch, position=position, step=step, skips=(*cursor.skips, skip))
