"""PyTorch's DataLoader: processes, which live as long as the loader, and tensors.

The sampler goes on from epoch to epoch, so that the next one is prepared while this one ends; where
an epoch ends is counted.

Arrays are gathered a batch at a time: the sampler gives whole tensors of indices
(``batch_size=None``), which is many times faster than sample by sample. Tensors come from a
worker through shared memory, a file for each; what is small is faster as numpy arrays, which
come through a pipe.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .._protocol import Batch, Job, Served
from .._synthetic import fastest
from .._whole import Endless, gathered

TITLE = "PyTorch DataLoader"
PACKAGE = "torch"
MODULE = "torch.utils.data"

SMALL = 1 << 18
"""Bytes of a batch up to which a pipe was faster than shared memory."""


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    from torch.utils.data import DataLoader

    warnings.simplefilter("ignore")  # more workers than cores is what some jobs ask for
    how = f"{job.workers} processes" if job.workers else "no worker"
    options: dict[str, Any] = {"num_workers": job.workers, "pin_memory": job.pinned}
    if job.workers:
        options |= {
            "persistent_workers": True,
            "prefetch_factor": 16 if job.cost == "cheap" else 2,
        }
    batches = _Batches(job, lists=job.arrays is None)
    if job.arrays is not None:
        gather = _Gather(job)
        options |= {
            "dataset": gather,
            "sampler": Endless(batches),
            "batch_size": None,
            "collate_fn": _same,
        }
        how += f", whole batches by {gather.how}, a sampler of index tensors"
    else:
        options |= {"dataset": _Samples(job), "batch_sampler": Endless(batches)}
        if job.collate is not None:
            options["collate_fn"] = job.collate
        how += ", __getitems__, " + ("the given collate" if job.collate else "default_collate")
    if job.pinned:
        how += ", pin_memory"
    endless = iter(DataLoader(**options))
    yield Served(lambda: itertools.islice(endless, len(batches)), f"{how}, an endless sampler")


class _Samples:
    """A data set of samples."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __len__(self) -> int:
        return len(self._job.source)

    def __getitem__(self, index: int) -> Any:
        return self._job.sample(index)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return self._job.samples(indices)


class _Gather:
    """A data set of whole batches, asked for by tensors of indices.

    Which gather is faster depends on size, cores and what else runs: index_select shares
    large ones out among threads. So both are tried, and the faster one taken. A small batch
    of a worker is one of numpy arrays.
    """

    def __init__(self, job: Job) -> None:
        from torch import from_numpy, get_num_threads, randperm, set_num_threads

        assert job.arrays is not None
        self._arrays = job.arrays
        self._tensors = {name: from_numpy(array) for name, array in job.arrays.items()}
        trial = randperm(len(self))[: job.batch_size]
        ways = [partial(way, trial) for way in (self._by_torch, self._by_numpy)]
        size = sum(array[: job.batch_size].nbytes for array in job.arrays.values())
        if job.workers and size <= SMALL:
            self._way, self.how = self._as_numpy, "numpy's take, not made tensors"
            return
        threads = get_num_threads()
        if job.workers:
            set_num_threads(1)  # as in each worker
        if fastest(ways) is ways[0]:
            self._way, self.how = self._by_torch, "index_select"
        else:
            self._way, self.how = self._by_numpy, "numpy's take"
        set_num_threads(threads)

    def __len__(self) -> int:
        return len(next(iter(self._tensors.values())))

    def __getitem__(self, indices: Any) -> Batch:
        return self._way(indices)

    def _by_torch(self, indices: Any) -> Batch:
        return {name: tensor.index_select(0, indices) for name, tensor in self._tensors.items()}

    def _as_numpy(self, indices: Any) -> Batch:
        return gathered(self._arrays, indices.numpy())

    def _by_numpy(self, indices: Any) -> Batch:
        from torch import from_numpy

        return {name: from_numpy(array) for name, array in self._as_numpy(indices).items()}


class _Batches:
    """A sampler of whole batches, as lists of indices or as tensors."""

    def __init__(self, job: Job, *, lists: bool) -> None:
        self._samples, self._size, self._lists = len(job.source), job.batch_size, lists

    def __iter__(self) -> Iterator[Any]:
        from torch import randperm

        parts = randperm(self._samples).split(self._size)
        return (part.tolist() for part in parts) if self._lists else iter(parts)

    def __len__(self) -> int:
        return (self._samples + self._size - 1) // self._size


def _same(batch: Any) -> Any:
    return batch
