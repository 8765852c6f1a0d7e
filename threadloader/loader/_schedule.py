"""Which samples each epoch has, and the jobs of a run, from any cursor on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import StateError, WorkerError
from ..jobs import AnyJob, BatchJob, GroupJob, NoBatch, Recipe, SeriesJob, Span
from ..order import Deal, EpochOrder, key
from ..samplers import Sampler
from ..state import Cursor, Excluded

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Plan", "Sampling", "check_length", "counting", "jobs", "most_ahead"]


class Sampling(NamedTuple):
    """Which samples an epoch has.

    Attributes:
        sampler: gives its order.
        excluded: the samples that this order leaves out.
    """

    sampler: Sampler
    excluded: Excluded


class Plan:
    """The sampling of every epoch of a run; each epoch's order is asked for once.

    Args:
        now: what the config says.
        former: the sampling of an epoch that was begun under another list of excluded
            samples, and goes on with that.
        epoch: which epoch that is.

    Attributes:
        now: what the config says.
        begun: the epoch that the consumer is in, written by the consumer; no earlier one is
            asked for any more.
    """

    def __init__(self, now: Sampling, former: Sampling | None = None, epoch: int = -1) -> None:
        self.now = now
        self.begun = 0
        self._former = former
        self._epoch = epoch
        # The feeder may be epochs ahead when the consumer has the jobs begin anew from its own
        # epoch, so all orders from `begun` on are kept. Written by the thread that enters the
        # loader, then by the feeder, or the consumer where it prepares batches itself; when that
        # changes, the feeder may still be at its last order. So each use is one operation.
        self._orders: dict[int, EpochOrder] = {}

    def of(self, epoch: int) -> Sampling:
        """Give the sampling of an epoch."""
        return self._former if self._former is not None and epoch == self._epoch else self.now

    def order(self, epoch: int) -> EpochOrder:
        """Give the order of an epoch.

        Raises:
            WorkerError: the sampler raised `StopIteration`.
            Exception: whatever else it raised; asked again, it is asked again.
        """
        order = self._orders.get(epoch)
        if order is None:
            try:
                order = self.of(epoch).sampler.order(epoch)
            except StopIteration as error:  # would come out of a generator as another one
                message = f"StopIteration was raised for the order of epoch {epoch}; see its cause"
                raise WorkerError(message) from error
            self._orders[epoch] = order
            for at in self._orders.copy():
                if at < self.begun:
                    self._orders.pop(at, None)
        return order


def jobs(
    recipe: Recipe,
    deal: Deal,
    plan: Plan,
    cursor: Cursor,
    end: int | None,
    *,
    seed: int,
    singly: int,
    series: Callable[[], int] | None,
    most: Callable[[], int],
    strict: bool,
) -> Iterator[AnyJob]:
    """Give the jobs from a cursor on, epoch after epoch, up to `end`; at least one an epoch.

    The feeder draws them, or the thread that asks for batches. The iterator holds no reference to
    `Batches`, which would keep a dropped one alive.

    Args:
        recipe: how batches are made. Groups begin small, so that the first batch comes soon.
        deal: how orders are dealt.
        plan: which samples each epoch has.
        cursor: where to begin.
        end: the epoch before which to end.
        seed: seed of the run.
        singly: how many batches come as jobs of their own first: one of them failed in a
            group, and nobody knows which.
        series: says before each job how many batches it may have, where the consumer runs the job
            and makes each when it is asked for; None where a worker makes all at once.
        most: says before each job how many batches a group may have, besides the recipe.
        strict: whether a failing sample of the first batch is raised, and not left out.

    Raises:
        StateError: a sampler gives fewer indices than this epoch was given already.
        Exception: whatever a sampler raises.
    """
    several = series if recipe.series or recipe.piece else None

    def longest() -> int:
        return max(min(recipe.group, most()), several() if several else 1)

    sizes = _Sizes(longest, singly)
    recipes = chain([recipe.strict()] if strict else [], repeat(recipe))
    piece = recipe.piece if series else 0
    cut = cursor
    while end is None or cut.epoch < end:
        order = plan.order(cut.epoch)
        check_length(cut.epoch, order.n, cut.position)
        yield from _epoch(recipes, deal, order, cut, seed, sizes, piece, soon=cut is cursor)
        cut = Cursor(cut.epoch + 1)


def counting(plan: Plan, epoch: int) -> Iterator[NoBatch]:
    """Give one job, which has the length of an epoch and no batch."""
    yield NoBatch(Span(epoch, 0, 0, 0, 0, plan.order(epoch).n, last=True, over=True))


def check_length(epoch: int, n: int, delivered: int) -> None:
    """Refuse an order of `n` positions if more than `n` were `delivered` already.

    Raises:
        StateError: the order is shorter.
    """
    if delivered > n:
        raise StateError(
            "the state does not fit: expected a sampler that gives the same indices for epoch "
            f"{epoch} again, got {n} of them, where {delivered} were delivered already; have it "
            "draw from (seed, epoch) alone, or begin the run anew"
        )


def most_ahead(depth: int, group: int, steps: int | None) -> int:
    """Count the batches of jobs in a row, at most.

    Args:
        depth: how many jobs.
        group: how many batches one has at most; none reaches into the next epoch.
        steps: of an epoch; None where that is not known.

    >>> most_ahead(3, 256, 100), most_ahead(3, 256, 300), most_ahead(3, 1, 2)
    (300, 556, 3)
    """
    if not steps:
        return depth * group

    def at_ends(jobs: int) -> int:
        """Of the end of one epoch, and the beginning of another: full jobs, as far as they go."""
        half = jobs // 2
        return min(half * group, steps) + min((jobs - half) * group, steps)

    # The short job that ends an epoch may lie before those in a row, and behind them.
    fewest = -(-steps // group)
    epochs, rest = divmod(depth, fewest)
    most = epochs * steps + at_ends(rest)
    return max(most, (epochs - 1) * steps + at_ends(rest + fewest)) if epochs else most


class _Sizes:
    """How many batches the next job has: 1, 2, 4 and so on up to what `most` gives."""

    def __init__(self, most: Callable[[], int], singly: int) -> None:
        self._most = most
        self._singly = singly
        self._size = 1

    def next(self, left: int) -> int:
        """Give the size of the next job, of at most `left` batches."""
        most = self._most()
        if most == 1 or self._singly > 0:
            self._singly -= 1
            return 1
        # As equal as they can be: where small jobs come in a row, little is prepared ahead.
        size = min(self._size, -(-left // -(-left // most)))
        self._size = min(2 * self._size, most)
        return size


def _epoch(
    recipes: Iterator[Recipe],
    deal: Deal,
    order: EpochOrder,
    cut: Cursor,
    seed: int,
    sizes: _Sizes,
    piece: int,
    *,
    soon: bool,
) -> Iterator[AnyJob]:
    """Give the jobs of an epoch from a cursor in it on.

    `piece` is as of `GroupJob`, `soon` as of `Deal.blocks`: True for the first epoch of a stream
    alone. Later epochs are drawn while batches of the epoch before are in work, or where nothing
    is prepared ahead.
    """
    epoch, start, first = cut.epoch, cut.position, cut.step
    steps, world_steps = deal.steps(order.n, start), deal.world_steps(order.n, start)
    stride, transform_key = deal.global_batch, key("transform", seed, epoch)
    done = 0  # steps that were given

    def span(size: int) -> Span:
        behind = done + size
        return Span(
            epoch,
            first + done,
            size,
            start + done * stride,
            stride,
            order.n,
            last=behind == steps,
            over=behind == world_steps,
        )

    if not steps:
        yield NoBatch(Span(epoch, first, 0, start, stride, order.n, last=True, over=True))
    valid: NDArray[np.bool_] | None = None
    for indices, positions in deal.blocks(order, start, soon=soon):
        if valid is None:  # not before: a batch may be far larger than an epoch
            valid = np.ones(deal.batch_size, np.bool_)
            valid.flags.writeable = False
        at = 0
        while at < len(indices):
            size, recipe = sizes.next(len(indices) - at), next(recipes)
            many = slice(at, at + size)
            if size == 1:
                one = indices[at], positions[at]
                yield _batch(recipe, span(1), *one, valid, len(valid), transform_key)
            elif recipe.series:
                several = indices[many], positions[many]
                yield SeriesJob(recipe, span(size), *several, valid, transform_key)
            else:
                yield GroupJob(recipe, span(size), indices[many], valid, piece)
            at, done = at + size, done + size
    tail = deal.tail(order, start)
    if tail is not None:
        real = int(np.count_nonzero(tail.valid))
        yield _batch(next(recipes), span(1), *tail, real, transform_key)


def _batch(recipe: Recipe, *what: Any) -> BatchJob:
    if recipe.policy is None:
        return BatchJob(recipe, *what)
    from ..jobs import RetryingJob  # imported when it is asked for

    return RetryingJob(recipe, *what)
