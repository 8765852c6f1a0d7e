"""A source under PyTorch's DataLoader, to be measured beside ours.

It is written as its users would write it by hand: a map-style dataset over the same source,
`collate_fn` with the same collate and tensors over its arrays, processes that live as long
as the loader. A source that builds whole batches is asked for whole batches (a
`BatchSampler` as the sampler), which is several times faster there than sample by sample.

It imports torch, and only when asked to.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np

__all__ = ["INSTALL", "TorchLoader", "import_torch", "is_installed"]

INSTALL = "pip install torch"


def is_installed() -> bool:
    """Whether torch is installed; nothing is imported."""
    try:
        return importlib.util.find_spec("torch") is not None
    except ValueError:  # a module put in its place has no spec
        return True


def import_torch() -> Any:
    """Import torch and give it; an ImportError if it is not installed, or is broken."""
    importlib.import_module("torch.utils.data")
    return importlib.import_module("torch")


class TorchLoader:
    """A `torch.utils.data.DataLoader` over a source that each process can open.

    Leaving its ``with`` ends its processes. Without torch it is an ImportError.

    ``opener`` is called once in this process, and in each worker that does not inherit what was
    opened: where processes are not forked, for which it must be picklable, and where `reopen`
    says of the open source that a fork must not share it, as a database connection. Orders are
    PyTorch's, not ours; with a shard (index, count) whose count is above 1 a `DistributedSampler`
    deals. ``collate`` makes a batch of numpy arrays of a list of samples; with ``whole`` a
    source's ``take`` builds it where there is no ``transform``, which is (sample, index) ->
    sample. ``num_workers`` are processes; 0 loads in this one. ``pin_memory`` counts where there
    is CUDA. ``version`` is torch's.
    """

    def __init__(
        self,
        opener: Callable[[], Any],
        *,
        batch_size: int,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        shard: tuple[int, int] = (0, 1),
        collate: Callable[[list[Any]], Any],
        whole: bool = False,
        transform: Callable[[Any, int], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        reopen: Callable[[Any], bool] = lambda source: False,
    ) -> None:
        torch = import_torch()
        data = torch.utils.data
        self.version = str(torch.__version__)
        self._epoch = 0
        self._processes: list[Any] = []
        self._source = source = _Opened(opener)
        opened = source.get()
        source.reopen = reopen(opened)
        index, count = shard
        self._distributed = None
        if count > 1:
            sampler = self._distributed = data.DistributedSampler(
                opened, count, index, shuffle=shuffle, seed=seed, drop_last=drop_last
            )
        elif shuffle and len(opened):
            generator = torch.Generator()
            generator.manual_seed(seed)
            sampler = data.RandomSampler(opened, generator=generator)
        else:
            sampler = data.SequentialSampler(opened)
        options: dict[str, Any] = {
            "num_workers": num_workers,
            "persistent_workers": num_workers > 0,
            "pin_memory": pin_memory and bool(torch.cuda.is_available()),
        }
        if whole and transform is None and hasattr(opened, "take"):
            options |= {
                "dataset": _Whole(source),
                "sampler": data.BatchSampler(sampler, batch_size, drop_last),
                "batch_size": None,
            }
        else:
            kind = _Many if hasattr(opened, "__getitems__") else _Samples
            options |= {
                "dataset": kind(source, transform),
                "sampler": sampler,
                "batch_size": batch_size,
                "drop_last": drop_last,
                "collate_fn": partial(_collated, collate),
            }
        self._loader = data.DataLoader(**options)

    def __len__(self) -> int:
        """Give the number of steps of an epoch."""
        return len(self._loader)

    def begin(self) -> Iterator[tuple[int, Any]]:
        """Begin the next epoch: of each batch the number of its samples, and the batch.

        How many samples a batch is made of cannot be seen in what a user's collate has made.
        """
        if self._distributed is not None:
            self._distributed.set_epoch(self._epoch)
        self._epoch += 1
        before = multiprocessing.active_children()  # of the user's, perhaps
        try:
            return iter(self._loader)
        finally:
            now = multiprocessing.active_children()
            self._processes += [process for process in now if process not in before]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # DataLoader has no close(); it ends its processes when nothing refers to them.
        self._loader = None
        for process in multiprocessing.active_children():
            if process in self._processes:  # none, except after an exception
                process.terminate()
                process.join(5)
        self._source.close()


class _Opened:
    """The source, which a process opens for itself if it has inherited none that it may use."""

    reopen = False

    def __init__(self, opener: Callable[[], Any]) -> None:
        self._opener = opener
        self._source: Any = None
        self._process = 0

    def get(self) -> Any:
        if self._source is None or (self.reopen and self._process != os.getpid()):
            self._source = self._opener()
            self._process = os.getpid()
        return self._source

    def close(self) -> None:
        source, self._source = self._source, None
        close = getattr(source, "close", None)
        if callable(close):
            close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_source": None}


class _Samples:
    """Dataset: sample by sample."""

    def __init__(self, source: _Opened, transform: Callable[[Any, int], Any] | None = None) -> None:
        self._source = source
        self._transform = transform

    def __getitem__(self, index: int) -> Any:
        sample = self._source.get()[index]
        return sample if self._transform is None else self._transform(sample, index)


class _Many(_Samples):
    """Dataset: all samples of a batch at once."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        samples = list(self._source.get().__getitems__(indices))
        if self._transform is None:
            return samples
        return [self._transform(*pair) for pair in zip(samples, indices, strict=True)]


class _Whole(_Samples):
    """Dataset: whole batches, asked for by lists of indices."""

    def __getitem__(self, index: Any) -> Any:
        batch = self._source.get().take(np.asarray(index, np.int64))
        return len(index), _tensors(import_torch(), batch)


def _collated(collate: Callable[[list[Any]], Any], samples: list[Any]) -> Any:
    """Collate as the config says, and make tensors of the arrays."""
    return len(samples), _tensors(import_torch(), collate(samples))


def _tensors(torch: Any, batch: Any) -> Any:
    """Make tensors over the memory of a batch's arrays; what torch has no dtype for stays."""
    if isinstance(batch, np.ndarray):
        try:
            return torch.from_numpy(batch if batch.flags.writeable else batch.copy())
        except (TypeError, ValueError):  # the latter: a foreign byte order
            return batch
    if isinstance(batch, Mapping):
        return {name: _tensors(torch, part) for name, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        parts = [_tensors(torch, part) for part in batch]
        if isinstance(batch, list):
            return parts
        return type(batch)._make(parts) if hasattr(batch, "_make") else tuple(parts)
    return batch
