"""How a failed batch is raised: as what its source raised, and where."""

from __future__ import annotations

from ..engine import Outcome
from ..errors import CollateError, WorkerError
from ..jobs import BatchJob

__all__ = ["explained"]

WRAPPED = (StopIteration, GeneratorExit, SystemExit, KeyboardInterrupt)
"""Raised by user code, these would be taken for an end of the loop or of the program."""


def explained(outcome: Outcome, error: BaseException) -> BaseException:
    """Give what to raise for a failed batch.

    Args:
        outcome: the batch's.
        error: what was raised for it.

    Returns:
        The error itself, with a note of sample, step and epoch. If it would be taken for an
        end, or does not take the note: a `WorkerError` with it as its cause.
    """
    job: BatchJob | None = outcome.job
    what = "the order of the samples" if job is None else job.describe(outcome.part)
    if isinstance(error, CollateError) and job is not None:
        rows = range(len(job.info.indices))
        if all(row in rows for row in error.rows):
            error.samples = tuple(int(job.info.indices[row]) for row in error.rows)
    if not isinstance(error, WRAPPED) and _noted(error, f"threadloader: raised for {what}"):
        return error
    wrapper = WorkerError(f"{type(error).__name__} was raised for {what}; see its cause")
    wrapper.__cause__ = error
    return wrapper


def _noted(error: BaseException, note: str) -> bool:
    """Add a note, once; say whether the exception has taken it."""
    try:
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        return note in error.__notes__
    except Exception:  # noqa: BLE001 (it may refuse in any way)
        return False
