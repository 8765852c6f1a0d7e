"""threadloader itself, by the interface that its users have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._protocol import Job, Served

TITLE = "threadloader"
PACKAGE = "threadloader"
MODULE = "threadloader"


@contextmanager
def serve(job: Job) -> Iterator[Served]:
    """Serve a job."""
    from threadloader import Loader

    config, how = config_of(job)
    source = job.source if job.arrays is None else job.arrays
    given: dict[str, Any] = {"source": source, "transform": job.transform}
    if "collate" not in config:
        given["collate"] = job.collate
    with Loader(config, **given) as batches:
        yield Served(lambda: iter(batches), how)


def config_of(job: Job) -> tuple[dict[str, Any], str]:
    """Give the config that is fastest for a job, and how it is in words.

    What threadloader gains a new option for is written here.
    """
    # Enough batches under way for each worker to have a sample, and as many again.
    ahead = 3 + 2 * job.workers // job.batch_size
    config: dict[str, Any] = {
        "batch_size": job.batch_size,
        "num_workers": job.workers,
        "prefetch_batches": ahead,
    }
    how = [f"{job.workers} threads, prefetch_batches {ahead}" if job.workers else "no worker"]
    if job.arrays is not None:
        how.append("arrays as the source")
    elif job.mlm is not None:
        config["transform"] = {
            "type": "mlm",
            "vocabulary": job.mlm.vocabulary,
            "mask_token": job.mlm.mask,
            "special": [job.mlm.padding],
            "probability": job.mlm.probability,
            "field": "tokens",
        }
        value = {"tokens": job.mlm.padding, "labels": job.mlm.ignored}
        config["collate"] = {"type": "pad", "fields": list(value), "value": value}
        how.append("its own mlm and pad")
    elif job.collate is not None:
        how.append("the given collate")
    if job.step_holds_gil:
        config["switch_interval"] = "auto"
        how.append('switch_interval "auto"')
    if job.pinned:
        config["pin_memory"] = True
        how.append("pin_memory")
    return config, ", ".join(how)
