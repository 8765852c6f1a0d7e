"""Keras' PyDataset: whole batches, in the threads that fit() takes, or processes.

The backend makes no difference for what is measured, but has to be there. Without a worker, and
with one, for which fit() takes no thread either, it is iterated as it is; with more, or with
processes, by the adapter that fit() puts around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._protocol import Job, Served
from .._whole import WholeBatches

TITLE = "Keras PyDataset"
PACKAGE = "keras"
MODULE = "keras"
ENVIRONMENT = {"KERAS_BACKEND": "torch"}


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    import keras
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    class Batches(keras.utils.PyDataset):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._batches = WholeBatches(job)

        def __len__(self) -> int:
            return len(self._batches)

        def __getitem__(self, number: int) -> Any:
            return self._batches[number]

        def on_epoch_end(self) -> None:
            self._batches.order.shuffle()

    processes = job.in_processes
    if job.workers < 2 and not processes:
        plain = Batches()

        def epoch() -> Iterator[Any]:
            plain.on_epoch_end()
            return iter(plain)

        yield Served(epoch, "in the calling thread, whole batches")
        return
    batches = Batches(
        workers=job.workers, use_multiprocessing=processes, max_queue_size=2 * job.workers + 2
    )
    adapter = PyDatasetAdapter(batches)

    def ahead() -> Iterator[Any]:
        batches.on_epoch_end()
        return adapter.get_numpy_iterator()

    kind = "processes" if processes else "threads"
    yield Served(ahead, f"{job.workers} {kind}, whole batches")
