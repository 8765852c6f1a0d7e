"""What is done for a batch, or for several: samples are read, transformed, collated.

`_batch` is one batch as a job of the engine, `_patient` one whose samples may fail, `_group`
several as one, `_cut` cuts batches out of larger ones, `_facts` what is known of them beforehand,
`_info` what one is for whoever asks, `_policy` what is done about a sample that fails, `_failure`
one that was left out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._batch import BatchJob, NoBatch
from ._cut import UncutError
from ._facts import Recipe, Span
from ._group import GroupJob, SeriesJob

if TYPE_CHECKING:
    from ._failure import Failure
    from ._info import BatchInfo
    from ._patient import PatientJob
    from ._policy import Pause, Policy

__all__ = [
    "BatchInfo",
    "BatchJob",
    "Failure",
    "GroupJob",
    "NoBatch",
    "PatientJob",
    "Pause",
    "Policy",
    "Recipe",
    "SeriesJob",
    "Span",
    "UncutError",
]


_AT_NEED = {
    "BatchInfo": "_info",
    "Failure": "_failure",
    "PatientJob": "_patient",
    "Pause": "_policy",
    "Policy": "_policy",
}


if not TYPE_CHECKING:  # a checker would take any name to be there

    def __getattr__(name: str) -> Any:
        """Import what a run may do without when it is asked for (PEP 562)."""
        if name in _AT_NEED:
            return getattr(import_module(f".{_AT_NEED[name]}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
