"""What a kind of work and a loader agree on.

A *work* is a module of ``works/``. It names its cases, describes each as a `Job`, measures a
loader at it, and knows the limit:

    SHORT: str                  what the picture calls it
    TITLE: str                  what the table calls it
    LIMIT: str                  what the limit is, in one sentence
    METRICS: tuple[Metric, ...] what is told of each run
    LOADERS: tuple[str, ...]    optional: the only loaders that are asked by default
    cases(quick) -> list[Case]
    job(options) -> Job
    measure(job, serve, options, seconds) -> Numbers
    limit(job, options, seconds) -> Numbers, of the same names

A *loader* is a module of ``loaders/``, the only file that imports its package (``works/gpu.py``
alone has torch as well: for the device):

    TITLE: str                  what the table calls it
    PACKAGE: str                the distribution whose version is told
    MODULE: str                 what a user imports
    ENVIRONMENT: dict[str, str] optional: variables that its process is given
    serve(job)                  a context manager that gives a `Served`

`serve` runs the job in the way that is fastest with this package, without giving up what the
job asks for, and says in ``how`` which way that is. It raises `Cannot` where the package has
no such thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

__all__ = [
    "Batch",
    "Cannot",
    "Case",
    "Job",
    "Metric",
    "Mlm",
    "Numbers",
    "Sample",
    "Serve",
    "Served",
    "named",
    "stacked",
]

Sample = Mapping[str, Any]
"""Numpy arrays and numbers by name. ``index`` is the sample's own index in the source."""
Batch = Mapping[str, Any]
"""What `numpy.asarray` makes arrays of, by name; the first axis is the batch."""
Numbers = dict[str, float]
"""What one run gave, by the name of the `Metric`, without those that the system does not tell;
more names are kept for the JSON."""


class Cannot(Exception):  # noqa: N818 - it is no error: the table shows a dash
    """A loader has no way to do a job; the message says why."""


@dataclass(frozen=True)
class Mlm:
    """Padding and masking that a job asks for: what `works/ragged.py` does in numpy.

    Attributes:
        vocabulary: tokens are 0 to vocabulary - 1.
        padding: the token of padding; never hidden.
        mask: the token that stands for a hidden one; never in the source.
        probability: the chance of a token to be chosen.
        ignored: the label where none was chosen.
    """

    vocabulary: int
    padding: int
    mask: int
    probability: float
    ignored: int


@dataclass(frozen=True)
class Job:
    """What is to be loaded: every sample once per epoch, in an order of its own each epoch.

    Attributes:
        source: ``len(source)`` and ``source[i]`` -> sample, safe in several threads; it can
            be pickled.
        batch_size: samples of a batch; the last one of an epoch may be shorter.
        workers: how many samples (or batches, where samples cost little) may be worked on at
            once; 0: in the calling thread.
        cost: what a sample costs. "cheap": microseconds; "waits": storage; "computes": long
            work that lets the GIL go; "python": long work that holds it.
        transform: sample -> sample; None for none. It can be pickled.
        collate: list of samples -> batch, where the user has one; None: stack field by field.
        arrays: the source as whole arrays of equal first length, where it is nothing else.
        mlm: the padding and masking that `collate` does, for a loader with its own way.
        step_holds_gil: whether it is told that the training step is Python code, to loaders that
            have an option or processes for that.
        pinned: whether a loader that can is to give tensors in page-locked memory, from which
            copies to a CUDA device are fast.
        check: raises `WrongBatches` for a batch that is not what the job asks for; None:
            the batch must be what a plain loop makes of its samples.
    """

    source: Any
    batch_size: int
    workers: int
    cost: Literal["cheap", "waits", "computes", "python"]
    transform: Callable[[Any], Sample] | None = None
    collate: Callable[[list[Any]], Batch] | None = None
    arrays: dict[str, np.ndarray] | None = None
    mlm: Mlm | None = None
    step_holds_gil: bool = False
    pinned: bool = False
    check: Callable[[dict[str, np.ndarray]], None] | None = None

    @property
    def in_processes(self) -> bool:
        """Whether a loader that has threads and processes takes processes."""
        return self.cost == "python" or self.step_holds_gil

    def sample(self, index: int) -> Any:
        """Give one sample, transformed."""
        sample = self.source[index]
        return sample if self.transform is None else self.transform(sample)

    def samples(self, indices: Any) -> list[Any]:
        """Give some samples, transformed.

        Without a transform no call of ours comes between: cheap samples cost hardly more than it.
        """
        source, transform = self.source, self.transform
        if transform is None:
            return [source[index] for index in indices]
        return [transform(source[index]) for index in indices]

    def batch(self, indices: Any) -> Batch:
        """Give the batch that a plain loop in one thread makes."""
        samples = self.samples(indices)
        return stacked(samples) if self.collate is None else self.collate(samples)


class Served(NamedTuple):
    """A loader at work.

    Attributes:
        epoch: begins the next epoch.
        how: in a few words, the way in which the package is used.
    """

    epoch: Callable[[], Iterator[Batch]]
    how: str


Serve = Callable[[Job], AbstractContextManager[Served]]


@dataclass(frozen=True)
class Case:
    """One setting of a work.

    Attributes:
        name: what the table calls it; unique in its work.
        options: JSON values, all that `job` needs to know.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """One number of a run, and how it is compared with the limit's of the same turn.

    Attributes:
        name: of the number.
        title: what the table calls it.
        unit: "/s", "s", "B" or "part" (0 to 1).
        against: "share": the part of the limit that is reached, 1 at the limit, whether more
            or less of the number is better; "over": how much more than the limit it is; None:
            the number itself is told, as where the limit is 0.
        drawn: whether the picture shows it.
    """

    name: str
    title: str
    unit: Literal["/s", "s", "B", "part"]
    against: Literal["share", "over"] | None = "share"
    drawn: bool = True

    def compared(self, value: float, limit: float) -> float:
        """Give the number against the limit's."""
        if self.against == "share":
            return value / limit if self.unit == "/s" else limit / value
        return value / limit - 1 if self.against == "over" else value


def named(workers: int) -> str:
    """Give a number of workers in words.

    >>> named(0), named(1), named(8)
    ('no worker', '1 worker', '8 workers')
    """
    return f"{workers} workers" if workers > 1 else "1 worker" if workers else "no worker"


def stacked(samples: list[Any]) -> dict[str, np.ndarray]:
    """Stack samples field by field, as straightforwardly as numpy can.

    >>> stacked([{"index": 3}, {"index": 5}])
    {'index': array([3, 5])}
    """
    return {name: np.array([sample[name] for sample in samples]) for name in samples[0]}
