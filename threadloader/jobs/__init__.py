"""What is done for a batch, or for several: samples are read, transformed, collated.

`_batch` is one batch as a job of the engine, `_retrying` one whose samples may fail, `_group`
several as one, `_no_batch` none, `_cut` cuts batches out of larger ones, `_recipe` what is known of
them beforehand, `_info` what one is for whoever asks, `_policy` what is done about a sample that
fails, `_failure` one that was left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ..errors import at_need
from ._batch import BatchJob
from ._cut import UncutError
from ._group import GroupJob, SeriesJob
from ._no_batch import NoBatch
from ._recipe import Recipe, Span, samples_of

if TYPE_CHECKING:
    from ._failure import Failure
    from ._info import BatchInfo
    from ._policy import Pause, Policy
    from ._retrying import RetryingJob

__all__ = [
    "AnyJob",
    "BatchInfo",
    "BatchJob",
    "Failure",
    "GroupJob",
    "NoBatch",
    "Pause",
    "Policy",
    "Recipe",
    "RetryingJob",
    "SeriesJob",
    "Span",
    "UncutError",
    "samples_of",
]


AnyJob: TypeAlias = BatchJob | GroupJob | SeriesJob | NoBatch
"""A job that the loader gives the engine. Besides what that asks of it, each has `span`, its place
in the epoch; `info(number)` and `samples(count)`, for whoever asks what was delivered; and what
came of it: `failures`, `retried` and `digests`."""

_AT_NEED = {
    "BatchInfo": "._info",
    "Failure": "._failure",
    "RetryingJob": "._retrying",
    "Pause": "._policy",
    "Policy": "._policy",
}


if not TYPE_CHECKING:  # a checker would take any name to be there
    __getattr__, __dir__ = at_need(globals(), _AT_NEED)
