"""What is done for a batch, or for several small ones: samples are read, transformed, collated.

`_batch` is one batch as a job of the engine, `_group` several small ones as one, `_facts` what
is known of them beforehand, `_policy` what is done about a sample that fails.
"""

from ._batch import BatchJob
from ._facts import BatchInfo, Recipe, Span
from ._group import GroupJob, NoBatch
from ._policy import Failure, Pause, Policy

__all__ = [
    "BatchInfo",
    "BatchJob",
    "Failure",
    "GroupJob",
    "NoBatch",
    "Pause",
    "Policy",
    "Recipe",
    "Span",
]
