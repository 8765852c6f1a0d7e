"""How batches are made: from config and source to the recipe of the jobs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import buffers, sources
from ..collate import RowsMaker, make_collate
from ..config import LoaderConfig, bytes_of
from ..jobs import Recipe
from ..sizes import nbytes
from ..transforms import OffersMany
from ._pace import GROUPS_AHEAD
from ._whole_batches import builder, from_package, taking

if TYPE_CHECKING:
    from ..jobs import Policy

__all__ = ["fills_of", "make_recipe", "read_by"]

GROUP_BYTES = 16 << 20
"""Small batches of arrays in memory are handed over together up to this size; those that are
fingerprinted or pinned up to `GATHER_BYTES`, and all of them with `max_bytes`: a group a worker may
come on top of that bound. Measured: docs/measurements.md."""

GATHER_BYTES = 4 << 20
"""Small batches are gathered by one call up to this size: whoever keeps one of them keeps all of
that. Of sources that are not in memory a group is what one call makes: it may have to read a disk.
(So may that of a mapped file, but there several calls take no longer than one, and workers share
them.)"""

PIECE_BYTES = 2 << 20
"""Where there is no hand-off, small batches are made together up to this size. What is written then
leaves a core's own cache, but the loader's lines run less often with that cache full of rows.
Measured: as above."""

GROUP_MOST = 256
"""Batches of a group, at most: shared by so many, the cost of a hand-off does not show any more."""

GROUP_LEAST = 4
"""Where more groups are made ahead, for the sake of more workers, each has so many batches all the
same, if one of three would: else to hand them over costs more than a cheap `take`."""

MOST_KEPT = 512 << 20
"""Bound of the batch memory that is kept to be used again. What is in use at once is bounded by the
prefetched batches; what lies unused is let go in time."""

LEAST_WITH_WORKERS = 256 << 10
"""Smaller arrays are left to numpy; measured with two workers, 0.5 MiB gains a factor of two."""


def make_recipe(
    config: LoaderConfig,
    source: Any,
    transform: Callable[[Any, int, int], Any] | None,
    collate: Callable[[list[Any]], Any] | None,
    policy: Policy | None,
    locate: Callable[[int], str] | None,
) -> tuple[Recipe, str]:
    """Give how batches are made, and why they are not pinned though the config asks for it.

    `locate` is as of the recipe.
    """
    pin, empty, free, not_pinned = _memory(config)  # first: it may import torch, before any thread
    plain = collate is None and config.collate["type"] == "stack"
    # A cache may hold a transform, too; and `Without` stands around an object of the user's.
    wrapped = config.cache is not None or isinstance(source, sources.Without)
    read_from = source.source if wrapped else source
    foreign = collate is not None or wrapped or not (_is_ours(source) and _is_ours(transform))
    whole = read_by(source, plain=plain and transform is None)
    make_batch = collate
    if make_batch is None:
        make_batch = make_collate(config.collate, fills_of(transform))
    most = None if config.max_bytes is None else bytes_of(config.max_bytes)
    digest: Callable[[Any], bytes] | None = None
    if config.fingerprint:
        from .. import fingerprint  # imported when it is asked for

        digest = fingerprint.digest
    # With a policy, what fails is tried again, or left out, sample by sample.
    together = _together(transform, make_batch) if policy is None else None
    in_place = plain and not whole and together is None
    in_place &= policy is None or not policy.skip
    rows = RowsMaker(empty).rows if in_place else None
    light = collate is None and not whole and digest is None and pin is None and together is None
    # Pinning has its own costs, and a `per_thread` source is opened for each worker.
    per_thread = isinstance(read_from, sources.PerThread)
    recipe = Recipe(
        source,
        transform,
        make_batch,
        pin=pin,
        empty=empty,
        whole=whole,
        digest=digest,
        # Where nothing is handed over, the run writes down what was done for many batches at once.
        series=policy is None and digest is None,
        rows=rows,
        measure=None if most is None else nbytes,
        together=together,
        policy=policy,
        threads_only=pin is not None or per_thread,
        light=light,
        foreign=foreign,
        locate=locate,
        free=free,
    )
    if per_thread:
        recipe = recipe._replace(opened=read_from.opened)
    return (_of_whole(recipe, config, most) if whole == "take" else recipe), not_pinned


def _memory(config: LoaderConfig) -> tuple[Any, Any, Callable[[], None], str]:
    """Give what pins a batch, if any; what makes arrays; what frees them; why none is pinned."""
    not_pinned = ""
    if config.pin_memory:
        from ..adapters import torch_pin

        pinning, not_pinned = torch_pin.pinning(config.pin_memory)
        if pinning is not None:
            return pinning.pin, pinning.empty, lambda: None, not_pinned
    # With workers, smaller arrays gain by being used again than where one thread makes all.
    least = LEAST_WITH_WORKERS if config.num_workers else buffers.LEAST_BYTES
    pool = buffers.Pool(MOST_KEPT, least)
    return None, pool.empty, pool.close, not_pinned


def fills_of(transform: Callable[..., Any] | None) -> dict[str, float]:
    """Give, by field, the padding values that a bound transform sets for its samples."""
    if not isinstance(transform, OffersMany):
        return {}
    from ..masking import IGNORED, MaskTokens  # imported when there may be one

    given = transform.given
    return {given.labels: IGNORED} if isinstance(given, MaskTokens) else {}


def _is_ours(thing: Any) -> bool:
    """Tell whether a source or a bound transform runs no code but the package's, or Python's own.

    None is no code at all.
    """
    if isinstance(thing, OffersMany):
        thing = thing.given
    kind = type(thing)
    return thing is None or kind in (list, tuple, range) or from_package(kind)


def _of_whole(recipe: Recipe, config: LoaderConfig, most: int | None) -> Recipe:
    """Give the recipe for a source that builds whole batches; `most` is as of `_grouping`."""
    source: Any = recipe.source
    # Pinning and fingerprinting are done in the job, so all its batches must be made there.
    apart = recipe.pin is None and recipe.digest is None
    group, gather, piece, ahead = _grouping(source, config, most, apart=apart)
    recipe = recipe._replace(
        take=taking(source, recipe.empty),
        unlocked=not recipe.foreign and getattr(source, "in_memory", False),  # numpy gathers it
        group=group,
        gather=gather,
        ahead=ahead,
        series=recipe.series and group == 1,
        piece=piece,
    )
    if group == 1 or builder(source) is not sources.ArraySource:
        return recipe
    # The method of this very class: what a subclass calls by the name may be anything.
    take_batches = functools.partial(sources.ArraySource.take_batches, source)
    # Memory used again gains nothing for arrays as small as this where one thread makes them all.
    small = source.sample_bytes * config.batch_size * piece < buffers.LEAST_BYTES
    piece_empty = np.empty if small else recipe.empty
    return recipe._replace(take_batches=take_batches, piece_empty=piece_empty)


def read_by(source: Any, *, plain: bool) -> str:
    """Say by which method of a source batches are read, as `whole` of the recipe.

    Args:
        source: the source.
        plain: whether nothing is done to samples, and they are stacked.
    """
    if plain and hasattr(source, "take"):
        return "take"
    return "getitems" if hasattr(source, "__getitems__") else ""


def _grouping(
    source: Any, config: LoaderConfig, most: int | None, *, apart: bool
) -> tuple[int, int, int, int]:
    """Give how many batches a job makes, and a worker and the consumer each by one call.

    Args:
        source: builds whole batches.
        config: the config.
        most: bound of the bytes that are prepared ahead; None for none.
        apart: whether batches of a job may be made one after the other.

    Returns:
        `group`, `gather`, `piece` and `ahead` of the recipe.
    """
    told: Any = getattr(source, "sample_bytes", None)  # perhaps the user's, and so anything
    number = isinstance(told, (int, np.integer)) and not isinstance(told, bool)
    sample_bytes = int(told) if number and told > 0 else GROUP_BYTES
    batch_bytes = sample_bytes * config.batch_size
    # For other sources a call may cost more than its rows, as where reads are merged.
    in_memory = getattr(source, "in_memory", None) is True
    pieces = apart and in_memory
    # One that waits, as for storage, is to have as many workers at it as one that reads samples; in
    # all, the groups are not larger for that.
    many = 0 if in_memory else min(config.num_workers, config.prefetch_batches)
    in_all = GATHER_BYTES * GROUPS_AHEAD
    if most is not None:  # the consumer is at one more
        in_all = min(in_all, most - GROUP_LEAST * batch_bytes)
    ahead = max(GROUPS_AHEAD, min(many, in_all // (GROUP_LEAST * batch_bytes)))
    bytes_ = GROUP_BYTES if pieces and most is None else GATHER_BYTES * GROUPS_AHEAD // ahead
    if most is not None:  # those prepared ahead, and the one that the consumer is at
        bytes_ = min(bytes_, most // (ahead + 1))
    group = max(1, min(GROUP_MOST, bytes_ // batch_bytes))
    gather, piece = (max(1, min(group, it // batch_bytes)) for it in (GATHER_BYTES, PIECE_BYTES))
    return group, gather, piece if pieces and group > 1 else 0, ahead


def _together(
    transform: Callable[..., Any] | None, collate: Callable[[Any], Any]
) -> Callable[..., Any] | None:
    """Give what transforms and collates a whole batch at once; None if the transform cannot.

    Args:
        transform: what is done to samples.
        collate: makes the batch.
    """
    if not isinstance(transform, OffersMany):
        return None
    # Imported when there may be one.
    from ..collate import Pad
    from ..masking import MaskTokens

    given, change = transform.given, cast("Callable[..., Any]", transform.many)
    # A subclass may pad in its own way.
    if type(collate) is Pad and type(given) is MaskTokens and collate.pads(given.names):
        change = given.columns
    return lambda samples, key, positions: collate(change(samples, key, positions))
