"""Where a run stands after steps that are left out of it."""

from __future__ import annotations

from ..engine import Outcome, attempt
from ..errors import ConfigError, Problem, shown
from ..order import Deal
from ..state import LAST_EPOCH, Cursor
from ._failure import explained
from ._schedule import Plan, check_length

__all__ = ["FURTHEST", "MOST_EMPTY", "after_steps"]

FURTHEST = LAST_EPOCH // 2
"""A run begins before this epoch: it goes on from there, and a state holds up to `LAST_EPOCH`."""

MOST_EMPTY = 100
"""After so many epochs in a row without a step, no others are expected. Chosen: a callable sampler
has to be asked for each."""


def after_steps(deal: Deal, plan: Plan, cursor: Cursor, steps: int, end: int | None) -> Cursor:
    """Give where a run stands after its next steps, those of the whole world, are left out.

    Args:
        deal: how orders are dealt.
        plan: which samples each epoch has.
        cursor: where the run stands.
        steps: how many; they may reach into later epochs.
        end: the epoch before which the run ends; None for no end.

    Returns:
        The cursor, which remembers that they were left out.

    Raises:
        ConfigError: the run ends before them, epochs on the way have no step, or they lead beyond
            what a run can have.
        StateError: a sampler gives fewer indices than its epoch was given already.
        WorkerError: a sampler raised what would be taken for an end.
        Exception: whatever a sampler raises, with a note of its epoch.
    """
    if not steps:
        return cursor
    asked, epoch, position, step = steps, cursor.epoch, cursor.position, cursor.step
    left_out: tuple[int, int, int] | None = None  # epoch and step of the first, and how many
    empty = 0  # epochs without a step, one after the other
    while steps:
        if end is not None and epoch >= end:
            passed = 0 if left_out is None else left_out[2] - steps
            raise _too_many(
                f"at most {passed}, the steps left up to the end of num_epochs ({end})", asked
            )
        plan.begun = epoch
        sampler = plan.of(epoch).sampler
        n = _asked(plan, epoch) if sampler.length is None else sampler.length
        check_length(epoch, n, position)
        there = deal.world_steps(n, position)
        if there and left_out is None:  # nothing may be left of the epoch that it stands in
            left_out = epoch, step, steps
        if steps < there:
            position, step = position + steps * deal.global_batch, step + steps
            break
        empty = empty + 1 if not there and not position else 0
        if empty and (sampler.length is not None or empty > MOST_EMPTY):
            raise _too_many(f"none to leave out, since an epoch of {n} samples has no step", asked)
        # Epochs of one length are passed over at once, however many they are.
        whole = 1 if position or sampler.length is None else steps // there
        if end is not None:
            whole = min(whole, end - epoch)
        steps -= whole * there
        epoch, position, step = epoch + whole, 0, 0
        if epoch >= FURTHEST:
            raise _too_many(f"steps that end before epoch {FURTHEST}", asked)
    skipped = (*cursor.skipped_steps, *filter(None, [left_out]))
    return cursor._replace(epoch=epoch, position=position, step=step, skipped_steps=skipped)


def _too_many(expected: str, asked: int) -> ConfigError:
    return ConfigError(Problem("skip_steps", expected, shown(asked), "give fewer"))


def _asked(plan: Plan, epoch: int) -> int:
    """Ask the sampler for an epoch's order and give its length; raise its errors as `next` does."""
    order, error = attempt(plan.order, epoch)
    try:
        if error is not None:
            raise explained(Outcome(error=error), error, epoch)
        return int(order.n)
    finally:
        del error  # its traceback leads to this frame
