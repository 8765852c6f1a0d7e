"""Onto a GPU: arrays in memory, each batch copied to a CUDA device as soon as it comes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from .._check import WrongBatches
from .._measure import clock, throughput
from .._protocol import Batch, Cannot, Case, Job, Metric, Numbers, Serve, Served, named
from .arrays import Rows

SHORT = "Onto a GPU"
TITLE = "Onto a GPU: arrays in memory, shuffled, each batch copied to a CUDA device"
LIMIT = "one batch in page-locked memory, copied again and again"
METRICS = (Metric("samples_per_second", "samples/s", "/s", drawn=False),)
LOADERS = ("threadloader", "torch")

SHAPES: dict[str, tuple[tuple[int, ...], str, int, int]] = {
    "images": ((3, 224, 224), "u1", 4096, 64),
    "rows": ((784,), "f4", 60_000, 256),
}
"""By name: shape and dtype of a sample, samples, and how many of them a batch has."""


def cases(quick: bool) -> list[Case]:
    """Give two sizes of batches: 9.2 MiB and 0.8 MiB; page-locked, and as they are."""
    return [
        Case(
            f"{data}, {named(workers)}{'' if pinned else ', not pinned'}",
            {"data": data, "workers": workers, "pinned": pinned, "quick": quick},
        )
        for data in (("rows",) if quick else SHAPES)
        for workers in ((2,) if quick else (0, 2))
        for pinned in (True, False)
    ]


def job(options: dict[str, Any]) -> Job:
    """Give the arrays."""
    shape, dtype, samples, size = SHAPES[options["data"]]
    samples = 4 * size if options["quick"] else samples
    first = np.random.default_rng(0).integers(0, 200, shape, np.uint8).astype(dtype)
    index = np.arange(samples)
    x = first + index.astype(dtype).reshape(-1, *[1] * len(shape))  # rows differ; bytes wrap
    arrays = {"x": x, "index": index}
    return Job(
        source=Rows(arrays),
        batch_size=size,
        workers=options["workers"],
        cost="cheap",
        arrays=arrays,
        pinned=options["pinned"],
    )


def _torch() -> Any:
    """Give torch.

    Raises:
        Cannot: there is none, or it has no device.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise Cannot("expected torch with a CUDA device, found no torch") from None
    if not torch.cuda.is_available():
        raise Cannot(f"expected a CUDA device, torch {torch.__version__} sees none")
    return torch


def measure(job: Job, serve: Serve, options: dict[str, Any], seconds: float) -> Numbers:
    """Time a loop that copies; an epoch ends when its last copy has."""
    return throughput(job, partial(_sending, _torch(), serve), seconds)


@contextmanager
def _sending(torch: Any, serve: Serve, job: Job) -> Iterator[Served]:
    """Serve what a loader does, each batch when its copies are under way.

    The last batch of the last epoch is compared when no clock runs any more.
    """
    last: list[Any] = []

    def epoch(served: Served) -> Iterator[Batch]:
        for batch in served.epoch():
            last[:] = batch, _sent(torch, batch)
            yield batch
        torch.cuda.synchronize()

    with serve(job) as served:
        yield Served(partial(epoch, served), served.how)
        batch, copies = last
        for host, device in zip(batch.values(), copies, strict=True):
            if not np.array_equal(np.asarray(host), device.cpu().numpy()):
                raise WrongBatches("on the device a batch is another than in the host's memory")


def _sent(torch: Any, batch: Batch) -> list[Any]:
    """Begin to copy the fields of a batch to the device."""
    fields = batch.values()
    return [torch.as_tensor(field).to("cuda", non_blocking=True) for field in fields]


def limit(job: Job, options: dict[str, Any], seconds: float) -> Numbers:
    """Time copies of one batch, for which nobody has to do anything."""
    torch = _torch()
    batch = {
        name: torch.from_numpy(array[: job.batch_size]).pin_memory()
        for name, array in (job.arrays or {}).items()
    }
    for _ in range(8):  # the first ones take memory of the device
        _sent(torch, batch)
    torch.cuda.synchronize()
    copied, began = 0, clock()
    while True:
        for _ in range(8):
            _sent(torch, batch)
        torch.cuda.synchronize()
        copied += 8
        elapsed = clock() - began
        if elapsed >= seconds:
            return {"samples_per_second": copied * job.batch_size / elapsed}
