"""mlx-data: streams in C++ that call Python; several threads prefetch.

Each epoch is a stream of its own: of one that goes on, the threads give some samples of the next
epoch before the last ones of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._protocol import Batch, Job, Served
from .._whole import Order, WholeBatches

TITLE = "mlx-data"
PACKAGE = "mlx-data"
MODULE = "mlx.data"


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    import mlx.data as dx

    how = [f"{job.workers} threads" if job.workers else "no worker"]
    if job.cost == "cheap":
        batches = WholeBatches(job)

        def epoch() -> Iterator[Any]:
            batches.order.shuffle()
            stream = dx.stream_python_iterable(lambda: ({"i": i} for i in batches.order))
            stream = stream.sample_transform(lambda sample: _arrays(batches.of(sample["i"])))
            return stream.prefetch(4 * job.workers, job.workers) if job.workers else stream

        how.append("a stream of whole batches")
    else:
        order = Order(job)

        def epoch() -> Iterator[Any]:
            order.shuffle()
            stream = dx.buffer_from_vector([{"i": i} for i in order.samples.tolist()]).to_stream()
            stream = stream.sample_transform(lambda sample: job.sample(int(sample["i"])))
            ahead = max(2 * job.batch_size, 2 * job.workers)
            return stream.prefetch(ahead, job.workers).batch(job.batch_size).prefetch(1, 1)

        how.append("samples, prefetch, batch, prefetch")
    yield Served(epoch, ", ".join(how))


def _arrays(batch: Batch) -> Batch:
    """Give what the package has types for; bool it has not."""
    return {
        name: value.view(np.uint8) if value.dtype == bool else value
        for name, value in batch.items()
    }
