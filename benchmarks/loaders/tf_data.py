"""tf.data: a graph that maps in parallel; Python code is called by its threads.

`repeat` lets it prepare the next epoch while this one ends; where an epoch ends is counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._protocol import Job, Served

TITLE = "tf.data"
PACKAGE = "tensorflow-cpu"
MODULE = "tensorflow"
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    import tensorflow as tf

    samples, size = len(job.source), job.batch_size
    calls = job.workers or None
    how = f"num_parallel_calls {job.workers}" if job.workers else "no parallel calls"
    if job.arrays is not None:
        # Variables are shared with the graph; constants would be copied into it.
        tensors = {name: tf.Variable(array) for name, array in job.arrays.items()}

        def gather(indices: Any) -> Any:
            return {name: tf.gather(tensor, indices) for name, tensor in tensors.items()}

        data = _index_batches(tf, samples, size).map(gather, num_parallel_calls=calls).repeat()
        how += ", index vectors of batches, map(gather)"
    elif job.cost == "cheap":

        def whole(indices: Any) -> Any:
            return job.batch(indices.tolist())

        data = _index_batches(tf, samples, size)
        data = _python(data, tf, whole, job.batch([0]), calls).repeat()
        how += ", index vectors of batches, map(numpy_function)"
    else:
        data = tf.data.Dataset.range(samples).shuffle(samples)

        def one(index: Any) -> Any:
            return job.sample(int(index))

        # Batches may begin before an epoch has ended only where none reaches over its end.
        early = samples % size == 0
        data = data.repeat() if early else data
        data = _python(data, tf, one, job.sample(0), calls).batch(size)
        data = data if early else data.repeat()
        how += ", range, shuffle, map(numpy_function), batch"
    options = tf.data.Options()
    if job.workers:
        # Python functions block a thread each; the pool of TensorFlow has one for each core.
        options.threading.private_threadpool_size = job.workers + 2
        data = data.prefetch(4)
    endless = iter(data.with_options(options))
    steps = -(-samples // size)
    yield Served(lambda: itertools.islice(endless, steps), how)


def _index_batches(tf: Any, samples: int, size: int) -> Any:
    """Give the index vectors of an epoch's batches, in a new order each time."""
    whole = samples // size * size

    def epoch(_: Any) -> Any:
        order = tf.random.shuffle(tf.range(samples, dtype=tf.int64))
        full = tf.data.Dataset.from_tensor_slices(tf.reshape(order[:whole], (-1, size)))
        if whole == samples:
            return full
        return full.concatenate(tf.data.Dataset.from_tensors(order[whole:]))

    return tf.data.Dataset.from_tensors(0).flat_map(epoch)


def _python(data: Any, tf: Any, function: Any, like: Any, calls: int | None) -> Any:
    """Map by a Python function of an index or of indices, whose results look like these."""
    like = {name: np.asarray(value) for name, value in like.items()}
    types = [value.dtype for value in like.values()]

    def flat(index: Any) -> Any:
        return tuple(np.asarray(value) for value in function(index).values())

    def named(index: Any) -> Any:
        values = tf.numpy_function(flat, [index], types, stateful=False)
        for value, one in zip(values, like.values(), strict=True):
            # Of a batch, rows and padding may differ from those of another.
            value.set_shape(one.shape if index.shape.rank == 0 else [None] * one.ndim)
        return dict(zip(like, values, strict=True))

    return data.map(named, num_parallel_calls=calls)
