"""What options of other loaders are called here, or why there is none like them."""

from __future__ import annotations

__all__ = ["here"]

_SOURCE = 'data stand in "source", or in code: Loader(config, source=...)'
_SHARD = 'write "shard": {"index": ..., "count": ...}, or "auto"'
_SEED = 'write "seed"'

_HERE = {
    "dataset": _SOURCE,
    "data": _SOURCE,
    "path": _SOURCE,
    "files": _SOURCE,
    "type": _SOURCE,
    "bs": 'write "batch_size"',
    "generator": _SEED,
    "random_seed": _SEED,
    "shuffle_seed": _SEED,
    "rank": _SHARD,
    "world_size": _SHARD,
    "num_replicas": _SHARD,
    "num_shards": _SHARD,
    "shard_index": _SHARD,
    "threads": 'write "num_workers"',
    "persistent_workers": "leave it out: workers live as long as the with",
    "multiprocessing_context": "leave it out: workers are threads",
    "worker_init_fn": "leave it out: per_thread(...) gives each worker a source of its own",
    "batch_sampler": 'leave it out: batches are slices of the order that "sampler" gives',
    "buffer_size": 'leave it out: "shuffle" needs none; what is ahead is "prefetch_batches"',
    "drop_remainder": 'write "drop_last"',
    "in_order": "leave it out: batches always come in order",
    "pin_memory_device": 'leave it out: "pin_memory" is all that there is',
    "timeout": 'write "stall_seconds" (null: none), and "stall_action": "raise" for an error',
}
"""Of PyTorch's DataLoader and its samplers, tf.data, Grain, and Keras; those that are no slip away
from ours. docs/from-torch.md says more."""


def here(key: str) -> str:
    """Say what to write in place of a key that is another loader's; "" where that is not known.

    >>> here("drop_remainder"), here("seed")
    ('write "drop_last"', '')
    """
    return _HERE.get(key.lower(), "")
