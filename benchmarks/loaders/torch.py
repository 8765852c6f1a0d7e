"""PyTorch's DataLoader: processes, which live as long as the loader, and tensors.

Arrays are tensors that are gathered a batch at a time: the sampler gives whole tensors of
indices (``batch_size=None``), which is many times faster than sample by sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .._protocol import Batch, Job, Served
from .._synthetic import fastest
from .._whole import gathered

TITLE = "PyTorch DataLoader"
PACKAGE = "torch"
MODULE = "torch.utils.data"


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    from torch.utils.data import DataLoader

    warnings.simplefilter("ignore")  # more workers than cores is what some jobs ask for
    options: dict[str, Any] = {
        "num_workers": job.workers,
        "persistent_workers": job.workers > 0,
    }
    how = [f"{job.workers} processes" if job.workers else "no worker"]
    if job.workers:
        options["prefetch_factor"] = 4 if job.cost == "cheap" else 2
    if job.arrays is not None:
        tensors = _Tensors(job)
        options |= {
            "dataset": tensors,
            "sampler": _Batches(job),
            "batch_size": None,
            "collate_fn": _same,
        }
        how.append(f"whole batches by {tensors.how}, a sampler of index tensors")
    else:
        options |= {"dataset": _Samples(job), "batch_size": job.batch_size, "shuffle": True}
        if job.collate is not None:
            options["collate_fn"] = _Collate(job)
            how.append("__getitems__, the given collate, tensors over its arrays")
        else:
            how.append("default_collate")
    loader = DataLoader(**options)
    yield Served(lambda: iter(loader), ", ".join(how))


class _Samples:
    """A data set of samples."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __len__(self) -> int:
        return len(self._job.source)

    def __getitem__(self, index: int) -> Any:
        return self._job.sample(index)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        sample = self._job.sample
        return [sample(index) for index in indices]


class _Collate:
    """The job's collate, with tensors over the memory of its arrays."""

    def __init__(self, job: Job) -> None:
        assert job.collate is not None
        self._collate = job.collate

    def __call__(self, samples: list[Any]) -> Batch:
        from torch import from_numpy

        return {name: from_numpy(array) for name, array in self._collate(samples).items()}


class _Tensors:
    """A data set of whole batches, asked for by tensors of indices.

    Which gather is faster depends on size, cores and what else runs: index_select shares
    large ones out among threads. So both are tried, and the faster one taken.
    """

    def __init__(self, job: Job) -> None:
        from torch import from_numpy, randperm

        assert job.arrays is not None
        self._arrays = job.arrays
        self._tensors = {name: from_numpy(array) for name, array in job.arrays.items()}
        trial = randperm(len(self))[: job.batch_size]
        ways = [partial(way, trial) for way in (self._by_torch, self._by_numpy)]
        torch_is_faster = fastest(ways) is ways[0]
        self._gather = self._by_torch if torch_is_faster else self._by_numpy
        self.how = "index_select" if torch_is_faster else "numpy's take"

    def __len__(self) -> int:
        return len(next(iter(self._tensors.values())))

    def __getitem__(self, indices: Any) -> Batch:
        return self._gather(indices)

    def _by_torch(self, indices: Any) -> Batch:
        return {name: tensor.index_select(0, indices) for name, tensor in self._tensors.items()}

    def _by_numpy(self, indices: Any) -> Batch:
        from torch import from_numpy

        rows = gathered(self._arrays, indices.numpy())
        return {name: from_numpy(array) for name, array in rows.items()}


class _Batches:
    """A sampler of whole batches."""

    def __init__(self, job: Job) -> None:
        self._samples, self._size = len(job.source), job.batch_size

    def __iter__(self) -> Iterator[Any]:
        from torch import randperm

        return iter(randperm(self._samples).split(self._size))

    def __len__(self) -> int:
        return (self._samples + self._size - 1) // self._size


def _same(batch: Any) -> Any:
    return batch
